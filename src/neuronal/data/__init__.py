"""Named datasets, as tensors."""

from neuronal.data.augment import Augment
from neuronal.data.catalogue import DATASETS, load
from neuronal.data.dataset import Dataset, Split
from neuronal.data.training_set import fraction, with_wrong_labels

__all__ = ["DATASETS", "Augment", "Dataset", "Split", "fraction", "load", "with_wrong_labels"]
