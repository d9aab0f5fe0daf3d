"""Both loops at a tiny size on the CPU, and work that is done ahead."""

import json
import os
import time

import pytest
import torch

from neuronal.bench.gpu import ahead, graphs, train
from neuronal.bench.gpu.ahead import Job, results
from neuronal.bench.gpu.ceilings import Setting
from neuronal.train.loop import fit

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    for name, value in {"IMAGES": 32, "SIDE": 8, "BATCH": 16, "MODEL": "cnn", "OPTIONS": {"norm": "batch"}}.items():
        monkeypatch.setattr(train, name, value)


def test_the_loops_train_in_turn():
    fit_row, bare = train.rows(Setting(CPU, 3))
    assert (fit_row.limit, fit_row.at_least, bare.limit) == (0.95, True, None)
    assert len(fit_row.data["fit_seconds"]) == len(fit_row.data["bare_seconds"]) == 3
    assert len(fit_row.data["losses"]) == train.WARMUP + 3
    assert bare.shown["images/s"] == pytest.approx(1000 * 16 / bare.shown["ms per step"])
    json.dumps(fit_row.to_json())


def test_both_learn_the_same(monkeypatch):
    """Without what is random about an epoch, the weights after it agree."""
    monkeypatch.setattr(train, "AUGMENT", train.Augment())
    split, plan = train.images(16, CPU), train.plan_for(2, CPU, 16)
    torch.manual_seed(0)
    one = train.fresh(CPU)
    torch.manual_seed(0)
    other = train.fresh(CPU)
    done = fit(one, split, plan)
    bare = train.bare_loop(other, split, plan)
    losses = [bare(), bare()]
    # One batch is the whole set; in bfloat16 its order changes the last digits.
    assert [epoch.loss for epoch in done.epochs] == pytest.approx(losses, rel=1e-2)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", ["fit", "the bare loop"])
def test_what_is_compiled_ahead_is_a_step(name):
    assert {job.given[0] for job in train.ahead()} == {"fit", "the bare loop"}
    train.compile_one(name, "cpu")


def test_long_work_is_started_first():
    found = results([Job("short", time.time), Job("long", time.time, (), True)], workers=1)
    assert found["long"] < found["short"]
    assert [job.given[0] for job in graphs.ahead() if job.is_long] == ["implicit_bias"]


def test_work_ahead_comes_back_and_what_failed_is_told(capsys):
    jobs = [Job("two", int, ("2",)), Job("wrong", int, ("x",)), Job("three", int, ("3",))]
    assert results(jobs, workers=2) == {"two": 2, "three": 3}
    assert "neuronal: not done ahead: wrong (ValueError: invalid literal" in capsys.readouterr().err


def test_what_is_late_is_left(capsys):
    import time

    assert results([Job("sleep", time.sleep, (60,))], seconds=0.1) == {}
    assert "not done ahead in 0.1 s: sleep" in capsys.readouterr().err


def test_processes_start_with_the_assembler_that_this_one_started_with(monkeypatch):
    """Else what they compile has another name on disk than what this process looks for."""
    monkeypatch.setattr(ahead, "_AT_START", None)
    monkeypatch.setenv("TRITON_PTXAS_PATH", "torch's")
    assert results([Job("it", os.getenv, ("TRITON_PTXAS_PATH",))]) == {"it": None}
    monkeypatch.setattr(ahead, "_AT_START", "mine")
    assert results([Job("it", os.getenv, ("TRITON_PTXAS_PATH",))]) == {"it": "mine"}
    assert os.environ["TRITON_PTXAS_PATH"] == "torch's"


def test_nothing_to_do_ahead():
    assert results([]) == {}
    assert ahead.SECONDS < 480
