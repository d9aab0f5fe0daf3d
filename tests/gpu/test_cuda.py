"""On a CUDA device: the same answers as on the CPU. Run with ./run test -m gpu."""

import copy
import json
import os
import subprocess
import sys
import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pytest
import torch
from torch.autograd import profiler
from torch.nn import functional as F

from neuronal.cli import app as cli
from neuronal.convert import convert
from neuronal.data.augment import Augment
from neuronal.data.dataset import Split, shuffled_batches
from neuronal.data.scaling import Scaling
from neuronal.geometry.segment import segment_pieces
from neuronal.kernel.empirical import empirical_ntk
from neuronal.models.registry import create_model
from neuronal.nn import GeometricConv2d, ImplicitBiasConv2d, InputMeanNorm, MeanOnlyBatchNorm
from neuronal.nn.families import FAMILIES
from neuronal.ops.mean_field import solve
from neuronal.ops.sphere import direction
from neuronal.train import loop
from neuronal.train.checkpoint import Checkpoints
from neuronal.train.engine import Engine, accelerator_for
from neuronal.train.optim import Plan
from tests.conftest import ROOT
from tests.nn.test_every_layer import BASE, EVERY, NEURONS, SHAPES, make
from tests.ops.kernels import cases
from tests.ops.test_mean_field import dense_gradients, violation
from tests.train.small import PLAN, network, train


def agree(layer, x, *, output, gradients):
    """The output and the gradients on the device are those on the CPU up to these tolerances."""
    there = copy.deepcopy(layer).cuda()
    here, found = layer(x), there(x.cuda())
    torch.testing.assert_close(found.cpu(), here, rtol=output, atol=output)
    here.square().mean().backward()
    found.square().mean().backward()
    for p, q in zip(layer.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(q.grad.cpu(), p.grad, rtol=gradients, atol=0.1 * gradients)


@pytest.mark.parametrize(("neuron", "kind"), EVERY)
def test_forward_and_backward_agree_with_the_cpu(neuron, kind):
    layer, x = make(neuron, kind)
    agree(layer, x, output=1e-9, gradients=1e-7)


@pytest.mark.parametrize(("coupling", "slope"), [(-0.5, 10.0), (-2.0, 10.0), (0.045, 10.0)])
def test_long_rows_are_solved_alike(coupling, slope):
    a = (torch.randn(40, 700, dtype=torch.float64) * torch.logspace(-1, 1, 40).unsqueeze(1)).requires_grad_()
    g = torch.randn_like(a)
    here = solve(a, coupling, slope, tolerance=1e-10)
    there = solve(a.cuda(), coupling, slope, tolerance=1e-10)
    assert there.converged.all()
    torch.testing.assert_close(there.value.cpu(), here.value, rtol=0, atol=1e-8)
    (ours,) = torch.autograd.grad(here.value, a, g)
    (theirs,) = torch.autograd.grad(there.value, a, g.cuda())
    torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-6)


@pytest.mark.parametrize("side", [5, 28])
def test_plain_iterations_agree_with_the_cpu(side):
    """Which there are no kernels for."""
    layer = NEURONS["implicit_bias"]["Conv2d"](3, 4, 3, coupling=-0.3, steps=2, learn_slope=True)
    agree(layer, torch.randn(2, 3, side, side), output=1e-3, gradients=1e-2)


@pytest.mark.parametrize("units", [16, 64, 256, 784, 1024, 4096])
@pytest.mark.parametrize(("coupling", "slope", "spread"), [(-0.5, 10.0, 1.0), (0.05, 10.0, 1.0), (-2.0, 10.0, 0.2)])
def test_kernels_agree_with_plain_torch(units, coupling, slope, spread):
    a = (spread * torch.randn(50, units)).requires_grad_()
    # One row is too wide for the kernel.
    a.data[7, 3] = 40.0
    there = a.detach().cuda().requires_grad_()
    true = solve(a.double(), coupling, slope, tolerance=1e-9)
    found = solve(there, coupling, slope)
    assert found.converged.all()
    scale = a.detach().abs().amax(1, keepdim=True).clamp_min(1) / (1 - max(0.0, coupling * slope))
    assert ((found.value.cpu() - true.value).abs() <= 1.01e-4 * scale).all()
    g = torch.randn_like(a)
    (ours,) = torch.autograd.grad(found.value, there, g.cuda())
    (theirs,) = torch.autograd.grad(true.value, a, g.double())
    assert (ours.cpu() - theirs).norm() <= 2e-3 * theirs.norm()


