"""The page of what holds of a paper: one line per claim, made from the results and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from neuronal.experiments.procedures import PROCEDURES
from neuronal.experiments.procedures.finding import BEYOND, Finding, Verdict
from neuronal.experiments.reproduce import read_result, result_file
from neuronal.experiments.reproduction import Reproduction, asked_now
from neuronal.report.drawn import cells
from neuronal.report.papers import ANSWERS, drawings, tables

FIGURES = "figures"
"""Folder beside the page."""
NOTE = (
    "Written by `neuronal findings` from the files in `results/`; every line names what measures it again. After ± stands "
    "the standard error of a mean over seeds; three seeds say little of spread. How claims are judged stands below each "
    "title. What is ours and not the paper's starts with “Beyond the paper” and is shown or not shown."
)


def findings_page(about: str, reproductions: Sequence[Reproduction], results: Path) -> tuple[str, dict[str, str]]:
    """Markdown, and the figures it shows by their names beside it.

    What has no result file is listed as not measured, with the command that would.

    Args:
        about: Title and source of the paper.
        reproductions: In the order of the page.
        results: Folder of the result files.
    """
    answers = {one.name: _measured(one, results) for one in reproductions}
    asked = ANSWERS.get(reproductions[0].name.partition("/")[0])
    found = _found(reproductions, answers)
    parts = [
        f"# {about}",
        *(["\n".join(f"- {line}" for line in asked(answers, results))] if asked else []),
        f"{_counted(found)} {NOTE}",
        _summary(found),
    ]
    figures: dict[str, str] = {}
    told: dict[str, str] = {}
    for one in reproductions:
        # A rule stands where it is used first.
        first = told.setdefault(one.procedure, one.title)
        rule = PROCEDURES[one.procedure].JUDGED if first == one.title else f"as under “{first}”."
        parts += [f"## {one.title}", *_section(one, answers[one.name], rule, figures)]
    return "\n\n".join(parts) + "\n", figures


def _measured(one: Reproduction, results: Path) -> Mapping[str, Any] | None:
    """The result of the largest scale there is, smoke apart."""
    for scale in ("paper", "small"):
        if (file := result_file(one.name, scale, results)).is_file():
            return asked_now(read_result(file), one)
    return None


def _found(reproductions: Sequence[Reproduction], answers: Mapping[str, Mapping[str, Any] | None]) -> list[Finding]:
    """All that can be said, each with the whole command that measures it again."""
    found = []
    for one in reproductions:
        answer = answers[one.name]
        if answer is None:
            scale = next(scale for scale in ("small", "paper") if scale in one.scales)
            again = f"neuronal reproduce {one.name} --scale {scale}"
            found.append(Finding(f"{one.title} ({one.where})", "not measured", "", again))
            continue
        for finding in PROCEDURES[one.procedure].findings(answer):
            again = f"neuronal reproduce {one.name} {finding.again}" if finding.again else answer["command"]
            found.append(replace(finding, again=again))
    return found


def _counted(found: Sequence[Finding]) -> str:
    """How many of the claims came out how, and how many tables and figures have no result."""
    claims = [one for one in found if one.numbers]
    ours = [one.verdict for one in claims if one.claim.startswith(BEYOND) and one.verdict != "not measured"]
    theirs = Counter(one.verdict for one in claims if not one.claim.startswith(BEYOND))
    text = ", ".join(f"{count} {verdict}" for verdict in get_args(Verdict) if (count := theirs[verdict])) or "none"
    if without := len(found) - len(claims):
        end = "" if without == 1 else "s"
        text += f"; of {without} table{end} or figure{end} there is no result"
    shown = ours.count("shown")
    beyond = f" Of {len(ours)} of ours {shown} {'is' if shown == 1 else 'are'} shown." if ours else ""
    return f"Claims of the paper: {text}.{beyond}"


def _summary(found: Sequence[Finding]) -> str:
    lines = [
        [
            one.claim,
            one.verdict if one.verdict == "not measured" else f"**{one.verdict}**",
            one.numbers,
            f"`{one.again}`",
        ]
        for one in found
    ]
    return table(["claim", "verdict", "measured", "again by"], lines, numbers=False)


def _section(one: Reproduction, answer: Mapping[str, Any] | None, rule: str, figures: dict[str, str]) -> list[str]:
    """Adds the figures it shows to ``figures``."""
    parts = [f"{one.where}."]
    if one.departs:
        parts.append(f"What is different here: {one.departs}")
    parts.append(f"How it is judged: {rule}")
    if answer is None:
        scales = ", ".join(f"`--scale {scale}`" for scale in one.scales if scale != "smoke")
        return [*parts, f"No result yet: `neuronal reproduce {one.name}` ({scales})."]
    environment = answer["environment"]
    machine = environment["gpu"] if environment.get("gpu", "none") != "none" else environment.get("processor", "")
    # Networks may be from another reproduction, or have been trained side by side: their time is told by itself.
    networks = answer.get("network_seconds") or _row_seconds(answer)
    trained = f" (what it is made of, {networks:,.0f} s in all)" if networks else ""
    if not networks and "network_seconds" not in answer and answer["recipes"] and answer["seconds"] < 10:
        trained = ", its networks being there from others"
    together = f" by {answer['workers']} processes" if answer.get("workers", 1) > 1 else ""
    parts.append(
        f"`{answer['command']}`: {answer['seconds']:,.0f} s{together}{trained} on {machine}, torch {environment['torch']}, "
        f"commit {environment['commit']}, finished {answer['finished']}."
    )
    for number, drawn in enumerate(tables(answer)):
        # The first has that of the section.
        parts += [f"**{drawn.title}**"] if number else []
        parts.append(table(*cells(drawn)))
        parts += [f"{drawn.caption}."] if drawn.caption else []
    for number, drawing in enumerate(drawings(answer)):
        name = f"{FIGURES}/{one.name.replace('/', '-')}-{number + 1}.svg"
        figures[name] = drawing.svg
        parts.append(f"![{drawing.title}]({name})")
        parts += [f"{drawing.title}: {drawing.caption}"] if drawing.caption else []
    return parts


def _row_seconds(answer: Mapping[str, Any]) -> float:
    """Of results that have the time of their networks row by row."""
    return float(sum(row.get("seconds", 0) for row in answer["result"].get("rows", ())))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = True) -> str:
    """A table in Markdown; numbers stand to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + ("---:|" if numbers else "---|") * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
