"""Geng, Xu, Ye & Si: Scalar Invariant Networks with Zero Bias (arXiv:2211.08486); tables and figures by their place.

The papers leave open the layers and widths of FCN, CNN and ResNet9, the scaling of the inputs and most of Figures 5 and 6;
what is chosen here is in the recipes, and why in ``departs``. Theorems, figures and sections have the numbers of the longer
version, which has the zero image and the kernels; in the workshop version Theorems 2 and 3 are 3 and 4.
"""

from neuronal.recipes.zero_bias.table1 import (
    AUGMENTATION,
    FIXUP_OR_NF,
    TABLE1_CIFAR_RESNET18,
    TABLE1_FASHION_CNN,
    TABLE1_IMAGENET_RESNET50,
    TABLE1_MNIST_FCN,
)
from neuronal.recipes.zero_bias.theorems import (
    CONE,
    CONVEX_REGION,
    EXPRESSIVENESS,
    INTERPOLATION,
    NTK,
    TRAINING_CURVES,
    ZERO_IMAGE,
)

ABOUT = "Scalar Invariant Networks with Zero Bias (Geng, Xu, Ye & Si, arXiv:2211.08486): what holds"
REPRODUCTIONS = (
    TABLE1_MNIST_FCN,
    TABLE1_FASHION_CNN,
    TABLE1_CIFAR_RESNET18,
    TABLE1_IMAGENET_RESNET50,
    AUGMENTATION,
    INTERPOLATION,
    CONVEX_REGION,
    CONE,
    ZERO_IMAGE,
    TRAINING_CURVES,
    EXPRESSIVENESS,
    NTK,
    FIXUP_OR_NF,
)