@pytest.mark.parametrize("coupling", [-2.0, -0.5, 0.05])
@pytest.mark.parametrize("units", [65, 784, 4096])
def test_wide_rows_are_solved_on_the_device(units, coupling):
    a = torch.randn(7, units)
    a *= (torch.tensor([1.0, 15.0, 60.0, 1e3, 1e6, 13.0, 40.0]) / (a.amax(1) - a.amin(1))).unsqueeze(1)
    there = a.cuda().requires_grad_()
    found = solve(there, coupling, 10.0)
    assert found.converged.all()
    assert (violation(found.value.cpu().detach(), a, coupling, 10.0) <= found.residual.cpu()).all()
    g = torch.randn_like(a)
    (ours,) = torch.autograd.grad(found.value, there, g.cuda())
    for row in range(7) if units < 1000 else ():
        true, *_ = dense_gradients(found.value[row : row + 1].cpu(), g[row : row + 1], coupling, 10.0)
        # Cubic splines on the nodes err by the fourth power of their distance: 7e-4 was seen at 0.46, 1.4e-4 at 0.34, for
        # rows that are as wide as a grid may be; wider ones are solved without it.
        width = 10.0 * (found.value[row].max() - found.value[row].min()).item()
        spacing = width / 238 if width <= 119 else width / 1006
        limit = 1e-4 if spacing > 0.5 else 1e-4 + 0.03 * spacing**4
        assert (ours[row].cpu() - true).norm() <= limit * true.norm()


def test_a_recorded_graph_solves_wide_rows_too():
    layer = NEURONS["implicit_bias"]["Conv2d"](3, 4, 3, coupling=-0.5).cuda()
    x = torch.randn(2, 3, 14, 14, device="cuda")
    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            layer(x)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            z = layer(x)
        x *= 30
        graph.replay()
        assert torch.equal(z, layer(x))


@pytest.mark.parametrize("family", FAMILIES)
def test_models_are_converted_where_they_are(family):
    model = create_model("cnn", num_classes=3, in_chans=1, img_size=8).cuda()
    new = convert(model, family).model
    assert all(tensor.is_cuda for tensor in new.state_dict().values())
    assert new(torch.randn(2, 1, 8, 8, device="cuda")).isfinite().all()


@contextmanager
def not_waiting():
    """Inside: an error where the host waits for the device."""
    torch.cuda.synchronize()
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        # torch says that the mode itself is new.
        warnings.simplefilter("ignore")
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("neuron", NEURONS)
def test_a_step_does_not_wait_for_the_device(neuron, size):
    """Nor does it if rows are long, and some of them wide, so that a second kernel has to finish them."""
    layer = NEURONS[neuron]["Conv2d"](*SHAPES["Conv2d"][0], **BASE.get(neuron, {})).cuda()
    batch, channels, *sides = SHAPES["Conv2d"][1]
    x = torch.randn(batch, channels, *(size * side for side in sides), device="cuda")
    x[0] *= 30
    layer(x).sum().backward()
    with not_waiting():
        layer(x).sum().backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_solves_that_do_not_converge_are_counted_and_nothing_waits(dtype):
    """A row of NaN is one; float64 is solved by plain torch, which waits by itself."""
    layer = NEURONS["implicit_bias"]["Linear"](3, 20, coupling=-0.5, dtype=dtype).cuda()
    x = torch.randn(5, 3, dtype=dtype, device="cuda")
    x[1] = torch.nan
    layer(x)
    with not_waiting() if dtype == torch.float32 else nullcontext():
        layer(x)
    assert layer.num_unconverged == 2
    assert layer.cpu().num_unconverged == 2


