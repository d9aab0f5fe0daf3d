"""``neuronal neurons`` and ``neuronal models``: what there is."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from neuronal.cli.options import AsJson
from neuronal.cli.screen import escape
from neuronal.core.records import Json


def neurons(as_json: AsJson = False) -> None:
    """List the neurons."""
    from neuronal.nn.families import FAMILIES

    rows = [{"neuron": f.name, "unit": f.unit, "promise": f.promise} for f in FAMILIES.values()]
    print_rows(rows, as_json)


def models(as_json: AsJson = False) -> None:
    """List the networks, with their parameters for 32x32 colour images and 10 classes."""
    from neuronal.models.registry import describe, list_models, num_parameters

    rows = [{"model": name, "parameters": num_parameters(name), "what": describe(name)} for name in list_models()]
    print_rows(rows, as_json)


def print_rows(rows: Sequence[Json], as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    drawn = Table(*rows[0])
    for row in rows:
        drawn.add_row(*(escape(f"{value:,}" if isinstance(value, int) else value) for value in row.values()))
    Console().print(drawn)
