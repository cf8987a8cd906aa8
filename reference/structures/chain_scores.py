"""The scores of linear chains, and functions that all oracles of chains use."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from reference.arrays import Array, host

__all__ = ["ChainScores", "exists", "first_of", "frozen", "no_positions", "on_host", "transitions"]


class ChainScores(NamedTuple):
    """The scores of a batch of chains, or a gradient with respect to them: the shapes are the same.

    unary (..., n, L); pairwise (L, L) shared by all positions and chains, or (..., n-1, L, L), one for each pair of
    neighbours; lengths (...,) int64, or None if every chain has length n; mask (..., n) bool, or None if every position
    belongs to its chain (:mod:`reference.structures.chain_masks`; the functions of arrays take none).
    """

    unary: Array
    pairwise: Array
    lengths: Array | None = None
    mask: Array | None = None


# not scores: every oracle returns them unchanged
ChainScores.layout = ("lengths", "mask")  # type: ignore[attr-defined]


def transitions(scores: Any, t: int) -> Array:
    """Pairwise scores between t-1 and t: (label at t-1, label at t) on the last axes. Only this function handles a
    shared pairwise matrix.
    """
    return scores.pairwise if scores.pairwise.ndim == 2 else scores.pairwise[..., t - 1, :, :]


def frozen(xp: Any, lengths: Array | None, t: int, new: Array, old: Array | float) -> Array:
    """``new`` for the chains that have a position t, ``old`` for those that have ended."""
    if lengths is None:
        return new
    alive = xp.reshape(lengths > t, tuple(lengths.shape) + (1,) * (new.ndim - lengths.ndim))
    return xp.where(alive, new, old)


def exists(xp: Any, scores: ChainScores) -> Array:
    """Booleans (..., n): True at the positions that belong to the chain."""
    shape = tuple(scores.unary.shape[:-1])
    place = device(scores.unary)
    if scores.lengths is None:
        return xp.ones(shape, dtype=xp.bool, device=place) if scores.mask is None else scores.mask
    within = xp.arange(shape[-1], dtype=xp.int64, device=place) < scores.lengths[..., None]
    return within if scores.mask is None else within & scores.mask


def no_positions(xp: Any, unary: Array) -> tuple[Array, Array]:
    """Value 0 and the empty labelling, for chains with n = 0."""
    shape = tuple(unary.shape[:-2])
    place = device(unary)
    return xp.zeros(shape, dtype=unary.dtype, device=place), xp.zeros((*shape, 0), dtype=xp.int64, device=place)


def first_of(scores: Any, axes: int) -> Any:
    """The scores of the first chain of a batch along one axis; of a single one, whose first field has so many axes,
    they themselves.
    """
    first, pairwise, *layout = scores
    if first.ndim == axes:
        return scores
    layout = [None if each is None else each[0, ...] for each in layout]
    return type(scores)(first[0, ...], pairwise if pairwise.ndim == 2 else pairwise[0, ...], *layout)


def on_host(question: str, scores: Any, axes: int, one: str) -> tuple[np.ndarray, np.ndarray]:
    """The first field (n, ...) and pairwise (n-1, L, L) of a single chain on the host, n its length."""
    first, pairwise, lengths = scores[:3]
    if first.ndim != axes:
        raise ValueError(f"{question}: expected a single {one}, got a batch of shape {tuple(first.shape[:-axes])}")
    n = first.shape[0] if lengths is None else int(lengths)
    first, pairwise = host(first)[:n], host(pairwise)
    if pairwise.ndim == 2:
        pairwise = np.broadcast_to(pairwise, (max(n - 1, 0), *pairwise.shape))
    return first, pairwise
