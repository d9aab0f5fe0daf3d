"""``neuronal convert``: a model with another neuron."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from neuronal.cli.options import AsJson, named_values, whole_numbers
from neuronal.core.words import times


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
    """Convert a model to another neuron, list what changed, by how much its output did, and whether its promise holds."""
    import torch

    from neuronal.convert.checkpoint import save_model
    from neuronal.convert.convert import convert as converted
    from neuronal.convert.convert import largest_difference
    from neuronal.convert.sources import from_source, input_shape
    from neuronal.report.conversion import change_table
    from neuronal.report.render_terminal import print_blocks

    model = from_source(source, **({"pretrained": True} if pretrained else {}))
    try:
        conversion = converted(model, to, batch_norm=batch_norm, **named_values(option or []))  # type: ignore[arg-type]
    except TypeError as unfit:
        raise ValueError(str(unfit)) from unfit
    size = whole_numbers("shape", shape) if shape else input_shape(model)
    x = torch.randn(2, *size, generator=torch.Generator().manual_seed(0))
    try:
        difference = largest_difference(model, conversion.model, x)
    except (RuntimeError, TypeError, AttributeError) as unfit:
        reason = str(unfit).splitlines()[0]
        raise ValueError(
            f"the model does not take images of shape {tuple(size)} ({reason}). Give one with --shape."
        ) from unfit
    promise = replace(conversion, example=x).promise
    if out:
        save_model(conversion.model, out)
    if as_json:
        answer = {
            "changes": [asdict(change) for change in conversion.changes],
            # JSON has no NaN.
            "largest_difference": difference if isfinite(difference) else None,
            "promise": asdict(promise),
            "file": str(out) if out else None,
        }
        print(json.dumps(answer, indent=1))
        return
    console = Console()
    print_blocks(console, [change_table(conversion.changes)])
    console.print(
        f"Largest difference of the output on random input (2x{times(size)}): {difference:.1e} of the largest output."
    )
    if out:
        print(f"model: {out}")
    print(promise)
