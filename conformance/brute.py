"""The mathematics by enumeration: every output listed, nothing clever, NumPy on the host."""

from __future__ import annotations

import itertools

import numpy as np


def labellings(unary: np.ndarray, pairwise: np.ndarray) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """All labellings of one chain (n, L), (n-1, L, L), and their scores."""
    outputs = list(itertools.product(range(unary.shape[1]), repeat=len(unary)))
    scores = [
        sum((unary[t, y] for t, y in enumerate(labels)), 0.0)
        + sum((pairwise[t - 1, labels[t - 1], labels[t]] for t in range(1, len(labels))), 0.0)
        for labels in outputs
    ]
    return outputs, np.array(scores, dtype=np.float64)


def log_sum_exp(scores: np.ndarray, mu: float) -> tuple[float, np.ndarray]:
    """mu log sum exp(scores / mu) and the probabilities; (-inf, zeros) if all are -inf."""
    top = scores.max()
    if top == -np.inf:
        return -np.inf, np.zeros(len(scores))
    weights = np.exp((scores - top) / mu)
    return float(top + mu * np.log(weights.sum())), weights / weights.sum()


def chain_marginals(unary: np.ndarray, pairwise: np.ndarray, mu: float) -> tuple[float, np.ndarray, np.ndarray]:
    """Value, node marginals (n, L) and edge marginals (n-1, L, L) of one chain, by summing over all labellings."""
    outputs, scores = labellings(unary, pairwise)
    value, probabilities = log_sum_exp(scores, mu)
    nodes, edges = np.zeros(unary.shape), np.zeros(pairwise.shape)
    for labels, p in zip(outputs, probabilities, strict=True):
        for t, y in enumerate(labels):
            nodes[t, y] += p
            if t > 0:
                edges[t - 1, labels[t - 1], y] += p
    return value, nodes, edges
