"""Features of arcs, made from the keys of their tokens while they are used: scores, sums of features and lists of them.

A sentence owns positions a..a+n, the first its root; values (n, n + 1) hold a number for modifier m, head h in row m - 1. For each head the
modifiers on one side are visited from near to far, and ``seen`` gathers the different tags between. A key's weight is its place in a
hash table, or, where the table is empty, its lowest bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.kernel import inlined, kernel

__all__ = [
    "ArcFeatures",
    "add_arcs",
    "arc_scores",
    "list_arcs",
    "squared_length",
    "table_of",
    "weigh_arcs",
]


class ArcFeatures(NamedTuple):
    """Packed sentences and the features of a model, keys as int64 for the same bits.

    head (P, T), modifier (P, T), tags (P,), between (V, T - S), reach (2 D, T), distances (D,); mask: of the lowest bits of a key; slots
    (2^c,) keys and numbers (2^c,), -1 where a slot is free: the table.
    """

    head: np.ndarray
    modifier: np.ndarray
    tags: np.ndarray
    between: np.ndarray
    reach: np.ndarray
    distances: np.ndarray
    mask: int
    slots: np.ndarray
    numbers: np.ndarray


@inlined
def _number(f, key):
    """The number of a key's weight, or -1."""
    if len(f.slots) == 0:
        return key & f.mask
    last = len(f.slots) - 1
    place = key & last
    while f.numbers[place] >= 0 and f.slots[place] != key:
        place = (place + 1) & last
    return f.numbers[place]


@kernel
def table_of(keys, slots, numbers):
    """Fill free slots with keys, numbered in their order."""
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
    """Count a position's tag among the tags seen since the stamp was new."""
    tag = f.tags[position]
    if stamps[tag] != stamp:
        stamps[tag] = stamp
        seen[count] = tag
        count += 1
    return count


@kernel
def arc_scores(f, a, n, w, values):
    """values (n, n + 1) = the sum of the weights of each arc's features; 0 for a token as its own head."""
    S, T = f.head.shape[1] - f.between.shape[1], f.head.shape[1]
    hashed, mask = len(f.slots) == 0, f.mask
    seen, stamps, stamp = np.empty(len(f.between) + 1, np.int64), np.zeros(len(f.between) + 1, np.int64), 0
    for h in range(n + 1):
        if h > 0:
            values[h - 1, h] = 0.0
        for side in range(2):
            step = 1 - 2 * side
            stamp += 1
            count = 0
            m = h + step
            while 1 <= m <= n:
                r = _reach(f, (m - h) * step, side)
                total, other = 0.0, 0.0
                if hashed:
                    t = 0
                    while t + 1 < S:
                        total += w[(f.head[a + h, t] + f.modifier[a + m, t] + f.reach[r, t]) & mask]
                        other += w[(f.head[a + h, t + 1] + f.modifier[a + m, t + 1] + f.reach[r, t + 1]) & mask]
                        t += 2
                    if t < S:
                        total += w[(f.head[a + h, t] + f.modifier[a + m, t] + f.reach[r, t]) & mask]
                    for t in range(S, T):
                        key = f.head[a + h, t] + f.modifier[a + m, t] + f.reach[r, t]
                        for s in range(count):
                            other += w[(key + f.between[seen[s], t - S]) & mask]
                else:
                    for t in range(S):
                        j = _number(f, f.head[a + h, t] + f.modifier[a + m, t] + f.reach[r, t])
                        if j >= 0:
                            total += w[j]
                    for t in range(S, T):
                        key = f.head[a + h, t] + f.modifier[a + m, t] + f.reach[r, t]
                        for s in range(count):
                            j = _number(f, key + f.between[seen[s], t - S])
                            if j >= 0:
                                other += w[j]
                values[m - 1, h] = total + other
                if T > S:
                    count = _see(f, a + m, seen, count, stamps, stamp)
                m += step


@kernel
def list_arcs(f, a, n, values, index, shares):
    """Number and value of each feature of each arc whose value is not 0, into index and shares (room for all); how many there are."""
    S, T = f.head.shape[1] - f.between.shape[1], f.head.shape[1]
    seen, stamps, stamp, found = np.empty(len(f.between) + 1, np.int64), np.zeros(len(f.between) + 1, np.int64), 0, 0
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
                            j = _number(f, key if t < S else key + f.between[seen[s], t - S])
                            if j >= 0:
                                index[found] = j
                                shares[found] = values[m - 1, h]
                                found += 1
                if T > S:
                    count = _see(f, a + m, seen, count, stamps, stamp)
    return found


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
                            j = _number(f, key if t < S else key + f.between[seen[s], t - S])
                            if j >= 0:
                                w[j] += values[m - 1, h]
                if T > S:
                    count = _see(f, a + m, seen, count, stamps, stamp)
                m += step


@kernel
def weigh_arcs(f, a, n, values, w):
    """Where values is not 0, put the sum of the weights of the arc's features."""
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
                            j = _number(f, key if t < S else key + f.between[seen[s], t - S])
                            if j >= 0:
                                total += w[j]
                    values[m - 1, h] = total
                if T > S:
                    count = _see(f, a + m, seen, count, stamps, stamp)
                m += step


@kernel
def squared_length(index, shares, found, scratch):
    """||v||^2 of v (d,), the sum of shares[e] at index[e] over e < found; scratch (d,) is 0 before and after."""
    for e in range(found):
        scratch[index[e]] += shares[e]
    total = 0.0
    for e in range(found):
        total += shares[e] * scratch[index[e]]
    for e in range(found):
        scratch[index[e]] = 0.0
    return total
