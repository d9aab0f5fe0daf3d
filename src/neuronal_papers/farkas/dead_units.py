"""Units and layers that are off while a network is trained, and what can be proved of it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch import nn

from neuronal.certify import certify_activity, check
from neuronal.data import Split, load
from neuronal.experiments import Recipe, Work, network, plan, training_data
from neuronal.probes import dead_units, score, silence
from neuronal.report import Column, Drawing, Table, table
from neuronal.train import Diverged, fit
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.drawing import Line, chart, every_seed, legend_below, mean_curve
from neuronal_papers.farkas.errors import parameters
from neuronal_papers.farkas.networks import AGGREGATES, FASHION, LOOK, named, small_scales
from neuronal_papers.farkas.runs import error_of, failed_of, learnt
from neuronal_papers.judge import Evidence, Fact, Result
from neuronal_papers.seeds import NETWORK, Row

MEASURES = ("dead_units", "dead_layers", "silent")
"""Shares: of units off on every image, of layers off on every image, of images that leave some layer without any."""
FEW = 6
"""Lines of a figure: networks come in threes."""
CRITERIA = (
    "Activity is looked at before training and after every epoch, on the first test images. Certified means that every "
    "layer of a trained network is proved to have an active unit for all images with pixels in [0, 1]; a layer that is "
    "neither proved nor refuted leaves the claim open. Runs whose loss stopped being finite are left out of both. Errors "
    "are judged as in Table 1 on CIFAR-10."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every recipe with every seed: the three shares before training and after each epoch, accuracy, certificates.

    ``options``: ``images``, how many test images are looked at; ``classes``.
    """
    chance, images = 1 / setting.options["classes"], setting.options["images"]
    recipes = {recipe.fingerprint(): recipe for recipe in setting.recipes}

    def followed(item: Mapping[str, Any]) -> dict[str, Any]:
        recipe, seed = recipes[item["recipe"]], item["seed"]
        work.say(f"{recipe.name}, {recipe.family}, seed {seed}")
        return _run(recipe, seed, images)

    items = [
        {"recipe": fingerprint, "seed": seed, "data": work.checksum(recipe.data)}
        for fingerprint, recipe in recipes.items()
        for seed in recipe.seeds
    ]
    runs = iter(work.parts({"procedure": "activity", "images": images}, items, followed))
    rows = []
    for recipe in recipes.values():
        own = {str(seed): next(runs) for seed in recipe.seeds}
        accuracy, failure, shares, proofs = (
            {seed: run[key] for seed, run in own.items() if key in run}
            for key in ("accuracy", "failure", "shares", "certificate")
        )
        row = {"name": recipe.name, "neuron": recipe.family, "parameters": parameters(recipe)}
        rows.append(row | learnt(accuracy, failure, chance) | {"over_training": shares, "certificates": proofs})
    return {"rows": rows, "chance": chance}


def _run(recipe: Recipe, seed: int, images: int) -> dict[str, Any]:
    """One network: its shares at the start and after every epoch, and why it broke down or its accuracy and certificate."""
    data = load(recipe.data).scaled(recipe.scaling)
    looked = data.test.rows(torch.arange(min(images, len(data.test))))
    model = network(recipe, data, seed)
    looks = [off(model, looked)]

    def look(network: nn.Module, step: int) -> Mapping[str, float]:
        looks.append(off(network, looked))
        return looks[-1]

    found: dict[str, Any]
    try:
        fit(model, training_data(recipe, data, seed)[0], plan(recipe), seed=seed, probes=[look])
        accuracy = score(model, data.test)["accuracy"]
        found = {"accuracy": accuracy, "certificate": certified(model.cpu().double().eval(), looked)}
    except Diverged as diverged:
        found = {"failure": str(diverged)}
    return {"shares": {name: [now[name] for now in looks] for name in MEASURES}} | found


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
    evidence: Any = certificate.evidence
    verdicts = [layer.verdict for layer in evidence.layers]
    margins = [layer.margin for layer in evidence.layers if layer.margin is not None]
    return {
        "layers": len(verdicts),
        **{verdict: verdicts.count(verdict) for verdict in ("certified", "refuted", "unknown")},
        "margin": min(margins, default=None),
        "checked": certificate.verdict != "unknown" and bool(check(certificate, model)),
    }


def _over_training(row: Row, name: str) -> dict[str, Sequence[float]]:
    """One of the shares over training by seed, of the runs that did not break down."""
    return {seed: shares[name] for seed, shares in row["over_training"].items() if seed in row["accuracy"]}


# What is claimed


def never(measure: str, *names: str) -> Callable[[Result], Evidence]:
    """Evidence that a share is 0 in these networks at every look."""

    def evidence(result: Result) -> Evidence:
        rows = [row for row in result["result"]["rows"] if row["name"] in names]
        runs = [shares for row in rows for shares in _over_training(row, measure).values()]
        above, most = sum(max(shares) > 0 for shares in runs), 100 * max(map(max, runs), default=0)
        looks = f"{sum(map(len, runs))} looks at {len(runs)} trained networks"
        return Evidence(len(runs), above, f"at most {most:.2f}% at {looks}, above 0 in {above}")

    return evidence


def all_certified(*names: str) -> Callable[[Result], Evidence]:
    """Evidence that every layer of these networks is proved active."""

    def evidence(result: Result) -> Evidence:
        rows = [row for row in result["result"]["rows"] if row["name"] in names]
        proofs = [proof for row in rows for proof in row["certificates"].values()]
        whole = sum(proof["certified"] == proof["layers"] for proof in proofs)
        refuted, checked = (sum(proof[key] > 0 for proof in proofs) for key in ("refuted", "checked"))
        text = f"all layers proved in {whole}, some refuted in {refuted} of {len(proofs)} trained networks"
        return Evidence(len(proofs), refuted, f"{text}; {checked} checked by other code", len(proofs) - whole - refuted)

    return evidence


