"""Norms of the Jacobian: of trained networks, and of standard ones to which a coupling is added without training again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from torch import nn

from neuronal.convert import convert
from neuronal.core.records import Json
from neuronal.data import Split, load
from neuronal.experiments import Record, Work
from neuronal.probes import curvature, jacobian, score
from neuronal.report import Column, Figure
from neuronal_papers.core import Measured, Options, Reproduction, Setting, one_table
from neuronal_papers.drawing import BAND, chart
from neuronal_papers.implicit_bias import networks
from neuronal_papers.implicit_bias.accuracy_curve import along
from neuronal_papers.implicit_bias.attacks import white_box
from neuronal_papers.implicit_bias.compared import AT_ONCE, KINDS, against_standard, pairs, side_by_side
from neuronal_papers.judge import Above, Below, Case, Claim, Result
from neuronal_papers.seeds import NAMES, OVER_SEEDS, Value, at, by_network, log, networks_of, over_seeds, percents
from neuronal_papers.tuning import on_test_images

# With couplings, and with the same weights without


@dataclass(frozen=True)
class Sizes:
    """Mean norm of the Jacobian, and median curvature of the loss."""

    frobenius: float
    curvature: float


@dataclass(frozen=True)
class Coupled:
    """A network with one coupling: accuracy on all test images, and on few under the white-box attack."""

    coupling: float
    accuracy: float
    robust: Sequence[float]
    jacobian: float


@on_test_images
def sensitivity(record: Record, model: nn.Module, test: Split, _: Options) -> Measured:
    """Norms of a network's Jacobian and curvature of its loss, with and without its couplings."""
    row: dict[str, object] = {"accuracy": record.metrics["accuracy"], "with": _sizes(model, test)}
    if record.recipe.family == "implicit_bias":
        row["without"] = _sizes(convert(model, "standard").model, test)
    return row


def _sizes(model: nn.Module, split: Split) -> Sizes:
    norms = jacobian(model, split, rows=len(split), batch_size=AT_ONCE)
    return Sizes(norms.frobenius, curvature(model, split, batch_size=AT_ONCE).median)


def with_and_without(result: Result, kind: str) -> list[Case]:
    """log10 of the norm with the couplings over that of the same weights without."""
    return [
        Case(label, [log(run["with"]["frobenius"]) - log(run["without"]["frobenius"]) for run in own["runs"]])
        for label, own, _ in pairs(result, kind)
    ]


def beside(result: Result, kind: str, key: str) -> list[Case]:
    """log10 of a number over the standard network's, each trained by itself."""
    return against_standard(result, lambda run: log(run["with"][key]), kind, factor=1.0)


HEADS = (("frobenius", "Jacobian"), ("curvature", "curvature"))
WAYS = [way for key, head in HEADS for way in ((head, "with", key), ("the same at coupling 0", "without", key))]
SIZES = [over_seeds(head, at(*path), ".3g") for head, *path in WAYS]
COLUMNS = (*NAMES, percents("accuracy (%)", at("accuracy")), *SIZES)


def figures(result: Result) -> list[Figure]:
    def norm(way: str) -> Value:
        return lambda run: [run[way]["frobenius"]] if way in run else []

    ways = {"as trained": norm("with"), "its couplings at 0": norm("without")}
    caption = "Mean Frobenius norm over test images; every seed a point."
    return [side_by_side(result, "Jacobians", "norm of the Jacobian", ways, caption)]


BY_ITSELF = "is smaller than a standard network's, each trained by itself"
SMALLER: Mapping[str, Callable[..., list[Case]]] = {
    "the Jacobian is smaller than with the same weights and no coupling (Eq. 34)": with_and_without,
    f"the Jacobian {BY_ITSELF}": partial(beside, key="frobenius"),
    f"the curvature of the loss (Eq. 62) {BY_ITSELF}": partial(beside, key="curvature"),
}
JACOBIAN = Reproduction(
    name="implicit_bias/jacobian",
    title="Norm of the Jacobian of trained networks",
    where="Methods, Eqs. 27 to 40 and 55 to 62",
    scales=networks.scales(networks.with_fixed, {"images": 1000}, smoke={"images": 8}),
    measure=sensitivity,
    claims=[
        Claim(f"With {words}, {what}", partial(cases, kind=kind), Below(), unit="powers of ten")
        for kind, words in KINDS.items()
        for what, cases in SMALLER.items()
    ],
    tables=one_table(COLUMNS, f"Frobenius norms and input curvature; {OVER_SEEDS}", rows=networks_of),
    figures=figures,
    criteria=f"By logarithms of ratios: -0.3 is half, +0.3 is twice. {networks.ENDS} A positive one pushes units apart.",
    departs=f"{networks.CHOSEN} The paper has the theory and no measurement.",
)

# A coupling that is added


