"""What the Farkas paper measures, and how it is judged."""

from neuronal.experiments.procedures.farkas import (
    accuracy_table,
    activity,
    born_dead,
    cutoff,
)

PROCEDURES = {
    "accuracy_table": accuracy_table,
    "activity": activity,
    "born_dead": born_dead,
    "cutoff": cutoff,
}
