"""Runs a reproduction: trains what it needs, measures, judges, and keeps the result with all that made it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from neuronal.core.files import json_checksum, make_writable, plain_json, read_json, write_whole
from neuronal.core.records import to_json
from neuronal.experiments import Watch, Work, environment, executor_for
from neuronal.names import find
from neuronal.train import is_first_process
from neuronal_papers.core import SCALES, Measured, Reproduction, Setting
from neuronal_papers.judge import VERSION, Result
from neuronal_papers.reached import digest_of


def reproduce(
    reproduction: Reproduction,
    scale: str,
    *,
    runs: Path,
    results: Path,
    seeds: Sequence[int] | None = None,
    models: Sequence[str] = (),
    pretrained: bool = False,
    workers: int | None = 1,
    cluster: str | None = None,
    watch: Watch | None = None,
    say: Callable[[str], None] | None = None,
) -> Path:
    """Runs one table or figure at one scale and writes its result; returns the file.

    What was trained is kept under ``runs``, for this and all other reproductions, and not trained again.

    Args:
        reproduction: The table or figure.
        scale: One of its scales.
        runs: Where trained networks are kept.
        results: Where the result goes, below a folder of the paper's name.
        seeds: In place of the recipes' own.
        models: Models to measure in place of its own, where it takes models by name.
        pretrained: With the weights that timm or torchvision download.
        workers: Processes that share the trainings, one for each core if None; each has one thread. A script that asks for
            more than one needs ``if __name__ == "__main__":``, as all that starts processes does.
        cluster: Address of a dask scheduler whose workers share them instead.
        watch: Told of the trainings.
        say: Told what is going on, in a line now and then.

    Raises:
        ValueError: The scale, or the data, are not there; in one line.
    """
    setting, command = _asked_for(reproduction, scale, seeds, models, pretrained)
    started, file = perf_counter(), result_file(reproduction.name, scale, results)
    place = runs / "reproductions"
    # Before the work, which may be long and would be lost.
    make_writable(file.parent)
    make_writable(place)
    with executor_for(workers, cluster=cluster) as executor:
        # Asked at the start: files may change while it runs, and with them the commit.
        machine = environment()
        work = Work(place, watch, say, executor, measured_by=digest_of(reproduction.measure))
        measured = reproduction.measure(setting, work)
    more = {
        "command": command,
        "seconds": perf_counter() - started,
        "workers": executor.num_workers,
        "environment": machine,
    }
    return keep_result(reproduction, scale, setting, measured, work, more, results)


def keep_result(
    reproduction: Reproduction,
    scale: str,
    setting: Setting,
    measured: Measured,
    work: Work,
    more: Mapping[str, object],
    results: Path,
) -> Path:
    """Writes the result of a measurement with its setting and what ``more`` there is to say; returns the file."""
    file = result_file(reproduction.name, scale, results)
    result = {
        "reproduction": reproduction.name,
        "title": reproduction.title,
        "where": reproduction.where,
        "scale": scale,
        "scale_means": SCALES[scale],
        "recipes": [recipe.to_json() for recipe in setting.recipes],
        "options": setting.options,
        "result": to_json(measured),
        "network_seconds": work.network_seconds,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        **more,
    }
    if is_first_process():
        make_writable(file.parent)
        # As it will be read: tuples as lists, and names in place of numbers.
        write_result(file, reproduction, reproduction.current(json.loads(plain_json(result))))
    return file


def _asked_for(
    reproduction: Reproduction, scale: str, seeds: Sequence[int] | None, models: Sequence[str], pretrained: bool
) -> tuple[Setting, str]:
    """What to run, and the command that asks for it."""
    setting = find(reproduction.scales, scale, f"scale of {reproduction.name}")
    recipes, options = setting.recipes, dict(setting.options)
    command = f"neuronal reproduce {reproduction.name} --scale {scale}"
    if seeds is not None:
        listed = ",".join(map(str, seeds))
        if not recipes and "seeds" not in options:
            raise ValueError(f"{reproduction.name} at scale {scale} trains nothing and takes no seeds, got {listed}.")
        recipes = tuple(replace(recipe, seeds=tuple(seeds)) for recipe in recipes)
        # A measurement that trains networks of its own has seeds among its options.
        options |= {"seeds": tuple(seeds)} if "seeds" in options else {}
        command += f" --seeds {listed}"
    if pretrained and not models:
        raise ValueError("--pretrained is about models named with --model, got none.")
    if models:
        if not reproduction.takes_models:
            raise ValueError(f"{reproduction.name} trains its own networks and takes no model, got {models[0]}.")
        options |= {"models": tuple(models), "pretrained": pretrained}
        command += "".join(f" --model {name}" for name in models) + " --pretrained" * pretrained
    return Setting(recipes, options), command


def write_result(file: Path, reproduction: Reproduction, result: Result) -> None:
    """Writes a result with the outcomes of its claims and the version of the rules that gave them."""
    findings = [] if result["scale"] == "smoke" else reproduction.findings(reproduction.current(result))
    judged = {"version": VERSION, "outcomes": {finding.claim: finding.outcome for finding in findings}}
    write_whole(file, plain_json(with_checksum({**result, "judged": judged})) + "\n")


def with_checksum(result: Result) -> dict[str, Any]:
    """The result with a checksum of all the rest, by which :func:`read_result` knows that nothing was changed."""
    rest = {name: value for name, value in result.items() if name != "sha256"}
    return {**rest, "sha256": json_checksum(rest)}


def result_file(name: str, scale: str, results: Path) -> Path:
    paper, _, short = name.partition("/")
    return results / paper / f"{short}.{scale}.json"


def read_result(file: Path) -> Mapping[str, Any]:
    """A result as it was written; ``ValueError`` for a file that is none, or that was changed since."""
    try:
        result: dict[str, Any] = read_json(file)
        _ = result["reproduction"], result["result"]
    except (OSError, ValueError, KeyError, TypeError) as wrong:
        raise ValueError(f"{file} is not a result of neuronal reproduce ({wrong}).") from wrong
    if "sha256" not in result:
        warnings.warn(f"{file} has no checksum: nobody knows whether it is as it was written.", stacklevel=2)
    elif result != with_checksum(result):
        raise ValueError(
            f"{file} is damaged: its checksum does not fit its contents. neuronal reproduce makes it anew."
        )
    result.pop("sha256", None)
    return result
