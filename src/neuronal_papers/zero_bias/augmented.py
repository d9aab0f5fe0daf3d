"""Section 2.5: biased networks trained on images of all contrasts, against zero-bias ones trained at full contrast."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from neuronal_papers.core import Setting
from neuronal_papers.judge import Below, Case, Claim, Result, Within
from neuronal_papers.zero_bias.table1 import CLEAR, FACTORS, FASHION_CNN, TABLE1_MNIST_FCN, both, less, smoke

AUGMENTED = replace(FASHION_CNN, name="Fashion-MNIST CNN, augmented", family="standard", contrast=FACTORS)
# Points of accuracy within which two networks are called comparable; the paper gives no number.
COMPARABLE = 3.0


def _lags(result: Result, lowest: float, highest: float) -> list[Case]:
    """Accuracy of the augmented network less that of the zero-bias one, in points, a case for each contrast.

    They are open where the augmented network's training ended too early: where at full contrast it is not comparable to
    the same network trained without augmentation. It may then lag for that alone.
    """
    zero_bias, biased, augmented = result["result"]["rows"]
    places = [place for place, factor in enumerate(FACTORS) if lowest <= factor <= highest]
    cases = [less(result, augmented, zero_bias, f"at {FACTORS[place]:g}", place) for place in places]
    behind = fmean(less(result, biased, augmented).values)
    if behind <= COMPARABLE:
        return cases
    note = f"undertrained, at full contrast {behind:.1f} points behind itself without augmentation"
    cases[-1] = replace(cases[-1], note="; ".join(filter(None, (cases[-1].note, note))))
    return [replace(case, is_open=True) for case in cases]


AUGMENTATION = replace(
    TABLE1_MNIST_FCN,
    name="zero_bias/augmented",
    title="Biased networks trained on images of all contrasts, against zero-bias ones trained without",
    where="Section 2.5",
    scales={
        "smoke": Setting((*both(smoke(FASHION_CNN)), smoke(AUGMENTED))),
        **dict.fromkeys(("small", "paper"), Setting((*both(FASHION_CNN), AUGMENTED))),
    },
    claims=(
        Claim(
            "Augmented networks with biases are still poor at contrasts of 0.001 and less",
            lambda result: _lags(result, 0, 0.001),
            Below(-CLEAR),
        ),
        Claim(
            "At contrasts from 0.25 to 0.01 they are comparable to zero-bias networks",
            lambda result: _lags(result, 0.01, 0.25),
            Within(COMPARABLE),
        ),
        Claim(
            "Zero-bias networks need less data: without augmentation they are ahead at full contrast too",
            lambda result: _lags(result, 1, 1),
            Below(),
        ),
    ),
    reported={},
    criteria=(
        f"Poor is more than {CLEAR:g} points behind, comparable within {COMPARABLE:g}. As long as the augmented network is "
        "not comparable at full contrast to the same network trained without augmentation, its training was too short, and "
        "all claims are open."
    ),
    departs=(
        "The paper trains networks with and without biases on augmented sets and gives no numbers; here those without see "
        "full contrast only. Whenever an image is seen it gets one of the eleven factors of the test, drawn anew; the paper "
        "says neither which networks and data it means nor whether its augmented sets are eleven times as large. The "
        "networks of Table 1 are shared, and their 20 epochs at Adadelta's rate of 0.01 leave the augmented undertrained."
    ),
)
