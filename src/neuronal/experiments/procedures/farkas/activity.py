"""Units and layers that are off while a network is trained, and what can be proved of it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from neuronal.certify.activity import NetworkActivity, certify_activity
from neuronal.certify.check import check
from neuronal.data.augment import Augment
from neuronal.data.catalogue import load
from neuronal.data.dataset import Dataset, Split
from neuronal.experiments.procedures.farkas.accuracy_table import parameters
from neuronal.experiments.procedures.farkas.claims import (
    Case,
    case_by_case,
    failures,
    found,
    judged,
    learnt,
    not_there,
    rows_of,
)
from neuronal.experiments.procedures.finding import Finding, Verdict, all_or_some
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.reproduction import Setting
from neuronal.experiments.run import augment, network, plan, training_data
from neuronal.probes.dead_units import dead_units
from neuronal.probes.score import score
from neuronal.probes.silence import silence
from neuronal.train.loop import Diverged, fit

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

MEASURES = ("dead_units", "dead_layers", "silent")
"""Shares: of units off on every image, of layers off on every image, of images that leave some layer without any."""


JUDGED = (
    "A layer is never silent if no image leaves it so at any look, and alive if some image does not. Units are fewer dead "
    "if a 95% interval of the difference at the end, seed by seed, says so of each network of the claim; of some is a part. "
    "Certified means every layer of every trained network; some networks are a part. Runs whose loss stopped being finite "
    "are left out of all of it: most are looked at once, before training. That no unit is dead is looked for at the end of "
    "training, in Farkas networks that learnt. Errors are judged as those of Table 1."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every recipe with every seed: the three shares before training and after each epoch, accuracy, certificates.

    ``options``: ``images``, how many test images are looked at; ``classes``; ``claims``, those of
    :mod:`~neuronal.experiments.procedures.farkas.claims` and four more, which are about several ``rows``:
    ``never_silent``, which names the worst of ``than`` beside them, ``fewer_dead`` than in the row at the same place of
    ``than``, ``alive`` and ``certified``.
    """
    chance, images = 1 / setting.options["classes"], setting.options["images"]
    of = {recipe.fingerprint(): recipe for recipe in setting.recipes}

    def followed(item: Mapping[str, Any]) -> dict[str, Any]:
        recipe, seed = of[item["recipe"]], item["seed"]
        work.say(f"{recipe.name}, {recipe.family}, seed {seed}")
        return _run(recipe, seed, images)

    items = [
        {"recipe": recipe.fingerprint(), "seed": seed, "data": work.checksum(recipe.data)}
        for recipe in setting.recipes
        for seed in recipe.seeds
    ]
    runs = iter(work.parts({"procedure": "activity", "images": images}, items, followed))
    rows = []
    for recipe in setting.recipes:
        own = {str(seed): next(runs) for seed in recipe.seeds}

        def those_with(name: str, own: Mapping[str, Any] = own) -> dict[str, Any]:
            return {seed: run[name] for seed, run in own.items() if name in run}

        rows.append(
            {"name": recipe.name, "neuron": recipe.family, "parameters": parameters(recipe)}
            | learnt(those_with("accuracy"), those_with("failure"), chance)
            | {"over_training": those_with("shares"), "certificates": those_with("certificate")}
        )
    return {"rows": rows, "chance": chance}


def _run(recipe: Recipe, seed: int, images: int) -> dict[str, Any]:
    """One network: its shares over training, and either why it broke down or its accuracy and certificate."""
    data = load(recipe.data).scaled(recipe.scaling)
    looked = data.test.rows(torch.arange(min(images, len(data.test))))
    model = network(recipe, data, seed)
    shares, failure = _followed(model, recipe, data, looked, seed)
    if failure:
        return {"shares": shares, "failure": failure}
    accuracy = score(model, data.test)["accuracy"]
    return {"shares": shares, "accuracy": accuracy, "certificate": certified(model.cpu().double().eval(), looked)}


