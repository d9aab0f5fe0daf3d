"""The answers at the head of a page are written by hand: every number in them stands in the results they name."""

import re
from functools import cache

import pytest

from neuronal_papers.pages import answers
from neuronal_papers.registry import PAPERS, reproductions
from neuronal_papers.reproduce import read_result, result_file
from tests.conftest import ROOT

NUMBER = re.compile(r"(?<![\w.,-])[-+]?(\d+(?:,\d{3})*(?:\.\d+)?)(?![\w]|[.,]\d)")
"""A number that is no part of a name, such as ResNet-18 or 1e-3."""


def numbers(text):
    """Without signs, which a sentence says in words, and without commas between digits."""
    text = text.replace("−", "-").replace("–", " ").replace("×", " x")
    return {number.replace(",", "") for number in NUMBER.findall(text)}


@cache
def shown(name):
    """All numbers of the tables and claims of a reproduction, and of what it says it measured differently."""
    one = reproductions()[name]
    found = numbers(f"{one.departs} {one.criteria}")
    for scale in ("paper", "small"):
        if not (file := result_file(name, scale, ROOT / "results")).is_file():
            continue
        result = one.current(read_result(file))
        for table in one.tables(result):
            cells = [cell for row in (table.head, *table.rows) for cell in row]
            found |= numbers(" ".join([table.title, table.caption, *cells]))
        for finding in one.findings(result):
            found |= numbers(f"{finding.claim} {finding.numbers}")
    return found


@pytest.mark.parametrize("paper", PAPERS)
def test_every_number_of_the_answers_stands_in_the_results_they_name(paper):
    assert answers(paper), f"src/neuronal_papers/{paper}/answers.md is missing"
    # Paragraphs, and items of lists.
    for text in re.split(r"\n\s*\n|\n(?=- )", answers(paper)):
        names = [name for name in reproductions() if re.search(rf"{name}(?![\w/])", text)]
        own = numbers(re.sub(r"`[^`]*`|\]\([^)]*\)", "", text))
        assert names or not own, f"no reproduction is named beside {sorted(own)}: {text}"
        missing = own - set().union(*map(shown, names))
        assert not missing, f"{sorted(missing)} not in {', '.join(names)}: {text}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ResNet-18 and VGG6 on CIFAR-10, 304,255 parameters", {"304255"}),
        ("-2.31 points (95%: −55.74 to +51.12)", {"2.31", "95", "55.74", "51.12"}),
        ("3 of 10; at 0.1, 1e-3 and 84.2%.", {"3", "10", "0.1", "84.2"}),
        ("68.4 ± 1.8, 5.3× and 2x", {"68.4", "1.8", "5.3"}),
    ],
)
def test_numbers_are_told_from_names(text, expected):
    assert numbers(text) == expected
