"""The rules by which claims are judged: one file for all papers, with a version that results record.

A claim is data: what it says, the measured numbers it rests on, and the side of a bound on which their mean has to lie.
:func:`judge` makes a :class:`Finding` of it, with one of four outcomes:

- **holds**: the interval of every case lies on the claimed side;
- **fails**: the interval of some case excludes the claim;
- **inconclusive**: neither;
- **false as stated**: a counterexample, or a proof of the contrary.

A claim whose numbers a result lacks is *not measured*.
"""

# Note [Rules]:
# 1. A case is a sample with one number per seed: mostly a difference, seed by seed, between two networks that share data
#    order and held-out images. Its interval is Student's t around the mean.
# 2. Intervals hold for all cases of a claim together with 95% confidence (Bonferroni). So a claim of difference about
#    identical networks holds in at most 5% of repetitions, and fails in at most 5%; a claim of equality holds in at most 5%
#    when the true difference equals its margin (tests/neuronal_papers/test_judge.py simulates this).
# 3. A claim of equality names its margin. It holds if the interval lies within the margin, and fails if it lies outside.
# 4. Seeds that split the same rows into training and test sets are alike: the interval is wider by what the splits have in
#    common (Nadeau & Bengio, Machine Learning 52, 2003).
# 5. With ten such splits no single data set can show an effect below 1.7 standard deviations, and with any number none
#    below 1.2. A claim about several data sets therefore pools them: the mean over the sets of the standardised effects,
#    which are independent. With six sets of ten splits it shows effects from 0.7 standard deviations on.
# 6. A run that failed counts as one at chance where accuracies are compared; leaving it out would flatter its network.
#    Whoever takes the sample does this, and names the failed runs in the note of the case.
# 7. One seed has no interval: the claim is inconclusive. Numbers that agree exactly over several seeds are their interval.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import hypot, inf, nan, sqrt
from statistics import fmean, stdev
from typing import Any, Literal, NamedTuple

from scipy.special import stdtrit

from neuronal.core.words import counted

VERSION = 1
"""Changes with every change of a rule; results record the version they were judged by."""
CONFIDENCE = 0.95
RULES = (
    "A claim **holds** if the 95% interval (Student's t over seeds, for all cases of the claim together by Bonferroni) "
    "lies on the claimed side, **fails** if it excludes the claim, and is **inconclusive** otherwise. **False as stated** "
    "means a counterexample or a proof. A claim of equality names its margin and holds if the interval lies within it. A "
    "claim about several cases holds if it holds in all, and fails if it fails in one. Data sets whose splits overlap are "
    "pooled, in standard deviations. What the seeds at hand could have shown is stated where they showed nothing."
)

Outcome = Literal["holds", "fails", "inconclusive", "false as stated", "not measured"]
Result = Mapping[str, Any]
"""A result file of ``neuronal reproduce``."""


@dataclass(frozen=True)
class Case:
    """One sample that a claim is about.

    Args:
        label: What it is of, in a few words.
        values: One number per seed.
        overlap: Test rows per training row, where every seed draws both from the same rows; else 0.
        note: What the reader needs to know of it, such as failed runs.
        is_open: The sample cannot decide for a reason the note gives, such as too short a training.
    """

    label: str
    values: Sequence[float]
    overlap: float = 0.0
    note: str = ""
    is_open: bool = False


@dataclass(frozen=True)
class Pooled:
    """One case made of independent samples in different units: its effect is the mean of their standardised means."""

    label: str
    samples: Sequence[Case]
    note: str = ""
    is_open: bool = False


@dataclass(frozen=True)
class Above:
    """The mean is above ``bound``."""

    bound: float = 0.0

    def decide(self, low: float, high: float) -> bool | None:
        return True if low > self.bound else False if high < self.bound else None

    def __str__(self) -> str:
        return f"above {self.bound:g}"


@dataclass(frozen=True)
class Below:
    """The mean is below ``bound``."""

    bound: float = 0.0

    def decide(self, low: float, high: float) -> bool | None:
        return True if high < self.bound else False if low > self.bound else None

    def __str__(self) -> str:
        return f"below {self.bound:g}"


@dataclass(frozen=True)
class Within:
    """The mean is no further than ``margin`` from ``centre``."""

    margin: float
    centre: float = 0.0

    def decide(self, low: float, high: float) -> bool | None:
        lowest, highest = self.centre - self.margin, self.centre + self.margin
        if low > highest or high < lowest:
            return False
        return True if lowest <= low and high <= highest else None

    def __str__(self) -> str:
        return f"within {self.margin:g}" + (f" of {self.centre:g}" if self.centre else "")


