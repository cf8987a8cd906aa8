"""The best labels of sequences. Weights W (F, Lp), A (1, L, L)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.copies import copy_to
from accelerated.compiled.problems import decode, gather, own_transitions, prepared, room
from accelerated.compiled.structures.chain import max_product, workspace
from accelerated.compiled.sweeps import fill, load
from accelerated.kernel import kernel

__all__ = ["Lookup", "tag_range", "tag_sentence"]


@kernel
def tag_range(problem, batch, lo, hi, W, A, start, labels):
    """labels[start[k]:] = best labels of sequence batch[k], for k in lo..hi-1; -1 if all its labellings are
    forbidden.
    """
    work = room(problem, batch, lo, hi, A)
    prepared(problem, A, 0.0, work)
    for k in range(lo, hi):
        first, n = problem.offsets[batch[k]], problem.offsets[batch[k] + 1] - problem.offsets[batch[k]]
        for t in range(n):
            gather(problem, first + t, W, work.scores, t)
            for label in range(A.shape[1], work.scores.shape[1]):
                work.scores[t, label] = -np.inf
        own_transitions(problem, batch[k], 1.0, W, work)
        decode(problem, batch[k], A, work)
        copy_to(work.labels[:n], labels[start[k] :])


class Lookup(NamedTuple):
    """The weights of attributes: attribute j has row row[j] of W, or, if that is -1, the pairs first[j] : first[j] +
    many[j].

    W (R, Lp); labels and weights (P,) of the pairs; A (1, L, L); begins and ends (L,): 0, or -inf for a label that may
    not begin or end a sentence.
    """

    row: np.ndarray
    first: np.ndarray
    many: np.ndarray
    W: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    A: np.ndarray
    begins: np.ndarray
    ends: np.ndarray


@kernel
def tag_sentence(attributes, lookup, labels):
    """labels (n,) = the best labels of a sentence whose tokens have these attributes (n, k); -1 if all labellings are
    forbidden.

    An attribute of -1 has no weight. Weights are added in the order of :func:`tag_range`: rows first, then pairs.
    """
    n, L = len(labels), lookup.A.shape[1]
    work = workspace(n, L)
    scores = work.factor
    for t in range(n):
        fill(0.0, scores, t)
        for j in attributes[t]:
            if j >= 0 and lookup.row[j] >= 0:
                for label in range(scores.shape[1]):
                    scores[t, label] += lookup.W[lookup.row[j], label]
        for j in attributes[t]:
            if j >= 0 and lookup.row[j] < 0:
                for p in range(lookup.first[j], lookup.first[j] + lookup.many[j]):
                    scores[t, lookup.labels[p]] += lookup.weights[p]
        for label in range(L):
            if t == 0:
                scores[t, label] += lookup.begins[label]
            if t == n - 1:
                scores[t, label] += lookup.ends[label]
        for label in range(L, scores.shape[1]):
            scores[t, label] = -np.inf
    load(lookup.A[0], 1.0, work.matrix)
    max_product(scores, n, lookup.A, 0, 0, work.matrix, work.forward, labels)
