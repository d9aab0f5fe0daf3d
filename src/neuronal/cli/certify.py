"""``neuronal certify``: statements about a network, each with its proof."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from neuronal.cli.errors import fail
from neuronal.cli.options import AsJson, ModelOption, named_values, whole_numbers
from neuronal.cli.screen import escape
from neuronal.core.records import Json
from neuronal.core.words import one_line

if TYPE_CHECKING:
    from torch import Tensor, nn

    from neuronal.certify.certificate import Certificate
    from neuronal.experiments.subject import Subject

app = typer.Typer(
    name="certify",
    help="Prove or refute a statement about a network; every answer is certified, refuted or unknown.",
    rich_markup_mode=None,
)

Source = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A file, a model of ours, timm:NAME, torchvision:NAME, or package.module:function."
    ),
]
Data = Annotated[str | None, typer.Option(help="Dataset (see: neuronal data) or path the inputs are from.")]
Scaling = Annotated[str, typer.Option(help="How the inputs are scaled, as in training.")]
Part = Annotated[str, typer.Option(help="Which part of the data: test or train.")]
Indices = Annotated[str | None, typer.Option(help="Which inputs of the data, such as 3,17.")]
Files = Annotated[list[Path] | None, typer.Option("--file", help="An input: a .npy array or an image; once for each.")]
PromiseOption = Annotated[str, typer.Option(help="real: in real numbers; float32: as computed in float32.")]
Bounds = Annotated[int, typer.Option(help="Work allowed: parts whose bounds are computed.")]
Seconds = Annotated[float, typer.Option(min=0, help="Time allowed for what those leave open.")]
Check = Annotated[bool, typer.Option("--check", help="Verify the answer again, with code of its own.")]


@app.command("segment")
def segment(
    source: Source,
    data: Data = None,
    indices: Indices = None,
    files: Files = None,
    part: Part = "test",
    scaling: Scaling = "unit",
    model_option: ModelOption = None,
    promise: PromiseOption = "real",
    bounds: Bounds = 2048,
    seconds: Seconds = 300.0,
    check: Check = False,
    as_json: AsJson = False,
) -> None:
    """Is the predicted class the same on the whole segment between two inputs? Where not, the switching points are shown."""
    from neuronal.certify.branch import Budget
    from neuronal.certify.segment import certify_segment

    one, inputs = _subject_and_inputs(source, data, indices, files, part, scaling, model_option)
    if len(inputs) != 2:
        raise ValueError(f"a segment has two ends, got {len(inputs)} inputs.")
    budget = Budget(bounds=bounds, seconds=seconds)
    certificate = certify_segment(one.model, *inputs, promise=promise, budget=budget)  # type: ignore[arg-type]
    further = _switches(one, inputs) if certificate.verdict == "refuted" else {}
    _show(certificate, one.model, check, as_json, further)


def _about_mixtures(kind: str, question: str) -> None:
    """Adds the command for one kind of mixture; both take the same words."""

    @app.command(kind, help=question)
    def command(
        source: Source,
        data: Data = None,
        indices: Indices = None,
        files: Files = None,
        part: Part = "test",
        scaling: Scaling = "unit",
        model_option: ModelOption = None,
        promise: PromiseOption = "real",
        bounds: Bounds = 2048,
        seconds: Seconds = 300.0,
        check: Check = False,
        as_json: AsJson = False,
    ) -> None:
        from neuronal.certify import simplex
        from neuronal.certify.branch import Budget

        certify = {"hull": simplex.certify_hull, "cone": simplex.certify_cone}[kind]
        one, inputs = _subject_and_inputs(source, data, indices, files, part, scaling, model_option)
        budget = Budget(bounds=bounds, seconds=seconds)
        certificate = certify(one.model, inputs, promise=promise, budget=budget)  # type: ignore[arg-type]
        _show(certificate, one.model, check, as_json, {})


_about_mixtures("hull", "Is the predicted class the same for every mixture (convex combination) of the inputs?")
_about_mixtures("cone", "Is the predicted class the same for every combination with weights that are not negative?")


@app.command("ball")
def ball(
    source: Source,
    data: Data = None,
    indices: Indices = None,
    files: Files = None,
    part: Part = "test",
    scaling: Scaling = "unit",
    model_option: ModelOption = None,
    norm: Annotated[str, typer.Option(help="2 or inf.")] = "2",
    promise: PromiseOption = "real",
    check: Check = False,
    as_json: AsJson = False,
) -> None:
    """How far around one input the predicted class is proved not to change."""
    from neuronal.certify.ball import certify_ball

    one, inputs = _subject_and_inputs(source, data, indices, files, part, scaling, model_option)
    if len(inputs) != 1:
        raise ValueError(f"a ball has one centre, got {len(inputs)} inputs.")
    size: Any = 2 if norm == "2" else norm
    certificate = certify_ball(one.model, inputs[0], norm=size, promise=promise)  # type: ignore[arg-type]
    radius = getattr(certificate.evidence, "radius", None)
    _show(certificate, one.model, check, as_json, {} if radius is None else {"radius": float(radius)})


@app.command("scaling")
def scaling_of(
    source: Source, data: Data = None, model_option: ModelOption = None, check: Check = False, as_json: AsJson = False
) -> None:
    """Does scaling the input scale the output, so that the class does not depend on contrast? If not, what breaks it."""
    from neuronal.certify.scaling import certify_scaling
    from neuronal.experiments.subject import subject

    one = subject(source, data, "unit", named_values(model_option or [], "model-option"))
    example = one.data.test.rows(slice(0, 2)).x if one.data else None
    certificate = certify_scaling(one.model, example)
    breaks = [
        {"module": f"{b.module} at '{b.path}'", "reason": b.reason, "repair": b.repair}
        for b in getattr(certificate.evidence, "breaks", ())
    ]
    _show(certificate, one.model, check, as_json, {"breaks": breaks} if breaks else {})


@app.command("activity")
def activity(
    source: Source,
    data: Data = None,
    low: Annotated[float, typer.Option(help="Smallest value of an input.")] = 0.0,
    high: Annotated[float, typer.Option(help="Largest value of an input.")] = 1.0,
    model_option: ModelOption = None,
    check: Check = False,
    as_json: AsJson = False,
) -> None:
    """Is at least one unit of every ReLU layer active for every input with values between --low and --high?"""
    import torch

    from neuronal.certify.activity import certify_activity
    from neuronal.convert.sources import input_shape
    from neuronal.experiments.subject import subject

    one = subject(source, data, "unit", named_values(model_option or [], "model-option"))
    shape = one.data.shape if one.data else input_shape(one.model)
    box = (torch.full(shape, low), torch.full(shape, high))
    try:
        certificate = certify_activity(one.model, box, data=one.data.test.x if one.data else None)
    except RuntimeError as unfit:
        raise ValueError(f"the model does not take inputs of shape {tuple(shape)} ({one_line(unfit)}).") from unfit
    _show(certificate, one.model, check, as_json, {"layers": _layers(certificate)})


def _subject_and_inputs(
    source: str,
    data: str | None,
    indices: str | None,
    files: list[Path] | None,
    part: str,
    scaling: str,
    model_option: list[str] | None,
) -> tuple[Subject, Tensor]:
    from neuronal.convert.sources import input_shape
    from neuronal.experiments.subject import chosen_rows, from_files, subject

    if part not in ("test", "train"):
        raise ValueError(f"--part needs to be test or train, got {part!r}.")
    if (data is None) == (indices is not None) or bool(files) == bool(indices):
        fail("give inputs as --data NAME --indices 3,17, or as files: --file a.npy --file b.npy.", 2)
    one = subject(source, data, scaling, named_values(model_option or [], "model-option"))
    if one.data and indices:
        return one, chosen_rows(one.data, whole_numbers("indices", indices), part)
    return one, from_files(files or [], input_shape(one.model))


def _switches(one: Subject, inputs: Tensor) -> Json:
    from neuronal.geometry.segment import segment_pieces

    line = segment_pieces(one.model, *inputs)
    return {
        "pieces": line.count,
        "switches": [{"t": s.t, "from": s.before, "to": s.after} for s in line.switches()],
    }


def _layers(certificate: Certificate) -> list[Json]:
    layers = getattr(certificate.evidence, "layers", None) or [certificate.evidence]
    return [
        {
            "layer": layer.path,
            "verdict": layer.verdict,
            "reason": layer.reason,
            "units": layer.units,
            "dead on the box": None if layer.dead_on_box is None else len(layer.dead_on_box),
            "dead on the data": None if layer.dead_on_data is None else len(layer.dead_on_data),
        }
        for layer in layers
    ]


def _show(certificate: Certificate, model: nn.Module, check: bool, as_json: bool, further: Json) -> None:
    from neuronal.certify.certificate import PROMISES
    from neuronal.certify.check import check as check_again

    held = check_again(certificate, model) if check else None
    code = 1 if held is not None and not held and certificate.verdict != "unknown" else 0
    if as_json:
        shown = {
            "kind": certificate.kind,
            "statement": certificate.statement,
            "verdict": certificate.verdict,
            "promise": certificate.promise,
            "reason": certificate.reason,
            "witness": certificate.witness.tolist() if certificate.witness is not None else None,
            "checked": None if held is None else bool(held),
        }
        print(json.dumps(shown | further, indent=1))
        raise typer.Exit(code)
    console = Console(highlight=False)
    colour = {"certified": "green", "refuted": "red", "unknown": "yellow"}[certificate.verdict]
    console.print(f"[bold {colour}]{certificate.verdict}[/]  {escape(certificate.statement)}")
    console.print(f"about: {PROMISES[certificate.promise]}")
    console.print(f"{escape(certificate.reason)}")
    for name, value in further.items():
        if isinstance(value, list):
            console.print(f"{name}:")
            for entry in value:
                console.print("  " + escape(", ".join(f"{k} {_number(v)}" for k, v in entry.items() if v is not None)))
        else:
            console.print(f"{name}: {_number(value)}")
    if held is not None:
        console.print("checked again: " + ("it holds" if held else f"[red]{escape(str(held))}[/]"))
    raise typer.Exit(code)


def _number(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)