def none_dead(result: Result) -> Evidence:
    """Evidence that no unit of a Farkas network that learnt is off on every image at the end."""
    rows = [row for row in result["result"]["rows"] if row["neuron"] == "farkas"]
    runs = [(row, *run) for row in rows for run in _over_training(row, "dead_units").items()]
    ends = [shares[-1] for row, seed, shares in runs if seed not in row["failed"]]
    dead = [share for share in ends if share > 0]
    text = f"dead units in {len(dead)} of {len(ends)} Farkas networks that learnt"
    text += f": {100 * min(dead):.1f}% to {100 * max(dead):.1f}% of all units" if dead else ""
    return Evidence(len(ends), len(dead), text)


# How it is shown


def tables(result: Result) -> list[Table]:
    columns = (
        NETWORK,
        Column("error (%)", error_of),
        Column("failed", failed_of),
        Column("dead units (%)", partial(_mean_at_the_end, name="dead_units"), ".1f"),
        Column("dead layers (%)", partial(_mean_at_the_end, name="dead_layers"), ".1f"),
        Column("silent images, most (%)", _most_silent, ".1f"),
        Column("certified", partial(_layers, verdict="certified")),
        Column("refuted", partial(_layers, verdict="refuted")),
    )
    caption = (
        "means over runs that did not break down, at the end of training; silent images: the most at any time; layers "
        "certified and refuted"
    )
    return [table(title_of(result), columns, result["result"]["rows"], caption)]


def _mean_at_the_end(row: Row, name: str) -> float | None:
    ends = [shares[-1] for shares in _over_training(row, name).values()]
    return 100 * fmean(ends) if ends else None


def _most_silent(row: Row) -> float | None:
    return max((100 * share for of in _over_training(row, "silent").values() for share in of), default=None)


def _layers(row: Row, verdict: str) -> str | None:
    proofs = row["certificates"].values()
    return f"{sum(p[verdict] for p in proofs)}/{sum(p['layers'] for p in proofs)}" if proofs else None


def figures(result: Result) -> list[Drawing]:
    """Dead units and silent layers over training; what is nothing throughout is not drawn, the table says it as well."""
    rows, found = result["result"]["rows"], []
    caption = "After every epoch, 0 is before training; means over the runs that got so far."
    for measure, title, limits in (("dead_units", "Dead units", (0, None)), ("silent", SILENCED, (-2, 102))):
        for start in range(0, len(rows), FEW):
            few = [
                (row["name"], [of[measure] for of in row["over_training"].values()])
                for row in rows[start : start + FEW]
            ]
            if any(max(shares) for _, runs in few for shares in runs):
                lines = []
                for number, (name, runs) in enumerate(few):
                    curve = [100 * share for share in mean_curve(runs)]
                    lines.append(Line(number, name, range(len(curve)), [curve], ".-"))
                axes = {"xlabel": "epoch", "ylabel": f"{title[0].lower()}{title[1:]} (%)", "ylim": limits}
                name = f"{result['reproduction']}-{measure}-{start}"
                found.append(chart(name, title, lines, axes, caption, draw=every_seed, legend=legend_below, whole=True))
    return found


SILENCED = "Images that silence a layer"
activity_table = partial(Reproduction, measure=measure, tables=tables, figures=figures, criteria=CRITERIA)
"""A reproduction of this kind."""

SHAPES = {
    "4 x 64": replace(FASHION, family="standard"),
    "4 x 64, rate 0.05": replace(FASHION, family="standard", lr=0.05),
    "8 x 32": replace(FASHION, family="standard", widths=(32,) * 8),
    "12 x 8": replace(FASHION, family="standard", widths=(8,) * 12),
}
"""Layers times units."""
CLOSED = tuple(f"{shape}, Farkas {kind}" for kind in AGGREGATES for shape in SHAPES)


def in_shape(shape: str) -> tuple[Recipe, ...]:
    plain = replace(SHAPES[shape], name=f"{shape}, standard")
    farkas = replace(plain, family="farkas")
    return plain, *(named(farkas, f"{shape}, Farkas {kind}", rule="max", **how) for kind, how in AGGREGATES.items())


DEAD_UNITS = activity_table(
    name="farkas/dead_units",
    title="Dead units and silent layers while training, and certificates afterwards",
    where="Sections 1 and 3, Theorem 3.2",
    scales=small_scales(tuple(recipe for shape in SHAPES for recipe in in_shape(shape)), LOOK),
    claims=(
        Fact(
            "No layer of a standard network is off on every image (the paper: unlikely)",
            never("dead_layers", *(f"{shape}, standard" for shape in SHAPES)),
        ),
        Fact("No image leaves a Farkas layer without active unit", never("silent", *CLOSED)),
        Fact("Every Farkas layer has an active unit for every image of pixels in [0, 1]", all_certified(*CLOSED)),
        Fact("Farkas layers ensure that no neurons are dead (Conclusion)", none_dead),
    ),
    departs=(
        "The paper measures none of it, and concludes that no neurons are dead. Networks are ours: an ordinary one, "
        "a deep one, and one as deep and narrow as those that are born dead, fully connected; torch's own start, no "
        "norm, one rate of 0.01 where nothing else is said, the paper's last bias. Standard networks were tried neither "
        "with He's start nor at larger rates, with which deep ones may well train. Of FarkasNets the promise is a law that "
        "is tested (tests/models/test_farkasnet.py), and not measured here. At scale paper: the same on CIFAR-10, 200 "
        "epochs."
    ),
)
