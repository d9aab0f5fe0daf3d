"""``neuronal doctor``: what this machine has, and what is missing."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from neuronal.cli.errors import fail
from neuronal.cli.options import AsJson, Out
from neuronal.cli.screen import escape


def doctor(out: Out = Path("runs"), as_json: AsJson = False) -> None:
    """Look at versions, packages, compiler, cores, GPU and folders; say what to do where something is missing.

    The exit code is 1 if neuronal compare cannot run, else 0.
    """
    from neuronal.core.doctor import examine

    facts = []
    for fact in examine(out):
        facts.append(fact)
        if not as_json:
            mark = "BROKEN" if fact.is_broken else "-" if fact.advice else "ok"
            text = f"{fact.found}. {fact.advice}" if fact.advice else fact.found
            Console().print(f"{mark:7}{fact.name + ':':14}{escape(text)}", highlight=False, soft_wrap=True)
    if as_json:
        print(json.dumps([asdict(fact) for fact in facts], indent=1))
    if broken := [fact.name for fact in facts if fact.is_broken]:
        fail(f"neuronal compare cannot run: see {', '.join(broken)}.", 1)
