"""Small things several tests start from."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure

from neuronal.experiments import executors
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.record import Record
from neuronal.experiments.run import run
from neuronal.experiments.sweep import Study
from neuronal.train import timing

ROOT = Path(__file__).parent.parent

# The workers of pytest-xdist share the cores; each with a thread per core would only wait for the others, and so would
# the commands they start.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Without a GPU, kernels are interpreted.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# Under nohup, and in the background of a script, signals are ignored, and whatever a test starts would ignore them too.
# Signals that are caught here have their usual effect there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


@contextmanager
def none_left_running():
    """Ends processes that are started inside and not waited for, and closes their pipes."""
    started, init = [], subprocess.Popen.__init__

    def note(self, *words, **options):
        init(self, *words, **options)
        started.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", note)
        yield
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()
            for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
                pipe.close()


@pytest.fixture(autouse=True)
def no_process_outlives_its_test():
    """The pipes of a test that timed out would be warnings, and so errors, in tests that come later."""
    with none_left_running():
        yield


@pytest.fixture(autouse=True)
def one_seed():
    """Random tests draw the same numbers every time."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def one_core(monkeypatch):
    """Commands that are called in this process run their trials in it too, unless they are told how many workers."""
    monkeypatch.setattr(executors, "cores", lambda: 1)


@pytest.fixture
def as_on_cuda(monkeypatch):
    """Operations take the path of a GPU, with kernels interpreted where there is none; products keep all their digits."""
    monkeypatch.setattr("neuronal.ops.dispatch.is_cuda", lambda x: True)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture
def takes(monkeypatch):
    """Actions that take as long as they say on the clock of timings, and ten times as long in the calls that are busy."""
    now = [0.0]
    monkeypatch.setattr(timing, "perf_counter", lambda: now[0])

    def make(seconds, busy=()):
        calls = count()

        def action(*_):
            now[0] += seconds * (10 if next(calls) in busy else 1)

        return action

    return make


@contextmanager
def undrawn():
    """Figures are empty: drawing takes longer than all the rest of a page; tests/report and tests/golden look at figures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda self, file, **_: file.write("<svg></svg>"))
        yield


@pytest.fixture(scope="session")
def quick() -> Recipe:
    """A real experiment that takes a fraction of a second."""
    return Recipe("quick", model="fcn", widths=(16,), epochs=2, lr=1e-2, seeds=(0, 1))


@pytest.fixture(scope="session")
def quick_study(quick) -> Study:
    return Study(quick, ("standard", "zero_bias"))


@pytest.fixture(scope="session")
def quick_records(quick_study) -> tuple[Record, ...]:
    return tuple(run(cell.recipe, cell.seed) for cell in quick_study.cells())


@pytest.fixture
def diverging(quick) -> Recipe:
    """SGD with a rate no network survives."""
    return replace(quick, optim="sgd", lr=1e30, momentum=0.0)
