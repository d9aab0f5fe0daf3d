"""Methods against each other on several sets, as published and cleanly (Tables 1, 2 and 3 of the geometric paper)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING, Any

from neuronal.experiments.compare import difference
from neuronal.experiments.procedures.finding import Finding, Verdict, all_or_some, ours
from neuronal.experiments.protocols import against, both, group_of, groups_of, in_top5
from neuronal.experiments.reproduction import Setting

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

UNITS = {"rmse": (1.0, "", ".3f"), "accuracy": (100.0, "%", ".2f"), "top5": (100.0, "%", ".2f")}
"""Factor, unit and digits a measure is written with."""
WHAT = {"rmse": "lowest RMSE", "accuracy": "highest accuracy", "top5": "highest top-5 accuracy"}
TEN_TIMES = 9.9
"""A rate is ten times another from here on."""
NEAR = 0.99
"""A curve is there once it has this share of the best of all other methods."""
FIGURE4 = 1024
"""Its batch size: how fast networks learn with others is ours."""
NETWORKS = {"vgg6": "VGG-6", "resnet18": "ResNet-18", "resnet50": "ResNet-50"}
"""Those two tables have the same data for, and that are named in claims therefore."""


JUDGED = (
    "Best is ahead of every other method in the mean, and beyond chance against all: paired intervals of Student's t at "
    "95%, corrected for the number of methods (not of sets) and, where seeds split the same rows, for what their splits "
    "have in common (Nadeau and Bengio, 2003). Beyond chance against some of them is a part; against none it is not "
    "reproduced, as one method is always ahead. A method that failed with every seed is beaten, and named. Best on all sets "
    "is a part where it is best, beyond chance, on some. A tuned rate is ten times that of others if it is so for each of "
    "them. Reported means are met within two standard errors of both, a reported run within two deviations of a run. Where "
    "there are curves, fastest is who needs the fewest epochs to 99% of the highest mean accuracy that any method but the "
    "paper's gets to on the data followed; as fast as another is a part. The paper shows that for batches of 1,024. A "
    "method is further ahead with larger batches if its lead over every other neuron is larger with the largest than "
    "with the smallest: judged, seed by seed, as best is."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Rows of :func:`neuronal.experiments.protocols.both`, and the paper's method less the others, seed by seed.

    Where there are top-5 accuracies, that is done for them too (``top5_differences``).

    ``options``: those of :func:`both`, and ``best``, the method that is best according to the paper.
    """
    rows, best = both(setting.recipes, setting.options, work), setting.options["best"]
    found = {"rows": rows, "differences": against(rows, best), "best": best}
    five = against(in_top5(rows), best)
    return found | ({"top5_differences": five} if five else {})


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Whether the paper's method is best, and fastest, set by set and protocol by protocol; and the reported numbers."""
    result, network = answer["result"], _network(answer)
    found: list[Finding] = []
    five, best = in_top5(result["rows"]), result["best"]
    for rows, differences in ((result["rows"], result["differences"]), (five, result.get("top5_differences", ()))):
        for group in groups_of(rows):
            own = [row for row in rows if group_of(row) == group]
            gaps = [gap for gap in differences if group_of(gap) == group]
            if len(own) > 1 and any(row["method"] == best for row in own):
                found.append(_is_best(own, gaps, best, network))
    found += _on_all(result["rows"], result["differences"], best) + _ten_times(result["rows"], best, network)
    found += with_larger_batches(result["rows"], best, network) + fastest(result["rows"], best, network)
    reported = answer["reported"]
    return found + _reported(result["rows"], reported) + _reported(five, reported.get("top5", {}))


def _network(answer: Mapping[str, Any]) -> str:
    """Its name in claims, and how long it was trained; nothing where there is no other to take it for."""
    for one in answer.get("recipes", ()):
        if one["model"] in NETWORKS:
            return f"{NETWORKS[one['model']]}, {'at most ' if one['stop_after'] else ''}{one['epochs']} epochs"
    return ""


def _place(*names: str) -> str:
    """What a claim is about."""
    return ", ".join(name for name in names if name)


