"""Packed sequences whose pairs of neighbours have features: their losses by max-product and by entropy.

The weights of these features are the last of W (F, Lp), one after another in C order, as those of single pairs are
(:mod:`accelerated.compiled.problems.pairs`), so loops over all of W need no special case for them. A *cell* is a weight
that a pair of neighbours uses: the score of one pair of labels there is that of the transition plus those of its cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.entries import entry
from accelerated.compiled.problems import oracles, sequence_entropy, sequence_max
from accelerated.compiled.problems.answers import MOST, StoredAnswers, nothing, room_for
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.problems.pairs import Pairs, rows_of
from accelerated.compiled.problems.sequence import augmented_scores, longest_of
from accelerated.compiled.problems.sequence_entropy import EntropyProblem
from accelerated.compiled.problems.sequence_max import MaxProblem
from accelerated.compiled.structures.chain import Workspace, max_product, workspace
from accelerated.compiled.structures.chain_tables import log_partition_of_tables, sums_of_tables
from accelerated.compiled.sweeps import load, padded
from accelerated.kernel import inlined, kernel

__all__ = ["EdgeEntropyProblem", "EdgeFeatures", "EdgeMaxProblem"]


class EdgeFeatures(NamedTuple):
    """The pair of positions p - 1 and p has entries indptr[p]:indptr[p+1] of ``indices`` and ``data``; the first
    position of a sequence has none.

    Feature j has the weights W.reshape(-1)[first[j] : first[j] + many[j]], for labels a, b with a L + b in codes from
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


class EdgeMaxProblem(NamedTuple):
    """Structural hinge: loss-augmented max-product. cost (L, L) by (true, predicted)."""

    offsets: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    labels: np.ndarray
    cost: np.ndarray
    pairs: Pairs
    edges: EdgeFeatures


class EdgeEntropyProblem(NamedTuple):
    """The max smoothed by entropy: sum-product at temperature mu. The log loss has cost 0 and mu = 1."""

    offsets: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    labels: np.ndarray
    cost: np.ndarray
    pairs: Pairs
    edges: EdgeFeatures


class EdgeWork(NamedTuple):
    """Room for one sequence of up to n positions.

    scores (n, Lp): scores, then node marginals less the truth; labels (n,); matrix (Lp, Lp): the prepared transitions;
    tables (n, L, L): the scores of pairs of neighbours, then their marginals; factors (n, Lp, Lp): scratch; cells (C,):
    scores of cells, then marginals less the truth; pairs (1, L, L): the sum of the tables; chain: the chain kernels'
    own.
    """

    scores: np.ndarray
    labels: np.ndarray
    matrix: np.ndarray
    tables: np.ndarray
    factors: np.ndarray
    cells: np.ndarray
    pairs: np.ndarray
    chain: Workspace


EDGES = (EdgeMaxProblem, EdgeEntropyProblem)


@inlined
def entries_of(problem, i):
    """The first and the end of the entries of sequence i's pairs, and the number of cells before."""
    edges = problem.edges
    first, last = edges.indptr[problem.offsets[i]], edges.indptr[problem.offsets[i + 1]]
    return first, last, edges.cells[first]


@inlined
def of_positions(problem):
    """The fields of a problem without features of pairs."""
    one = problem
    return one.offsets, one.indptr, one.indices, one.data, one.labels, one.cost, one.pairs


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
def most_cells(problem, batch, lo, hi):
    """The largest number of cells of a sequence of batch[lo:hi]."""
    most = 0
    for k in range(lo, hi):
        _, last, begin = entries_of(problem, batch[k])
        most = max(most, problem.edges.cells[last] - begin)
    return most


@kernel
def score_cells(problem, i, s, W, cells):
    """cells = s times the scores of sequence i's cells."""
    edges, flat = problem.edges, W.reshape(-1)
    first, last, begin = entries_of(problem, i)
    for e in range(first, last):
        x, j, c = s * entry(edges.data, e), edges.indices[e], edges.cells[e] - begin
        for k in range(edges.many[j]):
            cells[c + k] = x * flat[edges.first[j] + k]


