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
from neuronal_papers.registry import package_of, reproductions
from neuronal_papers.reproduce import read_result, result_file

NOTE = (
    "Written by `neuronal findings` from the files in `results/`; every line names the command that measures it again. "
    "After ± stands the standard error of a mean over seeds, in brackets the interval a claim is judged by. Claims marked "
    "*ours* are made by no paper."
)


def findings_page(paper: str, results: Path) -> tuple[str, dict[str, str]]:
    """The page of what holds of a paper in Markdown, and the figures it shows by their names beside it.

    Tables without a result file are listed as not measured, with the command that would measure them.
    """
    package = package_of(paper)
    if not results.is_dir():
        raise ValueError(f"{results} is no folder of results. neuronal reproduce writes them.")
    findings: list[Finding] = []
    sections: list[str] = []
    drawings: dict[str, str] = {}
    for one in package.REPRODUCTIONS:
        sections += [
            f"## {one.title}",
            f"{one.where}.",
            one.departs and f"What is different here: {one.departs}",
            one.criteria and f"How it is judged: {one.criteria}",
        ]
        if found := best_result(one, results):
            result = one.current(found)
            findings += one.findings(result)
            sections += _section(one, result, drawings)
        else:
            command, scales = f"neuronal reproduce {one.name}", [scale for scale in one.scales if scale != "smoke"]
            again = f"{command} --scale {scales[0]}"
            findings.append(Finding(f"{one.title} ({one.where})", "not measured", "", False, again))
            sections.append(f"No result yet: `{command}` ({', '.join(f'`--scale {scale}`' for scale in scales)}).")
    rows = tuple(
        (
            f"{'*ours:* ' * one.beyond_paper}{one.claim}",
            one.outcome if one.outcome == "not measured" else f"**{one.outcome}**",
            one.numbers,
            f"`{one.command}`",
        )
        for one in findings
    )
    parts = [
        f"# {package.ABOUT}",
        answers(paper),
        f"{_counted(findings)} {NOTE}",
        f"{RULES} (Rules, version {VERSION}.)",
        markdown(Table("", ("claim", "outcome", "measured", "again by"), rows, num_texts=4)),
        *sections,
    ]
    return "\n\n".join(filter(None, parts)) + "\n", drawings


def best_result(one: Reproduction, results: Path) -> Result | None:
    """The result at the paper's scale, or at the small one while that lacks trials; ``None`` without any."""
    files = (result_file(one.name, scale, results) for scale in ("paper", "small"))
    found = [read_result(file) for file in files if file.is_file()]
    return next((result for result in found if not result.get("lacks")), found[0] if found else None)


def answers(paper: str) -> str:
    """The answers at the head of a page, which are written by hand; a test checks each number in them."""
    file = Path(__file__).parent / paper / "answers.md"
    return file.read_text(encoding="utf-8").strip() if file.is_file() else ""


def sentences(one: Reproduction, result: Result) -> list[str]:
    """One sentence per claim: outcome, claim, numbers."""
    if result["scale"] == "smoke":
        return ["Scale smoke shows that it runs; it says nothing of the paper's claims."]
    return [
        f"{finding.outcome}: {'ours: ' * finding.beyond_paper}{finding.claim}{finding.numbers and f': {finding.numbers}'}."
        for finding in one.findings(result)
    ]


