"""Any model in another neuron: ``convert``, ``fold_batch_norm``, ``to_standard``, and models as files.

``neuronal.convert`` is the function as long as this package has not been imported, and this package afterwards; so the
package can be called like the function.
"""

import sys
from types import ModuleType
from typing import Any

from neuronal.convert.checkpoint import load_model, save_model
from neuronal.convert.convert import Change, Conversion, convert, to_standard
from neuronal.convert.fold import fold_batch_norm
from neuronal.convert.promise import Promise
from neuronal.convert.sources import from_source, input_shape

__all__ = [
    "Change",
    "Conversion",
    "Promise",
    "convert",
    "fold_batch_norm",
    "from_source",
    "input_shape",
    "load_model",
    "save_model",
    "to_standard",
]


class _Room(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Conversion:
        return convert(*arguments, **options)


sys.modules[__name__].__class__ = _Room
