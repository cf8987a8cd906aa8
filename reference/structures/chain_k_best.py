"""The k best labellings of a chain, and max-marginals: the best score with each part.

Source: Pillutla et al., Algorithm 2 (K max-product) and Definition 13 (max-marginals).
"""

from __future__ import annotations

from array_api_compat import array_namespace, device

from reference.arrays import Array
from reference.structures.base import KBest, k_best
from reference.structures.chain_scores import ChainScores, exists, frozen, no_positions, transitions

__all__ = ["largest", "max_marginals", "top_k_viterbi"]


def top_k_viterbi(scores: ChainScores, k: int) -> KBest:
    """The k highest-scoring distinct labellings of each chain (the top-K oracle).

    pi_t^(k)(j) = unary[t, j] + max^(k)_{i, l} (pi_{t-1}^(l)(i) + pairwise[t-1, i, j])

    Parameters
    ----------
    scores : ChainScores
    k : int >= 1
        May exceed the number of labellings.

    Returns
    -------
    KBest
        scores (..., k) from high to low, then -inf; labels (..., k, n), -1 past a chain's length and beyond ``count``;
        count (...,), the number of labellings found: k, or all that are not forbidden. The empty chain has one
        labelling, of score 0.

    Notes
    -----
    Time O(n L^2 k log(k L)) by sorting, memory O(n L k), with k L^2 more within a step. Ties: the smaller label at the
    last position first, then backwards, so that the first labelling is that of :func:`viterbi`. Scores are compared as
    rounded sums from the first position on. If two scores become equal by a later rounding, the order before that
    rounding stays.

    Source
    ------
    Pillutla et al., Algorithm 2, *corrected*: entries of score -inf are dropped. Otherwise, if there are fewer than k
    labellings, some would be returned twice, or although they are forbidden.
    """
    xp = array_namespace(scores.unary)
    unary, lengths = scores.unary, scores.lengths
    *batch, n, n_labels = unary.shape
    kept = min(k, n_labels**n)
    if n == 0:
        value, empty = no_positions(xp, unary)
        return k_best(value[..., None], empty[..., None, :], k)
    # best (..., label at t, rank): the kept best scores of labellings up to t. States are label * kept + rank.
    padding = xp.full((*batch, n_labels, kept - 1), -xp.inf, dtype=unary.dtype, device=device(unary))
    best = xp.concat([unary[..., 0, :, None], padding], axis=-1)
    back = []
    for t in range(1, n):
        into = xp.matrix_transpose(transitions(scores, t))
        total = best[..., None, :, :] + into[..., None]  # (..., label at t, label at t-1, rank)
        total, states = largest(xp.reshape(total, (*batch, n_labels, n_labels * kept)), kept)
        back.append(xp.reshape(states, (*batch, n_labels * kept)))
        best = frozen(xp, lengths, t, unary[..., t, :, None] + total, best)
    value, state = largest(xp.reshape(best, (*batch, n_labels * kept)), kept)
    labels = [state // kept]
    for t in range(n - 1, 0, -1):
        state = frozen(xp, lengths, t, xp.take_along_axis(back[t - 1], state, axis=-1), state)
        labels.append(state // kept)
    path = xp.stack(labels[::-1], axis=-1)
    if lengths is not None:
        is_first = xp.arange(kept, dtype=xp.int64, device=device(unary)) == 0
        empty = xp.where(is_first, xp.zeros_like(value), xp.full_like(value, -xp.inf))
        value = xp.where((lengths > 0)[..., None], value, empty)
    return k_best(value, xp.where(exists(xp, scores)[..., None, :], path, -1), k)


def largest(x: Array, k: int) -> tuple[Array, Array]:
    """The k largest along the last axis, from high to low, and their indices; among equals the smaller index first."""
    xp = array_namespace(x)
    if k == 1:
        order = xp.argmax(x, axis=-1, keepdims=True)
    else:
        order = xp.argsort(x, axis=-1, descending=True, stable=True)[..., :k]
    return xp.take_along_axis(x, order, axis=-1), order


def max_marginals(scores: ChainScores) -> ChainScores:
    """The highest score of a labelling that has each part.

    unary[t, j] = max_{y: y_t = j} score(y),  pairwise[t-1, i, j] = max_{y: y_{t-1} = i, y_t = j} score(y)

    Parameters
    ----------
    scores : ChainScores

    Returns
    -------
    ChainScores
        unary (..., n, L); pairwise (..., n-1, L, L) **even if the scores share one matrix**: these are values, one
        for each part of an output, not a gradient. -inf past a chain's length and for parts that no possible labelling
        has.

    Notes
    -----
    Time O(n L^2), memory O(n L^2). At each position the largest value over labels, or over pairs, equals the value of
    :func:`viterbi` up to rounding, because the sums run from both ends.

    Source
    ------
    Pillutla et al., Definition 13 (of labels; here of pairs as well), by max-product from both ends of the chain.
    """
    xp = array_namespace(scores.unary)
    unary, lengths = scores.unary, scores.lengths
    *batch, n, n_labels = unary.shape
    if n < 2:
        nodes = xp.where(exists(xp, scores)[..., None], unary, -xp.inf)
        no_edges = xp.zeros((*batch, 0, n_labels, n_labels), dtype=unary.dtype, device=device(unary))
        return ChainScores(nodes, no_edges, lengths)
    forward = [unary[..., 0, :]]  # best score up to t, with each label there
    for t in range(1, n):
        forward.append(unary[..., t, :] + xp.max(forward[-1][..., None] + transitions(scores, t), axis=-2))
    backward = xp.zeros_like(forward[0])  # best score after t
    nodes, edges = [forward[-1]], []
    for t in range(n - 1, 0, -1):
        total = transitions(scores, t) + (unary[..., t, :] + backward)[..., None, :]  # (..., label at t-1, label at t)
        backward = frozen(xp, lengths, t, xp.max(total, axis=-1), xp.zeros_like(backward))
        edges.append(forward[t - 1][..., :, None] + total)
        nodes.append(forward[t - 1] + backward)
    node, edge = xp.stack(nodes[::-1], axis=-2), xp.stack(edges[::-1], axis=-3)
    in_chain = exists(xp, scores)
    return ChainScores(
        xp.where(in_chain[..., None], node, -xp.inf),
        xp.where(in_chain[..., 1:, None, None], edge, -xp.inf),
        lengths,
    )
