"""The promise of Farkas layers on top of geometric neurons and of Fixup, to which the paper's conclusion invites."""

from __future__ import annotations

from dataclasses import replace

from neuronal_papers.farkas.errors import error_table
from neuronal_papers.farkas.runs import differences
from neuronal_papers.farkas.small_networks import AGGREGATES, BEST_RATE, FASHION, TUNED, named, scales
from neuronal_papers.judge import Above, Claim

GEOMETRIC = replace(FASHION, name="geometric", family="geometric")
FIXUP = replace(
    FASHION,
    name="ResNet9 with Fixup",
    family="standard",
    model="resnet9",
    model_options={"width": 8},
    widths=(),
    norm="fixup",
    scalar_lr=0.1,
    fraction=0.2,
    channels_last=True,
)
ON_TOP = {
    GEOMETRIC.name: tuple(
        named(GEOMETRIC, f"geometric, closed ({kind})", closed=True, **how) for kind, how in AGGREGATES.items()
    ),
    FIXUP.name: tuple(
        replace(FIXUP, name=f"Fixup, Farkas ({kind})", family="farkas", neuron_options=how)
        for kind, how in AGGREGATES.items()
    ),
}
"""The promise on top of these, with sums and with means."""
WITH_OTHERS = error_table(
    name="farkas/with_others",
    title="The promise on top of geometric neurons and of Fixup",
    where="Conclusion",
    scales=scales((GEOMETRIC, *ON_TOP[GEOMETRIC.name], FIXUP, *ON_TOP[FIXUP.name]), TUNED),
    claims=tuple(
        Claim(
            f"The promise on top of {plain} lowers the error",
            differences({f"with {kind}s": (one.name, plain) for kind, one in zip(AGGREGATES, closed, strict=True)}),
            Above(),
            beyond_paper=True,
        )
        for plain, closed in ON_TOP.items()
    ),
    departs=(
        "The paper says that its layers can be used with other techniques, and tries batch norm and a zero last "
        "layer only. Closed means one unit less and one that balances the others; its bias is ours, a softplus with "
        f"a margin of 0.001. {BEST_RATE} At scale small: Fashion-MNIST, ResNet9 (8 channels) on a fifth of it; at scale "
        "paper: CIFAR-10, 200 epochs."
    ),
)
