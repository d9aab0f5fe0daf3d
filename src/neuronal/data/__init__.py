"""Named datasets, as tensors."""

from neuronal.data.augment import Augment
from neuronal.data.catalogue import DATASETS, load
from neuronal.data.dataset import Dataset, Split
from neuronal.data.generated import arrow_at, arrows
from neuronal.data.training_set import fraction, with_wrong_labels

__all__ = [
    "DATASETS",
    "Augment",
    "Dataset",
    "Split",
    "arrow_at",
    "arrows",
    "fraction",
    "load",
    "with_wrong_labels",
]
