"""Units and layers that are off while a network is trained, and what can be proved of it afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch import nn

from neuronal.certify import certify_activity, check
from neuronal.core.records import Json, to_json
from neuronal.data import Split, load
from neuronal.experiments import Recipe, Work, network, training_data
from neuronal.probes import dead_units, score, silence
from neuronal.report import Column, Figure
from neuronal.train import Diverged, Plan, fit
from neuronal_papers.core import Measured, Reproduction, Setting, one_table
from neuronal_papers.drawing import Line, mean_curve
from neuronal_papers.farkas.errors import ERROR, FAILED, over_epochs, row_of, rows_of
from neuronal_papers.judge import Evidence, Fact, Result
from neuronal_papers.seeds import NETWORK, Row

MEASURES = ("dead_units", "dead_layers", "silent")
"""Shares: of units off on every image, of layers off on every image, of images that leave some layer without any."""
FEW = 6
"""Lines of a figure: networks come in threes."""


def measure(setting: Setting, work: Work) -> Measured:
    """Every recipe with every seed: the three shares before training and after each epoch, accuracy, certificates.

    ``options``: ``images``, how many test images are looked at; ``classes``.
    """
    images, rows = setting.options["images"], []
    cells = [(recipe, seed) for recipe in setting.recipes for seed in recipe.seeds]
    keys = [(recipe.fingerprint(), seed, work.checksum(recipe.data)) for recipe, seed in cells]
    items: list[Row] = [dict(zip(("recipe", "seed", "data"), key, strict=True)) for key in keys]
    how, chance = {"procedure": "activity", "images": images}, 1 / setting.options["classes"]
    parts = iter(work.parts(how, items, lambda item: _run(work, *cells[items.index(item)], images)))
    for recipe in setting.recipes:
        runs = {str(seed): next(parts) for seed in recipe.seeds}
        row = row_of(recipe, runs, chance)
        row["over_training"] = {seed: run["shares"] for seed, run in runs.items()}
        row["certificates"] = {seed: runs[seed]["certificate"] for seed in row["accuracy"]}
        rows.append(row)
    return {"rows": rows, "chance": chance}


@dataclass(frozen=True)
class Proof:
    """Layers of a network; how many are proved to have an active unit, and how many not to; whether that was checked."""

    certified: int
    refuted: int
    layers: int
    checked: bool


def _run(work: Work, recipe: Recipe, seed: int, images: int) -> Row:
    """One network: its shares at the start and after every epoch, and why it broke down or its accuracy and certificate."""
    work.say(f"{recipe.name}, {recipe.family}, seed {seed}")
    data = load(recipe.data).scaled(recipe.scaling)
    looked = data.test.rows(torch.arange(min(images, len(data.test))))
    model = network(recipe, data, seed)
    looks = [off(model, looked)]

    def look(model: nn.Module, step: int) -> Mapping[str, float]:
        looks.append(off(model, looked))
        return looks[-1]

    run: Json = {}
    try:
        fit(model, training_data(recipe, data, seed)[0], recipe.part(Plan), seed=seed, probes=[look])
        run["accuracy"] = score(model, data.test)["accuracy"]
        run["certificate"] = to_json(certified(model.cpu().double().eval(), looked))
    except Diverged as diverged:
        run["failure"] = str(diverged)
    return run | {"shares": {name: [now[name] for now in looks] for name in MEASURES}}


def off(model: nn.Module, split: Split) -> dict[str, float]:
    """The three shares."""
    dead, silent = dead_units(model, split), silence(model, split)
    return {
        "dead_units": dead.dead / max(1, dead.units),
        "dead_layers": silent.dead_layers / max(1, len(silent.layers)),
        "silent": silent.silent / max(1, silent.images),
    }


def certified(model: nn.Module, looked: Split) -> Proof:
    """What is proved for every image with pixels in [0, 1]."""
    x = looked.x.double()
    certificate = certify_activity(model, (torch.zeros_like(x[0]), torch.ones_like(x[0])), data=x)
    evidence: Any = certificate.evidence
    verdicts = [layer.verdict for layer in evidence.layers]
    checked = certificate.verdict != "unknown" and bool(check(certificate, model))
    return Proof(verdicts.count("certified"), verdicts.count("refuted"), len(verdicts), checked)


def _rows(result: Result) -> list[Json]:
    """The rows with what is said of the runs that did not break down: shares while training and at the end, proofs."""
    rows = []
    for row in rows_of(result).values():
        shares, proofs = [row["over_training"][seed] for seed in row["accuracy"]], row["certificates"].values()
        cells: Json = {}
        if shares:
            cells = {name: 100 * fmean(run[name][-1] for run in shares) for name in MEASURES}
            cells["silent"] = 100 * max(max(run["silent"]) for run in shares)
            layers = sum(proof["layers"] for proof in proofs)
            cells |= {name: f"{sum(proof[name] for proof in proofs)}/{layers}" for name in ("certified", "refuted")}
        rows.append(row | cells | {"shares": shares, "proofs": proofs})
    return rows


def never(measure: str, neuron: str, result: Result) -> Evidence:
    """A share is 0 at every look."""
    runs = [shares[measure] for row in _rows(result) if row["neuron"] == neuron for shares in row["shares"]]
    above, most = sum(max(looks) > 0 for looks in runs), 100 * max(map(max, runs), default=0)
    looks = f"{sum(map(len, runs))} looks at {len(runs)} trained networks"
    return Evidence(len(runs), above, f"at most {most:.2f}% at {looks}, above 0 in {above}")


def none_dead(result: Result) -> Evidence:
    """No unit of a Farkas network that learnt is off on every image at the end."""
    rows = [row for row in _rows(result) if row["neuron"] == "farkas"]
    learnt = [row["over_training"][seed] for row in rows for seed in row["accuracy"] if seed not in row["failed"]]
    dead = [share for run in learnt if (share := run["dead_units"][-1]) > 0]
    text = f"dead units in {len(dead)} of {len(learnt)} Farkas networks that learnt"
    text += f": {100 * min(dead):.1f}% to {100 * max(dead):.1f}% of all units" if dead else ""
    return Evidence(len(learnt), len(dead), text)


def all_certified(text: str, *names: str, beyond_paper: bool = False) -> Fact:
    """The claim that every layer of these networks is proved active."""
    return Fact(text, partial(_all_certified, names), beyond_paper)


def _all_certified(names: Sequence[str], result: Result) -> Evidence:
    proofs = [proof for row in _rows(result) if row["name"] in names for proof in row["proofs"]]
    whole = sum(proof["certified"] == proof["layers"] for proof in proofs)
    refuted, checked = (sum(proof[key] > 0 for proof in proofs) for key in ("refuted", "checked"))
    text = f"all layers proved in {whole}, some refuted in {refuted} of {len(proofs)} trained networks"
    return Evidence(len(proofs), refuted, f"{text}; {checked} checked by other code", len(proofs) - whole - refuted)


HEADS = {"dead units (%)": "dead_units", "dead layers (%)": "dead_layers", "silent images, most (%)": "silent"}
SHARES = [Column(head, name, ".1f") for head, name in HEADS.items()]
COLUMNS = (NETWORK, ERROR, FAILED, *SHARES, Column("certified", "certified"), Column("refuted", "refuted"))


CAPTION = "means over runs that did not break down, at the end; silent images: the most at any time; layers proved"


def figures(result: Result) -> list[Figure]:
    """Dead units and silent layers over training; what is nothing throughout is not drawn, the table says it as well."""
    rows, drawings = result["result"]["rows"], []
    caption = "After every epoch, 0 is before training; means over the runs that got so far."
    silent = ("silent", "Images that silence a layer", (-2, 102))
    for measure, title, limits in (("dead_units", "Dead units", (0, None)), silent):
        axes = {"xlabel": "epoch", "ylabel": f"{title.lower()} (%)", "ylim": limits}
        for start in range(0, len(rows), FEW):
            lines = []
            for number, row in enumerate(rows[start : start + FEW]):
                curve = mean_curve([[100 * share for share in run[measure]] for run in row["over_training"].values()])
                lines.append(Line(number, row["name"], range(len(curve)), [curve], ".-"))
            if any(any(line.curves[0]) for line in lines):
                drawings.append(over_epochs(f"{result['reproduction']}-{measure}-{start}", title, lines, axes, caption))
    return drawings


activity_table = partial(
    Reproduction,
    measure=measure,
    tables=one_table(COLUMNS, CAPTION, rows=_rows),
    figures=figures,
    criteria=(
        "Activity is looked at before training and after every epoch, on the first test images. Certified means that "
        "every layer of a trained network is proved to have an active unit for all images with pixels in [0, 1]; one "
        "neither proved nor refuted leaves the claim open. Runs that broke down are left out. Errors: as in Table 1."
    ),
)
"""A reproduction of this kind."""
