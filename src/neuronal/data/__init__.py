"""Named datasets, as tensors."""

from neuronal.data.catalogue import DATASETS, load
from neuronal.data.dataset import Dataset, Split

__all__ = ["DATASETS", "Dataset", "Split", "load"]
