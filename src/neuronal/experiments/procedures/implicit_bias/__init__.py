"""What the implicit-bias paper measures, and how it is judged."""

from neuronal.experiments.procedures.implicit_bias import (
    accuracy_curve,
    boundary_2d,
    energy,
    pixels_moved,
    robustness,
    sensitivity,
    stealth,
    transfer,
    variants,
)

PROCEDURES = {
    "accuracy_curve": accuracy_curve,
    "boundary_2d": boundary_2d,
    "energy": energy,
    "pixels_moved": pixels_moved,
    "robustness": robustness,
    "sensitivity": sensitivity,
    "stealth": stealth,
    "transfer": transfer,
    "variants": variants,
}
