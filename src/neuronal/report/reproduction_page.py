"""The results of a paper on one page: claims, tables, figures, and what measured them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from neuronal.experiments.procedures import PROCEDURES
from neuronal.experiments.reproduce import read_result
from neuronal.report.drawn import cells
from neuronal.report.html import bullets, document, figures, table
from neuronal.report.papers import drawings, sentences, tables


def read_results(folder: Path) -> list[Mapping[str, Any]]:
    """Every result in a folder, by name; ``ValueError`` when there is none."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise ValueError(f"{folder} has no results. neuronal reproduce writes them.")
    return [read_result(file) for file in files]


def results_page(title: str, answers: Sequence[Mapping[str, Any]]) -> str:
    """All of it as one self-contained page."""
    parts = [f"<h1>{escape(title)}</h1>", _claims(answers)]
    for answer in answers:
        parts += [
            f"<h2>{escape(answer['title'])}</h2>",
            f'<p class="soft">{escape(answer["where"])}; <code>{escape(answer["command"])}</code>, '
            f"{answer['seconds']:,.0f} s, {escape(_machine(answer))}.</p>",
            *([f"<p>What is different here: {escape(answer['departs'])}</p>"] if answer["departs"] else []),
            bullets(sentences(answer)),
            *_tables(answer),
            figures(drawings(answer)),
        ]
    return document(title, parts)


def _tables(answer: Mapping[str, Any]) -> list[str]:
    """Each with what is below it, and from the second on with its title: the first has that of the result."""
    parts = []
    for number, drawn in enumerate(tables(answer)):
        parts += [f"<h3>{escape(str(drawn.title))}</h3>"] if number else []
        parts.append(table(*cells(drawn)))
        parts += [f'<p class="soft">{escape(str(drawn.caption))}.</p>'] if drawn.caption else []
    return parts


def _claims(answers: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [finding.claim, finding.verdict, finding.numbers]
        for answer in answers
        if answer["scale"] != "smoke"
        for finding in PROCEDURES[answer["procedure"]].findings(answer)
    ]
    return table(["claim", "verdict", "measured"], rows, "left claims") if rows else ""


def _machine(answer: Mapping[str, Any]) -> str:
    environment = answer["environment"]
    machine = environment["gpu"] if environment.get("gpu", "none") != "none" else environment.get("processor", "")
    return f"{machine}, torch {environment['torch']}, commit {environment['commit']}, {answer['finished']}"
