"""One measurement of a trained network per file; each takes (model, split) and returns a record of plain numbers."""

from neuronal.probes.boundary_distance import BoundaryDistance, boundary_distance
from neuronal.probes.contrast import MULTIPLIERS, Contrast, contrast
from neuronal.probes.curvature import Curvature, curvature
from neuronal.probes.dead_units import DeadUnits, dead_units
from neuronal.probes.hinge_motion import HingeMotion, Motion, motion
from neuronal.probes.jacobian import Jacobian, jacobian
from neuronal.probes.score import score
from neuronal.probes.silence import Silence, silence
from neuronal.probes.zero_image import ZeroImage, zero_image

__all__ = [
    "MULTIPLIERS",
    "BoundaryDistance",
    "Contrast",
    "Curvature",
    "DeadUnits",
    "HingeMotion",
    "Jacobian",
    "Motion",
    "Silence",
    "ZeroImage",
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
