import pytest
import torch
from torch import nn

from neuronal.core.inference import evaluating, outputs
from neuronal.geometry.tracer import watching_relus


def test_outputs_are_those_of_one_pass_in_evaluation_mode():
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.9), nn.BatchNorm1d(3))
    x = torch.randn(23, 4)
    model.train()
    model[1].eval()
    flags = [module.training for module in model.modules()]
    y = outputs(model, x, batch_size=7)
    assert [module.training for module in model.modules()] == flags
    assert not y.requires_grad
    assert model[2].num_batches_tracked == 0
    torch.testing.assert_close(y, model.eval()(x))


def test_flags_come_back_after_an_error():
    model = nn.Sequential(nn.Linear(4, 3))

    def fail():
        with evaluating(model):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert model.training


class Functional(nn.Sequential):
    def forward(self, x):
        return torch.relu(super().forward(x)) + nn.functional.relu(-x.sum())


def test_relus_are_seen_whoever_calls_them():
    model, seen = Functional(nn.Linear(3, 4), nn.ReLU(inplace=True)), []
    with watching_relus(model, lambda name, y: seen.append((name, tuple(y.shape)))):
        model(torch.randn(2, 3))
        model(torch.randn(5, 3))
    assert seen == [("1", (2, 4)), ("", (2, 4)), (":2", ()), ("1", (5, 4)), ("", (5, 4)), (":2", ())]
    torch.relu(torch.ones(1))
    model(torch.randn(2, 3))
    assert len(seen) == 6
    assert not model._forward_pre_hooks
