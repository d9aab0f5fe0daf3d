"""Pages made from results: what holds of a paper (Markdown), and the results in a folder (HTML)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import get_args

from neuronal.names import find
from neuronal.report import Table
from neuronal.report.html import bullets, document, figures
from neuronal.report.html import table as html_table
from neuronal_papers.core import Reproduction
from neuronal_papers.judge import RULES, VERSION, Finding, Outcome, Result
from neuronal_papers.registry import about, reproductions
from neuronal_papers.reproduce import read_result, result_file

FIGURES = "figures"
"""Folder beside the page."""
NOTE = (
    "Written by `neuronal findings` from the files in `results/`; every line names the command that measures it again. "
    "After ± stands the standard error of a mean over seeds, in brackets the interval a claim is judged by. Claims marked "
    "*ours* are made by no paper."
)


def findings_page(paper: str, results: Path) -> tuple[str, dict[str, str]]:
    """The page of what holds of a paper in Markdown, and the figures it shows by their names beside it.

    Tables without a result file are listed as not measured, with the command that would measure them.
    """
    own = [one for one in reproductions().values() if one.name.startswith(f"{paper}/")]
    measured = {one.name: _largest(one, results) for one in own}
    findings = [finding for one in own for finding in _findings(one, measured[one.name])]
    parts = [
        f"# {about(paper)}",
        answers(paper),
        f"{_counted(findings)} {NOTE}",
        f"{RULES} (Rules, version {VERSION}.)",
        _summary(findings),
    ]
    drawings: dict[str, str] = {}
    for one in own:
        parts += [f"## {one.title}", *_section(one, measured[one.name], drawings)]
    return "\n\n".join(part for part in parts if part) + "\n", drawings


def answers(paper: str) -> str:
    """The answers at the head of a page, which are written by hand; a test checks each number in them."""
    file = Path(__file__).parent / paper / "answers.md"
    return file.read_text(encoding="utf-8").strip() if file.is_file() else ""


def sentences(result: Result) -> list[str]:
    """One sentence per claim: outcome, claim, numbers."""
    if result["scale"] == "smoke":
        return ["Scale smoke shows that it runs; it says nothing of the paper's claims."]
    findings = _of(result).findings(result)
    return [
        f"{one.outcome}: {'ours: ' * one.beyond_paper}{one.claim}{one.numbers and f': {one.numbers}'}."
        for one in findings
    ]


def results_page(title: str, results: Sequence[Result]) -> str:
    """The results of a folder as one self-contained page."""
    parts = [f"<h1>{escape(title)}</h1>", _claims(results)]
    for result in results:
        one = _of(result)
        parts += [
            f"<h2>{escape(result['title'])}</h2>",
            f'<p class="soft">{escape(result["where"])}; <code>{escape(result["command"])}</code>, '
            f"{result['seconds']:,.0f} s, {escape(_machine(result))}.</p>",
            *([f"<p>What is different here: {escape(result['departs'])}</p>"] if result["departs"] else []),
            bullets(sentences(result)),
            *_html_tables(one.tables(result)),
            figures(one.figures(result)),
        ]
    return document(title, parts)


def read_results(folder: Path) -> list[Result]:
    """Every result in a folder, by name, as it reads today; ``ValueError`` when there is none."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise ValueError(f"{folder} has no results. neuronal reproduce writes them.")
    return [_of(result).current(result) for result in map(read_result, files)]


def markdown(table: Table) -> str:
    """A table in Markdown; numbers stand to the right."""
    rules = ["---"] * table.num_texts + ["---:"] * (len(table.head) - table.num_texts)
    # Whatever the columns hold, the first names the row.
    lines = ["| " + " | ".join(table.head) + " |", "|---|" + "".join(f"{rule}|" for rule in rules[1:])]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in table.rows)])


def _of(result: Result) -> Reproduction:
    return find(reproductions(), result["reproduction"], "reproduction")


def _largest(one: Reproduction, results: Path) -> Result | None:
    """The result of the largest scale there is, smoke apart."""
    for scale in ("paper", "small"):
        if (file := result_file(one.name, scale, results)).is_file():
            return one.current(read_result(file))
    return None


