"""Tables and figures of errors, with what the paper reports beside them."""

import re

import pytest

from neuronal.experiments.procedures.farkas.claims import learnt
from neuronal.report import figures
from neuronal.report.drawn import cells
from neuronal.report.papers import drawings, tables


def row(name, accuracy, broken=()):
    seeds = {str(seed): a for seed, a in enumerate(accuracy)}
    found = learnt(seeds, {str(seed): "nan" for seed in broken}, 0.1)
    curves = {seed: [0.3, a] for seed, a in seeds.items()}
    return {"name": name, "neuron": "farkas", "parameters": 1234, "while_training": curves or {"0": []}} | found


@pytest.fixture
def answer():
    rows = [row("a", [0.9, 0.92]), row("b", [0.5, 0.1]), row("c", [], broken=(0, 1))]
    head = {
        "title": "Errors",
        "where": "Table 1",
        "scale": "small",
        "reproduction": "x/y",
        "procedure": "accuracy_table",
    }
    return head | {"result": {"rows": rows, "chance": 0.1}, "reported": {}}


def test_without_reported_numbers(answer):
    head, rows = cells(tables(answer)[0])
    assert head == ["network", "neuron", "error (%)", "failed", "parameters"]
    assert rows[0] == ["a", "farkas", "9.00 ± 1.00", "0 of 2", "1,234"]
    assert rows[1][2:4] == ["50.00", "1 of 2"]
    assert rows[2][2:4] == ["–", "2 of 2"]


def test_with_reported_numbers(answer):
    answer["reported"] = {"a": {"error": 7.5}, "b": {"error": 8.0, "parameters": 5678}}
    head, rows = cells(tables(answer)[0])
    assert head[-2:] == ["reported after 200 epochs (%)", "their parameters"]
    assert [r[-2:] for r in rows] == [["7.50", ""], ["8.00", "5,678"], ["", ""]]
    head, _ = cells(tables(answer | {"scale": "paper"})[0])
    assert head[-2] == "reported (%)"


def test_with_rates_of_their_own(answer):
    tried = (0.001, 0.01, 0.1)
    for one, rate in zip(answer["result"]["rows"], (0.1, 0.01, None), strict=True):
        one |= {
            "rate": rate or 0.05,
            "tuning": [{"value": r, "mean": 0.9 - r, "error": None, "failed": 0} for r in tried],
        }
    answer["result"]["rows"][2]["tuning"] = [{"value": r, "mean": None, "error": None, "failed": 2} for r in tried]
    errors, rates = tables(answer)
    head, rows = cells(errors)
    assert head[-1] == "its rate"
    assert [one[-1] for one in rows] == ["0.1 ↑", "0.01", "0.05, not chosen"]
    assert "the largest, or smallest, of the rates tried" in errors.caption
    head, rows = cells(rates)
    assert head == ["network", "0.001", "0.01", "0.1"]
    assert [one[1:] for one in rows] == [["10.10", "11.00", "20.00"]] * 2 + [["2 broke down"] * 3]
    answer["result"]["rows"][0]["rate"] = 0.01
    assert "of the rates tried" not in tables(answer)[0].caption


def test_runs_that_broke_down_have_no_shares(answer):
    def over(*shares):
        return dict.fromkeys(("dead_units", "dead_layers", "silent"), shares)

    good, bad = row("a", [0.9, 0.8]), row("b", [], broken=(0,))
    part = row("c", [0.9], broken=(1,))
    good |= {"over_training": {"0": over(0.5, 0.1), "1": over(0.0, 0.3)}, "certificates": {}}
    bad |= {"over_training": {"0": over(0.5)}, "certificates": {}}
    part |= {"over_training": {"0": over(0.0, 0.1), "1": over(0.5)}, "certificates": {}}
    made = answer | {"procedure": "activity", "result": {"rows": [good, bad, part], "chance": 0.1}}
    _, rows = cells(tables(made)[0])
    assert [one[3:] for one in rows] == [
        ["20.0", "20.0", "50.0", "–", "–"],
        ["–", "–", "–", "–", "–"],
        ["10.0", "10.0", "10.0", "–", "–"],
    ]


@pytest.mark.parametrize(
    ("silent", "titles"), [(0.0, ["Dead units"]), (0.1, ["Dead units", "Images that silence a layer"])]
)
def test_shares_that_are_always_nothing_are_not_drawn(answer, silent, titles):
    over = {"dead_units": [0.2, 0.1], "dead_layers": [0.0, 0.0], "silent": [0.0, silent]}
    rows = [row("a", [0.9]) | {"over_training": {"0": over}, "certificates": {}}]
    made = answer | {"procedure": "activity", "result": {"rows": rows, "chance": 0.1}}
    assert [one.title for one in drawings(made)] == titles


