"""Claims of the geometric paper on made-up results: they hold, fail and stay open where they must."""

import pytest

from neuronal_papers.geometric import images, motion, uci
from neuronal_papers.geometric.comparison import FOUR, is_best, sample
from neuronal_papers.judge import judge

LOW, HIGH = [0.80, 0.81, 0.82, 0.81], [0.90, 0.92, 0.91, 0.92]


def each(*cases):
    """A case for each outcome there is."""
    return list(zip(cases, ("holds", "fails", "inconclusive"), strict=True))


def row(method, values, measure="accuracy", failed=(), **more):
    found = {"measure": measure, "values": values, "estimate": {"mean": sum(values) / len(values)}} if values else {}
    place = {"data": "cifar10", "batch": 8, "protocol": "clean", "failed": dict.fromkeys(map(str, failed), "nan")}
    return {"method": method, "seeds": list(range(len(values))), "rate": 0.1, **place, **found, **more}


def outcomes(claims, rows, **result):
    result = {"command": "", "reproduction": "r", "reported": {}, "result": {"rows": rows, **result}}
    return [finding.outcome for finding in judge(claims, result)]


ALIKE, HIGHER = {"SP": LOW, "BN": [0.89, 0.99, 0.85, 0.88]}, {"SP": [0.95, 0.96, 0.95, 0.96]}


@pytest.mark.parametrize(("others", "expected"), [*each({"SP": LOW}, HIGHER, ALIKE), ({}, "not measured")])
def test_best_is_better_than_every_other_seed_by_seed(others, expected):
    rows = [row("GmP", HIGH), *(row(name, values) for name, values in others.items())]
    assert outcomes(is_best("GmP", "best"), rows) == ["not measured", expected]
    # The other way round where errors are compared.
    errors = [one | {"measure": "rmse", "values": [1 - value for value in one["values"]]} for one in rows]
    assert outcomes(is_best("GmP", "best", errors=True), errors) == ["not measured", expected]


def test_controls_have_a_claim_of_their_own():
    rows = [row("GmP+IMN", HIGH), row("SP", LOW), row("SP+IMN", [0.95, 0.96, 0.95, 0.96])]
    assert outcomes(is_best("GmP+IMN", "best", protocols=("clean",)), rows) == ["holds"]
    assert outcomes(is_best("GmP+IMN", "best", protocols=("clean",), of_controls=True), rows) == ["fails"]


def test_a_run_that_failed_is_one_at_chance_and_is_named():
    case = sample(row("GmP", [0.9, 0.9]), row("SP", [0.8], failed=[1]), "SP")
    assert (case.values, case.note, case.is_open) == (pytest.approx([10, 80]), "SP failed with seeds 1", False)
    # Errors have no chance level.
    assert sample(row("GmP", [1.0, 1.0], "rmse"), row("SP", [2.0], "rmse", failed=[1]), "SP").is_open
    assert sample(row("GmP", [], failed=[0]), row("SP", [], failed=[0]), "SP").values == ()


def sets(shift, failed=()):
    """Six sets in units of their own by both protocols; GmP is off by a share of each one's deviation."""
    rows = []
    for number, name in enumerate(uci.SETS):
        base = [10.0**number * (3 + 0.1 * seed) for seed in range(10)]
        own = [value + 10.0**number * (shift + 0.2 * (-1) ** seed) for seed, value in enumerate(base)]
        for protocol in ("published", "clean"):
            place = {"data": name, "batch": 1024, "protocol": protocol, "overlap": 0.25}
            rows += [row(other, base, "rmse", **place) for other in ("SP", "WN")]
            rows += [row("BN", base, "rmse", failed=failed, **place), row("GmP", own, "rmse", **place)]
    return rows


@pytest.mark.parametrize(("shift", "expected"), each(-0.4, 0.4, 0.02))
def test_sets_are_pooled_in_their_own_deviations(shift, expected):
    assert outcomes(uci.TABLE3.claims[:2], sets(shift)) == [expected] * 2
    # Errors have no chance level.
    assert outcomes(uci.TABLE3.claims[:2], sets(-0.4, failed=[11])) == ["inconclusive"] * 2


