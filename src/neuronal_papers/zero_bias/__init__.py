"""Geng, Xu, Ye & Si: Scalar Invariant Networks with Zero Bias (arXiv:2211.08486); tables and figures by their place.

The papers leave open the layers and widths of FCN, CNN and ResNet9, the scaling of the inputs and most of Figures 5 and 6;
what is chosen here is in the recipes, and why in ``departs``. Theorems, figures and sections have the numbers of the longer
version, which has the zero image and the kernels; in the workshop version Theorems 2 and 3 are 3 and 4.
"""

from neuronal_papers.core import Reproduction
from neuronal_papers.studies.pairs import PAIRS
from neuronal_papers.zero_bias.expressiveness import EXPRESSIVENESS
from neuronal_papers.zero_bias.mixtures import MIXTURES
from neuronal_papers.zero_bias.ntk import NTK
from neuronal_papers.zero_bias.table1 import CONTRASTS
from neuronal_papers.zero_bias.tiny_imagenet import TINY_IMAGENET
from neuronal_papers.zero_bias.training_curves import CURVES
from neuronal_papers.zero_bias.zero_image import ZERO_IMAGE

ABOUT = "Scalar Invariant Networks with Zero Bias (Geng, Xu, Ye & Si, arXiv:2211.08486): what holds"
OTHERS = (ZERO_IMAGE, CURVES, EXPRESSIVENESS, NTK, PAIRS)
REPRODUCTIONS: tuple[Reproduction, ...] = (*CONTRASTS, TINY_IMAGENET, *MIXTURES, *OTHERS)
