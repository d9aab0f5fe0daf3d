"""Everything that can be measured or proved of one model on one set of data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor, nn

from neuronal.certify.activity import certify_activity
from neuronal.certify.branch import Budget
from neuronal.certify.evidence import Break
from neuronal.certify.lipschitz import lipschitz_bound
from neuronal.certify.scaling import certify_scaling
from neuronal.certify.segment import certify_segments
from neuronal.core.inference import check_finite, outputs
from neuronal.data.dataset import Dataset, Split
from neuronal.experiments.compare import Share
from neuronal.geometry.lowering import NotPiecewiseLinear
from neuronal.probes.boundary_distance import boundary_distance
from neuronal.probes.contrast import contrast
from neuronal.probes.curvature import curvature
from neuronal.probes.dead_units import dead_units
from neuronal.probes.jacobian import jacobian
from neuronal.probes.score import score
from neuronal.probes.zero_image import zero_image

Section = Callable[[nn.Module, Split], object]


@dataclass(frozen=True)
class Unfit:
    """Why a section has no numbers."""

    why: str


@dataclass(frozen=True)
class Network:
    """Modules without parts, by class; how many inputs the audit is of."""

    parameters: int
    layers: Mapping[str, int]
    inputs: int


@dataclass(frozen=True)
class Scaling:
    """What is proved of positive multiples of the input, and what is in the way."""

    verdict: str
    reason: str
    degree: float | None
    breaks: tuple[Break, ...]


@dataclass(frozen=True)
class ActiveLayer:
    """Whether one ReLU always has an active unit; how many units are dead on the box, and on the data."""

    path: str
    units: int
    verdict: str
    dead_on_box: int | None
    dead_on_data: int | None


@dataclass(frozen=True)
class Activity:
    """On the box the inputs span: in every coordinate from the smallest to the largest value of all."""

    verdict: str
    reason: str
    low: float
    high: float
    layers: tuple[ActiveLayer, ...]


@dataclass(frozen=True)
class Lipschitz:
    """Proved constant in the 2-norm."""

    bound: float


@dataclass(frozen=True)
class Segments:
    """Verdicts between random pairs of one class."""

    certified: Share
    refuted: int
    unknown: int


@dataclass(frozen=True)
class Measurements:
    """One record per section, such as :class:`Scaling`, or :class:`Unfit`; and the seconds it took."""

    sections: Mapping[str, object]
    seconds: Mapping[str, float]


def measure(
    model: nn.Module,
    data: Dataset,
    *,
    rows: int = 1000,
    pairs: int = 200,
    seed: int = 0,
    on_section: Callable[[str], None] | None = None,
) -> Measurements:
    """Runs every section on ``rows`` random test inputs; the model is not changed.

    A section that does not apply (a network that is not piecewise linear, labels that do not fit) says why and the others
    go on.

    Args:
        model: A classifier for the data's inputs.
        data: Its test split is what everything is measured on.
        rows: How many test inputs; all if there are fewer.
        pairs: Segments between inputs of one class to certify.
        seed: Draws the inputs and the pairs.
        on_section: Told of every section before it runs.
    """
    if rows < 1 or pairs < 0:
        raise ValueError(f"an audit needs at least 1 of rows and 0 of pairs, got {rows} and {pairs}.")
    if data.task != "classification":
        raise ValueError(f"an audit is of a classifier, and {data.name} is for regression.")
    generator = torch.Generator().manual_seed(seed)
    split = data.test.rows(torch.randperm(len(data.test), generator=generator)[:rows].sort().values)
    check_finite(model)
    if next(model.parameters(), None) is None:
        raise ValueError(f"an audit needs a model with parameters, got a {type(model).__name__} without any.")
    _check_fit(model, split, data)
    found: dict[str, object] = {}
    seconds = {}
    for name, section in _sections(pairs, generator).items():
        if on_section:
            on_section(name)
        started = perf_counter()
        try:
            found[name] = section(model, split)
        except (NotPiecewiseLinear, ValueError, NotImplementedError) as unfit:
            found[name] = Unfit(str(unfit).splitlines()[0])
        seconds[name] = perf_counter() - started
    return Measurements(found, seconds)


def _check_fit(model: nn.Module, split: Split, data: Dataset) -> None:
    """The model has to take these inputs and to know their classes."""
    try:
        logits = outputs(model, split.rows(slice(0, 2)).x)
    except (RuntimeError, TypeError, ValueError) as unfit:
        reason = str(unfit).splitlines()[0]
        raise ValueError(f"the model does not take inputs of {data.name}, shape {data.shape} ({reason}).") from unfit
    if logits.dim() != 2 or logits.shape[1] < len(data.classes):
        got = f"outputs of shape {tuple(logits.shape[1:])}"
        raise ValueError(f"{data.name} has {len(data.classes)} classes, the model gives {got}.")


def _sections(pairs: int, generator: torch.Generator) -> dict[str, Section]:
    return {
        "model": _model,
        "score": score,
        "contrast": contrast,
        "zero_image": zero_image,
        "scaling": _scaling,
        "dead_units": dead_units,
        "activity": _activity,
        "boundary_distance": boundary_distance,
        "jacobian": jacobian,
        "curvature": curvature,
        "lipschitz": _lipschitz,
        "segments": lambda model, split: _segments(model, split, pairs, generator),
    }


def _model(model: nn.Module, split: Split) -> Network:
    kinds: dict[str, int] = {}
    for module in model.modules():
        if next(module.children(), None) is None:
            kinds[type(module).__name__] = kinds.get(type(module).__name__, 0) + 1
    return Network(sum(p.numel() for p in model.parameters()), kinds, len(split))


def _scaling(model: nn.Module, split: Split) -> Scaling:
    certificate = certify_scaling(model, split.rows(slice(0, 2)).x)
    degree = certificate.evidence.degree
    breaks = tuple(certificate.evidence.breaks)
    return Scaling(certificate.verdict, certificate.reason, None if degree is None else float(degree), breaks)


def _activity(model: nn.Module, split: Split) -> Activity:
    x = split.x
    low, high = x.min().item(), x.max().item()
    box = (torch.full(x.shape[1:], low), torch.full(x.shape[1:], high))
    certificate = certify_activity(model, box, data=x)
    layers = getattr(certificate.evidence, "layers", None) or (certificate.evidence,)
    told = []
    for layer in layers:
        dead = (None if off is None else len(off) for off in (layer.dead_on_box, layer.dead_on_data))
        told.append(ActiveLayer(layer.path, layer.units, layer.verdict, *dead))
    return Activity(certificate.verdict, certificate.reason, low, high, tuple(told))


def _lipschitz(model: nn.Module, split: Split) -> Lipschitz:
    return Lipschitz(lipschitz_bound(model, split.rows(slice(0, 1)).x).bound)


def _segments(model: nn.Module, split: Split, pairs: int, generator: torch.Generator) -> Segments:
    x, y = split.x, split.y
    right = outputs(model, x).argmax(1).cpu() == y
    a, b = same_class_pairs(y, right, pairs, generator)
    if not len(a):
        raise ValueError("no two of the inputs have one class and are both classified right.")
    found = certify_segments(model, x[a], x[b], budget=Budget(exact=False))
    verdicts = [certificate.verdict for certificate in found]
    if verdicts.count("unknown") == len(verdicts):
        raise ValueError(found[0].reason)
    share = Share(verdicts.count("certified"), len(verdicts))
    return Segments(share, verdicts.count("refuted"), verdicts.count("unknown"))


def same_class_pairs(y: Tensor, right: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Places of random pairs of different images of one class, both classified right, no pair twice."""
    places = right.nonzero().flatten()
    groups = [places[y[places] == label] for label in y[places].unique()]
    groups = [group for group in groups if len(group) > 1]
    every = sum(len(group) * (len(group) - 1) // 2 for group in groups)
    if count >= every:
        both = torch.cat([torch.combinations(group) for group in groups]) if groups else places.new_empty(0, 2)
        return both[:, 0], both[:, 1]
    seen: dict[tuple[int, int], None] = {}
    # A class is drawn by the square of its size, and a member with itself drawn again: every pair is as likely as another.
    sizes = torch.tensor([float(len(group)) ** 2 for group in groups])
    while len(seen) < count:
        chosen = torch.multinomial(sizes, count, replacement=True, generator=generator)
        for number in chosen.tolist():
            group = groups[number]
            i, j = torch.randint(len(group), (2,), generator=generator).tolist()
            if i != j and len(seen) < count:
                seen[int(group[min(i, j)]), int(group[max(i, j)])] = None
    both = torch.tensor(list(seen), dtype=torch.long).view(-1, 2)
    return both[:, 0], both[:, 1]