def _findings(one: Reproduction, result: Result | None) -> list[Finding]:
    if result is not None:
        return one.findings(result)
    scale = next(scale for scale in ("small", "paper") if scale in one.scales)
    command = f"neuronal reproduce {one.name} --scale {scale}"
    return [Finding(f"{one.title} ({one.where})", "not measured", "", command=command)]


def _counted(findings: Sequence[Finding]) -> str:
    """How the claims came out, and how many tables and figures have no result."""
    claims = [finding for finding in findings if finding.numbers]

    def counts(of: Sequence[Finding]) -> str:
        numbers = Counter(finding.outcome for finding in of)
        return ", ".join(f"{numbers[outcome]} {outcome}" for outcome in get_args(Outcome) if numbers[outcome]) or "none"

    text = f"Claims of the paper: {counts([one for one in claims if not one.beyond_paper])}."
    if ours := [one for one in claims if one.beyond_paper]:
        text += f" Ours: {counts(ours)}."
    if missing := len(findings) - len(claims):
        text += f" Tables and figures without a result: {missing}."
    return text


def _summary(findings: Sequence[Finding]) -> str:
    rows = tuple(
        (
            f"{'*ours:* ' * one.beyond_paper}{one.claim}",
            one.outcome if one.outcome == "not measured" else f"**{one.outcome}**",
            one.numbers,
            f"`{one.command}`",
        )
        for one in findings
    )
    return markdown(Table("", ("claim", "outcome", "measured", "again by"), rows, 4))


def _section(one: Reproduction, result: Result | None, drawings: dict[str, str]) -> list[str]:
    """Adds the figures it shows to ``drawings``."""
    parts = [f"{one.where}."]
    if one.departs:
        parts.append(f"What is different here: {one.departs}")
    if one.criteria:
        parts.append(f"How it is judged: {one.criteria}")
    if result is None:
        scales = ", ".join(f"`--scale {scale}`" for scale in one.scales if scale != "smoke")
        return [*parts, f"No result yet: `neuronal reproduce {one.name}` ({scales})."]
    # Networks may be from another reproduction, or have been trained side by side: their time is told by itself.
    networks = result.get("network_seconds") or sum(row.get("seconds", 0) for row in result["result"].get("rows", ()))
    trained = f" ({networks:,.0f} s of training and measuring in all)" if networks else ""
    together = f" by {result['workers']} processes" if result.get("workers", 1) > 1 else ""
    parts.append(f"`{result['command']}`: {result['seconds']:,.0f} s{together}{trained} on {_machine(result)}.")
    for number, table in enumerate(one.tables(result)):
        # The first has the title of the section.
        parts += [f"**{table.title}**"] if number else []
        parts.append(markdown(table))
        parts += [f"{table.caption}."] if table.caption else []
    for number, drawing in enumerate(one.figures(result), 1):
        name = f"{FIGURES}/{one.name.replace('/', '-')}-{number}.svg"
        drawings[name] = drawing.svg
        parts.append(f"![{drawing.title}]({name})")
        parts += [f"{drawing.title}: {drawing.caption}"] if drawing.caption else []
    return parts


def _html_tables(tables: Sequence[Table]) -> list[str]:
    """Each with what is below it, and from the second on with its title: the first has that of the result."""
    parts = []
    for number, table in enumerate(tables):
        parts += [f"<h3>{escape(table.title)}</h3>"] if number else []
        parts.append(html_table(table.head, table.rows))
        parts += [f'<p class="soft">{escape(table.caption)}.</p>'] if table.caption else []
    return parts


def _claims(results: Sequence[Result]) -> str:
    rows = [
        [f"{'ours: ' * finding.beyond_paper}{finding.claim}", finding.outcome, finding.numbers]
        for result in results
        if result["scale"] != "smoke"
        for finding in _of(result).findings(result)
    ]
    return html_table(["claim", "outcome", "measured"], rows, "left claims") if rows else ""


def _machine(result: Result) -> str:
    """Where and from which commit it was measured; a commit with uncommitted changes is marked."""
    environment: Mapping[str, str] = result["environment"]
    machine = environment["gpu"] if environment.get("gpu", "none") != "none" else environment.get("processor", "")
    commit = environment["commit"].replace("+changes", " with uncommitted changes")
    return f"{machine}, torch {environment['torch']}, commit {commit}, finished {result['finished']}"
