"""Our layers under what torch's own tools do to a layer: 54 checks of each."""

import copy
import io
import pickle
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partialmethod
from itertools import product

import pytest
import torch
from torch import func, nn, optim
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.distributed import checkpoint as shards
from torch.nn.utils import parametrizations, prune
from torch.utils.checkpoint import checkpoint

from neuronal.nn.families import FAMILIES
from tests.peers.conftest import COUPLED, KINDS, OURS, case, checks, close, expected, reason

ROW = "ecosystem, layers"
# Deprecated parts of torch, torch's tools that use them, and a NaN that is not solved.
pytestmark = pytest.mark.filterwarnings("ignore")
# See tests/peers/test_torch_modules.py.
EXPECTED = expected(
    ("weight_norm spectral_norm", "geometric farkas", "the weight is no parameter that could be replaced"),
    ("jit_script", OURS, "no TorchScript"),
    ("isinstance", "geometric farkas implicit_bias", "weight is computed, or the map is another one"),
)
SLOW = ("export", "export_strict", "compile")


def loss(y):
    return y.float().square().sum()


def gradients(layer, x, call=None):
    y = layer(x) if call is None else call(x)
    return torch.autograd.grad(loss(y), list(layer.parameters()))


class LayerChecks:
    """A layer of four inputs and six outputs, and what is done to it."""

    def __init__(self, family, kind):
        self.family, self.kind = family, kind
        dims = KINDS.index(kind)
        self.sizes = (4, 6, 3) if dims else (4, 6)
        self.image = (4, *[6] * dims)
        self.layer, self.x = self.make(), torch.randn(3, *self.image)
        self.with_grad = torch.randn(3, *self.image, requires_grad=True)
        self.plain = getattr(nn, kind)(*self.sizes, bias=family != "zero_bias")
        # The parameter that stands for the weight, by name.
        self.own = next(name for name, parameter in self.layer.named_parameters() if parameter.dim() > 1)

    def make(self, **options):
        return getattr(FAMILIES[self.family], self.kind)(*self.sizes, **{**COUPLED.get(self.family, {}), **options})

    def export(self, **options):
        layer, y, file = self.layer.eval(), torch.randn(7, *self.image), io.BytesIO()
        dims = ({0: torch.export.Dim("batch", min=2, max=64)},)
        program = torch.export.export(layer, (self.x,), dynamic_shapes=dims, **options)
        close(program.module()(y), layer(y))
        torch.export.save(program.run_decompositions(), file)
        file.seek(0)
        close(torch.export.load(file).module()(y), layer(y))

    check_export = partialmethod(export, strict=False)
    check_export_strict = partialmethod(export, strict=True)

    def check_export_trains(self):
        loss(torch.export.export(self.layer, (self.x,)).module()(self.x)).backward()

    def check_compile(self):
        torch._dynamo.reset()
        compiled = torch.compile(self.layer, fullgraph=True, dynamic=True, backend="aot_eager")
        for x in (self.x, torch.randn(5, *self.image)):
            close(compiled(x), self.layer(x))
            close(gradients(self.layer, x, compiled), gradients(self.layer, x), 1e-3)

    def same_at_another_size(self, record):
        y = torch.randn(5, *self.image)
        close(record(self.layer.eval(), self.x)(y), self.layer(y))

    check_jit_trace = partialmethod(same_at_another_size, torch.jit.trace)
    check_jit_script = partialmethod(same_at_another_size, lambda layer, x: torch.jit.script(layer))
    check_fx = partialmethod(same_at_another_size, lambda layer, x: torch.fx.symbolic_trace(nn.Sequential(layer)))

    def check_vmap(self):
        x = torch.randn(4, *self.x.shape)
        close(func.vmap(self.layer)(x), torch.stack([self.layer(one) for one in x]))

    def check_per_sample_gradients(self):
        parameters, buffers = dict(self.layer.named_parameters()), dict(self.layer.named_buffers())

        def of_one(parameters, x):
            return loss(func.functional_call(self.layer, (parameters, buffers), (x.unsqueeze(0),)))

        found = func.vmap(func.grad(of_one), (None, 0))(parameters, self.x)
        for i, x in enumerate(self.x):
            close(tuple(found[name][i] for name in parameters), gradients(self.layer, x.unsqueeze(0)), 1e-3)

    def jacobian(self, jacobian):
        x = self.x[:1]
        close(jacobian(self.layer)(x), torch.autograd.functional.jacobian(self.layer, x))

    check_jacrev = partialmethod(jacobian, func.jacrev)
    check_jacfwd = partialmethod(jacobian, func.jacfwd)

    def check_jvp(self):
        towards = torch.randn_like(self.x)
        found = func.jvp(self.layer, (self.x,), (towards,))[1]
        close(found, torch.autograd.functional.jvp(self.layer, self.x, towards)[1])

    def check_hessian(self):
        assert func.hessian(lambda x: loss(self.layer(x)))(self.x[:1]).isfinite().all()

    def check_ensemble(self):
        """Solutions agree to their tolerance, 1e-4 of the largest number."""
        layers = [self.make() for _ in range(3)]
        state, empty = func.stack_module_state(layers), self.make().to("meta")
        found = func.vmap(lambda *state: func.functional_call(empty, state, (self.x,)))(*state)
        close(found, torch.stack([layer(self.x) for layer in layers]), 5e-4)

    def check_forward_mode(self):
        with forward_ad.dual_level():
            y = self.layer(forward_ad.make_dual(self.x, torch.randn_like(self.x)))
            assert forward_ad.unpack_dual(y).tangent is not None

    def check_double_backward(self):
        slope = torch.autograd.grad(loss(self.layer(self.with_grad)), self.with_grad, create_graph=True)[0]
        loss(slope).backward()
        assert all(p.grad is not None for name, p in self.layer.named_parameters() if p.dim() > 1)

    def check_checkpointing(self):
        for reentrant in (True, False):
            self.layer.zero_grad()
            loss(checkpoint(self.layer, self.with_grad, use_reentrant=reentrant)).backward()
            close(tuple(p.grad for p in self.layer.parameters()), gradients(self.layer, self.with_grad))

    def check_autocast(self):
        with torch.autocast("cpu", torch.bfloat16):
            y = self.layer(self.x)
        assert y.dtype == torch.bfloat16
        close(y.float(), self.layer(self.x), 0.1)
        loss(y).backward()
        assert all(p.grad.dtype == torch.float32 for p in self.layer.parameters())

    def low_precision(self, dtype, tolerance):
        expected = self.layer(self.x)
        y = self.layer.to(dtype)(self.x.to(dtype))
        close(y.float(), expected, tolerance)
        loss(y).backward()

    check_half = partialmethod(low_precision, torch.half, 0.05)
    check_bfloat16 = partialmethod(low_precision, torch.bfloat16, 0.15)

    def default_dtype(self, dtype):
        torch.set_default_dtype(dtype)
        try:
            layer = self.make()
            assert {p.dtype for p in layer.parameters()} == {layer(self.x.to(dtype)).dtype} == {dtype}
        finally:
            torch.set_default_dtype(torch.float32)

    check_default_double = partialmethod(default_dtype, torch.double)
    check_default_bfloat16 = partialmethod(default_dtype, torch.bfloat16)

    def check_made_on_meta(self):
        with torch.device("meta"):
            layer = self.make()
        assert layer(self.x.to("meta")).is_meta
        layer.to_empty(device="cpu").reset_parameters()
        assert layer(self.x).isfinite().all()

    def check_fake_tensors(self):
        with FakeTensorMode():
            self.make()(torch.randn(self.x.shape))

    def check_seeds(self):
        torch.manual_seed(3)
        first = list(self.make().parameters())
        torch.manual_seed(3)
        close(first, list(self.make().parameters()), 0)

    def check_weight_norm_of_own(self):
        parametrizations.weight_norm(self.layer, self.own)
        loss(self.layer(self.x)).backward()
        self.layer.load_state_dict(self.layer.state_dict())

    def check_prune_own(self):
        prune.l1_unstructured(self.layer, self.own, 0.5)
        self.layer(self.x)
        prune.remove(self.layer, self.own)
        assert (getattr(self.layer, self.own) == 0).float().mean() >= 0.4

    def changes_weight(self, change):
        self.write(lambda layer: change(layer, "weight"), lambda layer: loss(layer(self.x)).requires_grad)

    check_weight_norm = partialmethod(changes_weight, parametrizations.weight_norm)
    check_spectral_norm = partialmethod(changes_weight, parametrizations.spectral_norm)
    check_prune = partialmethod(changes_weight, lambda *what: prune.l1_unstructured(*what, 0.5))

    def check_moving_average(self):
        average = optim.swa_utils.AveragedModel(
            self.layer, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True
        )
        average.update_parameters(self.layer)
        close(average(self.x), self.layer(self.x))

    def check_sharded_files(self):
        with tempfile.TemporaryDirectory() as folder:
            shards.save(self.layer.state_dict(), checkpoint_id=folder)
            other = self.make()
            state = other.state_dict()
            shards.load(state, checkpoint_id=folder)
        other.load_state_dict(state)
        close(other(self.x), self.layer(self.x))

    def check_optimisers(self):
        for name, options in OPTIMISERS:
            layer = self.make()
            optimiser = getattr(optim, name)(layer.parameters(), **options)

            def closure(layer=layer, optimiser=optimiser):
                optimiser.zero_grad()
                value = layer(self.x).square().mean()
                value.backward()
                return value

            optimiser.step(closure)
            optimiser.step(closure)
            assert layer(self.x).isfinite().all()

    def check_muon(self):
        matrices = [p for p in self.layer.parameters() if p.dim() == 2]
        assert matrices or self.kind != "Linear"
        loss(self.layer(self.x)).backward()
        for parameter in matrices:
            optim.Muon([parameter], lr=0.01).step()

    def check_state_of_plain_layer(self):
        """Farkas units take all rows but the last."""
        layer = self.make(**({"coupling": 0.0} if self.family == "implicit_bias" else {}))
        layer.load_state_dict(self.plain.state_dict())
        close(layer(self.x)[:, :5], self.plain(self.x)[:, :5])

    def check_conversions(self):
        layer = type(self.layer).from_standard(self.plain)
        close(layer(self.x)[:, :5], self.plain(self.x)[:, :5])
        close(layer.to_standard()(self.x), layer(self.x))

    def check_attributes(self):
        assert self.layer.weight.shape == self.plain.weight.shape
        assert (self.layer.weight.dtype, self.layer.weight.device) == (torch.float32, torch.device("cpu"))
        assert self.layer.bias is None or self.layer.bias.shape == self.plain.bias.shape

    def write(self, write, is_taken):
        """Takes effect, in all rows that are stored, or is refused with what to do instead."""
        try:
            write(self.layer)
        except (RuntimeError, TypeError, ValueError) as refused:
            assert "computed" in str(refused)  # noqa: PT017
        else:
            assert is_taken(self.layer)

    check_init = partialmethod(
        write, lambda layer: nn.init.zeros_(layer.weight), lambda layer: (layer.weight == 0).all()
    )
    check_init_of_data = partialmethod(
        write, lambda layer: layer.weight.data.normal_(0, 0.02), lambda layer: layer.weight[:-1].std() < 0.03
    )
    check_init_of_bias = partialmethod(
        write,
        lambda layer: layer.bias is not None and nn.init.constant_(layer.bias, 3.0),
        lambda layer: layer.bias is None or (layer.bias[:-1] == 3).all(),
    )
    check_assignment = partialmethod(
        write,
        lambda layer: setattr(layer, "weight", nn.Parameter(torch.zeros_like(layer.weight))),
        lambda layer: (layer.weight == 0).all(),
    )

    def check_tying(self):
        other = self.make()
        self.write(
            lambda layer: setattr(layer, "weight", other.weight), lambda layer: torch.equal(layer.weight, other.weight)
        )

    def check_isinstance(self):
        assert isinstance(self.layer, getattr(nn, self.kind))

    def check_keyword(self):
        close(self.layer(input=self.x), self.layer(self.x))

    def check_relu_in_place(self):
        found = gradients(self.layer, self.x, nn.Sequential(self.layer, nn.ReLU(True)))
        close(found, gradients(self.layer, self.x, lambda x: self.layer(x).relu()))

    def check_hooks(self):
        calls = []
        self.layer.register_forward_pre_hook(lambda *_: calls.append("forward"))
        self.layer.register_full_backward_hook(lambda *_: calls.append("backward"))
        loss(self.layer(self.with_grad)).backward()
        assert calls == ["forward", "backward"]

    def check_shared_memory(self):
        expected = self.layer(self.x)
        close(self.layer.share_memory()(self.x), expected)

    def check_inference_mode(self):
        with torch.inference_mode():
            for layer in (self.layer, self.make()):
                close(layer(self.x), layer(self.x))

    def check_frozen(self):
        loss(self.layer.requires_grad_(False)(self.with_grad)).backward()
        assert self.with_grad.grad is not None
        assert all(p.grad is None for p in self.layer.parameters())

    def check_empty_batch(self):
        y = self.layer(self.x[:0])
        assert y.shape[:2] == (0, 6)
        loss(y).backward()

    def check_nan_in_one_sample(self):
        self.x[0] = float("nan")
        assert self.layer(self.x).flatten(1).isnan().all(1).tolist() == [True, False, False]

    def check_copies(self):
        for other in (copy.deepcopy(self.layer), pickle.loads(pickle.dumps(self.layer))):
            close(other(self.x), self.layer(self.x), 0)

    def check_subclass(self):
        kind = type(self.layer)
        twice = type("Twice", (kind,), {"forward": lambda self, x: 2 * kind.forward(self, x)})
        assert twice(*self.sizes)(self.x).shape == self.layer(self.x).shape

    def check_threads(self):
        inputs = [torch.randn_like(self.x) for _ in range(8)]
        with ThreadPoolExecutor(4) as pool:
            close(list(pool.map(self.layer, inputs)), [self.layer(x) for x in inputs])


OPTIMISERS = (
    *(("AdamW", {"fused": True}), ("Adam", {"foreach": True}), ("NAdam", {}), ("Adafactor", {}), ("LBFGS", {})),
    *(("SGD", {"lr": 0.1, "momentum": 0.9, "fused": True}), ("RMSprop", {"foreach": True})),
)


def cases():
    for family, kind, check in product(FAMILIES, KINDS, checks(LayerChecks)):
        if (check, family) != ("conversions", "standard"):
            is_slow = kind in ("Conv1d", "Conv3d") or check in SLOW
            yield case(check, kind, family, expected=reason(EXPECTED, check, family, kind), slow=is_slow)


@pytest.mark.parametrize(("check", "kind", "family"), list(cases()))
def test_layers(check, kind, family):
    getattr(LayerChecks(family, kind), f"check_{check}")()
