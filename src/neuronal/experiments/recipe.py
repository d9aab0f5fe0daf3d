"""An experiment as a value: what to train, on what, how, and what to measure afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cached_property
from numbers import Real
from typing import Any, Self, TypeVar

from neuronal.core.files import json_checksum
from neuronal.core.records import Json
from neuronal.data.augment import Augment
from neuronal.names import UnknownName, unknown
from neuronal.train.optim import Plan

Options = Mapping[str, Any] | tuple[tuple[str, Any], ...]
Part = TypeVar("Part", Plan, Augment)

PROTOCOLS = {
    "clean": "every choice goes by held-out training data; the test data are looked at once, at the end",
    "published": "choices (rate cuts, early stopping, the best epoch, the learning rate) go by the TEST data, as in the "
    "code of some papers: the test results are too good",
    "training": "choices while training go by the training data themselves, and nothing needs to be held out",
}
"""What the choices made while training and tuning go by."""


@dataclass(frozen=True)
class Named:
    name: str


@dataclass(frozen=True)
class ModelChoice:
    """Which network is trained.

    Args:
        family: The neuron, a name in ``FAMILIES``.
        model: The network, a name in ``list_models()``.
        widths: Units per layer of models that take ``widths``; empty for the model's own default.
        norm: One of the model's norms; empty for the model's own default.
        model_options: Further options of the model, such as ``{"width": 32}``; plain values, kept as sorted pairs.
        neuron_options: Options of the neuron's layers, such as ``{"coupling": -0.5}``; likewise.
    """

    family: str = "standard"
    model: str = "cnn"
    widths: tuple[int, ...] = ()
    norm: str = ""
    model_options: Options = ()
    neuron_options: Options = ()


@dataclass(frozen=True)
class DataChoice:
    """Which data it is trained on.

    Args:
        data: A name in ``DATASETS``, or the path of a table or of a folder of images.
        scaling: One of ``SCALINGS``.
        redrawn: Share of all rows that is drawn anew with every seed, a fifth of it for testing; 0 for the set's own split.
        fraction, wrong_labels: See :mod:`neuronal.data.training_set`.
        holdout: Fraction of the training data kept apart to follow accuracy while training.
    """

    data: str = "digits"
    scaling: str = "unit"
    redrawn: float = 0.0
    fraction: float = 1.0
    wrong_labels: float = 0.0
    holdout: float = 0.1


@dataclass(frozen=True)
class Recipe(Plan, Augment, DataChoice, ModelChoice, Named):
    """A frozen description of one experiment; a variant is ``dataclasses.replace(recipe, ...)``.

    Its fields are those of its parts: :class:`ModelChoice`, :class:`DataChoice`, the random changes of
    :class:`neuronal.data.augment.Augment` and the training of :class:`neuronal.train.Plan`, where what is followed on
    validation data is followed on the holdout. Names (``family``, ``model``, ``data``, ``optim``, ``schedule``,
    ``probes``) become objects in :func:`neuronal.experiments.run.run`, which refuses unknown ones.

    Args:
        name: What the experiment is called; runs are kept in a folder of this name.
        protocol: One of ``PROTOCOLS``.
        seeds: One cell is trained per seed.
        probes: What is measured on the trained network.
    """

    epochs: int = 30
    batch_size: int = 64
    optim: str = "adam"
    lr: float = 1e-3
    protocol: str = "clean"
    seeds: tuple[int, ...] = (0, 1, 2)
    probes: tuple[str, ...] = ("contrast", "zero_image", "dead_units")

    def __post_init__(self) -> None:
        # The parts check their values in `part`: files with names that are gone can still be read.
        # 1 and 1.0, or a list and a tuple, are the same experiment and must have the same fingerprint.
        for field in fields(self):
            object.__setattr__(self, field.name, _typed(field.name, str(field.type), getattr(self, field.name)))
        for kind in ("model", "neuron"):
            given = getattr(self, f"{kind}_options")
            pairs = given.items() if isinstance(given, Mapping) else given
            plain = tuple(sorted((name, _plain(f"{kind} option {name}", value)) for name, value in pairs))
            object.__setattr__(self, f"{kind}_options", plain)
        for name, smallest, largest in (("widths", 1, 2**31), ("seeds", 0, 2**63)):
            for value in getattr(self, name):
                if type(value) is not int or not smallest <= value < largest:
                    raise ValueError(f"{name} need to be whole numbers from {smallest}, got {value}.")
        if not self.seeds:
            raise ValueError("a recipe needs at least one seed, got none.")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"a recipe needs each seed once, got {', '.join(map(str, self.seeds))}.")

    def part(self, kind: type[Part]) -> Part:
        """The recipe's :class:`neuronal.train.Plan` or :class:`neuronal.data.augment.Augment`, with its values checked."""
        return kind(**{field.name: getattr(self, field.name) for field in fields(kind)})

    def to_json(self) -> Json:
        """Plain lists, numbers and strings; :meth:`from_json` gives an equal recipe back."""
        options = {name: dict(getattr(self, name)) for name in ("model_options", "neuron_options")}
        values: Json = json.loads(json.dumps(asdict(self) | options))
        return values

    @classmethod
    def from_json(cls, values: Json) -> Self:
        names = [field.name for field in fields(cls)]
        for name in values:
            if name not in names:
                raise UnknownName(unknown("field of a recipe", name, names))
        return cls(**values)

    def chosen(self) -> Json:
        """The fields that are not at their default, in JSON; without the name and the seeds."""
        values = self.to_json()
        for field in fields(self):
            default = field.default if field.default is not MISSING else None
            if field.name in ("name", "seeds") or getattr(self, field.name) == default:
                del values[field.name]
        return values

    def fingerprint(self) -> str:
        """Eight characters that differ when the trained network can differ (the name and the seeds do not count).

        Made of the fields that are not at their default, so a field added later changes no fingerprint of today.
        """
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        return json_checksum(self.chosen())[:8]


_KINDS: dict[str, tuple[Any, str]] = {
    "str": (str, "text"),
    "Measure": (str, "text"),
    "bool": (bool, "true or false"),
    "int": (int, "a whole number"),
    "float": (Real, "a number"),
}


def _typed(name: str, kind: str, value: Any) -> Any:
    """The value of a field as its annotation has it; ``ValueError`` for one of another type."""
    if kind.startswith("tuple") and isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(_typed(name, kind[len("tuple[") : -len(", ...]")], one) for one in value)
    needed, words = _KINDS.get(kind, (tuple, "a list") if kind.startswith("tuple") else (object, ""))
    if not isinstance(value, needed) or (isinstance(value, bool) and needed in (int, Real)):
        raise ValueError(f"{name} needs {words}, got {value!r}.")
    try:
        return float(value) if kind == "float" else value
    except OverflowError:
        raise ValueError(f"{name} needs a number that is a float, got one of {len(str(value))} digits.") from None


def _plain(name: str, value: Any) -> Any:
    """A value that is the same after a trip through JSON: lists become tuples; ``ValueError`` for what has no JSON."""
    if isinstance(value, list | tuple):
        return tuple(_plain(name, one) for one in value)
    if value is not None and not isinstance(value, bool | int | float | str):
        raise ValueError(f"{name} needs numbers, text, true or false, or lists of them, got {value!r}.")
    return value
