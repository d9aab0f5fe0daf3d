"""Two real processes over gloo against one process with the batch of both."""

import pytest
import torch

from neuronal.nn import InputMeanNorm
from tests.launch import launched
from tests.train.two import whole_training


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What each process answered."""
    folder = tmp_path_factory.mktemp("two")
    for code, _, err in launched(f"tests.train.two {folder}", ACCELERATE_USE_CPU="true"):
        assert code == 0, err
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(2)]


@pytest.mark.parametrize("parts", [1, 2])
def test_two_processes_train_as_one_with_the_double_batch(answers, parts):
    first, second = (answer["training"][parts] for answer in answers)
    weights, epochs, told = whole_training(parts)
    # The hooks are called by the first process alone.
    assert (first[2], second[2], told) == ([1, 2], [], [1, 2])
    for name, value in weights.items():
        assert torch.equal(first[0][name], second[0][name])
        # Sums over two halves are rounded otherwise.
        torch.testing.assert_close(first[0][name], value, atol=2e-6, rtol=0)
    for here, there in zip(first[1], epochs, strict=True):
        assert here["loss"] == pytest.approx(there["loss"], abs=1e-6)
        assert here["accuracy"] == there["accuracy"]
        assert here["measured"] == pytest.approx(there["measured"], abs=1e-6)


@pytest.mark.parametrize("how", ["by step", "by time"])
def test_two_processes_go_on_together(answers, how):
    for answer in answers:
        weights, epochs = answer["undisturbed"]
        assert epochs == answer[how][1]
        assert all(torch.equal(value, answer[how][0][name]) for name, value in weights.items())


def test_the_mean_norm_sees_the_rows_of_all_processes(answers):
    x, weights = answers[0]["mean norm"][:2]
    whole = x.clone().requires_grad_()
    y = InputMeanNorm(3).double()(whole)
    (y * weights).pow(2).sum().backward()
    for answer in answers:
        _, _, rows, own, grad = answer["mean norm"]
        torch.testing.assert_close(own, y.detach()[rows], atol=1e-12, rtol=0)
        torch.testing.assert_close(grad, whole.grad[rows], atol=1e-12, rtol=0)


def test_batch_norm_on_the_cpu_says_that_it_is_not_synchronised(answers):
    for answer in answers:
        said, layers = answer["batch norm"]
        assert any("every process takes the statistics of its own images" in line for line in said)
        assert layers[1] == "BatchNorm1d"


def test_sharded_parameters_train_as_whole_ones_and_go_on(answers):
    weights, epochs, _ = whole_training(1)
    for answer in answers:
        undisturbed, resumed = answer["sharded"]
        assert undisturbed[2]
        assert set(undisturbed[2].values()) <= {0.5, 1 / 3, 2 / 3}
        for name, value in weights.items():
            torch.testing.assert_close(undisturbed[0][name], value, atol=2e-6, rtol=0)
            assert torch.equal(undisturbed[0][name], resumed[0][name])
        assert undisturbed[1] == resumed[1]
        assert [e["loss"] for e in undisturbed[1]] == pytest.approx([e["loss"] for e in epochs], abs=1e-6)
