"""Packed sequences whose pairs of neighbours have features: their losses by max-product and by entropy.

The weights of these features are the last of W (F, Lp), one after another in C order, as those of single pairs are
(:mod:`accelerated.compiled.problems.pairs`), so loops over all of W need no special case for them. A *cell* is a weight
that a pair of neighbours uses: the score of one pair of labels there is that of the transition plus those of its cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.copies import add_to, copy_table, copy_to
from accelerated.compiled.entries import entry
from accelerated.compiled.problems import oracles, sequence_entropy, sequence_max
from accelerated.compiled.problems.answers import MOST, StoredAnswers, nothing, room_for
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.problems.pairs import Pairs, rows_of
from accelerated.compiled.problems.sequence import augmented_scores, longest_of
from accelerated.compiled.problems.sequence_entropy import EntropyProblem
from accelerated.compiled.problems.sequence_max import MaxProblem
from accelerated.compiled.structures.chain import Workspace, max_product, workspace
from accelerated.compiled.structures.chain_log import log_sum_product
from accelerated.compiled.structures.chain_tables import sums_of_tables
from accelerated.compiled.sweeps import fill, load, padded
from accelerated.kernel import inlined, kernel

__all__ = ["EDGES", "EdgeEntropyProblem", "EdgeFeatures", "EdgeMaxProblem"]


class EdgeFeatures(NamedTuple):
    """The pair of positions p - 1 and p has entries indptr[p]:indptr[p+1] of ``indices`` and ``data``; the first
    position of a sequence has none.

    Feature j has the weights W.reshape(-1)[first[j] : first[j] + many[j]], for labels a, b with a Lp + b in codes from
    place[j] on, in order. cells (nnz + 1,): the number of cells of all earlier entries.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    first: np.ndarray
    many: np.ndarray
    place: np.ndarray
    codes: np.ndarray
    cells: np.ndarray


class _EdgeProblem(NamedTuple):
    offsets: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    labels: np.ndarray
    cost: np.ndarray
    pairs: Pairs
    edges: EdgeFeatures


class EdgeMaxProblem(_EdgeProblem):
    """Structural hinge: loss-augmented max-product. cost (L, L) by (true, predicted)."""


class EdgeEntropyProblem(_EdgeProblem):
    """The max smoothed by entropy: sum-product at temperature mu. The log loss has cost 0 and mu = 1."""


class EdgeWork(NamedTuple):
    """Room for one sequence of up to n positions.

    scores (n, Lp): scores, then node marginals less the truth; labels (n,); matrix (Lp, Lp): the prepared transitions;
    tables (n, Lp, Lp): the scores of pairs of neighbours, then their marginals; pairs (Lp, Lp): the sum of the latter;
    cells (C,): scores of cells, then marginals less the truth; chain: the chain kernels' own.
    """

    scores: np.ndarray
    labels: np.ndarray
    matrix: np.ndarray
    tables: np.ndarray
    pairs: np.ndarray
    cells: np.ndarray
    chain: Workspace


EDGES = (EdgeMaxProblem, EdgeEntropyProblem)


@inlined
def of_positions(problem):
    """The fields of a problem without features of pairs."""
    one = problem
    return one.offsets, one.indptr, one.indices, one.data, one.labels, one.cost, one.pairs


@inlined
def span_of(problem, i):
    """The first and the end of the entries of sequence i's pairs, and the same of their cells."""
    edges = problem.edges
    first, last = edges.indptr[problem.offsets[i]], edges.indptr[problem.offsets[i + 1]]
    return first, last, edges.cells[first], edges.cells[last]


@inlined
def entry_at(edges, j, code):
    """The number among feature j's weights of that for these labels; -1: there is none."""
    low, end = edges.place[j], edges.place[j] + edges.many[j]
    high = end
    while low < high:
        middle = (low + high) // 2
        if edges.codes[middle] < code:
            low = middle + 1
        else:
            high = middle
    return low - edges.place[j] if low < end and edges.codes[low] == code else -1


@kernel
def score_cells(problem, i, s, W, cells):
    """cells = s times the scores of sequence i's cells."""
    edges, flat, (first, last, begin, _) = problem.edges, W.reshape(-1), span_of(problem, i)
    for e in range(first, last):
        x, j, c = s * entry(edges.data, e), edges.indices[e], edges.cells[e] - begin
        for k in range(edges.many[j]):
            cells[c + k] = x * flat[edges.first[j] + k]


@kernel
def fill_tables(problem, i, matrix, factor, cells, tables):
    """tables[t] = matrix (Lp, Lp) + factor * cells, for t > 0."""
    edges, first, Lp, flat = problem.edges, problem.offsets[i], len(matrix), tables.reshape(-1)
    _, _, begin, _ = span_of(problem, i)
    for t in range(1, problem.offsets[i + 1] - first):
        for a in range(Lp):
            for b in range(Lp):
                tables[t, a, b] = matrix[a, b]
        for e in range(edges.indptr[first + t], edges.indptr[first + t + 1]):
            j, c = edges.indices[e], edges.cells[e] - begin
            for k in range(edges.many[j]):
                flat[t * Lp * Lp + edges.codes[edges.place[j] + k]] += factor * cells[c + k]


