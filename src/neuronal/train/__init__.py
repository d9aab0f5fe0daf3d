"""Training: one loop on Accelerate; the model, the data and the probes are handed in."""

from neuronal.train.loop import Diverged, Epoch, Fit, fit
from neuronal.train.optim import OPTIMISERS, Plan
from neuronal.train.schedule import SCHEDULES

__all__ = ["OPTIMISERS", "SCHEDULES", "Diverged", "Epoch", "Fit", "Plan", "fit"]
