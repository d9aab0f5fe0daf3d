"""torch's own tests of ``nn.Linear`` and ``nn.Conv1d/2d/3d``, re-created from the inputs its ``module_db`` gives them."""

import copy
import io
from functools import cache, partial, partialmethod
from itertools import chain, product
from unittest.mock import patch

import pytest
import torch
from torch import nn

from neuronal.nn.families import FAMILIES
from tests.peers.conftest import COUPLED, KINDS, OURS, case, checks, close, expected, need, reason

ROW = "torch's module tests"
# Second differences of a solved layer of 3D images.
pytestmark = pytest.mark.timeout(300)
# Why checks fail. One that passes nevertheless is a failure: shorten its row, or take it out.
EXPECTED = expected(
    ("forward", "zero_bias geometric farkas", "reads the list of parameters as weight and bias", "Linear"),
    ("complex_numbers", "farkas implicit_bias", "compares units, so takes real numbers"),
    ("memory_format", f"standard {OURS}", "torch's Conv3d keeps no order in double", "Conv3d-double"),
)


@cache
def module_info(kind):
    """torch's list of arguments and inputs for one kind of layer."""
    need("expecttest")
    # torch's test tools forbid every later test to set a flag of a backend.
    with patch.object(torch.backends, "disable_global_flags"):
        from torch.testing._internal.common_modules import module_db

    return next(info for info in module_db if info.module_cls is getattr(nn, kind))


def module_inputs(kind, **options):
    info = module_info(kind)
    return info.module_inputs_func(info, device="cpu", **options)


def tensors(layer):
    return chain(layer.parameters(), layer.buffers())


def gradients(layer, x, towards):
    """Output and gradients."""
    y = layer(x)
    return (y, *torch.autograd.grad(y, [x, *layer.parameters()], towards))


def scattered(tensor):
    return torch.repeat_interleave(tensor.detach(), 2, -1)[..., ::2].requires_grad_(tensor.requires_grad)


