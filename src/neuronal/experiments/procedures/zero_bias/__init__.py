"""What the zero-bias paper measures, and how it is judged."""

from neuronal.experiments.procedures.zero_bias import (
    contrast_table,
    expressiveness,
    interpolation,
    ntk,
    regions,
    training_curves,
    zero_image,
)

PROCEDURES = {
    "contrast_table": contrast_table,
    "expressiveness": expressiveness,
    "interpolation": interpolation,
    "ntk": ntk,
    "regions": regions,
    "training_curves": training_curves,
    "zero_image": zero_image,
}
