"""The k best labellings of a rooted tree. Each is computed only at the nodes where it differs from those before.

Max-product once. Two kinds of sorted lists then grow by one entry at a time, on demand:

* choose (v, i): the best of v and what is below it where v's parent has label i, over the labels j of v;
* merge (v, i): the best of v's parent with label i together with its children up to and including v.

An entry of choose (v, i) extends one of merge (last child of v, j); an entry of merge (v, i) is a pair: one of merge
(sibling before v, i) and one of choose (v, i). The first entry of every list is known from max-product. The next entry
of choose comes from replacing the chosen candidate by its list's next (Jimenez and Marzal's recursive enumeration, here
over a tree); the next of merge from a frontier of rows, row a being the pairs with the a-th entry of the left list,
begun when the row before has begun. Sums are the reference's, in the same order, so ties fall alike. A leaf has one
entry for each label, without a list. Each new labelling asks each list for at most one more entry.

(Loops take arrays, not the NamedTuples that hold them: a field costs two atomic reference counts each time.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.copies import copy_table
from accelerated.compiled.structures.tree import (
    first_largest,
    label_below,
    load_nodes,
    new_matrix,
    sound,
    trace,
    upward_messages,
)
from accelerated.compiled.sweeps import largest, padded
from accelerated.kernel import inlined, kernel

__all__ = ["top_k_of_trees"]

FIRST = -1  # the first entry of a list, perhaps not stored yet; or the one entry of a node without a list
# columns of a cell, after v and i: of either list the first entry, the last, and whether no more come; first and last
# row of the merge
CHOOSE, MERGE = 2, 5
FRONT, FINAL, DONE = 0, 1, 2
HEAD, TAIL = 8, 9
# columns of an entry; for choose: LEFT the label, RIGHT the entry of merge. AFTER: the next entry, or -1
LEFT, RIGHT, AFTER, ROW = 0, 1, 2, 3
CELLS, ENTRIES, ROWS = 0, 1, 2  # used numbers of each


class TreeWork(NamedTuple):
    """Room for the k best labellings of a tree, from `tree_work`. A cell stands for the two lists of one (v, i)."""

    own: np.ndarray  # (p + 1, Lp) unary scores, and 0 above the roots
    below: np.ndarray  # (p, Lp) best score of v and what is below it
    messages: np.ndarray  # (p, Lp) best score of v and what is below it, for labels of the parent
    number: np.ndarray  # (p, Lp) of a cell, or -1
    cells: np.ndarray  # (C, 10)
    candidates: np.ndarray  # (C, Lp) of choose: the best not yet taken with each label
    origin: np.ndarray  # (C, Lp) the entries of merge that they extend
    value: np.ndarray  # (E,)
    entries: np.ndarray  # (E, 4)
    row_value: np.ndarray  # (R,) of the next pair in each row
    rows: np.ndarray  # (R, 3) LEFT entry, RIGHT entry of that pair, the row AFTER
    stack: np.ndarray  # (2 p + 2, 2) lists that wait for others: cell and kind; while tracing, nodes and entries
    used: np.ndarray  # (3,)


@kernel
def tree_work(p, L, k):
    """Room for trees of p nodes: each labelling except the first asks at most one list of each kind at each node for
    one more entry.
    """
    Lp = padded(L)
    cells = p * max(min(k - 1, L), 1)
    entries = 2 * cells + 2 * p * k
    return TreeWork(
        np.zeros((p + 1, Lp)),
        np.empty((p, Lp)),
        np.empty((p, Lp)),
        np.full((p, Lp), -1, np.int32),
        np.empty((cells, 10), np.int32),
        np.empty((cells, Lp)),
        np.empty((cells, Lp), np.int32),
        np.empty(entries),
        np.empty((entries, 4), np.int32),
        np.empty(cells + p * k),
        np.empty((cells + p * k, 3), np.int32),
        np.empty((2 * p + 2, 2), np.int32),
        np.zeros(3, np.int64),
    )


@kernel
def top_k_of_trees(lo, hi, unary, pairwise, stride, forest, values, labels):
    """values (B, k) and labels (B, k, p) of the k best outputs of trees lo .. hi - 1, or of all if there are fewer; nan
    if a score is nan.
    """
    p, L, k = len(forest.above), unary.shape[1], values.shape[1]
    work, matrix = tree_work(p, L, k), new_matrix(pairwise, stride)
    for b in range(lo, hi):
        rows, first = slice(b * p, (b + 1) * p), b * p * stride
        if not sound(unary[rows], pairwise, first, stride):
            values[b, 0] = np.nan
            continue
        load_nodes(unary[rows], forest.counts, 1.0, work.own[:p])
        copy_table(work.own[:p], work.below)
        value = upward_messages(work.below, forest, pairwise, first, stride, matrix, work.messages)
        if not value > -np.inf:
            continue
        values[b, 0] = value
        trace(work.below, work.messages, forest, pairwise, first, stride, labels[b, 0])
        work.used[:] = 0
        for row in range(1, k):
            entry = _next(forest, pairwise, first, stride, labels[b, 0], work)
            if entry < 0:
                break
            values[b, row] = work.value[entry]
            _trace(forest, pairwise, first, stride, entry, row, labels[b], work)
        for n in range(work.used[CELLS]):
            work.number[work.cells[n, 0], work.cells[n, 1]] = -1


@kernel
def _next(forest, pairwise, first, stride, best, work):
    """The next entry of the merge above the roots, -1 if there is none; the lists below grow as needed. best (p,): the
    best labels.
    """
    above, start, member = forest.above, forest.start, forest.member
    own, below, number, cells = work.own, work.below, work.number, work.cells
    candidates, origin, value, entries = work.candidates, work.origin, work.value, work.entries
    row_value, rows, stack, used = work.row_value, work.rows, work.stack, work.used
    p, L, Lp = len(above), pairwise.shape[1], below.shape[1]
    if used[CELLS] == 0:
        _begin_merges(p, 0, start, member, work)
    end = number[member[p - 1], 0]
    stack[0, 0], stack[0, 1], height = end, MERGE, 1
    while height > 0:
        n, kind = stack[height - 1, 0], stack[height - 1, 1]
        v, i = cells[n, 0], cells[n, 1]
        e, has_parent = first + v * stride, above[v] < p
        if kind == CHOOSE:
            final = cells[n, CHOOSE + FINAL]
            j = entries[final, LEFT]
            candidates[n, j] = -np.inf
            if start[v] < start[v + 1]:
                c, taken = member[start[v + 1] - 1], entries[final, RIGHT]
                if number[c, j] < 0:
                    _begin_merges(v, j, start, member, work)
                m = number[c, j]
                after = entries[taken if taken != FIRST else cells[m, MERGE + FRONT], AFTER]
                if after >= 0:
                    candidates[n, j] = value[after] + pairwise[e, i, j] if has_parent else value[after]
                    origin[n, j] = after
                elif cells[m, MERGE + DONE] == 0:
                    stack[height, 0], stack[height, 1] = m, MERGE
                    height += 1
                    continue
            _choose(n, L - 1, candidates, origin, cells, value, entries, used)
        else:
            row = entries[cells[n, MERGE + FINAL], ROW]
            left, right = rows[row, LEFT], rows[row, RIGHT]
            if cells[n, CHOOSE + FRONT] < 0:
                for j in range(L):
                    candidates[n, j] = below[v, j] + pairwise[e, i, j] if has_parent else below[v, j]
                for j in range(L, Lp):
                    candidates[n, j] = -np.inf
                for j in range(Lp):
                    origin[n, j] = FIRST
                if not has_parent or best[above[v]] == i:  # the usual case: the first of the largest is the best label
                    entry = _append(n, CHOOSE, candidates[n, best[v]], cells, value, entries, used)
                    entries[entry, LEFT], entries[entry, RIGHT] = best[v], FIRST
                else:
                    _choose(n, L - 1, candidates, origin, cells, value, entries, used)
            front = cells[n, CHOOSE + FRONT]
            if front < 0:  # only where sums overflow to nan
                cells[n, MERGE + DONE] = 1
                height -= 1
                continue
            if right == FIRST:
                right = front
            further = entries[right, AFTER]
            if further < 0 and cells[n, CHOOSE + DONE] == 0:
                stack[height, 0], stack[height, 1] = n, CHOOSE
                height += 1
                continue
            if right == front and left != FIRST:
                following = entries[left, AFTER]  # siblings have consecutive numbers
                if following >= 0:
                    tail = cells[n, TAIL]
                    both = value[following] + value[front]
                    rows[tail, AFTER] = _append_row(n, following, front, both, cells, row_value, rows, used)
                elif cells[n - 1, MERGE + DONE] == 0:
                    stack[height, 0], stack[height, 1] = n - 1, MERGE
                    height += 1
                    continue
            row_value[row] = -np.inf
            if further >= 0:
                row_value[row] = (own[above[v], i] if left == FIRST else value[left]) + value[further]
                rows[row, RIGHT] = further
            _merge(n, cells, value, entries, row_value, rows, used)
        height -= 1
    return -1 if cells[end, MERGE + DONE] != 0 else cells[end, MERGE + FINAL]


@inlined
def _begin_merges(u, i, start, member, work):
    """A cell for each child of u, where u has label i, with the first entry of its merge. The cells have consecutive
    numbers.
    """
    own, messages, number, cells, value = work.own, work.messages, work.number, work.cells, work.value
    entries, row_value, rows, used = work.entries, work.row_value, work.rows, work.used
    so_far, left = own[u, i], FIRST
    for q in range(start[u], start[u + 1]):
        c, n = member[q], used[CELLS]
        used[CELLS] = n + 1
        number[c, i] = n
        cells[n, 0], cells[n, 1] = c, i
        cells[n, CHOOSE + FRONT] = cells[n, MERGE + FRONT] = -1
        cells[n, CHOOSE + DONE] = cells[n, MERGE + DONE] = 0
        so_far += messages[c, i]
        cells[n, HEAD] = _append_row(n, left, FIRST, so_far, cells, row_value, rows, used)
        _merge(n, cells, value, entries, row_value, rows, used)
        left = cells[n, MERGE + FINAL]


@inlined
def _choose(n, last, candidates, origin, cells, value, entries, used):
    """Append the best candidate of choose n, the first of the largest, to its list. Returns DONE if there is none."""
    top = largest(candidates, n)
    if top > -np.inf:
        j = first_largest(candidates, n, top, last)
        entry = _append(n, CHOOSE, top, cells, value, entries, used)
        entries[entry, LEFT], entries[entry, RIGHT] = j, origin[n, j]
    else:
        cells[n, CHOOSE + DONE] = 1


@inlined
def _merge(n, cells, value, entries, row_value, rows, used):
    """Append the best next pair of merge n, of the first row that has it, to its list. Returns DONE if there is
    none.
    """
    best, top, row = -1, -np.inf, cells[n, HEAD]
    while row >= 0:
        if row_value[row] > top:
            best, top = row, row_value[row]
        row = rows[row, AFTER]
    if best >= 0:
        entry = _append(n, MERGE, top, cells, value, entries, used)
        entries[entry, LEFT], entries[entry, RIGHT], entries[entry, ROW] = rows[best, LEFT], rows[best, RIGHT], best
    else:
        cells[n, MERGE + DONE] = 1


@inlined
def _append(n, kind, x, cells, value, entries, used):
    """Append an entry to a list."""
    entry = used[ENTRIES]
    used[ENTRIES] = entry + 1
    value[entry] = x
    entries[entry, AFTER] = -1
    if cells[n, kind + FRONT] < 0:
        cells[n, kind + FRONT] = entry
    else:
        entries[cells[n, kind + FINAL], AFTER] = entry
    cells[n, kind + FINAL] = entry
    return entry


@inlined
def _append_row(n, left, right, x, cells, row_value, rows, used):
    """Append a row to merge n."""
    row = used[ROWS]
    used[ROWS] = row + 1
    row_value[row] = x
    rows[row, LEFT], rows[row, RIGHT], rows[row, AFTER] = left, right, -1
    cells[n, TAIL] = row
    return row


@kernel
def _trace(forest, pairwise, first, stride, entry, row, labels, work):
    """labels[row, :p] of an entry of the last merge above the roots: a copy of labels[0], and a walk down wherever it
    differs.

    Below a FIRST entry lies the best labelling. The first entry of a merge, which has FIRST on the RIGHT, has only
    first entries to the left.
    """
    start, member, below, messages = forest.start, forest.member, work.below, work.messages
    entries, stack, p = work.entries, work.stack, len(forest.above)
    for v in range(p):
        labels[row, v] = labels[0, v]
    stack[0, 0], stack[0, 1], height = p, entry, 1
    while height > 0:
        height -= 1
        u, entry = stack[height, 0], stack[height, 1]
        i = labels[row, u] if u < p else 0
        changed = u < p and labels[0, u] != i
        for q in range(start[u + 1] - 1, start[u] - 1, -1):
            c, right = member[q], FIRST
            if entry != FIRST:
                right, entry = entries[entry, RIGHT], entries[entry, LEFT]
            if right != FIRST:
                j, following = entries[right, LEFT], entries[right, RIGHT]
            elif changed:
                j, entry, following = (
                    label_below(below, c, pairwise, first + c * stride, i, messages[c, i]),
                    FIRST,
                    FIRST,
                )
            else:
                break
            if following != FIRST or j != labels[0, c]:
                labels[row, c] = j
                stack[height, 0], stack[height, 1] = c, following
                height += 1
