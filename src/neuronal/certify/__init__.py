"""Statements about a network, each with the evidence for it."""

from neuronal.certify.activity import certify_activity
from neuronal.certify.ball import certify_ball
from neuronal.certify.branch import Budget
from neuronal.certify.certificate import Certificate
from neuronal.certify.check import check
from neuronal.certify.lipschitz import certify_lipschitz_ball, lipschitz_bound
from neuronal.certify.scaling import certify_scaling
from neuronal.certify.segment import certify_segment, certify_segments
from neuronal.certify.simplex import certify_cone, certify_hull

__all__ = [
    "Budget",
    "Certificate",
    "certify_activity",
    "certify_ball",
    "certify_cone",
    "certify_hull",
    "certify_lipschitz_ball",
    "certify_scaling",
    "certify_segment",
    "certify_segments",
    "check",
    "lipschitz_bound",
]
