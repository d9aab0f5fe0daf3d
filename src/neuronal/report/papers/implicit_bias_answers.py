"""The four questions the page of the implicit-bias paper answers first, from the results there are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from neuronal.experiments.procedures.finding import Finding
from neuronal.experiments.procedures.implicit_bias import accuracy_curve, robustness

Result = Mapping[str, Any]
Ratios = Callable[[Result], list[float]]
NOT_YET = "Not measured yet"
ONCE = ", one iteration"


def answers(measured: Mapping[str, Result | None], results: Path) -> list[str]:
    """One line for each question: a word, the numbers, and where they are from.

    Args:
        measured: The results by the name of their reproduction; ``None`` for those that are not there.
        results: Folder of the result files, with times of steps below ``bench``.
    """
    questions: tuple[tuple[str, str, Callable[[Result], str]], ...] = (
        ("Is the extra robustness real under a white-box attack?", "pgd", _robust),
        ("How much less data?", "data_fraction", _less_data),
        ("How many fewer epochs?", "learning_speed", _fewer_epochs),
    )
    lines = []
    for question, short, answer in questions:
        result = measured.get(f"implicit_bias/{short}")
        again = f"`neuronal reproduce implicit_bias/{short} --scale {result['scale'] if result else 'small'}`"
        lines.append(f"**{question}** {answer(result) if result else NOT_YET} ({again}).")
    cost = "; ".join(_costs(measured, results)) or f"{NOT_YET} (`neuronal bench gpu --only implicit`)"
    return [*lines, f"**At what cost per step?** {cost}."]


def _robust(result: Result) -> str:
    """By the white-box attack alone; a failed check says that its numbers are not to be believed."""
    found = robustness.findings(result)
    attacked = [one for one in found if one.claim.endswith("(white-box)")]
    failed = [one for one in found if one.claim.startswith("Gradients") and one.verdict != "reproduced"]
    word = _word(attacked, yes="Yes", part="In part", no="No")
    checks = "all checks for masked gradients pass"
    if failed:
        checks = "BUT of the checks for masked gradients fail: " + "; ".join(
            f"{one.claim.partition(': ')[2]} ({one.numbers})" for one in failed
        )
    return f"{word}: {_numbers(attacked)}; {checks}"


def _less_data(result: Result) -> str:
    found = accuracy_curve.findings(result)
    return f"{_word(found, yes='Less', part='Less in part', no='None less')}: {_numbers(found)}"


def _fewer_epochs(result: Result) -> str:
    found = accuracy_curve.findings(result)
    return f"{_word(found, yes='Less than half', part='Fewer in the median', no='None fewer')}: {_numbers(found)}"


def _word(found: Sequence[Finding], *, yes: str, part: str, no: str) -> str:
    verdicts = {one.verdict for one in found}
    return yes if verdicts == {"reproduced"} else no if verdicts == {"not reproduced"} else part


def _numbers(found: Sequence[Finding]) -> str:
    """Each with what it is of, which is what its claim begins with."""
    return "; ".join(f"{one.claim.partition(': ')[0]}: {one.numbers}" for one in found)


def _costs(measured: Mapping[str, Result | None], results: Path) -> Iterator[str]:
    """Of blocks timed by themselves, and of whole networks beside standard ones."""
    for question in TIMED:
        yield from islice(_timed(question, results), 1)
    if lite := measured.get("implicit_bias/lite"):
        for one in lite["result"].get("costs", ()):
            ratio = f"{one['ratio']:.2f} ({one['ratio_low']:.2f} to {one['ratio_high']:.2f})"
            yield f"{ratio} times forward and backward of {one['name']} on {one['machine']} (`{lite['command']}`)"


def _timed(question: Sequence[tuple[str, Ratios, str]], results: Path) -> Iterator[str]:
    """What every file says of it, the best one first."""
    for pattern, ratios, what in question:
        for file in sorted((results / "bench").glob(pattern)):
            known = json.loads(file.read_text(encoding="utf-8"))
            if times := ratios(known):
                machine = known["environment"]["gpu"]
                on = known["environment"]["processor"] if machine == "none" else machine
                yield f"{what.format(_between(times))} on {on} (`results/bench/{file.name}`)"


def _between(times: Sequence[float]) -> str:
    return f"{median(times):.2f} ({min(times):.2f} to {max(times):.2f})"


def _of_sections(known: Mapping[str, Any]) -> list[float]:
    """Of the blocks as they are; what stands behind a comma is another kind of them."""
    sections = [section for section in known["sections"] if section["name"] == "implicit"]
    rows = [row for section in sections for row in section["rows"] if row["name"].startswith("UCN")]
    return [row["measured"] for row in rows if row["measured"] is not None and "," not in row["name"]]


def _of_layers(known: Mapping[str, Any]) -> list[float]:
    return [row["time"]["ratio"] for row in known["table"] if not row["case"].get("iterations")]


def _of_iterations(known: Mapping[str, Any]) -> list[float]:
    """What an iteration takes against the solve of the same layer, both beside a Conv2d: they were timed at other times."""
    kinds = {json.dumps(row["case"] | {"limit": None}, sort_keys=True): row["time"]["ratio"] for row in known["table"]}
    once = [row for row in known["table"] if row["case"].get("iterations")]
    solved = [json.dumps(row["case"] | {"limit": None, "iterations": 0}, sort_keys=True) for row in once]
    return [row["time"]["ratio"] / kinds[key] for row, key in zip(once, solved, strict=True) if key in kinds]


def _of_blocks_once(known: Mapping[str, Any]) -> list[float]:
    """The same of a block."""
    sections = [section for section in known["sections"] if section["name"] == "implicit"]
    times = {row["name"]: row["measured"] for section in sections for row in section["rows"]}
    pairs = [(times.get(name.removesuffix(ONCE)), own) for name, own in times.items() if name.endswith(ONCE)]
    return [own / solved for solved, own in pairs if own and solved]


TIMED: tuple[tuple[tuple[str, Ratios, str], ...], ...] = (
    (
        (
            "gpu*.json",
            _of_sections,
            "{} times the block of the paper's network with Conv2d (units of variance 1, replayed as a CUDA graph)",
        ),
        ("implicit_*.json", _of_layers, "{} times a Conv2d layer"),
    ),
    (
        ("gpu*.json", _of_blocks_once, "one iteration in the place of a solve takes {} of that"),
        ("implicit_*.json", _of_iterations, "one iteration takes {} of the time of a solve"),
    ),
)
"""What is asked, and the files that say it, the best first: the pattern of their names, their ratios, and what is said."""
