"""Figures of the geometric paper on made-up results, read back from the axes."""

from contextlib import contextmanager

import pytest

from neuronal.report.papers import drawings, geometric_figures

METHODS = ("SP", "WN", "BN", "GmP")


@pytest.fixture
def panels(monkeypatch):
    """The axes of every figure drawn, in order."""
    kept, real = [], geometric_figures.blank

    @contextmanager
    def keep(name):
        with real(name) as sheet:
            yield sheet
            kept.append(sheet.figure.axes)

    monkeypatch.setattr(geometric_figures, "blank", keep)
    return kept


def picture(method, rate, inputs):
    both = {"method": method, "rate": rate, "every": 2, "test": 0.5, "measure": "rmse" if inputs == 1 else "accuracy"}
    if inputs == 1:
        shown = {"value": [1.0, 2.0, 3.0], "value_at_start": [0.0, 0.5, 1.0], "distance": [2.0**-15, 0.0, 2.0**4]}
    else:
        shown = {"value": [-1.0, -1.0, 1.0, 1.0], "angle": [0.01, 0.0, 100.0]}
    return both | shown | {"places": [[0, [[0.0] * inputs] * 3], [8, [[1.0] * inputs] * 3]]}


def motion(inputs, rates=(0.1,)):
    drawn = {"low": [-1.0] * inputs, "high": [1.0] * inputs, "points": [[0.0] * inputs] * 2, "answers": [0, 1]}
    drawn |= {"truth": [[-1.0, 1.0], [1.0, 2.0]]} if inputs == 1 else {}
    pictures = [picture(method, rate, inputs) for method in METHODS for rate in rates]
    result = {"inputs": inputs, "drawn": drawn, "pictures": pictures}
    return {"result": result, "reproduction": "r", "procedure": "hinge_motion"}


@pytest.mark.parametrize(("inputs", "others"), [(1, ("Predictions", "Points")), (2, ("Ways of the units", "Borders"))])
def test_every_picture_has_one_rate_and_all_methods(panels, inputs, others):
    found = drawings(motion(inputs, (0.01, 0.1)))
    assert [one.title for one in found] == [
        f"{what}, all at rate {rate}" for rate in ("0.01", "0.1") for what in ("Motion", *others)
    ]
    for axes in panels:
        if len(axes) == 1:
            assert [line.get_label() for line in axes[0].get_lines()] == list(METHODS)
        else:
            assert [panel.get_title().partition(":")[0] for panel in axes] == list(METHODS)


def test_steps_without_motion_are_left_out_and_ticks_are_powers_of_two(panels):
    found = drawings(motion(1))
    (axes,) = panels[0]
    assert list(axes.get_lines()[0].get_xdata()) == [2, 4, 6]
    assert str(axes.get_lines()[0].get_ydata()[1]) == "nan"
    assert "2⁻¹" in found[0].svg
    assert "e-05" not in found[0].svg


def test_a_prediction_stands_beside_that_of_the_start_with_its_error(panels):
    drawings(motion(1))
    lines = {line.get_label(): list(line.get_ydata()) for line in panels[1][3].get_lines()}
    assert lines["before training"] == [0.0, 0.5, 1.0]
    assert lines["after training"] == [1.0, 2.0, 3.0]
    assert panels[1][3].get_title() == "GmP: RMSE 0.500"


def test_a_border_has_its_accuracy_and_a_way_one_line_per_unit(panels):
    drawings(motion(2))
    # Drawn together, and the second is done first.
    borders, ways = panels[1], panels[2]
    assert borders[0].get_title() == "SP: 50.00% right"
    # Three units, and their ends.
    assert [list(line.get_xdata()) for line in ways[0].get_lines()] == [[0.0, 1.0]] * 3 + [[1.0] * 3]


def compared(measure, *places):
    rows = [
        {"data": data, "batch": batch, "protocol": protocol, "method": method, "measure": measure}
        | {"estimate": {"mean": scale * (1 + number), "standard_error": 0.1 * scale}}
        for data, batch, scale in places
        for number, method in enumerate(METHODS)
        for protocol in ("published", "clean")
    ]
    return {"result": {"rows": rows}, "reproduction": "r", "title": "t", "procedure": "protocol_table"}


def test_every_set_has_a_panel_and_errors_have_their_own_axis(panels):
    drawings(compared("rmse", *((name, 8, 10.0**n) for n, name in enumerate("abcde"))))
    axes = panels[0]
    assert [panel.get_title() for panel in axes] == list("abcde")
    for n, panel in enumerate(axes):
        low, high = panel.get_ylim()
        assert 0 < low < 10.0**n < 4 * 10.0**n < high < 6 * 10.0**n
        assert [bar.lines[0].get_ydata()[0] for bar in panel.containers] == [10.0**n * m for m in (1, 2, 3, 4)]


def test_accuracies_of_several_batches_share_an_axis_and_one_set_has_a_narrow_figure(panels):
    one, _ = drawings(compared("accuracy", ("d", 8, 0.1)))
    three, _ = drawings(compared("accuracy", *(("d", batch, batch / 100) for batch in (8, 16, 24))))
    (alone,), axes = panels[0], panels[2]
    assert [bar.lines[0].get_ydata()[0] for bar in alone.containers] == pytest.approx([10, 20, 30, 40])
    assert [panel.get_title() for panel in axes] == ["batches of 8", "batches of 16", "batches of 24"]
    assert len({panel.get_ylim() for panel in axes}) == 1
    assert alone.figure.get_size_inches()[0] < axes[0].figure.get_size_inches()[0] / 2
    assert one.svg.count(">GmP<") == three.svg.count(">GmP<") == 1


def test_a_curve_is_seen_through_the_one_that_lies_on_it(panels):
    answer = compared("accuracy", ("d", 8, 0.1))
    for row in answer["result"]["rows"]:
        row["curves"] = {"accuracy": [[0.1, 0.2]], "loss": [[2.0, 1.0]], "followed_accuracy": [[0.1, 0.2]]}
    drawings(answer)
    for axes in panels[2][:3]:
        # Those drawn first are below.
        below, above, *_ = axes.get_lines()
        assert list(below.get_ydata()) == list(above.get_ydata())
        assert (below.is_dashed(), above.is_dashed()) == (False, True)


def test_widths_have_bars_of_two_standard_errors(panels):
    rows = [
        {"start": start, "width": width, "signal": 1.0, "signal_error": 0.1}
        | {"estimate": {"mean": 4.0, "standard_error": 0.25}}
        for start in ("SP, Glorot", "GmP, scale 1")
        for width in (10, 100)
    ]
    drawings({"result": {"rows": rows}, "reproduction": "r", "procedure": "widths"})
    for (axes,), (mean, error) in zip(panels, ((1.0, 0.1), (4.0, 0.25)), strict=True):
        for bar in axes.containers:
            for path in bar.lines[2][0].get_segments():
                assert list(path[:, 1]) == pytest.approx([mean - 2 * error, mean + 2 * error])
    # Results of before have no error of the signal.
    drawings(
        {"result": {"rows": [row | {"signal_error": None} for row in rows]}, "reproduction": "r"}
        | {"procedure": "widths"}
    )
