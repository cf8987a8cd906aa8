"""A pass of the online proximal algorithm where the proxes scale groups of weights: group lasso, multiple kernel
learning and related models.

Weights W (F, Lp), A (1, L, L) lie in disjoint parts, numbered by ``of`` (F, 1) if each row of W is in one part, else
(F, Lp), and by ``of_A`` (L, L). A round computes the norm of a part from the gradient's inner products, and multiplies
the part's scale. A row that is not touched waits, and is later multiplied by the accumulated scale. When a scale falls
below SMALL, a life of its part ends, and the next begins at scale 1; a row then catches up life by life. A part that
becomes 0 ends a life at 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from accelerated.compiled.copies import copy_to
from accelerated.compiled.entries import entry
from accelerated.compiled.epochs.online_proximal.thresholds import vanish
from accelerated.compiled.problems import (
    MaxProblem,
    add_dense,
    add_rows,
    flush,
    oracle,
    prepared,
    room,
)
from accelerated.compiled.problems.pairs import may_change
from accelerated.compiled.prox.grouped import shrink_norms
from accelerated.kernel import inlined, kernel, part_options

__all__ = ["Parted", "Rounds", "group_epoch"]

SMALL = 1.0 / 16
CANCELLED = 1e-6  # a squared norm that lost so much by cancellation is computed from the weights
LEAST, MOST = 1e-200, 1e200  # squared norms are trusted between these


class Parts(NamedTuple):
    """For each part: its norm n, its scale s, its life, and Q, the sum of s over the rounds of this life, including
    those begun.

    For each row, or weight, of W: life, s and Q when it was last touched. For the parts whose ``turn`` is the current
    round: moved, the change of the squared norm, and most, the sum of its terms' sizes. which, how_many: the parts that
    the round touches.
    """

    n: np.ndarray
    s: np.ndarray
    Q: np.ndarray
    life: np.ndarray
    row_life: np.ndarray
    row_s: np.ndarray
    row_Q: np.ndarray
    moved: np.ndarray
    most: np.ndarray
    turn: np.ndarray
    which: np.ndarray
    how_many: np.ndarray


class Lives(NamedTuple):
    """For each life: s and Q at its end, and the number of the next life of its part. There may be more room than
    lives.
    """

    s: np.ndarray
    Q: np.ndarray
    next: np.ndarray


class Rounds(NamedTuple):
    """Examples in ``order``, the step length of each, and sigma."""

    order: np.ndarray
    steps: np.ndarray
    sigma: float


class Parted(NamedTuple):
    """The norms (p,) of the parts at the start, and the part of each weight: of (F, Lp or 1), of_A (L, L)."""

    norms: np.ndarray
    of: np.ndarray
    of_A: np.ndarray


@kernel
def group_epoch(problem, touched_rows, rounds, proxes, parted, mu, averaged, w, sums):
    """A round for each example in ``rounds.order``, on w in place. Returns False if norms left the range of their
    squares; nothing may then be used.

    If ``averaged``, the models at the start of each round are added to ``sums``. touched_rows: from the function of
    that name.
    """
    (order, steps, sigma), (norms, of, of_A), (W, A), (sum_W, sum_A) = rounds, parted, w, sums
    turns, p, L = len(order), len(norms), A.shape[1]
    work = room(problem, order, 0, turns, A)
    parts, lives, born = new_parts(norms, of), new_lives(p), p
    n, s, Q, life, row_life, row_s, row_Q = parts[:7]
    space, levels = np.empty((2, proxes.weights.shape[1])), np.zeros(len(proxes.kind))
    old, factors = np.empty(p), np.empty(p)
    G, G_A = np.zeros_like(W), np.zeros_like(A)
    start, rows = touched_rows
    alone, one = of.shape[1] == 1, np.all(of_A == of_A[0, 0])
    # without rows there is no first one to read parts from
    by_label = W.shape[0] > 0 and np.all(of == of[:1])
    label_s, label_Q = np.empty(of.shape[1]), np.empty(of.shape[1])  # s and Q of the labels, if each has its own
    done, changed = np.zeros(W.shape[0], np.int64), 0  # the round of a row's last touch; the one after a life's end
    for k in range(turns):
        i, gamma = order[k], steps[k]
        for a in range(p):
            Q[a] += s[a]
        if by_label:
            for c in range(of.shape[1]):
                label_s[c], label_Q[c] = s[of[0, c]], Q[of[0, c]]
        for e in range(start[i], start[i + 1]):  # as in `make_up`, inlined: passing arrays costs as much as the work
            j = rows[e]
            a = of[j, 0]
            if alone and row_life[j, 0] == life[a]:
                if averaged:
                    share = (Q[a] - row_Q[j, 0]) / row_s[j, 0]
                    for label in range(W.shape[1]):
                        sum_W[j, label] += share * W[j, label]
                    row_Q[j, 0] = Q[a]
                if row_s[j, 0] != s[a]:
                    factor = s[a] / row_s[j, 0]
                    for label in range(W.shape[1]):
                        W[j, label] *= factor
                    row_s[j, 0] = s[a]
            elif by_label and not alone and done[j] >= changed:
                if averaged:
                    for c in range(W.shape[1]):
                        sum_W[j, c] += (label_Q[c] - row_Q[j, c]) / row_s[j, c] * W[j, c]
                        row_Q[j, c] = label_Q[c]
                for c in range(W.shape[1]):
                    W[j, c] *= label_s[c] / row_s[j, c]
                    row_s[j, c] = label_s[c]
            else:
                make_up(parts, lives, of, averaged, W, j, sum_W)
            done[j] = k
        if averaged:
            for x in range(L):
                for y in range(L):
                    sum_A[0, x, y] += A[0, x, y]
        ready = prepared(problem, A, mu, work)
        oracle(problem, i, 1.0, W, A, ready, mu, work)

        keep = 1.0 - gamma * sigma
        if keep == 0.0:
            for a in range(p):
                if n[a] > 0.0:
                    lives, born = end_life(parts, lives, born, a, 0.0)
                    n[a], changed = 0.0, k + 1
            for e in range(start[i], start[i + 1]):
                make_up(parts, lives, of, averaged, W, rows[e], sum_W)
            vanish(A[0])
            keep = 1.0
        ratio = gamma / keep
        parts.how_many[0] = 0
        move(problem, i, k, ratio, work, rows[start[i] : start[i + 1]], G, of, parts, W)
        add_dense(problem, i, 1.0, work, G_A)
        flush(problem, 1.0, ready, work, G_A)
        measure_transitions(k, ratio, G_A, of_A, one, parts, A)
        for c in range(parts.how_many[0]):
            a = parts.which[c]
            most = n[a] * n[a] + parts.most[a]
            if most > MOST or (0.0 < most < LEAST) or most != most:
                return False
            square = n[a] * n[a] + parts.moved[a]
            if square < CANCELLED * most:
                square = square_of(parts, lives, (of, of_A), a, averaged, ratio, w, G_A, sum_W)
            n[a] = np.sqrt(square)
        for a in range(p):
            n[a] *= keep
            old[a] = n[a]
        shrink_norms(proxes, gamma, n, space[0], space[1], levels)
        ends = 0
        for a in range(p):
            factors[a] = keep * (n[a] / old[a]) if old[a] > 0.0 else keep
            s[a] *= factors[a] if old[a] > 0.0 else 1.0
            ends += 1 if s[a] < SMALL else 0
        if ends > 0:
            changed = k + 1
            for a in range(p):
                if s[a] < SMALL:
                    lives, born = end_life(parts, lives, born, a, s[a])
        move_transitions(factors, ratio, of_A, one, G_A, A)
    for j in range(W.shape[0]):
        make_up(parts, lives, of, averaged, W, j, sum_W)
    return True


@kernel
def new_parts(norms, of):
    p = len(norms)
    rows = of.copy(), np.ones(of.shape), np.zeros(of.shape)
    sums = np.zeros(p), np.zeros(p), np.full(p, -1), np.zeros(p, np.int64), np.zeros(1, np.int64)
    return Parts(norms.copy(), np.ones(p), np.zeros(p), np.arange(p), *rows, *sums)


@kernel
def new_lives(p):
    return Lives(np.ones(2 * p), np.zeros(2 * p), np.zeros(2 * p, np.int64))


@kernel
def end_life(parts, lives, born, a, scale):
    """Part a begins a new life after one that ended at this scale. Returns the lives (in new arrays if there was no
    room) and their number.
    """
    if born == len(lives.s):
        more = new_lives(born)
        copy_to(lives.s, more.s)
        copy_to(lives.Q, more.Q)
        copy_to(lives.next, more.next)
        lives = more
    life = parts.life[a]
    lives.s[life], lives.Q[life], lives.next[life] = scale, parts.Q[a], born
    parts.life[a], parts.s[a], parts.Q[a] = born, 1.0, 0.0
    return lives, born + 1


@kernel
def make_up(parts, lives, of, averaged, W, j, sums):
    """Apply to row j the scales of its parts since it was last touched; if averaged, sums[j] gathers its models of the
    rounds begun since.
    """
    alone = of.shape[1] == 1
    for c in range(of.shape[1]):
        a, life, s, Q = of[j, c], parts.row_life[j, c], parts.row_s[j, c], parts.row_Q[j, c]
        latest = parts.life[a]
        factor, share = 1.0, 0.0
        while life != latest and factor > 0.0:
            share += factor * (lives.Q[life] - Q) / s
            factor *= lives.s[life] / s
            life, s, Q = lives.next[life], 1.0, 0.0
        if factor > 0.0:
            share += factor * (parts.Q[a] - Q) / s
            factor *= parts.s[a] / s
        parts.row_life[j, c], parts.row_s[j, c], parts.row_Q[j, c] = latest, parts.s[a], parts.Q[a]
        if alone:
            if averaged:
                for label in range(W.shape[1]):
                    sums[j, label] += share * W[j, label]
            if factor == 0.0:
                vanish(W[j : j + 1])
            elif factor != 1.0:
                for label in range(W.shape[1]):
                    W[j, label] *= factor
        else:
            if averaged:
                sums[j, c] += share * W[j, c]
            if W[j, c] > -np.inf:
                W[j, c] *= factor


def move(problem: Any, i: Any, k: Any, ratio: Any, work: Any, rows: Any, G: Any, of: Any, parts: Any, W: Any) -> Any:
    """In round k: W -= ratio g with the gradient g of sequence i, and the resulting changes of squared norms. G (F,
    Lp), room, is 0 before and after.
    """
    raise TypeError("move is called from kernels only")


@overload(move, jit_options=part_options())
def _move(problem, i, k, ratio, work, rows, G, of, parts, W):
    if problem.instance_class is MaxProblem:

        def sparse(problem, i, k, ratio, work, rows, G, of, parts, W):
            first, n, pairs = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i], problem.pairs
            for t in range(n):
                y, guess = problem.labels[first + t], work.labels[t]
                if y != guess:
                    for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
                        x, j = ratio * entry(problem.data, e), problem.indices[e]
                        if may_change(pairs, j, guess):
                            take(k, -x, of, parts, W, j, guess)
                        if may_change(pairs, j, y):
                            take(k, x, of, parts, W, j, y)
                    if len(pairs.rows) > 0:
                        for e in range(pairs.indptr[first + t], pairs.indptr[first + t + 1]):
                            if pairs.labels[e] == guess:
                                take(k, -ratio * entry(pairs.data, e), of, parts, W, pairs.rows[e], pairs.columns[e])
                            if pairs.labels[e] == y:
                                take(k, ratio * entry(pairs.data, e), of, parts, W, pairs.rows[e], pairs.columns[e])

        return sparse

    def dense(problem, i, k, ratio, work, rows, G, of, parts, W):
        add_rows(problem, i, -ratio, work, G)
        for j in rows:
            if of.shape[1] == 1:
                take_row(k, G, of, parts, W, j)
            else:
                for label in range(G.shape[1]):
                    if G[j, label] != 0.0:
                        take(k, G[j, label], of, parts, W, j, label)
                        G[j, label] = 0.0

    return dense


@inlined
def changed_by(k, a, moved, most, parts):
    """Record a change of part a's squared norm in round k."""
    if parts.turn[a] != k:
        parts.turn[a], parts.moved[a], parts.most[a] = k, 0.0, 0.0
        parts.which[parts.how_many[0]] = a
        parts.how_many[0] += 1
    parts.moved[a] += moved
    parts.most[a] += most


