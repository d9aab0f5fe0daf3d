"""Pooladian, Finlay & Oberman: Farkas Layers."""

from neuronal_papers.farkas import one_sided as one_sided
from neuronal_papers.farkas.born_dead import BORN_DEAD
from neuronal_papers.farkas.cutoff import CUTOFF
from neuronal_papers.farkas.dead_units import DEAD_UNITS
from neuronal_papers.farkas.large_rates import DEEP_LARGE_LR, SUM_VS_MEAN
from neuronal_papers.farkas.multipliers import MULTIPLIERS
from neuronal_papers.farkas.table3_imagenet import FIRST_EPOCH, TABLE3
from neuronal_papers.farkas.table4_best_practice import TABLE4
from neuronal_papers.farkas.with_and_without_norm import TABLE1, TABLE2
from neuronal_papers.studies.farkas_activations import ACTIVATIONS
from neuronal_papers.studies.farkas_margin import MARGIN
from neuronal_papers.studies.farkas_with_others import WITH_OTHERS

ABOUT = "Farkas Layers: Don't Shift the Data, Fix the Geometry (Pooladian, Finlay & Oberman): what holds"
REPRODUCTIONS = (
    BORN_DEAD,
    TABLE1,
    TABLE2,
    TABLE3,
    FIRST_EPOCH,
    TABLE4,
    DEEP_LARGE_LR,
    SUM_VS_MEAN,
    MARGIN,
    MULTIPLIERS,
    ACTIVATIONS,
    CUTOFF,
    DEAD_UNITS,
    WITH_OTHERS,
)
