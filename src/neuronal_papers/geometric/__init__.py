"""Chen & Ge: Neural Characteristic Activation Analysis and Geometric Parameterization (arXiv:2305.15912).

Settings are those of the authors' code where it says more than the paper, or something else; what differs is in ``departs``.
"""

from neuronal_papers.geometric.images import TABLE1, TABLE2
from neuronal_papers.geometric.motion import FIGURE2, FIGURE3, LEARNING_RATE
from neuronal_papers.geometric.tiny_imagenet import TABLE1 as TINY_RESNET18
from neuronal_papers.geometric.tiny_imagenet import TABLE2 as TINY_VGG6
from neuronal_papers.geometric.uci import INITIALISATION, TABLE3
from neuronal_papers.geometric.units import BOUNDARY_1D, BOUNDARY_2D, PERTURBATION
from neuronal_papers.studies.geometric_same_rate import SAME_RATE

ABOUT = (
    "Neural Characteristic Activation Analysis and Geometric Parameterization for ReLU Networks "
    "(Chen & Ge, arXiv:2305.15912): what holds"
)
FIGURES = (PERTURBATION, BOUNDARY_1D, BOUNDARY_2D, FIGURE2, FIGURE3, SAME_RATE)
REPRODUCTIONS = (*FIGURES, TABLE3, TABLE2, TINY_VGG6, TABLE1, TINY_RESNET18, INITIALISATION, LEARNING_RATE)
