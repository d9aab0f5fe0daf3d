import json
from dataclasses import dataclass, field, replace
from typing import Literal

import pytest

from neuronal.core.records import from_json, to_json


@dataclass(frozen=True)
class Inner:
    name: str
    count: int = 0
    why: str | None = None


@dataclass(frozen=True)
class Outer:
    inner: Inner
    share: float
    value: float | None
    kind: Literal["a", "b"] = "a"
    series: tuple[float, ...] = ()
    pair: tuple[int, tuple[bool, ...]] = (0, ())
    many: tuple[Inner, ...] = ()
    by_name: dict[str, Inner] = field(default_factory=dict)


FULL = Outer(Inner("x", 3, "y"), 0.5, None, "b", (1.0, 2.0), (1, (True,)), (Inner("z"),), {"k": Inner("l")})


def test_a_record_comes_back_from_json_as_it_was():
    for record in (FULL, Outer(Inner("x"), 1.0, 2.0)):
        assert from_json(Outer, json.loads(json.dumps(to_json(record)))) == record


def test_json_is_dicts_and_lists_and_what_is_none_by_default_is_left_out():
    assert to_json(replace(FULL, many=(), by_name={})) == {
        "inner": {"name": "x", "count": 3, "why": "y"},
        "share": 0.5,
        "value": None,
        "kind": "b",
        "series": [1.0, 2.0],
        "pair": [1, [True]],
        "many": [],
        "by_name": {},
    }
    assert to_json([Inner("x")]) == [{"name": "x", "count": 0}]


def test_names_of_other_versions_are_left_out():
    assert from_json(Inner, {"name": "x", "newer": 1}) == Inner("x")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"inner": {"count": 1}}, "inner has no name"),
        ({"inner": 3}, "inner cannot be '3'"),
        ({"inner": {"name": "x", "count": 1.5}}, "count cannot be '1.5'"),
        ({"inner": {"name": "x", "count": True}}, "count cannot be 'True'"),
        ({"inner": {"name": "\x1b[2J"}}, "name cannot be"),
        ({"share": "0.5"}, "share cannot be '0.5'"),
        ({"share": True}, "share cannot be 'True'"),
        ({"share": 1e301}, "share cannot be '1e.301'"),
        ({"share": float("nan")}, "share cannot be 'nan'"),
        ({"kind": "c"}, "kind cannot be 'c'"),
        ({"series": 1.0}, "series cannot be '1.0'"),
        ({"series": {"a": 1.0}}, "series cannot be"),
        ({"series": [1.0, None]}, "series cannot be 'None'"),
        ({"pair": [1]}, r"pair cannot be '\[1\]'"),
        ({"by_name": [1]}, r"by_name cannot be '\[1\]'"),
        ({"by_name": {"k": {}}}, "by_name k has no name"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named(changed, message):
    with pytest.raises(ValueError, match=message):
        from_json(Outer, to_json(FULL) | changed)
