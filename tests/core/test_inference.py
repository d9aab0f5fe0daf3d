import pytest
import torch
from torch import nn

from neuronal.core.inference import evaluating, outputs


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
