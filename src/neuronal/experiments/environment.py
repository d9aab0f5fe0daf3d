"""Where a number was measured: machine, versions, commit."""

from __future__ import annotations

import ast
import os
import platform
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import neuronal
from neuronal.core.checksum import checksum

TRAINING = ("data", "models", "nn", "ops", "train")
"""Rooms whose code decides what comes of a training."""
_PACKAGE = Path(__file__).parents[1]
SHOWING = ("cli", "report")
"""Rooms whose code decides nothing of what is measured: they ask for it and show it."""


def environment() -> dict[str, str]:
    """Versions of what computes, the processor or GPU, threads, and the commit when run from a checkout."""
    facts = dict(_facts())
    facts["processor"] += f", {torch.get_num_threads()} threads"
    return facts


@cache
def _facts() -> dict[str, str]:
    facts = {"neuronal": neuronal.__version__, "commit": _commit(), "python": platform.python_version()}
    # With its build, which the version of the package need not name.
    facts["torch"] = str(torch.__version__)
    for package in ("numpy", "accelerate"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    facts["system"] = f"{platform.system()} {platform.machine()}"
    facts["processor"] = f"{_processor()}, {os.cpu_count()} cores"
    facts["gpu"] = _gpu()
    return facts


def arithmetic() -> dict[str, str]:
    """What all digits of a training depend on: one that goes on with another would end as neither of them does."""
    facts = {"torch": torch.__version__, "gpu": _gpu(), "code": _digest(TRAINING)}
    # On a CPU a sum has as many parts as there are threads.
    return facts | ({"threads": str(torch.get_num_threads())} if facts["gpu"] == "none" else {})


def code() -> str:
    """A digest of all library code that trains or measures; results that other code cached may differ."""
    return _digest(tuple(sorted(path.name for path in _PACKAGE.iterdir() if path.name not in SHOWING)))


@cache
def _digest(rooms: tuple[str, ...]) -> str:
    """Digest of the code in these folders or files.

    It changes with what the code does: not with docstrings, comments or formatting, and not when a statement moves to
    another file. Costs a second, once per process.
    """
    paths = [_PACKAGE / room for room in rooms]
    files = [file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])]
    statements = {text for file in files if file.suffix == ".py" for text in statements_of(file.read_text("utf-8"))}
    return checksum("\n".join(sorted(statements)))[:16]


def statements_of(source: str) -> Iterator[str]:
    """The statements of a module as text without docstrings; imports are left out, as they change when files move."""
    for node in _Bare().visit(ast.parse(source)).body:
        yield ast.dump(node)


class _Bare(ast.NodeTransformer):
    """Removes imports and bare strings: docstrings, and the notes under constants and fields."""

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if getattr(node.test, "id", "") == "TYPE_CHECKING" else self.generic_visit(node)


def _gpu() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown processor")


def _commit() -> str:
    """What the variable ``NEURONAL_COMMIT`` says, for copies of a checkout; else the commit of the checkout this lies in.

    ``+changes`` stands behind it if files differ; elsewhere it is ``unknown``.
    """
    if given := os.environ.get("NEURONAL_COMMIT"):
        return given
    package = Path(neuronal.__file__).resolve().parent

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(package), *words], capture_output=True, text=True, timeout=10)
        done.check_returncode()
        return done.stdout.strip()

    try:
        # An installed copy may lie inside somebody else's repository, whose commit would say nothing.
        if Path(git("rev-parse", "--show-toplevel")).resolve() / "src" / "neuronal" != package:
            return "unknown"
        return git("rev-parse", "--short=12", "HEAD") + ("+changes" if git("status", "--porcelain", "..") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
