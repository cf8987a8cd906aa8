"""Packed sequence problems and their oracles, chosen by the problem's type.

A problem holds sequences: number i owns positions offsets[i]:offsets[i+1], position p has entries indptr[p]:indptr[p+1] of
``indices`` and ``data``. Weights are s W, with W (F, Lp), labels padded to a multiple of 8, and a number s; and A (1, L, L). One example is

    work = new_work(longest, L, outputs_of(problem))      once
    ready = prepared(problem, A, mu, work)                once for each A
    loss = oracle(problem, i, s, W, A, ready, mu, work)   scores, then the (smoothed) max
    add_features(problem, i, factor, work, G)             G (F, Lp) += factor * (features of the (smoothed) best - of the truth)
    add_transitions(problem, i, factor, work, G)          G (1, L, L) likewise, but for expected transitions ...
    flush(problem, factor, ready, work, G)                ... which wait for this: all since the last flush
    task_loss(problem, i, work)                           its mean under the oracle's weights
    exact(problem, work)                                  whether the oracle's answer is that of the smoothing itself

Each has one body for each problem type: numba's ``overload`` picks it when a loop is compiled. The Python functions of these names
are only the places that the overloads hang on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from accelerated.compiled.arithmetic import muladd
from accelerated.compiled.chains import Workspace, finish, max_product, prepare, sum_product, workspace
from accelerated.compiled.sweeps import fill, load, padded
from accelerated.compiled.top_k import Outputs, mixture, outputs_room, smoothed_best
from accelerated.kernel import inlined, kernel

__all__ = [
    "EntropyProblem",
    "MaxProblem",
    "TopKProblem",
    "Work",
    "add_features",
    "add_transitions",
    "exact",
    "flush",
    "gather",
    "new_work",
    "oracle",
    "outputs_of",
    "prepared",
    "task_loss",
]


class MaxProblem(NamedTuple):
    """Structural hinge: loss-augmented max-product. cost (L, L) by (true, predicted)."""

    offsets: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    labels: np.ndarray
    cost: np.ndarray


class EntropyProblem(NamedTuple):
    """The max smoothed by entropy: sum-product at temperature mu. The log loss is the one with cost 0 and mu = 1."""

    offsets: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    labels: np.ndarray
    cost: np.ndarray


class TopKProblem(NamedTuple):
    """The max smoothed by squared l2 over the k best outputs, or fewer where they are certified to be enough."""

    offsets: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    labels: np.ndarray
    cost: np.ndarray
    k: int


class Work(NamedTuple):
    """Room for one sequence of up to n positions, and for sums over sequences.

    scores (n, Lp): scores, then node marginals; labels (n,); matrix, transposed (Lp, Lp): the prepared transitions; pairs (Lp, Lp) and
    edges (1, L, L): expected transitions, to be flushed; chain: the chain kernels' own; outputs: the best outputs, for TopKProblem.
    """

    scores: np.ndarray
    labels: np.ndarray
    matrix: np.ndarray
    transposed: np.ndarray
    pairs: np.ndarray
    edges: np.ndarray
    chain: Workspace
    outputs: Outputs


@kernel
def new_work(longest, n_labels, outputs=0):
    """Room for sequences of up to ``longest`` positions, and for so many ``outputs`` of each: `outputs_of` the problem."""
    Lp = padded(n_labels)
    return Work(
        np.empty((longest, Lp)),
        np.empty(longest, np.int64),
        np.empty((Lp, Lp)),
        np.empty((Lp, Lp)),
        np.zeros((Lp, Lp)),
        np.zeros((1, n_labels, n_labels)),
        workspace(longest, n_labels),
        outputs_room(longest if outputs > 0 else 0, n_labels, outputs),
    )


@inlined
def gather(problem, position, W, scores, t):
    """scores[t] = the sum over a position's features of their rows of W (F, Lp): four rows a sweep, in the order of storage."""
    first, last = problem.indptr[position], problem.indptr[position + 1]
    fill(0.0, scores, t)
    for b in range((last - first) // 4):
        e = first + 4 * b
        x0, x1, x2, x3 = problem.data[e], problem.data[e + 1], problem.data[e + 2], problem.data[e + 3]
        j0, j1, j2, j3 = problem.indices[e], problem.indices[e + 1], problem.indices[e + 2], problem.indices[e + 3]
        for label in range(scores.shape[1]):
            two = muladd(x1, W[j1, label], muladd(x0, W[j0, label], scores[t, label]))
            scores[t, label] = muladd(x3, W[j3, label], muladd(x2, W[j2, label], two))
    for e in range(last - (last - first) % 4, last):
        x, j = problem.data[e], problem.indices[e]
        for label in range(scores.shape[1]):
            scores[t, label] = muladd(x, W[j, label], scores[t, label])


@kernel
def augmented_scores(problem, i, s, W, A, inverse_mu, scores):
    """scores[:n] = (scores + cost of sequence i) * inverse_mu, padded with -inf; returns the true labelling's own score."""
    first, n, L = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i], A.shape[1]
    gold = 0.0
    for t in range(n):
        y = problem.labels[first + t]
        gather(problem, first + t, W, scores, t)
        gold += s * scores[t, y]
        if t > 0:
            gold += A[0, problem.labels[first + t - 1], y]
        for label in range(L):
            scores[t, label] = (s * scores[t, label] + problem.cost[y, label]) * inverse_mu
        for label in range(L, scores.shape[1]):
            scores[t, label] = -np.inf
    return gold


