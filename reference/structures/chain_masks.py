"""Chains of the positions that a mask keeps, and scores of the labels at both ends.

Kept positions move to the front, in their order, so that neighbours that are left adjoin; answers move back. The score
of an edge belongs to its later position: kept neighbours s < t have pairwise[t - 1].
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from reference.arrays import Array
from reference.structures.chain_scores import ChainScores, exists

__all__ = ["at_end", "front", "labels_back", "labels_front", "parts_back", "with_end"]


def front(scores: ChainScores) -> ChainScores:
    """The scores of the chains of the kept positions, without a mask."""
    if scores.mask is None:
        return scores
    xp, order = array_namespace(scores.unary), _order(scores)
    unary, pairwise = xp.take_along_axis(scores.unary, order[..., None], axis=-2), scores.pairwise
    if pairwise.ndim > 2:
        edges = xp.clip(order[..., min(order.shape[-1], 1) :] - 1, min=0)
        pairwise = xp.take_along_axis(pairwise, edges[..., None, None], axis=-3)
    return ChainScores(unary, pairwise, xp.sum(xp.astype(exists(xp, scores), xp.int64), axis=-1))


def labels_front(scores: ChainScores, y: Array) -> Array:
    """Labels (..., n) or (..., k, n), those of the kept positions in front."""
    return y if scores.mask is None else _taken(y, _order(scores))


def labels_back(scores: ChainScores, y: Array) -> Array:
    """The inverse of :func:`labels_front`, of labels that are -1 past the number of kept positions."""
    return y if scores.mask is None else _taken(y, _rank(scores))


def parts_back(scores: ChainScores, answer: ChainScores, filler: float = 0.0) -> ChainScores:
    """Numbers of the parts of :func:`front` at the positions of these parts, ``filler`` where there is none."""
    if scores.mask is None:
        return answer
    xp, rank = array_namespace(scores.unary), _rank(scores)
    unary, pairwise = xp.take_along_axis(answer.unary, rank[..., None], axis=-2), answer.pairwise
    if pairwise.ndim > 2:
        rank = rank[..., min(rank.shape[-1], 1) :, None, None]
        moved = xp.take_along_axis(pairwise, xp.clip(rank - 1, min=0), axis=-3)
        pairwise = xp.where(rank > 0, moved, filler)
    return ChainScores(unary, pairwise, scores.lengths, scores.mask)


def at_end(scores: ChainScores, last: bool) -> Array:
    """Booleans (..., n): True at the first position of each chain, or at its last."""
    xp: Any = array_namespace(scores.unary)
    kept = xp.astype(exists(xp, scores), xp.int64)
    count = xp.flip(xp.cumulative_sum(xp.flip(kept, axis=-1), axis=-1), axis=-1) if last else None
    return (kept == 1) & ((xp.cumulative_sum(kept, axis=-1) if count is None else count) == 1)


def with_end(scores: ChainScores, end: Array, last: bool) -> ChainScores:
    """The scores with those of labels, ``end`` (L,), added at the first or at the last position of each chain."""
    xp: Any = array_namespace(scores.unary)
    added = xp.where(at_end(scores, last)[..., None], end, 0.0)
    return scores._replace(unary=scores.unary + added)


def _taken(y: Array, index: Array) -> Array:
    return array_namespace(y).take_along_axis(y, index if y.ndim == index.ndim else index[..., None, :], axis=-1)


def _order(scores: ChainScores) -> Array:
    """The positions (..., n) of each chain, the kept ones first."""
    xp: Any = array_namespace(scores.unary)
    return xp.argsort(xp.astype(~exists(xp, scores), xp.int64), axis=-1, stable=True)


def _rank(scores: ChainScores) -> Array:
    """The place (..., n) of each position in that order."""
    return array_namespace(scores.unary).argsort(_order(scores), axis=-1, stable=True)
