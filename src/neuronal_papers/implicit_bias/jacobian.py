"""Norms of the Jacobian of trained networks: against the standard neuron, and against the same weights without coupling."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import log10
from typing import Any

from torch import nn

from neuronal.convert import convert
from neuronal.data import Split
from neuronal.experiments import Record, Work
from neuronal.probes import curvature, jacobian
from neuronal.report import Drawing, Table, blank, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.implicit_bias.compared import (
    LEARNT,
    NAMES,
    OVER_SEEDS,
    SMALLEST,
    Row,
    against_standard,
    at,
    by_network,
    dots,
    names_below,
    over_seeds,
    pairs,
    percents,
)
from neuronal_papers.implicit_bias.networks import CHOSEN, CUT, scales, with_fixed
from neuronal_papers.implicit_bias.white_box import AT_ONCE, on_the_device, test_images
from neuronal_papers.judge import Below, Case, Claim, Result
from neuronal_papers.tuning import measured


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed: norms of its Jacobian and curvature of its loss, with and without its couplings.

    ``options``: ``images`` of the test data; ``rates`` and ``tuning_seeds`` as for :func:`neuronal_papers.tuning.tuned`.
    """

    def sizes(record: Record, model: nn.Module) -> dict[str, Any]:
        test = test_images(record.recipe).rows(slice(setting.options["images"]))
        work.say(f"Jacobian of {record.recipe.name}, {record.recipe.family}, seed {record.seed}")
        row = {"accuracy": record.metrics["accuracy"], "couplings": couplings(model)}
        own = {"with": _sizes(on_the_device(model), test)}
        if record.recipe.family == "implicit_bias":
            own["without"] = _sizes(convert(model, "standard").model, test)
        return row | own

    return {"rows": measured(setting, work, "sensitivity", sizes)}


def couplings(model: nn.Module) -> list[list[float]]:
    """Of every implicit-bias layer: its couplings."""
    layers: list[Any] = [module for module in model.modules() if hasattr(module, "raw_coupling")]
    return [layer.coupling.detach().cpu().tolist() for layer in layers]


def _sizes(model: nn.Module, split: Split) -> dict[str, float]:
    norms = jacobian(model, split, rows=len(split), batch_size=AT_ONCE)
    return {
        "frobenius": norms["frobenius"],
        "spectral": norms["spectral"],
        "curvature": curvature(model, split, batch_size=AT_ONCE)["median"],
    }


def with_and_without(result: Result, kind: str) -> list[Case]:
    """log10 of the norm with the couplings over that of the same weights without."""

    def ratio(run: Row) -> float:
        return log10(max(run["with"]["frobenius"], SMALLEST) / max(run["without"]["frobenius"], SMALLEST))

    return [Case(pair.label, list(map(ratio, pair.own["runs"]))) for pair in pairs(result, kind)]


def _claims() -> Iterator[Claim]:
    unit = "powers of ten"
    for kind, words in ((LEARNT, "learnt coupling"), ("coupling -0.5", "coupling -0.5")):
        yield Claim(
            f"With {words}, the Jacobian is smaller than with the same weights and no coupling (Eq. 34)",
            partial(with_and_without, kind=kind),
            Below(),
            unit=unit,
        )
        for key, what in (("frobenius", "the Jacobian"), ("curvature", "the curvature of the loss (Eq. 62)")):
            yield Claim(
                f"With {words}, {what} is smaller than a standard network's, each trained by itself",
                partial(against_standard, kind=kind, value=at("with", key)),
                Below(),
                unit=unit,
            )


def tables(result: Result) -> list[Table]:
    columns = [
        over_seeds(
            key.replace("frobenius", "Jacobian") if which == "with" else "the same at coupling 0",
            at(which, key),
            ".3g",
        )
        for key in ("frobenius", "curvature")
        for which in ("with", "without")
    ]
    accuracy = percents("accuracy (%)", at("accuracy"))
    caption = f"Frobenius norms and input curvature; {OVER_SEEDS}"
    return [table(title_of(result), [*NAMES, accuracy, *columns], by_network(result["result"]["rows"]), caption)]


def figures(result: Result) -> list[Drawing]:
    every = by_network(result["result"]["rows"])
    with blank(f"{result['reproduction']}-norms") as sheet:
        for place, one in enumerate(every):
            for number, (which, words) in enumerate((("with", "as trained"), ("without", "its couplings at 0"))):
                norms = [run[which]["frobenius"] for run in one["runs"] if which in run]
                dots(sheet.axes, number, [place] * len(norms), norms, words if place == 1 else None)
        names_below(sheet.axes, every, "norm of the Jacobian")
        sheet.axes.legend()
    return [Drawing(sheet.svg, "Jacobians", "Mean Frobenius norm over test images; every seed a point.")]


JACOBIAN = Reproduction(
    name="implicit_bias/jacobian",
    title="Norm of the Jacobian of trained networks",
    where="Methods, Eqs. 27 to 40 and 55 to 62",
    scales=scales(with_fixed, {"images": 1000}, smoke={"images": 8}, paper={"images": 10_000}),
    measure=measure,
    claims=tuple(_claims()),
    tables=tables,
    figures=figures,
    criteria=(
        "By logarithms of ratios, so that half and twice as much weigh the same: -0.3 is half, +0.3 is twice. A learnt "
        "coupling ends at +0.09, the largest our layer allows, and pushes units apart."
    ),
    departs=f"{CHOSEN} The paper has the theory and no measurement. {CUT}",
)
