"""The page of what holds of a paper: one line per claim, made from the results and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from neuronal.experiments.procedures import PROCEDURES
from neuronal.experiments.reproduce import read_result, result_file
from neuronal.experiments.reproduction import Reproduction

MARKS = {
    "reproduced": "holds",
    "reproduced in part": "holds in part",
    "not reproduced": "does not hold here",
    "not true as stated": "not true as stated",
    "not measured": "not measured",
}


def findings_page(paper: str, about: str, reproductions: Sequence[Reproduction], results: Path) -> str:
    """Markdown; what has no result file is listed as not measured, with the command that would.

    Args:
        paper: Its short name, the first part of its reproductions' names.
        about: Title and source of the paper.
        reproductions: In the order of the page.
        results: Folder of the result files.
    """
    answers = {one.name: _measured(one, results) for one in reproductions}
    parts = [
        f"# {about}",
        "Written by `neuronal findings` from the files in `results/`; every line names the command that measures it again.",
        *_summary(reproductions, answers),
    ]
    for one in reproductions:
        parts += [f"## {one.title}", *_section(one, answers[one.name])]
    return "\n\n".join(parts) + "\n"


def _measured(one: Reproduction, results: Path) -> Mapping[str, Any] | None:
    """The result of the largest scale there is, smoke apart."""
    files = (result_file(one.name, scale, results) for scale in ("paper", "small"))
    return next((read_result(file) for file in files if file.is_file()), None)


def _summary(reproductions: Sequence[Reproduction], answers: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    lines = ["| claim | verdict | measured |", "|---|---|---|"]
    for one in reproductions:
        answer = answers[one.name]
        if answer is None:
            lines.append(f"| {one.title} ({one.where}) | {MARKS['not measured']} | `neuronal reproduce {one.name}` |")
            continue
        for finding in PROCEDURES[one.procedure].findings(answer):
            lines.append(f"| {finding.claim} | **{MARKS[finding.verdict]}** | {finding.numbers} |")
    return ["\n".join(lines)]


def _section(one: Reproduction, answer: Mapping[str, Any] | None) -> list[str]:
    parts = [f"{one.where}."]
    if one.departs:
        parts.append(f"What is different here: {one.departs}")
    if answer is None:
        scales = ", ".join(f"`--scale {scale}`" for scale in one.scales if scale != "smoke")
        return [*parts, f"No result yet: `neuronal reproduce {one.name}` ({scales})."]
    environment = answer["environment"]
    machine = environment["gpu"] if environment.get("gpu", "none") != "none" else environment.get("processor", "")
    # Networks may be from another reproduction, or have been trained side by side: their time is told by itself.
    networks = answer.get("network_seconds", 0)
    trained = f" (training its networks, {networks:,.0f} s in all)" if networks else ""
    parts.append(
        f"`{answer['command']}`: {answer['seconds']:,.0f} s{trained} on {machine}, torch {environment['torch']}, "
        f"commit {environment['commit']}, finished {answer['finished']}."
    )
    draw = TABLES.get(one.procedure)
    return [*parts, *(draw(answer) if draw else [])]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; numbers stand to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _contrast(answer: Mapping[str, Any]) -> list[str]:
    rows = [row for row in answer["result"]["rows"] if "estimates" in row]
    if not rows:
        return ["No seed trained."]
    lines = []
    for row in rows:
        name = f"{row['name']}, {row['neuron']} ({len(row['seeds'])} seeds)"
        lines.append([name, *(_percent(e["mean"], e["standard_error"]) for e in row["estimates"])])
        if curve := answer["reported"].get(row["neuron"], {}).get("curve"):
            lines.append(["reported", *(f"{100 * value:.2f}" for value in curve)])
    return [table(["accuracy (%) at contrast", *(f"{s:g}" for s in rows[0]["multipliers"])], lines)]


def _percent(mean: float, error: float | None) -> str:
    return f"{100 * mean:.2f}" + ("" if error is None else f" ± {100 * error:.2f}")


TABLES: dict[str, Any] = {"contrast_table": _contrast}
"""By procedure; the others are told by their findings."""
