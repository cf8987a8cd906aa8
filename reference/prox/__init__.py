"""Regularizers: value, prox, conjugate, Moreau envelope; and the selections that their proxes use."""

from reference.prox.composite import Sequential, SparseGroupLasso, TreeGroupLasso
from reference.prox.grouped import L21, ElasticNet, ElasticNetMKL, L21Ball, NonSparseMKL, SquaredL21
from reference.prox.norms import L1, HalfSquaredL2, L1Ball, L2Ball, Simplex, SquaredL1, WeightedSquaredL1
from reference.prox.selection import (
    project_l1_ball,
    project_simplex,
    prox_squared_l1,
    prox_weighted_squared_l1,
    soft_threshold,
)

__all__ = [
    "L1",
    "L21",
    "ElasticNet",
    "ElasticNetMKL",
    "HalfSquaredL2",
    "L1Ball",
    "L2Ball",
    "L21Ball",
    "NonSparseMKL",
    "Sequential",
    "Simplex",
    "SparseGroupLasso",
    "SquaredL1",
    "SquaredL21",
    "TreeGroupLasso",
    "WeightedSquaredL1",
    "project_l1_ball",
    "project_simplex",
    "prox_squared_l1",
    "prox_weighted_squared_l1",
    "soft_threshold",
]
