"""The ``neuronal`` command: parse, call one function, print. Torch is imported only by commands that compute."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from neuronal.names import find, unknown

if TYPE_CHECKING:
    from neuronal.experiments.cells import Plan
    from neuronal.experiments.record import Record
    from neuronal.experiments.sweep import Study
    from neuronal.report.terminal import Bars
    from neuronal.train.timing import StepTime

app = typer.Typer(
    name="neuronal",
    help="Change the neuron, keep the network.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Out = Annotated[Path, typer.Option(help="Folder that holds the runs.")]


@app.command()
def compare(
    recipe: Annotated[str | None, typer.Option(help="A named recipe to start from.")] = None,
    data: Annotated[str | None, typer.Option(help="Dataset (see: neuronal data), or a path to your own.")] = None,
    model: Annotated[str | None, typer.Option(help="Network (see: neuronal models).")] = None,
    widths: Annotated[str | None, typer.Option(help="Units per layer, such as 32,64,128.")] = None,
    neurons: Annotated[str | None, typer.Option(help="Neurons, such as standard,zero_bias; all if left out.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds, such as 0,1,2 or 0-9.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training data.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Images per step.")] = None,
    optim: Annotated[str | None, typer.Option(help="sgd, adam, adamw or adadelta.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    momentum: Annotated[float | None, typer.Option(help="Momentum of sgd.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="L2 penalty.")] = None,
    schedule: Annotated[str | None, typer.Option(help="constant, cosine, step or one_cycle_linear.")] = None,
    holdout: Annotated[float | None, typer.Option(help="Share of the training data kept to follow accuracy.")] = None,
    name: Annotated[str | None, typer.Option(help="Folder of this run; <data>-<model> if left out.")] = None,
    out: Out = Path("runs"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Train finished cells again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train the same network with each neuron, several seeds, and write a page that compares them.

    What an option leaves open the recipe decides. Finished cells are kept: the same command again, after Ctrl-C or a
    crash, goes on where it stopped.
    """
    options = {
        "data": data,
        "model": model,
        "widths": None if widths is None else _whole_numbers("widths", widths),
        "seeds": None if seeds is None else _whole_numbers("seeds", seeds),
        "epochs": epochs,
        "batch_size": batch_size,
        "optim": optim,
        "lr": lr,
        "momentum": momentum,
        "weight_decay": weight_decay,
        "schedule": schedule,
        "holdout": holdout,
    }
    with _one_line_errors():
        from neuronal.experiments.sweep import prepare, sweep
        from neuronal.report.terminal import Bars

        study = _study(recipe, {key: value for key, value in options.items() if value is not None}, neurons, name)
        folder = out / study.recipe.name
        prepare(study, folder)
    bars = Bars(Console(stderr=True))
    with _stopping(study, folder, bars, fresh):
        with bars:
            records = sweep(study, folder, fresh=fresh, watch=bars)
        _show(study, folder, records, fresh, as_json)


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(help="A named recipe to start from.")] = "digits",
    neuron: Annotated[str, typer.Option(help="The neuron (see: neuronal neurons).")] = "standard",
    set: Annotated[
        list[str] | None, typer.Option(help="A field and its value, such as lr=0.01; once for each.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Fixes everything random.")] = 0,
    every: Annotated[int | None, typer.Option(help="Steps between checkpoints; five minutes if left out.")] = None,
    name: Annotated[str | None, typer.Option(help="Folder of this training.")] = None,
    out: Out = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Train one network, with checkpoints, a log and the trained model as a file.

    The same command goes on where it was stopped, also under torchrun or accelerate launch.
    """
    with _one_line_errors():
        from neuronal.convert.checkpoint import save_model
        from neuronal.experiments.record import write
        from neuronal.experiments.run import check, trained
        from neuronal.experiments.storage import make_writable
        from neuronal.nn.families import family
        from neuronal.recipes import RECIPES
        from neuronal.report.terminal import Live
        from neuronal.train.checkpoint import Checkpoints
        from neuronal.train.engine import is_first_process
        from neuronal.train.log import Log

        base = replace(find(RECIPES, recipe, "recipe"), family=family(neuron).name)
        (chosen,) = _grid(base, [*(set or []), f"seeds={seed}"], name or f"{base.name}-{neuron}", "set").variants()
        folder = out / chosen.name
        check(chosen)
        make_writable(folder)
        place = folder / "checkpoints"
        kept = Checkpoints(place, **({} if every is None else {"every": every}))
    with _one_line_errors(), Live(Console(stderr=True), chosen) as live:
        record, model = trained(
            chosen, seed, on_epoch=Log(folder / "log.jsonl", live.epoch), on_step=live.step, checkpoints=kept
        )
        if is_first_process():
            write(record, folder)
            save_model(model, folder / "model.safetensors")
    if record.failure:
        _fail(f"{record.failure.reason}; the last good state is kept in {place}.", 1)
    if is_first_process():
        answer = {"metrics": dict(record.metrics), "model": str(folder / "model.safetensors")}
        print(
            json.dumps(answer, indent=1)
            if as_json
            else f"{100 * record.metrics['accuracy']:.1f}% right; {answer['model']}"
        )


@app.command()
def sweep(
    recipe: Annotated[str, typer.Argument(help="A named recipe to start from.")],
    grid: Annotated[
        list[str], typer.Option(help="A field and its values, such as lr=0.001,0.01 or seeds=0-9; once for each field.")
    ],
    engine: Annotated[str, typer.Option(help="processes, here, or slurm.")] = "processes",
    workers: Annotated[int | None, typer.Option(help="Processes at a time; one per core if left out.")] = None,
    threads: Annotated[int, typer.Option(help="Threads of each process.")] = 1,
    memory: Annotated[float | None, typer.Option(help="GB all processes together may take.")] = None,
    choose: Annotated[str, typer.Option(help="The field whose best value is chosen on held-out data.")] = "lr",
    name: Annotated[str | None, typer.Option(help="Folder of this run; <recipe>-grid if left out.")] = None,
    out: Out = Path("runs"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Train finished cells again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train every combination of some fields of a recipe, in parallel, and choose a value for every neuron.

    Finished cells are kept: the same command again goes on where it stopped. A worker that dies loses its cell only, which
    is tried again.
    """
    with _one_line_errors():
        from neuronal.experiments.engine import InTurn, Processes, slurm
        from neuronal.experiments.sweep import prepare
        from neuronal.experiments.sweep import sweep as run_sweep
        from neuronal.experiments.tune import choose as chosen
        from neuronal.recipes import RECIPES
        from neuronal.report.terminal import Bars, choice_table

        study = _grid(find(RECIPES, recipe, "recipe"), grid, name)
        folder = out / study.recipe.name
        engines: dict[str, Callable[[], Any]] = {
            "here": InTurn,
            "processes": lambda: Processes(workers, threads, None if memory is None else int(memory * 1e9)),
            "slurm": lambda: slurm(folder / "slurm"),
        }
        place = find(engines, engine, "engine")()
        prepare(study, folder)
    bars = Bars(Console(stderr=True))
    with _stopping(study, folder, bars, fresh), bars:
        records = run_sweep(study, folder, fresh=fresh, watch=bars, engine=place)
    with _one_line_errors():
        choices = chosen(records, choose)
    if as_json:
        print(json.dumps({"grid": study.to_json(), "choices": [choice.to_json() for choice in choices]}, indent=1))
    else:
        Console().print(choice_table(choices, choose))


