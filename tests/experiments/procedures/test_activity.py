"""Layers that are off, in networks made so by hand."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from neuronal.data.dataset import Split
from neuronal.experiments.procedures.farkas.activity import MEASURES, certified, findings, measure, off
from neuronal.experiments.procedures.farkas.claims import learnt
from neuronal.experiments.reproduction import Setting
from neuronal.experiments.work import Work
from neuronal.nn import FarkasLinear
from neuronal.recipes.farkas.layers import FASHION, smoke


def network(first):
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), nn.Linear(2, 2)).double()


def facing_away():
    layer = nn.Linear(2, 2)
    nn.init.constant_(layer.weight, -1.0)
    nn.init.constant_(layer.bias, -0.5)
    return network(layer)


def images():
    return Split(torch.rand(20, 1, 1, 2).double(), torch.zeros(20, dtype=torch.long))


def test_a_layer_that_faces_away_is_dead_and_refuted():
    assert off(facing_away(), images()) == {"dead_units": 1.0, "dead_layers": 1.0, "silent": 1.0}
    found = certified(facing_away(), images())
    assert (found["refuted"], found["certified"], found["checked"]) == (1, 0, True)


def test_a_farkas_layer_is_certified_with_its_promise():
    model = network(FarkasLinear(2, 2))
    found = certified(model, images())
    assert (found["refuted"], found["certified"], found["checked"]) == (0, 1, True)
    assert found["margin"] == pytest.approx(model[1].promise().item(), rel=1e-6)
    assert off(model, images())["silent"] == 0


def test_shares_before_training_and_after_every_epoch(tmp_path):
    recipes = [replace(smoke(FASHION), name=family, family=family, epochs=2) for family in ("standard", "farkas")]
    claims = (
        {"kind": "never_silent", "rows": ["farkas"], "than": ["standard"], "text": "never"},
        {"kind": "certified", "rows": ["farkas"], "than": [], "text": "proved"},
        {"kind": "alive", "rows": ["standard", "farkas"], "than": [], "text": "alive"},
        {"kind": "fewer_dead", "rows": ["farkas"], "than": ["standard"], "text": "fewer", "ours": True},
        {"kind": "fails", "row": "standard", "text": "fails"},
        {"kind": "certified", "rows": ["farkas", "nobody"], "than": [], "text": "not there"},
    )
    options = {"images": 50, "classes": 10, "claims": claims}
    answer = {"result": measure(Setting(tuple(recipes), options), Work(tmp_path)), "options": options}
    for row in answer["result"]["rows"]:
        assert all(len(shares) == 3 for shares in row["over_training"]["0"].values())
    found = {one.claim: one for one in findings(answer)}
    none_dead = "Farkas layers ensure that no neurons are dead (Conclusion)"
    assert list(found) == ["never", "proved", "alive", "Beyond the paper: fewer", "fails", "not there", none_dead]
    assert found["never"].verdict == found["proved"].verdict == found["alive"].verdict == "reproduced"
    assert (found["not there"].verdict, found["not there"].numbers) == ("not measured", "the result has no nobody")
    assert "all layers certified in 1 of 1 trained network" in found["proved"].numbers


def test_a_training_that_breaks_down_is_said_to(tmp_path):
    wild = replace(smoke(FASHION), name="wild", lr=1e9)
    options = {"images": 50, "classes": 10, "claims": ({"kind": "fails", "row": "wild", "text": "fails"},)}
    result = measure(Setting((wild,), options), Work(tmp_path))
    (row,) = result["rows"]
    assert row["certificates"] == {}
    assert "loss became" in row["failed"]["0"]
    assert findings({"result": result, "options": options})[0].verdict == "reproduced"


DEAD, SILENT, SURE = (
    {"kind": "fewer_dead", "rows": ["f"], "than": ["s"], "text": "fewer", "ours": True},
    {"kind": "never_silent", "rows": ["f"], "than": ["s"], "text": "never"},
    {"kind": "certified", "rows": ["f"], "than": [], "text": "proved"},
)
WHOLE = {"layers": 4, "certified": 4, "refuted": 0, "margin": 0.05, "checked": True}


def row(name, dead, *, accuracy=0.5, broken=(), proofs=()):
    """Shares of dead units at the end, seed by seed; seeds in ``broken`` were looked at once."""
    over = {
        str(seed): {measure: [0.0] if seed in broken else [0.0, share] for measure in MEASURES}
        for seed, share in enumerate(dead)
    }
    reached = {seed: accuracy for seed in over if int(seed) not in broken}
    found = learnt(reached, {str(seed): "nan" for seed in broken}, 0.1)
    facts = {"name": name, "neuron": "farkas" if name == "f" else "standard", "over_training": over}
    return facts | found | {"certificates": dict(enumerate(proofs))}


def said(*claims, rows):
    return findings({"result": {"rows": rows, "chance": 0.1}, "options": {"claims": claims}})


def test_runs_that_broke_down_are_left_out():
    rows = [row("f", [0.9, 0.1, 0.11], broken=(0,)), row("s", [0.2, 0.2, 0.22])]
    fewer, never, _ = said(DEAD, SILENT, rows=rows)
    # 10 and 11 points less over two seeds: 10.5 with an error of 0.5, and Student's t of one degree is 12.71.
    assert fewer.numbers == (
        "holds beyond chance in 1 of 1, the contrary in 0; points fewer units dead at the end: "
        "f +10.50 (95%: +4.15 to +16.85), 2 seeds, 10.5% against 21.0%, runs that failed 1 of 3 against 0 of 3"
    )
    assert fewer.verdict == "shown"
    assert (never.verdict, "(4 looks at 2 trained networks)" in never.numbers) == ("not reproduced", True)


def test_nothing_is_measured_of_a_network_that_always_broke_down():
    rows = [row("f", [0.3, 0.1], broken=(0, 1)), row("s", [0.2, 0.2])]
    found = said(DEAD, SILENT, rows=rows)
    assert [one.verdict for one in found] == ["not measured"] * 3
    # Of the standard network there is nothing to say either; the claim is about the other.
    (never,) = said(SILENT, rows=[row("f", [0.0]), row("s", [0.2], broken=(0,))])
    assert (never.verdict, "s: up to" in never.numbers) == ("reproduced", False)


def test_a_claim_may_be_about_several_networks():
    rows = [
        row("f", [0.3, 0.31, 0.32]),
        row("g", [0.1, 0.11, 0.12]),
        row("h", [0.0], broken=(0,)),
        row("s", [0.2, 0.2, 0.21]),
        row("t", [0.2, 0.2, 0.22]),
    ]
    about = {"rows": ["f", "g", "h"], "than": ["s", "t", "s"]}
    fewer, never, _ = said(DEAD | about, SILENT | about, rows=rows)
    # What cannot be compared is no case it holds in.
    assert fewer.verdict == "not shown"
    assert fewer.numbers.startswith("holds beyond chance in 1 of 3, the contrary in 1; ")
    assert fewer.numbers.endswith("; nothing to compare: h")
    assert never.numbers == (
        "at most 32.00% of images leave a layer silent (12 looks at 6 trained networks); t: up to 22.0%; "
        "broke down with every seed: h"
    )
    rows[0]["certificates"], rows[1]["certificates"] = {"0": WHOLE}, {"0": WHOLE | {"margin": 0.01}}
    (sure,) = said(SURE | {"rows": ["f", "g"]}, rows=rows)
    assert "in 2 of 2 trained networks, margin at least 0.01; 2 checked" in sure.numbers


def test_layers_that_are_dead_as_a_whole():
    alive = {"kind": "alive", "rows": ["f", "s"], "than": [], "text": "alive"}
    (found,) = said(alive, rows=[row("f", [0.0, 0.5]), row("s", [0.0])])
    assert (found.verdict, found.numbers) == (
        "reproduced in part",
        "some layer is off on every image, at some look, in 1 of 3 trained networks",
    )
    (found,) = said(alive | {"rows": ["f"]}, rows=[row("f", [0.5], broken=(0,))])
    assert (found.verdict, found.numbers) == ("not measured", "broke down with every seed: f")


@pytest.mark.parametrize(
    ("dead", "accuracy", "verdict"),
    [
        ([0.2, 0.0], 0.5, "not true as stated"),
        ([0.0, 0.0], 0.5, "reproduced"),
        # What never learnt is not what the paper means.
        ([0.2, 0.2], 0.1, "not measured"),
    ],
)
def test_dead_units_of_networks_that_learnt_refute_that_there_are_none(dead, accuracy, verdict):
    *_, none = said(DEAD, rows=[row("f", dead, accuracy=accuracy), row("s", [0.5, 0.5])])
    assert none.verdict == verdict
    assert verdict != "not true as stated" or none.numbers.startswith("1 of 2 Farkas networks that learnt")


def test_a_margin_is_that_of_networks_certified_as_a_whole():
    (whole,) = said(SURE, rows=[row("f", [0.0], proofs=[WHOLE])])
    assert "in 1 of 1 trained network, margin at least 0.05" in whole.numbers
    (part,) = said(SURE, rows=[row("f", [0.0], proofs=[WHOLE, WHOLE | {"certified": 3, "refuted": 1}])])
    assert (part.verdict, "margin" in part.numbers) == ("reproduced in part", False)
    assert "refuted in 1" in part.numbers
    assert "neither" not in part.numbers
    (part,) = said(SURE, rows=[row("f", [0.0], proofs=[WHOLE, WHOLE | {"certified": 3}, WHOLE | {"certified": 2}])])
    assert "in 1 of 3 trained networks; neither in 2; 3 checked" in part.numbers
