import pytest
import torch
from torch import nn

from neuronal.convert import fold_batch_norm


class Residual(nn.Module):
    """A batch norm to fold, one whose layer's output is used twice, one after a pooling, one before its layer."""

    def __init__(self):
        super().__init__()
        self.one, self.norm_one = nn.Conv2d(3, 5, 3, padding=1), nn.BatchNorm2d(5)
        self.two, self.norm_two = nn.Conv2d(5, 5, 3, padding=1, bias=False), nn.BatchNorm2d(5, affine=False)
        self.pool, self.norm_three = nn.AvgPool2d(2), nn.BatchNorm2d(5)
        self.head, self.norm_four = nn.Linear(5, 4), nn.BatchNorm1d(4)

    def forward(self, x):
        x = self.norm_one(self.one(x)).relu()
        y = self.two(x)
        x = x + self.norm_two(y) + y
        return self.norm_four(self.head(self.norm_three(self.pool(x)).mean((2, 3))))


class Wilful(Residual):
    """The same, with a forward that depends on values."""

    def forward(self, x):
        return super().forward(x) if x.sum() > -1e9 else x


def trained(model):
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            if module.affine:
                nn.init.normal_(module.weight, 1, 0.3)
                nn.init.normal_(module.bias)
    return model.double()


@pytest.mark.parametrize(("make", "give_example"), [(Residual, False), (Residual, True), (Wilful, True)])
def test_folding_is_exact_in_evaluation(make, give_example):
    model = trained(make()).train()
    x = torch.randn(4, 3, 8, 8, dtype=torch.float64)
    if make is Wilful:
        with pytest.raises(ValueError, match=r"cannot read the forward of Wilful .* Give an example"):
            fold_batch_norm(model)
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    folded = fold_batch_norm(model, x if give_example else None)
    assert model.training
    torch.testing.assert_close(folded.eval()(x), model.eval()(x), rtol=1e-12, atol=1e-12)
    assert [type(m) for m in (folded.norm_one, folded.norm_two, folded.norm_three, folded.norm_four)] == [
        nn.Identity,
        # The output of `two` is also added.
        nn.BatchNorm2d,
        nn.BatchNorm2d,
        # Behind a linear layer, only an example shows what it acts on.
        nn.Identity if give_example else nn.BatchNorm1d,
    ]
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(("shape", "kind"), [((6, 5), nn.Identity), ((6, 4, 5), nn.BatchNorm1d)])
def test_behind_a_linear_layer_the_example_shows_what_a_batch_norm_acts_on(shape, kind):
    model = trained(nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4))).eval()
    x = torch.randn(shape, dtype=torch.float64)
    folded = fold_batch_norm(model, x)
    assert type(folded[1]) is kind
    torch.testing.assert_close(folded(x), model(x), rtol=1e-12, atol=1e-12)
    assert torch.equal(fold_batch_norm(model)(x), model(x))


class WeightUsedTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 5, 3, bias=False), nn.BatchNorm2d(5)

    def forward(self, x):
        return self.norm(self.conv(x)) + nn.functional.conv2d(x, self.conv.weight)


def hooked():
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5))
    model[0].register_forward_hook(lambda module, inputs, output: 2 * output)
    return model


class Between(nn.Module):
    """Something between a convolution and its norm."""

    def __init__(self, change):
        super().__init__()
        self.conv, self.norm, self.change = nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), change

    def forward(self, x):
        return self.norm(self.change(self, self.conv(x)))


def clamped(model, y):
    y.clamp_(-6, 6)
    return y


def normed_in_training(model, y):
    return model.norm(y) if model.training else y


def layer_used_twice():
    shared = nn.Conv2d(3, 3, 1)
    return nn.Sequential(shared, nn.BatchNorm2d(3), shared, nn.ReLU())


OTHERWISE = [WeightUsedTwice, hooked, layer_used_twice, lambda: Between(clamped), lambda: Between(normed_in_training)]


@pytest.mark.parametrize("make", OTHERWISE)
@pytest.mark.parametrize("give_example", [False, True])
def test_what_else_looks_at_a_layer_keeps_its_batch_norm(make, give_example):
    model = trained(make()).eval()
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    if make is WeightUsedTwice and give_example:
        with pytest.raises(ValueError, match="folding changed the output"):
            fold_batch_norm(model, x)
        return
    folded = fold_batch_norm(model, x if give_example else None)
    for scale in (1, 30, -30):
        torch.testing.assert_close(folded(scale * x), model(scale * x), rtol=1e-12, atol=1e-10)
