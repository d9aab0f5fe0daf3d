"""One door for verifying any certificate again."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from neuronal.certify.certificate import Certificate, not_finite
from neuronal.certify.check_activity import check_activity
from neuronal.certify.check_class import check_ball, check_cone, check_hull, check_segment
from neuronal.certify.check_lipschitz import check_lipschitz
from neuronal.certify.check_scaling import check_scaling
from neuronal.certify.lipschitz import LipschitzBall
from neuronal.names import find


def _check_any_ball(certificate: Certificate, model: nn.Module) -> bool:
    by_lipschitz = isinstance(certificate.evidence, LipschitzBall)
    return (check_lipschitz if by_lipschitz else check_ball)(certificate, model)


CHECKERS: dict[str, Callable[[Certificate, nn.Module], bool]] = {
    "segment": check_segment,
    "hull": check_hull,
    "cone": check_cone,
    "ball": _check_any_ball,
    "scaling": check_scaling,
    "activity": check_activity,
}


def check(certificate: Certificate, model: nn.Module) -> bool:
    """Whether the certificate's evidence shows what it says about ``model``, verified with code its maker does not use.

    ``unknown`` shows nothing and is never confirmed.
    """
    if certificate.verdict == "unknown" or not_finite(model) is not None:
        return False
    return find(CHECKERS, certificate.kind, "kind of certificate")(certificate, model)
