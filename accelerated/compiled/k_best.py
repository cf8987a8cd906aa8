"""Linear chains: the k best labellings by recursive enumeration, and max-marginals.

Max-product once; then each further labelling costs one walk down the one before it. To find the next best of what ends in a
label, replace what the last one came from by its own next best, and take the best of L candidates again (Jimenez and Marzal's
recursive enumeration). Sums are the reference's, in the same order, so ties fall alike: the smaller label from the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.chains import longest
from accelerated.compiled.sweeps import fill, largest, load, max_plus_product, padded
from accelerated.kernel import inlined, kernel

__all__ = ["KBestWork", "k_best", "k_best_workspace", "max_marginals_range", "top_k_range"]

EPSILON = 2.0**-52


class KBestWork(NamedTuple):
    """Room for k labellings of a chain of n positions, to be used again for any other: `k_best_workspace`.

    A visited node (a label at a position; number 0 is the end of the chain) has the next candidate from each label before it and
    the entries chosen so far, best first.
    """

    messages: np.ndarray  # (n, Lp) best score of what ends in each label
    best: np.ndarray  # (n, Lp) the same without the label's own score
    node: np.ndarray  # (n, Lp) number of the visited node, or -1
    home: np.ndarray  # (S,) position * Lp + label of each node
    candidates: np.ndarray  # (S, Lp)
    found: np.ndarray  # (S,) number of entries
    value: np.ndarray  # (S, k) score of each entry, -inf when no more come
    label: np.ndarray  # (S, k) label before
    rank: np.ndarray  # (S, k) and which of the entries there
    walk: np.ndarray  # (n + 1,) nodes that wait for an entry below


@kernel
def k_best_workspace(n, L, k):
    """Room for chains of up to n positions and L labels, and up to k labellings."""
    Lp = padded(L)
    nodes = 1 + min(k - 1, L) * max(n - 1, 0)  # each labelling but the last is walked down once
    return KBestWork(
        np.empty((n, Lp)),
        np.empty((n, Lp)),
        np.full((n, Lp), -1),
        np.empty(nodes, np.int64),
        np.empty((nodes, Lp)),
        np.empty(nodes, np.int64),
        np.empty((nodes, k)),
        np.empty((nodes, k), np.int64),
        np.empty((nodes, k), np.int64),
        np.empty(n + 1, np.int64),
    )


@kernel
def k_best(scores, n, pairwise, first, stride, matrix, k, mu, values, labels, work):
    """(count, whether they are certified): values[:count] from high to low, labels[:count, :n] theirs. scores stay as they are.

    scores (>= n, Lp), padded with -inf; pairwise, first, stride and matrix as for `max_product`; values (>= k,) and labels (>= k, >= n)
    are written up to count only; work from `k_best_workspace`, for at least n, L and k.

    Certified: the values smoothed by squared l2 norm at mu > 0 are those of all labellings, because the next would get weight 0
    (Pillutla et al., Proposition 4: mu <= sum_{i <= count} (values[i] - next)), or because there are no more. With mu > 0 enumeration
    stops there, so count is k only where it takes all of k, and they may not be enough. With mu = 0 it stops at k, certified if there
    are fewer. Whether there are more than k is not looked up: exactly k come uncertified.
    """
    if n == 0:
        values[0] = 0.0
        return 1, True
    _forward(scores, n, pairwise, first, stride, matrix, work)
    count, nodes, certified = _enumerate(scores, n, pairwise, first, stride, k, mu, values, labels, work)
    for s in range(1, nodes):
        work.node[work.home[s] // scores.shape[1], work.home[s] % scores.shape[1]] = -1
    return count, certified


@kernel
def _forward(scores, n, pairwise, first, stride, matrix, work):
    """messages and best, by the steps of `max_product`."""
    messages, best, L = work.messages, work.best, pairwise.shape[1]
    for j in range(scores.shape[1]):
        messages[0, j] = scores[0, j]
    for t in range(1, n):
        if stride != 0:
            load(pairwise[first + (t - 1) * stride], 1.0, matrix)
        max_plus_product(messages, t - 1, matrix, L, best, t)
        for j in range(scores.shape[1]):
            messages[t, j] = best[t, j] + scores[t, j]


@kernel
def _enumerate(scores, n, pairwise, first, stride, k, mu, values, labels, work):
    """(count, number of nodes visited, certified)."""
    candidates, label, rank = work.candidates, work.label, work.rank
    nodes = 1
    work.found[0] = 0
    for j in range(scores.shape[1]):
        candidates[0, j] = work.messages[n - 1, j]
    gap = 0.0  # sum_{i < count} (values[i] - value)
    for count in range(k):
        if count > 0:
            _next_best(scores, n, pairwise, first, stride, work)
        _choose(work, 0, 0.0)
        value = work.value[0, count]
        if value == -np.inf:
            return count, nodes, True
        if count > 0:
            gap += count * (values[count - 1] - value)
            if mu > 0.0 and gap - EPSILON * (count + 2) * (gap + abs(values[0]) + abs(value)) >= mu:
                return count, nodes, True
        values[count] = value
        nodes = _trace(
            n, pairwise, first, stride, label[0, count], rank[0, count], count < k - 1, count, labels, nodes, work
        )
    return k, nodes, False


@inlined
def _choose(work, s, own):
    """Append the best candidate of node s, whose label scores ``own``: the first of the largest, and how many came from there before."""
    candidates, label = work.candidates, work.label
    count = work.found[s]
    top = largest(candidates, s)
    i = _first(candidates, s, top)
    before = 0
    for e in range(count):
        if label[s, e] == i:
            before += 1
    work.value[s, count] = own + top
    label[s, count] = i
    work.rank[s, count] = before
    work.found[s] = count + 1


@inlined
def _first(x, s, value):
    """The first i with x[s, i] == value, or the last i."""
    last = x.shape[1] - 1
    for i in range(last):
        if x[s, i] == value:
            return i
    return last


@kernel
def _next_best(scores, n, pairwise, first, stride, work):
    """Replace in the candidates of the end what its last entry came from by the next best there."""
    node, candidates, found = work.node, work.candidates, work.found
    label, rank, walk, Lp = work.label, work.rank, work.walk, scores.shape[1]
    s, t = 0, n  # down: while an entry is wanted that is not there
    while True:
        walk[t] = s
        j, r = label[s, found[s] - 1], rank[s, found[s] - 1] + 1
        t -= 1
        if t == 0:  # the first position has one entry a label
            x = -np.inf
            break
        s = node[t, j]
        if found[s] > r:
            x = work.value[s, r]
            break
    for u in range(t + 1, n):  # up: each gets its candidate, and chooses
        s = walk[u]
        i, j = label[s, found[s] - 1], work.home[s] - u * Lp
        candidates[s, i] = x + pairwise[first + (u - 1) * stride, i, j]
        _choose(work, s, scores[u, j])
        x = work.value[s, found[s] - 1]
    candidates[0, label[0, found[0] - 1]] = x


@kernel
def _trace(n, pairwise, first, stride, j, r, visit, row, labels, nodes, work):
    """labels[row, :n] of entry r in label j at n - 1; the number of nodes, after visiting those on the way if that is asked."""
    node, best, messages, candidates = work.node, work.best, work.messages, work.candidates
    L = pairwise.shape[1]
    for t in range(n - 1, 0, -1):
        labels[row, t] = j
        e, s = first + (t - 1) * stride, node[t, j]
        if s < 0 and visit:
            s, nodes = nodes, nodes + 1
            node[t, j] = s
            work.home[s] = t * messages.shape[1] + j
            fill(-np.inf, candidates, s)
            for i in range(L):
                candidates[s, i] = messages[t - 1, i] + pairwise[e, i, j]
            work.found[s] = 1
            work.value[s, 0] = messages[t, j]
            work.label[s, 0] = _first(candidates, s, best[t, j])
            work.rank[s, 0] = 0
        if s >= 0:
            j, r = work.label[s, r], work.rank[s, r]
        else:
            j, r = _before(messages, t - 1, pairwise, e, j, best[t, j]), 0
    labels[row, 0] = j
    return nodes


@inlined
def _before(messages, t, pairwise, e, j, best):
    """First i with messages[t, i] + pairwise[e, i, j] == best."""
    last = pairwise.shape[1] - 1
    for i in range(last):
        if messages[t, i] + pairwise[e, i, j] == best:
            return i
    return last


# Drivers over chains lo .. hi - 1, laid out as for the drivers in `chains`


@kernel
def top_k_range(lo, hi, unary, pairwise, start, length, edge_start, edge_stride, values, labels):
    """values (B, k) and labels (B, k, n) of the k best outputs, written up to each chain's number of outputs and length."""
    L, k = unary.shape[1], values.shape[1]
    n, Lp = longest(lo, hi, length), padded(L)
    work, scores, matrix = k_best_workspace(n, L, k), np.empty((n, Lp)), np.empty((Lp, Lp))
    if edge_stride == 0:
        load(pairwise[0], 1.0, matrix)
    for b in range(lo, hi):
        n = length[b]
        load(unary[start[b] : start[b] + n], 1.0, scores[:n])
        k_best(scores, n, pairwise, edge_start[b], edge_stride, matrix, k, 0.0, values[b], labels[b], work)


