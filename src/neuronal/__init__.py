"""Change the neuron, keep the network.

The public names load on first use, so that ``import neuronal`` and ``neuronal --help`` do not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neuronal.api import audit, compare
    from neuronal.convert.checkpoint import load_model, save_model
    from neuronal.convert.convert import Change, Conversion, convert, to_standard
    from neuronal.convert.fold import fold_batch_norm
    from neuronal.experiments.recipe import Recipe
    from neuronal.experiments.record import Record
    from neuronal.experiments.run import run, trained
    from neuronal.experiments.sweep import Study, sweep
    from neuronal.models.registry import create_model, list_models
    from neuronal.nn.families import FAMILIES, Family
    from neuronal.report.audit import Audit
    from neuronal.report.comparison import Comparison

__version__ = "0.1.0"

_HOME = {
    "FAMILIES": "nn.families",
    "Audit": "report.audit",
    "Change": "convert.convert",
    "Comparison": "report.comparison",
    "Conversion": "convert.convert",
    "Family": "nn.families",
    "Recipe": "experiments.recipe",
    "Record": "experiments.record",
    "Study": "experiments.sweep",
    "audit": "api",
    "compare": "api",
    "convert": "convert.convert",
    "create_model": "models.registry",
    "fold_batch_norm": "convert.fold",
    "list_models": "models.registry",
    "load_model": "convert.checkpoint",
    "run": "experiments.run",
    "save_model": "convert.checkpoint",
    "sweep": "experiments.sweep",
    "to_standard": "convert.convert",
    "trained": "experiments.run",
}

__all__ = [
    "FAMILIES",
    "Audit",
    "Change",
    "Comparison",
    "Conversion",
    "Family",
    "Recipe",
    "Record",
    "Study",
    "audit",
    "compare",
    "convert",
    "create_model",
    "fold_batch_norm",
    "list_models",
    "load_model",
    "run",
    "save_model",
    "sweep",
    "to_standard",
    "trained",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'neuronal' has no attribute {name!r}")
    from neuronal.core.limits import extras

    with extras():
        return getattr(import_module(f"neuronal.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