@on_test_images
def added(record: Record, trained: nn.Module, few: Split, options: Options) -> Measured:
    """A network with every coupling."""
    test, kinds = load(record.recipe.data).scaled(record.recipe.scaling).test, []
    for coupling in options["couplings"]:
        how = {"coupling": coupling, "slope": options["slope"], "learn_coupling": False}
        model = convert(trained, "implicit_bias", **how).model if coupling else trained
        left = [white_box(model, few, epsilon, options).robust_accuracy for epsilon in options["epsilons"]]
        size = jacobian(model, test, batch_size=AT_ONCE).frobenius
        kinds.append(Coupled(coupling, score(model, test)["accuracy"], left, size))
    return {"kinds": kinds}


def transfer(setting: Setting, work: Work) -> Measured:
    """A row of :func:`added` for every standard network and coupling.

    ``options``: ``couplings`` and ``slope``, ``epsilons``, ``images``, ``steps``; those of :func:`on_test_images`.
    """
    rows = added(setting, work)["rows"]
    network = ("name", "neuron", "seed", "lr")
    return {"rows": [{key: row[key] for key in network} | kind for row in rows for kind in row["kinds"]]}


def changes(result: Result) -> list[Json]:
    """Every network and coupling, its runs against the same run without coupling."""
    rows = result["result"]["rows"]
    plain = {(row["name"], row["seed"]): row for row in rows if row["coupling"] == 0}
    against = []
    for row in rows:
        before = plain[row["name"], row["seed"]]
        robust = [own - other for own, other in zip(row["robust"], before["robust"], strict=True)]
        change = {"accuracy": row["accuracy"] - before["accuracy"], "jacobian": row["jacobian"] / before["jacobian"]}
        against.append({**row, **change, "robust": robust})
    return by_network(against, "name", "coupling")


def negative(result: Result, value: Value) -> list[Case]:
    """A change, at every negative coupling; these draw units together."""
    below = [one for one in changes(result) if one["coupling"] < 0]
    several, cases = len({one["name"] for one in below}) > 1, []
    for one in below:
        label = f"{one['name']}, " * several + f"coupling {one['coupling']:g}"
        cases.append(Case(label, list(map(value, one["runs"]))))
    return cases


def change_columns(result: Result) -> list[Column]:
    columns = [NAMES[0], Column("coupling", "coupling", "g"), percents("accuracy", at("accuracy"), "+.1f")]
    columns.append(over_seeds("norm of the Jacobian", at("jacobian"), ".2f"))
    epsilons = enumerate(result["options"]["epsilons"])
    return columns + [percents(f"at epsilon {e:g}", at("robust", place), "+.1f") for place, e in epsilons]


def changes_figure(result: Result) -> list[Figure]:
    every = sorted(changes(result), key=lambda one: float(one["coupling"]))
    lines = along(every, at("jacobian"), "name", "coupling", ", jacobian")
    lines += along(every, lambda run: 1 + run["accuracy"], "name", "coupling", ", accuracy", ":")
    caption = f"Norm of the Jacobian, and 1 plus the change of accuracy. {BAND}"
    labels = {"xlabel": "coupling that is added", "ylabel": "against coupling 0"}
    return [chart(f"{result['reproduction']}-jacobian", "A coupling added", lines, labels, caption, level=1)]


HARMLESS = 1.0
"""Points of accuracy that a coupling may cost and still count as added without harm: about twice the spread over seeds."""
COUPLINGS = {"couplings": (0.0, -0.05, -0.1, -0.25, -0.5, -1.0, 0.05), "slope": 10.0}
ADDED: Options = {**networks.ATTACK, **COUPLINGS, "epsilons": (0.01, 0.02, 0.05)}
FEW_ADDED = {**networks.FEW, "couplings": (0.0, -0.5), "epsilons": (0.05,)}
FREE = "A negative coupling can be added to a trained network without training it again: it costs at most 1 point"
ROBUST = "the network more robust (white-box, mean over epsilons)"
AGAINST_0 = f"changes against coupling 0 (points of accuracy; the norm times so much), {OVER_SEEDS}"
MAKES, NORM = "A negative coupling that is added makes", "times the norm without coupling"
TRANSFER = Reproduction(
    name="implicit_bias/transfer",
    title="A coupling added to trained networks",
    where="Supplementary Information",
    scales=networks.scales(lambda recipe: (recipe,), ADDED, smoke=FEW_ADDED),
    measure=transfer,
    claims=(
        Claim(FREE, partial(negative, value=lambda run: 100 * run["accuracy"]), Above(-HARMLESS)),
        Claim(f"{MAKES} the Jacobian smaller", partial(negative, value=at("jacobian")), Below(1.0), NORM, ".2f"),
        Claim(f"{MAKES} {ROBUST}", partial(negative, value=lambda run: 100 * fmean(run["robust"])), Above()),
    ),
    tables=one_table(change_columns, AGAINST_0, rows=changes),
    figures=changes_figure,
    criteria="Each network is compared with itself, with and without the coupling.",
    departs=(
        f"{networks.CHOSEN} The paper proves it for one hidden layer and gives no numbers; the bound of its proof, linear "
        "in the coupling, is not measured."
    ),
)