def outputs_of(problem: Any) -> Any:
    """How many outputs of a sequence the oracle keeps: k, or 0 where it keeps labels or marginals instead."""
    raise TypeError("outputs_of is called from kernels only")


def prepared(problem: Any, A: Any, mu: Any, work: Any) -> Any:
    """What the oracle needs of the transition weights."""
    raise TypeError("prepared is called from kernels only")


def oracle(problem: Any, i: Any, s: Any, W: Any, A: Any, ready: Any, mu: Any, work: Any) -> Any:
    """The loss of sequence i; the workspace then holds its gradient."""
    raise TypeError("oracle is called from kernels only")


def add_features(problem: Any, i: Any, factor: Any, work: Any, G: Any) -> Any:
    """G (F, Lp) += factor * the gradient of sequence i with respect to the feature weights."""
    raise TypeError("add_features is called from kernels only")


def add_transitions(problem: Any, i: Any, factor: Any, work: Any, G: Any) -> Any:
    """G (1, L, L) += factor * the gradient with respect to the transitions, but for what waits for ``flush``."""
    raise TypeError("add_transitions is called from kernels only")


def flush(problem: Any, factor: Any, ready: Any, work: Any, G: Any) -> Any:
    """G (1, L, L) += factor * the expected transitions gathered since the last flush."""
    raise TypeError("flush is called from kernels only")


def task_loss(problem: Any, i: Any, work: Any) -> Any:
    """The mean task loss of sequence i under the oracle's weights."""
    raise TypeError("task_loss is called from kernels only")


def exact(problem: Any, work: Any) -> Any:
    """Whether the oracle's answer is that of the smoothing itself."""
    raise TypeError("exact is called from kernels only")


@overload(outputs_of)
def _outputs_of(problem):
    if problem.instance_class is TopKProblem:

        def best(problem):
            return problem.k

        return best

    def none(problem):
        return 0

    return none


@overload(prepared)
def _prepared(problem, A, mu, work):
    if problem.instance_class in (MaxProblem, TopKProblem):

        def best(problem, A, mu, work):
            load(A[0], 1.0, work.matrix)
            return work.matrix

        return best

    def expected(problem, A, mu, work):
        return prepare(A[0], 1.0 / mu, work.matrix, work.transposed)

    return expected


@overload(oracle)
def _oracle(problem, i, s, W, A, ready, mu, work):
    if problem.instance_class is MaxProblem:

        def best(problem, i, s, W, A, ready, mu, work):
            n = problem.offsets[i + 1] - problem.offsets[i]
            gold = augmented_scores(problem, i, s, W, A, 1.0, work.scores)
            return max_product(work.scores, n, A, 0, 0, ready, work.chain.forward, work.labels) - gold

        return best

    if problem.instance_class is TopKProblem:

        def several(problem, i, s, W, A, ready, mu, work):
            n = problem.offsets[i + 1] - problem.offsets[i]
            if len(work.outputs.values) != problem.k + 1 or work.outputs.labels.shape[1] < n:
                raise ValueError("work: no room for the outputs of this problem; new_work takes outputs_of(problem)")
            gold = augmented_scores(problem, i, s, W, A, 1.0, work.scores)
            return smoothed_best(work.scores, n, A, ready, mu, work.outputs) - gold

        return several

    def expected(problem, i, s, W, A, ready, mu, work):
        n = problem.offsets[i + 1] - problem.offsets[i]
        gold = augmented_scores(problem, i, s, W, A, 1.0 / mu, work.scores)
        value = sum_product(work.scores, n, ready, A, 0, 1.0 / mu, work.chain, work.pairs, work.edges)
        for t in range(n):
            work.scores[t, problem.labels[problem.offsets[i] + t]] -= 1.0
        return mu * value - gold

    return expected