@kernel
def fill_tables(problem, i, matrix, factor, cells, tables):
    """tables[t] (L, L) = matrix (>= L, >= L) + factor * cells, for t > 0."""
    edges, first, L, flat = problem.edges, problem.offsets[i], tables.shape[1], tables.reshape(-1)
    _, _, begin = entries_of(problem, i)
    for t in range(1, problem.offsets[i + 1] - first):
        for a in range(L):
            for b in range(L):
                tables[t, a, b] = matrix[a, b]
        for e in range(edges.indptr[first + t], edges.indptr[first + t + 1]):
            j, c = edges.indices[e], edges.cells[e] - begin
            for k in range(edges.many[j]):
                flat[t * L * L + edges.codes[edges.place[j] + k]] += factor * cells[c + k]


@kernel
def take_cells(problem, i, tables, cells, total):
    """cells = the entries of the tables there; total (1, L, L) = the sum of the tables."""
    edges, first, L, flat = problem.edges, problem.offsets[i], tables.shape[1], tables.reshape(-1)
    _, _, begin = entries_of(problem, i)
    for a in range(L):
        for b in range(L):
            total[0, a, b] = 0.0
    for t in range(1, problem.offsets[i + 1] - first):
        for a in range(L):
            for b in range(L):
                total[0, a, b] += tables[t, a, b]
        for e in range(edges.indptr[first + t], edges.indptr[first + t + 1]):
            j, c = edges.indices[e], edges.cells[e] - begin
            for k in range(edges.many[j]):
                cells[c + k] = flat[t * L * L + edges.codes[edges.place[j] + k]]


@kernel
def add_to_truth(problem, i, x, cells):
    """cells += x at the cells of the true labels. Returns the sum of these cells before."""
    edges, L, total = problem.edges, problem.cost.shape[1], 0.0
    _, _, begin = entries_of(problem, i)
    for p in range(problem.offsets[i] + 1, problem.offsets[i + 1]):
        code = problem.labels[p - 1] * L + problem.labels[p]
        for e in range(edges.indptr[p], edges.indptr[p + 1]):
            k = entry_at(edges, edges.indices[e], code)
            if k >= 0:
                total += cells[edges.cells[e] - begin + k]
                cells[edges.cells[e] - begin + k] += x
    return total


@inlined
def add_pair(edges, p, factor, code, G):
    """G (cells of W,) += factor * the features of the pair that ends at position p, for these labels."""
    for e in range(edges.indptr[p], edges.indptr[p + 1]):
        j = edges.indices[e]
        k = entry_at(edges, j, code)
        if k >= 0:
            G[edges.first[j] + k] += factor * entry(edges.data, e)


# what both losses share


@answers(oracles.room, *EDGES)
def room(problem, batch, lo, hi, A):
    longest, L = longest_of(problem, batch, lo, hi), A.shape[1]
    Lp = padded(L)
    return EdgeWork(
        np.empty((longest, Lp)),
        np.empty(longest, np.int64),
        np.empty((Lp, Lp)),
        np.empty((longest, L, L)),
        np.empty((longest, Lp, Lp)),
        np.empty(most_cells(problem, batch, lo, hi)),
        np.empty((1, L, L)),
        workspace(longest, L),
    )


