"""Learnt multipliers (Section 3.3)."""

from __future__ import annotations

from neuronal_papers.farkas.activity import activity_table, all_certified
from neuronal_papers.farkas.runs import differences
from neuronal_papers.farkas.small_networks import FASHION, LOOK, ONE_RATE, named, scales
from neuronal_papers.judge import Above, Claim, Fact

MULTIPLIERS = activity_table(
    name="farkas/multipliers",
    title="Learnt multipliers",
    where="Section 3.3",
    scales=scales(
        (
            named(FASHION, "sum, fixed"),
            named(FASHION, "sum, learnt", learn_multipliers=True),
            named(FASHION, "mean, fixed", aggregate="mean"),
            named(FASHION, "mean, learnt", aggregate="mean", learn_multipliers=True),
        ),
        LOOK,
    ),
    claims=(
        Fact(
            "Learnt multipliers keep the promise, whether they start as a sum or as a mean",
            all_certified(("sum, learnt", "mean, learnt")),
        ),
        Claim(
            "Learning the multipliers lowers the error",
            differences({kind: (f"{kind}, learnt", f"{kind}, fixed") for kind in ("sum", "mean")}),
            Above(),
            beyond_paper=True,
        ),
    ),
    departs=(
        "The paper says that multipliers can be learnt in smaller problems, and not how; ours are exponentials times "
        f"those of the sum or the mean. The last bias is ours, a softplus with a margin of 0.001. {ONE_RATE}"
    ),
)
