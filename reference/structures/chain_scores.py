"""The scores of linear chains, and how a position looks at its neighbours. What the oracles of chains share."""

from __future__ import annotations

from typing import Any, NamedTuple

from array_api_compat import device

from reference.arrays import Array

__all__ = ["ChainScores", "exists", "finite", "frozen", "no_positions", "transitions", "transitions_into"]


class ChainScores(NamedTuple):
    """The scores of a batch of chains; a gradient with respect to them has the same shapes.

    unary (..., n, L); pairwise (L, L) shared by all positions and chains, or (..., n-1, L, L), one for each pair of
    neighbours; lengths (...,) int64, or None where every chain has length n.
    """

    unary: Array
    pairwise: Array
    lengths: Array | None = None


ChainScores.layout = ("lengths",)  # type: ignore[attr-defined]  # not scores: every oracle returns them unchanged


# the next two are the only places that know whether pairwise is shared


def transitions(scores: ChainScores, t: int) -> Array:
    """Pairwise scores between t-1 and t: (label at t-1, label at t) on the last axes."""
    return scores.pairwise if scores.pairwise.ndim == 2 else scores.pairwise[..., t - 1, :, :]


def transitions_into(xp: Any, scores: ChainScores, t: int) -> Array:
    """The same with the label at t-1 on the last axis, so that reductions over it run along the last axis."""
    return xp.matrix_transpose(transitions(scores, t))


def frozen(xp: Any, lengths: Array | None, t: int, new: Array, old: Array) -> Array:
    """``new`` for the chains that have a position t, ``old`` for those that have ended."""
    if lengths is None:
        return new
    alive = xp.reshape(lengths > t, tuple(lengths.shape) + (1,) * (new.ndim - lengths.ndim))
    return xp.where(alive, new, old)


def finite(xp: Any, x: Array) -> Array:
    """x with 0 for -inf: what may be subtracted from -inf."""
    return xp.where(x > -xp.inf, x, xp.zeros_like(x))


def exists(xp: Any, scores: ChainScores) -> Array:
    """(..., n) booleans: True on the positions that exist."""
    shape = tuple(scores.unary.shape[:-1])
    where = device(scores.unary)
    if scores.lengths is None:
        return xp.ones(shape, dtype=xp.bool, device=where)
    return xp.arange(shape[-1], dtype=xp.int64, device=where) < scores.lengths[..., None]


def no_positions(xp: Any, unary: Array) -> tuple[Array, Array]:
    """Value 0 and the empty labelling for chains of n = 0."""
    shape = tuple(unary.shape[:-2])
    where = device(unary)
    return xp.zeros(shape, dtype=unary.dtype, device=where), xp.zeros((*shape, 0), dtype=xp.int64, device=where)
