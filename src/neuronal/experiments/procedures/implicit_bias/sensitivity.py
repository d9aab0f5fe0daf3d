"""Norms of the Jacobian of trained pairs: implicit bias against standard, and against its own weights without coupling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from torch import nn

from neuronal.convert.convert import convert
from neuronal.data.catalogue import load
from neuronal.data.dataset import Split
from neuronal.experiments.procedures.finding import Finding, Verdict, all_or_some
from neuronal.experiments.procedures.implicit_bias.robustness import (
    AT_ONCE,
    called,
    in_pairs,
    networks,
    on_the_device,
    rival_of,
)
from neuronal.experiments.procedures.tuned import measured
from neuronal.experiments.record import Record
from neuronal.experiments.reproduction import Setting
from neuronal.probes.curvature import curvature
from neuronal.probes.jacobian import jacobian

if TYPE_CHECKING:
    from neuronal.experiments.work import Work


JUDGED = "Ratios below 1 in every seed; in some is a part."


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed: norms of its Jacobian and curvature of its loss, with and without its couplings.

    ``options``: ``images`` of the test data; ``rates`` and ``tuning_seeds`` as for :func:`tuned`.
    """

    def sizes(record: Record, model: nn.Module) -> dict[str, Any]:
        test = load(record.recipe.data).scaled(record.recipe.scaling).test.rows(slice(setting.options["images"]))
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


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Smaller than without coupling (the theory), and than a standard network trained by itself (the practice)."""
    groups = networks(answer["result"]["rows"])
    found = []
    for group in groups:
        if group[0]["neuron"] == "standard":
            continue
        rival = rival_of(group, groups)
        name = called(group, rival) if rival else group[0]["name"]
        own = [row["with"]["frobenius"] / row["without"]["frobenius"] for row in group]
        signs = [value for row in group for layer in row["couplings"] for value in layer]
        found.append(
            Finding(
                f"{name}: the coupling makes the Jacobian smaller (Eq. 34)",
                _verdict(own),
                f"norm times {median(own):.3f} ({min(own):.3f} to {max(own):.3f}) against coupling 0 with the same "
                f"weights; couplings {min(signs):+.3f} to {max(signs):+.3f}",
            )
        )
        if rival:
            for key, what in (("frobenius", "the Jacobian"), ("curvature", "the curvature of the loss (Eq. 62)")):
                pairs = in_pairs(group, rival)
                trained = [row["with"][key] / max(other["with"][key], 1e-30) for row, other in pairs]
                found.append(
                    Finding(
                        f"{name}: {what} is smaller than a standard network's, each trained by itself",
                        _verdict(trained),
                        f"times {median(trained):.3f} ({min(trained):.3f} to {max(trained):.3f}) over seeds",
                    )
                )
    return found


def _verdict(ratios: Sequence[float]) -> Verdict:
    return all_or_some(sum(ratio < 1 for ratio in ratios), len(ratios))
