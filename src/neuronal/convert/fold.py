"""Batch norm in evaluation is a scale and a shift per channel, which the layer before it can take over."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from neuronal.convert.replace import PLAIN, has_own_weight, kind, replaced
from neuronal.core.inference import call_on_copy, check_module, evaluating, memory
from neuronal.nn.standard import arguments

Pairs = list[tuple[Any, Any]]
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def fold_batch_norm(model: nn.Module, example: Tensor | None = None) -> Any:
    """A copy of ``model`` whose batch norms are part of the layers before them; the same function in evaluation.

    A batch norm is folded if its only input is the output of a convolution that nothing else uses and that has no hooks;
    with an example, which shows on what dimension it acts, also behind a linear layer. Others stay. Of a module that is a
    batch norm and an activation (timm's ``BatchNormAct2d``) the activation stays. In training the copy is another
    function: it has no batch statistics.

    Args:
        model: Left as it is.
        example: An input, for models whose forward ``torch.fx`` cannot read. They are run on it instead, and the result is
            checked on it.

    Raises:
        ValueError: The model can neither be read nor, without an example, be run; or the check fails.
    """
    check_module(model)
    pairs = foldable(model, example)
    others: dict[nn.Module, nn.Module] = {}
    for layer, norm in pairs:
        others[layer], others[norm] = folded(layer, norm), without_norm(norm)
    result: Any = replaced(model, others)
    if example is not None:
        _check(model, result, example)
    recipe = getattr(model, "recipe", None)
    if recipe and others:
        # Not known how to do again without the example.
        step = {} if example is not None else {**recipe, "converted": [*recipe.get("converted", []), {"fold": True}]}
        result.recipe = step
    return result


def foldable(model: nn.Module, example: Tensor | None = None) -> Pairs:
    """Layers and the batch norms that can be folded into them."""
    norms = batch_norms(model)
    if not norms:
        return []
    used: dict[nn.Module, int] = {}
    pairs = _read(model, norms, used) if example is None else _seen(model, norms, example, used)
    return [
        (layer, norm)
        for layer, norm in pairs
        if type(layer) in PLAIN
        and norm in norms
        and norm.running_mean is not None
        and has_own_weight(layer)
        and norm.running_mean.shape == layer.weight.shape[:1]
        and not (_hooked(layer) or _hooked(norm))
        and used[layer] == used[norm] == 1
        # What a batch norm behind a linear layer acts on depends on the shape of the input.
        and (example is not None or type(layer) is not nn.Linear)
    ]


def batch_norms(model: nn.Module) -> set[nn.Module]:
    """Torch's batch norms, and modules of any class that compute one and then their children, such as an activation."""
    return {
        m for m in model.modules() if kind(m) in BATCH_NORMS or (hasattr(m, "running_mean") and _is_norm_and_more(m))
    }


@torch.no_grad()
def _is_norm_and_more(module: Any) -> bool:
    """Whether, in evaluation, a module is seen to compute a batch norm and its children one after the other."""
    with suppress(Exception), evaluating(module):  # whatever is raised by one that is no batch norm of images
        scale, shift = (t.view(-1, 1, 1) for t in scale_and_shift(module))
        x = torch.randn(2, len(scale), 3, 3, generator=torch.Generator().manual_seed(0)).to(scale)
        want = without_norm(module)(x * scale + shift)
        return torch.allclose(call_on_copy(module.forward, x), want, rtol=1e-3, atol=1e-4)
    return False


def without_norm(norm: nn.Module, *instead: nn.Module) -> nn.Module:
    """What is put in the place of a batch norm: what stands for it, if anything, and then copies of its children."""
    children = OrderedDict((name, copy.deepcopy(child)) for name, child in norm.named_children())
    if not children or kind(norm) in BATCH_NORMS:
        return instead[0] if instead else nn.Identity()
    return nn.Sequential(OrderedDict(("scale", module) for module in instead) | children).train(norm.training)


def _hooked(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def _read(model: nn.Module, norms: set[nn.Module], used: dict[nn.Module, int]) -> Pairs:
    """Pairs of a module and the one that alone takes its output, from the graph of the forward."""
    try:
        with evaluating(model):
            tracer = fx.Tracer()
            is_leaf = tracer.is_leaf_module
            tracer.is_leaf_module = lambda m, path: m in norms or is_leaf(m, path)  # type: ignore[assignment, method-assign]
            graph = tracer.trace(model)
    except Exception as reason:
        raise ValueError(
            f"torch.fx cannot read the forward of {type(model).__name__} to see which layer a batch norm follows "
            f"({str(reason).splitlines()[0] if str(reason) else type(reason).__name__}). Give an example input: example=x."
        ) from reason
    modules = dict(model.named_modules())
    called = {node: modules[str(node.target)] for node in graph.nodes if node.op == "call_module"}
    for module in called.values():
        used[module] = used.get(module, 0) + 1
    for node in graph.nodes:
        if node.op == "get_attr":
            # A weight that the forward uses directly is one more use of its layer.
            owner = modules.get(str(node.target).rpartition(".")[0])
            if owner in used:
                used[owner] += 1
    pairs = []
    for node, module in called.items():
        before = node.args[0] if len(node.args) == 1 else None
        if isinstance(before, fx.Node) and before in called and len(before.users) == 1:
            pairs.append((called[before], module))
    return pairs


@torch.no_grad()
def _seen(model: nn.Module, norms: set[nn.Module], example: Tensor, used: dict[nn.Module, int]) -> Pairs:
    """Pairs of a module and one that was handed the very tensor it returned, from a run."""
    made: dict[int, tuple[nn.Module, Tensor]] = {}
    taken: dict[int, list[nn.Module]] = {}

    def watch(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        used[module] = used.get(module, 0) + 1
        for value in inputs:
            taken.setdefault(id(value), []).append(module)
        # A linear layer with more than (batch, features) has a batch norm behind it that acts on another dimension.
        if isinstance(output, Tensor) and not (isinstance(module, nn.Linear) and output.dim() != 2):
            made[id(output)] = (module, output)

    between = _UsesBetweenModules(made)
    inside = {child for norm in norms for child in norm.modules()} - norms
    leaves = [m for m in model.modules() if m in norms or not (m in inside or list(m.children()))]
    handles = [leaf.register_forward_hook(watch) for leaf in leaves]
    handles += [leaf.register_forward_pre_hook(between.enter, prepend=True) for leaf in leaves]
    handles += [leaf.register_forward_hook(between.leave, always_call=True) for leaf in leaves]
    try:
        with evaluating(model), between:
            call_on_copy(model, example)
    finally:
        for handle in handles:
            handle.remove()
    return [
        (made[key][0], users[0])
        for key, users in taken.items()
        if key in made and len(users) == 1 and memory(made[key][1]) not in between.used
    ]


class _UsesBetweenModules(TorchFunctionMode):
    """Inside: notes which outputs of modules are used by functions, in place or not, outside of modules without children."""

    def __init__(self, made: dict[int, tuple[nn.Module, Tensor]]):
        super().__init__()
        self.made, self.depth = made, 0
        self.used: set[int] = set()

    def enter(self, *_: object) -> None:
        self.depth += 1

    def leave(self, *_: object) -> None:
        self.depth -= 1

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self.depth and not _asks_for_shape(func):
            known = {memory(output) for _, output in self.made.values()}
            given = {memory(leaf) for leaf in tree_leaves([args, kwargs]) if isinstance(leaf, Tensor)}
            self.used |= known & given
        return func(*args, **kwargs)


def _asks_for_shape(func: Any) -> bool:
    """Whether a function is one of those that see no number of a tensor."""
    attribute = getattr(getattr(func, "__self__", None), "__name__", "")
    return func.__name__ in ("size", "dim", "numel", "stride", "is_floating_point", "__len__") or (
        func.__name__ == "__get__" and attribute in ("shape", "ndim", "dtype", "device", "is_cuda", "requires_grad")
    )


@torch.no_grad()
def folded(layer: Any, norm: Any) -> Any:
    """The layer that computes ``norm(layer(x))`` in evaluation."""
    scale, shift = scale_and_shift(norm)
    plain: Any = type(layer)(**{**arguments(layer), "device": "meta"}, bias=True)
    bias = torch.zeros_like(shift) if layer.bias is None else layer.bias
    plain.weight = nn.Parameter((layer.weight * scale.view(-1, *[1] * (layer.weight.dim() - 1))).to(layer.weight.dtype))
    plain.bias = nn.Parameter((bias * scale + shift).to(layer.weight.dtype))
    return plain.requires_grad_(layer.weight.requires_grad)


def scale_and_shift(norm: Any) -> tuple[Tensor, Tensor]:
    """What a batch norm does to a channel in evaluation."""
    scale = torch.rsqrt(norm.running_var + norm.eps)
    if norm.weight is not None:
        scale = scale * norm.weight.detach()
    shift = -norm.running_mean * scale
    return scale, shift if norm.bias is None else shift + norm.bias.detach()


@torch.no_grad()
def _check(model: nn.Module, result: nn.Module, example: Tensor) -> None:
    copy = replaced(result, {}).eval()
    # Far from the example, what a forward does beside its modules shows.
    for scale in (1.0, -30.0):
        with evaluating(model):
            want, got = call_on_copy(model, example * scale), call_on_copy(copy, example * scale)
        if not isinstance(want, Tensor):
            continue
        if not want.isfinite().all():
            raise ValueError(
                f"{type(model).__name__} gives NaN or infinity for the example, so folding cannot be checked."
            )
        if not torch.allclose(want, got, rtol=1e-3, atol=1e-4 * float(want.abs().max())):
            worst = (want - got).abs().max().item()
            raise ValueError(
                f"folding changed the output of {type(model).__name__} by up to {worst:.2g}: a layer's output is used in "
                "more places than its batch norm. Keep the batch norms."
            )
