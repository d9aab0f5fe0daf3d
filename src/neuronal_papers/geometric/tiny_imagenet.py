"""Tables 1 and 2, Figure 4 on 100 classes of Tiny ImageNet: the paper's methods, and its norm around other units."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from neuronal_papers.core import Options, Recipes, Scales, Setting
from neuronal_papers.geometric import images
from neuronal_papers.geometric.comparison import BOTH, CONTROLS, EVERY, RATES, by, compared, is_best, measure_clean
from neuronal_papers.geometric.images import BEST, BY_ITSELF, SMALL_RESNET, SMOKE_RESNET, SMOKE_VGG

CLEAN: Options = {"protocol": "clean", "holdout": 0.1}
OURS: Options = {**CLEAN, "data": "tiny_imagenet100"}
VGG = replace(BY_ITSELF, **OURS, epochs=35)
RESNET = replace(SMALL_RESNET, **OURS, name="ResNet-18", epochs=90, warmup=0.05)
RATES_OF_VGG: Options = {"epochs": 10, "batch_size": 512}
RATES_OF_RESNET: Options = {"epochs": 15}
"""What differs while rates are tried."""


def _scales(smoke: Recipes, paper: Recipes, tuned_at: Options) -> Scales:
    options: dict[str, object] = {"tuning_seeds": (100,), "tuned_at": tuned_at}
    few = options | {"rates": (0.01, 0.1), "tuned_at": {}}
    return {"smoke": Setting(smoke, few), "paper": Setting(paper, options | {"rates": RATES[1:]})}


OTHER_DATA = (
    "Not the paper's data: 100 classes of Tiny ImageNet at 32x32, 5,000 test images, stand in for {}; so none of its "
    "numbers stand beside ours. "
)
ALIKE = (
    "a tenth of the training images is held out, and decides which epoch's weights are taken. Rates are tried with a seed "
    "of their own. Nothing is trained at the paper's rates. SP+IMN and WN+IMN are not in the paper: they take the mean off "
    "the input of every layer too, and have no angles. The rest is as in "
)
clean_best = partial(is_best, BEST, protocols=("clean",))
AHEAD = f"{{}}: {BEST} is more accurate than {' and '.join(CONTROLS)}, which have its norm"
against_controls = partial(clean_best, of_controls=True, beyond_paper=True)
table_of = partial(compared, measure=measure_clean, figures=images.figures)
TABLE2 = table_of(
    name="geometric/tiny_imagenet_vgg6",
    title="VGG-6 on Tiny ImageNet with eight methods and three batch sizes, a rate tuned for each method",
    where="Table 2, Figure 4, on other data",
    scales=_scales(by(replace(SMOKE_VGG, **CLEAN), *EVERY), images.batches(VGG, *EVERY), RATES_OF_VGG),
    claims=(*clean_best(images.HIGHEST), *against_controls(AHEAD.format("VGG-6")), *images.LARGE_BATCHES),
    criteria=images.IN_BATCHES,
    departs=(
        f"{OTHER_DATA.format('ImageNet32')}{VGG.epochs} epochs, the rate falling along a cosine instead of at plateaus; "
        f"{RATES_OF_VGG['epochs']} epochs and batches of {RATES_OF_VGG['batch_size']} while rates are tried, for all sizes; "
        f"{ALIKE}geometric/vgg6."
    ),
)
TABLE1 = table_of(
    name="geometric/tiny_imagenet_resnet18",
    title="ResNet-18 on Tiny ImageNet with eight methods, a rate tuned for each",
    where="Table 1, on other data",
    scales=_scales(
        by(replace(SMOKE_RESNET, **CLEAN), *EVERY, outside=False), by(RESNET, *EVERY, outside=False), RATES_OF_RESNET
    ),
    claims=(*clean_best(images.RESIDUAL_BEST), *against_controls(AHEAD.format("Residual networks"))),
    criteria=BOTH,
    departs=(
        f"{OTHER_DATA.format('ImageNet')}ResNet-18 instead of ResNet-50. {RESNET.epochs} epochs for all methods, the rate "
        f"rising over the first {RESNET.warmup:.0%} of them and falling along a cosine; {RATES_OF_RESNET['epochs']} epochs "
        f"while rates are tried; {ALIKE}geometric/resnet50 at scale small. The paper has three of the eight methods here."
    ),
)
