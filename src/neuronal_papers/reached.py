"""A digest of the code that a measurement reaches, by which cached rows are known."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any

from neuronal.core.checksum import checksum
from neuronal.experiments import statements_of

PACKAGE = __name__.partition(".")[0]


def digest_of(function: Callable[..., Any]) -> str:
    """Digest of all statements of this package that ``function`` reaches by name, its own included.

    Claims, tables and figures stand in the same files; a change of these, of docstrings or comments, or a move to another
    file, does not change it.
    """
    assert isinstance(function, FunctionType)
    todo, done = [(function.__module__, function.__name__)], set[tuple[str, str]]()
    statements: set[str] = set()
    while todo:
        place = module, name = todo.pop()
        if place in done:
            continue
        done.add(place)
        match _names(module).get(name):
            case ast.stmt() as definition:
                statements.update(statements_of(ast.unparse(definition)))
                todo += [(module, part.id) for part in ast.walk(definition) if isinstance(part, ast.Name)]
            case (home, other):
                todo.append((home, other))
    return checksum("\n".join(sorted(statements)))[:16]


@cache
def _names(module: str) -> dict[str, ast.stmt | tuple[str, str]]:
    """The names in a module of this package: the statement that defines them, or the module and name they are from."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    names: dict[str, ast.stmt | tuple[str, str]] = {}
    for node in ast.parse(Path(spec.origin).read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE:
            names |= {alias.asname or alias.name: (node.module or "", alias.name) for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {part.id: node for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    return names
