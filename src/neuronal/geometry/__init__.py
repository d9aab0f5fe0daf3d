"""Looks at a model and never changes it."""

from neuronal.core.inference import outputs
from neuronal.geometry.affine import AffineMap, affine_map
from neuronal.geometry.boundary import BoundaryDistances, boundaries, boundary_distances
from neuronal.geometry.lowering import lower
from neuronal.geometry.pattern import Bend, Patterns, activation_pattern, group_by_pattern
from neuronal.geometry.recorder import NotPiecewiseLinear
from neuronal.geometry.regions import ClassRegion, Regions, regions_2d
from neuronal.geometry.segment import Pieces, Switch, pieces, segment_pieces

__all__ = [
    "AffineMap",
    "Bend",
    "BoundaryDistances",
    "ClassRegion",
    "NotPiecewiseLinear",
    "Patterns",
    "Pieces",
    "Regions",
    "Switch",
    "activation_pattern",
    "affine_map",
    "boundaries",
    "boundary_distances",
    "group_by_pattern",
    "lower",
    "outputs",
    "pieces",
    "regions_2d",
    "segment_pieces",
]
