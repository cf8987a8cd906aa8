"""Labelled trees with kernels: weights padded for them, the sparse primitives, the oracles."""

from __future__ import annotations

import accelerated.arrays
import reference.models.tree as reference
from accelerated.models.sequence import LabelWeights
from accelerated.structures.tree import Tree
from reference.models.tree import TreeData

__all__ = ["TreeData", "TreeModel"]


class TreeModel(reference.TreeModel, LabelWeights):
    structure_type = Tree
    arrays = accelerated.arrays
