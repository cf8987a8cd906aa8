"""Yardsticks: the best vectorised NumPy formulations that we know, for a batch of chains of equal length.

unary (B, n, L) and a shared pairwise (L, L), without forbidden parts and with moderate scores: nothing here guards
against underflow. Arrays have positions first, so that a step is one pass over all chains (and one BLAS product).
"""

from __future__ import annotations

import numpy as np

__all__ = ["forward_backward", "viterbi"]


def viterbi(unary: np.ndarray, pairwise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """value (B,), labels (B, n): one maximum for each source label, argmax along the best path only."""
    B, n, L = unary.shape
    unary = np.ascontiguousarray(unary.transpose(1, 0, 2))
    into = np.ascontiguousarray(pairwise.T)
    best, candidate = np.empty((B, L)), np.empty((B, L))
    delta = np.empty((n, B, L))
    delta[0] = unary[0]
    for t in range(1, n):
        np.add(delta[t - 1][:, :1], pairwise[0], out=best)
        for i in range(1, L):
            np.add(delta[t - 1][:, i : i + 1], pairwise[i], out=candidate)
            np.maximum(best, candidate, out=best)
        np.add(best, unary[t], out=delta[t])
    labels = np.empty((n, B), dtype=np.intp)
    labels[n - 1] = delta[n - 1].argmax(axis=1)
    for t in range(n - 1, 0, -1):
        labels[t - 1] = (delta[t - 1] + into[labels[t]]).argmax(axis=1)
    return delta[n - 1].max(axis=1), labels.T


def forward_backward(unary: np.ndarray, pairwise: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """value (B,), node marginals (B, n, L), summed edge marginals (L, L), by BLAS products in the scaled probability
    domain.
    """
    B, n, L = unary.shape
    top, shift = unary.max(axis=2), pairwise.max()
    factor = np.empty((n, B, L))
    np.subtract(unary.transpose(1, 0, 2), top.T[:, :, None], out=factor)
    np.exp(factor, out=factor)
    transition = np.exp(pairwise - shift)
    transposed = np.ascontiguousarray(transition.T)
    ones = np.ones(L)
    forward, normaliser = np.empty((n, B, L)), np.empty((n, B))
    forward[0] = factor[0]
    for t in range(n):
        if t > 0:
            np.matmul(forward[t - 1], transition, out=forward[t])
            forward[t] *= factor[t]
        np.matmul(forward[t], ones, out=normaliser[t])
        scale = (1.0 / normaliser[t])[:, None]
        forward[t] *= scale
        factor[t] *= scale
    backward, nodes = np.ones((B, L)), np.empty((n, B, L))
    nodes[n - 1] = forward[n - 1]
    for t in range(n - 1, 0, -1):
        factor[t] *= backward
        np.matmul(factor[t], transposed, out=backward)
        np.multiply(forward[t - 1], backward, out=nodes[t - 1])
    edges = forward[:-1].reshape(-1, L).T @ factor[1:].reshape(-1, L)
    edges *= transition
    value = np.log(normaliser).sum(axis=0) + top.sum(axis=1) + (n - 1) * shift
    return value, nodes.transpose(1, 0, 2), edges
