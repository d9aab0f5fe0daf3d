"""Table 2 on 100 classes of Tiny ImageNet, which stand in for CIFAR-100: a learning rate tuned for every network."""

from __future__ import annotations

from dataclasses import replace

from neuronal_papers.core import Setting
from neuronal_papers.farkas.errors import AS_TABLE_1, error_table, lower_error
from neuronal_papers.farkas.networks import CIFAR, TINY, named
from neuronal_papers.farkas.starts import FEW
from neuronal_papers.farkas.tables import SIMILAR, WITHOUT_NORM, both, by_depth, with_norm

DEPTHS = (18, 34)
EPOCHS, TUNING_EPOCHS = 40, 15
TUNED = {"classes": 100, "rates": (0.003, 0.01, 0.03, 0.1, 0.3), "tuning_seeds": (100,)}
AT_HOLDOUT = {"holdout": 0.1, "epochs": TUNING_EPOCHS}
BASE = replace(CIFAR, data="tiny_imagenet100", epochs=EPOCHS)
TINY_IMAGENET = error_table(
    name="farkas/tiny_imagenet",
    title="Errors on Tiny ImageNet with and without batch norm, a rate tuned for each network",
    where="Table 2, on other data",
    scales={
        "smoke": Setting(tuple(named(one, one.name, width=8) for one in both(TINY, 18)), FEW),
        "paper": Setting(both(BASE, *DEPTHS), TUNED | {"tuned_at": AT_HOLDOUT}),
    },
    claims=(lower_error(WITHOUT_NORM, by_depth("none", *DEPTHS)), with_norm(SIMILAR, *DEPTHS)),
    criteria=f"{AS_TABLE_1} Rates are chosen by held-out training images after {TUNING_EPOCHS} epochs, by one seed.",
    departs=(
        "Not the paper's data: 100 classes of Tiny ImageNet at 32x32, 5,000 test images, stand in for CIFAR-100; so none of "
        f"its numbers stand beside ours. {EPOCHS} epochs instead of 200, the rate cut at the same shares of them; 18 and 34 "
        "layers instead of 34, 50 and 101. The paper has one rate for each half of its table. Networks, changes of images "
        "and training are those of Table 1."
    ),
)
