"""``neuronal compare`` and ``neuronal report``: the same network with each neuron, and the page about it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from neuronal.cli.errors import stopping
from neuronal.cli.options import AsJson, ModelOption, Out, below, whole_numbers, with_model_options
from neuronal.cli.screen import escape
from neuronal.names import find

if TYPE_CHECKING:
    from neuronal.experiments.record import Record
    from neuronal.experiments.sweep import Study
    from neuronal.train.timing import StepTime


def compare(
    recipe: Annotated[str | None, typer.Option(help="A named recipe to start from.")] = None,
    data: Annotated[str | None, typer.Option(help="Dataset (see: neuronal data), or a path to your own.")] = None,
    model: Annotated[str | None, typer.Option(help="Network (see: neuronal models).")] = None,
    widths: Annotated[str | None, typer.Option(help="Units per layer, such as 32,64,128.")] = None,
    model_option: ModelOption = None,
    neurons: Annotated[str | None, typer.Option(help="Neurons, such as standard,zero_bias; all if left out.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds, such as 0,1,2 or 0-9.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training data.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Images per step.")] = None,
    optim: Annotated[str | None, typer.Option(help="sgd, adam, adamw or adadelta.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    momentum: Annotated[float | None, typer.Option(help="Momentum of sgd.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="L2 penalty.")] = None,
    scaling: Annotated[
        str | None, typer.Option(help="unit (inputs as they are), standardise or standardise_inputs.")
    ] = None,
    schedule: Annotated[str | None, typer.Option(help="constant, cosine, step or one_cycle_linear.")] = None,
    holdout: Annotated[float | None, typer.Option(help="Share of the training data kept to follow accuracy.")] = None,
    name: Annotated[str | None, typer.Option(help="Folder of this run; <data>-<model> if left out.")] = None,
    out: Out = Path("runs"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Train finished cells again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train the same network with each neuron, several seeds, and write a page that compares them.

    What an option leaves open the recipe decides: digits, or levy where numbers are to be predicted. Finished cells are
    kept: the same command again, after Ctrl-C or a crash, goes on where it stopped.
    """
    options = {
        "data": data,
        "model": model,
        "widths": None if widths is None else whole_numbers("widths", widths),
        "seeds": None if seeds is None else whole_numbers("seeds", seeds),
        "epochs": epochs,
        "batch_size": batch_size,
        "optim": optim,
        "lr": lr,
        "momentum": momentum,
        "weight_decay": weight_decay,
        "scaling": scaling,
        "schedule": schedule,
        "holdout": holdout,
    }
    from neuronal.experiments.sweep import prepare, sweep
    from neuronal.report.terminal import Bars
    from neuronal.train.engine import is_first_process

    given = {key: value for key, value in options.items() if value is not None}
    study = _study(recipe, given, model_option, neurons, name)
    folder = out / study.recipe.name
    prepare(study, folder)
    bars = Bars(Console(stderr=True, quiet=not is_first_process()))
    with stopping(study, folder, bars, fresh):
        with bars:
            records = sweep(study, folder, fresh=fresh, watch=bars)
        if is_first_process():
            _show(study, folder, records, fresh, as_json)


def report(
    run: Annotated[Path, typer.Argument(help="Folder of a run, such as runs/digits-cnn, or of results/zero_bias.")],
    as_json: AsJson = False,
    out: Annotated[Path | None, typer.Option(help="Page of a folder of results; beside the runs if left out.")] = None,
) -> None:
    """Draw the page of a run, or of a paper's results, again from its records, without training anything."""
    if not (run / "study.json").exists() and any(run.glob("*.json")):
        _results(run, out or Path("runs") / f"{run.name}.html", as_json)
        return
    from neuronal.data.catalogue import load
    from neuronal.experiments.sweep import finished, read_study
    from neuronal.report.terminal import Bars

    study = read_study(run)
    bars = Bars(Console(stderr=True))
    found = [finished(cell, run, bars) for cell in study.cells()]
    records = [record for record in found if record]
    if not records:
        raise ValueError(f"{run} has no finished cell to report on. Run its neuronal compare first.")
    if len(records) < len(found):
        print(f"neuronal: {len(found) - len(records)} of {len(found)} cells are not finished", file=sys.stderr)
    if any(record.data not in ("", load(study.recipe.data).checksum()) for record in records):
        print(
            f"neuronal: the data at {study.recipe.data} have changed since these cells were trained",
            file=sys.stderr,
        )
    _show(study, run, records, False, as_json)


