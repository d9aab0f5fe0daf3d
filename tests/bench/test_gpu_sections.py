"""The run of ``neuronal bench gpu``: sections, what is kept of them, and what is shown."""

import io
import json

import pytest
import torch
from rich.console import Console

from neuronal.bench.gpu import ceilings, notes, sections
from neuronal.bench.gpu.ceilings import Setting, device_seconds
from neuronal.bench.gpu.row import Row
from neuronal.bench.gpu.sections import Outcome, Section, chosen, run
from neuronal.cli import app as cli
from neuronal.report.bench_gpu import number, section_table, verdict

CPU = Setting(torch.device("cpu"), 2)


def fine(_):
    yield Row("slow", 3.0, "x", 2.5, shown={"share %": 12.0})
    yield Row("fast", 1.0, "x", 2.5)
    yield Row("speed", 0.9, "of it", 0.95, at_least=True, note="waits")


def broken(_):
    yield Row("first", 7.0, "s")
    raise ValueError("no luck\nand more of it")


@pytest.fixture
def made_up(monkeypatch):
    found = {"fine": Section("all is well", fine), "broken": Section("not so well", broken)}
    monkeypatch.setattr(sections, "SECTIONS", {**found, "last": Section("still there", fine)})
    monkeypatch.setattr(ceilings, "gpu", lambda: torch.device("cpu"))
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize(
    ("row", "met"),
    [
        (Row("", 1.0, "", 1.0), True),
        (Row("", 1.004, "", 1.0), False),
        (Row("", 0.949, "", 0.95, at_least=True), False),
        (Row("", 0.95, "", 0.95, at_least=True), True),
        (Row("", None, "", 2.5), False),
        (Row("", 9.0, ""), None),
    ],
)
def test_a_limit_is_kept_or_not(row, met):
    assert row.met is met
    assert row.to_json()["met"] is met


def test_a_section_that_fails_keeps_its_rows_and_the_next_goes_on(made_up):
    seen = []
    outcomes = run([], CPU, lambda outcome: seen.append((outcome.name, len(outcome.rows), outcome.error)))
    assert [outcome.name for outcome in outcomes] == ["fine", "broken", "last"]
    assert outcomes[1].error == "ValueError: no luck"
    assert [row.name for row in outcomes[1].rows] == ["first"]
    assert all(row["took"] >= 0 for outcome in outcomes for row in outcome.to_json()["rows"])
    assert seen[:2] == [("fine", 0, ""), ("fine", 1, "")]
    assert ("broken", 1, "ValueError: no luck") in seen
    assert outcomes[2].error == ""


def test_sections_come_in_their_own_order():
    assert chosen(["graphs", "ceilings"]) == ["ceilings", "graphs"]
    assert chosen([]) == list(sections.SECTIONS)


def test_notes_are_put_to_their_rows(made_up, monkeypatch):
    monkeypatch.setattr(sections, "NOTES", {"fine": {"slow": "tried all", "speed": "and hard"}})
    (outcome,) = run(["fine"], CPU, lambda _: None)
    assert [row.note for row in outcome.rows] == ["tried all", "", "waits; and hard"]


def test_notes_are_of_rows_that_exist():
    assert set(notes.NOTES) <= set(sections.SECTIONS)


def test_the_tables_say_what_is_over_its_limit_and_why(made_up):
    outcomes = run([], CPU, lambda _: None)
    console = Console(width=100, record=True, file=io.StringIO())
    for outcome in outcomes:
        console.print(section_table(outcome))
    text = console.export_text()
    assert ": all is well" in text
    assert "share %" in text
    assert "≥ 0.95" in text
    assert "speed: waits" in text
    assert "broken ended early. ValueError: no luck" in text
    assert verdict(outcomes).startswith("2 of 6 limits kept; failed: broken; ")


def test_a_section_without_rows_is_one_line():
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(section_table(Outcome("empty", "nothing", error="RuntimeError: out of memory")))
    assert "empty (0 s): nothing measured" in console.export_text()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"),
        (7, "7"),
        (12345.6, "12,346"),
        (1.0281, "1.028"),
        (87.3456, "87.3"),
        (0.000123, "0.00012"),
        ("a", "a"),
    ],
)
def test_numbers_have_the_digits_that_matter(value, text):
    assert number(value) == text


def test_the_command_keeps_what_there_is_and_ends_with_one(made_up, tmp_path, capsys):
    assert cli.main(["bench", "gpu", "--out", str(tmp_path), "--rounds", "2"]) == 1
    printed = capsys.readouterr()
    assert "2 of 6 limits kept; failed: broken" in printed.out
    assert printed.out.index("all is well") < printed.out.index("not so well")
    assert "1 of 3 sections ended early: broken." in printed.err
    assert "neuronal: measuring last" in printed.err
    kept = json.loads((tmp_path / "gpu.json").read_text())
    assert [section["name"] for section in kept["sections"]] == ["fine", "broken", "last"]
    assert kept["sections"][0]["rows"][0]["share %"] == 12.0
    assert kept["environment"]["torch"]


def test_some_sections_alone_and_as_json(made_up, tmp_path, capsys):
    assert cli.main(["bench", "gpu", "--out", str(tmp_path), "--only", "last", "--only", "fine", "--json"]) == 0
    assert [section["name"] for section in json.loads(capsys.readouterr().out)["sections"]] == ["fine", "last"]


def test_what_was_measured_is_there_after_a_kill(made_up, tmp_path, monkeypatch):
    def killed(_):
        yield Row("before", 1.0, "x")
        raise KeyboardInterrupt

    monkeypatch.setattr(sections, "SECTIONS", {"one": Section("", fine), "two": Section("", killed)})
    assert cli.main(["bench", "gpu", "--out", str(tmp_path)]) == 130
    kept = json.loads((tmp_path / "gpu.json").read_text())
    assert [len(section["rows"]) for section in kept["sections"]] == [3, 1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "bench gpu needs a CUDA device, and there is none."),
        (["--only", "network"], "Unknown section 'network'. Did you mean 'networks'? There are: ceilings, "),
        (["--rounds", "1"], "--rounds needs to be at least 2, got 1."),
    ],
)
def test_mistakes_are_one_line(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["bench", "gpu", *words]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_ceilings_are_rates():
    (copy, product, special) = ceilings.rows(CPU)
    assert min(copy.measured, product.measured, special.measured) > 0
    assert CPU.ceilings is CPU.ceilings


def test_the_clock_takes_the_median():
    waits = iter([0.0, 0.0, 0.0, 0.02, 0.0, 0.0])

    def action():
        import time

        time.sleep(next(waits))

    assert device_seconds(action, torch.device("cpu"), rounds=3, warmup=3) < 0.01
