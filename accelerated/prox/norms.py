"""Regularizers of l1 and l2 norms over this panel's selections."""

import reference.prox.norms as reference
from accelerated.prox import selection
from reference.prox.norms import HalfSquaredL2, L2Ball

__all__ = ["L1", "HalfSquaredL2", "L1Ball", "L2Ball", "Simplex", "SquaredL1", "WeightedSquaredL1"]


class L1(reference.L1):
    ops = selection


class L1Ball(reference.L1Ball):
    ops = selection


class Simplex(reference.Simplex):
    ops = selection


class SquaredL1(reference.SquaredL1):
    ops = selection


class WeightedSquaredL1(reference.WeightedSquaredL1):
    ops = selection
