"""Units and layers that are off while a network is trained, and what can be proved of it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch import nn

from neuronal.certify import certify_activity, check
from neuronal.data import Augment, Split, load
from neuronal.experiments import Recipe, Work, augment, network, plan, training_data
from neuronal.probes import dead_units, score, silence
from neuronal.report import Column, Drawing, Table, blank, colour, table
from neuronal.train import Diverged, fit
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.farkas.errors import epochs_and_legend, means, parameters
from neuronal_papers.farkas.runs import Row, error_of, failed_of, failures, learnt, rows_of
from neuronal_papers.judge import Case, Evidence, Result, paired

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
    """One network: its shares at the start and after every epoch, and why it broke down or its accuracy and certificate."""
    data = load(recipe.data).scaled(recipe.scaling)
    looked = data.test.rows(torch.arange(min(images, len(data.test))))
    model = network(recipe, data, seed)
    shares: dict[str, list[float]] = {name: [] for name in MEASURES}

    def look(network: nn.Module, step: int) -> Mapping[str, float]:
        now = off(network, looked)
        for name in MEASURES:
            shares[name].append(now[name])
        return now

    look(model, 0)
    try:
        train, changes = training_data(recipe, data, seed)[0], augment(recipe)
        apply = changes.apply if changes != Augment() else None
        fit(model, train, plan(recipe), seed=seed, probes=[look], augment=apply)
    except Diverged as diverged:
        return {"shares": shares, "failure": str(diverged)}
    accuracy = score(model, data.test)["accuracy"]
    return {"shares": shares, "accuracy": accuracy, "certificate": certified(model.cpu().double().eval(), looked)}


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


def never(measure: str, names: Sequence[str], beside: Sequence[str] = ()) -> Callable[[Result], Evidence]:
    """Evidence that a share is 0 in these networks at every look; with the largest of those beside."""

    def evidence(result: Result) -> Evidence:
        rows = _named(result, names)
        worst = [max(shares) for row in rows for shares in _over_training(row, measure).values()]
        looks = sum(len(shares) for row in rows for shares in _over_training(row, measure).values())
        above = sum(share > 0 for share in worst)
        most = 100 * max(worst, default=0)
        text = f"at most {most:.2f}% at {looks} looks at {_networks(len(worst))}, above 0 in {above}"
        others = [(_most(row, measure) or 0.0, row["name"]) for row in _named(result, beside)]
        if others:
            text += "; {1}: up to {0:.1f}%".format(*max(others))
        return Evidence(len(worst), above, text + _broke(rows))

    return evidence


def all_certified(names: Sequence[str], beside: Sequence[str] = ()) -> Callable[[Result], Evidence]:
    """Evidence that every layer of these networks is proved active; with how many of those beside are refuted."""

    def evidence(result: Result) -> Evidence:
        rows = _named(result, names)
        proofs = [proof for row in rows for proof in row["certificates"].values()]
        whole = sum(proof["certified"] == proof["layers"] for proof in proofs)
        refuted = sum(proof["refuted"] > 0 for proof in proofs)
        text = f"all layers proved in {whole}, some refuted in {refuted} of {_networks(len(proofs))}"
        if proofs and whole == len(proofs):
            text += f"; margin at least {min(proof['margin'] for proof in proofs):.2g}"
        text += f"; {sum(proof['checked'] for proof in proofs)} checked by other code"
        others = [proof for row in _named(result, beside) for proof in row["certificates"].values()]
        if others:
            text += f"; standard networks: refuted in {sum(o['refuted'] > 0 for o in others)} of {len(others)}"
        return Evidence(len(proofs), refuted, text + _broke(rows), len(proofs) - whole - refuted)

    return evidence


def fewer_dead(pairs: Mapping[str, tuple[str, str]]) -> Callable[[Result], list[Case]]:
    """Dead units of the second network of each pair minus those of the first at the end, in points, seed by seed."""

    def cases(result: Result) -> list[Case]:
        rows, found = rows_of(result), []
        for label, names in pairs.items():
            if not rows.keys() >= set(names):
                continue
            own, other = (rows[name] for name in names)
            ends = [{s: shares[-1] for s, shares in _over_training(row, "dead_units").items()} for row in (own, other)]
            both = ends[0].keys() & ends[1].keys()
            note = "every run of one broke down"
            if both:
                note = " against ".join(f"{100 * fmean(end[seed] for seed in both):.1f}%" for end in ends)
            found.append(Case(label, paired(ends[1], ends[0], factor=100), note=note + failures(own, other)))
        return found

    return cases


def none_dead(result: Result) -> Evidence | None:
    """Evidence that no unit of a Farkas network that learnt is off on every image at the end."""
    ends: dict[tuple[str, str], float] = {}
    for row in result["result"]["rows"]:
        if row["neuron"] == "farkas":
            shares = _over_training(row, "dead_units")
            ends |= {(row["name"], seed): of[-1] for seed, of in shares.items() if seed not in row["failed"]}
    if not ends:
        return None
    (most, _), worst = max(ends.items(), key=lambda end: end[1])
    dead = [share for share in ends.values() if share > 0]
    text = f"dead units in {len(dead)} of {len(ends)} Farkas networks that learnt"
    if dead:
        text += f": {100 * min(dead):.1f}% to {100 * worst:.1f}% of all units (most in {most})"
    return Evidence(len(ends), len(dead), text)


def _over_training(row: Row, name: str) -> dict[str, Sequence[float]]:
    """One of the shares over training by seed, of the runs that did not break down."""
    return {seed: shares[name] for seed, shares in row["over_training"].items() if seed in row["accuracy"]}


def _named(result: Result, names: Sequence[str]) -> list[Row]:
    return [row for row in result["result"]["rows"] if row["name"] in names]


def _networks(count: int) -> str:
    return f"{count} trained network{'' if count == 1 else 's'}"


def _broke(rows: Sequence[Row]) -> str:
    """The names of rows all of whose runs broke down, as the end of a sentence."""
    lost = [row["name"] for row in rows if not row["accuracy"]]
    return f"; broke down with every seed: {', '.join(lost)}" if lost else ""


def tables(result: Result) -> list[Table]:
    columns = (
        Column("network", "name", is_text=True),
        Column("error (%)", error_of),
        Column("failed", failed_of),
        Column("dead units (%)", lambda row: _mean_at_the_end(row, "dead_units"), ".1f"),
        Column("dead layers (%)", lambda row: _mean_at_the_end(row, "dead_layers"), ".1f"),
        Column("silent images, most (%)", lambda row: _most(row, "silent"), ".1f"),
        Column("certified", lambda row: _layers(row, "certified")),
        Column("refuted", lambda row: _layers(row, "refuted")),
    )
    caption = (
        "means over runs that did not break down, at the end of training; silent images: the most at any time; layers "
        "certified and refuted"
    )
    return [table(title_of(result), columns, result["result"]["rows"], caption)]


def _mean_at_the_end(row: Row, name: str) -> float | None:
    ends = [shares[-1] for shares in _over_training(row, name).values()]
    return 100 * fmean(ends) if ends else None


def _most(row: Row, name: str) -> float | None:
    return max((100 * share for of in _over_training(row, name).values() for share in of), default=None)


def _layers(row: Row, verdict: str) -> str | None:
    proofs = row["certificates"].values()
    return f"{sum(p[verdict] for p in proofs)}/{sum(p['layers'] for p in proofs)}" if proofs else None


def figures(result: Result) -> list[Drawing]:
    """Dead units and silent layers over training; what is nothing throughout is not drawn, the table says it as well."""
    found = []
    shown = (("dead_units", "dead units (%)", (0, None)), ("silent", "images that silence a layer (%)", (-2, 102)))
    for name, label, limits in shown:
        rows = result["result"]["rows"]
        for start in range(0, len(rows), FEW):
            few = rows[start : start + FEW]
            if not any(max(shares[name]) for row in few for shares in row["over_training"].values()):
                continue
            with blank(f"{result['reproduction']}-{name}-{start}") as sheet:
                for number, row in enumerate(few):
                    curve = [100 * share for share in means([shares[name] for shares in row["over_training"].values()])]
                    style: dict[str, Any] = {"color": colour(number), "linewidth": 1.2, "marker": "."}
                    sheet.axes.plot(range(len(curve)), curve, label=row["name"], **style)
                sheet.axes.set(xlabel="epoch", ylabel=label, ylim=limits)
                epochs_and_legend(sheet)
            caption = "After every epoch, 0 is before training; means over the runs that got so far."
            found.append(Drawing(sheet.svg, label.removesuffix(" (%)").capitalize(), caption))
    return found


activity_table = partial(Reproduction, measure=measure, tables=tables, figures=figures, criteria=CRITERIA)
"""A reproduction of this kind."""
