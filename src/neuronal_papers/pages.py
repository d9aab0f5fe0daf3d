"""Pages made from results: what holds of a paper (Markdown), and the results in a folder (HTML)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from neuronal.names import find
from neuronal.report import Block, Bullets, Document, Figures, Section, Table, Text, render_html, render_markdown
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
    sections: list[Section] = []
    for one in package.REPRODUCTIONS:
        about = [Text(f"{one.where}."), *_departs(one.departs)]
        about += [Text(f"How it is judged: {one.criteria}")] if one.criteria else []
        if found := best_result(one, results):
            result = one.current(found)
            findings += one.findings(result)
            blocks = [Text(f"`{result['command']}`: {_run(result)}."), *_lacking(result), *_measured(one, result)]
        else:
            command, scales = f"neuronal reproduce {one.name}", [scale for scale in one.scales if scale != "smoke"]
            again = f"{command} --scale {scales[0]}"
            findings.append(Finding(f"{one.title} ({one.where})", "not measured", "", False, again))
            blocks = [Text(f"No result yet: `{command}` ({', '.join(f'`--scale {scale}`' for scale in scales)}).")]
        sections.append(Section(one.title, [*about, *blocks], one.name.replace("/", "-")))
    rows = tuple(
        (
            f"{'*ours:* ' * one.beyond_paper}{one.claim}",
            one.outcome if one.outcome == "not measured" else f"**{one.outcome}**",
            one.numbers,
            f"`{one.command}`",
        )
        for one in findings
    )
    first: list[Block] = [
        *([Text(text)] if (text := answers(paper)) else []),
        Text(f"{_counted(findings)} {NOTE}"),
        Text(f"{RULES} (Rules, version {VERSION}.)"),
        Table("", ("claim", "outcome", "measured", "again by"), rows, num_texts=4),
    ]
    return render_markdown(Document(package.ABOUT, first, sections))


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
    sections, said = [], {}
    for file in files:
        result = read_result(file)
        one = find(reproductions(), result["reproduction"], "reproduction")
        result = one.current(result)
        said[one.name] = sentences(one, result)
        run = Text(f"{one.where}; `{result['command']}`: {_run(result)}.", is_soft=True)
        blocks = [
            run,
            *_departs(result["departs"]),
            *_lacking(result),
            Bullets(said[one.name]),
            *_measured(one, result),
        ]
        sections.append(Section(one.title, blocks))
    return render_html(Document(f"Results of {folder.name}", (), sections)), said


def _departs(text: str) -> list[Block]:
    return [Text(f"What is different here: {text}")] if text else []


def _measured(one: Reproduction, result: Result) -> list[Block]:
    """Tables and figures of a result."""
    return [*one.tables(result), Figures(one.figures(result))]


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


def _lacking(result: Result) -> list[Block]:
    """The trials a table at the paper's scale still lacks, and what they take."""
    rows = [
        f"{row['name']} ({row['neuron']}), seeds {', '.join(map(str, row['seeds']))}" for row in result.get("lacks", ())
    ]
    minutes = f"about {max(1, round(result['minutes_left']))} min on this machine" if "minutes_left" in result else ""
    return [Text(f"Not measured yet{minutes and f' ({minutes})'}: {'; '.join(rows)}.")] if rows else []


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
