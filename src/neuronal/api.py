"""The main jobs in one call: compare the neurons on some data, audit a model. The command line calls these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn

from neuronal.core.files import below, make_writable
from neuronal.core.inference import check_module
from neuronal.data.catalogue import label_of, load
from neuronal.data.dataset import Dataset
from neuronal.experiments.audit import measure
from neuronal.experiments.cells import Study
from neuronal.experiments.environment import environment
from neuronal.experiments.executors import executor_for
from neuronal.experiments.first_look import DIGITS, LEVY, RECIPES
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.subject import subject
from neuronal.experiments.sweep import costs, sweep
from neuronal.names import UnknownName, find, unknown
from neuronal.nn.families import FAMILIES, family
from neuronal.nn.standard import Options
from neuronal.report.audit import Audit
from neuronal.report.comparison import Comparison
from neuronal.report.terminal import Bars
from neuronal.train.engine import is_first_process


def compare(
    data: str | Path | None = None,
    model: str | None = None,
    neurons: str | Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    epochs: int | None = None,
    *,
    recipe: str | Recipe | None = None,
    name: str | None = None,
    out: str | Path = "runs",
    fresh: bool = False,
    progress: bool = True,
    workers: int | None = 1,
    threads: int = 1,
    cluster: str | None = None,
    **further: Any,
) -> Comparison:
    """Trains the same network with each neuron and several seeds, as ``neuronal compare`` does.

    What is left out the recipe decides: ``digits``, or ``levy`` where numbers are to be predicted. Finished trials are kept:
    the same call again, after Ctrl-C or a crash, goes on where it stopped, and in the end trains nothing.

    Args:
        data: A dataset by name, or the path of one.
        model: A network by name.
        neurons: Names of neurons; all if left out.
        seeds: One trial is trained per neuron and seed.
        epochs: Passes over the training data.
        recipe: What to start from: the name of a recipe, or one of your own.
        name: Folder of this run; ``<data>-<model>`` if left out.
        out: Folder that holds the runs.
        fresh: Train finished trials again.
        progress: Show bars on standard error; nothing is printed otherwise.
        workers: Processes that share the trials, as many as there are cores if None; 1 is this process. A script that asks
            for more needs ``if __name__ == "__main__":``, as all that starts processes does.
        threads: Threads of each.
        cluster: Address of a dask scheduler whose workers train instead.
        further: Other fields of :class:`neuronal.Recipe`, such as ``lr``, ``widths`` or ``model_options``.

    Raises:
        ValueError: Something that does not exist or does not fit together, in one line, before anything is trained.
        OSError: Nothing can be written to ``out``.
    """
    study = _study(data, model, neurons, recipe, name, further | {"seeds": seeds, "epochs": epochs})
    folder = Path(out) / study.recipe.name
    is_first = is_first_process()
    bars = Bars(Console(stderr=True, quiet=not is_first)) if progress else None
    with executor_for(workers, threads, cluster) as executor, bars or nullcontext():
        records = sweep(study, folder, fresh=fresh, watch=bars, executor=executor)
    times = costs(study, folder, fresh=fresh) if is_first else None
    return Comparison.from_records(records, study=study, step_times=times, folder=folder)


def _study(
    data: str | Path | None,
    model: str | None,
    neurons: str | Sequence[str] | None,
    recipe: str | Recipe | None,
    name: str | None,
    further: Mapping[str, Any],
) -> Study:
    if not isinstance(data, str | Path | None):
        raise TypeError(
            f"compare needs data by name or path, got {type(data).__name__}. "
            "Records are compared by Comparison.from_records(records)."
        )
    possible = [field.name for field in fields(Recipe) if field.name not in ("name", "family")]
    for field in further:
        if field not in possible:
            raise UnknownName(unknown("option of compare", field, ["neurons", *possible]))
    chosen = {"data": None if data is None else str(data), "model": model, **further}
    chosen = {field: value for field, value in chosen.items() if value is not None}
    start = recipe if isinstance(recipe, Recipe) else DIGITS if recipe is None else find(RECIPES, recipe, "recipe")
    if recipe is None and "data" in chosen and load(chosen["data"]).task == "regression":
        start = LEVY
    if "model_options" in chosen:
        chosen["model_options"] = dict(start.model_options) | dict(chosen["model_options"])
    base = replace(start, **chosen)
    own = f"{label_of(base.data)}-{base.model}" if recipe is None else base.name
    names = FAMILIES if neurons is None else [neurons] if isinstance(neurons, str) else neurons
    place = below(own if name is None else name)
    return Study(replace(base, name=place), tuple(family(one).name for one in names))


def audit(
    model: nn.Module | str | Path,
    data: Dataset | str | Path,
    *,
    rows: int = 1000,
    pairs: int = 200,
    scaling: str = "unit",
    model_options: Options | None = None,
    seed: int = 0,
    out: str | Path = "runs",
    progress: bool = True,
) -> Audit:
    """Measures and certifies a classifier, as ``neuronal audit`` does; the model is not changed.

    Contrast, zero image, dead units, distances, curvature, segments: a part that does not apply says why.

    Args:
        model: A module, or what names one: a file, a model of ours, ``timm:NAME``, ``torchvision:NAME`` or
            ``package.module:function``.
        data: A dataset, or one by name or path; its test inputs are used.
        rows: Test inputs to look at.
        pairs: Segments between inputs of one class to certify.
        scaling: How the inputs are scaled, as in training; a dataset that is handed in stays as it is for ``unit``.
        model_options: Options of a model that is named.
        seed: Draws the inputs and the pairs.
        out: Folder that holds the runs; the page goes to ``audit`` below it.
        progress: Show on standard error what is being done; nothing is printed otherwise.

    Raises:
        ValueError: Something that does not exist or does not fit together, in one line.
        OSError: Nothing can be written to ``out``.
    """
    if not isinstance(model, str | Path):
        check_module(model)
    named = model if isinstance(model, nn.Module) else str(model)
    folder = Path(out) / "audit"
    make_writable(folder)
    one = subject(named, data if isinstance(data, Dataset) else str(data), scaling, model_options)
    assert one.data is not None
    with Console(stderr=True, quiet=not progress).status("auditing") as status:
        found = measure(
            one.model,
            one.data,
            rows=rows,
            pairs=pairs,
            seed=seed,
            on_section=lambda section: status.update(section.replace("_", " ")),
        )
    return Audit(
        model=named if isinstance(named, str) else type(named).__name__,
        data=data.name if isinstance(data, Dataset) else str(data),
        classes=one.data.classes,
        sections=found.sections,
        seconds=found.seconds,
        environment=environment(),
        folder=folder,
    )