def fastest(rows: Sequence[Mapping[str, Any]], best: str, network: str = "") -> list[Finding]:
    """Figure 4: the epochs each method needs to nearly the best accuracy of all but the paper's.

    Judged by the data followed; what training images say stands beside it.
    """
    found = []
    for group in groups_of(rows):
        own = {row["method"]: row["curves"] for row in rows if group_of(row) == group and "curves" in row}
        if best not in own or len(own) < 2:
            continue
        level, needed = _epochs(own, "followed_accuracy", best)
        rival = min(epochs for name, epochs in needed.items() if name != best)
        verdict: Verdict = "not reproduced"
        if needed[best] <= rival:
            verdict = "reproduced" if needed[best] < rival else "reproduced in part"
        data, batch, protocol = group
        length = max(len(curve) for curves in own.values() for curve in curves["followed_accuracy"])
        followed = "held-out" if protocol == "clean" else "test"
        numbers = f"of {length} epochs, mean over seeds: to {level:.1%} on {followed} images {_counts(needed)}"
        if all("accuracy" in curves for curves in own.values()):
            level, needed = _epochs(own, "accuracy", best)
            numbers += f"; to {level:.1%} on training images {_counts(needed)}"
        claim = f"{_place(network, data, f'batches of {batch}')}: {best} converges fastest ({protocol})"
        one = Finding(claim, verdict, numbers)
        found.append(one if batch == FIGURE4 else ours(one))
    return found


def _epochs(curves: Mapping[str, Mapping[str, Any]], key: str, best: str) -> tuple[float, dict[str, float]]:
    """Nearly the best mean accuracy of all but one method, and the epochs each needs to it."""
    means = {name: [fmean(column) for column in zip(*as_long(own[key]), strict=True)] for name, own in curves.items()}
    level = NEAR * max(max(curve) for name, curve in means.items() if name != best)
    return level, {
        name: next((i for i, value in enumerate(curve, 1) if value >= level), inf) for name, curve in means.items()
    }


