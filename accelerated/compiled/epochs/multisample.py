"""Multi-sample dual updates over packed sequences: an epoch of visits. Weights s W, W (F, Lp), and A (1, L, L).

Directions of outputs are never formed: their inner products follow from the labellings and from the inner products of
the positions' features. The direction of a block's mixture of outputs lies in the rows of W that the sequence touches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.entries import entry
from accelerated.compiled.epochs.sample_updates import Quadratic, exact_update, expand_and_swap, quadratic_room
from accelerated.compiled.problems import augmented_scores, longest_of, new_work
from accelerated.compiled.structures.chain_k_best import KBestWork, k_best, k_best_workspace
from accelerated.compiled.structures.chain_log import log_forward
from accelerated.compiled.structures.chain_samples import draw_labelling
from accelerated.compiled.sweeps import fill, load
from accelerated.kernel import inlined, kernel

__all__ = ["Blocks", "Options", "Point", "multisample_epoch"]

SMALLEST = 1e-6  # a common factor below this is multiplied out


class Options(NamedTuple):
    """lam; k: outputs a visit, at most all outputs if they are the k best; mu: temperature of draws, 0: the k best;

    exact: the exact update instead of moves; online: a new block each visit.
    """

    lam: float
    k: int
    mu: float
    exact: bool
    online: bool


class Blocks(NamedTuple):
    """Blocks of n sequences. present (n,): whether there is a block; weights, losses (n,): its sum of weights and its
    mixture's loss;

    the mixture's direction: rows (R, L) along ``touched``, transitions (n, L, L). Both are empty online.
    """

    present: np.ndarray
    weights: np.ndarray
    losses: np.ndarray
    rows: np.ndarray
    transitions: np.ndarray


class Point(NamedTuple):
    """W, A, and the sums of the weights before each visit: sum_W, sum_A, zero at first."""

    W: np.ndarray
    A: np.ndarray
    sum_W: np.ndarray
    sum_A: np.ndarray


class Scratch(NamedTuple):
    """Room for up to k outputs of a visit and its block's mixture (number 0, if there is one), for sequences of up to n
    positions.

    outputs (k, n): labels; values (k,); losses, inner (k + 1,): task losses, inner products with the weights; products
    (k + 1, k + 1): of directions; change, share (k + 1,): of each output, in the weights and in the mixture. differ
    (n,): where an output differs from the truth; squares (n, n): inner products of the features there; place (F,): of a
    feature in ``touched``; row (F,), zero; across, mixed, moves, shares (n, Lp): by position and label; counts (L, L),
    zero.
    """

    outputs: np.ndarray
    values: np.ndarray
    losses: np.ndarray
    inner: np.ndarray
    products: np.ndarray
    change: np.ndarray
    share: np.ndarray
    differ: np.ndarray
    squares: np.ndarray
    place: np.ndarray
    row: np.ndarray
    across: np.ndarray
    mixed: np.ndarray
    moves: np.ndarray
    shares: np.ndarray
    counts: np.ndarray
    best: KBestWork
    quadratic: Quadratic


@kernel
def multisample_epoch(problem, touched, order, uniforms, options, loss, blocks, before, after, point):
    """A visit of each sequence in ``order``, once each. Returns the loss and the number of blocks.

    uniforms: random numbers for the draws, k - 1 times the length of each sequence. ``after``, which starts with
    ``before``'s weights and losses, receives the blocks; W and A change in place.
    """
    W, A, k = point.W, point.A, options.k
    work = new_work(longest_of(problem, order, 0, len(order)), A.shape[1])
    scratch = new_scratch(work, W.shape[0], k)
    s, passed, kept, drawn = 1.0, 0.0, 1.0, 0  # scale of W; sum of s; scale of the blocks' weights; numbers used
    squared = squared_norm(W) + squared_norm(A[0])
    for i in order:
        n = problem.offsets[i + 1] - problem.offsets[i]
        augmented_scores(problem, i, s, W, A, 1.0, work.scores)
        count = samples(n, A, options, uniforms, drawn, work, scratch)
        drawn += (k - 1) * n if options.mu > 0.0 else 0
        passed += s
        add(1.0, A[0], point.sum_A[0])
        base = 0 if options.online or not before.present[i] else 1
        blocks += 1 - base
        shrink = (blocks - 1.0) / blocks if base == 0 else 1.0  # D_t has one block more than D_{t-1}
        start = kept * after.weights[i] if base == 1 else 0.0
        describe(problem, i, n, base, count, A, work, scratch)
        if base == 1:
            describe_mixture(problem, touched, i, n, count, s, W, A, before, scratch)
        lam_t, m = options.lam * blocks, base + count
        moves = updated(base, m, lam_t, shrink, start, options.exact, scratch)
        s, squared = s * shrink, squared * shrink**2
        if shrink != 1.0:
            scale(shrink, A[0])
        if s < SMALLEST:
            multiply_out(s, passed, W, point.sum_W)
            s, passed = 1.0, 0.0
        if moves:
            gained, longer = changes(m, lam_t, shrink, scratch)
            loss, squared = loss + gained, max(0.0, squared + longer)
        whole = 0.0
        for j in range(m):
            whole += scratch.quadratic.alpha[j]
        if not options.online:
            new_mixture(touched, i, base, m, whole, moves, before, after, scratch)
        if moves:
            if base == 1 and scratch.change[0] != 0.0:
                move_mixture(touched, i, s, passed, before, point, scratch)
            mixes = not options.online and whole > 0.0
            move_outputs(problem, i, n, base, count, (s, passed, mixes), after, point, scratch)
        quadratic = lam_t * squared
        shrink = min(1.0, loss / quadratic) if quadratic > 0.0 else 1.0  # line 5
        after.weights[i] = whole / kept
        if shrink != 1.0:
            s, loss, squared, kept = s * shrink, loss * shrink, squared * shrink**2, kept * shrink
            scale(shrink, A[0])
            if kept < SMALLEST:
                scale_weights(kept, after.weights)
                kept = 1.0
        load(A[0], 1.0, work.matrix)
    scale_weights(kept, after.weights)
    multiply_out(s, passed, W, point.sum_W)
    return loss, blocks


@kernel
def new_scratch(work, width, k):
    longest, Lp = work.scores.shape
    L = work.edges.shape[1]
    return Scratch(
        np.zeros((k, longest), np.int64),
        np.zeros(k),
        np.zeros(k + 1),
        np.zeros(k + 1),
        np.zeros((k + 1, k + 1)),
        np.zeros(k + 1),
        np.zeros(k + 1),
        np.zeros(longest, np.bool_),
        np.zeros((longest, longest)),
        np.zeros(width, np.int64),
        np.zeros(width),
        np.zeros((longest, Lp)),
        np.zeros((longest, Lp)),
        np.zeros((longest, Lp)),
        np.zeros((longest, Lp)),
        np.zeros((L, L)),
        k_best_workspace(longest, L, k),
        quadratic_room(k + 1),
    )


@inlined
def squared_norm(X):
    total = 0.0
    for r in range(X.shape[0]):
        for j in range(X.shape[1]):
            total += X[r, j] * X[r, j]
    return total


@inlined
def add(factor, X, Y):
    """Y += factor * X."""
    for r in range(X.shape[0]):
        for j in range(X.shape[1]):
            Y[r, j] += factor * X[r, j]


@inlined
def scale(factor, X):
    for r in range(X.shape[0]):
        for j in range(X.shape[1]):
            X[r, j] *= factor


@inlined
def scale_weights(factor, weights):
    for i in range(len(weights)):
        weights[i] *= factor


@kernel
def multiply_out(s, passed, W, sum_W):
    """W *= s; sum_W becomes the sum of the weights so far, which was passed * W + sum_W."""
    for r in range(W.shape[0]):
        for j in range(W.shape[1]):
            sum_W[r, j] += passed * W[r, j]
            W[r, j] *= s


@kernel
def samples(n, A, options, uniforms, drawn, work, scratch):
    """Put outputs into scratch: the k best, or the best and the new ones among k - 1 draws. Returns their number."""
    outputs, several = scratch.outputs, options.mu > 0.0
    load(A[0], 1.0, work.matrix)
    most = 1 if several else options.k
    count, _ = k_best(work.scores, n, A, 0, 0, work.matrix, 0.0, scratch.values[:most], outputs, scratch.best)
    if not several or options.k == 1 or n == 0:
        return count
    inverse_mu = 1.0 / options.mu
    for t in range(n):
        for label in range(work.scores.shape[1]):
            work.chain.factor[t, label] = work.scores[t, label] * inverse_mu
    log_forward(work.chain.factor, n, A, 0, 0, inverse_mu, work.chain)
    for draw in range(options.k - 1):
        numbers = uniforms[drawn + draw * n : drawn + (draw + 1) * n]
        draw_labelling(work.chain.forward, n, A, 0, 0, inverse_mu, numbers, work.chain.rows, outputs[count])
        equal = 0
        while not same_labels(outputs, equal, count, n):
            equal += 1
        count += equal == count
    return count


@inlined
def same_labels(outputs, one, other, n):
    t = 0
    while t < n and outputs[one, t] == outputs[other, t]:
        t += 1
    return t == n


@kernel
def describe(problem, i, n, base, count, A, work, scratch):
    """Losses of the outputs, and their inner products with the weights and with each other."""
    first, outputs, labels = problem.offsets[i], scratch.outputs, problem.labels
    for t in range(n):
        scratch.differ[t] = False
    for k in range(count):
        loss, inner = 0.0, 0.0
        for t in range(n):
            truth, y = labels[first + t], outputs[k, t]
            scratch.differ[t] |= y != truth
            loss += problem.cost[truth, y]
            if y != truth:
                inner += work.scores[t, y] - problem.cost[truth, y] - work.scores[t, truth]
            if t > 0:
                inner += A[0, outputs[k, t - 1], y] - A[0, labels[first + t - 1], truth]
        scratch.losses[base + k], scratch.inner[base + k] = loss, inner
    multiply_features(problem, first, n, scratch)
    for k in range(count):
        output_across(labels, first, n, k, 1.0, scratch)
        for c in range(k + 1):
            total = 0.0
            for t in range(n):
                truth, y = labels[first + t], outputs[c, t]
                if y != truth:
                    total += scratch.across[t, y] - scratch.across[t, truth]
                if t > 0:
                    total += scratch.counts[outputs[c, t - 1], y]
                    total -= scratch.counts[labels[first + t - 1], truth]
            scratch.products[base + k, base + c] = scratch.products[base + c, base + k] = total
        output_across(labels, first, n, k, -1.0, scratch)


@kernel
def multiply_features(problem, first, n, scratch):
    """squares: inner products of the features of positions where outputs differ."""
    row, squares = scratch.row, scratch.squares
    for t in range(n):
        fill(0.0, scratch.across, t)
        if scratch.differ[t]:
            for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
                row[problem.indices[e]] += entry(problem.data, e)
            for u in range(t + 1):
                if scratch.differ[u]:
                    inner = 0.0
                    for e in range(problem.indptr[first + u], problem.indptr[first + u + 1]):
                        inner += entry(problem.data, e) * row[problem.indices[e]]
                    squares[t, u] = squares[u, t] = inner
            for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
                row[problem.indices[e]] = 0.0


@inlined
def output_across(labels, first, n, k, sign, scratch):
    """across[u, label] = the features of position u times output k's direction; counts: its transitions. Sign -1 resets
    both to 0.
    """
    outputs = scratch.outputs
    for t in range(n):
        truth, y = labels[first + t], outputs[k, t]
        if t > 0:
            scratch.counts[outputs[k, t - 1], y] += sign
            scratch.counts[labels[first + t - 1], truth] -= sign
        if scratch.differ[t] and sign < 0.0:
            fill(0.0, scratch.across, t)
        elif y != truth:
            for u in range(n):
                if scratch.differ[u]:
                    scratch.across[u, y] += scratch.squares[t, u]
                    scratch.across[u, truth] -= scratch.squares[t, u]


@kernel
def describe_mixture(problem, touched, i, n, count, s, W, A, before, scratch):
    """Loss and products of number 0, the mixture; place and mixed, the features of positions times its direction."""
    first, outputs, labels, L = problem.offsets[i], scratch.outputs, problem.labels, A.shape[1]
    start, rows = touched
    inner, square, T = 0.0, 0.0, before.transitions
    for label in range(L):
        scratch.across[0, label] = scratch.mixed[0, label] = 0.0
    for r in range(start[i], start[i + 1]):
        scratch.place[rows[r]] = r
        for label in range(L):
            scratch.across[0, label] += before.rows[r, label] * W[rows[r], label]
            scratch.mixed[0, label] += before.rows[r, label] * before.rows[r, label]
    for label in range(L):
        inner += s * scratch.across[0, label]
        square += scratch.mixed[0, label]
    for label in range(L):
        for to in range(L):
            inner += T[i, label, to] * A[0, label, to]
            square += T[i, label, to] * T[i, label, to]
    scratch.losses[0], scratch.inner[0], scratch.products[0, 0] = before.losses[i], inner, square
    for t in range(n):
        if scratch.differ[t]:
            for label in range(L):
                scratch.mixed[t, label] = 0.0
            for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
                x, r = entry(problem.data, e), scratch.place[problem.indices[e]]
                for label in range(L):
                    scratch.mixed[t, label] += x * before.rows[r, label]
    for k in range(count):
        total = 0.0
        for t in range(n):
            truth, y = labels[first + t], outputs[k, t]
            if y != truth:
                total += scratch.mixed[t, y] - scratch.mixed[t, truth]
            if t > 0:
                total += T[i, outputs[k, t - 1], y] - T[i, labels[first + t - 1], truth]
        scratch.products[0, 1 + k] = scratch.products[1 + k, 0] = total


@kernel
def updated(base, m, lam_t, shrink, start, exact, scratch):
    """quadratic.alpha: the block's new weights, quadratic.start: the old ones. Returns whether they differ; False if a
    product is not finite.
    """
    quadratic, finite = scratch.quadratic, True
    for j in range(m):
        quadratic.start[j] = quadratic.alpha[j] = start if j < base else 0.0
    for j in range(m):
        quadratic.b[j] = scratch.losses[j] + shrink * scratch.inner[j]
        for k in range(m):
            quadratic.Q[j, k] = scratch.products[j, k] / lam_t
            finite &= np.isfinite(quadratic.Q[j, k])
            quadratic.b[j] += quadratic.Q[j, k] * quadratic.start[k]
        finite &= np.isfinite(quadratic.b[j])
    if finite and exact:
        exact_update(quadratic, m)
    elif finite:
        expand_and_swap(quadratic, m)
    moves = False
    for j in range(m):
        moves |= quadratic.alpha[j] != quadratic.start[j]
    return moves


@kernel
def changes(m, lam_t, shrink, scratch):
    """change: the change of each direction's factor in w. Returns the growth of the loss and of ||w||^2, after w is
    shrunk.
    """
    gained, longer = 0.0, 0.0
    for j in range(m):
        moved = scratch.quadratic.alpha[j] - scratch.quadratic.start[j]
        gained += moved * scratch.losses[j]
        scratch.change[j] = -moved / lam_t
    for j in range(m):
        across = 2.0 * shrink * scratch.inner[j]
        for k in range(m):
            across += scratch.change[k] * scratch.products[j, k]
        longer += scratch.change[j] * across
    return gained, longer


@kernel
def new_mixture(touched, i, base, m, whole, moves, before, after, scratch):
    """The mixture's loss, and the share of the old mixture that remains; share: the outputs' parts in the mixture, not
    added yet.
    """
    alpha, anew = scratch.quadratic.alpha, moves and whole > 0.0
    loss = 0.0 if anew or base == 0 else before.losses[i]
    for j in range(m):
        scratch.share[j] = alpha[j] / whole if anew else 0.0
        loss += scratch.share[j] * scratch.losses[j]
    after.losses[i], after.present[i] = loss, True
    left = 0.0 if base == 0 else (scratch.share[0] if anew else 1.0)
    L, (start, rows) = after.rows.shape[1], touched
    for r in range(start[i], start[i + 1]):
        scratch.place[rows[r]] = r
        for label in range(L):
            after.rows[r, label] = left * before.rows[r, label] if left != 0.0 else 0.0
    for label in range(L):
        for to in range(L):
            after.transitions[i, label, to] = left * before.transitions[i, label, to] if left != 0.0 else 0.0


@kernel
def move_mixture(touched, i, s, passed, before, point, scratch):
    """s W and A += change_0 v_0, and the sums of weights to match."""
    (start, rows), W, sum_W, x = touched, point.W, point.sum_W, scratch.change[0] / s
    for r in range(start[i], start[i + 1]):
        for label in range(before.rows.shape[1]):
            W[rows[r], label] += x * before.rows[r, label]
            sum_W[rows[r], label] -= passed * x * before.rows[r, label]
    add(scratch.change[0], before.transitions[i], point.A[0])


@kernel
def move_outputs(problem, i, n, base, count, factors, after, point, scratch):
    """The same for the outputs, which also add their share to the mixture, if there is one; factors: s, passed and that
    share.
    """
    s, passed, mixes = factors
    first, outputs, labels, W, sum_W = problem.offsets[i], scratch.outputs, problem.labels, point.W, point.sum_W
    for t in range(n):
        if scratch.differ[t]:
            fill(0.0, scratch.moves, t)
            fill(0.0, scratch.shares, t)
    for k in range(count):
        change, share = scratch.change[base + k], scratch.share[base + k]
        for t in range(n):
            truth, y = labels[first + t], outputs[k, t]
            if y != truth:
                scratch.moves[t, y] += change / s
                scratch.moves[t, truth] -= change / s
                scratch.shares[t, y] += share
                scratch.shares[t, truth] -= share
            if t > 0:
                a, b = outputs[k, t - 1], labels[first + t - 1]
                point.A[0, a, y] += change
                point.A[0, b, truth] -= change
                if mixes:
                    after.transitions[i, a, y] += share
                    after.transitions[i, b, truth] -= share
    for t in range(n):
        if scratch.differ[t]:
            for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
                x, f = entry(problem.data, e), problem.indices[e]
                for label in range(W.shape[1]):
                    W[f, label] += x * scratch.moves[t, label]
                    sum_W[f, label] -= passed * x * scratch.moves[t, label]
                if mixes:
                    r = scratch.place[f]
                    for label in range(after.rows.shape[1]):
                        after.rows[r, label] += x * scratch.shares[t, label]
