"""Pooladian, Finlay & Oberman: Farkas Layers."""

from neuronal_papers.farkas import one_sided as one_sided
from neuronal_papers.farkas.born_dead import BORN_DEAD
from neuronal_papers.farkas.cutoff import CUTOFF
from neuronal_papers.farkas.dead_units import DEAD_UNITS
from neuronal_papers.farkas.depths import FIRST_EPOCH, TABLE1, TABLE2, TABLE3
from neuronal_papers.farkas.rates import DEEP_LARGE_LR, SUM_VS_MEAN, TABLE4
from neuronal_papers.studies.farkas_variants import ACTIVATIONS, MARGIN, MULTIPLIERS, WITH_OTHERS

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
