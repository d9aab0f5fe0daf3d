"""``neuronal train``: one network."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from neuronal.cli.errors import fail, keeping, last_state
from neuronal.cli.options import AsJson, ModelOption, Out, grid_of, with_model_options
from neuronal.names import find

if TYPE_CHECKING:
    from neuronal.train.progress import Epoch


def train(
    recipe: Annotated[str, typer.Argument(help="A named recipe to start from.")] = "digits",
    neuron: Annotated[str, typer.Option(help="The neuron (see: neuronal neurons).")] = "standard",
    set: Annotated[
        list[str] | None, typer.Option(help="A field and its value, such as lr=0.01; once for each.")
    ] = None,
    model_option: ModelOption = None,
    seed: Annotated[int, typer.Option(help="Fixes everything random.")] = 0,
    every: Annotated[int | None, typer.Option(help="Steps between checkpoints; five minutes if left out.")] = None,
    board: Annotated[bool, typer.Option("--board", help="Also for TensorBoard (needs the track extra).")] = False,
    name: Annotated[str | None, typer.Option(help="Folder of this training.")] = None,
    out: Out = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Train one network, with checkpoints, a log and the trained model as a file.

    The same command goes on where it was stopped, also under torchrun or accelerate launch.
    """
    from neuronal.convert.checkpoint import save_model
    from neuronal.core.files import make_writable
    from neuronal.experiments.first_look import RECIPES
    from neuronal.experiments.recipe import PROTOCOLS
    from neuronal.experiments.record import write
    from neuronal.experiments.run import check, trained
    from neuronal.experiments.trial import lock
    from neuronal.nn.families import family
    from neuronal.report.terminal import Live
    from neuronal.report.words import result
    from neuronal.train.board import Board
    from neuronal.train.checkpoint import Checkpoints
    from neuronal.train.engine import is_first_process
    from neuronal.train.log import Log

    start = with_model_options(find(RECIPES, recipe, "recipe"), model_option)
    base = replace(start, family=family(neuron).name, seeds=(seed,))
    place_name = f"{base.name}-{neuron}" if name is None else name
    variants = grid_of(base, set or [], place_name, "set").variants()
    if len(variants) > 1 or variants[0].seeds != (seed,):
        raise ValueError("--set takes one value for a field, and the seed is given with --seed. See: neuronal sweep.")
    chosen = variants[0]
    folder = out / chosen.name
    check(chosen)
    make_writable(folder)
    place = folder / "checkpoints"
    note = "" if chosen.protocol == "clean" else f"protocol {chosen.protocol}: {PROTOCOLS[chosen.protocol]}"
    if note and is_first_process():
        print(f"neuronal: {note}", file=sys.stderr)
    drawn = Board(folder / "board") if board and is_first_process() else None
    kept = Checkpoints(place) if every is None else Checkpoints(place, every=every)
    with lock(folder / "training") as is_ours:
        if is_ours is False and is_first_process():
            print(f"neuronal: waiting for another neuronal train in {folder}", file=sys.stderr)
    screen = Console(stderr=True, quiet=not is_first_process())
    with keeping(place), lock(folder / "training", wait=True), Live(screen, chosen) as live:

        def show(epoch: Epoch) -> None:
            live.epoch(epoch)
            if drawn:
                drawn(epoch)

        log = Log(folder / "log.jsonl", show, note=note)
        record, model = trained(chosen, seed, on_epoch=log, on_step=live.step, checkpoints=kept)
        if is_first_process():
            write(record, folder)
            if not record.failure:
                save_model(model, folder / "model.safetensors")
    if record.failure:
        fail(f"{record.failure.reason}; {last_state(place)}.", 1)
    if is_first_process():
        answer = {"metrics": dict(record.metrics), "model": str(folder / "model.safetensors")}
        print(json.dumps(answer, indent=1) if as_json else f"{result(record.metrics)}; {answer['model']}")