def _followed(
    model: nn.Module, recipe: Recipe, data: Dataset, looked: Split, seed: int
) -> tuple[dict[str, list[float]], str]:
    """Trains it; the shares at the start and after every epoch, and why it broke down if it did."""
    shares: dict[str, list[float]] = {name: [] for name in MEASURES}

    def look(network: nn.Module, step: int) -> Mapping[str, float]:
        now = off(network, looked)
        for name in MEASURES:
            shares[name].append(now[name])
        return now

    look(model, 0)
    try:
        train, changes = training_data(recipe, data, seed)[0], augment(recipe)
        fit(model, train, plan(recipe), seed=seed, probes=[look], augment=_applied(changes))
    except Diverged as diverged:
        return shares, str(diverged)
    return shares, ""


def _applied(changes: Augment) -> Callable[[Tensor, torch.Generator], Tensor] | None:
    return changes.apply if changes != Augment() else None


def off(model: nn.Module, split: Split) -> dict[str, float]:
    """The three shares."""
    dead, silent = dead_units(model, split), silence(model, split)
    return {
        "dead_units": dead["dead"] / max(1, dead["units"]),
        "dead_layers": silent["dead_layers"] / max(1, len(silent["layers"])),
        "silent": silent["silent"] / max(1, silent["images"]),
    }


def certified(model: nn.Module, looked: Split) -> dict[str, Any]:
    """For every image with pixels in [0, 1]: how many layers are proved to have an active unit, and how many not to."""
    x = looked.x.double()
    certificate = certify_activity(model, (torch.zeros_like(x[0]), torch.ones_like(x[0])), data=x)
    evidence = certificate.evidence
    assert isinstance(evidence, NetworkActivity)
    verdicts = [layer.verdict for layer in evidence.layers]
    margins = [layer.margin for layer in evidence.layers if layer.margin is not None]
    return {
        "layers": len(verdicts),
        **{verdict: verdicts.count(verdict) for verdict in ("certified", "refuted", "unknown")},
        "margin": min(margins, default=None),
        "checked": certificate.verdict != "unknown" and check(certificate, model),
    }


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """The claims, in their order; and where some are of dead units, whether there are any."""
    rows, chance = rows_of(answer), answer["result"]["chance"]
    by_name = {row["name"]: row for row in rows}
    answers = []
    for claim in answer["options"].get("claims", ()):
        if claim["kind"] not in KINDS:
            answers += judged([claim], rows, chance)
        elif missing := [name for name in (*claim["rows"], *claim["than"]) if name not in by_name]:
            answers.append(found(claim, "not measured", not_there(missing)))
        else:
            own, others = ([by_name[name] for name in claim[key]] for key in ("rows", "than"))
            answers.append(found(claim, *KINDS[claim["kind"]](own, others)))
    asked = any(claim["kind"] == "fewer_dead" for claim in answer["options"].get("claims", ()))
    return [*answers, _none_dead(rows)] if asked else answers


Row = Mapping[str, Any]


def values(row: Row, name: str) -> dict[str, Sequence[float]]:
    """One of the shares over training by seed, of the runs that did not break down."""
    return {seed: shares[name] for seed, shares in row["over_training"].items() if seed in row["accuracy"]}


def _broke(rows: Sequence[Row]) -> str:
    """The names of rows all of whose runs broke down, as the end of a sentence."""
    lost = [row["name"] for row in rows if not row["accuracy"]]
    return f"; broke down with every seed: {', '.join(lost)}" if lost else ""


def _runs(count: int) -> str:
    return f"{count} trained network{'' if count == 1 else 's'}"


