"""Linear chains: the k best labellings by recursive enumeration, and max-marginals.

Max-product runs once; then each further labelling costs one walk down the labelling before it. To find the next best
path that ends in a label, replace the predecessor of the last one by the predecessor's own next best, and take the best
of L candidates again (Jimenez and Marzal's recursive enumeration). Sums are the reference's, in the same order, so ties
fall alike: the smaller label from the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.structures.chain import longest, predecessor
from accelerated.compiled.sweeps import fill, largest, load, max_plus_product, padded
from accelerated.kernel import inlined, kernel

__all__ = ["KBestWork", "k_best", "k_best_workspace", "max_marginals_range", "top_k_range"]

EPSILON = 2.0**-52


class KBestWork(NamedTuple):
    """Room for k labellings of a chain of n positions, reusable for any other chain: `k_best_workspace`.

    A visited node (a label at a position; number 0 is the end of the chain) has the next candidate from each label
    before it, and a list of entries, the best first: the candidates chosen so far.
    """

    messages: np.ndarray  # (n, Lp) best score of what ends in each label
    best: np.ndarray  # (n, Lp) the same without the label's own score
    node: np.ndarray  # (n, Lp) number of the visited node, or -1
    candidates: np.ndarray  # (S, Lp)
    origin: np.ndarray  # (S, Lp) entry of the label before that each candidate extends, or FIRST
    nodes: np.ndarray  # (S, 3) position * Lp + label of each node (HOME), its first entry and its last (FRONT, FINAL)
    value: np.ndarray  # (E,) score of each entry, -inf when no more come
    links: (
        np.ndarray
    )  # (E, 3) LABEL before, its entry there or FIRST (BACK), the next entry of the same node or -1 (AFTER)
    walk: np.ndarray  # (n + 1,) nodes that wait for an entry below


FIRST = -1  # the first entry of a node, which may not have been visited
HOME, FRONT, FINAL = 0, 1, 2
LABEL, BACK, AFTER = 0, 1, 2


@kernel
def k_best_workspace(n, L, k):
    """Room for chains of up to n positions and L labels, and up to k labellings."""
    Lp = padded(L)
    nodes = 1 + min(k - 1, L) * max(n - 1, 0)  # each labelling but the last is traced once
    entries = nodes + k * max(n, 1)
    node = np.empty((n, Lp), np.int64)
    for t in range(n):
        for j in range(Lp):
            node[t, j] = -1
    return KBestWork(
        np.empty((n, Lp)),
        np.empty((n, Lp)),
        node,
        np.empty((nodes, Lp)),
        np.empty((nodes, Lp), np.int64),
        np.empty((nodes, 3), np.int64),
        np.empty(entries),
        np.empty((entries, 3), np.int64),
        np.empty(n + 1, np.int64),
    )


@kernel
def k_best(scores, n, pairwise, first, stride, matrix, mu, values, labels, work):
    """Returns (count, certified); k = len(values). values[:count] become the scores in decreasing order, and
    labels[:count, :n] their labellings; scores stay unchanged.

    scores (>= n, Lp), padded with -inf; pairwise, first, stride and matrix as for `max_product`; values (k,) and labels
    (k, >= n) are written up to count only; work from `k_best_workspace`, for at least n, L and k.

    Certified: the max smoothed by squared l2 at mu > 0 over these is that over all labellings, because the next one
    would get weight 0 (Pillutla et al., Proposition 4: mu <= sum_{i <= count} (values[i] - next), less a bound on
    rounding), or because there are no more. With mu > 0 enumeration stops when certified; with mu = 0 at k labellings,
    or certified if there are fewer. At count = k the next one is unknown: the result is never certified, even if there
    is none.

    Where a score is nan, or +inf meets a forbidden transition, the best value is nan or inf, and never certified.
    """
    if n == 0:
        values[0] = 0.0
        return 1, True
    sound = _forward(scores, n, pairwise, first, stride, matrix, work)
    count, nodes, certified = _enumerate(scores, n, pairwise, first, stride, mu, sound, values, labels, work)
    for s in range(1, nodes):
        home = work.nodes[s, HOME]
        work.node[home // scores.shape[1], home % scores.shape[1]] = -1
    return count, certified


@inlined
def _forward(scores, n, pairwise, first, stride, matrix, work):
    """messages and best, by the steps of `max_product`. Returns whether they can be used: no transition or message is
    nan or +inf.
    """
    messages, best, L, sound = work.messages, work.best, pairwise.shape[1], True
    for j in range(scores.shape[1]):
        messages[0, j] = scores[0, j]
        sound &= messages[0, j] < np.inf
    for t in range(1, n):
        if stride != 0:
            load(pairwise[first + (t - 1) * stride], 1.0, matrix)
        if stride != 0 or t == 1:
            for i in range(L):
                for j in range(matrix.shape[1]):
                    sound &= matrix[i, j] < np.inf
        max_plus_product(messages, t - 1, matrix, L, best, t)
        for j in range(scores.shape[1]):
            messages[t, j] = best[t, j] + scores[t, j]
            sound &= messages[t, j] < np.inf
    return sound


@inlined
def _enumerate(scores, n, pairwise, first, stride, mu, sound, values, labels, work):
    """Returns (count, number of nodes visited, certified). sound: the result of `_forward`."""
    k = len(values)
    candidates, origin, ends, value, links = work.candidates, work.origin, work.nodes, work.value, work.links
    for j in range(scores.shape[1]):
        candidates[0, j] = work.messages[n - 1, j]
        origin[0, j] = FIRST
    end, nodes, entries = np.int64(0), np.int64(1), np.int64(1)  # typed: constants would be compiled apart
    _choose(candidates, origin, ends, value, links, end, end, 0.0, pairwise.shape[1] - 1)
    ends[0, FRONT] = 0
    gap = 0.0  # sum_{i < count} (values[i] - score)
    for count in range(k):
        if count > 0:
            entries = _next_best(scores, n, pairwise, first, stride, entries, work)
        entry = ends[0, FINAL]
        score = value[entry]
        broken = count == 0 and not sound and score != np.inf
        if not (broken or score > -np.inf):
            return count, nodes, score == -np.inf
        if count > 0 and mu > 0.0:
            gap += count * (values[count - 1] - score)
            largest_score = max(abs(values[0]), abs(values[count - 1]))
            if gap * (1.0 - EPSILON * (count + 2)) - EPSILON * count * largest_score >= mu:
                return count, nodes, True
        values[count] = np.nan if broken else score
        more = count < k - 1 and not broken
        nodes, entries = _trace(n, pairwise, first, stride, entry, more, labels[count], nodes, entries, work)
        if broken:
            return 1, nodes, False
    return k, nodes, False


@inlined
def _choose(candidates, origin, nodes, value, links, s, entry, own, last):
    """Append the best candidate of node s, whose label scores ``own``, as its last entry: the first of the largest."""
    top = largest(candidates, s)
    i = _first(candidates, s, top, last)
    value[entry] = own + top
    links[entry, LABEL], links[entry, BACK], links[entry, AFTER] = i, origin[s, i], -1
    nodes[s, FINAL] = entry


@inlined
def _first(x, s, value, last):
    """The first i <= last with x[s, i] == value; last if there is none (nan). Without a branch, as the place is
    unpredictable.
    """
    first = last
    for i in range(x.shape[1]):
        first = min(first, i if x[s, i] == value else last)
    return first


@inlined
def _next_best(scores, n, pairwise, first, stride, entries, work):
    """Append the next entry of the end, with all entries that it needs below. Returns the number of entries then."""
    node, candidates, origin, walk = work.node, work.candidates, work.origin, work.walk
    nodes, value, links, Lp = work.nodes, work.value, work.links, scores.shape[1]
    s, entry, t = 0, nodes[0, FINAL], n  # down: what comes after this, the last entry of node s?
    while True:
        walk[t] = s
        j, wanted = links[entry, LABEL], links[entry, BACK]
        t -= 1
        if t == 0:  # the first position has one entry a label
            entry, x = FIRST, -np.inf
            break
        s = node[t, j]
        if wanted == FIRST:
            wanted = nodes[s, FRONT]
        entry = links[wanted, AFTER]
        if entry >= 0:
            x = value[entry]
            break
        entry = wanted
    for u in range(t + 1, n + 1):  # up: each node gets its candidate, and chooses
        s = walk[u]
        previous = nodes[s, FINAL]
        i = links[previous, LABEL]
        if u < n:
            j = nodes[s, HOME] - u * Lp
            candidates[s, i], own = x + pairwise[first + (u - 1) * stride, i, j], scores[u, j]
        else:
            candidates[s, i], own = x, 0.0
        origin[s, i] = entry
        entry, entries = entries, entries + 1
        _choose(candidates, origin, nodes, value, links, s, entry, own, pairwise.shape[1] - 1)
        links[previous, AFTER] = entry
        x = value[entry]
    return entries


@inlined
def _trace(n, pairwise, first, stride, entry, visit, labels, visited, entries, work):
    """labels[:n] of an entry of the end. Unvisited nodes on the way are visited if ``visit``. Returns the numbers of
    nodes and entries then.
    """
    node, best, messages, candidates = work.node, work.best, work.messages, work.candidates
    nodes, origin, value, links = work.nodes, work.origin, work.value, work.links
    L, Lp = pairwise.shape[1], messages.shape[1]
    j, entry = links[entry, LABEL], links[entry, BACK]
    for t in range(n - 1, 0, -1):
        labels[t] = j
        e, s = first + (t - 1) * stride, node[t, j]
        if s < 0 and visit:
            s, visited = visited, visited + 1
            entry, entries = entries, entries + 1
            node[t, j] = s
            for i in range(L):
                candidates[s, i] = messages[t - 1, i] + pairwise[e, i, j]
            for i in range(L, Lp):
                candidates[s, i] = -np.inf
            for i in range(Lp):
                origin[s, i] = FIRST
            value[entry] = messages[t, j]
            before = _first(candidates, s, best[t, j], L - 1)
            links[entry, LABEL], links[entry, BACK], links[entry, AFTER] = before, FIRST, -1
            nodes[s, HOME], nodes[s, FRONT], nodes[s, FINAL] = t * Lp + j, entry, entry
        if s >= 0:
            if entry == FIRST:
                entry = nodes[s, FRONT]
            j, entry = links[entry, LABEL], links[entry, BACK]
        else:
            j = predecessor(messages, t - 1, pairwise, e, j, best[t, j])
    labels[0] = j
    return visited, entries


# Drivers over chains lo .. hi - 1, laid out as for the drivers in `chain`


@kernel
def top_k_range(lo, hi, chains, values, labels):
    """values (B, k) and labels (B, k, n) of the k best outputs, written up to each chain's number of outputs and
    length.
    """
    unary, pairwise, start, length, edge_start, edge_stride = chains
    L, k = unary.shape[1], values.shape[1]
    n, Lp = longest(lo, hi, length), padded(L)
    work, scores, matrix = k_best_workspace(n, L, k), np.empty((n, Lp)), np.empty((Lp, Lp))
    if edge_stride == 0:
        load(pairwise[0], 1.0, matrix)
    for b in range(lo, hi):
        n = length[b]
        load(unary[start[b] : start[b] + n], 1.0, scores[:n])
        k_best(scores, n, pairwise, edge_start[b], edge_stride, matrix, 0.0, values[b], labels[b], work)


@kernel
def max_marginals_range(lo, hi, chains, nodes, edges):
    """nodes (N, L) and edges (B, n - 1, L, L): the best score with each part, written up to each chain's length."""
    unary, pairwise, start, length, edge_start, edge_stride = chains
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