def _counts(needed: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {'never' if count == inf else count}" for name, count in needed.items())


def with_larger_batches(rows: Sequence[Mapping[str, Any]], best: str, network: str = "") -> list[Finding]:
    """Whether a method is further ahead of the other neurons with the largest batches than with the smallest."""
    found = []
    for data, protocol in dict.fromkeys((row["data"], row["protocol"]) for row in rows):
        own = [row for row in rows if (row["data"], row["protocol"]) == (data, protocol) and "values" in row]
        sizes = sorted({row["batch"] for row in own if row["method"] == best})
        others = [name for name in dict.fromkeys(row["method"] for row in own) if _neuron(name) != _neuron(best)]
        values = {(row["method"], row["batch"]): dict(zip(row["seeds"], row["values"], strict=True)) for row in own}
        others = [name for name in others if all((name, size) in values for size in sizes)]
        if len(sizes) < 2 or not others:
            continue
        measure, gaps, leads = own[0]["measure"], [], []
        factor, _, digits = UNITS[measure]
        for name in others:
            each = {size: _minus(values[best, size], values[name, size]) for size in sizes}
            if not set(each[sizes[0]]) & set(each[sizes[-1]]):
                continue
            gap = difference(each[sizes[-1]], each[sizes[0]], comparisons=len(others))
            gaps.append(asdict(gap) | {"is_shown": gap.is_shown, "against": name})
            means = (format(factor * fmean(lead.values()), f"+{digits}") for lead in each.values() if lead)
            leads.append(f"{name} {', '.join(means)}")
        more, less = _shown(gaps, measure)
        numbers = f"lead with batches of {', '.join(map(str, sizes))} over {'; '.join(leads)}"
        numbers += f"; more beyond chance over {', '.join(more)}" if more else "; none more beyond chance"
        numbers += f"; less beyond chance over {', '.join(less)}" if less else ""
        claim = f"{_place(network, data)}: {best} is further ahead with larger batches ({protocol})"
        found.append(Finding(claim, judged(gaps, measure), f"{numbers} ({_seeds(gaps)} seeds)"))
    return found


def _neuron(name: str) -> str:
    """The method without its norm of inputs or outputs."""
    return name.partition("+")[0]


def _minus(values: Mapping[int, float], others: Mapping[int, float]) -> dict[int, float]:
    return {seed: value - others[seed] for seed, value in values.items() if seed in others}


def as_long(curves: Sequence[Sequence[float]]) -> list[list[float]]:
    """All as long as the longest; one that stopped early stays at its last value."""
    length = max(map(len, curves))
    return [[*curve, *[curve[-1]] * (length - len(curve))] for curve in curves]


def _is_best(rows: Sequence[Mapping[str, Any]], gaps: Sequence[Mapping[str, Any]], best: str, network: str) -> Finding:
    """Whether a method is the best of a group."""
    data, batch, protocol = group_of(rows[0])
    sound = [row for row in rows if "values" in row]
    measure = sound[0]["measure"] if sound else "accuracy"
    batches = "" if batch is None or measure == "rmse" else f"batches of {batch}"
    claim = f"{_place(network, data, batches)}: {best} has the {WHAT[measure]} ({protocol})"
    lost = [row["method"] for row in rows if "values" not in row]
    if best in lost:
        return Finding(claim, "not reproduced", f"{best} failed with every seed")
    factor, unit, digits = UNITS[measure]
    parts = [", ".join(f"{r['method']} {format(factor * r['estimate']['mean'], digits)}{unit}" for r in sound)]
    ahead_of, behind = _shown(gaps, measure)
    parts.append(f"beyond chance against {', '.join(ahead_of)}" if ahead_of else "none beyond chance")
    parts += [f"worse beyond chance than {', '.join(behind)}"] if behind else []
    parts += [f"{', '.join(lost)} failed with every seed"] if lost else []
    return Finding(claim, judged(gaps, measure), f"{'; '.join(parts)} ({_seeds(gaps)} seeds)")


def _seeds(gaps: Sequence[Mapping[str, Any]]) -> str:
    """How many both methods of a pair have."""
    counts = sorted({gap["num_seeds"] for gap in gaps})
    return " to ".join(str(count) for count in (counts[:1] + counts[1:][-1:])) or "no"


def _lead(gap: Mapping[str, Any], measure: str) -> float:
    """By how much the first method is better; nothing where all that is left is rounding."""
    lead = -gap["mean"] if measure == "rmse" else gap["mean"]
    return 0.0 if abs(lead) < 1e-12 else lead


def _shown(gaps: Sequence[Mapping[str, Any]], measure: str) -> tuple[list[str], list[str]]:
    """Methods the first one is better than beyond chance, and those it is worse than."""
    shown = [gap for gap in gaps if gap["is_shown"]]
    better = [gap["against"] for gap in shown if _lead(gap, measure) > 0]
    return better, [gap["against"] for gap in shown if _lead(gap, measure) < 0]


def judged(gaps: Sequence[Mapping[str, Any]], measure: str) -> Verdict:
    """Whether a method is better than all it is compared with (:func:`neuronal.experiments.protocols.against`)."""
    shown, _ = _shown(gaps, measure)
    if any(_lead(gap, measure) <= 0 for gap in gaps):
        return "not reproduced"
    return all_or_some(len(shown), len(gaps)) if gaps else "reproduced"


def ahead(rows: Sequence[Mapping[str, Any]], best: str) -> Verdict:
    """The same of rows of one group, all of which have results."""
    return judged(against(rows, best), rows[0]["measure"])


def _on_all(rows: Sequence[Mapping[str, Any]], gaps: Sequence[Mapping[str, Any]], best: str) -> list[Finding]:
    """Where there are several sets: on how many of them the method is best, by each protocol."""
    found = []
    for protocol in dict.fromkeys(row["protocol"] for row in rows):
        groups = [group for group in groups_of(rows) if group[2] == protocol]
        if len({data for data, _, _ in groups}) < 2:
            continue
        lowest, shown = [], []
        for group in groups:
            own = [gap for gap in gaps if group_of(gap) == group]
            measure = next((row["measure"] for row in rows if group_of(row) == group and "measure" in row), "rmse")
            lowest += [group[0]] if own and all(_lead(gap, measure) > 0 for gap in own) else []
            shown += [group[0]] if own and judged(own, measure) == "reproduced" else []
        count = len(groups)
        is_all = len(lowest) == count and len(shown) > count / 2
        verdict: Verdict = "reproduced" if is_all else "reproduced in part" if shown else "not reproduced"
        missing = [data for data, _, _ in groups if data not in lowest]
        numbers = (
            f"best mean on {len(lowest)} of {count}{_far(missing)}; beyond chance against all others on {len(shown)}"
        )
        numbers += f" ({', '.join(shown)})" if shown else ""
        found.append(Finding(f"{best} is the best on all sets, beyond chance on most ({protocol})", verdict, numbers))
    return found


def _ten_times(rows: Sequence[Mapping[str, Any]], best: str, network: str) -> list[Finding]:
    """Whether the tuned rate of a method is ten times that of every other, over all that rates were tuned for."""
    tuned: list[tuple[str, int, dict[str, Any], dict[str, float]]] = []
    num_groups = 0
    for group in groups_of(rows):
        own = {r["method"]: r for r in rows if group_of(r) == group and "tuning" in r and "values" in r}
        if best not in own or len(own) < 2:
            continue
        num_groups += 1
        data, batch, _ = group
        curves = {name: row["tuning"] for name, row in own.items()}
        # Rates may have been tried with one batch size for all.
        if not any((data, curves) == (other, tried) for other, _, tried, _ in tuned):
            tuned.append((data, batch, curves, {name: row["rate"] for name, row in own.items()}))
    # Of one set there is little to say: the procedure that tries all rates has it.
    if num_groups < 2:
        return []
    good, cases, choices = 0, [], Counter(data for data, *_ in tuned)
    for data, batch, _, rates in tuned:
        good += all(rates[best] >= TEN_TIMES * rate for name, rate in rates.items() if name != best)
        place = data if choices[data] == 1 else f"{data} {batch}"
        cases.append(f"{place} {', '.join(f'{name} {rate:g}' for name, rate in rates.items())}")
    claim = f"the best rate of {best} is ten times that of every other method (clean)"
    count = f"on {good} of {len(cases)}" if len(cases) > 1 else "tried once, for all batch sizes"
    verdict = all_or_some(good, len(cases))
    return [Finding(f"{network}: {claim}" if network else claim, verdict, f"{count}: {'; '.join(cases)}")]


def _reported(rows: Sequence[Mapping[str, Any]], reported: Mapping[str, Any]) -> list[Finding]:
    """How many of the paper's numbers are met by its own protocol, within twice both standard errors."""
    near: list[str] = []
    far: list[str] = []
    runs = 0
    for row in rows:
        given = reported_for(row, reported)
        if row["protocol"] != "published" or given is None or "estimate" not in row:
            continue
        mean, error = given
        own, count = row["estimate"]["standard_error"] or 0.0, len(row["seeds"])
        # A run varies as much as ours do, which is more than their mean does.
        error = own * count**0.5 if error is None else error
        runs += given[1] is None
        spread = 2 * (error**2 + own**2) ** 0.5
        name = f"{row['data']} {row['method']}" + (f" at {row['batch']}" if str(row["batch"]) in reported else "")
        (near if abs(row["estimate"]["mean"] - mean) <= spread else far).append(name)
    if not near and not far:
        return []
    verdict: Verdict = "reproduced" if not far else "reproduced in part" if near else "not reproduced"
    numbers = f"{len(near)} of {len(near) + len(far)} within two {'deviations of a run' if runs else 'standard errors'}"
    five = "top-5 accuracies" if rows[0].get("measure") == "top5" else "numbers"
    return [Finding(f"the reported {five}, by the published protocol", verdict, numbers + _far(far))]


def _far(names: Sequence[str]) -> str:
    return f"; not {', '.join(names)}" if names else ""


def reported_for(row: Mapping[str, Any], reported: Mapping[str, Any]) -> tuple[float, float | None] | None:
    """The paper's mean and error for the row, by data or batch, then method; no error where it is one run."""
    for place in (row["data"], str(row["batch"])):
        if row["method"] in reported.get(place, {}):
            mean, error = reported[place][row["method"]]
            return mean, error
    return None
