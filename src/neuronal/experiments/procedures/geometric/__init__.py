"""What the geometric paper measures, and how it is judged."""

from neuronal.experiments.procedures.geometric import (
    boundaries,
    hinge_motion,
    learning_rates,
    perturbation,
    protocol_table,
    same_rate,
    widths,
)

PROCEDURES = {
    "boundaries": boundaries,
    "hinge_motion": hinge_motion,
    "learning_rates": learning_rates,
    "perturbation": perturbation,
    "protocol_table": protocol_table,
    "same_rate": same_rate,
    "widths": widths,
}
