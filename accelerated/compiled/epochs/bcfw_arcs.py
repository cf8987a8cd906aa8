"""Block-coordinate Frank-Wolfe over packed sentences: a pass of visits. Weights w (d,); the labels of a working set are heads.

A visit scores all arcs where it asks for the best tree, and else those of the set's trees; it steps on scores of trees and squared
distances of their features (`visits`), and then changes w once, at the features of arcs on which its trees differ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.epochs.bcfw_sets import empty_sets, find_labelling, store
from accelerated.compiled.epochs.bcfw_steps import frank_wolfe_step, idle_place, pairwise_steps, visit_begins
from accelerated.compiled.problems.arc_features import add_arcs, arc_scores, list_arcs, squared_length, weigh_arcs
from accelerated.compiled.structures.arborescence_max import best_heads
from accelerated.kernel import kernel
from reference.optimizers.bcfw import EQUAL, PAIRWISE_SHARE

__all__ = ["bcfw_pass_of_trees", "tree_sets"]


class Scratch(NamedTuple):
    """g, change, spread (trees,) as `visits` takes them; features (d,): zero."""

    g: np.ndarray
    change: np.ndarray
    spread: np.ndarray
    features: np.ndarray


def tree_sets(offsets, heads):
    """One tree each, the true one, with all the weight; offsets (n + 1,) and heads (P,) as sentences are packed."""
    lengths = np.diff(offsets) - 1
    sets = empty_sets(lengths, 0 * lengths)
    sets.alpha[sets.slots] = 1.0
    for i, n in enumerate(lengths.tolist()):
        sets.labels[sets.cells[i] : sets.cells[i] + n] = heads[offsets[i] + 1 : offsets[i + 1]]
    return sets


@kernel
def bcfw_pass_of_trees(
    f,
    offsets,
    heads,
    single_root,
    order,
    oracle,
    pairwise,
    lam_n,
    capacity,
    line_search,
    average,
    t,
    loss,
    mean_loss,
    sets,
    w,
    u,
):
    """A visit for each sentence in ``order``: sets and w change in place; returns t (visits so far), the loss and its mean.

    oracle: whether visits call it; if not, sentences that are not restless are left out. pairwise: whether visits take pairwise steps.
    With ``average``, u gathers each change of w times the sum of the numbers of this pass's earlier visits, as in `block_frank_wolfe`.
    """
    most = np.max(sets.room)
    scratch = Scratch(np.zeros(most), np.zeros(most), np.zeros(most), np.zeros(len(w)))
    N, S = len(order), 0.0
    for k in range(N):
        i = order[k]
        if not oracle and not sets.restless[i]:
            continue
        n = offsets[i + 1] - offsets[i] - 1
        values = np.zeros((n, n + 1))
        if oracle:
            call_oracle(f, offsets[i], n, heads, single_root, capacity, sets, i, w, values, scratch)
        if sets.outputs[i] > 1:
            if not oracle:
                mark_arcs(sets, i, n, values)
                weigh_arcs(f, offsets[i], n, values, w)
            score_trees(sets, i, n, values, scratch)
            best, violation, largest_loss = visit_begins(sets, i, scratch)
            sets.restless[i], moves = violation > EQUAL * largest_loss, False
            if oracle:
                fixed = -1.0 if line_search else 2.0 * N / (2.0 * N + t)
                moves |= frank_wolfe_step(sets, i, best, lam_n, fixed, scratch)
            if pairwise:
                moves |= pairwise_steps(sets, i, lam_n, PAIRWISE_SHARE * violation, scratch)
            if moves:
                loss += change_arcs(sets, i, n, -1.0 / lam_n, values, scratch) / N
                add_arcs(f, offsets[i], n, values, w)
                if average:
                    values *= S
                    add_arcs(f, offsets[i], n, values, u)
        t += 1
        S += t
        mean_loss += (2.0 / (t + 1.0) if average else 1.0) * (loss - mean_loss)
    return t, loss, mean_loss


@kernel
def call_oracle(f, a, n, heads, single_root, capacity, sets, i, w, values, scratch):
    """values (n, n + 1) = the scores of all arcs; the tree that is best with the losses joins the set of sentence i."""
    arc_scores(f, a, n, w, values)
    augmented, found, loss = np.empty((n, n + 1)), np.empty(n, np.int64), 0.0
    for m in range(n):
        for h in range(n + 1):
            augmented[m, h] = values[m, h] + (h != heads[a + 1 + m])
    if not best_heads(augmented, single_root, found) or find_labelling(sets, i, n, found) >= 0:
        return
    for m in range(n):
        loss += found[m] != heads[a + 1 + m]
    place = sets.outputs[i]
    if place >= capacity:
        score_trees(sets, i, n, values, scratch)
        place = idle_place(sets, i, scratch)
    store(sets, i, n, found, loss, place)
    start, room = sets.pairs[i], sets.room[i]
    for b in range(sets.outputs[i]):
        distance = distance_of(f, a, n, sets, i, place, b, scratch.features)
        sets.distances[start + place * room + b] = distance
        sets.distances[start + b * room + place] = distance


@kernel
def distance_of(f, a, n, sets, i, first, second, features):
    """||phi(y) - phi(z)||^2 of the trees at two places of the set of sentence i; features (d,) is scratch, zero."""
    arcs, changed = np.zeros((n, n + 1)), 0
    x, y = sets.cells[i] + first * n, sets.cells[i] + second * n
    for m in range(n):
        if sets.labels[x + m] != sets.labels[y + m]:
            arcs[m, sets.labels[x + m]] = 1.0
            arcs[m, sets.labels[y + m]] = -1.0
            changed += 2
    if changed == 0:
        return 0.0
    tags = min(n, len(f.between))
    room = changed * (f.head.shape[1] - f.between.shape[1] + f.between.shape[1] * tags)
    index, shares, templates = np.empty(room, np.int64), np.empty(room), np.empty(room, np.int64)
    return squared_length(index, shares, list_arcs(f, a, n, arcs, index, shares, templates), features)


@kernel
def mark_arcs(sets, i, n, arcs):
    """arcs (n, n + 1) = 1 at the arcs of the trees of sentence i, where these are not all alike; 0 elsewhere, as before."""
    first = sets.cells[i]
    for a in range(1, sets.outputs[i]):
        for m in range(n):
            if sets.labels[first + a * n + m] != sets.labels[first + m]:
                arcs[m, sets.labels[first + a * n + m]] = arcs[m, sets.labels[first + m]] = 1.0


@kernel
def score_trees(sets, i, n, values, scratch):
    """g[a] = loss and score of tree a of sentence i, but for what all have in common."""
    first = sets.cells[i]
    for a in range(sets.outputs[i]):
        scratch.g[a] = sets.losses[sets.slots[i] + a]
    for m in range(n):
        alike = True
        for a in range(1, sets.outputs[i]):
            alike &= sets.labels[first + a * n + m] == sets.labels[first + m]
        if not alike:
            for a in range(sets.outputs[i]):
                scratch.g[a] += values[m, sets.labels[first + a * n + m]]


@kernel
def change_arcs(sets, i, n, factor, arcs, scratch):
    """arcs (n, n + 1) = factor * the change of the weight of each arc, 0 for those of all trees; returns the change of the weighted losses."""
    first, loss = sets.cells[i], 0.0
    arcs[:] = 0.0
    for a in range(sets.outputs[i]):
        change = scratch.change[a]
        loss += change * sets.losses[sets.slots[i] + a]
        for m in range(n):
            arcs[m, sets.labels[first + a * n + m]] += factor * change
    for m in range(n):
        alike = True
        for a in range(1, sets.outputs[i]):
            alike &= sets.labels[first + a * n + m] == sets.labels[first + m]
        if alike:
            arcs[m, sets.labels[first + m]] = 0.0  # the changes sum to 0 but for rounding
    return loss
