"""``neuronal bench``: what things cost."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from neuronal.cli.errors import fail, one_line_errors
from neuronal.cli.options import AsJson
from neuronal.cli.screen import screen

if TYPE_CHECKING:
    from neuronal.bench.gpu.sections import Outcome

app = typer.Typer(
    name="bench", help="Measure speed, always beside the plain torch layer in the same run.", rich_markup_mode=None
)

Rounds = Annotated[int, typer.Option(help="Rounds per case; the median is shown.")]
BenchOut = Annotated[Path, typer.Option(help="Folder for the numbers and the figure.")]


@app.command("layers")
def bench_layers(rounds: Rounds = 15, out: BenchOut = Path("runs/bench"), as_json: AsJson = False) -> None:
    """Time every layer against nn.Conv2d, forward and backward, and draw cost against width."""
    from neuronal.bench import layers
    from neuronal.core.files import write_whole
    from neuronal.report.bench import cost_against_width, layer_table

    with _benching(rounds, out):
        rows = list(layers.measure(rounds=rounds))
        widths = list(layers.measure_widths(rounds=max(2, rounds // 2)))
        write_whole(out / "layers.svg", cost_against_width(widths).svg)
    growth = layers.growth(widths)
    found = {"table": [row.to_json() for row in rows], "widths": [row.to_json() for row in widths], "growth": growth}
    _show_bench(out / "layers.json", found, layer_table(rows, growth), as_json)


@app.command("implicit")
def bench_implicit(rounds: Rounds = 15, out: BenchOut = Path("runs/bench"), as_json: AsJson = False) -> None:
    """Time implicit-bias convolutions against nn.Conv2d, and say how well their equation is solved."""
    from neuronal.bench import implicit
    from neuronal.report.bench import implicit_table

    with _benching(rounds, out):
        rows = list(implicit.measure(rounds=rounds))
        sides = list(implicit.measure_sides(rounds=max(2, rounds // 3)))
    power = implicit.exponent(sides)
    found = {"table": [row.to_json() for row in rows], "sides": [row.to_json() for row in sides], "exponent": power}
    _show_bench(out / "implicit.json", found, implicit_table(rows, power), as_json)


@app.command("certify")
def bench_certify(out: BenchOut = Path("runs/bench"), as_json: AsJson = False) -> None:
    """Time certificates and exact segments on networks trained for it, and patterns against plain inference."""
    from neuronal.bench import certify
    from neuronal.report.bench import certify_table

    with _benching(2, out):
        rows = list(certify.measure())
    _show_bench(out / "certify.json", {"table": [row.to_json() for row in rows]}, certify_table(rows), as_json)


@app.command("train")
def bench_train(rounds: Rounds = 15, out: BenchOut = Path("runs/bench"), as_json: AsJson = False) -> None:
    """Time the training loop against a bare loop of the same steps, with boundaries watched, and what prepares data."""
    from neuronal.bench import train
    from neuronal.report.bench import train_table

    with _benching(rounds, out):
        rows = list(train.measure(rounds=rounds))
        watched = list(train.measure_all_watched(rounds=rounds))
        preparation = train.measure_preparation(rounds=max(2, rounds // 7))
    found: dict[str, Any] = {"table": [row.to_json() for row in rows], "watched": [row.to_json() for row in watched]}
    found["preparation"] = preparation.to_json()
    _show_bench(out / "train.json", found, train_table(rows, watched, preparation), as_json)


@app.command("kernel")
def bench_kernel(rounds: Rounds = 9, out: BenchOut = Path("runs/bench"), as_json: AsJson = False) -> None:
    """Time tangent kernels against a plain torch.func Jacobian contraction, on the CPU."""
    from neuronal.bench import kernel
    from neuronal.report.bench import kernel_table

    with _benching(rounds, out):
        rows = list(kernel.measure(rounds=rounds))
    _show_bench(out / "kernel.json", {"table": [row.to_json() for row in rows]}, kernel_table(rows), as_json)


@app.command("gpu")
def bench_gpu(
    rounds: Rounds = 9,
    only: Annotated[list[str] | None, typer.Option(help="A section; once for each. All if left out.")] = None,
    out: BenchOut = Path("runs/bench"),
    as_json: AsJson = False,
) -> None:
    """Time everything on a GPU, section by section: blocks, networks, training, certificates, kernels, graphs."""
    from neuronal.bench.gpu.ceilings import Setting, gpu
    from neuronal.bench.gpu.sections import chosen, run
    from neuronal.core.files import make_writable
    from neuronal.report.bench_gpu import verdict

    _check_rounds(rounds)
    with one_line_errors():
        names = chosen(only or [])
        device = gpu()
        if device is None:
            fail("bench gpu needs a CUDA device, and there is none. The other benches run on a CPU.", 2)
        make_writable(out)
    kept = _Kept(out / "gpu.json", quiet=as_json)
    outcomes = run(names, Setting(device, rounds), kept)
    if as_json:
        print(kept.answer)
    else:
        print(verdict(outcomes))
        print(f"numbers: {kept.file}")
    failed = [outcome.name for outcome in outcomes if outcome.error]
    if failed:
        fail(f"{len(failed)} of {len(outcomes)} sections ended early: {', '.join(failed)}.", 1)


class _Kept:
    """Writes down what there is whenever a section has got further, and shows its table when it has ended."""

    def __init__(self, file: Path, *, quiet: bool) -> None:
        self.file, self.answer = file, ""
        self._quiet, self._sections = quiet, dict[str, Any]()
        # What is no terminal has no width of its own; the tables are wide.
        self._console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 150)

    def __call__(self, outcome: Outcome) -> None:
        from neuronal.core.files import write_whole
        from neuronal.experiments.environment import environment
        from neuronal.report.bench_gpu import section_table

        if outcome.name not in self._sections:
            print(f"neuronal: measuring {outcome.name}", file=sys.stderr, flush=True)
        self._sections[outcome.name] = outcome.to_json()
        self.answer = json.dumps({"environment": environment(), "sections": list(self._sections.values())}, indent=1)
        with one_line_errors():
            write_whole(self.file, self.answer + "\n")
        if outcome.ended and not self._quiet:
            self._console.print(section_table(outcome))
            sys.stdout.flush()


@contextmanager
def _benching(rounds: int, out: Path) -> Iterator[None]:
    """Inside: a sign of life; before it, whether the results can be kept."""
    from neuronal.core.files import make_writable

    _check_rounds(rounds)
    with one_line_errors():
        make_writable(out)
        with Console(stderr=True).status("timing (some minutes on two cores)"):
            yield


def _check_rounds(rounds: int) -> None:
    if rounds < 2:
        fail(f"--rounds needs to be at least 2, got {rounds}.", 2)


def _show_bench(file: Path, found: dict[str, Any], table: Table, as_json: bool) -> None:
    from neuronal.core.files import write_whole
    from neuronal.experiments.environment import environment

    answer = json.dumps({"environment": environment(), **found}, indent=1)
    with one_line_errors():
        write_whole(file, answer + "\n")
    if as_json:
        print(answer)
        return
    console = screen()
    console.print(table)
    console.print(f"numbers: {escape(str(file))}", highlight=False, soft_wrap=True)
