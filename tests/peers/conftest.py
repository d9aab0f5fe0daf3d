"""What peers have in common: packages that may be missing, failures that are expected, and a table of counts at the end."""

from importlib.util import find_spec

import pytest
import torch

from neuronal.nn.families import FAMILIES

KINDS = ("Linear", "Conv1d", "Conv2d", "Conv3d")
OURS = "zero_bias geometric farkas implicit_bias"
# Without a coupling there would be nothing to solve.
COUPLED = {"implicit_bias": {"coupling": -0.05}}
# A case counts in the row that its file names, in the column of its parameter `family`.
ROWS = ("torch's module tests", "ecosystem, layers", "ecosystem, converted", "timm fx", "clients")


def need(package):
    """Skips a test without ``package``."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install 'neuronal[peers]'")


def case(*values, expected, slow=False):
    """One case of a parametrised test, marked as slow, and as failing if ``expected`` has a reason for that."""
    marks = [pytest.mark.slow] if slow else []
    if expected:
        marks.append(pytest.mark.xfail(reason=expected, strict=True))
    return pytest.param(*values, marks=marks, id="-".join(str(getattr(value, "__name__", value)) for value in values))


def expected(*rows):
    """A table of failures, from rows of checks, families, why they fail, and the kinds of layers, where it is not all."""
    return {
        (check, family): (why, *kinds)
        for checks, families, why, *kinds in rows
        for check in checks.split()
        for family in families.split()
    }


def reason(table, check, family, *places):
    """Why ``check`` fails, if it is expected to."""
    why, *kinds = table.get((check, family), ("",))
    return why if not kinds or set(places) & set(kinds[0].split()) else ""


def checks(kind):
    """Names of the checks of a class, without what marks them as such."""
    return [name.removeprefix("check_") for name in vars(kind) if name.startswith("check_")]


def close(found, expected, tolerance=1e-4):
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


def pytest_collection_modifyitems(items):
    for item in items:
        row = getattr(item.module, "ROW", None)
        if row and hasattr(item, "callspec"):
            item.user_properties.append(("peers", (row, item.callspec.params["family"])))


def pytest_terminal_summary(terminalreporter):
    counts = {}
    for outcome in ("passed", "failed", "xfailed"):
        for report in terminalreporter.stats.get(outcome, ()):
            place = dict(report.user_properties).get("peers")
            if place and (report.when == "call" or outcome != "passed"):
                passed, total = counts.get(tuple(place), (0, 0))
                is_passed = outcome == "passed" or "XPASS(strict)" in str(report.longrepr)
                counts[tuple(place)] = passed + is_passed, total + 1
    if not counts:
        return
    terminalreporter.section("peers: passed of those that ran")
    terminalreporter.write_line(f"{'':22}" + "".join(f"{family:>14}" for family in FAMILIES))
    for row in ROWS:
        cells = [counts.get((row, family)) for family in FAMILIES]
        if any(cells):
            line = "".join(f"{f'{cell[0]}/{cell[1]}' if cell else '-':>14}" for cell in cells)
            terminalreporter.write_line(f"{row:22}{line}")
