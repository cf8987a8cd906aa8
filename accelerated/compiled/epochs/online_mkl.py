"""Rounds of online multiple kernel learning over packed sequences.

Implicit group k is scale[k] A[k], with coefficients A (K, L, N) over the N positions. F[k] = A[k] Gram_k (L, N) is
stored beside it: a round of the hinge changes few coefficients, each of which adds a row of the Gram matrix to a row of
F, and shrinking a group changes only its scale. Explicit group e is w_scale[e] W[e], W (E, d, L). The sum of the models
at the start of each round is S A - U, plus the sum from before the group's last restart (when it became 0, or its scale
small): `S` gathers the scales, `U` each change times the S before it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.entries import entry
from accelerated.compiled.problems.sequence import new_work
from accelerated.compiled.structures.chain import finish, max_product, prepare, sum_product
from accelerated.compiled.sweeps import load
from accelerated.kernel import inlined, kernel

SMALL = 1e-5  # a smaller scale is multiplied into its array: S A - U loses as many digits as the scale has

__all__ = ["Grams", "Learned", "Loss", "Positions", "Tables", "mkl_rounds"]


class Positions(NamedTuple):
    """offsets (n + 1,), labels (N,), cost (L, L) by (true, predicted); sparse rows of explicit features: indptr,
    indices, data.
    """

    offsets: np.ndarray
    labels: np.ndarray
    cost: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


class Grams(NamedTuple):
    """place (K,): index of a dense matrix in whole (D, N, N), or -1 - index of a sparse one in starts (S, N + 1), which
    points into columns and values.
    """

    place: np.ndarray
    whole: np.ndarray
    starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray


class Learned(NamedTuple):
    """The state that rounds change; see the module's docstring. tables (q, L, L); squared (p,): squared group norms.

    ``group`` (p,) of :class:`Tables` numbers the groups: implicit group k as k, explicit group e as -1 - e, the
    transitions as K + E. Sums of models (``average``): S (K + E,), U (K, L, N), U_W (E, d, L), before (K, L, N),
    before_W (E, d, L), sum_T (q, L, L); empty if no sums are computed.
    """

    A: np.ndarray
    F: np.ndarray
    scale: np.ndarray
    W: np.ndarray
    w_scale: np.ndarray
    tables: np.ndarray
    squared: np.ndarray
    S: np.ndarray
    U: np.ndarray
    U_W: np.ndarray
    before: np.ndarray
    before_W: np.ndarray
    sum_T: np.ndarray


class Loss(NamedTuple):
    """crf: whether the loss is the log loss, else the hinge. kind: 0 for the penalty (weight/2) (sum of norms)^2, 1 for
    weight/2 times the sum of squares, 2 for weight times the sum. radius: inf for no ball.
    """

    crf: bool
    kind: int
    weight: float
    sigma: float
    radius: float


class Tables(NamedTuple):
    """Whether transitions are a group of their own, or a part of each group; the numbers of the groups."""

    own: bool
    each: bool
    group: np.ndarray


@kernel
def mkl_rounds(positions, grams, order, steps, loss, tables, average, learned):
    """A round for each sequence in ``order``: ``learned`` changes in place."""
    (crf, kind, weight, sigma, radius), (own, each, group) = loss, tables
    A, L = learned.A, learned.tables.shape[1]
    K, E, p, q = A.shape[0], learned.W.shape[0], len(learned.squared), learned.tables.shape[0]
    longest = np.int64(0)  # typed: a constant would compile the room apart
    for i in order:
        longest = max(longest, positions.offsets[i + 1] - positions.offsets[i])
    work = new_work(longest, L)
    D, sum_of_tables = np.zeros((longest, L)), np.zeros((1, L, L))
    D_T = np.zeros((L, L))
    inner, length, norms, b, factors = np.zeros(p), np.zeros(p), np.zeros(p), np.zeros(p), np.zeros(p)
    scratch = np.zeros((learned.W.shape[1], L))
    for turn in range(len(order)):
        i, gamma = order[turn], steps[turn]
        first, n = positions.offsets[i], positions.offsets[i + 1] - positions.offsets[i]
        keep = 1.0 - gamma * sigma
        if average:
            for k in range(K):
                learned.S[k] += learned.scale[k]
            for e in range(E):
                learned.S[K + e] += learned.w_scale[e]
            for r in range(q):
                _add(learned.sum_T[r], learned.tables[r])
        _scores(positions, learned, first, n, work.scores)
        _clear(sum_of_tables[0])
        for r in range(q):
            _add(sum_of_tables[0], learned.tables[r])
        _difference(positions, first, n, crf, sum_of_tables, work, D, D_T)

        table_length = _dot(D_T, D_T)
        for g in range(p):
            k = group[g]
            if k == K + E:
                inner[g], length[g] = _dot(learned.tables[0], D_T), table_length
                continue
            if k >= 0:
                inner[g], length[g] = _implicit(learned, grams, k, first, n, D)
            else:
                inner[g], length[g] = _explicit(positions, learned, -1 - k, first, n, D, scratch)
            if each:
                inner[g] += _dot(learned.tables[g], D_T)
                length[g] += table_length
        for g in range(p):
            squared = keep * keep * learned.squared[g] - 2.0 * gamma * keep * inner[g] + gamma * gamma * length[g]
            norms[g] = np.sqrt(squared) if squared > 0 else 0.0
        _shrink(kind, gamma * weight, norms, b)
        total = 0.0
        for g in range(p):
            total += b[g] * b[g]
        back = radius / np.sqrt(total) if total > radius * radius else 1.0
        for g in range(p):
            factors[g] = back * b[g] / norms[g] if norms[g] > 0 else 0.0
            learned.squared[g] = back * b[g] * back * b[g]
        for g in range(p):
            k = group[g]
            if k == K + E:
                _step(learned.tables[0], factors[g] * keep, factors[g] * gamma, D_T)
                continue
            if k >= 0:
                _move_implicit(learned, grams, k, first, n, D, gamma, keep, factors[g], average)
            else:
                _move_explicit(positions, learned, -1 - k, first, n, D, gamma, keep, factors[g], average)
            if each:
                _step(learned.tables[g], factors[g] * keep, factors[g] * gamma, D_T)
        if not own and not each:
            _step(learned.tables[0], 1.0, gamma, D_T)


@kernel
def _scores(positions, learned, first, n, scores):
    """scores (n, Lp): of all groups, padded with -inf."""
    K, E, L = learned.A.shape[0], learned.W.shape[0], learned.tables.shape[1]
    for t in range(n):
        for label in range(L):
            total = 0.0
            for k in range(K):
                total += learned.scale[k] * learned.F[k, label, first + t]
            scores[t, label] = total
        for label in range(L, scores.shape[1]):
            scores[t, label] = -np.inf
        for e in range(E):
            for i in range(positions.indptr[first + t], positions.indptr[first + t + 1]):
                x, j = learned.w_scale[e] * entry(positions.data, i), positions.indices[i]
                for label in range(L):
                    scores[t, label] += x * learned.W[e, j, label]


@kernel
def _difference(positions, first, n, crf, pairwise, work, D, D_T):
    """D (n, L) and D_T (L, L): the parts of the best loss-augmented output, or the expected parts, less those of the
    truth.
    """
    L = D_T.shape[0]
    _clear(D[:n])
    _clear(D_T)
    if crf:
        ready = prepare(pairwise[0], 1.0, work.matrix, work.transposed)
        _clear(work.edges[0])
        work.pairs[:] = 0.0
        sum_product(work.scores, n, ready, pairwise, 0, 1.0, work.chain, work.pairs, work.edges)
        _finish(ready, work, D_T)
        for t in range(n):
            for label in range(L):
                D[t, label] = work.scores[t, label]
    else:
        for t in range(n):
            for label in range(L):
                work.scores[t, label] += positions.cost[positions.labels[first + t], label]
        load(pairwise[0], 1.0, work.matrix)
        max_product(work.scores, n, pairwise, 0, 0, work.matrix, work.chain.forward, work.labels)
        for t in range(n):
            D[t, work.labels[t]] = 1.0
            if t > 0:
                D_T[work.labels[t - 1], work.labels[t]] += 1.0
    for t in range(n):
        D[t, positions.labels[first + t]] -= 1.0
        if t > 0:
            D_T[positions.labels[first + t - 1], positions.labels[first + t]] -= 1.0


@kernel
def _finish(ready, work, D_T):
    """Write the expected transitions to D_T."""
    finish(ready, work.pairs, work.edges[0])
    for a in range(D_T.shape[0]):
        for b in range(D_T.shape[1]):
            D_T[a, b] += work.edges[0, a, b]


@inlined
def _entry(grams, k, s, t):
    """K_k(s, t)."""
    place = grams.place[k]
    if place >= 0:
        return np.float64(grams.whole[place, s, t])
    starts = grams.starts[-1 - place]
    low, high = starts[s], starts[s + 1]
    while low < high:
        middle = (low + high) // 2
        if grams.columns[middle] < t:
            low = middle + 1
        else:
            high = middle
    return np.float64(grams.values[low]) if low < starts[s + 1] and grams.columns[low] == t else 0.0


@kernel
def _implicit(learned, grams, k, first, n, D):
    """<theta_k, D> and ||D||^2 in the space of kernel k."""
    inner, length, L = 0.0, 0.0, D.shape[1]
    for t in range(n):
        some = False
        for label in range(L):
            if D[t, label] != 0:
                inner += D[t, label] * learned.F[k, label, first + t]
                some = True
        if some:
            for s in range(t + 1):
                together = 0.0
                for label in range(L):
                    together += D[s, label] * D[t, label]
                if together != 0:
                    length += (1.0 if s == t else 2.0) * together * _entry(grams, k, first + s, first + t)
    return learned.scale[k] * inner, length


@kernel
def _explicit(positions, learned, e, first, n, D, scratch):
    """<W, X' D> and ||X' D||^2; scratch (d, L) is 0 before and after."""
    inner, length, L = 0.0, 0.0, D.shape[1]
    for t in range(n):
        for label in range(L):
            if D[t, label] != 0:
                for i in range(positions.indptr[first + t], positions.indptr[first + t + 1]):
                    x, j = entry(positions.data, i) * D[t, label], positions.indices[i]
                    scratch[j, label] += x
                    inner += x * learned.W[e, j, label]
    for t in range(n):
        for label in range(L):
            if D[t, label] != 0:
                for i in range(positions.indptr[first + t], positions.indptr[first + t + 1]):
                    j = positions.indices[i]
                    length += scratch[j, label] * scratch[j, label]
                    scratch[j, label] = 0.0
    return learned.w_scale[e] * inner, length


@kernel
def _shrink(kind, weight, norms, b):
    """b = the prox of the penalty times the step at norms >= 0."""
    p = len(norms)
    if kind == 1:
        for g in range(p):
            b[g] = norms[g] / (1.0 + weight)
        return
    tau = weight
    if kind == 0:  # tau = weight * sum max(norm - tau, 0); a norm below the tau of a larger set vanishes
        tau, before = 0.0, -1.0
        while tau > before:
            total, count = 0.0, 0
            for g in range(p):
                if norms[g] > tau:
                    total += norms[g]
                    count += 1
            before, tau = tau, weight / (1.0 + count * weight) * total
    for g in range(p):
        b[g] = norms[g] - tau if norms[g] > tau else 0.0


@kernel
def _move_implicit(learned, grams, k, first, n, D, gamma, keep, factor, average):
    """theta_k <- factor (keep theta_k - gamma D)."""
    L = D.shape[1]
    if factor == 0 or keep == 0:
        if average:
            _flush(learned.before[k], learned.S, k, learned.A[k], learned.U[k])
        _clear(learned.A[k])
        _clear(learned.F[k])
        learned.scale[k] = 1.0
        if factor == 0:
            return
        keep = 1.0
    scale = keep * learned.scale[k]
    labels, changes = np.empty(L, np.int64), np.empty(L)
    for t in range(n):
        count = 0
        for label in range(L):
            if D[t, label] != 0:
                labels[count], changes[count] = label, -gamma * D[t, label] / scale
                learned.A[k, label, first + t] += changes[count]
                if average:
                    learned.U[k, label, first + t] += learned.S[k] * changes[count]
                count += 1
        for j in range(0, count - 1, 2):  # two rows of F at a time: mostly one label too many and one missing
            _add_two(learned.F, grams, k, first + t, labels[j], changes[j], labels[j + 1], changes[j + 1])
        if count % 2 == 1:
            _add_one(learned.F, grams, k, first + t, labels[count - 1], changes[count - 1])
    learned.scale[k] = factor * scale
    if learned.scale[k] < SMALL:
        if average:
            _flush(learned.before[k], learned.S, k, learned.A[k], learned.U[k])
        _scale(learned.A[k], learned.scale[k])
        _scale(learned.F[k], learned.scale[k])
        learned.scale[k] = 1.0


@kernel
def _add_two(F, grams, k, row, a, of_a, b, of_b):
    """F[k, a] += of_a times a row of the Gram matrix, F[k, b] += of_b times the same row."""
    place = grams.place[k]
    if place >= 0:
        for s in range(F.shape[2]):
            x = grams.whole[place, row, s]
            F[k, a, s] += of_a * x
            F[k, b, s] += of_b * x
        return
    starts = grams.starts[-1 - place]
    for i in range(starts[row], starts[row + 1]):
        F[k, a, grams.columns[i]] += of_a * grams.values[i]
        F[k, b, grams.columns[i]] += of_b * grams.values[i]


@kernel
def _add_one(F, grams, k, row, a, of_a):
    """F[k, a] += of_a times a row of the Gram matrix."""
    place = grams.place[k]
    if place >= 0:
        for s in range(F.shape[2]):
            F[k, a, s] += of_a * grams.whole[place, row, s]
        return
    starts = grams.starts[-1 - place]
    for i in range(starts[row], starts[row + 1]):
        F[k, a, grams.columns[i]] += of_a * grams.values[i]


@kernel
def _move_explicit(positions, learned, e, first, n, D, gamma, keep, factor, average):
    """theta <- factor (keep theta - gamma X' D)."""
    L, at_S = D.shape[1], learned.A.shape[0] + e
    if factor == 0 or keep == 0:
        if average:
            _flush(learned.before_W[e], learned.S, at_S, learned.W[e], learned.U_W[e])
        _clear(learned.W[e])
        learned.w_scale[e] = 1.0
        if factor == 0:
            return
        keep = 1.0
    scale = keep * learned.w_scale[e]
    for t in range(n):
        for label in range(L):
            if D[t, label] != 0:
                for i in range(positions.indptr[first + t], positions.indptr[first + t + 1]):
                    change = -gamma * D[t, label] * entry(positions.data, i) / scale
                    learned.W[e, positions.indices[i], label] += change
                    if average:
                        learned.U_W[e, positions.indices[i], label] += learned.S[at_S] * change
    learned.w_scale[e] = factor * scale
    if learned.w_scale[e] < SMALL:
        if average:
            _flush(learned.before_W[e], learned.S, at_S, learned.W[e], learned.U_W[e])
        _scale(learned.W[e], learned.w_scale[e])
        learned.w_scale[e] = 1.0


@kernel
def _flush(before, S, g, A, U):
    """before += S A - U; S and U restart at 0."""
    for a in range(A.shape[0]):
        for b in range(A.shape[1]):
            before[a, b] += S[g] * A[a, b] - U[a, b]
            U[a, b] = 0.0
    S[g] = 0.0


@kernel
def _add(out, x):
    """out += x, matrices."""
    for a in range(x.shape[0]):
        for b in range(x.shape[1]):
            out[a, b] += x[a, b]


@kernel
def _clear(out):
    """out = 0, a matrix."""
    for a in range(out.shape[0]):
        for b in range(out.shape[1]):
            out[a, b] = 0.0


@kernel
def _scale(out, factor):
    """out *= factor, a matrix."""
    for a in range(out.shape[0]):
        for b in range(out.shape[1]):
            out[a, b] *= factor


@kernel
def _step(out, keep, by, D):
    """out = keep out - by D, matrices."""
    for a in range(out.shape[0]):
        for b in range(out.shape[1]):
            out[a, b] = keep * out[a, b] - by * D[a, b]


@kernel
def _dot(x, y):
    """The sum of x y, matrices."""
    total = 0.0
    for a in range(x.shape[0]):
        for b in range(x.shape[1]):
            total += x[a, b] * y[a, b]
    return total
