"""Every suite at a tiny size, with the CPU in the place of a GPU; the command line; what the loops do."""

import json
from copy import deepcopy
from dataclasses import replace
from functools import partial

import pytest
import torch

from benchmarks import run
from benchmarks.cases import Comparison, Prepared
from benchmarks.suites import certify, implicit, layers, networks, train
from benchmarks.timing import Setting
from neuronal.data import Augment, Split
from neuronal.models import create_model
from neuronal.train import Plan, fit

CONVOLUTION = implicit.Convolution(2, 1, 2, 10, 3, repeats=2)
DIGITS = certify.Segments("MLP", "digits", "fcn", {"widths": (8,)}, 6, 0.5)
BESIDE = Comparison("beside", "CPU", partial(certify.beside_cpu, certify.certificate, 1, 1e-3, side=8))
TINY = {
    "layers": (layers.case(2, 4, 2),),
    "implicit": (CONVOLUTION.case(limit=15.0), replace(CONVOLUTION, is_block=True, iterations=1).case("block")),
    "networks": (networks.Steps("cnn", 8, 2, 3, "none", ("zero_bias",), is_compiled=False, count=2).case(),),
    "train": (
        *(train.cnn_case(8, count, images=32, batch=16) for count in (1, 4)),
        Comparison("data", "fit", partial(train.preparation, "no such set", 64, 32), {"data": 0.1}),
        train.CompiledFit("resnet9", 16, 8, 8, {"width": 2}, warmup=1),
    ),
    "certify": (
        *(DIGITS, replace(DIGITS, label="exact", count=1, memory=2**30), certify.Memory(certify.pieces, 2, 0.01, 8)),
        *(Comparison("patterns", "inference", partial(certify.patterns, 20)), BESIDE),
    ),
}
REAL = run.SUITES


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(run, "SUITES", {name: ("about", {"cpu": cases}) for name, cases in TINY.items()})
    monkeypatch.setattr(train, "load", lambda name: (_ for _ in ()).throw(train.MissingData(name)))


@pytest.mark.parametrize("suite", TINY)
def test_a_suite_is_measured_kept_and_shown(suite, tmp_path, capsys):
    assert run.main([suite, "--rounds", "6", "--out", str(tmp_path)]) == 0
    kept = json.loads((tmp_path / f"{suite}_cpu.json").read_text())
    assert len(kept["rows"]) >= len(TINY[suite])
    assert all(row["measured"]["median"] > 0 for row in kept["rows"] if "memory" not in row["name"])
    assert {"commit", "processor", "torch"} <= set(kept["environment"])
    assert kept["rows"][-1]["name"] in capsys.readouterr().out
    assert all(len({case.name for case in cases}) == len(cases) for cases in REAL[suite][1].values())


def test_what_fails_is_a_row_and_the_next_goes_on(tmp_path, monkeypatch, capsys):
    actions = {"plain": lambda: sum(range(9)), "bad": lambda: 1 // 0, "ours": lambda: sum(range(9))}
    case = Comparison("case", "plain", lambda _: Prepared(actions))
    cases = (case, replace(case, name="no plain", baseline="other"))
    monkeypatch.setattr(run, "SUITES", {"layers": ("", {"cpu": cases})})
    assert run.main(["layers", "--out", str(tmp_path)]) == 1
    rows = {row["name"]: row for row in json.loads((tmp_path / "layers_cpu.json").read_text())["rows"]}
    assert list(rows) == ["case: bad", "case: ours", "no plain: bad", "no plain"]
    assert "ZeroDivisionError" in rows["case: bad"]["error"]
    assert rows["case: ours"]["measured"]
    assert "3 of 4 rows failed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"), [("--rounds 5", "at least 6"), ("--only x9", "2->2, 4x4, batch 2"), ("--device cuda", "CUDA")]
)
def test_bad_words_are_one_line(words, why, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run.main(["layers", "--out", str(tmp_path), *words.split()]) == 2
    assert why in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [{}, {"precision": "bf16", "channels_last": True}])
def test_fit_and_the_bare_loop_do_the_same_steps(options):
    split = Split(torch.randint(256, (40, 3, 8, 8), dtype=torch.uint8), torch.randint(10, (40,)), train.SCALING)
    ours = create_model("cnn", "standard", num_classes=10, in_chans=3, img_size=8)
    theirs, plan = deepcopy(ours), Plan(1, 16, "sgd", 0.01, **options)
    (epoch,) = fit(ours, split, plan).epochs
    rounding = 1e-2 if options else 1e-5
    assert train.bare_loop(theirs, split, plan, Augment())() == pytest.approx(
        (epoch.loss, epoch.accuracy), rel=rounding
    )
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=rounding, atol=rounding / 10)


def test_solves_that_fail_make_a_time_worthless(monkeypatch):
    monkeypatch.setattr(implicit, "solved", lambda *_: ({}, "3% of the rows are not solved"))
    (row,) = CONVOLUTION.case(limit=1e9).rows(Setting(torch.device("cpu"), 6))
    assert (row.verdict, row.error) == ("not measured", "3% of the rows are not solved")
