"""Experiments are declared, not scripted: Recipe -> run -> Record -> estimates."""

from neuronal.core.limits import extras

with extras():
    from neuronal.experiments.audit import same_class_pairs
    from neuronal.experiments.cells import Cell
    from neuronal.experiments.compare import Difference, Estimate, Share, difference, estimate
    from neuronal.experiments.environment import environment, statements_of
    from neuronal.experiments.executors import executor_for
    from neuronal.experiments.recipe import Recipe
    from neuronal.experiments.record import Record, cell_name
    from neuronal.experiments.record import read as read_record
    from neuronal.experiments.record import write as write_record
    from neuronal.experiments.run import check, drawn, network, run, trained, training_data
    from neuronal.experiments.slice import Pace, Report, Task, run_slice
    from neuronal.experiments.sweep import Study, Watch, sweep
    from neuronal.experiments.tune import Choice, Point, choose
    from neuronal.experiments.work import NotTrained, Unfinished, Work

__all__ = [
    "Cell",
    "Choice",
    "Difference",
    "Estimate",
    "NotTrained",
    "Pace",
    "Point",
    "Recipe",
    "Record",
    "Report",
    "Share",
    "Study",
    "Task",
    "Unfinished",
    "Watch",
    "Work",
    "cell_name",
    "check",
    "choose",
    "difference",
    "drawn",
    "environment",
    "estimate",
    "executor_for",
    "network",
    "read_record",
    "run",
    "run_slice",
    "same_class_pairs",
    "statements_of",
    "sweep",
    "trained",
    "training_data",
    "write_record",
]
