"""What a machine has of all that this library needs: packages, compiler, cores, GPU, folders; what to do about the rest."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from getpass import getuser
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from neuronal.core.folders import cache_root, data_root, expanded
from neuronal.core.limits import EXTRAS, cores
from neuronal.core.words import counted, one_line

__all__ = ["Fact", "browser", "examine"]

REQUIRED = "lab"
"""The extra that ``neuronal compare`` needs."""
GB = 1e9


@dataclass(frozen=True)
class Fact:
    """One thing that was looked at.

    Args:
        name: What.
        found: What there is.
        advice: What to do; empty where nothing is missing.
        is_broken: Whether ``neuronal compare`` fails without it.
    """

    name: str
    found: str
    advice: str = ""
    is_broken: bool = False


def examine(runs: Path) -> Iterator[Fact]:
    """Everything, one fact after the other; imports every optional package that is installed.

    Args:
        runs: The folder that commands write to.
    """
    yield Fact("python", f"{platform.python_version()}, {sys.executable}")
    package = Path(__file__).parents[1]
    yield Fact("neuronal", f"{sys.modules[package.name].__version__}, {package}")
    with warnings.catch_warnings():
        # What packages say of each other when they are imported.
        warnings.simplefilter("ignore")
        yield _packages("torch", ["torch"], "torch", is_needed=True)
        yield _packages("numpy", ["numpy"], "numpy", is_needed=True)
        for extra, packages in EXTRAS.items():
            yield _packages(extra, packages, f"neuronal[{extra}]", is_needed=extra == REQUIRED)
        yield _compiler()
        if torch := sys.modules.get("torch"):
            yield _cores(torch)
            yield _gpu(torch)
    yield _folder("runs", lambda: runs, "Name another folder with --out, or make room.", is_needed=True)
    yield _folder(
        "data", data_root, "neuronal data fetch cannot put sets there: name another folder with NEURONAL_DATA."
    )
    yield _folder("arrays", cache_root, "Images are decoded every time: name another folder with NEURONAL_CACHE.")
    for name, variable, usual in (
        ("torch cache", "TORCHINDUCTOR_CACHE_DIR", lambda: Path(tempfile.gettempdir(), f"torchinductor_{getuser()}")),
        ("triton cache", "TRITON_CACHE_DIR", lambda: expanded("~/.triton/cache")),
    ):
        place = partial(_named, variable, usual)
        yield _folder(name, place, f"What is compiled cannot be kept: name another folder with {variable}.")
    yield Fact("browser", browser() or "none", "" if browser() else "Only tests that look at pages need chromium.")


def _packages(name: str, packages: Sequence[str], source: str, *, is_needed: bool) -> Fact:
    """Versions of packages, whether they are there and whether they can be imported."""
    found, missing, unfit = [], [], []
    for package in packages:
        shown = package.replace("PIL", "pillow")
        try:
            module = import_module(package)
            found.append(f"{shown} {getattr(module, '__version__', None) or version(shown)}")
        except ModuleNotFoundError as error:
            missing.append(shown)
            found.append(f"{shown} not installed" if error.name == package else f"{shown} needs {error.name}")
        # A package that was built for another version of torch or numpy raises anything at all.
        except Exception as error:
            unfit.append(shown)
            found.append(f"{shown} cannot be imported ({type(error).__name__}: {one_line(error)})")
    advice = [f"pip install '{source}'."] if missing else []
    advice += [f"Install {' and '.join(unfit)} again, in versions that fit the others."] if unfit else []
    return Fact(name, ", ".join(found), " ".join(advice), is_needed and bool(advice))


def _compiler() -> Fact:
    """The compiler that ``torch.compile`` calls."""
    name = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    try:
        told = subprocess.run([name, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        advice = "torch.compile (--set compile=true) needs a C++ compiler: install it, or name another one with CXX."
        return Fact("compiler", f"no {name}", advice)
    return Fact("compiler", told.splitlines()[0] if told else name)


def _cores(torch: Any) -> Fact:
    usable, threads = cores(), torch.get_num_threads()
    advice = f"More threads than cores wait for each other: set OMP_NUM_THREADS={usable}." if threads > usable else ""
    return Fact("cores", f"{usable} usable of {os.cpu_count()}, torch takes {counted(threads, 'thread')}", advice)


def _gpu(torch: Any) -> Fact:
    if torch.cuda.is_available():
        devices = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
        found = ", ".join(f"{one.name} ({one.total_memory / GB:.0f} GB)" for one in devices)
        triton = _packages("triton", ["triton"], "triton", is_needed=False)
        return Fact("GPU", f"{found}, CUDA {torch.version.cuda}, {triton.found}", triton.advice)
    has_driver = shutil.which("nvidia-smi") is not None
    return Fact("GPU", "none", "This torch does not see the NVIDIA GPU: install a build for its CUDA." * has_driver)


def _named(variable: str, usual: Callable[[], Path]) -> Path:
    """The folder that an environment variable names."""
    return Path(given) if (given := os.environ.get(variable)) else usual()


def _folder(name: str, find: Callable[[], Path], advice: str, *, is_needed: bool = False) -> Fact:
    """Whether files can be written to a folder, or it can be made; what is in it and how much fits in."""
    try:
        folder = find().absolute()
    # Some users of a container have neither a name nor a home.
    except (ValueError, KeyError, OSError) as homeless:
        return Fact(name, f"no folder ({homeless})", advice, is_needed)
    nearest = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
    try:
        with tempfile.TemporaryDirectory(prefix=".", dir=nearest):
            free = shutil.disk_usage(nearest).free
    except OSError as refused:
        return Fact(name, f"{folder} cannot be written to ({refused.strerror})", advice, is_needed)
    found = f"{folder}, {_size(folder)}, {free / GB:.1f} GB free"
    return Fact(name, found, advice if free < GB else "")


def _size(folder: Path) -> str:
    """What all files in a folder take."""
    if not folder.exists():
        return "not there yet"
    total = 0
    for file in folder.rglob("*"):
        # Others may be writing there.
        with suppress(OSError):
            total += file.stat().st_size if file.is_file() else 0
    return f"{total / GB:.2f} GB"


def browser() -> str | None:
    """A browser that can be run without a screen."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
