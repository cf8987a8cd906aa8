"""Features of arcs, made from the keys of their tokens as they are used: scores, sums of features and lists of
features.

A sentence owns positions a..a+n, the first of which is its root. values (n, n + 1) hold a number for modifier m and
head h in row m - 1. For each head, the modifiers on one side are visited from near to far, and ``seen`` gathers the
different tags between. A key's weight is its place in a hash table. If the table is empty, it is the key's lowest bits,
in the block of its template if templates have blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.kernel import inlined, kernel

__all__ = [
    "ArcFeatures",
    "add_arcs",
    "arc_scores",
    "leveled_scores",
    "list_arcs",
    "squared_length",
    "table_of",
    "weigh_arcs",
]


class ArcFeatures(NamedTuple):
    """Packed sentences and the features of a model; keys are int64 with the same bits.

    head (P, T), modifier (P, T), tags (P,), between (V, T - S), reach (2 D, T), distances (D,). mask: the lowest bits
    of a key. block: the number of weights of each template, or 0. The hash table: slots (2^c,) keys, and numbers
    (2^c,), -1 in free slots.
    """

    head: np.ndarray
    modifier: np.ndarray
    tags: np.ndarray
    between: np.ndarray
    reach: np.ndarray
    distances: np.ndarray
    mask: int
    block: int
    slots: np.ndarray
    numbers: np.ndarray


@inlined
def _number(f, key, t):
    """The weight number of a key of template t, or -1."""
    if len(f.slots) == 0:
        return (key & f.mask) + t * f.block
    last = len(f.slots) - 1
    place = key & last
    while f.numbers[place] >= 0 and f.slots[place] != key:
        place = (place + 1) & last
    return f.numbers[place]


@kernel
def table_of(keys, slots, numbers):
    """Insert keys into free slots, numbered in their order."""
    last = len(slots) - 1
    for j in range(len(keys)):
        place = keys[j] & last
        while numbers[place] >= 0:
            place = (place + 1) & last
        slots[place] = keys[j]
        numbers[place] = j


@inlined
def _reach(f, length, side):
    """The row of the reach keys: side 0 for heads on the left, 1 on the right."""
    row = len(f.distances) - 1
    while f.distances[row] > length:
        row -= 1
    return row + side * len(f.distances)


@inlined
def _see(f, position, seen, count, stamps, stamp):
    """Count a position's tag among the different tags seen since this stamp began."""
    tag = f.tags[position]
    if stamps[tag] != stamp:
        stamps[tag] = stamp
        seen[count] = tag
        count += 1
    return count


@kernel
def arc_scores(f, a, n, w, values):
    """values (n, n + 1) = the sum of the weights of each arc's features; 0 for a token as its own head."""
    leveled_scores(f, a, n, w, np.ones(f.head.shape[1]), values)


@kernel
def leveled_scores(f, a, n, w, levels, values):
    """As `arc_scores`, with the weights of template t times levels[t]; templates of level 0 cost nothing.

    Templates are taken one after another, as few weights of a template are frequent: first all numbers, then all
    weights, so that many memory accesses overlap.
    """
    S, N, mask = f.head.shape[1] - f.between.shape[1], n + 1, f.mask
    rows = np.empty(2 * n + 1, np.int64)  # rows of the reach keys, at m - h + n
    for length in range(N):
        rows[n + length] = _reach(f, max(length, 1), 0)
        rows[n - length] = _reach(f, max(length, 1), 1)
    totals, index = np.zeros(N * N), np.empty(N * N, np.uint64)  # for arcs, at h N + m
    modifier, reach = np.empty(N, np.int64), np.empty(2 * n + 1, np.int64)
    for t in range(S):
        level = levels[t]
        if level == 0:
            continue
        for m in range(N):
            modifier[m] = f.modifier[a + m, t]
        for r in range(2 * n + 1):
            reach[r] = f.reach[rows[r], t]
        if len(f.slots) == 0:
            block = w[t * f.block : t * f.block + mask + 1]
            for h in range(N):
                head, near, numbers = f.head[a + h, t], reach[n - h :], index[h * N : (h + 1) * N]
                for m in range(N):
                    numbers[m] = np.uint64((head + modifier[m] + near[m]) & mask)
            for e in range(N * N):
                totals[e] += level * block[index[e]]
        else:
            for h in range(N):
                head, near, row = f.head[a + h, t], reach[n - h :], totals[h * N : (h + 1) * N]
                for m in range(1, N):
                    j = _number(f, head + modifier[m] + near[m], t)
                    if j >= 0:
                        row[m] += level * w[j]
    if np.any(levels[S:] != 0):
        _score_between(f, a, n, w, levels, rows, totals)
    for m in range(1, N):
        for h in range(N):
            values[m - 1, h] = totals[h * N + m]
        values[m - 1, m] = 0.0