def _never_silent(rows: Sequence[Row], others: Sequence[Row]) -> tuple[Verdict, str]:
    shares = [of for row in rows for of in values(row, "silent").values()]
    if not shares:
        return "not measured", _broke(rows).removeprefix("; ")
    worst, looks = max(map(max, shares)), sum(map(len, shares))
    text = f"at most {100 * worst:.2f}% of images leave a layer silent ({looks} looks at {_runs(len(shares))})"
    beside = {row["name"]: max(map(max, values(row, "silent").values())) for row in others if row["accuracy"]}
    if beside:
        name = max(beside, key=beside.__getitem__)
        text += f"; {name}: up to {100 * beside[name]:.1f}%"
    return "reproduced" if worst == 0 else "not reproduced", text + _broke(rows)


def _alive(rows: Sequence[Row], others: Sequence[Row]) -> tuple[Verdict, str]:
    shares = [of for row in rows for of in values(row, "dead_layers").values()]
    if not shares:
        return "not measured", _broke(rows).removeprefix("; ")
    dead = sum(max(of) > 0 for of in shares)
    text = f"some layer is off on every image, at some look, in {dead} of {_runs(len(shares))}"
    return all_or_some(len(shares) - dead, len(shares)), text + _broke(rows)


def _fewer_dead(rows: Sequence[Row], others: Sequence[Row]) -> tuple[Verdict, str]:
    cases, without = [], []
    for row, other in zip(rows, others, strict=True):
        own, beside = ({int(s): of[-1] for s, of in values(one, "dead_units").items()} for one in (row, other))
        if both := own.keys() & beside.keys():
            means = [100 * fmean(shares[seed] for seed in both) for shares in (own, beside)]
            # Fewer is better: what is above is the other's share.
            note = f", {means[0]:.1f}% against {means[1]:.1f}%{failures(row, other)}"
            cases.append(Case(row["name"], beside, own, note))
        else:
            without.append(row["name"])
    return case_by_case(cases, without, "points fewer units dead at the end")


def _none_dead(rows: Sequence[Row]) -> Finding:
    """What the paper concludes from one unit that is active for every image."""
    claim = "Farkas layers ensure that no neurons are dead (Conclusion)"
    ends: dict[tuple[str, str], float] = {}
    for row in rows:
        if row["neuron"] == "farkas":
            shares = values(row, "dead_units")
            ends |= {(row["name"], seed): of[-1] for seed, of in shares.items() if seed not in row["failed"]}
    if not ends:
        return Finding(claim, "not measured", "no Farkas network learnt")
    dead = [share for share in ends.values() if share > 0]
    if not dead:
        return Finding(claim, "reproduced", f"none on the images looked at, in {len(ends)} networks that learnt")
    (most, _), share = max(ends.items(), key=lambda item: item[1])
    return Finding(
        claim,
        "not true as stated",
        f"{len(dead)} of {len(ends)} Farkas networks that learnt have dead units, off on every image looked at: "
        f"{100 * min(dead):.1f}% to {100 * share:.1f}% of all units (most in {most}); what is proved is one active unit per "
        "layer and image",
    )


def _certified(rows: Sequence[Row], others: Sequence[Row]) -> tuple[Verdict, str]:
    proofs = [proof for row in rows for proof in row["certificates"].values()]
    if not proofs:
        return "not measured", _broke(rows).removeprefix("; ")
    whole = sum(proof["certified"] == proof["layers"] for proof in proofs)
    text = f"all layers certified in {whole} of {_runs(len(proofs))}"
    # Of layers that are certified; where others are not, it is no margin of the network.
    margins = [proof["margin"] for proof in proofs if proof["margin"] is not None]
    if margins and whole == len(proofs):
        text += f", margin at least {min(margins):.2g}"
    if refuted := sum(proof["refuted"] > 0 for proof in proofs):
        text += f"; refuted in {refuted}"
    if left := len(proofs) - whole - refuted:
        text += f"; neither in {left}"
    if checked := sum(proof["checked"] for proof in proofs):
        text += f"; {checked} checked by other code"
    return all_or_some(whole, len(proofs)), text + _broke(rows)


KINDS = {"never_silent": _never_silent, "alive": _alive, "fewer_dead": _fewer_dead, "certified": _certified}
"""How claims about several networks are judged: from their rows, and from those they are compared with."""
