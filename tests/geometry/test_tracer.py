import torch
from torch import nn

from neuronal.geometry.tracer import Tracer, watching_relus


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


class Notes(Tracer):
    """What was visited and refused, as text."""

    def __init__(self, model, x):
        super().__init__(model, x)
        self.seen, self.refused = [], []

    def visit(self, call):
        self.seen.append((self.path, call.name))
        self.remember(call.result)
        self.last = call

    def refuse(self, reason, kind):
        self.refused.append((self.place, reason, kind))


class Does(nn.Module):
    def __init__(self, rule):
        super().__init__()
        self.rule, self.weight = rule, nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.rule(x, self.weight)


def notes_of(rule):
    x = torch.randn(2, 3)
    notes = Notes(nn.Sequential(Does(rule)), x)
    with torch.no_grad(), notes.watching():
        notes.model(x)
    return notes


def test_what_depends_on_the_input_is_visited_and_what_is_made_of_parameters_is_not():
    assert notes_of(lambda x, w: x * w.exp().sqrt()).seen == [("0", "mul")]


def test_a_view_that_nobody_saw_depends_on_the_input():
    assert notes_of(lambda x, w: x.data * w).seen[-1] == ("0", "mul")
    assert not notes_of(lambda x, w: w.data * w).seen


def test_arguments_go_by_name_with_their_defaults():
    call = notes_of(lambda x, w: torch.add(x, w)).last
    assert call["alpha"] == 1
    assert set(call.arguments) == {"self", "other", "alpha"}
    assert [t.shape for t in call.tensors()] == [(2, 3), (3,)]


def test_an_operation_in_place_has_its_own_name_and_its_target():
    call = notes_of(lambda x, w: (x * w).relu_()).last
    assert (call.name, call.is_mutable) == ("relu", True)
    assert len(call.targets()) == 1
    assert call.targets()[0] is call.result
    out = torch.empty(2, 3)
    assert notes_of(lambda x, w: torch.mul(x, w, out=out)).last.targets()[0] is out
    assert not notes_of(lambda x, w: x * w).last.targets()


def test_random_numbers_and_numbers_that_leave_torch_are_refused_where_they_are():
    place = "Does at '0'"
    assert notes_of(lambda x, w: torch.rand_like(w)).refused == [(place, "draws random numbers (rand_like)", "random")]
    reason = "takes numbers that depend on the input out of torch (tolist)"
    assert notes_of(lambda x, w: x.tolist()).refused[0] == (place, reason, "control")
    assert not notes_of(lambda x, w: w.tolist()).refused
