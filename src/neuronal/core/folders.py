"""Where files are kept that are nobody's results: datasets, and arrays decoded from them."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_root", "data_root", "expanded"]


def data_root(root: str | Path | None = None) -> Path:
    """The folder of the datasets: ``root``, else ``NEURONAL_DATA``, else ``neuronal/data`` in the user's cache."""
    given = root or os.environ.get("NEURONAL_DATA")
    return expanded(given) if given else user_cache() / "data"


def cache_root() -> Path:
    """The folder of decoded arrays: ``NEURONAL_CACHE``, else ``neuronal/arrays`` in the user's cache."""
    given = os.environ.get("NEURONAL_CACHE")
    return expanded(given) if given else user_cache() / "arrays"


def user_cache() -> Path:
    """The folder of this library in the user's cache."""
    return expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "neuronal"


def expanded(path: str | Path) -> Path:
    """``path`` with the home folder that ``~`` stands for; ``ValueError`` if there is none."""
    try:
        return Path(path).expanduser()
    except RuntimeError as homeless:
        raise ValueError(f"{path}: no such home folder. Set HOME, or NEURONAL_DATA and NEURONAL_CACHE.") from homeless
