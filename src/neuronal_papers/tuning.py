"""Equal tuning: for every network a learning rate from the same list, chosen on held-out data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import wraps

from torch import nn

from neuronal.core.records import Json, to_json
from neuronal.data import Split, load
from neuronal.experiments import Choice, Recipe, Record, Work, choose
from neuronal.train import processes
from neuronal_papers.core import Options, Setting
from neuronal_papers.seeds import Row

TUNING = ("rates", "tuning_seeds", "tuned_at")
"""Options that say how rates are chosen; they are no part of what is measured of a network."""
Rows = dict[str, list[Row]]
END_OF_LIST = "; ↑ ↓ the largest, or smallest, of the rates tried: beyond it there may be a better one"
"""What a caption adds where a rate has such a mark."""


def end_of_list(rate: float, tried: Sequence[float]) -> str:
    """A mark for a tuned rate that had others on one side only."""
    if len(tried) < 2 or min(tried) < rate < max(tried):
        return ""
    return " ↑" if rate >= max(tried) else " ↓"


def tuned(setting: Setting, work: Work) -> tuple[Recipe, ...]:
    """The recipes, each with the best of ``options["rates"]`` by seeds of their own; as they are without ``rates``.

    ``options["tuned_at"]`` names fields and the values they have while rates are tried, such as ``{"fraction": 1.0}``: then
    recipes that differ in these alone get the same rate, tried once. A rate at which a training fails is not chosen;
    where all fail the recipe keeps its own.

    Raises:
        ValueError: A seed is among those rates are tried with, and among those that are reported.
    """
    return at_best(setting.recipes, choices(setting, work))


def at_best(recipes: Sequence[Recipe], chosen: Sequence[Choice | None]) -> tuple[Recipe, ...]:
    """The recipes, each at the rate chosen for it; at its own where there is none."""
    return tuple(
        recipe if choice is None or choice.best is None else replace(recipe, lr=choice.best)
        for recipe, choice in zip(recipes, chosen, strict=True)
    )


def choices(setting: Setting, work: Work) -> list[Choice | None]:
    """For every recipe what held-out data say of each rate, and the best; ``None`` without ``rates``."""
    rates: Sequence[float] = setting.options.get("rates", ())
    if not rates:
        return [None] * len(setting.recipes)
    seeds = tuple(setting.options["tuning_seeds"])
    if twice := {seed for recipe in setting.recipes for seed in recipe.seeds} & set(seeds):
        listed = ", ".join(map(str, seeds))
        raise ValueError(f"rates are tried with seeds {listed}, and results need others, got {min(twice)}.")
    fields: Options = setting.options.get("tuned_at", {})
    work.say(f"learning rates of {', '.join(dict.fromkeys(recipe.name for recipe in setting.recipes))}")
    tries = [[replace(one, seeds=seeds, probes=(), lr=rate, **fields) for rate in rates] for one in setting.recipes]
    return list(best_of(tries, work))


def what_was_tried(recipe: Recipe, choice: Choice | None) -> Json:
    """What the row of a network at its best rate says of this rate and the others; nothing where none was chosen."""
    return {} if choice is None else {"rate": recipe.lr, "tuning": [asdict(point) for point in choice.curve]}


def best_of(tries: Sequence[Sequence[Recipe]], work: Work) -> list[Choice]:
    """What held-out data say of every list of recipes that differ in their rates, and the best of these."""
    # All at once, so that other processes find something to train too; and what is the same once.
    records: dict[str, list[Record]] = {}
    for record in work.records(list({one.fingerprint(): one for own in tries for one in own}.values())):
        records.setdefault(record.recipe.fingerprint(), []).append(record)
    return [choose([record for one in own for record in records[one.fingerprint()]], "lr")[0] for own in tries]


def measured(
    setting: Setting, work: Work, procedure: str, measure: Callable[[Record, nn.Module], Row], *, may_fail: bool = False
) -> list[Row]:
    """One row for every tuned network and seed; see :meth:`neuronal.experiments.Work.rows`.

    Args:
        setting: Recipes, and the options that ``measure`` goes by.
        work: Where networks and rows are kept.
        procedure: A name that tells kept rows of this measurement from those of others.
        measure: A record and its network, on the CPU, to a row.
        may_fail: Leave out networks that did not train; ``ValueError`` otherwise.
    """
    how = {name: value for name, value in setting.options.items() if name not in TUNING}
    recipes = tuned(setting, work)
    rows = iter(work.rows(recipes, {"procedure": procedure, **how}, measure, may_fail=may_fail))
    found = [
        {"name": recipe.name, "neuron": recipe.family, "seed": seed, "lr": recipe.lr, **next(rows)}
        for recipe in recipes
        for seed in recipe.seeds
    ]
    return [row for row in found if "failure" not in row]


def on_the_device(model: nn.Module) -> nn.Module:
    """Where it was trained: on a GPU, where there is one."""
    return model.to(processes().device)


def on_test_images(look: Callable[[Record, nn.Module, Split, Options], object]) -> Callable[[Setting, Work], Rows]:
    """A measurement whose ``rows`` are what ``look`` finds of every tuned network and seed.

    ``look`` takes a record, its network, test images and the options. Of these ``images`` is how many images, the first
    ones, it gets, all without it; ``rates`` and ``tuning_seeds`` are for :func:`tuned`.
    """

    @wraps(look)
    def measure(setting: Setting, work: Work) -> Rows:
        def row(record: Record, model: nn.Module) -> Row:
            work.say(f"{look.__name__} of {record.recipe.name}, {record.recipe.family}, seed {record.seed}")
            test = load(record.recipe.data).scaled(record.recipe.scaling).test
            images = test.rows(slice(setting.options.get("images")))
            found: Row = to_json(look(record, on_the_device(model), images, setting.options))
            return found

        return {"rows": measured(setting, work, look.__name__, row)}

    return measure


def runs_of(recipes: Sequence[Recipe], work: Work) -> list[tuple[Recipe, list[Record], dict[str, str]]]:
    """Of every recipe the seeds that trained, and by seed why others failed; all are asked for at once, to be divided."""
    records, runs = iter(work.records(recipes)), []
    for recipe in recipes:
        own = [next(records) for _ in recipe.seeds]
        failed = {str(record.seed): record.failure.reason for record in own if record.failure}
        runs.append((recipe, [record for record in own if not record.failure], failed))
    return runs
