import copy
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from neuronal.data.scaling import standardising
from neuronal.train import checkpoint, snapshot
from neuronal.train.checkpoint import Checkpoints
from neuronal.train.loop import fit
from neuronal.train.optim import OPTIMISERS, Plan
from neuronal.train.progress import Diverged
from tests.conftest import ROOT
from tests.damage import cut, empty, flip_a_bit, no_space
from tests.train.small import PLAN, assert_same, data, network, train


class Stop(BaseException):
    """Stands for the end of the process: nothing in the library catches it."""


def stopping_after(calls: int, model: nn.Module | None = None) -> nn.Module:
    model, left = model or network(), [calls]

    def count(*_):
        if not left[0]:
            raise Stop
        left[0] -= model.training

    model.register_forward_pre_hook(count)
    return model


@pytest.fixture(scope="module")
def whole():
    """The training that nobody stops."""
    return train(network())


def test_stopped_anywhere_it_ends_the_same(tmp_path):
    """A stop before each of the 11 parts of each of 2 epochs: in the middle of a step as well as between two."""
    plan = replace(PLAN, epochs=2)
    expected = train(network(), plan=plan)
    for calls in range(22):
        every = 1 + calls % 3
        chosen = Checkpoints(tmp_path / str(calls), every=every)
        with pytest.raises(Stop):
            train(stopping_after(calls), chosen, plan=plan)
        resumed = network()
        if list((tmp_path / str(calls)).iterdir()):
            # All comes from the checkpoint: the model handed in only has the right shape.
            nn.init.zeros_(resumed[0].weight)
        assert_same(train(resumed, chosen, plan=plan), expected)


def test_checkpoints_change_nothing_and_a_finished_training_is_not_done_again(tmp_path, whole):
    chosen = Checkpoints(tmp_path, every=2, keep=2)
    assert_same(train(network(), chosen), whole)
    assert [file.name for file in sorted(tmp_path.iterdir())] == [
        "step-000000010.safetensors",
        "step-000000012.safetensors",
    ]
    assert_same(train(stopping_after(0), chosen), whole)


def test_on_another_kind_of_device_it_goes_on_with_a_warning(monkeypatch):
    put = []
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: put.append(state))
    before, drawn = torch.get_rng_state(), torch.rand(3)
    of_cpu = {"cpu": before}
    of_gpu = of_cpu | {"cuda": torch.zeros(16, dtype=torch.uint8)}
    for states, kind, message in (
        (of_cpu, "cuda", "begun on a CPU and goes on on a GPU"),
        (of_gpu, "cpu", "begun on a GPU and goes on on a CPU"),
    ):
        with pytest.warns(RuntimeWarning, match=message):
            snapshot.restore_random(states, torch.device(kind))
        assert torch.equal(torch.rand(3), drawn)
    assert put == []
    snapshot.restore_random(of_cpu, torch.device("cpu"))
    snapshot.restore_random(of_gpu, torch.device("cuda"))
    assert put == [of_gpu["cuda"]]


@pytest.mark.parametrize("optim", OPTIMISERS)
def test_every_optimiser_goes_on(tmp_path, optim):
    plan = replace(PLAN, optim=optim, accumulate=1)
    expected = train(network(), plan=plan)
    with pytest.raises(Stop):
        train(stopping_after(6), Checkpoints(tmp_path, every=1), plan=plan)
    assert_same(train(network(), Checkpoints(tmp_path, every=1), plan=plan), expected)


def test_a_stopped_early_training_stays_stopped(tmp_path):
    plan = replace(PLAN, lr=1e-9, standard_epochs=0, stop_after=1, mixup=0, epochs=9)
    one = train(network(), Checkpoints(tmp_path, every=1), plan=plan)
    assert len(one[1]) < 9
    assert_same(train(stopping_after(0), Checkpoints(tmp_path, every=1), plan=plan), one)


def test_killed_at_random_points_it_ends_the_same(tmp_path):
    """Real processes, real SIGKILL: at points nobody chose, in the middle of writing included."""
    folder, plan = tmp_path / "kept", replace(PLAN, epochs=20)
    command = [sys.executable, "-m", "tests.train.small", str(folder), "20"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    chance, kills = random.Random(0), 0
    for _ in range(3):
        process = subprocess.Popen(command, cwd=ROOT, env=environment)
        before = _files(folder)
        deadline = time.monotonic() + 60
        while _files(folder) == before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.12))
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    assert kills == 3
    assert_same(train(network(), Checkpoints(folder, every=1), plan=plan), train(network(), plan=plan))


def _files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob("step-*"))


def put_a_foreign_file(path):
    save_file({"a": torch.zeros(3)}, path)


@pytest.mark.parametrize("damage", [cut, flip_a_bit, empty, put_a_foreign_file])
def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_used(tmp_path, whole, damage):
    chosen = Checkpoints(tmp_path, every=1, keep=2)
    with pytest.raises(Stop):
        train(stopping_after(17), chosen)
    damage(tmp_path / "step-000000006.safetensors")
    (tmp_path / ".step-000000007.safetensors.partial").write_bytes(b"cut off")
    (tmp_path / ".step-000000007-abc.partial").mkdir()
    (tmp_path / ".step-000000007-abc.partial" / "new").write_bytes(b"cut off")
    with pytest.warns(RuntimeWarning, match=r"step-000000006.* is now step-000000006\.damaged1"):
        resumed = train(network(), chosen)
    assert_same(resumed, whole)
    assert [f.name for f in sorted(tmp_path.iterdir())] == [
        "step-000000006.damaged1",
        "step-000000011.safetensors",
        "step-000000012.safetensors",
    ]


