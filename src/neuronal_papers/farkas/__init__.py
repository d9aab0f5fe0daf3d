"""Pooladian, Finlay & Oberman: Farkas Layers."""

from neuronal_papers.farkas import one_sided as one_sided
from neuronal_papers.farkas.born_dead import BORN_DEAD
from neuronal_papers.farkas.cutoff import CUTOFF
from neuronal_papers.farkas.small import ACTIVATIONS, DEAD_UNITS, MARGIN, MULTIPLIERS, WITH_OTHERS
from neuronal_papers.farkas.starts import STARTS
from neuronal_papers.farkas.tables import DEEP_LARGE_LR, FIRST_EPOCH, SUM_VS_MEAN, TABLE1, TABLE2, TABLE3, TABLE4
from neuronal_papers.farkas.tiny_imagenet import TINY_IMAGENET

ABOUT = "Farkas Layers: Don't Shift the Data, Fix the Geometry (Pooladian, Finlay & Oberman): what holds"
REPRODUCTIONS = (
    *(BORN_DEAD, TABLE1, STARTS, TABLE2, TINY_IMAGENET, TABLE3, FIRST_EPOCH, TABLE4, DEEP_LARGE_LR, SUM_VS_MEAN),
    *(MARGIN, MULTIPLIERS, ACTIVATIONS, CUTOFF, DEAD_UNITS, WITH_OTHERS),
)
