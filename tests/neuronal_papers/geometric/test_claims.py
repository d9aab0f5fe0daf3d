"""Claims of the geometric paper on made-up results: they hold, fail and stay open where they must."""

import pytest

from neuronal_papers.geometric import images, motion, sweeps, uci
from neuronal_papers.geometric.comparison import is_best, sample
from neuronal_papers.judge import judge

LOW, HIGH = [0.80, 0.81, 0.82, 0.81], [0.90, 0.92, 0.91, 0.92]


def row(method, values, measure="accuracy", failed=(), **more):
    found = {"measure": measure, "values": values, "estimate": {"mean": sum(values) / len(values)}} if values else {}
    place = {"data": "cifar10", "batch": 8, "protocol": "clean", "failed": dict.fromkeys(map(str, failed), "nan")}
    return {"method": method, "seeds": list(range(len(values))), "rate": 0.1, **place, **found, **more}


def findings(claims, rows, **result):
    return judge(claims, {"command": "", "reproduction": "r", "reported": {}, "result": {"rows": rows, **result}})


def outcome(claim, rows, **result):
    return findings([claim], rows, **result)[0].outcome


ALIKE, HIGHER = {"SP": LOW, "BN": [0.89, 0.99, 0.85, 0.88]}, {"SP": [0.95, 0.96, 0.95, 0.96]}
CASES = [({"SP": LOW}, "holds"), (ALIKE, "inconclusive"), (HIGHER, "fails"), ({}, "not measured")]


@pytest.mark.parametrize(("others", "expected"), CASES)
def test_best_is_better_than_every_other_seed_by_seed(others, expected):
    rows = [row("GmP", HIGH), *(row(name, values) for name, values in others.items())]
    assert outcome(is_best("GmP", "best", "clean"), rows) == expected
    assert outcome(is_best("GmP", "best", "published"), rows) == "not measured"
    # The other way round where errors are compared.
    errors = [one | {"measure": "rmse", "values": [1 - value for value in one["values"]]} for one in rows]
    assert outcome(is_best("GmP", "best", "clean", errors=True), errors) == expected


def test_a_run_that_failed_is_one_at_chance_and_is_named():
    case = sample(row("GmP", [0.9, 0.9]), row("SP", [0.8], failed=[1]), "SP")
    assert case.values == pytest.approx([10, 80])
    assert case.note == "SP failed with seeds 1"
    assert not case.is_open
    # Errors have no chance level.
    assert sample(row("GmP", [1.0, 1.0], "rmse"), row("SP", [2.0], "rmse", failed=[1]), "SP").is_open
    assert sample(row("GmP", [], failed=[0]), row("SP", [], failed=[0]), "SP").values == ()


def sets(shift, protocol="clean", failed=()):
    """Six sets in units of their own; GmP is off by a share of each one's deviation."""
    rows = []
    for number, name in enumerate(uci.SETS):
        scale = 10.0**number
        base = [scale * (3 + 0.1 * seed) for seed in range(10)]
        own = [value + scale * (shift + 0.2 * (-1) ** seed) for seed, value in enumerate(base)]
        place = {"data": name, "batch": 1024, "protocol": protocol, "overlap": 0.25}
        rows += [row(other, base, "rmse", **place) for other in ("SP", "WN")]
        rows += [row("BN", base, "rmse", failed=failed, **place), row("GmP", own, "rmse", **place)]
    return rows


@pytest.mark.parametrize(("shift", "expected"), [(-0.4, "holds"), (0.4, "fails"), (0.02, "inconclusive")])
def test_sets_are_pooled_in_their_own_deviations(shift, expected):
    assert outcome(uci.CLAIMS[1], sets(shift)) == expected
    assert outcome(uci.CLAIMS[0], sets(shift, "published")) == expected
    # Errors have no chance level.
    assert outcome(uci.CLAIMS[1], sets(-0.4, failed=[11])) == "inconclusive"