def _grid(base: Any, words: Sequence[str], name: str | None, option: str = "grid") -> Any:
    """The grid that ``field=value,value`` words span over a recipe; ``seeds`` are the recipe's own."""
    from neuronal.experiments.cells import Grid
    from neuronal.nn.families import family

    kinds = {field.name: field.type for field in fields(base)}
    axes: list[tuple[str, tuple[Any, ...]]] = []
    for word in words:
        field, equals, text = word.partition("=")
        field = {"seed": "seeds", "neuron": "family", "neurons": "family"}.get(field, field)
        if not equals or not text:
            raise ValueError(f"--{option} needs field=value, got {word!r}.")
        if field == "seeds":
            base = replace(base, seeds=_whole_numbers(option, text))
            continue
        kind = str(kinds.get(field, "str"))
        try:
            values: tuple[Any, ...]
            if kind.startswith("tuple"):
                # A list of numbers is one value.
                values = (tuple(json.loads(f"[{text}]")),)
            else:
                read: dict[str, Callable[[str], Any]] = {"float": float, "int": int, "bool": _truth}
                values = tuple(read.get(kind, str)(one) for one in text.split(","))
        except (ValueError, KeyError) as odd:
            needed = "true or false" if kind == "bool" else "numbers"
            raise ValueError(f"--{option} {field} needs {needed}, got {text!r}.") from odd
        axes.append((field, tuple(family(one).name for one in values) if field == "family" else values))
    return Grid(replace(base, name=name or f"{base.name}-grid"), tuple(axes))


