"""Regularizers of group norms over this panel's selections."""

import reference.prox.grouped as reference
from accelerated.prox import selection
from reference.prox.grouped import L21, ElasticNet, ElasticNetMKL, NonSparseMKL

__all__ = ["L21", "ElasticNet", "ElasticNetMKL", "L21Ball", "NonSparseMKL", "SquaredL21"]


class L21Ball(reference.L21Ball):
    ops = selection


class SquaredL21(reference.SquaredL21):
    ops = selection
