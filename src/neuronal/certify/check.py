"""Verifies any certificate again, with code its maker does not use."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from torch import nn

from neuronal.certify.certificate import Certificate, Confirmation, NotConfirmed
from neuronal.certify.check_activity import check_network
from neuronal.certify.check_class import check_ball, check_cone, check_hull, check_segment
from neuronal.certify.check_layer_activity import check_layer
from neuronal.certify.check_lipschitz import check_lipschitz
from neuronal.certify.check_scaling import check_scaling
from neuronal.certify.evidence import (
    BallEvidence,
    ConeEvidence,
    HullEvidence,
    LayerActivity,
    LipschitzBall,
    NetworkActivity,
    Scaling,
    SegmentEvidence,
)
from neuronal.core.inference import NoRandomNumbers, evaluating, not_finite

CHECKERS: dict[tuple[str, type], Callable[[Certificate, nn.Module], None]] = {
    ("segment", SegmentEvidence): check_segment,
    ("hull", HullEvidence): check_hull,
    ("cone", ConeEvidence): check_cone,
    ("ball", BallEvidence): check_ball,
    ("ball", LipschitzBall): check_lipschitz,
    ("scaling", Scaling): check_scaling,
    ("activity", LayerActivity): check_layer,
    ("activity", NetworkActivity): check_network,
}


def check(certificate: Certificate, model: nn.Module) -> Confirmation:
    """Whether the certificate's evidence shows what it says about ``model``, verified with code its maker does not use.

    **Threat model.** The certificate is hostile: somebody may have written any value into any of its fields to have a false
    statement confirmed. The model is the user's own: it computes with torch what its ``forward`` says, for its own reasons,
    and does not try to recognise the checker. So every field of the certificate and of its evidence is verified against
    the model, apart from remarks, which are no part of the statement (``REMARK`` in the fields' metadata: how something was
    found, how long it took). A model outside of what the checkers know is not confirmed.

    Returns:
        True if confirmed; else false, and ``str`` of it says why. ``unknown`` shows nothing and is never confirmed.
        Whatever the certificate holds, nothing is raised.
    """
    kind, verdict, promise, evidence = (
        getattr(certificate, n, None) for n in ("kind", "verdict", "promise", "evidence")
    )
    checker = CHECKERS.get((str(kind), type(evidence)))
    if checker is None:
        return Confirmation(f"there is no {kind!r} with {type(evidence).__name__} as evidence.")
    if not isinstance(verdict, str) or verdict not in ("certified", "refuted"):
        return Confirmation(f"a verdict {verdict!r} shows nothing.")
    if not isinstance(promise, str) or promise not in ("real", "float32"):
        return Confirmation(f"{promise!r} is no promise.")
    if (name := not_finite(model)) is not None:
        return Confirmation(f"{name} of the model has NaN or infinity in it.")
    try:
        # A single layer is read: making a plain one of it draws the first weights of that.
        quiet = nullcontext() if isinstance(evidence, LayerActivity) else NoRandomNumbers()
        with evaluating(model), quiet:
            checker(certificate, model)
    except NotConfirmed as why:
        return Confirmation(f"{why}.")
    except Exception as error:
        # Hostile values raise anything in any place, and so does a model given what it does not take.
        first = (str(error).splitlines() or [""])[0]
        return Confirmation(f"the check ended with {type(error).__name__}: {first}")
    return Confirmation()
