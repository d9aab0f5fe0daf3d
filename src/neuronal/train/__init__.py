"""Training: one loop on Accelerate; the model, the data and the probes are handed in."""

from neuronal.core.limits import extras

with extras():
    from neuronal.train.checkpoint import Checkpoints
    from neuronal.train.engine import is_first_process, processes
    from neuronal.train.loop import fit
    from neuronal.train.optim import OPTIMISERS, Plan
    from neuronal.train.progress import Diverged, Epoch, Fit, Step
    from neuronal.train.schedule import SCHEDULES
    from neuronal.train.seed import seeded
    from neuronal.train.timing import StepTime, side_by_side

__all__ = [
    "OPTIMISERS",
    "SCHEDULES",
    "Checkpoints",
    "Diverged",
    "Epoch",
    "Fit",
    "Plan",
    "Step",
    "StepTime",
    "fit",
    "is_first_process",
    "processes",
    "seeded",
    "side_by_side",
]
