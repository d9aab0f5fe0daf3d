"""The questions the page of the Farkas paper answers first, from the results there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from neuronal.experiments.procedures.farkas.claims import OPEN, epochs_said, judged, not_there, rows_of
from neuronal.experiments.procedures.finding import Finding

Result = Mapping[str, Any]
Row = Mapping[str, Any]
TABLE1, TABLE4 = "farkas/table1_cifar10", "farkas/table4_best_practice"
AGGREGATES, DEEP = "farkas/sum_vs_mean", "farkas/deep_large_lr"


@dataclass(frozen=True)
class Compared:
    """Two networks, and how long they were trained."""

    finding: Finding
    epochs: int | None


def _compared(
    own: Row | None, other: Row | None, names: tuple[str, str], chance: float, claim: Mapping[str, Any] | None = None
) -> Compared:
    """Whether the first is better, as ``claim`` says it; both have to be there and trained equally long."""
    text = f"{own['name'] if own else names[0]}, against {other['name'] if other else names[1]}"
    if own is None or other is None:
        missing = [name for name, row in zip(names, (own, other), strict=True) if row is None]
        return Compared(Finding(text, "not measured", not_there(missing)), None)
    epochs = [row.get("epochs") for row in (own, other)]
    if epochs[0] != epochs[1]:
        return Compared(Finding(text, "not measured", f"trained for {epochs[0]} and {epochs[1]} epochs"), None)
    claim = claim or {"kind": "better", "row": own["name"], "than": other["name"], "text": text}
    return Compared(judged([claim], [own, other], chance)[0], epochs[0])


def _named(result: Result) -> dict[str, Row]:
    return {row["name"]: row for row in rows_of(result)}


def _at_equal_size(table1: Result) -> list[Compared]:
    rows, chance = _named(table1), table1["result"]["chance"]
    claims = [claim for claim in table1["options"]["claims"] if claim["text"].endswith("at equal size")]
    pairs = [(claim, (claim["row"], claim["than"])) for claim in claims]
    return [_compared(rows.get(names[0]), rows.get(names[1]), names, chance, claim) for claim, names in pairs]


def _best(table4: Result) -> list[dict[str, Row]]:
    """The row of its best rate for each network, with inputs as they are and normalised.

    By training images, as none were held out: test images are there to compare the networks.
    """
    best: dict[str, dict[str, Row]] = {}
    for name, row in _named(table4).items():
        kind, network = best.setdefault(row.get("scaling", ""), {}), name.partition(", rate")[0]
        kind[network] = max(kind.get(network, row), row, key=lambda one: _on_training_images(one, table4))
    return list(best.values())


def _on_training_images(row: Row, result: Result) -> float:
    """Accuracy in the last epoch; a run that broke down is one at chance."""
    ends = [curve[-1] for seed, curve in row["while_training"].items() if seed in row["accuracy"]]
    broke = row["seeds"] - len(ends)
    return fmean([*ends, *[result["result"]["chance"]] * broke])


def _at_best_rates(other: str, table4: Result) -> list[Compared]:
    chance, names = table4["result"]["chance"], ("FarkasNet34", other)
    return [_compared(kind.get(names[0]), kind.get(other), names, chance) for kind in _best(table4)]


def _against_resnet(table4: Result) -> list[Compared]:
    return _at_best_rates("ResNet34, no norm", table4)


def _against_fixup(table4: Result) -> list[Compared]:
    """At the best rates, and at the one that only FarkasNets are said to bear without normalised inputs."""
    rows, chance = _named(table4), table4["result"]["chance"]
    names = ("FarkasNet34, rate 0.1", "FixUp34, rate 0.1")
    large = _compared(rows.get(names[0]), rows.get(names[1]), names, chance)
    found = _at_best_rates("FixUp34", table4)
    return found if large in found else [*found, large]


def _at_large_rates(table4: Result, aggregates: Result, deep: Result) -> list[Compared]:
    """Whether each FarkasNet without norm and normalised inputs trains at 0.1."""
    found = []
    for result in (table4, aggregates, deep):
        rows = [
            row for name, row in _named(result).items() if name.startswith("FarkasNet") and name.endswith(", rate 0.1")
        ]
        for row in rows:
            claim = {"kind": "trains", "row": row["name"], "text": row["name"]}
            found.append(Compared(judged([claim], [row], result["result"]["chance"])[0], row.get("epochs")))
    return found


def _with_means(table1: Result, aggregates: Result, table4: Result, deep: Result) -> list[Compared]:
    """Networks with means against the ResNets of their depth, at equal rates."""
    standard, means, practice, large = map(_named, (table1, aggregates, table4, deep))
    pairs = [(means, "FarkasNet18 mean, rate 0.01", standard, "ResNet18, no norm")]
    for rate in ("0.01", "0.05", "0.1"):
        pairs.append((practice, f"FarkasNet34, rate {rate}", practice, f"ResNet34, no norm, rate {rate}"))
    pairs.append((large, "FarkasNet101 mean, rate 0.1", large, "ResNet101, rate 0.1"))
    chance = table1["result"]["chance"]
    return [_compared(rows.get(own), others.get(other), (own, other), chance) for rows, own, others, other in pairs]


@dataclass(frozen=True)
class Question:
    words: str
    answer: Callable[..., list[Compared]]
    needs: tuple[str, ...]
    """The results it is answered from, in the order of its arguments."""
    besides: str
    """What has to be known."""
    is_of_all: bool = False
    """A part of it is a no."""


QUESTIONS = (
    Question(
        "Does the advantage without batch norm survive equal parameter counts?",
        _at_equal_size,
        (TABLE1,),
        "The authors' sizes differ much only at 18 layers, where their FarkasNet is the smaller one (304,255 "
        "parameters in three stages against 797,034 in four; 7.6% more, 0.1% fewer and 4.2% more at 34, 50 and 101). "
        "Layouts are equal here, too, and the rate is the paper's for both. It is first cut after 30% of the epochs: "
        "so few may show who leaves chance sooner, not who ends better.",
    ),
    Question(
        "Is FarkasNet34 of Table 4 better than ResNet34 at the best rate of each?",
        _against_resnet,
        (TABLE4,),
        "The best of the same few rates for both, by the error on training images in the last epoch, where a run "
        "that broke down counts as chance; where it is the largest of them, a larger one may be better still. This "
        "FarkasNet34 has means, and a last layer of each block that starts at zero. The one above, with sums, was "
        "trained at 0.01 alone: whether its advantage survives other rates is open.",
    ),
    Question(
        "Is it better than Fixup?",
        _against_fixup,
        (TABLE4,),
        "At the best rates, as above, and at 0.1: the paper says that at large rates Fixup needs normalised inputs and "
        "FarkasNets do not; its own FarkasNet34 has rate 0.05.",
    ),
    Question(
        "Is an active unit in every layer enough to train at rate 0.1?",
        _at_large_rates,
        (TABLE4, AGGREGATES, DEEP),
        "By the paper's rule the largest unit of a layer is never below 0 in these networks, and at 0 for exceptional "
        "inputs alone; how often was not measured in them.",
        is_of_all=True,
    ),
    Question(
        "Are networks with means better than ResNets, as those with sums are at 0.01?",
        _with_means,
        (TABLE1, AGGREGATES, TABLE4, DEEP),
        "They keep the same promise, so they should be, if that is the reason. At equal rates; FarkasNet34 is again "
        "that of Table 4, whose blocks start at zero, which those of ResNet34 do not.",
    ),
)


def answers(measured: Mapping[str, Result | None], results: Path) -> list[str]:
    """For each question a word, and below it what it rests on: a line per comparison, with its numbers.

    Args:
        measured: The results by the name of their reproduction; ``None`` for those that are not there.
        results: Folder of the result files, which has nothing more to say here.
    """
    del results
    return [_answered(asked, [measured.get(name) for name in asked.needs]) for asked in QUESTIONS]


def _answered(asked: Question, results: Sequence[Result | None]) -> str:
    compared = asked.answer(*results) if all(results) else []
    again = ", ".join(
        f"`neuronal reproduce {name} --scale {result['scale'] if result else 'small'}`"
        for name, result in zip(asked.needs, results, strict=True)
    )
    found = [one.finding for one in compared]
    epochs = sorted({one.epochs for one in compared if one.epochs})
    word = _word(found) if all(results) else "Not measured yet"
    word = "No" if asked.is_of_all and word == "In part" else word
    word += f", after {epochs_said(*epochs)}" if epochs else ""
    lines = [f"{_word([one]).lower()}: {one.claim}: {one.numbers}" for one in found]
    return "\n".join([f"**{asked.words}** {word} ({again}). {asked.besides}", *(f"  - {line}" for line in lines)])


def _word(found: Sequence[Finding]) -> str:
    """Yes if all say so, and no if all say the contrary: few seeds that leave it open do neither."""
    told = [one for one in found if one.verdict != "not measured"]
    if not told:
        return "Nothing to compare"
    if all(one.verdict == "reproduced" for one in told):
        # One where nothing could be compared leaves the yes of others a part.
        return "Yes" if told == list(found) else "In part"
    if any(one.verdict in ("reproduced", "reproduced in part") for one in told):
        return "In part"
    return "Not shown" if any(OPEN in one.numbers for one in told) else "No"
