"""What the page of the geometric paper answers first."""

from pathlib import Path

import pytest

from neuronal.experiments.procedures.finding import Finding
from neuronal.report.papers import geometric_answers
from neuronal.report.papers.geometric_answers import QUESTIONS, answers


class Judge:
    def __init__(self, *verdicts):
        self.verdicts = verdicts

    def findings(self, result):
        other = Finding("something else", "reproduced", "0")
        return [other, *(Finding(f"set {i}: GmP (clean)", v, f"{i} of 2") for i, v in enumerate(self.verdicts))]


@pytest.mark.parametrize(
    ("verdicts", "word"),
    [
        (("reproduced", "shown"), "Yes"),
        (("not reproduced", "not shown"), "No"),
        (("reproduced", "not reproduced"), "In part"),
        (("reproduced in part",), "In part"),
    ],
)
def test_the_word_is_that_of_all_verdicts(monkeypatch, verdicts, word):
    monkeypatch.setattr(geometric_answers, "PROCEDURES", {"p": Judge(*verdicts)})
    line = answers({"geometric/same_rate": {"procedure": "p", "scale": "paper"}}, Path())[-2]
    head, *below = line.split("\n")
    assert head == f"**Is it better than standard units at the same rate?** {word}."
    again = "(`neuronal reproduce geometric/same_rate --scale paper`)"
    assert below == [f"  - {v}: set {i}: GmP (clean): {i} of 2 {again}" for i, v in enumerate(verdicts)]
    assert "something else" not in line


def test_what_is_not_there_is_said():
    *lines, words = answers({}, Path())
    assert words.startswith("Words: SP standard units, WN weight norm, ")
    assert len(lines) == len(QUESTIONS)
    for line in lines:
        assert "** Not measured yet.\n  - not measured yet (`neuronal reproduce geometric/" in line
