"""Sums of regularizers with parts of this panel."""

import reference.prox.composite as reference
from accelerated.prox.norms import L1
from reference.prox.composite import Sequential, TreeGroupLasso

__all__ = ["Sequential", "SparseGroupLasso", "TreeGroupLasso"]


class SparseGroupLasso(reference.SparseGroupLasso):
    inner_type = L1