@pytest.mark.parametrize("optim", ["sgd", "adam", "adamw"])
def test_a_step_of_fit_does_not_wait_for_the_device(optim):
    plan = Plan(1, 8, optim, 0.01, precision="bf16", channels_last=True)
    model = create_model("cnn", num_classes=3, in_chans=3, img_size=8)
    engine = Engine(accelerator_for(plan), model, plan, standard=False)
    x = torch.randint(256, (32, 3, 8, 8), dtype=torch.uint8)
    split = Split(x, torch.randint(3, (32,)), Scaling((0.5,) * 3, (0.2,) * 3)).to(engine.device)
    order = shuffled_batches(32, 8, torch.Generator().manual_seed(0), engine.device)
    rows = next(order)
    for number in range(2):
        with not_waiting() if number else nullcontext():
            loop._gradients(engine, split, rows, Augment(crop=2, flip=True, cutout=3).apply, 0, number)
            engine.step(0.01)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_segments_have_the_same_pieces_as_on_the_cpu(dtype):
    torch.manual_seed(0)
    model = create_model("resnet9", num_classes=5, in_chans=3, img_size=8, width=4)
    with torch.no_grad():
        model(torch.rand(16, 3, 8, 8))
    a, b = torch.rand(2, 3, 8, 8)
    here = segment_pieces(model, a, b, dtype=dtype)
    for memory in (2**20, 2**30):
        there = segment_pieces(copy.deepcopy(model).cuda(), a, b, dtype=dtype, memory=memory)
        # In float32 two switches that almost meet may change places or become one.
        assert abs(there.count - here.count) <= (0 if dtype == torch.float64 else 0.02 * here.count)
        t = torch.linspace(0, 1, 200, dtype=torch.float64)
        close = 1e-3 if dtype == torch.float32 else 1e-9
        torch.testing.assert_close(there.at(t.cuda()).cpu(), here.at(t), rtol=close, atol=close)


