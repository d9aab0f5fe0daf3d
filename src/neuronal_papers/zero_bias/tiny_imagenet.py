"""Table 1's residual networks on 100 classes of Tiny ImageNet: without a norm and with Fixup, each at a tuned rate."""

from __future__ import annotations

from dataclasses import replace

from neuronal.experiments import Recipe
from neuronal_papers.core import Setting
from neuronal_papers.zero_bias import table1
from neuronal_papers.zero_bias.table1 import CIFAR_RESNET18, NARROW_RESNET18, both

TUNING_EPOCHS = 15
BASE = replace(CIFAR_RESNET18, data="tiny_imagenet100", replay=True)
TUNED = {"rates": (0.01, 0.03, 0.1, 0.3), "tuning_seeds": (100,)}
AT_HOLDOUT = {"holdout": 0.1, "epochs": TUNING_EPOCHS}
FEW = {"rates": (0.01, 0.1), "tuning_seeds": (100,), "tuned_at": {"holdout": 0.5}}


def plain_and_fixup(base: Recipe) -> tuple[Recipe, ...]:
    """With nothing in the place of batch norm, and with Fixup, whose scalars alone have a rate of their own."""
    plain = replace(base, name="ResNet18, no norm", norm="none", scalar_lr=1.0)
    return both(plain, replace(base, name="ResNet18, Fixup"))


TINY_IMAGENET = replace(
    table1.TABLE1_MNIST_FCN,
    name="zero_bias/tiny_imagenet",
    title="Accuracy over contrasts, ResNet-18 without batch norm on Tiny ImageNet, a rate tuned for each network",
    where="Table 1, rows 5 to 8, on other data",
    scales={
        "smoke": Setting(plain_and_fixup(NARROW_RESNET18), FEW),
        "paper": Setting(plain_and_fixup(BASE), TUNED | {"tuned_at": AT_HOLDOUT}),
    },
    reported={},
    criteria=(
        f"Accuracy does not depend on contrast if it changes by at most {table1.FLAT:g} points, and falls if by more than "
        f"{table1.CLEAR:g}. Accuracies are similar within {table1.SIMILAR:g} points. Rates are chosen by held-out "
        f"training images after {TUNING_EPOCHS} epochs, by one seed."
    ),
    departs=(
        "Not the paper's data: 100 classes of Tiny ImageNet at 32x32, 5,000 test images, stand in for CIFAR-100 and "
        f"ImageNet; so none of its numbers stand beside ours. {BASE.epochs} epochs. The paper leaves batch norm out and "
        "names no substitute: here nothing stands in its place, or Fixup, as in the table of CIFAR, whose training this is."
    ),
)