@answers(oracles.touched, *EDGES)
def touched(problem, i):
    edges, rows, count = problem.edges, rows_of(problem, i), 0
    Lp = padded(problem.cost.shape[1])
    first, last, _ = entries_of(problem, i)
    for e in range(first, last):
        j = edges.indices[e]
        count += edges.many[j] // Lp + 2
    together = np.empty(len(rows) + count, np.int64)
    for e in range(len(rows)):
        together[e] = rows[e]
    count = len(rows)
    for e in range(first, last):
        j = edges.indices[e]
        for row in range(edges.first[j] // Lp, (edges.first[j] + edges.many[j] + Lp - 1) // Lp):
            together[count] = row
            count += 1
    return together[:count]


@answers(oracles.flush, *EDGES)
def nothing_to_flush(problem, factor, ready, work, G):
    pass


@answers(oracles.exact, *EDGES)
def always_exact(problem, work):
    return True


@answers(oracles.parent, *EDGES, inlined=True)
def position_before(problem, i, t):
    return t - 1


# max-product


@answers(oracles.prepared, EdgeMaxProblem)
def prepared_for_max(problem, A, mu, work):
    load(A[0], 1.0, work.matrix)
    return work.matrix


@answers(oracles.oracle, EdgeMaxProblem)
@answers(oracles.only_value, EdgeMaxProblem)
def max_oracle(problem, i, s, W, A, ready, mu, work):
    gold = augmented_scores(problem, i, s, W, A, 1.0, work.scores)
    score_cells(problem, i, s, W, work.cells)
    gold += add_to_truth(problem, i, 0.0, work.cells)
    fill_tables(problem, i, ready, 1.0, work.cells, work.tables)
    return oracles.decode(problem, i, A, work) - gold


@answers(oracles.decode, EdgeMaxProblem)
def decode(problem, i, A, work):
    n = problem.offsets[i + 1] - problem.offsets[i]
    return max_product(work.scores, n, work.tables, 1, 1, work.chain.matrix, work.chain.forward, work.labels)


@answers(oracles.add_rows, EdgeMaxProblem)
def add_max_rows(problem, i, factor, work, G):
    oracles.add_rows(MaxProblem(*of_positions(problem)), i, factor, work, G)
    first, L, flat = problem.offsets[i], problem.cost.shape[1], G.reshape(-1)
    for t in range(1, problem.offsets[i + 1] - first):
        guess = work.labels[t - 1] * L + work.labels[t]
        code = problem.labels[first + t - 1] * L + problem.labels[first + t]
        if guess != code:
            add_pair(problem.edges, first + t, factor, guess, flat)
            add_pair(problem.edges, first + t, -factor, code, flat)


for name in ("add_dense", "task_loss"):
    answers(getattr(oracles, name), EdgeMaxProblem)(getattr(sequence_max, name))


@answers(oracles.remember, EdgeMaxProblem)
def never_stored(problem, i, work, kept):
    pass


@answers(oracles.recall, EdgeMaxProblem)
def not_stored(problem, i, kept, work):
    return False


@answers(oracles.subtract, EdgeMaxProblem)
def not_subtracted(problem, i, work, other):
    pass


@answers(oracles.add_difference, EdgeMaxProblem)
def add_and_subtract(problem, i, factor, work, other, G):
    oracles.add_rows(problem, i, factor, work, G)
    oracles.add_rows(problem, i, -factor, other, G)


# entropy


@answers(oracles.prepared, EdgeEntropyProblem)
def prepared_for_sums(problem, A, mu, work):
    load(A[0], 1.0 / mu, work.matrix)
    return work.matrix


@kernel
def scores_for_sums(problem, i, s, W, A, ready, mu, work):
    """The scores and tables of sequence i, divided by mu. Returns the true labelling's own score."""
    gold = augmented_scores(problem, i, s, W, A, 1.0 / mu, work.scores)
    score_cells(problem, i, s, W, work.cells)
    fill_tables(problem, i, ready, 1.0 / mu, work.cells, work.tables)
    return gold + add_to_truth(problem, i, 0.0, work.cells)


@answers(oracles.oracle, EdgeEntropyProblem)
def entropy_oracle(problem, i, s, W, A, ready, mu, work):
    first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
    gold = scores_for_sums(problem, i, s, W, A, ready, mu, work)
    value = sums_of_tables(work.scores, n, work.tables, work.factors, work.chain)
    take_cells(problem, i, work.tables, work.cells, work.pairs)
    add_to_truth(problem, i, -1.0, work.cells)
    for t in range(n):
        work.scores[t, problem.labels[first + t]] -= 1.0
    return mu * value - gold


@answers(oracles.only_value, EdgeEntropyProblem)
def only_value(problem, i, s, W, A, ready, mu, work):
    gold = scores_for_sums(problem, i, s, W, A, ready, mu, work)
    n = problem.offsets[i + 1] - problem.offsets[i]
    return mu * log_partition_of_tables(work.scores, n, work.tables, work.factors, work.chain) - gold


@answers(oracles.add_rows, EdgeEntropyProblem)
def add_entropy_rows(problem, i, factor, work, G):
    oracles.add_rows(EntropyProblem(*of_positions(problem)), i, factor, work, G)
    edges, flat = problem.edges, G.reshape(-1)
    first, last, begin = entries_of(problem, i)
    for e in range(first, last):
        x, j, c = factor * entry(edges.data, e), edges.indices[e], edges.cells[e] - begin
        for k in range(edges.many[j]):
            flat[edges.first[j] + k] += x * work.cells[c + k]


@answers(oracles.add_dense, EdgeEntropyProblem)
def add_entropy_dense(problem, i, factor, work, G):
    oracles.add_dense(EntropyProblem(*of_positions(problem)), i, factor, work, G)
    free = problem.pairs.transitions
    for a in range(G.shape[1]):
        for b in range(G.shape[2]):
            G[0, a, b] += factor * work.pairs[0, a, b] * free[a, b]


answers(oracles.task_loss, EdgeEntropyProblem)(sequence_entropy.task_loss)


@room_for.register
def _(problem: EdgeEntropyProblem) -> StoredAnswers:
    n, N, L, C = len(problem.offsets) - 1, int(problem.offsets[-1]), len(problem.cost), int(problem.edges.cells[-1])
    Lp = padded(L)
    if 8 * (Lp * N + n * L * L + C) > MOST:
        return nothing()
    pairs, cells = np.empty((n, L, L)), np.empty((C, 1))
    return nothing()._replace(scores=np.empty((N, Lp)), pairs=pairs, weights=cells, outputs=np.full(n, -1))


@answers(oracles.remember, EdgeEntropyProblem)
def remember(problem, i, work, kept):
    oracles.remember_rows(problem, i, work, kept)
    kept.pairs[i] = work.pairs[0]
    kept.outputs[i] = 1


@answers(oracles.recall, EdgeEntropyProblem)
def recall(problem, i, kept, work):
    if len(kept.outputs) == 0 or kept.outputs[i] < 0:
        return False
    oracles.recall_rows(problem, i, kept, work)
    work.pairs[0] = kept.pairs[i]
    return True


@answers(oracles.remember_rows, EdgeEntropyProblem)
def remember_rows(problem, i, work, kept):
    oracles.remember_rows(EntropyProblem(*of_positions(problem)), i, work, kept)
    _, last, begin = entries_of(problem, i)
    for c in range(problem.edges.cells[last] - begin):
        kept.weights[begin + c, 0] = work.cells[c]


@answers(oracles.recall_rows, EdgeEntropyProblem)
def recall_rows(problem, i, kept, work):
    oracles.recall_rows(EntropyProblem(*of_positions(problem)), i, kept, work)
    _, last, begin = entries_of(problem, i)
    for c in range(problem.edges.cells[last] - begin):
        work.cells[c] = kept.weights[begin + c, 0]


@answers(oracles.subtract, EdgeEntropyProblem)
def subtract(problem, i, work, other):
    oracles.subtract(EntropyProblem(*of_positions(problem)), i, work, other)
    _, last, begin = entries_of(problem, i)
    for c in range(problem.edges.cells[last] - begin):
        work.cells[c] -= other.cells[c]


@answers(oracles.add_difference, EdgeEntropyProblem)
def add_subtracted(problem, i, factor, work, other, G):
    oracles.add_rows(problem, i, factor, work, G)