@kernel
def sums(problem, i, factor, scores, cells, work):
    """log Z at scores / mu and at work.matrix plus factor * cells; scores, work.tables and work.pairs become the
    marginals.
    """
    n, L = problem.offsets[i + 1] - problem.offsets[i], problem.cost.shape[1]
    for a in range(len(work.pairs)):
        fill(0.0, work.pairs, a)
    fill_tables(problem, i, work.matrix, factor, cells, work.tables)
    value = sums_of_tables(scores, n, L, work.tables, work.chain, work.pairs)
    if np.isnan(value):
        fill_tables(problem, i, work.matrix, factor, cells, work.tables)
        marginals = np.zeros_like(work.tables)
        value = log_sum_product(scores, n, work.tables, 1, 1, 1.0, work.chain, marginals)
        for t in range(1, n):
            copy_table(marginals[t], work.tables[t])
            for a in range(len(work.pairs)):
                add_to(1.0, marginals[t, a], work.pairs[a])
    return value


@kernel
def take_cells(problem, i, tables, cells):
    """cells = the entries of the tables there."""
    edges, first, flat, size = problem.edges, problem.offsets[i], tables.reshape(-1), tables.shape[1] * tables.shape[2]
    _, _, begin, _ = span_of(problem, i)
    for t in range(1, problem.offsets[i + 1] - first):
        for e in range(edges.indptr[first + t], edges.indptr[first + t + 1]):
            j, c = edges.indices[e], edges.cells[e] - begin
            for k in range(edges.many[j]):
                cells[c + k] = flat[t * size + edges.codes[edges.place[j] + k]]


@kernel
def add_to_truth(problem, i, x, cells):
    """cells += x at the cells of the true labels. Returns the sum of these cells before."""
    edges, Lp, total, (_, _, begin, _) = problem.edges, padded(problem.cost.shape[1]), 0.0, span_of(problem, i)
    for p in range(problem.offsets[i] + 1, problem.offsets[i + 1]):
        code = problem.labels[p - 1] * Lp + problem.labels[p]
        for e in range(edges.indptr[p], edges.indptr[p + 1]):
            k = entry_at(edges, edges.indices[e], code)
            if k >= 0:
                total += cells[edges.cells[e] - begin + k]
                cells[edges.cells[e] - begin + k] += x
    return total


# what both losses share; other questions are answered in :mod:`accelerated.compiled.problems.shared`


@kernel
def most_cells(problem, batch, lo, hi):
    """The largest number of cells of a sequence of batch[lo:hi]."""
    most = 0
    for k in range(lo, hi):
        _, _, begin, end = span_of(problem, batch[k])
        most = max(most, end - begin)
    return most


@answers(oracles.room, *EDGES)
def room(problem, batch, lo, hi, A):
    longest, L = longest_of(problem, batch, lo, hi), A.shape[1]
    Lp, cells = padded(L), np.empty(most_cells(problem, batch, lo, hi))
    scores, labels, tables = np.empty((longest, Lp)), np.empty(longest, np.int64), np.empty((longest, Lp, Lp))
    return EdgeWork(scores, labels, np.empty((Lp, Lp)), tables, np.empty((Lp, Lp)), cells, workspace(longest, L))


