"""Assignment problems: every row of a score matrix takes a column of its own, p <= q.

Potentials u (p,), v (q,) keep u_i + v_j >= a_ij, with equality on the matched pairs. Three stages match more and more
rows (after Jonker and Volgenant 1987). First, each row takes its best column if that is free. Then rows outbid each
other: a bid raises the price v of a column until its new row is indifferent between this column and its next best.
Finally, each remaining row is matched along a path of least loss, by Dijkstra's algorithm. v starts at the columns'
maxima if p = q, else at 0, so that it is 0 on columns that stay unmatched.
"""

from __future__ import annotations

import numpy as np

from accelerated.compiled.copies import copy_to
from accelerated.compiled.sweeps import larger, largest, padded, smaller
from accelerated.kernel import inlined, kernel

__all__ = ["are_scores", "assign", "best_matching", "best_range", "matched_sum"]

ROUNDS = 2  # of bidding
# Best and next best that differ by less than this share count as equal, so that no war is fought over the last digit.
# Any share keeps the potentials feasible and tight: it decides how long the bidding lasts, never what is found.
NEAR = 1e-13


@kernel
def are_scores(a):
    """Whether no entry is nan or +inf, as ``assign`` requires."""
    wrong = 0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            wrong += not a[i, j] < np.inf
    return wrong == 0


@kernel
def assign(a):
    """Match the rows of a (p, q), C order: whether a matching avoids -inf, column (p,), u (p,), v (q,)."""
    p, q = a.shape
    column, row = np.full(p, -1), np.full(q, -1)
    u, v = np.empty(p), np.empty(q)
    free = np.empty(p, np.int64)
    scratch = np.full((1, padded(q)), -np.inf)
    possible = _prices(a, v)
    if possible:
        n_free = _greedy(a, u, v, column, row, free, scratch)
        possible = n_free >= 0
        if possible:
            for _ in range(ROUNDS):
                n_free = _bid(a, u, v, column, row, free, n_free, scratch)
            possible = _augment(a, u, v, column, row, free, n_free, scratch)
    return possible, column, u, v


@kernel
def best_matching(a, columns):
    """The score of a best matching of a (p, q), p <= q, and its ``columns`` (p,).

    Without a matching -inf, for scores of nan or +inf nan; columns are -1 then.
    """
    columns[:] = -1
    if not are_scores(a):
        return np.nan
    possible, column, _, _ = assign(a)
    if not possible:
        return -np.inf
    for i in range(len(column)):
        columns[i] = column[i]
    return matched_sum(a, columns)


@kernel
def matched_sum(a, columns):
    """The score of a matching of a (p, q), summed row after row."""
    total = 0.0
    for i in range(len(columns)):
        if columns[i] >= 0:
            total += a[i, columns[i]]
    return total


@kernel
def best_range(lo, hi, values, lengths, value, columns):
    """value (B,), the highest scores, and columns (B, P), -1 before, of matrices lo..hi - 1 of values (B, P, Q), whose
    numbers of rows and of columns are lengths (B, 2).
    """
    for b in range(lo, hi):
        p, q = lengths[b, 0], lengths[b, 1]
        own, matched = np.empty((min(p, q), max(p, q))), np.empty(min(p, q), np.int64)
        for i in range(p):
            for j in range(q):
                if p <= q:
                    own[i, j] = values[b, i, j]
                else:
                    own[j, i] = values[b, i, j]
        value[b] = best_matching(own, matched)
        if p <= q:
            copy_to(matched, columns[b])
        elif value[b] > -np.inf:
            for j in range(q):
                columns[b, matched[j]] = j
            value[b] = matched_sum(values[b], columns[b])  # row after row


@kernel
def _prices(a, v):
    """The initial potentials of the columns. False if a column that has to be matched cannot be matched."""
    p, q = a.shape
    if p < q:
        for j in range(q):
            v[j] = 0.0
        return True
    for j in range(q):
        v[j] = -np.inf
    for i in range(p):
        for j in range(q):
            v[j] = larger(a[i, j], v[j])
    lowest = np.inf
    for j in range(q):
        lowest = smaller(lowest, v[j])
    return lowest > -np.inf


