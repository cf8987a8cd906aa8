"""Batches of masked chains that share transitions, for layers: one call of a kernel for all chains, over threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from accelerated.compiled.structures.chain_batch import (
    Batch,
    Tables,
    best_range,
    hessian_range,
    sums_range,
)
from accelerated.threads import in_parallel, ranges

__all__ = ["batch_of", "best", "hessian", "sums"]


def batch_of(
    unary: np.ndarray,
    pairwise: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    labels: np.ndarray | None = None,
    mask: np.ndarray | None = None,
) -> Batch:
    """The batch of chains in G groups: unary (G, B, n, L) in C order, float32 or float64, its values not copied.

    pairwise (G, L, L), starts and ends (G, L), float64: shared by the chains of a group. labels (G, B, n) int64: gold
    labels. mask (G, B, n) bool: the positions that belong to a chain.
    """
    G, B, n, L = unary.shape
    if mask is None:
        rows, offset = np.arange(G * B * n), np.arange(G * B + 1) * n
    else:
        rows, offset = np.flatnonzero(mask), np.zeros(G * B + 1, np.int64)
        np.cumsum(mask.reshape(G * B, n).sum(axis=1), out=offset[1:])
    gold = np.zeros(0, np.int64) if labels is None else labels.reshape(-1)
    return Batch(unary.reshape(G * B * n, L), rows, offset, pairwise, starts, ends, gold, max(B, 1))


def best(batch: Batch, threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The highest scores (G B,) and the labels (N,) that have them, -1 at rows that belong to no chain.

    nan where a score of a chain is nan or +inf; -inf, and labels -1, where every labelling is forbidden.
    """
    value, labels = np.empty(len(batch.offset) - 1), np.full(len(batch.unary), -1)
    in_parallel(lambda lo, hi: best_range(lo, hi, batch, value, labels), _pieces(batch), threads)
    return _nan_by_tables(batch, value), labels


def sums(batch: Batch, mu: float, weights: np.ndarray, threads: int | None = None) -> tuple[np.ndarray, Tables]:
    """mu log sum_y exp(score(y) / mu) (G B,), less the score of the gold labels if there are any; and the gradient of
    the sum of weights (G B,) times these; of weights (0,), no gradient.

    nan where a score of a chain is nan or +inf, or a gold label none of 0..L-1. A chain without positions has value 0.
    """
    value, filled = np.empty(len(batch.offset) - 1), np.empty if len(batch.rows) == len(batch.unary) else np.zeros
    nodes = filled(batch.unary.shape if len(weights) else (0, 0), batch.unary.dtype)

    def run(lo: int, hi: int, out: Tables) -> None:
        sums_range(lo, hi, batch, mu, weights, value, *out)

    tables = _summed(batch, nodes, run, threads)
    return _nan_by_tables(batch, value), tables


def hessian(
    batch: Batch, mu: float, weights: np.ndarray, along: Tables, threads: int | None = None
) -> tuple[np.ndarray, Tables]:
    """The derivatives along a direction: of each value (G B,), without gold scores, and of the gradient of their
    weighted sum. The former are nan, and both of no use, where scaled messages may lose a path.
    """
    inner = np.empty(len(batch.offset) - 1)

    def run(lo: int, hi: int, out: Tables) -> None:
        hessian_range(lo, hi, batch, mu, weights, along, inner, out)

    return inner, _summed(batch, np.zeros(batch.unary.shape, batch.unary.dtype), run, threads)


def _nan_by_tables(batch: Batch, value: np.ndarray) -> np.ndarray:
    """The values, nan if a score that chains share is nan or +inf."""
    if not all(np.all(table < np.inf) for table in (batch.pairwise, batch.starts, batch.ends)):
        value[:] = np.nan
    return value


def _pieces(batch: Batch) -> list[tuple[int, int]]:
    return ranges(batch.offset) if len(batch.offset) > 1 else []


def _summed(batch: Batch, nodes: np.ndarray, run: Any, threads: int | None) -> Tables:
    """Tables that pieces of the batch fill: rows of nodes of their own, and sums of transitions that are added up."""
    pieces, (G, L, _) = _pieces(batch), batch.pairwise.shape
    edges, ends = (np.zeros((max(len(pieces), 1), *shape)) for shape in ((G, L, L), (2, G, L)))

    def piece(lo: int, hi: int) -> None:
        k = pieces.index((lo, hi))
        run(lo, hi, Tables(nodes, edges[k], ends[k]))

    in_parallel(piece, pieces, threads)
    return Tables(nodes, *(each[0] if len(each) == 1 else each.sum(axis=0) for each in (edges, ends)))
