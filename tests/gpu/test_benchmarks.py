"""Benchmarks on a CUDA device at a tiny size: blocks as CUDA graphs, compiled networks and training, certificates."""

from dataclasses import replace

import pytest

from benchmarks import run
from benchmarks.suites import certify, implicit, networks
from tests.benchmarks import test_suites

STEPS = networks.Steps("cnn", 8, 4, 3, "none", ("geometric", "farkas"), count=2)
BLOCK = implicit.Convolution(2, 3, 3, 14, 3, is_block=True, repeats=2)
CASES = {
    "layers": test_suites.TINY["layers"],
    "implicit": (BLOCK.case("solve"), replace(BLOCK, iterations=1).case("once")),
    "networks": (STEPS.case(), replace(STEPS, is_compiled=False).case()),
    "train": test_suites.TINY["train"][-1:],
    "certify": (test_suites.BESIDE, certify.Memory(certify.certificate, 2, 1e-4, 8)),
}


@pytest.mark.parametrize("suite", CASES)
def test_a_suite_runs_on_the_device(suite, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "SUITES", {suite: ("", {"cuda": CASES[suite]})})
    assert run.main([suite, "--device", "cuda", "--rounds", "6", "--out", str(tmp_path)]) == 0