@pytest.mark.parametrize("method", ["jacobian", "structured"])
@pytest.mark.parametrize("memory", [2**16, 2**30])
def test_tangent_kernels_agree_with_the_cpu(method, memory):
    model = create_model("fcn", num_classes=3, in_chans=1, img_size=4, widths=(7, 5)).double()
    x = torch.randn(6, 1, 4, 4, dtype=torch.float64)
    here = empirical_ntk(model, x, method=method)
    there = empirical_ntk(model.cuda(), x.cuda(), method=method, memory=memory)
    torch.testing.assert_close(there.cpu(), here, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("neuron", NEURONS)
def test_compiled_layers_agree(neuron):
    layer, x = make(neuron, "Conv2d", dtype=torch.float32)
    layer, x = layer.cuda(), x.cuda()
    compiled = torch.compile(layer, fullgraph=True)
    torch.testing.assert_close(compiled(x), layer(x), rtol=1e-3, atol=1e-3)
    compiled(x).sum().backward()


def test_directions_in_bfloat16_autocast_stay_exact():
    delta = torch.randn(64, 575, device="cuda") / 24
    with torch.autocast("cuda", dtype=torch.bfloat16):
        u = direction(delta)
    assert u.dtype == torch.float32
    torch.testing.assert_close(u.norm(dim=1), torch.ones(64, device="cuda"), rtol=0, atol=1e-5)


def test_compare_trains_on_the_device(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["compare", "--epochs", "5", "--seeds", "0", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [row["family"] for row in answer["comparison"]["rows"]] == list(FAMILIES)
    assert all(row["estimates"]["accuracy"]["mean"] > 0.5 for row in answer["comparison"]["rows"])
    assert answer["costs"]["environment"]["gpu"] != "none"


BEGUN = """
import sys
from tests.train.test_checkpoint import PLAN, Checkpoints, Stop, replace, stopping_after, train
try:
    plan = replace(PLAN, optim=sys.argv[2], accumulate=1)
    train(stopping_after(6), Checkpoints(sys.argv[1], every=1), plan=plan, augment=None)
except Stop:
    print("stopped")
"""


@pytest.mark.parametrize("optim", ["sgd", "adam"])
def test_what_a_cpu_began_goes_on_on_a_gpu(tmp_path, optim):
    there = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    begun = subprocess.run([sys.executable, "-c", BEGUN, tmp_path, optim], cwd=ROOT, env=there, capture_output=True)
    assert begun.stdout == b"stopped\n", begun.stderr
    plan = replace(PLAN, optim=optim, accumulate=1)
    with pytest.warns(RuntimeWarning, match="begun on a CPU and goes on on a GPU"):
        model, epochs = train(network(), Checkpoints(tmp_path, every=1), plan=plan, augment=None)
    assert len(epochs) == PLAN.epochs
    assert all(value.is_cuda and value.isfinite().all() for value in model.values())


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("neuron", "shape"),
    [
        *[("geometric", s) for s in (*cases.GEOMETRIC, (64, 64, 3, 3), (7, 512, 3, 3), (3, 25088))],
        *[("farkas", s) for s in (*cases.FARKAS, (512, 64, 3, 3), (65, 512, 3, 3))],
    ],
)
def test_fused_weights(neuron, shape, dtype, channels_last):
    if channels_last and len(shape) != 4:
        pytest.skip("channels_last is about images")
    getattr(cases, neuron)(shape, device="cuda", dtype=dtype, channels_last=channels_last)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(
    "order",
    {
        "images": lambda x: x,
        "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
        "rows": lambda x: x[..., 0, 0].contiguous(),
        "sequences": lambda x: x[..., 0].contiguous(),
        "turned": lambda x: x[..., 0].contiguous().permute(2, 1, 0),
        "a part": lambda x: x[3:, :, 1:-1, ::2],
        "volumes": lambda x: x[..., None].contiguous(memory_format=torch.channels_last_3d),
        "one image": lambda x: x[:1],
    }.items(),
    ids=lambda order: order[0],
)
@pytest.mark.parametrize("kind", [InputMeanNorm, MeanOnlyBatchNorm])
def test_norms_by_the_mean(kind, order, dtype):
    """Each is rounded once: what is computed in float64 from the same numbers is as near as that allows."""
    norm = kind(6).cuda()
    for bias in norm.parameters():
        torch.nn.init.normal_(bias)
    there = copy.deepcopy(norm).cpu().double()
    x = order[1]((torch.randn(64, 6, 9, 9) + 3).to(dtype).cuda()).requires_grad_()
    given = x.detach().cpu().double().requires_grad_()
    y, expected = norm(x), there(given)
    assert y.dtype == dtype
    if order[0] in ("images", "channels last"):
        assert y.stride() == x.stride()
    g = torch.randn_like(y)
    y.backward(g)
    expected.backward(g.cpu().double())
    rounding = 2**-8 if dtype == torch.bfloat16 else 1e-6
    for ours, theirs in ((y, expected), (x.grad, given.grad)):
        assert ((ours.detach().cpu().double() - theirs).abs() <= rounding * theirs.abs() + 2e-6).all()
    torch.testing.assert_close(norm.running_mean.cpu().double(), there.running_mean, rtol=1e-5, atol=1e-6)
    for bias, theirs in zip(norm.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(bias.grad.cpu().double(), theirs.grad, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("channels_last", [False, True])
def test_a_scale_behind_the_relu(channels_last, bias):
    """Directions come from the kernel too, and so do their gradients."""
    layer = GeometricConv2d(5, 4, 3, activation="relu", bias=bias)
    with torch.no_grad():
        layer.scale.normal_()
    there = copy.deepcopy(layer).cuda()
    layer, x = layer.double(), torch.randn(3, 5, 7, 7)
    order = torch.channels_last if channels_last else torch.contiguous_format
    z = there(x.cuda().contiguous(memory_format=order))
    expected = layer(x.double())
    torch.testing.assert_close(z.double().cpu(), expected, rtol=1e-3, atol=1e-3)
    g = torch.randn_like(expected)
    expected.backward(g)
    with profiler.profile() as seen:
        z.backward(g.float().cuda())
    assert not any("addcmul" in event.name for event in seen.function_events), "gradients in plain steps"
    for p, q in zip(layer.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(q.grad.double().cpu(), p.grad, rtol=1e-2, atol=1e-2)


def resnet(neuron):
    """A narrow ResNet-18, and a step without the optimiser in bfloat16."""
    model = create_model("resnet18", neuron, num_classes=3, in_chans=3, img_size=32, width=8).cuda()
    x, y = torch.randn(2, 3, 32, 32, device="cuda"), torch.randint(3, (2,), device="cuda")

    def step(network):
        with torch.autocast("cuda", torch.bfloat16):
            logits = network(x)
        F.cross_entropy(logits.float(), y).backward()

    return model, step


@pytest.mark.parametrize("neuron", FAMILIES)
def test_a_compiled_step_has_no_graph_break(neuron):
    """Forward and backward are one graph each; what the compiler makes of implicit-bias kernels takes it minutes."""
    model, step = resnet(neuron)
    step(torch.compile(model, fullgraph=True, backend="aot_eager" if neuron == "implicit_bias" else "inductor"))
    assert all(p.grad is not None for p in model.parameters())
    torch.compiler.reset()


def test_reduce_overhead_trains_implicit_bias_layers_from_the_first_call():
    """The tables of the kernels are made in that call, and outlive the memory of its CUDA graph."""
    from neuronal.ops.kernels.tables import tables

    layer = torch.nn.Sequential(ImplicitBiasConv2d(3, 4, 3, coupling=-0.5), torch.nn.ReLU()).cuda()
    x = torch.randn(8, 3, 16, 16, device="cuda")
    expected = copy.deepcopy(layer)(x)
    tables.cache_clear()
    compiled = torch.compile(layer, mode="reduce-overhead")
    for _ in range(4):
        y = compiled(x)
        torch.testing.assert_close(y, expected, rtol=1e-3, atol=1e-3)
        y.sum().backward()
        # The next run writes where these gradients are.
        layer.zero_grad()
    torch.compiler.reset()


IMPLICIT = {"coupling": -0.5, "learn_coupling": False}
NETWORKS = {
    "standard": ("resnet18", "standard", {"width": 8}, {}),
    "geometric": ("vgg6", "geometric", {"widths": (8, 8, 16), "norm": "input_mean"}, {}),
    "farkas": ("farkasnet18", "farkas", {"width": 8, "norm": "batch"}, {}),
    "implicit": ("ucn", "implicit_bias", {"depth": 2, "width": 3}, {}),
    "implicit, fixed": ("ucn", "implicit_bias", {"depth": 2, "width": 3}, IMPLICIT),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_training_with_cuda_graphs_is_the_training(name):
    """Two sizes of batches, three epochs; couplings are held in the first. Compiled kernels add up in another order."""
    random = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (224, 3, 32, 32), generator=random, dtype=torch.uint8)
    split = Split(pixels, torch.randint(10, (224,), generator=random))
    model, neuron, options, neuron_options = NETWORKS[name]
    losses = []
    for replay in (False, True):
        torch.manual_seed(1)
        shape = {"num_classes": 10, "in_chans": 3, "img_size": 32}
        made = create_model(model, neuron, **shape, **options, neuron_options=neuron_options)
        held = int(neuron == "implicit_bias")
        plan = Plan(3, 64, "sgd", 0.01, clip=1.0, channels_last=True, replay=replay, standard_epochs=held)
        trained = loop.fit(made, split, plan, augment=Augment(crop=4, flip=True).apply)
        losses.append([epoch.loss for epoch in trained.epochs])
        torch.compiler.reset()
    assert losses[1] == pytest.approx(losses[0], rel=1e-2)
    assert losses[0][-1] != pytest.approx(losses[0][0], rel=1e-4)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("neuron", NEURONS)
def test_layers_run_on_a_device_that_is_not_the_current_one(neuron):
    layer, x = make(neuron, "Conv2d", dtype=torch.float32)
    results = []
    for device in ("cuda:0", "cuda:1"):
        there = copy.deepcopy(layer).to(device)
        y = there(x.to(device))
        y.sum().backward()
        assert y.device == torch.device(device)
        results.append([y.cpu(), *(p.grad.cpu() for p in there.parameters())])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)
