"""Regularizers of l1 and l2 norms over this panel's selections."""

import reference.prox.norms as reference
from accelerated.prox import selection
from reference.prox.norms import HalfSquaredL2, L2Ball

__all__ = ["L1", "HalfSquaredL2", "L1Ball", "L2Ball", "Simplex", "SquaredL1", "WeightedSquaredL1"]


class L1(reference.L1):
    __doc__ = reference.L1.__doc__
    ops = selection


class L1Ball(reference.L1Ball):
    __doc__ = reference.L1Ball.__doc__
    ops = selection


class Simplex(reference.Simplex):
    __doc__ = reference.Simplex.__doc__
    ops = selection


class SquaredL1(reference.SquaredL1):
    __doc__ = reference.SquaredL1.__doc__
    ops = selection


class WeightedSquaredL1(reference.WeightedSquaredL1):
    __doc__ = reference.WeightedSquaredL1.__doc__
    ops = selection
