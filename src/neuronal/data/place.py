"""Where data are looked for, and where decoded copies are kept."""

from __future__ import annotations

import os
from pathlib import Path


def data_root(root: str | Path | None = None) -> Path:
    """The folder of the datasets: ``root``, else ``NEURONAL_DATA``, else ``neuronal/data`` in the user's cache."""
    given = root or os.environ.get("NEURONAL_DATA")
    return Path(given).expanduser() if given else _user_cache() / "data"


def cache_root() -> Path:
    """The folder of decoded arrays: ``NEURONAL_CACHE``, else ``neuronal/arrays`` in the user's cache."""
    given = os.environ.get("NEURONAL_CACHE")
    return Path(given).expanduser() if given else _user_cache() / "arrays"


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neuronal"
