"""What peers have in common: packages that may be missing, failures that are expected, and a table of counts at the end."""

import json
import shlex
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from neuronal.experiments.environment import environment
from neuronal.nn.families import FAMILIES

KINDS = ("Linear", "Conv1d", "Conv2d", "Conv3d")
OURS = "zero_bias geometric farkas implicit_bias"
# Without a coupling there would be nothing to solve.
COUPLED = {"implicit_bias": {"coupling": -0.05}}
# A case counts in the row that its file names (``ROW`` or ``row_of``), in the column of its parameter `family`. With each
# row, what is wanted of the families of ours, where it is a number.
ROWS = {
    "torch's module tests": (310, 308, 294, 296),
    "ecosystem, layers": (212, 196, 196, 196),
    "ecosystem, converted": (41, 38, 38, 36),
    "timm fx": (120, 120, 120, 24),
    "clients, text replaced": None,
    "clients, refused in one line": None,
    "clients, converted": None,
}
# What of the extra `peers` a row may depend on.
PACKAGES = (
    *("timm", "torchvision", "captum", "opacus", "onnxruntime", "onnxscript", "peft", "torchao", "transformers"),
    *("lightning", "skorch", "fvcore", "ptflops", "torchinfo", "torchmetrics", "auto_LiRPA"),
)


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


def pytest_addoption(parser):
    parser.addoption("--counts", metavar="FILE", help="put the rows of tests/peers that ran into this JSON file")


def pytest_collection_modifyitems(items):
    for item in items:
        if "family" in getattr(getattr(item, "callspec", None), "params", ()):
            params = item.callspec.params
            row = item.module.row_of(**params) if hasattr(item.module, "row_of") else getattr(item.module, "ROW", None)
            if row:
                item.user_properties.append(("peers", (row, params["family"])))


def pytest_terminal_summary(terminalreporter, config):
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
    if path := config.getoption("--counts", None):
        write(Path(path), counts, ["python", "-m", "pytest", *config.invocation_params.args])
    terminalreporter.section("peers: passed of those that ran")
    terminalreporter.write_line(f"{'':30}" + "".join(f"{family:>14}" for family in FAMILIES))
    for row in ROWS:
        cells = [counts.get((row, family)) for family in FAMILIES]
        if any(cells):
            line = "".join(f"{f'{cell[0]}/{cell[1]}' if cell else '-':>14}" for cell in cells)
            terminalreporter.write_line(f"{row:30}{line}")


def write(path, counts, command):
    """The rows that were counted, beside those the file has already."""
    rows = json.loads(path.read_text()) if path.exists() else {}
    machine = {**environment(), **{package: installed(package) for package in PACKAGES}}
    for row, goals in ROWS.items():
        found = {family: counts[row, family] for family in FAMILIES if (row, family) in counts}
        if found:
            goal = {} if goals is None else {"goal": dict(zip(OURS.split(), goals, strict=True))}
            passed = {"passed": {family: passed for family, (passed, _) in found.items()}}
            of = {"of": {family: total for family, (_, total) in found.items()}}
            rows[row] = {**goal, **passed, **of, "command": shlex.join(command), "environment": machine}
    path.write_text(json.dumps({row: rows[row] for row in ROWS if row in rows}, indent=2) + "\n")


def installed(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