def results_page(folder: Path) -> tuple[str, dict[str, list[str]]]:
    """All results in a folder as one self-contained page, and their sentences; ``ValueError`` when there is none."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise ValueError(f"{folder} has no results. neuronal reproduce writes them.")
    title = f"Results of {folder.name}"
    parts, said = [f"<h1>{escape(title)}</h1>"], {}
    for file in files:
        result = read_result(file)
        one = find(reproductions(), result["reproduction"], "reproduction")
        result = one.current(result)
        said[one.name] = sentences(one, result)
        parts += [
            f"<h2>{escape(one.title)}</h2>",
            f'<p class="soft">{escape(one.where)}; <code>{escape(result["command"])}</code>: {escape(_run(result))}.</p>',
            f"<p>What is different here: {escape(one.departs)}</p>" if one.departs else "",
            bullets(said[one.name]),
        ]
        for number, table in enumerate(one.tables(result)):
            # The first has the title of the section.
            heading = f"<h3>{escape(table.title)}</h3>" if number else ""
            caption = f'<p class="soft">{escape(table.caption)}.</p>' if table.caption else ""
            parts += [heading, html_table(table.head, table.rows), caption]
        parts.append(figures(one.figures(result)))
    return document(title, parts), said


def markdown(table: Table) -> str:
    """A table in Markdown; numbers stand to the right, but the first column names the row, whatever it holds."""
    rules = ["---" if number < max(1, table.num_texts) else "---:" for number in range(len(table.head))]
    head, *rows = ["| " + " | ".join(row) + " |" for row in (table.head, *table.rows)]
    return "\n".join([head, f"|{'|'.join(rules)}|", *rows])


def _counted(findings: Sequence[Finding]) -> str:
    """How the claims came out, and how many tables and figures have no result."""
    claims = Counter((one.beyond_paper, one.outcome) for one in findings if one.numbers)
    papers, ours = (
        ", ".join(f"{claims[is_ours, outcome]} {outcome}" for outcome in get_args(Outcome) if claims[is_ours, outcome])
        for is_ours in (False, True)
    )
    text = f"Claims of the paper: {papers or 'none'}." + (f" Ours: {ours}." if ours else "")
    missing = len(findings) - claims.total()
    return text + (f" Tables and figures without a result: {missing}." if missing else "")


def _section(one: Reproduction, result: Result, drawings: dict[str, str]) -> list[str]:
    """What a page shows of a result; adds the figures to ``drawings``."""
    parts = [f"`{result['command']}`: {_run(result)}.", _lacking(result)]
    for number, table in enumerate(one.tables(result)):
        # The first has the title of the section.
        parts += [f"**{table.title}**" if number else "", markdown(table), table.caption and f"{table.caption}."]
    for number, drawing in enumerate(one.figures(result), 1):
        name = f"figures/{one.name.replace('/', '-')}-{number}.svg"
        drawings[name] = drawing.svg
        parts += [f"![{drawing.title}]({name})", drawing.caption and f"{drawing.title}: {drawing.caption}"]
    return parts


def _lacking(result: Result) -> str:
    """The trials a table at the paper's scale still lacks, and what they take."""
    rows = [
        f"{row['name']} ({row['neuron']}), seeds {', '.join(map(str, row['seeds']))}" for row in result.get("lacks", ())
    ]
    minutes = f"about {max(1, round(result['minutes_left']))} min on this machine" if "minutes_left" in result else ""
    return f"Not measured yet{minutes and f' ({minutes})'}: {'; '.join(rows)}." if rows else ""


def _run(result: Result) -> str:
    """How long it took, where, and from which commit; one with uncommitted changes is marked."""
    # Networks may be from another reproduction, or have been trained side by side: their time is told by itself.
    networks = result.get("network_seconds") or sum(row.get("seconds", 0) for row in result["result"].get("rows", ()))
    together = f" by {result['workers']} processes" if result.get("workers", 1) > 1 else ""
    trained = f" ({networks:,.0f} s of training and measuring in all)" if networks else ""
    environment: Mapping[str, str] = result["environment"]
    machine = environment["gpu"] if environment.get("gpu", "none") != "none" else environment.get("processor", "")
    commit = environment["commit"].replace("+changes", " with uncommitted changes")
    where = f"{machine}, torch {environment['torch']}, commit {commit}, finished {result['finished']}"
    took = f"{result['trials']} trials" if "trials" in result else f"{result['seconds']:,.0f} s{together}"
    return f"{took}{trained} on {where}"