@inlined
def take(k, x, of, parts, W, j, label):
    """W[j, label] += x."""
    a = of[j, 0] if of.shape[1] == 1 else of[j, label]
    moved = x * (W[j, label] + (W[j, label] + x))
    W[j, label] += x
    changed_by(k, a, moved, abs(moved), parts)


@inlined
def take_row(k, G, of, parts, W, j):
    """W[j] += G[j], all in one part; then G[j] = 0."""
    m0 = m1 = m2 = m3 = l0 = l1 = l2 = l3 = 0.0
    for block in range(G.shape[1] // 4):
        c = 4 * block
        g0, g1, g2, g3 = G[j, c], G[j, c + 1], G[j, c + 2], G[j, c + 3]
        m0, m1, m2, m3 = m0 + W[j, c] * g0, m1 + W[j, c + 1] * g1, m2 + W[j, c + 2] * g2, m3 + W[j, c + 3] * g3
        l0, l1, l2, l3 = l0 + g0 * g0, l1 + g1 * g1, l2 + g2 * g2, l3 + g3 * g3
    inner, length = (m0 + m1) + (m2 + m3), (l0 + l1) + (l2 + l3)
    for label in range(G.shape[1]):
        W[j, label] += G[j, label]
        G[j, label] = 0.0
    changed_by(k, of[j, 0], 2.0 * inner + length, 2.0 * abs(inner) + length, parts)


@kernel
def measure_transitions(k, ratio, G_A, of_A, one, parts, A):
    """The changes of squared norms by A - ratio G_A; A itself is moved later."""
    inner, length = 0.0, 0.0
    for x in range(A.shape[1]):
        for y in range(A.shape[2]):
            g = -ratio * G_A[0, x, y]
            if g != 0.0:
                moved = g * (A[0, x, y] + (A[0, x, y] + g))
                if one:
                    inner += moved
                    length += abs(moved)
                else:
                    changed_by(k, of_A[x, y], moved, abs(moved), parts)
    if one:
        changed_by(k, of_A[0, 0], inner, length, parts)


@kernel
def move_transitions(factors, ratio, of_A, one, G_A, A):
    """A = factor (A - ratio G_A) by parts, then G_A = 0; forbidden entries stay forbidden."""
    whole = factors[of_A[0, 0]] if one else 0.0
    for x in range(A.shape[1]):
        if one and whole > 0.0:
            for y in range(A.shape[2]):
                A[0, x, y] = whole * (A[0, x, y] - ratio * G_A[0, x, y])
                G_A[0, x, y] = 0.0
        else:
            for y in range(A.shape[2]):
                if A[0, x, y] > -np.inf:
                    A[0, x, y] = factors[of_A[x, y]] * (A[0, x, y] - ratio * G_A[0, x, y])
                G_A[0, x, y] = 0.0


@kernel
def square_of(parts, lives, parted, a, averaged, ratio, w, G_A, sums):
    """The squared norm of part a after the step, which W has already made and A has not."""
    (of, of_A), (W, A) = parted, w
    total = 0.0
    for j in range(W.shape[0]):
        for c in range(of.shape[1]):
            if of[j, c] == a:
                make_up(parts, lives, of, averaged, W, j, sums)
                break
        for label in range(W.shape[1]):
            if of[j, 0 if of.shape[1] == 1 else label] == a and W[j, label] > -np.inf:
                total += W[j, label] * W[j, label]
    for x in range(A.shape[1]):
        for y in range(A.shape[2]):
            if of_A[x, y] == a and A[0, x, y] > -np.inf:
                step = A[0, x, y] - ratio * G_A[0, x, y]
                total += step * step
    return total
