"""Fully connected networks of any one-sided activation, with every option of Farkas layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import nn

from neuronal.models.classifier import Classifier
from neuronal.models.registry import register_model
from neuronal.names import find, unknown
from neuronal.nn.families import Family
from neuronal.nn.farkas import Aggregate, Rule
from neuronal.nn.farkas_block import FarkasResidual
from neuronal.nn.smooth_relu import SmoothReLU

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "smooth_relu": SmoothReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "selu": nn.SELU,
}
"""By name, each with torch's own defaults."""


@register_model
def one_sided(
    layers: Family,
    *,
    num_classes: int,
    in_chans: int,
    img_size: int,
    widths: Sequence[int] = (32,) * 8,
    activation: str = "relu",
    closed: bool = False,
    aggregate: Aggregate = "sum",
    margin: float | None = None,
    learn_multipliers: bool = False,
    cutoff: float = 0.0,
    rule: Rule = "softplus",
    norm: str | None = None,
) -> Classifier:
    """Fully connected and deep: flatten, then per width a layer and an activation.

    Args:
        widths: Units of each hidden layer.
        activation: A name in ``ACTIVATIONS``.
        closed: Gives layers of another neuron one unit less and closes them with :class:`FarkasResidual`: two neurons in
            one.
        aggregate, margin, learn_multipliers, cutoff, rule: Those of :class:`neuronal.nn.farkas.Balance`; for Farkas
            neurons, or with ``closed``.
        norm: There is none.
    """
    if norm not in (None, "none"):
        raise ValueError(unknown("norm of one_sided", str(norm), ["none"]))
    find(ACTIVATIONS, activation, "activation")
    given = {"aggregate": aggregate, "margin": margin, "learn_multipliers": learn_multipliers}
    balance: dict[str, Any] = {**given, "cutoff": cutoff, "rule": rule}
    is_farkas = layers.name == "farkas"
    if is_farkas and closed:
        raise ValueError("Farkas layers are closed already, got closed=True. Leave it out.")
    if not (is_farkas or closed) and balance != _PLAIN:
        raise ValueError(f"{', '.join(_PLAIN)} are of Farkas layers, got neuron {layers.name!r}. Use closed=True.")
    make = partial(layers.Linear, **balance) if is_farkas else layers.Linear
    features: list[nn.Module] = [nn.Flatten()]
    size = in_chans * img_size * img_size
    for width in widths:
        features += [make(size, width - 1), FarkasResidual(width - 1, **balance)] if closed else [make(size, width)]
        features.append(ACTIVATIONS[activation]())
        size = width
    return Classifier(layers, nn.Sequential(*features), size, num_classes, in_chans)


_PLAIN = {"aggregate": "sum", "margin": None, "learn_multipliers": False, "cutoff": 0.0, "rule": "softplus"}
