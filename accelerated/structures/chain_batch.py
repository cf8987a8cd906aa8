"""Batches of masked chains that share transitions, for layers: one call of a kernel for all chains, over threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from accelerated.compiled.structures.chain_batch import (
    Batch,
    Messages,
    Tables,
    backward_range,
    forward_range,
    hessian_range,
)
from accelerated.compiled.sweeps import padded
from accelerated.threads import in_parallel, ranges

__all__ = ["backward", "batch_of", "forward", "hessian"]


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
    return Batch(unary.reshape(G * B * n, L), rows, offset, pairwise, starts, ends, gold, max(B, 1), n)


def forward(batch: Batch, mu: float = 1.0, threads: int | None = None) -> tuple[np.ndarray, Messages]:
    """mu log sum_y exp(score(y) / mu) (G B,), less the score of the gold labels if there are any, and the messages.

    nan where a score of a chain is nan or +inf, or a gold label none of 0..L-1. A chain without positions has value 0.
    """
    value, width = np.empty(len(batch.offset) - 1), padded(batch.unary.shape[1])
    kept = Messages(*(np.empty((len(batch.unary), width)) for _ in Messages._fields))
    in_parallel(lambda lo, hi: forward_range(lo, hi, batch, mu, value, kept), _pieces(batch), threads)
    if not all(np.all(table < np.inf) for table in (batch.pairwise, batch.starts, batch.ends)):
        value[:] = np.nan
    return value, kept


def backward(batch: Batch, mu: float, kept: Messages, weights: np.ndarray, threads: int | None = None) -> Tables:
    """The gradient of sum_b weights[b] value[b] of :func:`forward`."""
    return _summed(batch, lambda lo, hi, out: backward_range(lo, hi, batch, mu, weights, kept, *out), threads)


def hessian(
    batch: Batch, mu: float, weights: np.ndarray, along: Tables, threads: int | None = None
) -> tuple[np.ndarray, Tables]:
    """The derivatives along a direction: of each value (G B,), without gold scores, and of the gradient of their
    weighted sum.
    """
    inner = np.empty(len(batch.offset) - 1)

    def run(lo: int, hi: int, out: Tables) -> None:
        hessian_range(lo, hi, batch, mu, weights, along, inner, out)

    return inner, _summed(batch, run, threads)


def _pieces(batch: Batch) -> list[tuple[int, int]]:
    return ranges(batch.offset) if len(batch.offset) > 1 else []


def _summed(batch: Batch, run: Any, threads: int | None) -> Tables:
    """Tables that pieces of the batch fill: rows of their own, and sums of transitions that are added up."""
    pieces, (G, L, _) = _pieces(batch), batch.pairwise.shape
    nodes = np.zeros(batch.unary.shape, batch.unary.dtype)
    parts = [Tables(nodes, np.zeros((G, L, L)), np.zeros((2, G, L))) for _ in pieces]
    in_parallel(lambda lo, hi: run(lo, hi, parts[pieces.index((lo, hi))]), pieces, threads)
    edges, ends = (sum((part[i] for part in parts), np.zeros(shape)) for i, shape in ((1, (G, L, L)), (2, (2, G, L))))
    return Tables(nodes, edges, ends)