@dataclass(frozen=True)
class Claim:
    """What a paper, or this project, says of measured numbers.

    Args:
        text: The claim in words.
        cases: A result to the samples the claim is about; none where the result lacks them.
        side: Where their means have to lie.
        unit: Of the numbers.
        digits: Format of the numbers.
        needs: ``all`` cases or just ``some``.
        per: What has one number each, if not a seed.
        beyond_paper: No paper claims it.
        reproduce_with: Options of the command that measures it, where they are not those of the result.
    """

    text: str
    cases: Callable[[Result], Sequence[Case | Pooled]]
    side: Above | Below | Within
    unit: str = "points"
    digits: str = "+.2f"
    needs: Literal["all", "some"] = "all"
    per: str = "seed"
    beyond_paper: bool = False
    reproduce_with: str = ""

    def judge(self, result: Result) -> tuple[Outcome, str]:
        """The outcome, and the numbers that decide it."""
        cases = list(self.cases(result))
        decided, parts, counts, could_show = [], [], set(), []
        for case in cases:
            mean, half, count = _interval(case, len(cases))
            low, high = mean - half, mean + half
            decided.append(None if case.is_open else self.side.decide(low, high))
            if decided[-1] is None and count > 1:
                could_show.append(half)
            counts.add(count)
            ends = f" ({low:{self.digits}} to {high:{self.digits}})" if count > 1 else ""
            numbers = f"{mean:{self.digits}}{ends}" if count else "no numbers"
            parts.append(f"{case.label} {numbers}".lstrip() + (f", {case.note}" if case.note else ""))
        if len(cases) > 1:
            failing = f", fails in {decided.count(False)}" if False in decided else ""
            parts.insert(0, f"holds in {decided.count(True)} of {len(cases)}{failing}")
        if seeds := sorted(counts - {0}):
            samples = counted(" or ".join(map(str, seeds)), self.per)
            parts.append(f"{self.unit}, {self.side}; {samples}".lstrip(", "))
        if could_show and not isinstance(self.side, Within):
            parts.append(f"could have shown {max(could_show):{self.digits.lstrip('+')}}")
        enough, against = (all, any) if self.needs == "all" else (any, all)
        fails = against(is_so is False for is_so in decided)
        outcome: Outcome = "holds" if enough(decided) else "fails" if fails else "inconclusive"
        return (outcome if seeds else "not measured"), "; ".join(parts)


@dataclass(frozen=True)
class Evidence:
    """Items that were looked at one by one: how many contradict a claim, and how many leave it open.

    ``numbers`` are what a page shows of them.
    """

    items: int
    against: int
    numbers: str
    undecided: int = 0


@dataclass(frozen=True)
class Fact:
    """A claim about every item that was looked at: one item that contradicts it makes it false as stated.

    Args:
        text: The claim in words.
        evidence: A result to what was counted; ``None`` where the result lacks it.
        beyond_paper: No paper claims it.
        reproduce_with: Options of the command that measures it, where they are not those of the result.
    """

    text: str
    evidence: Callable[[Result], Evidence | None]
    beyond_paper: bool = False
    reproduce_with: str = ""

    def judge(self, result: Result) -> tuple[Outcome, str]:
        """The outcome, and the numbers that decide it."""
        evidence = self.evidence(result) or Evidence(0, 0, "")
        decided: Outcome = "false as stated" if evidence.against else "inconclusive" if evidence.undecided else "holds"
        return decided if evidence.items else "not measured", evidence.numbers


class Finding(NamedTuple):
    """A claim, its outcome, the numbers that decide it, and the command that measures it again."""

    claim: str
    outcome: Outcome
    numbers: str
    beyond_paper: bool
    command: str


def judge(claims: Sequence[Claim | Fact], result: Result) -> list[Finding]:
    """A finding for each claim."""
    findings = []
    for claim in claims:
        command = result["command"]
        if claim.reproduce_with:
            command = f"neuronal reproduce {result['reproduction']} {claim.reproduce_with}"
        findings.append(Finding(claim.text, *claim.judge(result), claim.beyond_paper, command))
    return findings


def paired(own: Mapping[Any, float], other: Mapping[Any, float], factor: float = 1.0) -> list[float]:
    """``factor`` times the differences between two networks, over the seeds both have."""
    return [factor * (own[seed] - other[seed]) for seed in own if seed in other]


def _interval(case: Case | Pooled, num_cases: int) -> tuple[float, float, int]:
    """Mean of one of ``num_cases`` cases, what its interval reaches to each side, and the number of seeds."""
    samples = [sample for sample in case.samples if len(sample.values) > 1] if isinstance(case, Pooled) else [case]
    count = min((len(sample.values) for sample in samples), default=0)
    if count < 2:
        return fmean(samples[0].values) if count else nan, inf, count
    means, errors = zip(*(_estimate(sample, standardise=isinstance(case, Pooled)) for sample in samples), strict=True)
    quantile = float(stdtrit(count - 1, 1 - (1 - CONFIDENCE) / 2 / num_cases))
    return fmean(means), quantile * hypot(*errors) / len(errors), count


def _estimate(sample: Case, *, standardise: bool) -> tuple[float, float]:
    """Mean of a sample and its standard error; in standard deviations of the sample, if so asked."""
    mean, deviation = fmean(sample.values), stdev(sample.values)
    # Subtraction leaves rounding of the last digit where all values are the same.
    if deviation < 1e-12:
        return (0.0 if standardise else mean), 0.0
    unit = deviation if standardise else 1.0
    return mean / unit, deviation / unit * sqrt(1 / len(sample.values) + sample.overlap)
