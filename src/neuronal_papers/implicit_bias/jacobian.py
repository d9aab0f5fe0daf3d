"""Norms of the Jacobian of trained networks: against the standard neuron, and against the same weights without coupling."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from torch import nn

from neuronal.convert import convert
from neuronal.data import Split
from neuronal.experiments import Record, Work
from neuronal.probes import curvature, jacobian
from neuronal.report import Drawing, Table, blank, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.drawing import dots
from neuronal_papers.implicit_bias.compared import KINDS, NAMES, log_ratios, names_below, pairs
from neuronal_papers.implicit_bias.networks import CHOSEN, CUT, ENDS, scales, with_fixed
from neuronal_papers.implicit_bias.white_box import AT_ONCE, on_test_images
from neuronal_papers.judge import Below, Case, Claim, Result
from neuronal_papers.seeds import OVER_SEEDS, at, by_network, over_seeds, percents
from neuronal_papers.seeds import log_ratios as ratios

WAYS = {"with": "as trained", "without": "its couplings at 0"}


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed: norms of its Jacobian and curvature of its loss, with and without its couplings.

    ``options``: ``images`` of the test data; ``rates`` and ``tuning_seeds`` as for :func:`neuronal_papers.tuning.tuned`.
    """

    def sizes(record: Record, model: nn.Module, test: Split) -> dict[str, Any]:
        row = {"accuracy": record.metrics["accuracy"], "couplings": couplings(model), "with": _sizes(model, test)}
        if record.recipe.family == "implicit_bias":
            row["without"] = _sizes(convert(model, "standard").model, test)
        return row

    return {"rows": on_test_images(setting, work, "sensitivity", sizes)}


def couplings(model: nn.Module) -> list[list[float]]:
    """Of every implicit-bias layer: its couplings."""
    layers: list[Any] = [module for module in model.modules() if hasattr(module, "raw_coupling")]
    return [layer.coupling.detach().cpu().tolist() for layer in layers]


def _sizes(model: nn.Module, split: Split) -> dict[str, float]:
    norms = jacobian(model, split, rows=len(split), batch_size=AT_ONCE)
    bends = curvature(model, split, batch_size=AT_ONCE)
    return {"frobenius": norms["frobenius"], "spectral": norms["spectral"], "curvature": bends["median"]}


def with_and_without(result: Result, kind: str) -> list[Case]:
    """log10 of the norm with the couplings over that of the same weights without."""
    cases = []
    for label, own, _ in pairs(result, kind):
        norms = ({run["seed"]: run[way]["frobenius"] for run in own["runs"]} for way in WAYS)
        cases.append(Case(label, ratios(*norms)))
    return cases


def _claims() -> Iterator[Claim]:
    for kind, words in KINDS.items():
        alone = partial(with_and_without, kind=kind)
        text = f"With {words}, the Jacobian is smaller than with the same weights and no coupling (Eq. 34)"
        yield Claim(text, alone, Below(), unit="powers of ten")
        for key, what in (("frobenius", "the Jacobian"), ("curvature", "the curvature of the loss (Eq. 62)")):
            text = f"With {words}, {what} is smaller than a standard network's, each trained by itself"
            beside = partial(log_ratios, kind=kind, value=at("with", key))
            yield Claim(text, beside, Below(), unit="powers of ten")


def tables(result: Result) -> list[Table]:
    columns = [*NAMES, percents("accuracy (%)", at("accuracy"))]
    for key, head in (("frobenius", "Jacobian"), ("curvature", "curvature")):
        columns += [
            over_seeds(head, at("with", key), ".3g"),
            over_seeds("the same at coupling 0", at("without", key), ".3g"),
        ]
    caption = f"Frobenius norms and input curvature; {OVER_SEEDS}"
    return [table(title_of(result), columns, by_network(result["result"]["rows"]), caption)]


def figures(result: Result) -> list[Drawing]:
    every = by_network(result["result"]["rows"])
    with blank(f"{result['reproduction']}-norms") as sheet:
        for place, one in enumerate(every):
            for number, (way, words) in enumerate(WAYS.items()):
                norms = [run[way]["frobenius"] for run in one["runs"] if way in run]
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
        "By logarithms of ratios, so that half and twice as much weigh the same: -0.3 is half, +0.3 is twice. "
        f"{ENDS} A positive coupling pushes units apart."
    ),
    departs=f"{CHOSEN} The paper has the theory and no measurement. {CUT}",
)