class ModuleChecks:
    """One kind of layer, with torch's arguments and inputs for it, in one dtype and mode."""

    def __init__(self, kind, family, dtype, training):
        self.kind, self.family, self.dtype, self.training = kind, family, dtype, training
        self.dims, self.plain, self.make = KINDS.index(kind), getattr(nn, kind), getattr(FAMILIES[family], kind)

    def inputs(self, requires_grad=False):
        """torch's input, constructor, and ``x``."""
        for one in module_inputs(self.kind, dtype=self.dtype, requires_grad=requires_grad, training=self.training):
            given = one.constructor_input
            make = partial(self.make, *given.args, **given.kwargs)
            yield one, make, one.forward_input.kwargs.get("input", *one.forward_input.args)

    def layers(self, requires_grad=False, **options):
        for _, make, x in self.inputs(requires_grad):
            yield make(**options).to(self.dtype).train(self.training), x

    def pair(self, inputs, outputs, **options):
        """The layer and the plain one of the same arguments."""
        sizes = (inputs, outputs, *([3] if self.dims else []))
        return [kind(*sizes, **options).to(self.dtype).train(self.training) for kind in (self.make, self.plain)]

    def random(self, *sizes, **options):
        return torch.randn(*sizes, *[7] * self.dims, dtype=self.dtype, **options)

    def check_forward(self):
        for (one, *_), (layer, x) in zip(self.inputs(), self.layers(), strict=True):
            if one.reference_fn is not None:
                close(layer(x), one.reference_fn(layer, x), 1e-5)

    def check_forward_of_weight_and_bias(self):
        for (one, _, x), (layer, _) in zip(self.inputs(), self.layers(), strict=True):
            given, state = one.constructor_input, {"weight": layer.weight, "bias": layer.bias}
            plain = self.plain(*given.args, **given.kwargs | {"bias": layer.bias is not None}).to(self.dtype)
            close(layer(x), torch.func.functional_call(plain, state, x), 1e-5)

    def check_keyword_call(self):
        for layer, x in self.layers():
            close(layer(input=x), layer(x), 0)

    def check_factory_kwargs(self):
        for (_, make, _), device in product(self.inputs(), ("cpu", "meta")):
            made = {(t.device.type, t.dtype) for t in tensors(make(device=device, dtype=self.dtype))}
            assert made == {(device, self.dtype)}

    def check_device_context(self):
        for _, make, _ in self.inputs():
            with torch.device("meta"):
                there = make()
            for a, b in zip(tensors(make()), tensors(there), strict=True):
                assert b.is_meta
                assert (a.shape, a.dtype, a.stride(), a.requires_grad) == (
                    b.shape,
                    b.dtype,
                    b.stride(),
                    b.requires_grad,
                )

    def check_device_transfer(self):
        for layer, x in self.layers():
            expected, state = layer(x), copy.deepcopy(layer.state_dict())
            assert layer.to("meta")(x.to("meta")).is_meta
            layer.to_empty(device="cpu").load_state_dict(state)
            close(layer(x), expected)

    def check_memory_without_values(self):
        for layer, x in self.layers(device="meta"):
            layer.to_empty(device="cpu")
            for tensor in tensors(layer):
                tensor.data.fill_(float("nan"))
            layer.reset_parameters()
            assert all(tensor.isfinite().all() for tensor in (*tensors(layer), layer(x)))

    def check_representation(self):
        for layer, _ in self.layers():
            assert repr(layer) == str(layer)

    def check_save_and_load(self):
        for (layer, x), (other, _), assign in zip(self.layers(), self.layers(), (False, True) * 9, strict=False):
            file = io.BytesIO()
            torch.save(layer.state_dict(), file)
            file.seek(0)
            other.load_state_dict(torch.load(file, weights_only=True), assign=assign)
            close(other(x), layer(x), 0)

    def check_pickle_and_copy(self):
        for layer, x in self.layers():
            file = io.BytesIO()
            torch.save(layer, file)
            file.seek(0)
            for other in (torch.load(file, weights_only=False), copy.deepcopy(layer)):
                close(other(x), layer(x), 0)

    def check_no_mode(self):
        for layer, x in self.layers():
            expected = layer(x)
            del layer.training
            close(layer(x), expected, 0)

    def check_non_contiguous(self):
        for layer, x in self.layers(requires_grad=True):
            towards = torch.randn_like(layer(x))
            expected = gradients(layer, x, towards)
            for one, other in product((x, scattered(x)), (towards, scattered(towards))):
                close(gradients(layer, one, other), expected)

    def by_differences(self, check, **options):
        """Solved layers need a solution as exact as the differences."""
        own = {"tolerance": 1e-10} if self.family == "implicit_bias" else {}
        if check is torch.autograd.gradgradcheck:
            # The bound of a learnt coupling begins at 0, with a jump of the third derivative: differences of gradients
            # across it are off by half of that jump times their step, which is more than gradgradcheck allows.
            own |= COUPLED.get(self.family, {})
        for layer, x in self.layers(requires_grad=True, **own):
            assert check(lambda x, *_, layer=layer: layer(x), (x, *layer.parameters()), **options)

    check_gradient = partialmethod(by_differences, torch.autograd.gradcheck)
    check_batched_gradient = partialmethod(by_differences, torch.autograd.gradcheck, check_batched_grad=True)
    check_second_gradient = partialmethod(by_differences, torch.autograd.gradgradcheck)

    def check_memory_format(self):
        usual, last = torch.contiguous_format, torch.channels_last_3d if self.dims == 3 else torch.channels_last
        for layer, x in self.layers(requires_grad=True):
            towards = torch.rand_like(layer(x))
            expected = gradients(layer, x, towards)
            dims = max(4, self.dims + 2)
            orders = (usual, last) if x.dim() == dims else (usual,)
            for of_input, of_layer in product(orders, (torch.preserve_format, *orders)):
                image = x.detach().to(memory_format=of_input, copy=True).requires_grad_()
                found = gradients(layer.to(memory_format=of_layer), image, towards)
                # torch's own tolerances.
                close(found, expected, 1e-4 if self.dims == 3 else 1e-5)
                for tensor in found if self.training else found[:1]:
                    wanted = last if last in (of_layer, of_input) and tensor.dim() == dims else usual
                    assert tensor.is_contiguous(memory_format=wanted), (of_layer, of_input, tensor.stride())

    def check_errors(self):
        """These inputs of torch's have no errors; what a plain layer refuses is to be refused in the same way."""
        x, words = self.random(2, 4), [3] * bool(self.dims)
        inputs = (self.random(2, 3), x.half(), x.long(), None)
        calls = [lambda make, wrong=wrong: make(4, 5, *words)(wrong) for wrong in inputs]
        calls += [lambda make: make(4, 5, *words, colour=1), lambda make: make(-1, 5, *words), lambda make: make(4)]
        settings = [{"groups": 3}, {"groups": 0}, {"padding": "some"}, {"padding_mode": "some"}, {"dilation": 4}]
        for wrong in [*settings, {"stride": 2, "padding": "same"}] if self.dims else []:
            calls.append(lambda make, wrong=wrong: make(4, 5, 3, **wrong)(x))
        for call in calls:
            with pytest.raises(Exception) as refused:  # noqa: PT011
                call(self.plain)
            with pytest.raises(refused.type):
                call(self.make)

    def check_empty_batch(self):
        x = self.random(0, 4, requires_grad=True)
        layer, plain = self.pair(4, 5)
        assert layer(x).shape == plain(x).shape
        layer(x).sum().backward()
        assert all(tensor.grad is not None for tensor in (x, *layer.parameters()))

    def check_zero_sizes(self):
        for inputs, outputs in ((0, 5), (4, 0)) if not self.dims else ():
            layer, plain = self.pair(inputs, outputs)
            assert layer(self.random(3, inputs)).shape == plain(self.random(3, inputs)).shape

    def check_low_precision(self):
        for (layer, x), dtype in product(self.layers(), (torch.bfloat16, torch.float16)):
            expected, found = layer(x), copy.deepcopy(layer).to(dtype)(x.to(dtype))
            assert found.dtype == dtype
            assert (found - expected).abs().max() < 0.06 * expected.abs().max()

    def check_complex_numbers(self):
        for _, make, x in self.inputs():
            assert make(dtype=torch.complex64)(x.to(torch.complex64)).is_complex()

    def check_settings(self):
        """Every way of torch's to pad, stride, dilate and group; every shape of rows."""
        layer, plain = self.pair(4, 6)
        for shape in ((4,), (2, 4), (2, 3, 4), (2, 3, 2, 4)) if not self.dims else ():
            x = torch.randn(shape, dtype=self.dtype)
            assert layer(x).shape == plain(x).shape
        ways = product((0, 2, "valid", "same"), ("zeros", "reflect", "circular", "replicate"))
        for (padding, mode), other in product(ways, ({}, {"dilation": 2}, {"groups": 2}, {"stride": 2})):
            if not self.dims or (padding == "same" and "stride" in other):
                continue
            layer, plain = self.pair(4, 6, padding=padding, padding_mode=mode, **other)
            x = self.random(2, 4)
            assert layer(x).shape == plain(x).shape
            names = set(plain.__constants__) & set(vars(plain))
            assert all(getattr(layer, name) == getattr(plain, name) for name in names)


BY_DIFFERENCES = ("gradient", "batched_gradient", "second_gradient")
COMBINATIONS = [(dtype, training) for dtype in (torch.float32, torch.float64) for training in (True, False)]


def cases():
    for family, kind, check, (dtype, training) in product(FAMILIES, KINDS, checks(ModuleChecks), COMBINATIONS):
        is_slow = dtype == torch.float64 or not training
        if check not in BY_DIFFERENCES or (dtype == torch.float64 and training):
            why = reason(EXPECTED, check, family, kind, f"{kind}-double" if dtype == torch.float64 else kind)
            yield case(check, kind, family, dtype, training, expected=why, slow=is_slow)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize(("check", "kind", "family", "dtype", "training"), list(cases()))
def test_torchs_own(check, kind, family, dtype, training):
    getattr(ModuleChecks(kind, family, dtype, training), f"check_{check}")()
