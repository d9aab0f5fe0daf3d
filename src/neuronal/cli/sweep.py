"""``neuronal sweep``: many networks at once."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from neuronal.cli.errors import stopping
from neuronal.cli.options import AsJson, Cluster, ModelOption, Out, Threads, Workers, grid_of, with_model_options
from neuronal.names import find


def sweep(
    recipe: Annotated[str, typer.Argument(help="A named recipe to start from.")],
    grid: Annotated[
        list[str], typer.Option(help="A field and its values, such as lr=0.001,0.01 or seeds=0-9; once for each field.")
    ],
    model_option: ModelOption = None,
    workers: Workers = None,
    threads: Threads = 1,
    memory: Annotated[float | None, typer.Option(help="GB all processes together may take.")] = None,
    cluster: Cluster = None,
    choose: Annotated[str, typer.Option(help="The field whose best value is chosen on held-out data.")] = "lr",
    name: Annotated[str | None, typer.Option(help="Folder of this run; <recipe>-grid if left out.")] = None,
    out: Out = Path("runs"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Train finished trials again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train every combination of some fields of a recipe, in parallel, and choose a value for every neuron.

    Finished trials are kept: the same command again goes on where it stopped. A worker that dies loses its trial only, which
    is done again.
    """
    from neuronal.core.records import to_json
    from neuronal.experiments.executors import executor_for
    from neuronal.experiments.first_look import RECIPES
    from neuronal.experiments.recipe import Recipe
    from neuronal.experiments.sweep import sweep as run_sweep
    from neuronal.experiments.tune import choose as chosen
    from neuronal.report.render_terminal import print_blocks
    from neuronal.report.terminal import Bars, choice_table
    from neuronal.train.engine import is_first_process

    study = grid_of(with_model_options(find(RECIPES, recipe, "recipe"), model_option), grid, name)
    folder = out / study.recipe.name
    find({field.name: field for field in fields(Recipe)}, choose, "field to choose")
    if memory is not None and not 0 < memory < float("inf"):
        raise ValueError(f"--memory needs a number of GB above 0, got {memory}.")
    if any(one.holdout == 0 and one.protocol != "published" for one in study.variants()):
        raise ValueError("choosing needs held-out data, got holdout 0. Give some: --grid holdout=0.1.")
    bars = Bars(Console(stderr=True, quiet=not is_first_process()))
    most = None if memory is None else int(memory * 1e9)
    with stopping(), executor_for(workers, threads, cluster, most) as executor, bars:
        records = run_sweep(study, folder, fresh=fresh, watch=bars, executor=executor)
    choices = chosen(records, choose)
    if not is_first_process():
        return
    if as_json:
        print(json.dumps(to_json({"grid": study, "choices": choices}), indent=1))
    else:
        print_blocks(Console(), [choice_table(choices, choose)])
