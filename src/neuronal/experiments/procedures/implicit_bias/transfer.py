"""Trained standard networks with a coupling added and nothing trained again (Supplement, implicit bias)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from torch import nn

from neuronal.attacks.ball import Ball
from neuronal.convert.convert import convert
from neuronal.data.catalogue import load
from neuronal.experiments.procedures.finding import Finding, all_or_some
from neuronal.experiments.procedures.implicit_bias.robustness import AT_ONCE, on_the_device, white_box
from neuronal.experiments.procedures.tuned import measured
from neuronal.experiments.record import Record
from neuronal.experiments.reproduction import Setting
from neuronal.probes.jacobian import jacobian
from neuronal.probes.score import score

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

LOSS = 0.01
"""Accuracy a coupling may cost and still count as harmless."""


JUDGED = (
    "Medians over seeds, for every negative coupling; for some is a part. Accuracy is kept, and robustness not "
    "lost anywhere, within a point."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every standard network with every coupling: accuracy, norm of the Jacobian, accuracy under the white-box attack.

    ``options``: ``couplings`` and ``slope``, ``norm``, ``epsilons``, ``images``, ``steps``, ``restarts``; ``rates`` and
    ``tuning_seeds`` as for :func:`tuned`.
    """
    options = setting.options
    how = {"steps": options["steps"], "restarts": options["restarts"]}

    def with_couplings(record: Record, trained: nn.Module) -> dict[str, Any]:
        test = load(record.recipe.data).scaled(record.recipe.scaling).test
        few, found = test.rows(slice(options["images"])), []
        for coupling in options["couplings"]:
            work.say(f"{record.recipe.name}, seed {record.seed}, coupling {coupling:g}")
            added = {"coupling": coupling, "slope": options["slope"], "learn_coupling": False}
            model = on_the_device(convert(trained, "implicit_bias", **added).model if coupling else trained)
            balls = [Ball(options["norm"], epsilon) for epsilon in options["epsilons"]]
            left = [white_box(model, few.x, few.y, ball, **how).robust_accuracy for ball in balls]
            norm = jacobian(model, test, batch_size=AT_ONCE)["frobenius"]
            row = {"coupling": coupling, "accuracy": score(model, test)["accuracy"], "robust": left, "jacobian": norm}
            found.append(row)
        return {"kinds": found}

    every = measured(setting, work, "transfer", with_couplings)
    rows = [{name: row[name] for name in row if name != "kinds"} | kind for row in every for kind in row["kinds"]]
    return {"rows": rows, "epsilons": list(options["epsilons"]), "images": options["images"]}


def by_coupling(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Changes against the same network without coupling, per network and coupling, all seeds together."""
    plain = {(row["name"], row["seed"]): row for row in rows if row["coupling"] == 0}
    found = []
    for name, coupling in dict.fromkeys((row["name"], row["coupling"]) for row in rows):
        own = [row for row in rows if (row["name"], row["coupling"]) == (name, coupling)]
        before = [plain[name, row["seed"]] for row in own]
        pairs = list(zip(own, before, strict=True))
        found.append(
            {
                "name": name,
                "coupling": coupling,
                "accuracy": [row["accuracy"] - b["accuracy"] for row, b in pairs],
                "jacobian": [row["jacobian"] / b["jacobian"] for row, b in pairs],
                "robust": [[r - s for r, s in zip(row["robust"], b["robust"], strict=True)] for row, b in pairs],
            }
        )
    return found


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Accuracy kept, Jacobian smaller, more robust: each for the negative couplings, which contract."""
    found = []
    kinds = [kind for kind in by_coupling(answer["result"]["rows"]) if kind["coupling"] < 0]
    for name in dict.fromkeys(kind["name"] for kind in kinds):
        own = [kind for kind in kinds if kind["name"] == name]
        kept = [kind for kind in own if median(kind["accuracy"]) >= -LOSS]
        smaller = [kind for kind in own if median(kind["jacobian"]) < 1]
        gains = {kind["coupling"]: [median(column) for column in zip(*kind["robust"], strict=True)] for kind in own}
        sturdier = [coupling for coupling, gain in gains.items() if max(gain) > 0 and min(gain) >= -LOSS]
        found += [
            Finding(
                f"{name}: a coupling can be added to a trained network without training it again",
                all_or_some(len(kept), len(own)),
                "accuracy " + _listed(own, "accuracy", lambda v: f"{100 * v:+.1f} points"),
            ),
            Finding(
                f"{name}: that makes the Jacobian smaller",
                all_or_some(len(smaller), len(own)),
                "norm times " + _listed(own, "jacobian", lambda v: f"{v:.2f}"),
            ),
            Finding(
                f"{name}: and the network more robust (white-box)",
                all_or_some(len(sturdier), len(own)),
                "; ".join(
                    f"coupling {coupling:g}: "
                    + ", ".join(
                        f"{100 * value:+.1f} at {epsilon:g}"
                        for value, epsilon in zip(gain, answer["result"]["epsilons"], strict=True)
                    )
                    for coupling, gain in gains.items()
                )
                + " (points of accuracy, median over seeds)",
            ),
        ]
    return found


def _listed(kinds: Sequence[Mapping[str, Any]], key: str, text: Any) -> str:
    return ", ".join(f"{text(median(kind[key]))} at coupling {kind['coupling']:g}" for kind in kinds)
