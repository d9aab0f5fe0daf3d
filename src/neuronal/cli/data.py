"""``neuronal data``: the datasets."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from neuronal.cli.errors import fail
from neuronal.cli.lists import print_rows
from neuronal.cli.options import AsJson
from neuronal.cli.screen import escape

app = typer.Typer(
    name="data",
    help="List the datasets, describe, fetch or verify one.",
    rich_markup_mode=None,
    invoke_without_command=True,
)

DataName = Annotated[str, typer.Argument(metavar="NAME", help="A dataset (see: neuronal data) or a path.")]


@app.callback()
def data(context: typer.Context, as_json: AsJson = False) -> None:
    if context.invoked_subcommand is None:
        data_list(as_json)


@app.command("list")
def data_list(as_json: AsJson = False) -> None:
    """List the datasets and where they are."""
    from neuronal.data.catalogue import summary

    print_rows(summary(), as_json)


@app.command("info")
def data_info(name: DataName, as_json: AsJson = False) -> None:
    """Describe one dataset: sizes, classes, source, where it is."""
    from neuronal.data.catalogue import about

    known = about(name)
    if as_json:
        print(json.dumps(known, indent=1))
        return
    for key, value in known.items():
        shown = ", ".join(value) if isinstance(value, list) else f"{value:,}" if isinstance(value, int) else value
        Console().print(f"{key + ':':10}{escape(shown)}", highlight=False, soft_wrap=True)


@app.command("fetch")
def data_fetch(name: DataName) -> None:
    """Download a dataset from the Hugging Face hub."""
    from neuronal.data.catalogue import fetch

    files = fetch(name)
    print(f"{len(files)} files in {files[0].parent}")


@app.command("verify")
def data_verify(name: DataName, as_json: AsJson = False) -> None:
    """Read all of a dataset again and check its counts and checksums."""
    from neuronal.data.catalogue import verify

    findings = verify(name)
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        words = {True: "right", False: "WRONG", None: "-"}
        for finding in findings:
            Console().print(f"{words[finding.is_right]:6}{escape(finding.text)}", highlight=False, soft_wrap=True)
    wrong = sum(finding.is_right is False for finding in findings)
    if wrong:
        fail(f"{name} is not what it should be: {wrong} of {len(findings)} checks failed.", 1)
