"""Frozen records to plain JSON and back, by the annotations of their fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from neuronal.names import printable

__all__ = ["Json", "from_json", "record_to_json", "to_json"]

Kind = TypeVar("Kind")
Json = dict[str, Any]
"""An object of JSON, before it is read into a record, or as it is written."""
LARGEST = 1e300
"""Of numbers from files: what is computed of larger ones is no number."""


def to_json(value: Any) -> Any:
    """A record, and all in it, as dicts, lists, text and numbers; a field at its default None is left out."""
    if isinstance(value, Mapping):
        return {name: to_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(one) for one in value]
    if hasattr(value, "to_json"):
        return value.to_json()
    return record_to_json(value) if is_dataclass(value) else value


def record_to_json(record: Any) -> Json:
    """The fields of a record; what its own ``to_json`` starts from."""
    values = {field.name: (getattr(record, field.name), field.default) for field in fields(record)}
    return {
        name: to_json(value) for name, (value, default) in values.items() if value is not None or default is not None
    }


def from_json(kind: type[Kind], values: object) -> Kind:
    """The record whose JSON this is; ``ValueError`` names the first value that does not fit.

    Names that it has no field for are left out: files of other versions may have them.
    """
    return cast(Kind, _record(kind, values, kind.__name__))


_hints = cache(get_type_hints)


def _read(kind: Any, value: Any, name: str) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        (some,) = (part for part in parts if part is not NoneType)
        return None if value is None else _read(some, value, name)
    if is_dataclass(kind):
        return getattr(kind, "from_json", partial(_record, kind, name=name))(value)
    if isinstance(origin, type) and issubclass(origin, Sequence) and isinstance(value, list | tuple):
        every = parts[:1] * len(value) if parts[1:] in ((), (Ellipsis,)) else parts
        if len(every) == len(value):
            return tuple(_read(part, one, name) for part, one in zip(every, value, strict=True))
    elif isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return {_read(parts[0], key, name): _read(parts[1], one, f"{name} {key}") for key, one in value.items()}
    elif (
        kind is Any
        or (origin is Literal and value in parts)
        or (kind is float and type(value) in (int, float) and abs(value) < LARGEST)
        or (kind in (bool, int, str) and type(value) is kind and (kind is not str or printable(value) == value))
    ):
        return value
    raise ValueError(f"{name} cannot be {str(value)[:60]!r}")


def _record(kind: Any, value: Any, name: str) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} cannot be {str(value)[:60]!r}")
    hints, given = _hints(kind), [field for field in fields(kind) if field.name in value]
    for field in fields(kind):
        if field not in given and field.default is field.default_factory is MISSING:
            raise ValueError(f"{name} has no {field.name}")
    return kind(**{field.name: _read(hints[field.name], value[field.name], field.name) for field in given})