@kernel
def _score_between(f, a, n, w, levels, rows, totals):
    """totals[h (n + 1) + m] += the weights of features with a tag between, times the levels of their templates."""
    S, T = f.head.shape[1] - f.between.shape[1], f.head.shape[1]
    seen, stamps, stamp = np.empty(len(f.between) + 1, np.int64), np.zeros(len(f.between) + 1, np.int64), 0
    for h in range(n + 1):
        for side in range(2):
            step = 1 - 2 * side
            stamp += 1
            count = 0
            m = h + step
            while 1 <= m <= n:
                r = rows[m - h + n]
                for t in range(S, T):
                    if levels[t] == 0:
                        continue
                    key, total = f.head[a + h, t] + f.modifier[a + m, t] + f.reach[r, t], 0.0
                    for s in range(count):
                        j = _number(f, key + f.between[seen[s], t - S], t)
                        if j >= 0:
                            total += w[j]
                    totals[h * (n + 1) + m] += levels[t] * total
                count = _see(f, a + m, seen, count, stamps, stamp)
                m += step


@kernel
def list_arcs(f, a, n, values, index, shares, templates):
    """Write the number, value and template of each feature of each arc with a value other than 0, into arrays with room
    for all. Returns how many there are.
    """
    S, T = f.head.shape[1] - f.between.shape[1], f.head.shape[1]
    seen, stamps, stamp, filled = np.empty(len(f.between) + 1, np.int64), np.zeros(len(f.between) + 1, np.int64), 0, 0
    for h in range(n + 1):
        for side in range(2):
            step = 1 - 2 * side
            last = n if side == 0 else 1  # the farthest modifier with a value
            while (last - h) * step > 0 and values[last - 1, h] == 0:
                last -= step
            if (last - h) * step <= 0:
                continue
            stamp += 1
            count = 0
            m = h
            while m != last:
                m += step
                if values[m - 1, h] != 0:
                    r = _reach(f, (m - h) * step, side)
                    for t in range(T):
                        key = f.head[a + h, t] + f.modifier[a + m, t] + f.reach[r, t]
                        for s in range(1 if t < S else count):
                            j = _number(f, key if t < S else key + f.between[seen[s], t - S], t)
                            if j >= 0:
                                index[filled] = j
                                shares[filled] = values[m - 1, h]
                                templates[filled] = t
                                filled += 1
                if T > S:
                    count = _see(f, a + m, seen, count, stamps, stamp)
    return filled


@kernel
def add_arcs(f, a, n, values, w):
    """w (d,) += values[m - 1, h] times the features of each arc."""
    S, T = f.head.shape[1] - f.between.shape[1], f.head.shape[1]
    seen, stamps, stamp = np.empty(len(f.between) + 1, np.int64), np.zeros(len(f.between) + 1, np.int64), 0
    for h in range(n + 1):
        for side in range(2):
            step = 1 - 2 * side
            stamp += 1
            count = 0
            m = h + step
            while 1 <= m <= n:
                if values[m - 1, h] != 0:
                    r = _reach(f, (m - h) * step, side)
                    for t in range(T):
                        key = f.head[a + h, t] + f.modifier[a + m, t] + f.reach[r, t]
                        for s in range(1 if t < S else count):
                            j = _number(f, key if t < S else key + f.between[seen[s], t - S], t)
                            if j >= 0:
                                w[j] += values[m - 1, h]
                if T > S:
                    count = _see(f, a + m, seen, count, stamps, stamp)
                m += step


@kernel
def weigh_arcs(f, a, n, values, w):
    """Where values is not 0, replace it by the sum of the weights of the arc's features."""
    S, T = f.head.shape[1] - f.between.shape[1], f.head.shape[1]
    seen, stamps, stamp = np.empty(len(f.between) + 1, np.int64), np.zeros(len(f.between) + 1, np.int64), 0
    for h in range(n + 1):
        for side in range(2):
            step = 1 - 2 * side
            stamp += 1
            count = 0
            m = h + step
            while 1 <= m <= n:
                if values[m - 1, h] != 0:
                    total = 0.0
                    r = _reach(f, (m - h) * step, side)
                    for t in range(T):
                        key = f.head[a + h, t] + f.modifier[a + m, t] + f.reach[r, t]
                        for s in range(1 if t < S else count):
                            j = _number(f, key if t < S else key + f.between[seen[s], t - S], t)
                            if j >= 0:
                                total += w[j]
                    values[m - 1, h] = total
                if T > S:
                    count = _see(f, a + m, seen, count, stamps, stamp)
                m += step


@kernel
def squared_length(index, shares, count, scratch):
    """||v||^2, where v (d,) sums shares[e] at index[e] over e < count; scratch (d,) is 0 before and after."""
    for e in range(count):
        scratch[index[e]] += shares[e]
    total = 0.0
    for e in range(count):
        total += shares[e] * scratch[index[e]]
    for e in range(count):
        scratch[index[e]] = 0.0
    return total
