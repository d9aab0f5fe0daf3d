"""What is measured on a GPU only, as far as it can be told without one."""

import json
from pathlib import Path

import pytest

from neuronal.bench.gpu.implicit import CASES, special_functions

RESULTS = Path(__file__).parents[2] / "results/bench/implicit_blocks_h200.json"


def test_the_cases_are_those_of_the_networks():
    stages = [(case.channels, case.side) for case in CASES if case.name.startswith("ResNet")]
    assert stages == [(64, 32), (128, 16), (256, 8), (512, 4)]
    assert {case.batch for case in CASES if case.name.startswith("UCN")} == {128}


@pytest.mark.parametrize(("units", "most"), [(16, 10), (64, 10), (256, 100), (1024, 100)])
def test_long_rows_need_few_special_functions(units, most):
    """Pair by pair it would be one per unit and unit, in every step."""
    assert 0 < special_functions(units, 2.0) <= 3 * units * min(units + 1, most * 1000 / units)


def test_the_record_has_every_case():
    record = json.loads(RESULTS.read_text())
    assert [block["case"]["name"] for block in record["blocks"]] == [case.name for case in CASES]
    assert all(block["converged"] == 1.0 for block in record["blocks"])
