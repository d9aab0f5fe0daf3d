"""A copy of a model with other modules in some places."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.nn.utils import parametrize

PLAIN: tuple[type[nn.Module], ...] = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def replaced(model: nn.Module, others: Mapping[nn.Module, nn.Module]) -> nn.Module:
    """A deep copy of ``model`` in which every module of ``others`` is the one it maps to, wherever it was used.

    What is replaced is not copied first, so that the copy costs one model's memory and not two.
    """
    memo: dict[int, Any] = {}
    for old, new in others.items():
        _carry_over(old, new)
        memo[id(old)] = new
        # Modules that share a parameter with this one go on sharing it, if the new one still has it.
        for name, parameter in old.named_parameters(recurse=False):
            counterpart = dict(new.named_parameters(recurse=False)).get(name)
            if counterpart is not None and counterpart.shape == parameter.shape:
                memo[id(parameter)] = counterpart
    try:
        new_model: nn.Module = copy.deepcopy(model, memo)
    except RuntimeError as refused:
        raise ValueError(
            f"{type(model).__name__} cannot be copied: {str(refused).splitlines()[0]} A weight that a hook makes "
            "(torch.nn.utils.weight_norm) is one reason; torch.nn.utils.parametrizations has the same without a hook."
        ) from refused
    for module in new_model.modules():
        if isinstance(module, nn.TransformerEncoderLayer) and {type(module.linear1), type(module.linear2)} != {
            nn.Linear
        }:
            # Its fast path in evaluation reads the weights and passes the layers by; this keeps it from that path.
            module.activation_relu_or_gelu = 0
    return new_model


def has_own_weight(layer: nn.Module) -> bool:
    """Whether the weight is the layer's own parameter, and not made by a hook before every call."""
    return parametrize.is_parametrized(layer) or "weight" in layer._parameters


def _carry_over(old: nn.Module, new: nn.Module) -> None:
    """Hooks, training flag and what users have put on the module."""
    new.train(old.training)
    for name in _HOOKS:
        if old.__dict__.get(name):
            new.__dict__[name] = copy.copy(old.__dict__[name])
    new._is_full_backward_hook = old._is_full_backward_hook
    known = {*nn.Linear(1, 1).__dict__, *nn.Conv2d(1, 1, 1).__dict__, *nn.BatchNorm2d(1).__dict__, "parametrizations"}
    known.add("no_weight_decay")  # of a layer that was converted by itself before: about that one
    for name, value in old.__dict__.items():
        if name not in known and name not in new.__dict__:
            new.__dict__[name] = value


def kind(module: nn.Module) -> type[nn.Module]:
    """The class of a module; that before parametrisation, where there is one."""
    found: type[nn.Module] = parametrize.type_before_parametrizations(module)
    return found


def without_parametrisation(layer: nn.Module) -> Any:
    """A plain layer of the same weights and bias, as they are now, if the layer is parametrised; else the layer itself."""
    if not parametrize.is_parametrized(layer):
        return layer
    from neuronal.nn.standard import arguments, copied

    shape = {**arguments(layer), "device": "meta"}
    plain: Any = kind(layer)(**shape, bias=layer.bias is not None)
    for name in ("weight", "bias"):
        value = getattr(layer, name)
        if value is not None:
            frozen = not any(p.requires_grad for p in layer.parameters())
            setattr(plain, name, copied(value).requires_grad_(not frozen))
    return plain.train(layer.training)
