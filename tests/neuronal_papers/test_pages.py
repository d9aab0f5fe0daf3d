"""Pages: made from results alone; those in the repository are those of the results in it."""

import json
from dataclasses import replace

import pytest

from neuronal.cli.app import main
from neuronal_papers.judge import VERSION
from neuronal_papers.pages import findings_page
from neuronal_papers.registry import PAPERS, reproductions
from neuronal_papers.reproduce import read_result, reproduce, with_checksum, write_result
from tests.conftest import ROOT, undrawn
from tests.neuronal_papers.toy import ACCURACY, AREAS

RESULTS, PAGES = ROOT / "results", ROOT / "docs" / "findings"


@pytest.mark.parametrize("paper", PAPERS)
def test_the_page_in_the_repository_is_that_of_the_results(paper):
    with undrawn():
        page, figures = findings_page(paper, RESULTS)
    assert (PAGES / f"{paper}.md").read_text() == page, f"neuronal findings {paper} --out docs/findings/{paper}.md"
    assert sorted(figures) == sorted(f"figures/{file.name}" for file in (PAGES / "figures").glob(f"{paper}-*.svg"))


@pytest.mark.parametrize("file", sorted(f for paper in PAPERS for f in (RESULTS / paper).glob("*.json")), ids=str)
def test_every_result_is_judged_by_the_rules_of_today(file, tmp_path):
    result = read_result(file)
    one = reproductions()[result["reproduction"]]
    write_result(tmp_path / "again.json", one, result)
    assert read_result(tmp_path / "again.json")["judged"] == result["judged"], "python tools/judge_results.py"
    assert result["judged"]["version"] == VERSION


@pytest.fixture
def results(tmp_path, monkeypatch, toys):
    """A folder with the results of both toys; the command looks there."""
    monkeypatch.chdir(tmp_path)
    for one in (ACCURACY, AREAS):
        reproduce(one, "small", runs=tmp_path / "runs", results=tmp_path / "results")
    return tmp_path / "results"


def test_a_page_has_claims_tables_and_figures(results, tmp_path, capsys):
    assert main(["findings", "toy", "--out", "docs/toy.md"]) == 0
    page = (tmp_path / "docs" / "toy.md").read_text()
    assert page.startswith("# A paper on toys (Nobody)\n")
    assert "| Areas are even | **holds** | 0 of 3 odd | `neuronal reproduce toy/areas --scale small` |" in page
    assert "| *ours:* Areas have weights | not measured |" in page
    section = page[page.index("## Areas of squares\n\nFigure 1.\n\n") :]
    assert "\n\nWhat is different here: Squares are smaller.\n\nHow it is judged: By a ruler.\n\n" in section
    assert "\n\nIn metres.\n\n**All sides**\n\n| sum |\n|---|\n| 12 |\n\nOf sides alone.\n\n" in section
    assert section.endswith("![Areas](figures/toy-areas-1.svg)\n\nAreas: One by one.\n")
    assert "Areas of squares (Figure 1" not in section
    assert (tmp_path / "docs" / "figures" / "toy-areas-1.svg").read_text().startswith("<svg")
    capsys.readouterr()
    assert main(["findings", "toy"]) == 0
    assert capsys.readouterr().out == page


def test_outcomes_are_counted(results):
    (results / "toy" / "accuracy.small.json").unlink()
    page, figures = findings_page("toy", results)
    assert "\n\nClaims of the paper: 1 holds, 1 inconclusive. Tables and figures without a result: 2. " in page
    assert "| Accuracy of toys (Table 1) | not measured |  | `neuronal reproduce toy/accuracy --scale small` |" in page
    assert "\n\nNo result yet: `neuronal reproduce toy/accuracy` (`--scale small`).\n\n" in page
    assert list(figures) == ["figures/toy-areas-1.svg"]


def rewrite(results, **values):
    """Puts other values into the result of the areas."""
    file = results / "toy" / "areas.small.json"
    file.write_text(json.dumps(with_checksum(json.loads(file.read_text()) | values)))


def test_results_are_asked_what_is_claimed_today(results, monkeypatch):
    rewrite(results, departs="said long ago")
    monkeypatch.setattr("tests.neuronal_papers.toy.REPRODUCTIONS", (replace(AREAS, claims=AREAS.claims[1:]),))
    page, _ = findings_page("toy", results)
    assert "Areas are large" in page
    assert "said long ago" not in page
    assert "Areas are even" not in page


def test_a_page_says_who_measured_it_and_from_what(results):
    rewrite(results, workers=3, environment={"torch": "2.0", "commit": "abc+changes"})
    page, _ = findings_page("toy", results)
    assert "by 3 processes" in page
    assert "torch 2.0, commit abc with uncommitted changes" in page


def test_a_folder_of_results_has_a_page(results, capsys, tmp_path):
    assert main(["report", "results/toy", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer["findings"]) == ["toy/accuracy", "toy/areas"]
    page = (tmp_path / "runs" / "toy.html").read_text()
    assert "<h2>Areas of squares</h2>" in page
    assert page.index("<h3>All sides</h3>") < page.index('<p class="soft">Of sides alone.</p>')
    assert page.count("<svg") == 1
    assert main(["report", "results/none"]) == 2


@pytest.mark.parametrize("command", ["findings", "report"])
def test_a_result_that_lacks_something_is_one_line(results, capsys, command):
    rewrite(results, result={})
    assert main([command, "toy" if command == "findings" else "results/toy"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "rows" in line
