"""Clique trees: messages between cliques, the best labelling, max-marginals and marginals of variables and edges.

The scores are one vector: first those of variables (p, L), then those of edges (e, L, L). Each state of a variable or
an edge is a part. mu = 0 stands for maxima, mu > 0 for log sums. Maxima equal the reference's to the last bit: sums are
added in the same order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.arithmetic import exp
from accelerated.compiled.reductions import plus
from accelerated.compiled.structures.clique_tables import (
    Walks,
    add_along,
    largest_along,
    largest_of,
    reduced,
    sums_along,
)
from accelerated.kernel import kernel

__all__ = ["Layout", "best_of_cliques", "counter", "parts_of_cliques", "room_of", "towards_the_root"]

ZERO, ONE = np.uint64(0), np.uint64(1)


class Layout(NamedTuple):
    """A clique tree of C cliques, parents before children, as offsets (uint64 where table entries are counted).

    Walk c is of clique c's table and its message to its parent, C + c of the parent's table and that message, 2 C + q
    of part q.
    """

    table: np.ndarray  # (C + 1,) uint64: clique c has the entries table[c] : table[c + 1]
    message: np.ndarray  # (C + 1,) uint64: the same of its message
    start: np.ndarray  # (C + 1,): its children are child[start[c] : start[c + 1]]
    child: np.ndarray  # (C - 1,)
    part: np.ndarray  # (C + 1,): it is home to the variables and edges part[c] : part[c + 1]
    where: np.ndarray  # (p + e,) uint64: whose scores begin there
    walks: Walks
    axis: np.ndarray  # (C + 1,): its variables are variable[axis[c] : axis[c + 1]]
    variable: np.ndarray
    size: np.ndarray  # uint64, states of each
    stride: np.ndarray  # uint64, in the clique's table


@kernel
def counter(layout):
    """Digits for a walk, or for the variables of a clique."""
    most = 1
    for c in range(len(layout.start) - 1):
        most = max(most, layout.axis[c + 1] - layout.axis[c])
    return np.zeros(most, np.uint64)


@kernel
def room_of(layout):
    """Room for the largest table, and for two of the longest message."""
    entries = longest = ZERO
    for c in range(len(layout.start) - 1):
        entries = max(entries, layout.table[c + 1] - layout.table[c])
        longest = max(longest, layout.message[c + 1] - layout.message[c])
    return np.empty(entries), np.empty(longest), np.empty(longest)


@kernel
def _fill(c, scores, mu, layout, digit, tables, first):
    """tables from ``first`` on become the sums of the scores that belong to clique c, divided by mu unless that is 0.
    Returns whether none is nan or +inf.
    """
    last = first + layout.table[c + 1] - layout.table[c]
    for i in range(first, last):
        tables[i] = 0.0
    for q in range(layout.part[c], layout.part[c + 1]):
        walk = 2 * (len(layout.start) - 1) + q
        add_along(walk, layout.walks, digit, scores, layout.where[q], tables, first, last)
    bad = 0
    for i in range(first, last):
        bad += not tables[i] < np.inf
    if mu > 0.0:
        for i in range(first, last):
            tables[i] /= mu
    return bad == 0


@kernel
def towards_the_root(scores, mu, layout, digit, room, places, inside, messages):
    """The value. From places[c] on, inside becomes c's table with all messages from its children; messages become those
    to parents, less their largest entries.
    """
    message, start, child, walks = layout.message, layout.start, layout.child, layout.walks
    C, value = len(layout.start) - 1, 0.0
    for c in range(C - 1, -1, -1):
        first = places[c]
        last = first + layout.table[c + 1] - layout.table[c]
        if not _fill(c, scores, mu, layout, digit, inside, first):
            return np.nan
        for j in range(start[c + 1] - 1, start[c] - 1, -1):
            d = child[j]
            add_along(C + d, walks, digit, messages, message[d], inside, first, last)
        top = reduced(mu, c, walks, digit, inside, first, last, messages[message[c] : message[c + 1]], room)
        if top == -np.inf:
            return top
        value += top
    return value


@kernel
def best_of_cliques(scores, layout, labels):
    """The highest score; labels (p,), -1 before, become those of a best labelling. -inf: there is none; nan: a score is
    nan.
    """
    digit, room = counter(layout), room_of(layout)
    inside, messages = np.empty(layout.table[-1]), np.empty(layout.message[-1])
    value = towards_the_root(scores, 0.0, layout, digit, room, layout.table, inside, messages)
    if value > -np.inf:
        _decode(layout, digit, inside, labels)
    return value


@kernel
def _decode(layout, digit, inside, labels):
    """The states of a best labelling, clique by clique from the root down; the first in the order of the table wins a
    tie.
    """
    size, stride, variable = layout.size, layout.stride, layout.variable
    free = np.empty(len(digit), np.int64)
    for c in range(len(layout.start) - 1):
        base, n, outer = layout.table[c], 0, ONE
        for a in range(layout.axis[c], layout.axis[c + 1]):
            v = variable[a]
            if labels[v] >= 0:
                base += np.uint64(labels[v]) * stride[a]
            else:
                free[n] = a
                n += 1
                outer *= size[a]
        if n == 0:
            continue
        inner, step = size[free[n - 1]], stride[free[n - 1]]
        outer //= inner
        best = -np.inf
        for a in range(n):
            labels[variable[free[a]]] = 0
        for _ in range(outer):
            for t in range(inner):
                if inside[base + t * step] > best:
                    best = inside[base + t * step]
                    for a in range(n - 1):
                        labels[variable[free[a]]] = digit[a]
                    labels[variable[free[n - 1]]] = t
            for a in range(n - 2, -1, -1):
                base += stride[free[a]]
                digit[a] += ONE
                if digit[a] < size[free[a]]:
                    break
                base -= size[free[a]] * stride[free[a]]
                digit[a] = 0


@kernel
def parts_of_cliques(scores, mu, layout, parts):
    """The value; and for each part the highest score of a labelling with it, or its probability if mu > 0.

    parts are all parts or those of variables alone, and come filled with -inf or 0, which stays for states that do not
    exist.
    """
    table, message, walks = layout.table, layout.message, layout.walks
    C, digit, room = len(layout.start) - 1, counter(layout), room_of(layout)
    belief, messages = np.empty(len(room[0])), np.empty(message[-1])
    value = towards_the_root(scores, mu, layout, digit, room, np.zeros_like(table), belief, messages)
    if not value > -np.inf:
        if np.isnan(value):
            parts[:] = np.nan
        return value
    above, later = np.empty(len(messages)), _later(layout)
    for c in range(C):
        n = table[c + 1] - table[c]
        _fill(c, scores, mu, layout, digit, belief, ZERO)
        if c > 0:
            add_along(c, walks, digit, above, message[c], belief, ZERO, n)
        _towards_the_children(c, mu, layout, digit, room, messages, above, later, belief)
        _normalise(mu, value, belief, n)
        for q in range(layout.part[c], layout.part[c + 1]):
            if layout.where[q] >= np.uint64(len(parts)):
                continue
            if mu > 0.0:
                sums_along(2 * C + q, walks, digit, belief, ZERO, n, parts, layout.where[q])
            else:
                largest_along(2 * C + q, walks, digit, belief, ZERO, n, parts, layout.where[q])
    return mu * value if mu > 0.0 else value


@kernel
def _later(layout):
    """Room for a table for each child of a clique except the last."""
    most = ZERO
    for c in range(len(layout.start) - 1):
        others = max(layout.start[c + 1] - layout.start[c] - 1, 0)
        most = max(most, np.uint64(others) * (layout.table[c + 1] - layout.table[c]))
    return np.empty(most)


@kernel
def _towards_the_children(c, mu, layout, digit, room, messages, above, later, belief):
    """Messages ``above`` of c's children: the reduction of everything that is not below them. belief: the table with
    the message from above; the children's messages are added.
    """
    C, message, walks, start, child = len(layout.start) - 1, layout.message, layout.walks, layout.start[c], layout.child
    n, m = layout.table[c + 1] - layout.table[c], layout.start[c + 1] - layout.start[c]
    for j in range(m - 2, -1, -1):  # rows of later: the sums of the messages of the children after each
        row, d = np.uint64(j) * n, child[start + j + 1]
        for i in range(n):
            later[row + i] = later[row + n + i] if j < m - 2 else 0.0
        add_along(C + d, walks, digit, messages, message[d], later, row, row + n)
    for j in range(m):
        d = child[start + j]
        mine = above[message[d] : message[d + 1]]
        if j < m - 1:
            row = np.uint64(j) * n
            for i in range(n):
                later[row + i] += belief[i]
            reduced(mu, C + d, walks, digit, later, row, row + n, mine, room)
        else:
            reduced(mu, C + d, walks, digit, belief, ZERO, n, mine, room)
        add_along(C + d, walks, digit, messages, message[d], belief, ZERO, n)


@kernel
def _normalise(mu, value, belief, n):
    """belief[:n], known up to a constant, becomes highest scores or, if mu > 0, probabilities."""
    top, total = largest_of(belief, ZERO, n, -np.inf), 0.0
    if mu > 0.0:
        for i in range(n):
            belief[i] = exp(belief[i] - top)
            total = plus(total, belief[i])
        for i in range(n):
            belief[i] /= total
    else:
        for i in range(n):
            belief[i] = value + (belief[i] - top)
