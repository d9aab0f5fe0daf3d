"""What must stay the same while the code changes; see tools/golden.py."""

import json
import math

import pytest

from tools.golden import BITWISE, GOLDEN, golden


def plain(values):
    """As read from JSON: tuples as lists."""
    return json.loads(json.dumps(values))


@pytest.mark.parametrize("name", [name for name in GOLDEN if name != "digits"])
def test_golden_file(name):
    expected, found = golden(name), plain(GOLDEN[name]())
    assert sorted(found) == sorted(expected)
    for key, value in expected.items():
        assert found[key] == value, f"{name}: {key} changed. If it should: python tools/golden.py --update {name}"


def test_golden_digits():
    """Bit for bit where torch and the processor are the golden file's, to 1e-4 elsewhere."""
    expected, found = golden("digits"), plain(GOLDEN["digits"]())
    if all(expected["machine"][fact] == found["machine"][fact] for fact in BITWISE):
        assert found["runs"] == expected["runs"]
    assert found["runs"].keys() == expected["runs"].keys()
    for cell, metrics in expected["runs"].items():
        for name, value in metrics.items():
            assert math.isclose(found["runs"][cell][name], value, rel_tol=1e-4, abs_tol=1e-4), (cell, name)
