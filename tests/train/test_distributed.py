"""Two real processes over gloo against one process with the batch of both."""

import os
import socket
import subprocess
import sys

import pytest
import torch

from neuronal.nn import InputMeanNorm
from tests.conftest import ROOT


def start(what, folder, num_processes):
    """What each process answered."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = []
    for rank in range(num_processes):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        environment["ACCELERATE_USE_CPU"] = "true"
        if num_processes > 1:
            environment |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(num_processes)}
            environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        command = [sys.executable, "-m", "tests.train.two", what, str(folder / f"{what}-{num_processes}.pt")]
        processes.append(subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True))
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert all(process.returncode == 0 for process in processes), "\n".join(errors)
    files = [folder / f"{what}-{num_processes}.{rank}" for rank in range(num_processes)]
    return [torch.load(file, weights_only=False) for file in files]


def test_two_processes_train_as_one_with_the_double_batch(tmp_path):
    first, second = start("whole_training", tmp_path, 2)
    (one,) = start("whole_training", tmp_path, 1)
    for parts in (1, 2):
        assert first[parts][2] == one[parts][2] == [1, 2]
        # The hooks are called by the first process alone.
        assert second[parts][2] == []
        for name, value in one[parts][0].items():
            assert torch.equal(first[parts][0][name], second[parts][0][name])
            # Sums over two halves are rounded otherwise.
            torch.testing.assert_close(first[parts][0][name], value, atol=2e-6, rtol=0)
        for here, there in zip(first[parts][1], one[parts][1], strict=True):
            assert here["loss"] == pytest.approx(there["loss"], abs=1e-6)
            assert here["accuracy"] == there["accuracy"]
            assert here["measured"] == pytest.approx(there["measured"], abs=1e-6)


def test_two_processes_go_on_together(tmp_path):
    for undisturbed, *others in start("resumed", tmp_path, 2):
        assert len(others) == 2
        for weights, epochs in others:
            assert epochs == undisturbed[1]
            assert all(torch.equal(value, weights[name]) for name, value in undisturbed[0].items())


def test_the_mean_norm_sees_the_rows_of_all_processes(tmp_path):
    answers = start("mean_norm", tmp_path, 2)
    x, weights = answers[0][:2]
    norm = InputMeanNorm(3).double()
    whole = x.clone().requires_grad_()
    y = norm(whole)
    (y * weights).pow(2).sum().backward()
    for _, _, rows, own, grad, _ in answers:
        torch.testing.assert_close(own, y.detach()[rows], atol=1e-12, rtol=0)
        torch.testing.assert_close(grad, whole.grad[rows], atol=1e-12, rtol=0)


def test_batch_norm_on_the_cpu_says_that_it_is_not_synchronised(tmp_path):
    for said, layers in start("batch_norm", tmp_path, 2):
        assert any("every process takes the statistics of its own images" in line for line in said)
        assert layers[1] == "BatchNorm1d"
