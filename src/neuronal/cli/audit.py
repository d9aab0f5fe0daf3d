"""``neuronal audit``: all that can be measured or proved of one model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from neuronal.cli.certify import Scaling, Source
from neuronal.cli.options import AsJson, ModelOption, Out, named_values
from neuronal.cli.screen import escape


def audit(
    source: Source,
    data: Annotated[str, typer.Option(help="Dataset (see: neuronal data) or path; its test inputs are used.")],
    rows: Annotated[int, typer.Option(help="Test inputs to look at.")] = 1000,
    pairs: Annotated[int, typer.Option(help="Segments between inputs of one class to certify.")] = 200,
    scaling: Scaling = "unit",
    model_option: ModelOption = None,
    seed: Annotated[int, typer.Option(help="Draws the inputs and the pairs.")] = 0,
    out: Out = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Measure and certify a model: contrast, zero image, dead units, distances, curvature, segments; write a page."""
    from neuronal.api import audit
    from neuronal.report.document import Bullets
    from neuronal.report.render_terminal import print_blocks

    options = named_values(model_option or [], "model-option")
    found = audit(source, data, rows=rows, pairs=pairs, scaling=scaling, model_options=options, seed=seed, out=out)
    page = found.write_page()
    if as_json:
        print(json.dumps(found.to_json() | {"report": str(page)}, indent=1))
        return
    console = Console()
    print_blocks(console, [Bullets(found.findings)])
    console.print(f"report: {escape(str(page))}", highlight=False, soft_wrap=True)