def _truth(word: str) -> bool:
    return {"true": True, "false": False}[word.lower()]


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="Folder of a run, such as runs/digits-cnn.")],
    as_json: AsJson = False,
) -> None:
    """Draw the page of a run again from its records, without training anything."""
    from neuronal.experiments.sweep import finished, read_study
    from neuronal.report.terminal import Bars

    with _one_line_errors():
        study = read_study(run)
        bars = Bars(Console(stderr=True))
        found = [finished(cell, run, bars) for cell in study.cells()]
        records = [record for record in found if record]
        if not records:
            raise ValueError(f"{run} has no finished cell to report on. Run its neuronal compare first.")
        if len(records) < len(found):
            print(f"neuronal: {len(found) - len(records)} of {len(found)} cells are not finished", file=sys.stderr)
        _show(study, run, records, False, as_json)


@app.command()
def convert(
    source: Annotated[
        str, typer.Argument(help="A model of ours, timm:NAME, torchvision:NAME, package.module:function, or a file.")
    ],
    to: Annotated[str, typer.Option(help="The neuron (see: neuronal neurons).")],
    out: Annotated[Path | None, typer.Option(help="File to write, such as resnet18_geometric.safetensors.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="An option of the layers, such as coupling=-0.5.")] = None,
    batch_norm: Annotated[str, typer.Option(help="For zero_bias: fold, scale_only or drop.")] = "fold",
    pretrained: Annotated[bool, typer.Option("--pretrained", help="With the weights timm downloads.")] = False,
    shape: Annotated[str | None, typer.Option(help="Input for the check, such as 3,224,224.")] = None,
    as_json: AsJson = False,
) -> None:
    """Convert a model to another neuron, list what changed, measure by how much its output did."""
    with _one_line_errors():
        import torch

        from neuronal.convert.checkpoint import save_model
        from neuronal.convert.convert import convert as converted
        from neuronal.convert.convert import largest_difference
        from neuronal.convert.sources import from_source, input_shape
        from neuronal.report.conversion import change_table

        model = from_source(source, **({"pretrained": True} if pretrained else {}))
        try:
            conversion = converted(model, to, batch_norm=batch_norm, **_options(option or []))  # type: ignore[arg-type]
        except TypeError as unfit:
            raise ValueError(str(unfit)) from unfit
        size = _whole_numbers("shape", shape) if shape else input_shape(model)
        x = torch.randn(2, *size, generator=torch.Generator().manual_seed(0))
        try:
            difference = largest_difference(model, conversion.model, x)
        except (RuntimeError, TypeError, AttributeError) as unfit:
            reason = str(unfit).splitlines()[0]
            raise ValueError(
                f"the model does not take images of shape {tuple(size)} ({reason}). Give one with --shape."
            ) from unfit
        if out:
            save_model(conversion.model, out)
    if as_json:
        rows = [asdict(change) for change in conversion.changes]
        print(
            json.dumps({"changes": rows, "largest_difference": difference, "file": str(out) if out else None}, indent=1)
        )
        return
    console = Console()
    console.print(change_table(conversion.changes))
    shown = "x".join(map(str, (2, *size)))
    console.print(
        f"Largest difference of the output on random input ({shown}): {difference:.1e} of the largest output."
    )
    if out:
        print(f"model: {out}")


def _options(words: Sequence[str]) -> dict[str, Any]:
    """Options given as name=value; a value that is JSON is taken as such, any other as text."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"--option needs name=value, got {word!r}.")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


bench_app = typer.Typer(
    help="Measure speed, always beside the plain torch layer in the same run.", rich_markup_mode=None
)
app.add_typer(bench_app, name="bench")


Rounds = Annotated[int, typer.Option(help="Rounds per case; the median is shown.")]
BenchOut = Annotated[Path, typer.Option(help="Folder for the numbers and the figure.")]


@bench_app.command("layers")
def bench_layers(rounds: Rounds = 15, out: BenchOut = Path("runs/bench"), as_json: AsJson = False) -> None:
    """Time every layer against nn.Conv2d, forward and backward, and draw cost against width."""
    from neuronal.bench import layers
    from neuronal.experiments.storage import write_whole
    from neuronal.report.bench import cost_against_width, layer_table

    with _benching(rounds, out):
        rows = list(layers.measure(rounds=rounds))
        widths = list(layers.measure_widths(rounds=max(2, rounds // 2)))
        write_whole(out / "layers.svg", cost_against_width(widths).svg)
    growth = layers.growth(widths)
    found = {"table": [row.to_json() for row in rows], "widths": [row.to_json() for row in widths], "growth": growth}
    _show_bench(out / "layers.json", found, layer_table(rows, growth), as_json)


@bench_app.command("implicit")
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


@bench_app.command("train")
def bench_train(rounds: Rounds = 15, out: BenchOut = Path("runs/bench"), as_json: AsJson = False) -> None:
    """Time the training loop against a bare loop that does the same steps."""
    from neuronal.bench import train
    from neuronal.report.bench import train_table

    with _benching(rounds, out):
        rows = list(train.measure(rounds=rounds))
    _show_bench(out / "train.json", {"table": [row.to_json() for row in rows]}, train_table(rows), as_json)


@contextmanager
def _benching(rounds: int, out: Path) -> Iterator[None]:
    """Inside: a sign of life; before it, whether the results can be kept."""
    from neuronal.experiments.storage import make_writable

    if rounds < 2:
        _fail(f"--rounds needs to be at least 2, got {rounds}.", 2)
    with _one_line_errors():
        make_writable(out)
        with Console(stderr=True).status("timing (some minutes on two cores)"):
            yield


def _show_bench(file: Path, found: dict[str, Any], table: Table, as_json: bool) -> None:
    from neuronal.experiments.environment import environment
    from neuronal.experiments.storage import write_whole

    answer = json.dumps({"environment": environment(), **found}, indent=1)
    with _one_line_errors():
        write_whole(file, answer + "\n")
    if as_json:
        print(answer)
        return
    console = Console()
    console.print(table)
    console.print(f"numbers: {escape(str(file))}", highlight=False, soft_wrap=True)


@app.command()
def neurons(as_json: AsJson = False) -> None:
    """List the neurons."""
    from neuronal.nn.families import FAMILIES

    rows = [{"neuron": f.name, "unit": f.unit, "promise": f.promise} for f in FAMILIES.values()]
    _print_rows(rows, as_json)


@app.command()
def models(as_json: AsJson = False) -> None:
    """List the networks, with their parameters for 32x32 colour images and 10 classes."""
    from neuronal.models.registry import describe, list_models, num_parameters

    rows = [{"model": name, "parameters": num_parameters(name), "what": describe(name)} for name in list_models()]
    _print_rows(rows, as_json)


data_app = typer.Typer(
    help="List the datasets, describe, fetch or verify one.", rich_markup_mode=None, invoke_without_command=True
)
app.add_typer(data_app, name="data")

DataName = Annotated[str, typer.Argument(metavar="NAME", help="A dataset (see: neuronal data) or a path.")]


@data_app.callback()
def data(context: typer.Context, as_json: AsJson = False) -> None:
    if context.invoked_subcommand is None:
        data_list(as_json)


@data_app.command("list")
def data_list(as_json: AsJson = False) -> None:
    """List the datasets and where they are."""
    from neuronal.data.about import summary

    _print_rows(summary(), as_json)


@data_app.command("info")
def data_info(name: DataName, as_json: AsJson = False) -> None:
    """Describe one dataset: sizes, classes, source, where it is."""
    from neuronal.data.about import about

    with _one_line_errors():
        known = about(name)
    if as_json:
        print(json.dumps(known, indent=1))
        return
    for key, value in known.items():
        shown = ", ".join(value) if isinstance(value, list) else f"{value:,}" if isinstance(value, int) else value
        Console().print(f"{key + ':':10}{escape(shown)}", highlight=False, soft_wrap=True)


@data_app.command("fetch")
def data_fetch(name: DataName) -> None:
    """Download a dataset from the Hugging Face hub."""
    from neuronal.data.fetch import fetch

    with _one_line_errors():
        files = fetch(name)
    print(f"{len(files)} files in {files[0].parent}")


@data_app.command("verify")
def data_verify(name: DataName, as_json: AsJson = False) -> None:
    """Read all of a dataset again and check its counts and checksums."""
    from neuronal.data.verify import verify

    with _one_line_errors():
        findings = verify(name)
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        words = {True: "right", False: "WRONG", None: "-"}
        for finding in findings:
            Console().print(f"{words[finding.is_right]:6}{escape(finding.text)}", highlight=False, soft_wrap=True)
    wrong = sum(finding.is_right is False for finding in findings)
    if wrong:
        _fail(f"{name} is not what it should be: {wrong} of {len(findings)} checks failed.", 1)


def _study(recipe: str | None, options: Mapping[str, Any], neurons: str | None, name: str | None) -> Study:
    from neuronal.data.catalogue import label_of
    from neuronal.experiments.sweep import Study
    from neuronal.nn.families import FAMILIES, family
    from neuronal.recipes import RECIPES
    from neuronal.recipes.first_look import DIGITS

    base = replace(DIGITS if recipe is None else find(RECIPES, recipe, "recipe"), **options)
    own = base.name if recipe is not None else f"{label_of(base.data)}-{base.model}"
    place = own if name is None else name
    parts = Path(place).parts
    if not parts or Path(place).is_absolute() or ".." in parts or not place.isprintable():
        raise ValueError(f"--name needs a folder below --out, got {place!r}.")
    chosen = FAMILIES if neurons is None else dict.fromkeys(word.strip() for word in neurons.split(","))
    return Study(replace(base, name=place), tuple(family(word).name for word in chosen))


def _show(study: Study, folder: Path, records: Sequence[Record], fresh: bool, as_json: bool) -> None:
    """Writes the page, prints the table or the JSON."""
    from neuronal.data.catalogue import load
    from neuronal.experiments.compare import compare
    from neuronal.experiments.storage import write_whole
    from neuronal.experiments.sweep import costs
    from neuronal.report.page import page
    from neuronal.report.terminal import table
    from neuronal.report.words import findings

    dataset = load(study.recipe.data)
    comparison = compare(records)
    measured = costs(study, folder, fresh=fresh)
    by_family: dict[str, StepTime] = {v.family: cost for v in study.variants() if (cost := measured.of(v))}
    sentences = findings(comparison, records, by_family, dataset.classes)
    file = folder / "report.html"
    if as_json:
        write_whole(file, page(study, dataset, records, comparison, by_family))
        answer = {"study": study.to_json(), "comparison": comparison.to_json(), "costs": measured.to_json()}
        print(json.dumps(answer | {"findings": sentences, "report": str(file)}, indent=1))
        return
    console = Console()
    console.print(table(comparison, by_family, _title(study)))
    for sentence in sentences:
        console.print(f"- {escape(sentence)}", highlight=False)
    write_whole(file, page(study, dataset, records, comparison, by_family))
    console.print(f"report: {escape(str(file))}", highlight=False, soft_wrap=True)


def _title(study: Study) -> str:
    from neuronal.data.catalogue import label_of

    count = len(study.recipe.seeds)
    return escape(f"{study.recipe.model} on {label_of(study.recipe.data)}, {count} seed{'s' if count > 1 else ''}")


def _print_rows(rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    drawn = Table(*rows[0])
    for row in rows:
        drawn.add_row(*(escape(f"{value:,}" if isinstance(value, int) else value) for value in row.values()))
    Console().print(drawn)


def _whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """``0,1,2`` and ``0-2`` both mean 0, 1, 2."""
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            _fail(f"--{option} needs whole numbers such as 0,1,2 or 0-9, got {text!r}.", 2)
        many = range(int(first), int(last or first) + 1)
        if len(numbers) + int(last or first) - int(first) >= 10_000:
            _fail(f"--{option} takes at most 10,000 numbers, got {text!r}.", 2)
        numbers += many
    return tuple(numbers)


class Terminated(KeyboardInterrupt):
    """SIGTERM asks for the same clean stop as Ctrl-C."""


def main(words: list[str] | None = None) -> int:
    """Runs the command with ``words`` (those of the process if None) and returns its exit code."""
    words = (sys.argv[1:] if words is None else words) or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        # A terminal without UTF-8 shows a question mark for what it cannot; it is no reason to stop.
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    asked: list[int] = []

    def terminate(number: int, frame: FrameType | None) -> NoReturn:
        asked.append(number)
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            code = _run(words)
    finally:
        signal.signal(signal.SIGTERM, before)
    # typer has its own way with interrupts and forgets which one it was; one that falls into an import comes out of it as
    # an error of that import.
    return 143 if asked and code else code


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning is one line too; where in the code it was raised is no matter of the user's."""
    print(f"neuronal: {message}", file=sys.stderr)


def _run(words: list[str]) -> int:
    # The class of typer's own complaints about the command line has no public name.
    complaint: Any = typer.BadParameter.__mro__[2]
    try:
        return app(words, prog_name="neuronal", standalone_mode=False) or 0
    except typer.Exit as done:
        return done.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        # Somebody downstream (head, say) has seen enough; what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except complaint as wrong:
        print(f"neuronal: {_usage(wrong, words)}", file=sys.stderr)
        return 2


def _usage(wrong: Any, words: Sequence[str]) -> str:
    """One line for a wrong word on the command line: what was given, the closest, what exists."""
    context: Any = wrong.ctx
    command: Any = getattr(context, "command", None)
    option = getattr(wrong, "option_name", None)
    if option and type(wrong).__name__ == "NoSuchOption":
        options = [word for parameter in command.params for word in parameter.opts if word.startswith("--")]
        return unknown(f"option of {context.command_path}", option, [*options, "--help"])
    if hasattr(command, "list_commands"):
        # Of a group, the word after the ones that led to it.
        given = words[len(context.command_path.split()) - 1 :]
        existing = command.list_commands(context)
        return (
            unknown("command", given[0], existing) if given else f"Missing command. There are: {', '.join(existing)}."
        )
    message = " ".join(wrong.format_message().split())
    return f"{message} See: {getattr(context, 'command_path', 'neuronal')} --help"


def _fail(line: str, code: int) -> NoReturn:
    print(f"neuronal: {line}", file=sys.stderr)
    raise typer.Exit(code)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Inside: a wrong value, or a file that cannot be read or written, ends the command with its message alone."""
    try:
        yield
    except ValueError as wrong:
        _fail(str(wrong), 2)
    except BrokenPipeError:
        raise
    except OSError as refused:
        _fail(_refusal(refused), 1)


def _refusal(refused: OSError) -> str:
    """``cannot use FILE (Permission denied)``; with what to do."""
    return (
        f"cannot use {refused.filename or 'a file'} ({refused.strerror or refused}). Choose another place with --out."
    )


def _num_kept(study: Plan, folder: Path, bars: Bars, fresh: bool) -> int:
    """Cells with a record. After --fresh those of before do not count; else one may be there that nobody was told of."""
    from neuronal.experiments.record import cell_name

    if fresh:
        return bars.num_ended
    return sum((folder / "cells" / cell_name(cell.recipe, cell.seed)).exists() for cell in study.cells())


@contextmanager
def _stopping(study: Plan, folder: Path, bars: Bars, fresh: bool) -> Iterator[None]:
    """Inside: Ctrl-C, SIGTERM, a full disk or a cell that kills its workers ends the command, which says what is kept."""
    from neuronal.experiments.engine import LostCell

    try:
        yield
    except BrokenPipeError:
        raise
    except (KeyboardInterrupt, OSError, LostCell) as stop:
        why = _refusal(stop) if isinstance(stop, OSError) else f"{stop} " if isinstance(stop, LostCell) else "stopped;"
        how = (
            "The same command without --fresh goes on from there." if fresh else "The same command goes on from there."
        )
        done = (
            f"{_num_kept(study, folder, bars, fresh)} of {len(study.cells())} cells are finished and kept in {folder}."
        )
        _fail(
            f"{why} {done} {how}",
            1 if isinstance(stop, OSError | LostCell) else 143 if isinstance(stop, Terminated) else 130,
        )
