"""Experiments are declared, not scripted: Recipe -> run -> Record -> compare -> Comparison."""

from neuronal.core.limits import extras

with extras():
    from neuronal.experiments.audit import same_class_pairs
    from neuronal.experiments.claim import has_locks
    from neuronal.experiments.compare import Comparison, Difference, Estimate, Share, compare, difference, estimate
    from neuronal.experiments.crew import Crew
    from neuronal.experiments.environment import environment, statements_of
    from neuronal.experiments.recipe import Recipe
    from neuronal.experiments.record import Record, cell_name
    from neuronal.experiments.run import augment, check, drawn, network, plan, run, trained, training_data
    from neuronal.experiments.sweep import Study, Watch, sweep
    from neuronal.experiments.tune import Choice, Point, choose
    from neuronal.experiments.work import NothingLeft, NotTrained, Work

__all__ = [
    "Choice",
    "Comparison",
    "Crew",
    "Difference",
    "Estimate",
    "NotTrained",
    "NothingLeft",
    "Point",
    "Recipe",
    "Record",
    "Share",
    "Study",
    "Watch",
    "Work",
    "augment",
    "cell_name",
    "check",
    "choose",
    "compare",
    "difference",
    "drawn",
    "environment",
    "estimate",
    "has_locks",
    "network",
    "plan",
    "run",
    "same_class_pairs",
    "statements_of",
    "sweep",
    "trained",
    "training_data",
]
