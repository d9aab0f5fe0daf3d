"""``neuronal compare`` and ``neuronal report``: the same network with each neuron, and the page about it."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from neuronal.cli.errors import stopping
from neuronal.cli.options import AsJson, Cluster, ModelOption, Out, Threads, Workers, named_values, whole_numbers
from neuronal.cli.screen import escape

if TYPE_CHECKING:
    from neuronal.report.comparison import Comparison


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
    workers: Workers = None,
    threads: Threads = 1,
    cluster: Cluster = None,
    name: Annotated[str | None, typer.Option(help="Folder of this run; <data>-<model> if left out.")] = None,
    out: Out = Path("runs"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Train finished trials again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train the same network with each neuron, several seeds, and write a page that compares them.

    What an option leaves open the recipe decides: digits, or levy where numbers are to be predicted. Finished trials are
    kept: the same command again, after Ctrl-C or a crash, goes on where it stopped.
    """
    chosen: dict[str, Any] = {
        "batch_size": batch_size,
        "optim": optim,
        "lr": lr,
        "momentum": momentum,
        "weight_decay": weight_decay,
        "scaling": scaling,
        "schedule": schedule,
        "holdout": holdout,
        "widths": None if widths is None else whole_numbers("widths", widths),
        "model_options": named_values(model_option, "model-option") if model_option else None,
    }
    from neuronal.api import compare

    with stopping():
        comparison = compare(
            data,
            model,
            None if neurons is None else [word.strip() for word in neurons.split(",")],
            None if seeds is None else whole_numbers("seeds", seeds),
            epochs,
            recipe=recipe,
            name=name,
            out=out,
            fresh=fresh,
            workers=workers,
            threads=threads,
            cluster=cluster,
            **chosen,
        )
        _show(comparison, as_json)


def report(
    run: Annotated[Path, typer.Argument(help="Folder of a run, such as runs/digits-cnn, or of results/zero_bias.")],
    as_json: AsJson = False,
    out: Annotated[Path | None, typer.Option(help="Page of a folder of results; beside the runs if left out.")] = None,
) -> None:
    """Draw the page of a run, or of a paper's results, again from its records, without training anything."""
    if not (run / "study.json").exists() and any(run.glob("*.json")):
        _results(run, out or Path("runs") / f"{run.name}.html", as_json)
        return
    from neuronal.report.comparison import Comparison
    from neuronal.report.terminal import Bars

    _show(Comparison.from_folder(run, Bars(Console(stderr=True))), as_json)


def _show(comparison: Comparison, as_json: bool) -> None:
    """Writes the page, prints the table or the JSON; among several processes the first one does."""
    from neuronal.report.render_terminal import print_blocks
    from neuronal.train.engine import is_first_process

    if not is_first_process():
        return
    page = comparison.write_page()
    if as_json:
        print(json.dumps(comparison.to_json() | {"report": str(page)}, indent=1))
        return
    console = Console()
    print_blocks(console, comparison.blocks())
    console.print(f"report: {escape(str(page))}", highlight=False, soft_wrap=True)


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
