"""One measurement of a trained network per file; each takes (model, split) and returns plain numbers."""

from neuronal.probes.boundary_distance import boundary_distance
from neuronal.probes.contrast import MULTIPLIERS, contrast
from neuronal.probes.curvature import curvature
from neuronal.probes.dead_units import dead_units
from neuronal.probes.hinge_motion import HingeMotion, motion
from neuronal.probes.jacobian import jacobian
from neuronal.probes.score import score
from neuronal.probes.silence import silence
from neuronal.probes.zero_image import zero_image

__all__ = [
    "MULTIPLIERS",
    "HingeMotion",
    "boundary_distance",
    "contrast",
    "curvature",
    "dead_units",
    "jacobian",
    "motion",
    "score",
    "silence",
    "zero_image",
]
