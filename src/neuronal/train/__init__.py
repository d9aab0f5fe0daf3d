"""Training: one loop on Accelerate; the model, the data and the probes are handed in."""

from neuronal.train.checkpoint import Checkpoints
from neuronal.train.loop import fit
from neuronal.train.optim import OPTIMISERS, Plan
from neuronal.train.progress import Diverged, Epoch, Fit, Step
from neuronal.train.schedule import SCHEDULES

__all__ = ["OPTIMISERS", "SCHEDULES", "Checkpoints", "Diverged", "Epoch", "Fit", "Plan", "Step", "fit"]
