"""Mistake: the capacities of Algorithm 11 as printed, and the negative ones taken for 0."""

import numpy as np

import accelerated
from accelerated import *  # noqa: F403
from accelerated.structures import cut
from conformance.meta import with_ops


def _minimum_cut(scores):
    theta = -np.asarray(scores.pairwise, dtype=np.float64)
    unary, pairwise = np.array(scores.unary, dtype=np.float64), np.zeros_like(theta)
    np.add.at(unary, (scores.edges[:, 0], 0), -theta[:, 0, 0])
    np.add.at(unary, (scores.edges[:, 1], 1), -theta[:, 1, 1])
    pairwise[:, 1, 0] = -np.maximum(theta[:, 1, 0], 0.0)
    pairwise[:, 0, 1] = -np.maximum(theta[:, 0, 1] - theta[:, 0, 0] - theta[:, 1, 1], 0.0)
    return cut.minimum_cut(cut.CutScores(unary, pairwise, scores.edges))


Cut = with_ops(accelerated.Cut, minimum_cut=_minimum_cut)