def test_with_all_damaged_it_starts_anew(tmp_path, whole):
    with pytest.raises(Stop):
        train(stopping_after(3), Checkpoints(tmp_path, every=1))
    cut(tmp_path / "step-000000001.safetensors")
    with pytest.warns(RuntimeWarning, match="not a whole safetensors file"):
        assert_same(train(network(), Checkpoints(tmp_path, every=1)), whole)


OTHERS = [
    ({"plan": replace(PLAN, lr=0.5)}, "its plan has lr = 0.02, this one's = 0.5"),
    # Though what is held out, and with it the data, is other too.
    ({"seed": 8, "validation": data().rows(slice(10))}, r"is of another training: its seed = 7, this one's = 8\."),
    ({"model": nn.Sequential(*network()[:6], nn.Linear(8, 4))}, r"6.weight = \[3, 8\] .*, this one's = \[4, 8\]"),
    ({"split": data().rows(slice(49))}, "its data has images = 50, this one's = 49"),
    ({"split": replace(data(), stored=data().stored + 1)}, r"its data has inputs = \d+, this one's = \d+"),
    ({"split": replace(data(), answers=2 - data().answers)}, r"its data has labels = \d+, this one's = \d+"),
    ({"split": replace(data(), scaling=standardising(data().stored))}, "scaling = nothing, this one's"),
    ({"validation": data()}, r"its data has validation inputs = \d+, this one's = \d+"),
]


@pytest.mark.parametrize(("other", "message"), OTHERS)
def test_a_checkpoint_of_another_training_is_refused(tmp_path, other, message):
    train(network(), tmp_path)
    with pytest.raises(ValueError, match=message) as error:
        train(**{"model": network(), **other}, checkpoints=tmp_path)
    assert "\n" not in str(error.value)
    assert "Choose another folder" in str(error.value)


@pytest.mark.parametrize("place", ["safetensors.torch.save_file", "os.fsync", "os.replace"])
def test_without_space_training_goes_on_and_the_last_checkpoint_stays(tmp_path, whole, monkeypatch, place):
    chosen = Checkpoints(tmp_path, every=1)
    with pytest.raises(Stop):
        train(stopping_after(12), chosen)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    monkeypatch.setattr(place, no_space)
    with pytest.warns(RuntimeWarning, match=r"step 5 .*No space left.* step 4") as said:
        assert_same(train(network(), chosen), whole)
    assert len(said) == 1
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    monkeypatch.undo()
    assert_same(train(network(), chosen), whole)


def test_divergence_keeps_the_last_good_checkpoint(tmp_path):
    """The step before the bad loss spoils the weights already: that state is not kept either."""
    plan = Plan(epochs=2, batch_size=10, optim="sgd", lr=0.1)
    model = network()
    hook = model.register_forward_pre_hook(lambda _, x: x if next(calls) < 5 else (x[0] * float("inf"),))
    calls = iter(range(99))
    with pytest.raises(Diverged) as error:
        fit(model, data(), plan, checkpoints=Checkpoints(tmp_path, every=1, keep=2))
    assert (error.value.step, error.value.lr) == (6, 0.1)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["step-000000004.safetensors", "step-000000005.safetensors"]
    hook.remove()
    kept = checkpoint.read(tmp_path / "step-000000005.safetensors")
    assert all(value.isfinite().all() for value in kept.tensors.values())


def test_weights_that_are_not_finite_are_not_kept(tmp_path):
    plan = Plan(epochs=3, batch_size=25, optim="sgd", lr=1e38, momentum=0.0)
    with pytest.raises(Diverged):
        fit(nn.Linear(6, 3), data(), plan, checkpoints=Checkpoints(tmp_path, every=1))
    for file in tmp_path.iterdir():
        assert all(value.isfinite().all() for value in checkpoint.read(file).tensors.values())


def test_a_time_between_checkpoints(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(snapshot, "perf_counter", lambda: now[0])

    def tick(x, _):
        now[0] += 1
        return x

    plan = replace(PLAN, accumulate=1, mixup=0)
    train(network(), Checkpoints(tmp_path, every=timedelta(seconds=5), keep=9), plan=plan, augment=tick)
    assert _files(tmp_path) == [f"step-{step:09}.safetensors" for step in (5, 10, 12)]


@pytest.mark.parametrize("wrong", [{"every": 0}, {"every": timedelta()}, {"keep": 0}])
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match="checkpoints need"):
        Checkpoints("a", **wrong)


def test_shared_weights_and_channels_last_go_on(tmp_path):
    torch.manual_seed(1)
    first = nn.Conv2d(4, 4, 3, padding=1)
    model = nn.Sequential(first, nn.ReLU(), first, nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 3))
    split = data()
    split = type(split)(torch.randn(50, 4, 4, 4), split.y)
    plan = Plan(epochs=2, batch_size=16, optim="sgd", lr=0.1, channels_last=True)
    one, other = copy.deepcopy(model), copy.deepcopy(model)
    fit(one, split, plan)
    with pytest.raises(Stop):
        fit(stopping_after(5, other), split, plan, checkpoints=Checkpoints(tmp_path, every=1))
    resumed = copy.deepcopy(model)
    fit(resumed, split, plan, checkpoints=tmp_path)
    assert all(torch.equal(value, resumed.state_dict()[name]) for name, value in one.state_dict().items())
