"""Names of kernels that do not depend on which one is started first.

Triton keeps what it compiles on disk, under a name made of a kernel's text, that of its helpers, and the constants they
use. Up to version 3.6 at least, it has the constants of a helper only if that had a name before: another process, which
starts its kernels in another order, would find nothing and compile for long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triton.runtime import JITFunction


def settle(module: Mapping[str, Any]) -> None:
    """Gives all functions of a module their names, in the order they are written in; for the last line of each module."""
    for function in module.values():
        # Interpreted functions have none.
        if isinstance(function, JITFunction):
            function.cache_key  # noqa: B018
