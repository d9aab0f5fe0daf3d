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
    from neuronal.core.files import make_writable, write_whole
    from neuronal.data.catalogue import label_of
    from neuronal.experiments.audit import audit as examined
    from neuronal.experiments.environment import environment
    from neuronal.experiments.subject import subject
    from neuronal.report.audit import audit_page, audit_sentences
    from neuronal.report.document import Bullets
    from neuronal.report.render_html import render_html
    from neuronal.report.render_terminal import print_blocks

    if rows < 1 or pairs < 0:
        raise ValueError(f"--rows needs to be at least 1 and --pairs at least 0, got {rows} and {pairs}.")
    folder = out / "audit"
    make_writable(folder)
    one = subject(source, data, scaling, named_values(model_option or [], "model-option"))
    assert one.data is not None
    errors = Console(stderr=True)
    with errors.status("loading") as status:
        found = examined(
            one.model,
            one.data,
            rows=rows,
            pairs=pairs,
            seed=seed,
            on_section=lambda name: status.update(name.replace("_", " ")),
        )
    answer = {"model": source, "data": data} | found.to_json() | {"environment": environment()}
    label = label_of(data)
    file = Path(source)
    # Trainings all call their model model.safetensors; their folders differ.
    named = (
        f"{file.resolve().parent.name}-{file.stem}" if file.is_file() else source.replace(":", "-").replace("/", "-")
    )
    stem = f"{named}-{label}"
    write_whole(folder / f"{stem}.json", json.dumps(answer, indent=1) + "\n")
    page = folder / f"{stem}.html"
    write_whole(page, render_html(audit_page(source, label, one.data.classes, answer)))
    if as_json:
        print(json.dumps(answer | {"report": str(page)}, indent=1))
        return
    console = Console()
    print_blocks(console, [Bullets(audit_sentences(answer["sections"], label))])
    console.print(f"report: {escape(str(page))}", highlight=False, soft_wrap=True)
