"""Breakpoints against dense samples, against exact fractions, and against themselves with one left out."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from neuronal.geometry import segment
from neuronal.geometry.lowering import NotPiecewiseLinear, lower
from neuronal.geometry.segment import Pieces, Switch, pieces, segment_pieces
from tests.certify.rational import breakpoints, exact, forward, mix
from tests.geometry.networks import NAMES, linear, network


def ends(shape, *, seed=0, count=1):
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(2, count, *shape, generator=generator, dtype=torch.float64)


def on(a, b, t):
    """Points of the segment from ``a`` to ``b``, both without a batch."""
    t = t.view(-1, *[1] * a.dim())
    return (1 - t) * a + t * b


def deviation(model, found, a, b):
    """How far the model is from the pieces in the middle of each and at a thousand points, at most."""
    t = torch.linspace(0, 1, 1001, dtype=torch.float64)
    t = torch.cat([t, found.t, (found.t[1:] + found.t[:-1]) / 2])
    with torch.no_grad():
        return (model(on(a, b, t)) - found.at(t)).abs().max().item()


@pytest.mark.parametrize("name", NAMES)
def test_the_network_is_affine_between_breakpoints(name):
    model, shape = network(name)
    (a,), (b,) = ends(shape)
    found = segment_pieces(model, a, b)
    assert found.t[0] == 0
    assert found.t[-1] == 1
    assert (found.t.diff() > 0).all()
    assert found.count > 4
    assert deviation(model, found, a, b) < 1e-12  # a few roundings on numbers of order 1


@pytest.mark.parametrize("name", ["mlp", "leaky", "relu6"])
def test_no_breakpoint_can_be_left_out(name):
    model, shape = network(name)
    (a,), (b,) = ends(shape)
    found = segment_pieces(model, a, b)
    for i in range(1, found.count):
        kept = torch.arange(len(found.t)) != i
        assert deviation(model, Pieces(found.t[kept], found.outputs[kept]), a, b) > 1e-9


def test_a_walk_that_ignores_pool_winners_is_found_out(monkeypatch):
    model, shape = network("pools")
    (a,), (b,) = ends(shape)
    monkeypatch.setattr(segment, "bent", lambda op, *values: values[0] * isinstance(op, segment.Kink))
    assert deviation(model, segment_pieces(model, a, b), a, b) > 1e-3


@pytest.mark.parametrize("seed", range(5))
def test_breakpoints_are_those_of_exact_arithmetic(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 10), nn.ReLU(), nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 10))
    (a,), (b,) = torch.randint(-16, 17, (2, 1, 64)).double()
    found = segment_pieces(model, a, b)
    ends = exact(a), exact(b)
    want = breakpoints(model, *ends)
    assert found.t.tolist() == pytest.approx([float(t) for t in want], abs=1e-14)
    outputs = [[float(v) for v in forward(model, mix(*ends, t))] for t in want]
    assert (found.outputs - torch.tensor(outputs, dtype=torch.float64)).abs().max() < 1e-13


def test_many_segments_are_each_as_alone():
    model, shape = network("pools")
    a, b = ends(shape, count=7)
    b[3] = a[3]
    program = lower(model, a)
    together = pieces(program, a, b)
    assert len(together) == 7
    for x, y, found in zip(a, b, together, strict=True):
        alone = segment_pieces(model, x, y)
        assert torch.equal(found.t, alone.t)
        assert (found.outputs - alone.outputs).abs().max() < 1e-13


def ways():
    """How the work is divided, with the memory that is given."""
    size, rows, cuda = segment.part_size, segment.rounded, torch.device("cuda")
    as_on_a_gpu = {"part_size": lambda _, *rest: size(cuda, *rest), "rounded": lambda count, _: rows(count, cuda)}
    return [(1, {}), (2_000, {}), (20_000, {"PART": 20_000}), (20_000, as_on_a_gpu), (400_000, as_on_a_gpu)]


@pytest.mark.parametrize(("memory", "patches"), ways())
@pytest.mark.parametrize("threads", [1, 2])
def test_parts_and_threads_give_what_the_whole_gives(memory, patches, threads, monkeypatch):
    model, shape = network("pools")
    a, b = ends(shape, count=3)
    program = lower(model, a)
    alone = pieces(program, a, b)
    for name, value in patches.items():
        monkeypatch.setattr(segment, name, value)
    torch.set_num_threads(threads)
    try:
        parts = pieces(program, a, b, memory=memory)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(1)
    for one, other in zip(alone, parts, strict=True):
        assert one.t.shape == other.t.shape
        assert (one.t - other.t).abs().max() < 1e-12
        assert (one.outputs - other.outputs).abs().max() < 1e-12


def test_a_gpu_sees_few_sizes():
    cuda = torch.device("cuda")
    sizes = [segment.rounded(count, cuda) for count in range(1, 5000)]
    assert all(count <= size <= 1.13 * count for count, size in enumerate(sizes, 1))
    assert len(set(sizes)) < 100
    assert segment.rounded(4999, torch.device("cpu")) == 4999


def test_memory_is_kept(monkeypatch):
    model, shape = network("pools")
    a, b = ends(shape, count=8)
    program = lower(model, a)
    most = 0
    moved = segment._moved

    def watched(points, places):
        nonlocal most
        now = moved(points, places)
        most = max(most, sum(v.numel() * 8 for v in now.values.values()))
        return now

    monkeypatch.setattr(segment, "_moved", watched)
    pieces(program, a, b, memory=50_000)
    widest = max(s.width for s in segment._Walk(program).stretches)
    assert most <= max(12_500, 2 * 8 * widest)


def test_one_point_is_one_piece():
    model, shape = network("pools")
    (a,), _ = ends(shape)
    found = segment_pieces(model, a, a)
    assert found.t.tolist() == [0, 1]
    assert found.count == 1
    assert torch.equal(found.outputs[0], found.outputs[1])
    assert found.switches() == ()


def test_units_that_switch_together_give_one_breakpoint():
    model = nn.Sequential(linear([[1.0], [2.0], [-4.0]], [-1.0, -2.0, 4.0]), nn.ReLU())
    found = segment_pieces(model, torch.zeros(1), torch.full((1,), 2.0))
    assert found.t.tolist() == [0, 0.5, 1]


def test_a_unit_that_is_zero_at_an_end_gives_no_further_breakpoint():
    model = nn.Sequential(linear([[1.0]], [0.0]), nn.ReLU())
    assert segment_pieces(model, torch.zeros(1), torch.ones(1)).count == 1
    assert segment_pieces(model, -torch.ones(1), torch.zeros(1)).count == 1
    assert segment_pieces(model, -torch.ones(1), torch.ones(1)).count == 2


def test_single_precision_finds_the_same_picture():
    model, shape = network("cnn")
    (a,), (b,) = ends(shape)
    rough, fine = (segment_pieces(model, a, b, dtype=dtype) for dtype in (torch.float32, torch.float64))
    assert rough.outputs.dtype == torch.float32
    assert rough.t.dtype == torch.float64
    t = torch.linspace(0, 1, 501, dtype=torch.float64)
    assert (rough.at(t) - fine.at(t)).abs().max() < 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_switches_are_where_the_predicted_class_changes(name):
    model, shape = network(name)
    for seed in range(4):
        (a,), (b,) = ends(shape, seed=seed)
        switches = segment_pieces(model, a, b).switches()
        edges = [0.0, *(switch.t for switch in switches), 1.0]
        t = torch.rand(3000, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        t = t[(t[:, None] - torch.tensor(edges)).abs().amin(1) > 1e-9]
        with torch.no_grad():
            sampled = model(on(a, b, t)).argmax(1)
        classes = [*(s.before for s in switches), switches[-1].after if switches else int(sampled[0])]
        place = torch.bucketize(t, torch.tensor(edges[1:-1], dtype=torch.float64))
        assert torch.equal(torch.tensor(classes)[place], sampled)
        assert all(one.after == two.before for one, two in pairwise(switches))


def made(t, *outputs):
    return Pieces(torch.tensor(t, dtype=torch.float64), torch.tensor(outputs, dtype=torch.float64))


def test_switches_of_crossing_lines():
    assert made([0, 1], [1, 0, 0], [0, 1, 0]).switches() == (Switch(0.5, 0, 1),)
    three = made([0, 1], [3, 2, 0], [0, 2, 3]).switches()
    assert [(s.before, s.after) for s in three] == [(0, 1), (1, 2)]
    assert [s.t for s in three] == pytest.approx([1 / 3, 2 / 3])
    together = made([0, 1], [1, 0.5, 0], [0, 0.5, 1]).switches()
    assert together == (Switch(0.5, 0, 2),)


def test_classes_that_only_touch_do_not_switch():
    assert made([0, 0.5, 1], [0, 1], [1, 1], [0, 1]).switches() == ()
    assert made([0, 0.5, 1], [0, 1], [1, 1], [2, 1]).switches() == (Switch(0.5, 1, 0),)
    assert made([0, 0.5, 1], [0, 1, 0], [1, 1, 1], [0, 0, 1]).switches() == (Switch(0.5, 1, 2),)


def test_inputs_with_and_without_a_batch():
    model, shape = network("pools")
    (a,), (b,) = ends(shape)
    assert torch.equal(segment_pieces(model, a, b).t, segment_pieces(model, a[None], b[None]).t)


def test_what_does_not_fit_is_refused():
    model, shape = network("mlp")
    (a,), (b,) = ends(shape)
    with pytest.raises(ValueError, match="one shape"):
        segment_pieces(model, a, b[:3])
    with pytest.raises(ValueError, match=r"float32 or torch\.float64"):
        segment_pieces(model, a, b, dtype=torch.float16)
    with pytest.raises(ValueError, match="finite"):
        segment_pieces(model, a, b * torch.inf)
    with pytest.raises(ValueError, match="positive number of bytes"):
        segment_pieces(model, a, b, memory=0)
    with pytest.raises(NotPiecewiseLinear, match="GELU"):
        segment_pieces(nn.Sequential(nn.Linear(5, 3), nn.GELU()), a, b)
    assert pieces(lower(model, a[None]), a[None][:0], b[None][:0]) == []
