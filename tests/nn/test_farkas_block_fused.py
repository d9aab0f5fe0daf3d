"""The end of a Farkas block by one kernel, interpreted on a CPU, against its modules called one by one."""

import copy
from contextlib import contextmanager, nullcontext

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.nn.modules import module as modules
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from neuronal.geometry.segment import segment_pieces
from neuronal.geometry.trace import watching, watching_relus
from neuronal.models.registry import create_model
from neuronal.nn import FarkasBasicBlock, FarkasBottleneck, farkas_block

pytest.importorskip("triton", reason="needs triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BLOCKS = [FarkasBasicBlock, FarkasBottleneck]


@pytest.fixture(autouse=True)
def fused(monkeypatch):
    """As on a GPU; the list gets a word for every call of the kernel."""
    calls, kernel = [], farkas_block.relu_of_closed_sum

    def noted(*args, **kwargs):
        calls.append("fused")
        return kernel(*args, **kwargs)

    monkeypatch.setattr(farkas_block, "on_device", lambda x: True)
    monkeypatch.setattr(farkas_block, "relu_of_closed_sum", noted)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    return calls


@contextmanager
def plainly():
    """Inside: every module is called, as one that is watched would be."""
    with modules.register_module_forward_hook(lambda *_: None):
        yield


def block(kind=FarkasBasicBlock, channels=8, **options):
    return kind(channels, **options).to(DEVICE)


def images(*shape):
    return torch.randn(*(shape or (2, 8, 5, 4)), device=DEVICE)


def assert_alike(found, expected):
    for one, other in zip(found, expected, strict=True):
        # Sums of some hundred terms in float32, in another order.
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def both_ways(net, x):
    """Outputs and all gradients by the kernel, and by the modules."""
    results = []
    for how in (nullcontext(), plainly()):
        with how:
            y = net(x)
        results.append([y, *torch.autograd.grad(y.sin().sum(), [x, *net.parameters()])])
    return results


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("aggregate", ["sum", "mean"])
@pytest.mark.parametrize("widen", [True, False])
@pytest.mark.parametrize("norm", [None, nn.BatchNorm2d])
@pytest.mark.parametrize("kind", BLOCKS)
def test_outputs_and_gradients_are_those_of_the_modules(kind, norm, widen, aggregate, order, fused):
    net = block(kind, widen=widen, norm=norm, aggregate=aggregate, cutoff=0.1).to(memory_format=order)
    x = images().contiguous(memory_format=order).requires_grad_()
    results = both_ways(net, x)
    assert fused == ["fused"]
    assert results[0][0].is_contiguous(memory_format=order)
    assert_alike(*results)


@pytest.mark.parametrize("last", [1.0, 0.0, -1.0])
@pytest.mark.parametrize("aggregate", ["sum", "mean"])
@pytest.mark.parametrize("kind", BLOCKS)
def test_the_papers_rule(kind, aggregate, last, fused):
    """Also where the last bias is exactly what is needed, as at the start of a block of zeros."""
    net, x = block(kind, widen=False, aggregate=aggregate, rule="max", zero_last=True), images().requires_grad_()
    with torch.no_grad():
        net.close.balance.last.fill_(last)
    results = both_ways(net, x)
    assert fused == ["fused"]
    assert_alike(*results)


@pytest.mark.parametrize("rule", ["softplus", "max"])
@pytest.mark.parametrize("kind", BLOCKS)
def test_gradients_can_be_differentiated_again(kind, rule, fused):
    net, x = block(kind, rule=rule), images()
    results = []
    for how in (nullcontext(), plainly()):
        with how:
            y = net(x)
        first = torch.autograd.grad(y.pow(3).mean(), list(net.parameters()), create_graph=True)
        results.append(torch.autograd.grad(sum(one.square().sum() for one in first), list(net.parameters())))
    assert fused == ["fused"]
    assert_alike(*results)


def test_under_autocast_sums_have_the_precision_of_skip_and_branch(fused):
    net, x = block(widen=False), images().bfloat16()
    with torch.autocast(DEVICE, torch.bfloat16):
        assert net(x).dtype == torch.bfloat16
        y = net(x.float())
        with Looking():
            assert net(x).dtype == torch.bfloat16
            assert net(x.float()).dtype == torch.float32
    assert y.dtype == torch.float32
    y.sum().backward()
    assert all(p.grad.dtype == torch.float32 for p in net.parameters())
    assert fused == ["fused"] * 2


class Looking(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class LookingAtFunctions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@contextmanager
def replaced(module, name, value):
    before = getattr(module, name)
    setattr(module, name, value)
    yield
    setattr(module, name, before)


def nothing(*_):
    return None


WATCHED = {
    "hook of relu": lambda net: net.relu.register_forward_hook(nothing),
    "hook before relu": lambda net: net.relu.register_forward_pre_hook(nothing),
    "hook of relu's gradient": lambda net: net.relu.register_full_backward_hook(nothing),
    "hook before relu's gradient": lambda net: net.relu.register_full_backward_pre_hook(nothing),
    "hook of close": lambda net: net.close.register_forward_hook(nothing),
    "hook of balance": lambda net: net.close.balance.register_forward_hook(nothing),
    "hook of all modules": lambda net: modules.register_module_forward_hook(nothing),
    "hook before all modules": lambda net: modules.register_module_forward_pre_hook(nothing),
    "another relu": lambda net: replaced(net, "relu", nn.LeakyReLU()),
    "another close": lambda net: replaced(net, "close", nn.Identity()),
    "another forward": lambda net: replaced(net.relu, "forward", torch.abs),
    "dispatch mode": lambda net: Looking(),
    "function mode": lambda net: LookingAtFunctions(),
    "tangents": lambda net: forward_ad.dual_level(),
}


@pytest.mark.parametrize("how", WATCHED)
def test_what_is_watched_or_changed_is_called_module_by_module(how, fused):
    net, x = block(), images()
    with WATCHED[how](net):
        y = net(x)
        y.sum().backward()
        assert_alike([y], [net.relu(net.close(x + net.branch(x)))])
    assert not fused
    net(x)
    assert fused == ["fused"]


def test_a_default_device_watches_nothing(fused):
    net, x = block(), images()
    with torch.device(DEVICE):
        net(x).sum().backward()
    assert fused == ["fused"]


@pytest.mark.parametrize("options", [{"learn_multipliers": True}, {"dtype": torch.float64}], ids=str)
def test_what_the_kernel_does_not_know_is_computed_in_steps(options, fused):
    net = block(**options)
    net(images().to(net.close.balance.offsets.dtype))
    assert not fused


def test_empty_batches_and_widths_beyond_the_kernel(fused, monkeypatch):
    net = block()
    assert net(images(0, 8, 5, 4)).shape == (0, 9, 5, 4)
    monkeypatch.setattr(farkas_block, "MOST", 7)
    net(images())
    assert not fused


def test_transforms_and_compilers_see_plain_steps(fused):
    net, x = block(), images()
    expected = net(x)
    fused.clear()
    _, tangent = torch.func.jvp(net, (x,), (torch.ones_like(x),))
    assert tangent.isfinite().all()
    others = (
        torch.func.vmap(net)(x.unsqueeze(1)).squeeze(1),
        torch.compile(net, backend="eager" if DEVICE == "cpu" else "inductor", fullgraph=True)(x),
        torch.export.export(net, (x,)).module()(x),
    )
    assert_alike(others, [expected] * 3)
    torch.compiler.reset()
    assert not fused


def network():
    torch.manual_seed(0)
    options = {"num_classes": 3, "in_chans": 2, "img_size": 8, "width": 8}
    return create_model("farkasnet18", "farkas", **options).to(DEVICE).eval()


@pytest.mark.parametrize("see", [lambda net, look: watching(net, (nn.ReLU,), look), watching_relus])
def test_every_relu_is_seen(see, fused):
    net, seen = network(), []
    relus = [path for path, module in net.named_modules() if isinstance(module, nn.ReLU)]
    with torch.no_grad(), see(net, lambda path, y: seen.append(path)):
        net(images(2, 2, 8, 8))
    assert seen == relus
    assert not fused


def test_segments_have_the_same_pieces(fused):
    net = network()
    a, b = torch.randn(2, 2, 8, 8)
    found = segment_pieces(net, a, b, dtype=torch.float32)
    assert not fused
    # In float32 two switches that almost meet may change places or become one.
    there = segment_pieces(copy.deepcopy(net).cpu().double(), a.double(), b.double(), dtype=torch.float64)
    assert found.count == pytest.approx(there.count, rel=0.02)


def test_checkpoints_compute_the_same_again(fused):
    net, x = block(), images().requires_grad_()
    results = []
    for again in (False, True):
        y = torch.utils.checkpoint.checkpoint(net, x, use_reentrant=False) if again else net(x)
        results.append(torch.autograd.grad(y.square().sum(), [x, *net.parameters()]))
    assert fused == ["fused"] * 3
    assert_alike(*results)