@overload(add_features)
def _add_features(problem, i, factor, work, G):
    if problem.instance_class is MaxProblem:

        def best(problem, i, factor, work, G):
            first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
            for t in range(n):
                y, guess = problem.labels[first + t], work.labels[t]
                if y != guess:
                    for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
                        x, j = factor * problem.data[e], problem.indices[e]
                        G[j, guess] += x
                        G[j, y] -= x

        return best

    if problem.instance_class is TopKProblem:

        def several(problem, i, factor, work, G):
            first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
            labels, weights, count = work.outputs.labels, work.outputs.weights, work.outputs.state[0]
            here, share = work.outputs.here, work.outputs.share
            for t in range(n):
                m = mixture(count, labels, weights, t, problem.labels[first + t], here, share)
                if m > 0:
                    for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
                        x, j = factor * problem.data[e], problem.indices[e]
                        for a in range(m):
                            G[j, here[a]] += x * share[a]

        return several

    def expected(problem, i, factor, work, G):
        first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
        for t in range(n):
            for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
                x, j = factor * problem.data[e], problem.indices[e]
                for label in range(G.shape[1]):
                    G[j, label] = muladd(x, work.scores[t, label], G[j, label])

    return expected


@overload(add_transitions)
def _add_transitions(problem, i, factor, work, G):
    if problem.instance_class is MaxProblem:

        def best(problem, i, factor, work, G):
            first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
            for t in range(1, n):
                G[0, work.labels[t - 1], work.labels[t]] += factor
                G[0, problem.labels[first + t - 1], problem.labels[first + t]] -= factor

        return best

    if problem.instance_class is TopKProblem:

        def several(problem, i, factor, work, G):
            first, n, labels = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i], work.outputs.labels
            for t in range(1, n):
                before, y, others = problem.labels[first + t - 1], problem.labels[first + t], 0.0
                for a in range(work.outputs.state[0]):
                    if labels[a, t - 1] != before or labels[a, t] != y:
                        weight = factor * work.outputs.weights[a]
                        G[0, labels[a, t - 1], labels[a, t]] += weight
                        others += weight
                G[0, before, y] -= others

        return several

    def expected(problem, i, factor, work, G):
        first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
        for t in range(1, n):
            G[0, problem.labels[first + t - 1], problem.labels[first + t]] -= factor

    return expected


@overload(flush)
def _flush(problem, factor, ready, work, G):
    if problem.instance_class in (MaxProblem, TopKProblem):

        def nothing(problem, factor, ready, work, G):
            pass

        return nothing

    def expected(problem, factor, ready, work, G):
        finish(ready, work.pairs, work.edges[0])
        for i in range(G.shape[1]):
            for j in range(G.shape[2]):
                G[0, i, j] += factor * work.edges[0, i, j]
                work.edges[0, i, j] = 0.0
        for i in range(work.pairs.shape[0]):
            fill(0.0, work.pairs, i)

    return expected


@overload(task_loss)
def _task_loss(problem, i, work):
    if problem.instance_class is MaxProblem:

        def best(problem, i, work):
            first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
            total = 0.0
            for t in range(n):
                total += problem.cost[problem.labels[first + t], work.labels[t]]
            return total

        return best

    if problem.instance_class is TopKProblem:

        def several(problem, i, work):
            first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
            total = 0.0
            for a in range(work.outputs.state[0]):
                for t in range(n):
                    cost = problem.cost[problem.labels[first + t], work.outputs.labels[a, t]]
                    total += work.outputs.weights[a] * cost
            return total

        return several

    def expected(problem, i, work):  # scores are marginals less the truth, which costs nothing
        first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
        total = 0.0
        for t in range(n):
            y = problem.labels[first + t]
            for label in range(problem.cost.shape[1]):
                total += problem.cost[y, label] * work.scores[t, label]
        return total

    return expected


@overload(exact)
def _exact(problem, work):
    if problem.instance_class is TopKProblem:

        def certified(problem, work):
            return work.outputs.state[1] == 1

        return certified

    def always(problem, work):
        return True

    return always
