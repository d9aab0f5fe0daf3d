"""Change the neuron, keep the network.

The public names load on first use, so that ``import neuronal`` and ``neuronal --help`` do not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neuronal.experiments.compare import Comparison, compare
    from neuronal.experiments.recipe import Recipe
    from neuronal.experiments.record import Record
    from neuronal.experiments.run import run
    from neuronal.experiments.sweep import Study, sweep
    from neuronal.models.registry import create_model, list_models
    from neuronal.nn.families import FAMILIES, Family

__version__ = "0.1.0"

_HOME = {
    "FAMILIES": "nn.families",
    "Comparison": "experiments.compare",
    "Family": "nn.families",
    "Recipe": "experiments.recipe",
    "Record": "experiments.record",
    "Study": "experiments.sweep",
    "compare": "experiments.compare",
    "create_model": "models.registry",
    "list_models": "models.registry",
    "run": "experiments.run",
    "sweep": "experiments.sweep",
}

__all__ = [
    "FAMILIES",
    "Comparison",
    "Family",
    "Recipe",
    "Record",
    "Study",
    "compare",
    "create_model",
    "list_models",
    "run",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'neuronal' has no attribute {name!r}")
    return getattr(import_module(f"neuronal.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
