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
    """log sum_y exp(score(y)) (...,), and log P(y_v | scores of the subtree of v), (..., L), for each node v.

    If no labelling is feasible, all are -inf.
    """
    parents = scaled.parents.tolist()
    log_z = no_nodes(xp, scaled)
    subtree = [scaled.unary[..., v, :] for v in range(len(parents))]
    for v in [*walk.upward, *walk.roots]:
        norm = logsumexp(xp, subtree[v], axis=-1)  # the log-normaliser of v; the sum is the log-partition
        log_z, subtree[v] = log_z + norm, subtree[v] - finite(xp, norm)[..., None]
        if parents[v] >= 0:
            message = logsumexp(xp, subtree[v][..., None, :] + transitions(scaled, v), axis=-1)
            subtree[parents[v]] = subtree[parents[v]] + message
    return log_z, subtree


def sample(scores: TreeScores, uniforms: Array, mu: float = 1.0) -> tuple[Array, Array]:
    """Independent labellings of each tree, drawn exactly with probability exp(score(y) / mu) / Z.

    Roots are drawn from their marginals, then y_v ~ P(y_v | scores of the subtree of v)
    exp(pairwise[v, y_parent(v), y_v] / mu), normalised.

    Parameters
    ----------
    scores : TreeScores
    uniforms : array (..., size, p)
        Independent random numbers in [0, 1); [..., s, v] determines the label of node v in sample s.
    mu : float > 0
        Temperature.

    Returns
    -------
    value : array (...,)
        mu log Z; -inf where every labelling is forbidden.
    labels : int64 array (..., size, p)
        -1 at every node of a tree without a feasible labelling.

    Raises
    ------
    ValueError
        The parents form a cycle.

    Notes
    -----
    Time O(p (L^2 + size log L)), memory O(p (L + size) + L^2). Messages are those of
    :func:`reference.structures.tree.sum_product`.

    Source
    ------
    Branson et al., section 1.2. The samples there come from importance sampling, here from the model's distribution.
    """
    xp = array_namespace(scores.unary)
    walk, parents = order(scores.parents), scores.parents.tolist()
    if not parents:
        size = uniforms.shape[-2]
        return no_nodes(xp, scores), Place.of(scores.unary).integers(np.zeros((*leading(scores), size, 0)))
    scaled = scores._replace(unary=possible(xp, scores) / mu, pairwise=scores.pairwise / mu)
    value, subtree = filtered(xp, scaled, walk)
    labels: list[Array] = [value] * len(parents)
    for v in walk.roots:
        labels[v] = choose(subtree[v], None, uniforms[..., v])
    for v in reversed(walk.upward):
        logits = subtree[v][..., None, :] + transitions(scaled, v)  # (..., label of the parent, label of v)
        labels[v] = choose(logits, labels[parents[v]], uniforms[..., v])
    labelling = xp.stack(labels, axis=-1)
    return mu * value, xp.where((value > -xp.inf)[..., None, None], labelling, -1)