@kernel
def max_marginals_range(lo, hi, unary, pairwise, start, length, edge_start, edge_stride, nodes, edges):
    """nodes (N, L) and edges (B, n - 1, L, L): the best score with each part, written up to each chain's length."""
    L = unary.shape[1]
    n, Lp = longest(lo, hi, length), padded(L)
    forward, backward, ahead = np.empty((n, Lp)), np.empty((n, Lp)), np.empty((n, Lp))
    matrix, transposed = np.empty((Lp, Lp)), np.empty((Lp, Lp))
    if edge_stride == 0:
        _load_both(pairwise[0], matrix, transposed)
    for b in range(lo, hi):
        n = length[b]
        load(unary[start[b] : start[b] + n], 1.0, ahead[:n])
        for t in range(n):
            if t == 0:
                fill(0.0, forward, t)
            else:
                if edge_stride != 0:
                    _load_both(pairwise[edge_start[b] + t - 1], matrix, transposed)
                max_plus_product(forward, t - 1, matrix, L, forward, t)
            for j in range(Lp):
                forward[t, j] = ahead[t, j] + forward[t, j]
        for t in range(n - 1, -1, -1):
            if t == n - 1:
                fill(0.0, backward, t)
            for j in range(L):
                nodes[start[b] + t, j] = forward[t, j] + backward[t, j]
            if t > 0:
                e = edge_start[b] + (t - 1) * edge_stride
                if edge_stride != 0:
                    _load_both(pairwise[e], matrix, transposed)
                for j in range(Lp):
                    ahead[t, j] += backward[t, j]
                max_plus_product(ahead, t, transposed, L, backward, t - 1)
                for i in range(L):
                    for j in range(L):
                        edges[b, t - 1, i, j] = forward[t - 1, i] + (pairwise[e, i, j] + ahead[t, j])


@kernel
def _load_both(pairwise, matrix, transposed):
    """matrix (Lp, Lp) = pairwise (L, L) and its transpose, padded with -inf."""
    load(pairwise, 1.0, matrix)
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            transposed[i, j] = matrix[j, i]