@pytest.mark.parametrize(("rates", "expected"), [((1, 1), "holds"), ((0.1, 0.1), "fails"), ((1, 0.1), "inconclusive")])
def test_tuned_rates_are_ten_times_others_over_the_sets(rates, expected):
    rows = [
        row(name, [1.0, 2.0], "rmse", data=data, rate=rates[number % 2] if name == "GmP" else 0.1)
        for number, data in enumerate(uci.SETS)
        for name in ("SP", "WN", "BN", "GmP")
    ]
    assert outcome(uci.CLAIMS[2], rows) == expected


@pytest.mark.parametrize(("small", "large", "expected"), [(1, 5, "holds"), (5, 1, "fails"), (1, 1, "inconclusive")])
def test_leads_are_compared_between_the_smallest_and_the_largest_batches(small, large, expected):
    """Leads of GmP+IMN over SP in points."""
    rows = [row("GmP+IMN", [0.9] * 4, batch=batch) for batch in (256, 1024)]
    for batch, lead, noise in ((256, small, (0.1, -0.1, 0, 0)), (1024, large, (0, 0, 0.1, -0.1))):
        rows.append(row("SP", [0.9 - (lead + one) / 100 for one in noise], batch=batch))
    assert outcome(images.VGG_CLAIMS[2], rows) == expected


@pytest.mark.parametrize(
    ("own", "expected"),
    [([[0.5, 0.9, 0.9]] * 3, "holds"), ([[0.1, 0.2, 0.3]] * 3, "fails"), ([[0.5, 0.7, 0.9]] * 3, "inconclusive")],
)
def test_fastest_needs_the_fewest_epochs_to_the_best_of_the_others(own, expected):
    """BN gets to 0.9 in the third epoch; a seed that never gets there has one epoch more."""
    curves = {"BN": [[0.5, 0.7, 0.9]] * 3, "GmP+IMN": own}
    rows = [row(name, [0.9] * 3, batch=1024, curves={"followed_accuracy": curve}) for name, curve in curves.items()]
    assert outcome(images.VGG_CLAIMS[3], rows) == expected


@pytest.mark.parametrize(
    ("steps", "expected"), [([1, 1.2, 1.1], "holds"), ([30, 40, 50], "fails"), ([1, 3, 9], "inconclusive")]
)
def test_least_is_less_than_every_other_seed_by_seed(steps, expected):
    rows = [row(name, [0.8] * 3, largest_angle=own) for name, own in (("SP", [3, 3.1, 3]), ("GmP", steps))]
    assert outcome(motion.BANANA_CLAIMS[2], [], same_rates=rows) == expected
    # Nothing was measured at that rate.
    assert outcome(motion.BANANA_CLAIMS[2], [], same_rates=[one | {"rate": 1} for one in rows]) == "not measured"


def start(name, width, values, signal=0.5, **more):
    own = {"start": name, "width": width, "signal": signal, "values": values, "seeds": list(range(len(values)))}
    return own | {"failed": 0, "overlap": 0.0} | more


def test_claims_about_starts():
    glorot = [start("SP, Glorot", width, [4.0, 5.0, 6.0, 5.0]) for width in (10, 100)]
    good = [start("GmP, scale 1", width, [4.01, 5.0, 5.99, 5.01]) for width in (10, 100)]
    assert [one.outcome for one in findings(sweeps.START_CLAIMS, glorot + good)] == ["holds"] * 3
    bad = [good[0], start("GmP, scale 1", 100, [8.0, 10.1, 12.0, 10.0], 1.0)]
    own = sweeps.START_CLAIMS
    assert [one.outcome for one in findings(own, glorot + bad)] == ["false as stated", "fails", "fails"]
    failed = [good[0], good[1] | {"failed": 1}]
    assert findings(own, glorot + failed)[1].outcome == "inconclusive"
    # Splits of the same rows say less than their spread: a difference of 4 percent.
    near = [start("GmP, scale 1", 10, [4.1, 5.2, 6.15, 5.2], overlap=by) for by in (0.0, 2.0)]
    assert [outcome(own[2], [glorot[0], one]) for one in near] == ["holds", "inconclusive"]
