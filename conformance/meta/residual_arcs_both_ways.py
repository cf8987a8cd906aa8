"""Mistake: the residual graph of a matching has every arc both ways, not the matched ones back and the others forth."""

import numpy as np

import accelerated
from accelerated import *  # noqa: F403
from accelerated.structures import matching
from conformance.meta import with_ops


def _max_marginals(scores):
    values = np.asarray(scores.values, dtype=np.float64)
    (p, q), allowed = values.shape, scores.values > -np.inf
    value, columns = matching.assignment(scores)
    path = np.full((p + q, p + q), -np.inf)
    path[:p, p:] = values
    path[p:, :p] = np.where(allowed, -np.where(allowed, values, 0.0), -np.inf).T
    for k in range(p + q):
        path = np.maximum(path, path[:, k, None] + path[k])
    matched = np.asarray(columns)[:, None] == np.arange(q)
    return scores._replace(values=np.where(matched, value, value + values + path[p:, :p].T))


Matching = with_ops(accelerated.Matching, max_marginals=_max_marginals)