def _results(folder: Path, page: Path, as_json: bool) -> None:
    """The page of results that another package wrote into a folder (entry points ``neuronal.reports``)."""
    from neuronal.core.files import make_writable, write_whole

    reports = [point.load() for point in entry_points(group="neuronal.reports")]
    drawn = next((drawn for report in reports if (drawn := report(folder))), None)
    if drawn is None:
        raise ValueError(f"{folder} has no study.json of neuronal compare, and no results of another command.")
    html, sentences = drawn
    make_writable(page.parent)
    write_whole(page, html)
    if as_json:
        print(json.dumps({"findings": sentences, "report": str(page)}, indent=1))
        return
    console = Console()
    for name, lines in sentences.items():
        console.print(f"[bold]{escape(name)}[/]", highlight=False)
        for line in lines:
            console.print(f"- {escape(line)}", highlight=False)
    console.print(f"report: {escape(str(page))}", highlight=False, soft_wrap=True)


def _study(
    recipe: str | None,
    options: Mapping[str, Any],
    model_option: list[str] | None,
    neurons: str | None,
    name: str | None,
) -> Study:
    from neuronal.data.catalogue import label_of, load
    from neuronal.experiments.first_look import DIGITS, LEVY, RECIPES
    from neuronal.experiments.sweep import Study
    from neuronal.nn.families import FAMILIES, family

    start = DIGITS if recipe is None else find(RECIPES, recipe, "recipe")
    if recipe is None and "data" in options and load(options["data"]).task == "regression":
        start = LEVY
    base = with_model_options(replace(start, **options), model_option)
    own = base.name if recipe is not None else f"{label_of(base.data)}-{base.model}"
    place = below(own if name is None else name)
    chosen = FAMILIES if neurons is None else dict.fromkeys(word.strip() for word in neurons.split(","))
    return Study(replace(base, name=place), tuple(family(word).name for word in chosen))


def _show(study: Study, folder: Path, records: Sequence[Record], fresh: bool, as_json: bool) -> None:
    """Writes the page, prints the table or the JSON."""
    from neuronal.core.files import write_whole
    from neuronal.core.records import to_json
    from neuronal.data.catalogue import load
    from neuronal.experiments.compare import compare
    from neuronal.experiments.sweep import costs
    from neuronal.report.document import Bullets
    from neuronal.report.page import page
    from neuronal.report.render_html import render_html
    from neuronal.report.render_terminal import print_blocks
    from neuronal.report.terminal import comparison_table
    from neuronal.report.words import findings

    dataset = load(study.recipe.data)
    comparison = compare(records)
    measured = costs(study, folder, fresh=fresh)
    by_family: dict[str, StepTime] = {v.family: cost for v in study.variants() if (cost := measured.of(v))}
    sentences = findings(comparison, records, by_family, dataset.classes)
    file = folder / "report.html"
    write_whole(file, render_html(page(study, dataset, records, comparison, by_family)))
    if as_json:
        answer = {"study": study.to_json(), "comparison": comparison.to_json(), "costs": to_json(measured)}
        print(json.dumps(answer | {"findings": sentences, "report": str(file)}, indent=1))
        return
    console = Console()
    print_blocks(console, [comparison_table(comparison, by_family, _title(study)), Bullets(sentences)])
    console.print(f"report: {escape(str(file))}", highlight=False, soft_wrap=True)


def _title(study: Study) -> str:
    from neuronal.core.words import counted
    from neuronal.data.catalogue import label_of

    return f"{study.recipe.model} on {label_of(study.recipe.data)}, {counted(len(study.recipe.seeds), 'seed')}"
