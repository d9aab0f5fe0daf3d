"""Can the numbers of an attack be believed? Signs that a network hides its gradient instead of being robust.

Reference:
    Athalye, Carlini & Wagner, Obfuscated Gradients Give a False Sense of Security, ICML 2018, arXiv:1802.00420, Section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor, nn

from neuronal.attacks.result import Attacked
from neuronal.core.inference import outputs
from neuronal.nn.implicit_bias import ImplicitBiasLayer

SLACK = 0.01
"""Differences of accuracy up to this are not held against a network: attacks are random, and samples few."""


@dataclass(frozen=True)
class Check:
    """One sign looked for: what should hold, whether it does, and the numbers."""

    name: str
    passed: bool
    numbers: str


def reaches_everything(anywhere: Attacked) -> Check:
    """An attack whose ball is the whole box makes every input err."""
    fooled, count = int(anywhere.success.sum()), len(anywhere.success)
    return Check("success goes to 100% for large epsilon", fooled == count, f"{fooled} of {count}")


def white_box_is_strongest(white: Attacked, black: Mapping[str, Attacked], *, slack: float = SLACK) -> Check:
    """No attack that does not see the gradient makes more inputs err, in the same ball."""
    best = {name: one.robust_accuracy for name, one in black.items()}
    passed = all(white.robust_accuracy <= accuracy + slack for accuracy in best.values())
    others = ", ".join(
        f"{name} {100 * value:.1f}% ({int((black[name].success & ~white.success).sum())} it alone fools)"
        for name, value in best.items()
    )
    return Check(
        "black-box never beats white-box", passed, f"left by white-box {100 * white.robust_accuracy:.1f}%; {others}"
    )


def more_steps_help(attack: Callable[[int], Attacked], steps: Sequence[int], *, slack: float = SLACK) -> Check:
    """Accuracy does not rise with the number of steps."""
    left = [attack(count).robust_accuracy for count in steps]
    passed = all(later <= earlier + slack for earlier, later in pairwise(left))
    numbers = ", ".join(f"{100 * value:.1f}% at {count}" for value, count in zip(left, steps, strict=True))
    return Check("more steps never hurt the attacker", passed, numbers)


def solver_does_not_matter(
    model: nn.Module, attack: Callable[[nn.Module], Attacked], *, factor: float = 100.0, slack: float = SLACK
) -> Check:
    """The attack does as well on a copy solved ``factor`` times as tightly, and what it found is wrong there too."""
    loose, tight_model = attack(model), tighter(model, factor)
    tight = attack(tight_model)
    own = outputs(model, loose.adversarial).argmax(1).cpu()
    changed = int((outputs(tight_model, loose.adversarial).argmax(1).cpu() != own).sum())
    gap = abs(tight.robust_accuracy - loose.robust_accuracy)
    passed = gap <= slack and changed <= slack * len(own)
    left = f"left {100 * loose.robust_accuracy:.1f}% and {100 * tight.robust_accuracy:.1f}%"
    return Check("a tighter solver changes nothing", passed, f"{left}; {changed} of {len(own)} classes differ")


class InFloat64(nn.Module):
    """A network in double precision that takes and gives what it took and gave before."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner.double()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.inner(x.double())
        return y.to(x.dtype)


def tighter(model: nn.Module, factor: float) -> nn.Module:
    """A copy whose implicit-bias layers are solved to a tolerance so many times smaller; float32 could not promise that."""
    copy = deepcopy(model)
    for module in copy.modules():
        if isinstance(module, ImplicitBiasLayer):
            module.tolerance = module.tolerance / factor
    return InFloat64(copy)
