"""A digest of the code that a measurement reaches, by which cached rows are known."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any

from neuronal.experiments import statements_of

PACKAGE = __name__.partition(".")[0]


def digest_of(function: Callable[..., Any]) -> str:
    """Digest of all statements of this package that ``function`` reaches by name, its own included.

    Claims, tables and figures stand in the same files; a change of these, of docstrings or comments, or a move to another
    file, does not change it.
    """
    assert isinstance(function, FunctionType)
    todo, done = [(function.__module__, function.__name__)], set[tuple[str, str]]()
    statements: list[str] = []
    while todo:
        place = todo.pop()
        if place in done:
            continue
        done.add(place)
        node, homes = _definition(*place)
        if node is None:
            continue
        statements += statements_of(ast.unparse(node))
        todo += [homes[name] for name in _names(node) if name in homes]
    return sha256("\n".join(sorted(set(statements))).encode()).hexdigest()[:16]


def _definition(module: str, name: str) -> tuple[ast.stmt | None, dict[str, tuple[str, str]]]:
    """The statement of a module that defines ``name``, and where the names it may use are defined."""
    definitions, homes = _module(module)
    return definitions.get(name), homes


@cache
def _module(module: str) -> tuple[dict[str, ast.stmt], dict[str, tuple[str, str]]]:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    definitions: dict[str, ast.stmt] = {}
    homes: dict[str, tuple[str, str]] = {}
    for node in ast.parse(Path(spec.origin).read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE:
            homes |= {alias.asname or alias.name: (node.module or "", alias.name) for alias in node.names}
        for name in _defined(node):
            definitions[name] = node
            homes[name] = (module, name)
    return definitions, homes


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    for target in targets:
        yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
