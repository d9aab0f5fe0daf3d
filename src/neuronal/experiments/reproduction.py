"""A table or figure of a paper as a value: what to run at which scale, and what the paper reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from neuronal.experiments.recipe import Recipe

SCALES = {
    "smoke": "seconds, on data everybody has: shows that it runs, and nothing else",
    "small": "minutes, on data of ordinary size: what our results are from",
    "paper": "the paper's own setting, for whoever has its data and GPUs",
}


@dataclass(frozen=True)
class Setting:
    """What one scale runs: networks to train, and options of the procedure."""

    recipes: tuple[Recipe, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reproduction:
    """One table or figure.

    Args:
        name: ``paper/name``.
        title: What it is about, in a few words.
        where: Its place in the paper.
        procedure: How it is measured, a name in ``PROCEDURES``.
        scales: A setting for each scale there is; the names are in ``SCALES``.
        reported: The paper's numbers, by the names the procedure gives its own.
        comparable: The scales whose results may stand beside them.
        departs: What we do differently, and why.
    """

    name: str
    title: str
    where: str
    procedure: str
    scales: Mapping[str, Setting]
    reported: Mapping[str, Any] = field(default_factory=dict)
    comparable: tuple[str, ...] = ("small", "paper")
    departs: str = ""

    def __post_init__(self) -> None:
        if self.name.count("/") != 1:
            raise ValueError(f"a reproduction is called paper/name, got {self.name!r}.")
        if unknown := [scale for scale in self.scales if scale not in SCALES]:
            raise ValueError(f"scales are {', '.join(SCALES)}, got {unknown[0]!r}.")


def asked_now(answer: Mapping[str, Any], one: Reproduction | None) -> Mapping[str, Any]:
    """A result as it is read today: what was measured is its own, all that is said of it the reproduction's.

    Claims, the paper's numbers and what is different here may have found better words, or a misprint, since. A result of
    a scale that is no more is left as it is.
    """
    setting = one.scales.get(answer["scale"]) if one else None
    if one is None or setting is None:
        return answer
    claims = {"claims": setting.options["claims"]} if "claims" in setting.options else {}
    reported = one.reported if answer["scale"] in one.comparable else {}
    return {**answer, "options": {**answer["options"], **claims}, "reported": reported, "departs": one.departs}
