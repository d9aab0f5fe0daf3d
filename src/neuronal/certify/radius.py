"""At which radius does a margin reach 0? A search in few steps: each of them is a pass through the whole network."""

from __future__ import annotations

import math
from collections.abc import Callable

TRIES = 14  # radii that are tried
CLOSE = 1e-3  # how near to the largest one that can be proved a radius needs to be
START, POWER = 0.4, 2.7  # of the affine map's radius, and of the loss: what they are in trained networks, about
POWERS = 1.0, 12.0  # of the loss


def largest_radius(margin: Callable[[float], tuple[float, float]], low: float, affine: float, lead: float) -> float:
    """The largest radius found at which the margin is positive, at least ``low``, where it is known to be.

    ``margin`` gives the margin and how much of it comes from chosen slopes, which are only chosen when it is near 0.
    Without kinks it would fall from ``lead`` to 0 at the radius ``affine``. What kinks take away grows like a power of the
    radius: the one through the two radii nearest to the answer says what to try next.
    """
    low, high, gain = max(low, 0.0), math.inf, 0.0
    losses: list[tuple[float, float]] = []  # by radii; both relative
    radius = max(START * affine, 1.25 * low)
    for _ in range(TRIES):
        if not low < radius < high:
            break
        found, chosen = margin(radius)
        low, high = (radius, high) if found > 0 else (low, radius)
        if chosen:  # what was not proved without slopes may be with them
            high, gain = high if gain or not found > 0 else math.inf, chosen / lead
        loss = 1 - radius / affine - (found - chosen) / lead
        if 0 < loss < math.inf:
            losses.append((radius / affine, loss))
        root = affine * _root(losses, low / affine, high / affine, gain)
        if high <= low * (1 + CLOSE) or (found > 0 and root <= radius * (1 + CLOSE)):
            break
        middle = (low + high) / 2 if low > high / 4 else (max(low, high * 2.0**-20) * high) ** 0.5
        radius = root * (1 - CLOSE / 2) if low < root * (1 - CLOSE / 2) < high else min(middle, 2 * radius)
    return low


def _root(losses: list[tuple[float, float]], low: float, high: float, gain: float) -> float:
    """Where 1 + gain - t is as large as the loss, by halving; infinite where nothing is lost."""
    if not losses:
        return math.inf
    (a, f), *others = sorted(losses, key=lambda one: min(abs(one[0] - low), abs(one[0] - high)))
    power = math.log(f / others[0][1]) / math.log(a / others[0][0]) if others else POWER
    power = min(max(power, POWERS[0]), POWERS[1])
    below, above = 0.0, 1 + max(gain, 0.0)
    for _ in range(40):
        t = (below + above) / 2
        below, above = (t, above) if 1 + gain - t > f * (t / a) ** power else (below, t)
    return below