def test_every_run_is_drawn_and_failures_are_marked(answer):
    errors, curves = drawings(answer)
    assert errors.svg.count(">×</text>") == 2
    assert "1 failed" in errors.svg
    assert "2 failed" in errors.svg
    assert "Open diamonds" not in errors.caption
    assert "training error" in curves.svg


def legends(answer):
    """The networks named in each figure of curves."""
    return [[name for name in "abcdefghijkl" if f">{name}</text>" in one.svg] for one in drawings(answer)[1:]]


def known(rows, epochs=(), scaling=()):
    """Recipes of the rows; 2 epochs and inputs as they are where nothing else is said."""
    facts = {"epochs": 2, "schedule": "constant", "scaling": "unit"}
    recipes = [{"name": one["name"]} | facts for one in rows]
    for recipe, value in zip(recipes, epochs, strict=False):
        recipe["epochs"] = value
    for recipe, value in zip(recipes, scaling, strict=False):
        recipe["scaling"] = value
    return recipes


def test_networks_with_the_same_inputs_share_a_figure(answer):
    rows = answer["result"]["rows"] = [row(name, [0.9]) for name in "abc"]
    answer["recipes"] = known(rows, epochs=(2, 9, 2), scaling=("unit", "standardise", "unit"))
    assert legends(answer) == [["a", "c"], ["b"]]
    answer["recipes"] = known(rows, epochs=(2, 9, 2))
    assert legends(answer) == [["a", "b", "c"]]


def test_many_networks_are_divided_by_how_long_they_were_trained(answer):
    rows = answer["result"]["rows"] = [row(name, [0.9]) for name in "abcdefghi"]
    answer["recipes"] = known(rows, epochs=(2, 9, 2))
    assert legends(answer) == [["a", "c", "d", "e", "f", "g", "h", "i"], ["b"]]
    # Those with standard units are told from the others by their dashes.
    rows[:2] = [one | {"neuron": "standard"} for one in rows[:2]]
    assert legends(answer) == [list("abcdefghi")]


def test_more_networks_than_colours_are_divided_in_their_order(answer):
    answer["result"]["rows"] = [row(name, [0.9]) for name in "abcdefghij"]
    assert legends(answer) == [list("abcdefgh"), list("ij")]


@pytest.mark.parametrize(("runs", "lines"), [(3, 3), (4, 1)])
def test_many_runs_are_drawn_as_their_mean(answer, runs, lines):
    answer["result"]["rows"] = [row("a", [0.9] * runs) | {"neuron": "standard"}]
    # Where most break down at once, what is left is still a mean.
    curves = answer["result"]["rows"][0]["while_training"]
    curves |= {seed: [] for seed in list(curves)[1:]} if runs > 3 else {}
    curves = drawings(answer)[1]
    # And one line of the legend.
    assert curves.svg.count("stroke-dasharray: ") == lines + 1
    assert ("means over the runs that got so far" in curves.caption) == (lines == 1)


def test_standard_and_other_units_share_colours(answer):
    answer["result"]["rows"] = [row("a", [0.9]) | {"neuron": "standard"}, row("b", [0.9])]
    svg = drawings(answer)[1].svg
    assert figures.colour(0).lower() in svg
    assert figures.colour(1).lower() not in svg


def test_standard_units_are_dashed(answer):
    answer["result"]["rows"] = [row("a", [0.9]) | {"neuron": "standard"}, row("b", [0.9])]
    curves = drawings(answer)[1]
    assert "dashed for standard units" in curves.caption
    # One run and one line of the legend.
    assert curves.svg.count("stroke-dasharray: ") == 2


@pytest.mark.parametrize(
    ("name", "in_one_column"), [("short", False), ("a name that is too long for two columns", True)]
)
def test_long_names_stand_below_each_other(answer, name, in_one_column):
    answer["result"]["rows"] = [row(f"{name} {number}", [0.9]) for number in range(2)]
    svg = drawings(answer)[1].svg
    (x, y), (other_x, other_y) = (
        re.search(rf'x="([\d.]+)" y="([\d.]+)"[^>]*>{name} {n}<', svg).groups() for n in range(2)
    )
    assert (x == other_x, y == other_y) == (in_one_column, not in_one_column)