@kernel
def _greedy(a, u, v, column, row, free, scratch):
    """Give each row one of its best columns if one is free. Returns the number of rows left, or -1 if a row has no
    column.
    """
    n_free = 0
    for i in range(a.shape[0]):
        _offers(a, i, v, scratch)
        u[i] = largest(scratch, 0)
        if u[i] == -np.inf:
            return -1
        for j in range(a.shape[1]):
            if scratch[0, j] == u[i] and row[j] < 0:
                column[i], row[j] = j, i
                break
        if column[i] < 0:
            free[n_free] = i
            n_free += 1
    return n_free


@kernel
def _bid(a, u, v, column, row, free, n_free, scratch):
    """One round of bids by the free rows, in at most 4 p steps. Returns the number of rows left in ``free``.

    A row pays for its best column what it would lose by taking the next best, and the displaced owner bids at once. If
    the row would lose nothing, it takes whichever of the two columns is free; if neither is, the owner waits for the
    next round.
    """
    waiting, next_free, steps = 0, 0, 4 * a.shape[0]
    i = -1
    while i >= 0 or next_free < n_free:
        if i < 0:
            i = free[next_free]
            next_free += 1
        second, best = -np.inf, 0
        if steps > 0:
            steps -= 1
            _offers(a, i, v, scratch)
            first = largest(scratch, 0)
            best = _index(scratch, first)
            scratch[0, best] = -np.inf
            second = largest(scratch, 0)
        if second == -np.inf:  # no steps left, or no next best column
            free[waiting] = i
            waiting += 1
            i = -1
            continue
        war = first - second > NEAR * abs(first)
        if war:
            u[i] = second
            v[best] += first - second
        else:
            u[i] = first
            if first == second and row[best] >= 0:
                best = _index(scratch, second)
        owner = row[best]
        column[i], row[best] = best, i
        i = owner
        if owner >= 0:
            column[owner] = -1
            if not war:
                free[waiting] = owner
                waiting += 1
                i = -1
    return waiting


@kernel
def _augment(a, u, v, column, row, free, n_free, gain):
    """Match the free rows, each along a path of largest gain. False if a row has none.

    gain (1, >= q): of the best path to each column, -inf once the column is settled. Its price is then inf, so that no
    path reaches it again.
    """
    q = a.shape[1]
    price = np.empty(q)
    before = np.empty(q, np.int64)  # the row from which the path reaches each column
    settled, final = np.empty(q, np.int64), np.empty(q)
    for f in range(n_free):
        start = free[f]
        for j in range(q):
            gain[0, j] = -np.inf
            price[j] = v[j]
        _extend(a, start, -u[start], price, gain, before)
        count = end = 0
        while True:
            most = largest(gain, 0)
            if most == -np.inf:
                return False
            end, done = -1, count
            for j in range(q):  # all columns of largest gain
                if gain[0, j] == most:
                    if row[j] < 0:
                        end = j
                        break
                    settled[count] = j
                    count += 1
            if end >= 0:
                count = done
                break
            for s in range(done, count):
                j = settled[s]
                final[j], gain[0, j], price[j] = most, -np.inf, np.inf
            for s in range(done, count):
                i = row[settled[s]]
                _extend(a, i, most - u[i], price, gain, before)
        for s in range(count):
            j = settled[s]
            v[j] += final[j] - most
            u[row[j]] -= final[j] - most
        u[start] += most
        j, i = end, -1
        while i != start:
            i = before[j]
            row[j], column[i], j = i, j, column[i]
    return True


@inlined
def _offers(a, i, v, out):
    """The value of each column to row i at the column's price."""
    for j in range(a.shape[1]):
        out[0, j] = a[i, j] - v[j]


@inlined
def _extend(a, i, base, price, gain, before):
    """Extend the paths that end in row i by one column."""
    for j in range(a.shape[1]):
        through, most = base + (a[i, j] - price[j]), gain[0, j]
        before[j] = i if through > most else before[j]
        gain[0, j] = larger(through, most)


@inlined
def _index(x, value):
    """The first place of a value in x (1, n), which contains it."""
    j = 0
    while x[0, j] != value:
        j += 1
    return j
