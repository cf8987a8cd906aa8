"""Labelled trees with the sparse primitives and the oracles as kernels."""

import accelerated.arrays
import reference.models.tree as reference
from accelerated.structures.tree import Tree
from reference.models.tree import TreeData

__all__ = ["TreeData", "TreeModel"]


class TreeModel(reference.TreeModel):
    structure_type = Tree
    arrays = accelerated.arrays
