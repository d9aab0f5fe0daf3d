"""Which parameters weight decay is for: the sizes of weights, and nothing that says where a unit is."""

from __future__ import annotations

from typing import Any

from torch import nn

ParameterGroup = dict[str, Any]
"""As the optimisers of torch take it."""


def no_weight_decay(model: nn.Module) -> set[str]:
    """Names of the parameters of ``model`` that weight decay is to spare.

    A layer of ours names in ``decayed`` what holds the size of its weights. Of other modules, what has fewer than two
    dimensions is spared, and what their own ``no_weight_decay()`` names. timm asks its models for it.
    """
    spared = set()
    for path, module in model.named_modules():
        prefix = path + "." if path else ""
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            decayed = getattr(module, "decayed", None)
            # Lengths of torch's weight norm have as many dimensions as the weight, but belong to a unit each.
            is_length = prefix.endswith("parametrizations.weight.") and name == "original0"
            if parameter.dim() < 2 or is_length if decayed is None else name not in decayed:
                spared.add(prefix + name)
        own: Any = getattr(type(module), "no_weight_decay", None)
        if own is not None and own is not no_weight_decay:
            spared |= {prefix + name for name in own(module)}
    return spared


def undecayable(model: nn.Module) -> set[str]:
    """Names of the parameters that no decay makes smaller in any sense: the angles of geometric units."""
    return {
        f"{path}.{name}" if path else name
        for path, module in model.named_modules()
        for name in getattr(module, "undecayable", ())
    }


def decay_groups(model: nn.Module, weight_decay: float) -> list[ParameterGroup]:
    """The parameters of ``model`` in two groups for any optimiser of torch: with ``weight_decay``, and without.

    Decay acts on weights and on the scales of geometric units. It spares angles, offsets, biases, norms, couplings,
    slopes and multipliers: an angle that decays does not become a smaller weight, but turns its unit towards the last
    coordinate axis, and all units with it.

    Example:
        ``torch.optim.AdamW(decay_groups(model, 0.05), lr=1e-3)``
    """
    spared = no_weight_decay(model)
    groups: dict[float, list[nn.Parameter]] = {weight_decay: [], 0.0: []}
    for name, parameter in model.named_parameters():
        groups[0.0 if name in spared else weight_decay].append(parameter)
    return [{"params": own, "weight_decay": decay} for decay, own in groups.items() if own]
