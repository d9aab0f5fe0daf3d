import io
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from neuronal.experiments.cost import Costs
from neuronal.experiments.record import Failure
from neuronal.report.comparison import Comparison
from neuronal.report.render_terminal import print_blocks
from neuronal.report.terminal import Bars, comparison_table
from neuronal.train.loop import Epoch
from neuronal.train.timing import StepTime


def console(width=80, terminal=False):
    return Console(file=io.StringIO(), width=width, force_terminal=terminal)


def test_the_table_fits_eighty_columns_with_the_longest_names(quick_records):
    names = {"standard": "standard", "zero_bias": "implicit_bias"}
    records = [replace(r, recipe=replace(r.recipe, family=names[r.recipe.family])) for r in quick_records]
    records = [replace(r, metrics={**r.metrics, "parameters": 25_557_032}) for r in records]
    screen = console()
    times = Costs({records[1].recipe.fingerprint(): StepTime(1, 12.345, 1, 1)}, {})
    print_blocks(screen, [comparison_table(Comparison.from_records(records, step_times=times))])
    text = screen.file.getvalue()
    assert "…" not in text
    row = next(line for line in text.splitlines() if "implicit_bias" in line)
    assert row.split()[-2:] == ["25,557,032", "12.35×"]


def test_bars_leave_one_line_per_cell(quick_study, quick_records, tmp_path):
    for terminal in (False, True):
        screen = console(terminal=terminal)
        with Bars(screen) as bars:
            bars.sweep_started(quick_study.cells())
            bars.cell_started(quick_study.cells()[0])
            bars.epoch_ended(quick_study.cells()[0], Epoch(1, 10, 0.5, 0.5, 0.1))
            bars.cell_ended(quick_records[0], reused=False)
            bars.cell_ended(replace(quick_records[1], failure=Failure(7, 0.1, "nan at step 7")), reused=True)
            bars.set_aside(Path("x.damaged1"), "not JSON [1]")
        text = screen.file.getvalue()
        # Bars with the time left are for terminals; a log gets the lines alone.
        assert ("left" in text) == terminal
        assert ("1/4" in text or "2/4" in text) == terminal
        assert "standard seed 0: " in text
        assert "nan at step 7 (kept from before)" in text
        assert "x.damaged1" in text
        assert "not JSON [1]" in text
