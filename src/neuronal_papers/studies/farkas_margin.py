"""The last bias of a Farkas layer: the paper's maximum, or ours with a margin."""

from __future__ import annotations

from neuronal_papers.farkas.activity import activity_table, all_certified, never
from neuronal_papers.farkas.runs import differences
from neuronal_papers.farkas.small_networks import FASHION, LOOK, ONE_RATE, named, scales
from neuronal_papers.judge import Claim, Fact, Within

MAXIMUM = "the paper's maximum"
"""The row of the paper's own bias; those of ours are called by their margin."""
SOFTPLUS = {f"margin {margin:g}": margin for margin in (0.001, 0.1, 1.0)}
# Points of error, as for the pairs of Table 1.
SIMILAR = 1.0
MARGIN = activity_table(
    name="farkas/margin",
    title="The last bias: the paper's maximum, or a softplus with a margin of 0.001 to 1",
    where="beyond Algorithm 1",
    scales=scales(
        (
            named(FASHION, MAXIMUM, rule="max"),
            *(named(FASHION, name, margin=margin) for name, margin in SOFTPLUS.items()),
        ),
        LOOK,
    ),
    claims=(
        Fact("With the paper's bias no image leaves a layer silent", never("silent", [MAXIMUM])),
        Fact("With the paper's bias every layer is proved active (pixels in [0, 1])", all_certified([MAXIMUM])),
        Fact(
            "With a softplus and a margin every layer is proved active (pixels in [0, 1])",
            all_certified(tuple(SOFTPLUS)),
            beyond_paper=True,
        ),
        Claim(
            f"A softplus with a margin has the error of the paper's maximum (within {SIMILAR:g} point)",
            differences({name: (name, MAXIMUM) for name in SOFTPLUS}),
            Within(SIMILAR),
            beyond_paper=True,
        ),
    ),
    departs=(
        "Not in the paper, whose rule is a maximum without margin. Ours differs from it by the margin and by a "
        f"softplus, which is strict and always has a gradient. {ONE_RATE}"
    ),
)
