"""Block-coordinate Frank-Wolfe over packed sequences: a pass of visits. Weights W (F, Lp), A (1, L, L).

Scores of outputs matter up to a number common to a sequence's outputs (`visits`), so a visit looks only at positions where the
outputs of the set differ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.epochs.bcfw_sets import add_labelling, find_labelling
from accelerated.compiled.epochs.bcfw_steps import frank_wolfe_step, idle_place, pairwise_steps, visit_begins
from accelerated.compiled.problems import augmented_scores, gather, longest_of, new_work
from accelerated.compiled.structures.chain import max_product
from accelerated.compiled.sweeps import load
from accelerated.kernel import inlined, kernel
from reference.optimizers.bcfw import EQUAL, PAIRWISE_SHARE

__all__ = ["bcfw_pass"]


class Scratch(NamedTuple):
    """g, change, spread (outputs,): scores, changes of the weights in this visit, sums of weighted distances; scores (n, Lp): a copy;

    differ (n,): where outputs differ; share (Lp,), zero, and touched (outputs,): the labels of a position whose weight changes;
    counts (L, L), zero.
    """

    g: np.ndarray
    change: np.ndarray
    spread: np.ndarray
    scores: np.ndarray
    differ: np.ndarray
    share: np.ndarray
    touched: np.ndarray
    counts: np.ndarray


@kernel
def bcfw_pass(
    problem, order, oracle, pairwise, lam_n, capacity, line_search, average, t, loss, mean_loss, sets, W, A, U_W, U_A
):
    """A visit for each sequence in ``order``: sets, W and A change in place; returns t (visits so far), the loss and its mean.

    oracle: whether visits call it; if not, sequences that are not restless are left out. pairwise: whether visits
    take pairwise steps. With ``average``, U_W and U_A gather each change of W and A times the sum of the numbers of this pass's
    earlier visits: the sum over visits s of s w_s is then S w - U, if S is the sum of all numbers.
    """
    longest, L, most = longest_of(problem, order, 0, len(order)), A.shape[1], np.max(sets.room)
    work = new_work(longest, L)
    Lp = work.scores.shape[1]
    scratch = Scratch(
        np.zeros(most),
        np.zeros(most),
        np.zeros(most),
        np.zeros((longest, Lp)),
        np.zeros(longest, np.bool_),
        np.zeros(Lp),
        np.zeros(most, np.int64),
        np.zeros((L, L)),
    )
    load(A[0], 1.0, work.matrix)
    n, S = len(order), 0.0
    for k in range(n):
        i = order[k]
        if not oracle and not sets.restless[i]:
            continue
        length = problem.offsets[i + 1] - problem.offsets[i]
        if oracle:
            call_oracle(problem, i, length, capacity, sets, W, A, work, scratch)
        if sets.outputs[i] > 1:
            if not oracle:
                mark_differences(sets, i, length, scratch.differ)
                some_scores(problem, i, length, W, scratch.differ, scratch.scores)
            score_outputs(sets, i, length, A, scratch)
            best, violation, largest_loss = visit_begins(sets, i, scratch)
            sets.restless[i], moves = violation > EQUAL * largest_loss, False
            if oracle:
                fixed = -1.0 if line_search else 2.0 * n / (2.0 * n + t)
                moves |= frank_wolfe_step(sets, i, best, lam_n, fixed, scratch)
            if pairwise:
                moves |= pairwise_steps(sets, i, lam_n, PAIRWISE_SHARE * violation, scratch)
            if moves:
                loss += (
                    change_weights(problem, i, length, -1.0 / lam_n, average, S, sets, W, A, U_W, U_A, work, scratch)
                    / n
                )
        t += 1
        S += t
        mean_loss += (2.0 / (t + 1.0) if average else 1.0) * (loss - mean_loss)
    return t, loss, mean_loss


@kernel
def call_oracle(problem, i, n, capacity, sets, W, A, work, scratch):
    """The best output joins the set of sequence i; scratch has the scores of positions and where outputs differ."""
    augmented_scores(problem, i, 1.0, W, A, 1.0, work.scores)
    for t in range(n):
        for label in range(work.scores.shape[1]):
            scratch.scores[t, label] = work.scores[t, label]
    value = max_product(work.scores, n, A, 0, 0, work.matrix, work.chain.forward, work.labels)
    if value > -np.inf and find_labelling(sets, i, n, work.labels) < 0:
        place = sets.outputs[i]
        if place >= capacity:
            mark_differences(sets, i, n, scratch.differ)
            score_outputs(sets, i, n, A, scratch)
            place = idle_place(sets, i, scratch)
        loss = 0.0
        for t in range(n):
            loss += problem.cost[problem.labels[problem.offsets[i] + t], work.labels[t]]
        add_labelling(sets, i, n, work.labels, loss, place, scratch.counts)
    mark_differences(sets, i, n, scratch.differ)


@kernel
def mark_differences(sets, i, n, differ):
    """differ[t]: whether the outputs of sequence i have more than one label at t."""
    first = sets.cells[i]
    for t in range(n):
        differ[t] = False
    for a in range(1, sets.outputs[i]):
        for t in range(n):
            differ[t] |= sets.labels[first + a * n + t] != sets.labels[first + t]


@inlined
def some_scores(problem, i, n, W, differ, scores):
    """scores[t] (Lp,) with the task loss, where differ[t]."""
    first = problem.offsets[i]
    for t in range(n):
        if differ[t]:
            gather(problem, first + t, W, scores, t)
            for label in range(problem.cost.shape[1]):
                scores[t, label] += problem.cost[problem.labels[first + t], label]


@kernel
def score_outputs(sets, i, n, A, scratch):
    """g[a] = score of output a of sequence i, but for what all have in common."""
    for a in range(sets.outputs[i]):
        first, total = sets.cells[i] + a * n, 0.0
        for t in range(n):
            if scratch.differ[t]:
                total += scratch.scores[t, sets.labels[first + t]]
            if t > 0 and (scratch.differ[t] or scratch.differ[t - 1]):
                total += A[0, sets.labels[first + t - 1], sets.labels[first + t]]
        scratch.g[a] = total


@inlined
def add_column(problem, position, factor, label, G):
    """G[:, label] += factor * the features of a position."""
    for e in range(problem.indptr[position], problem.indptr[position + 1]):
        G[problem.indices[e], label] += factor * problem.data[e]


@kernel
def change_weights(problem, i, n, factor, average, S, sets, W, A, U_W, U_A, work, scratch):
    """W, A += factor * sum_a change_a v_a; U_W, U_A += S times that; returns the change of the weighted losses.

    The changes sum to 0, so the true output's features drop out, and so do positions where the outputs agree. (Differences of
    weights would not sum to 0: a weight next to 1 has lost what a tiny one has gained.)
    """
    slots, first, loss = sets.slots[i], problem.offsets[i], 0.0
    changed = 0  # the first so many of spread and change now hold places and their changes times factor
    for a in range(sets.outputs[i]):
        change = scratch.change[a]
        if change != 0.0:
            loss += change * sets.losses[slots + a]
            scratch.change[changed] = change * factor
            scratch.spread[changed] = a
            changed += 1
    for t in range(n):
        if scratch.differ[t]:
            touched = 0
            for k in range(changed):
                label = sets.labels[sets.cells[i] + np.int64(scratch.spread[k]) * n + t]
                known = 0
                while known < touched and scratch.touched[known] != label:
                    known += 1
                if known == touched:
                    scratch.touched[touched] = label
                    touched += 1
                scratch.share[label] += scratch.change[k]
            for k in range(touched):
                label = scratch.touched[k]
                share = scratch.share[label]
                scratch.share[label] = 0.0
                if touched > 1:
                    add_column(problem, first + t, share, label, W)
                    if average:
                        add_column(problem, first + t, S * share, label, U_W)
        if t > 0 and (scratch.differ[t] or scratch.differ[t - 1]):
            for k in range(changed):
                cell = sets.cells[i] + np.int64(scratch.spread[k]) * n + t
                a, b = sets.labels[cell - 1], sets.labels[cell]
                A[0, a, b] += scratch.change[k]
                work.matrix[a, b] = A[0, a, b]
                if average:
                    U_A[0, a, b] += S * scratch.change[k]
    return loss
