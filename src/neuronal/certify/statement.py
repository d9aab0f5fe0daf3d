"""What certificates say, in words: written by those who make them and compared by those who check them."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

SEGMENT = "The predicted class is the same on the whole segment between the two inputs."
HULL = "The predicted class is the same for every convex combination of the inputs."
CONE = "The predicted class is the same for every non-negative combination of the inputs (not all weights zero)."


def ball(label: int, radius: float, norm: object) -> str:
    """The radius is rounded down."""
    shown = Context(prec=6, rounding=ROUND_FLOOR).create_decimal(Decimal(radius))
    return f"The predicted class is {label} for every input within {shown:g} (norm {norm})."


def scaling(degree: Fraction | None, shape: tuple[int, ...]) -> str:
    """With a degree that is proved, or without one."""
    if degree is None:
        return f"f(s x) = s^d f(x) for every s > 0, with one degree d, for every x of shape {shape}"
    if degree == 0:
        law = "f(s x) = f(x)"
    else:
        power = f"({degree})" if degree < 0 or degree.denominator > 1 else f"{degree}"
        factor = "s" if degree == 1 else f"s^{power}"
        law = f"f(s x) = {factor} f(x), so the largest output stays the largest,"
    return f"{law} for every s > 0 and every x of shape {shape}"


def layer_activity(units: int, cutoff: float, *, in_box: bool, at_positions: bool) -> str:
    """About a single layer."""
    where = "for every input of the box" if in_box else "for every input"
    place = " at every position" if at_positions else ""
    return f"{where}{place} at least one of {units} units is above {cutoff:g}"


def network_activity(layers: int) -> str:
    """About every ReLU of a network."""
    return f"for every input of the box, at every position, at least one unit of each of {layers} layers is active"