@pytest.mark.parametrize(("rates", "expected"), each((1, 1), (0.1, 0.1), (1, 0.1)))
def test_tuned_rates_are_ten_times_others_over_the_sets(rates, expected):
    rows = []
    for number, data in enumerate(uci.SETS):
        rows += [row(name, [1.0, 2.0], "rmse", data=data) for name in FOUR[:-1]]
        rows.append(row("GmP", [1.0, 2.0], "rmse", data=data, rate=rates[number % 2]))
    assert outcomes(uci.TABLE3.claims[2:3], rows) == [expected]


@pytest.mark.parametrize(("leads", "expected"), each((1, 5), (5, 1), (1, 1)))
def test_leads_are_compared_between_the_smallest_and_the_largest_batches(leads, expected):
    """Leads of GmP+IMN over SP in points."""
    rows = [row("GmP+IMN", [0.9, 0.91], batch=batch) for batch in (256, 1024)]
    rows += [row("SP", [0.9 - a / 100, 0.91 - a / 100], batch=b) for a, b in zip(leads, (256, 1024), strict=True)]
    assert outcomes(images.TABLE2.claims[2:3], rows) == [expected]


def test_what_is_not_finished_decides_nothing():
    curves = {"curves": {"followed_accuracy": [[0.5, 0.9]]}}
    best = [row("GmP+IMN", [0.9], batch=batch, **curves) for batch in (256, 1024)]
    others = row("SP", [0.8], batch=256), row("SP", [0.7, 0.6], batch=1024)
    assert outcomes(images.LARGE_BATCHES, best) == ["not measured"] * 2
    assert outcomes(images.LARGE_BATCHES[:1], [*best, *others]) == ["not measured"]


@pytest.mark.parametrize(("last", "expected"), each((0.9, 0.9), (0.2, 0.3), (0.7, 0.9)))
def test_fastest_needs_the_fewest_epochs_to_the_best_of_the_others(last, expected):
    """BN gets to 0.9 in the third epoch; a seed that never gets there has one epoch more."""
    curves = {"BN": [[0.5, 0.7, 0.9]] * 3, "GmP+IMN": [[0.5, *last]] * 3}
    rows = [row(name, [0.9] * 3, batch=1024, curves={"followed_accuracy": curve}) for name, curve in curves.items()]
    assert outcomes(images.TABLE2.claims[3:], rows) == [expected]


@pytest.mark.parametrize(("steps", "expected"), each((1, 1.2, 1.1), (30, 40, 50), (1, 3, 9)))
def test_least_is_less_than_every_other_seed_by_seed(steps, expected):
    rows = [row(name, [0.8] * 3, largest_angle=own) for name, own in (("SP", [3, 3.1, 3]), ("GmP", steps))]
    assert outcomes(motion.FIGURE3.claims[2:], [], same_rates=rows) == [expected]
    # Nothing was measured at that rate.
    assert outcomes(motion.FIGURE3.claims[2:], [], same_rates=[one | {"rate": 1} for one in rows]) == ["not measured"]


def start(width, values, signal=0.5, **more):
    own = {"start": "GmP, scale 1", "width": width, "signal": signal, "values": values, "failed": 0, "overlap": 0.0}
    return own | {"seeds": list(range(len(values)))} | more


def test_claims_about_starts():
    claims, small = uci.INITIALISATION.claims, start(10, [4.01, 5.0, 5.99, 5.01])
    other = start(10, [1.0] * 4, 9.0, start="SP, Glorot")
    assert outcomes(claims, [other, small, start(100, [4.0, 5.0, 6.0, 5.0])]) == ["holds", "holds"]
    assert outcomes(claims, [small, start(100, [8.0, 10.1, 12.0, 10.0], 1.0)]) == ["false as stated", "fails"]
    failed = [start(100, [4.0, 5.0, 6.0, 5.0], failed=1), start(100, [], failed=4)]
    assert [outcomes(claims[1:], [small, one])[0] for one in failed] == ["inconclusive", "not measured"]
    # Splits of the same rows say less than their spread: a difference of 14 percent.
    near = [start(100, [4.57, 5.7, 6.83, 5.71], overlap=by) for by in (0.0, 2.0)]
    assert [outcomes(claims[1:], [small, one])[0] for one in near] == ["holds", "inconclusive"]