@answers(oracles.touched, *EDGES)
def touched(problem, i):
    edges, rows, Lp = problem.edges, rows_of(problem, i), padded(len(problem.cost))
    first, last, begin, end = span_of(problem, i)
    together = np.empty(len(rows) + (end - begin) // Lp + 2 * (last - first), np.int64)
    copy_to(rows, together)
    count = len(rows)
    for j in edges.indices[first:last]:
        for row in range(edges.first[j] // Lp, (edges.first[j] + edges.many[j] + Lp - 1) // Lp):
            together[count] = row
            count += 1
    return together[:count]


# max-product


@answers(oracles.oracle, EdgeMaxProblem)
def max_oracle(problem, i, s, W, A, ready, mu, work):
    gold = augmented_scores(problem, i, s, W, A, 1.0, work.scores)
    oracles.own_transitions(problem, i, s, W, work)
    gold += add_to_truth(problem, i, 0.0, work.cells)
    return oracles.decode(problem, i, A, work) - gold


@answers(oracles.own_transitions, EdgeMaxProblem)
def own_transitions(problem, i, s, W, work):
    score_cells(problem, i, s, W, work.cells)
    fill_tables(problem, i, work.matrix, 1.0, work.cells, work.tables)


@answers(oracles.own_transitions, MaxProblem)
def shared_transitions(problem, i, s, W, work):
    pass


@answers(oracles.decode, EdgeMaxProblem)
def decode(problem, i, A, work):
    n = problem.offsets[i + 1] - problem.offsets[i]
    return max_product(work.scores, n, work.tables, 1, 1, work.chain.matrix, work.chain.forward, work.labels)


@answers(oracles.add_rows, EdgeMaxProblem)
def add_max_rows(problem, i, factor, work, G):
    oracles.add_rows(MaxProblem(*of_positions(problem)), i, factor, work, G)
    first, Lp = problem.offsets[i], work.scores.shape[1]
    for t in range(1, problem.offsets[i + 1] - first):
        guess = work.labels[t - 1] * Lp + work.labels[t]
        code = problem.labels[first + t - 1] * Lp + problem.labels[first + t]
        if guess != code:
            add_pair(problem.edges, first + t, factor, guess, G)
            add_pair(problem.edges, first + t, -factor, code, G)


@kernel
def add_pair(edges, p, factor, code, G):
    """G += factor * the features of the pair that ends at position p, for these labels."""
    flat = G.reshape(-1)
    for e in range(edges.indptr[p], edges.indptr[p + 1]):
        k = entry_at(edges, edges.indices[e], code)
        if k >= 0:
            flat[edges.first[edges.indices[e]] + k] += factor * entry(edges.data, e)


for name in ("add_dense", "task_loss"):
    answers(getattr(oracles, name), EdgeMaxProblem)(getattr(sequence_max, name))


# entropy


@answers(oracles.prepared, EdgeEntropyProblem)
def prepared(problem, A, mu, work):
    load(A[0], 1.0 / mu, work.matrix)
    return work.matrix


@answers(oracles.oracle, EdgeEntropyProblem)
def entropy_oracle(problem, i, s, W, A, ready, mu, work):
    gold = augmented_scores(problem, i, s, W, A, 1.0 / mu, work.scores)
    score_cells(problem, i, s, W, work.cells)
    gold += add_to_truth(problem, i, 0.0, work.cells)
    value = sums(problem, i, 1.0 / mu, work.scores, work.cells, work)
    take_cells(problem, i, work.tables, work.cells)
    add_to_truth(problem, i, -1.0, work.cells)
    for t in range(problem.offsets[i + 1] - problem.offsets[i]):
        work.scores[t, problem.labels[problem.offsets[i] + t]] -= 1.0
    return mu * value - gold


@answers(oracles.add_rows, EdgeEntropyProblem)
def add_entropy_rows(problem, i, factor, work, G):
    oracles.add_rows(EntropyProblem(*of_positions(problem)), i, factor, work, G)
    edges, flat, (first, last, begin, _) = problem.edges, G.reshape(-1), span_of(problem, i)
    for e in range(first, last):
        x, j, c = factor * entry(edges.data, e), edges.indices[e], edges.cells[e] - begin
        for k in range(edges.many[j]):
            flat[edges.first[j] + k] += x * work.cells[c + k]


@answers(oracles.add_dense, EdgeEntropyProblem)
def add_entropy_dense(problem, i, factor, work, G):
    oracles.add_dense(EntropyProblem(*of_positions(problem)), i, factor, work, G)
    for a in range(G.shape[1]):
        for b in range(G.shape[2]):
            G[0, a, b] += factor * work.pairs[a, b] * problem.pairs.transitions[a, b]


answers(oracles.task_loss, EdgeEntropyProblem)(sequence_entropy.task_loss)


@room_for.register
def _(problem: EdgeEntropyProblem) -> StoredAnswers:
    n, N, L, C = len(problem.offsets) - 1, int(problem.offsets[-1]), len(problem.cost), int(problem.edges.cells[-1])
    Lp = padded(L)
    if 8 * (Lp * (N + n * L) + C) > MOST:
        return nothing()
    answer = nothing()._replace(scores=np.empty((N, Lp)), pairs=np.empty((n, L, Lp)), outputs=np.full(n, -1))
    return answer._replace(weights=np.empty((C, 1)))  # of cells


@answers(oracles.remember, EdgeEntropyProblem)
def remember(problem, i, work, kept):
    oracles.remember_rows(problem, i, work, kept)
    copy_table(work.pairs[: kept.pairs.shape[1]], kept.pairs[i])
    kept.outputs[i] = 1


@answers(oracles.recall, EdgeEntropyProblem)
def recall(problem, i, kept, work):
    if len(kept.outputs) == 0 or kept.outputs[i] < 0:
        return False
    oracles.recall_rows(problem, i, kept, work)
    copy_table(kept.pairs[i], work.pairs)
    return True


@answers(oracles.remember_rows, EdgeEntropyProblem)
def remember_rows(problem, i, work, kept):
    oracles.remember_rows(EntropyProblem(*of_positions(problem)), i, work, kept)
    _, _, begin, end = span_of(problem, i)
    copy_to(work.cells[: end - begin], kept.weights[begin:, 0])


@answers(oracles.recall_rows, EdgeEntropyProblem)
def recall_rows(problem, i, kept, work):
    oracles.recall_rows(EntropyProblem(*of_positions(problem)), i, kept, work)
    _, _, begin, end = span_of(problem, i)
    copy_to(kept.weights[begin:end, 0], work.cells)


@answers(oracles.subtract, EdgeEntropyProblem)
def subtract(problem, i, work, other):
    oracles.subtract(EntropyProblem(*of_positions(problem)), i, work, other)
    _, _, begin, end = span_of(problem, i)
    add_to(-1.0, other.cells[: end - begin], work.cells)
