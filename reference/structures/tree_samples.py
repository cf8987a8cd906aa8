"""Labellings of trees drawn from their Gibbs distribution: messages up, labels down."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, Place, logsumexp
from reference.structures.sampling import choose
from reference.structures.tree_scores import Order, TreeScores, finite, leading, no_nodes, order, possible, transitions

__all__ = ["filtered", "sample"]


def filtered(xp: Any, scaled: TreeScores, walk: Order) -> tuple[Array, list[Array]]:
    """log sum_y exp(score(y)) (...,), and log P(y_v | scores of v and below), (..., L), for each node v; all -inf
    where nothing is feasible.
    """
    parents = scaled.parents.tolist()
    log_z = no_nodes(xp, scaled)
    below = [scaled.unary[..., v, :] for v in range(len(parents))]
    for v in [*walk.upward, *walk.roots]:
        norm = logsumexp(xp, below[v], axis=-1)  # what normalisation takes away: the sum is the log-partition
        log_z, below[v] = log_z + norm, below[v] - finite(xp, norm)[..., None]
        if parents[v] >= 0:
            message = logsumexp(xp, below[v][..., None, :] + transitions(scaled, v), axis=-1)
            below[parents[v]] = below[parents[v]] + message
    return log_z, below


def sample(scores: TreeScores, uniforms: Array, mu: float = 1.0) -> tuple[Array, Array]:
    """Labellings of each tree drawn with probability exp(score(y) / mu) / Z, independently, exactly.

    Roots from their marginals; then y_v ~ P(y_v | scores of v and below) exp(pairwise[v, y_parent(v), y_v] / mu),
    normalised.

    Parameters
    ----------
    scores : TreeScores
    uniforms : array (..., size, p)
        Independent numbers from [0, 1): the one at [..., s, v] decides the label of node v in draw s.
    mu : float > 0
        Temperature.

    Returns
    -------
    value : array (...,)
        mu log Z; -inf where every labelling is forbidden.
    labels : int64 array (..., size, p)
        -1 everywhere in a tree without a feasible labelling.

    Raises
    ------
    ValueError
        The parents run in a cycle.

    Notes
    -----
    Time O(p L (L + size)) with an exponential for each term; memory O(p L). Messages as in
    :func:`reference.structures.tree.sum_product`.

    Source
    ------
    Branson et al., section 1.2, where samples come from importance sampling: here from the model's own distribution.
    """
    xp = array_namespace(scores.unary)
    walk, parents = order(scores.parents), scores.parents.tolist()
    if not parents:
        size = uniforms.shape[-2]
        return no_nodes(xp, scores), Place.of(scores.unary).integers(np.zeros((*leading(scores), size, 0)))
    scaled = scores._replace(unary=possible(xp, scores) / mu, pairwise=scores.pairwise / mu)
    value, below = filtered(xp, scaled, walk)
    labels: list[Array] = [value] * len(parents)
    for v in walk.roots:
        labels[v] = choose(below[v][..., None, :], uniforms[..., v])
    *batch, _, L = scores.unary.shape
    size = uniforms.shape[-2]
    for v in reversed(walk.upward):
        table = xp.broadcast_to(transitions(scaled, v), (*batch, L, L))
        above = xp.broadcast_to(labels[parents[v]][..., None], (*batch, size, L))
        labels[v] = choose(below[v][..., None, :] + xp.take_along_axis(table, above, axis=-2), uniforms[..., v])
    drawn = xp.stack(labels, axis=-1)
    return mu * value, xp.where((value > -xp.inf)[..., None, None], drawn, xp.full_like(drawn, -1))
