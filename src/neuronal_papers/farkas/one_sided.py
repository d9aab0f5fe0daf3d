"""Fully connected networks of any one-sided activation, with every option of Farkas layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from neuronal import Family
from neuronal.models import Classifier, register_model
from neuronal.names import find
from neuronal.nn import FarkasResidual


class SmoothReLU(nn.Module):
    r"""ReLU with a parabola in the place of its kink, so that its derivative is continuous.

    .. math:: \psi(x) = 0 \;(x \le 0), \qquad x^2 / 2w \;(0 < x < w), \qquad x - w/2 \;(x \ge w)

    Args:
        width: :math:`w`, over which the slope rises from 0 to 1. One that is large beside the pre-activations squares them
            away: behind four layers of torch's own start images differ a third as much as with ReLU where it is 0.1, and a
            thousandth or less where it is 1.

    Reference:
        Pooladian, Finlay & Oberman, Farkas layers, Section 3.2, name it without a formula.

    Departs:
        Which polynomial takes the place of the kink is our choice, and so is its width.
    """

    def __init__(self, width: float = 0.1) -> None:
        super().__init__()
        if not width > 0:
            raise ValueError(f"SmoothReLU needs width > 0, got {width}. nn.ReLU is the one without.")
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        rising = x.clamp(0, self.width)
        return torch.where(x < self.width, rising * rising / (2 * self.width), x - self.width / 2)


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
    aggregate: Literal["sum", "mean"] | None = None,
    margin: float | None = None,
    learn_multipliers: bool | None = None,
    cutoff: float | None = None,
    rule: Literal["softplus", "max"] | None = None,
) -> Classifier:
    """Fully connected and deep: flatten, then per width a layer and an activation.

    Args:
        widths: Units of each hidden layer.
        activation: A name in ``ACTIVATIONS``.
        closed: Gives layers of another neuron one unit less and closes them with :class:`FarkasResidual`: two neurons in
            one.
        aggregate, margin, learn_multipliers, cutoff, rule: Those of :class:`FarkasResidual`; for Farkas neurons, or with
            ``closed``. Left out, ``aggregate`` is the paper's sum, and the others have their own defaults.
    """
    given: Any = {"aggregate": aggregate, "margin": margin, "cutoff": cutoff, "rule": rule}
    given["learn_multipliers"] = learn_multipliers
    balance = {name: value for name, value in given.items() if value is not None}
    is_farkas = layers.name == "farkas"
    if is_farkas and closed:
        raise ValueError("Farkas layers are closed already, got closed=True. Leave it out.")
    if balance and not (is_farkas or closed):
        raise ValueError(f"{', '.join(balance)} need Farkas layers or closed=True, got neuron {layers.name!r}.")
    balance = {"aggregate": "sum", **balance}
    make = partial(layers.Linear, **balance) if is_farkas else layers.Linear
    features: list[nn.Module] = [nn.Flatten()]
    size = in_chans * img_size * img_size
    for width in widths:
        features += [make(size, width - 1), FarkasResidual(width - 1, **balance)] if closed else [make(size, width)]
        features.append(find(ACTIVATIONS, activation, "activation")())
        size = width
    return Classifier(layers, nn.Sequential(*features), size, num_classes, in_chans)
