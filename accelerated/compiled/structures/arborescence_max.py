"""Best dependency trees in O(n^2). Each token takes its best head. Where these heads form cycles, paths of best heads
grow until they reach the root or a finished token; a path that returns to itself is contracted (Gabow, Galil, Spencer
and Tarjan 1986, on a dense matrix).

Arcs stay in place as tokens merge: row and column v of the matrix belong to the cycle that v stands for, and beside
each score is its arc, m * (n + 1) + h. The root arcs are stored apart from the matrix, whose column 0 is left to them:
with a single root they are a last resort.
"""

from __future__ import annotations

import numpy as np

from accelerated.compiled.copies import copy_to
from accelerated.compiled.structures.assignment import are_scores
from accelerated.compiled.sweeps import largest, padded
from accelerated.kernel import inlined, kernel

__all__ = ["best_heads", "best_parts", "best_range", "best_tree", "best_with_each_arc", "sentence_of", "tree_score"]

FRESH, ON_PATH, FINISHED, ABSORBED = 0, 1, 2, 3


@kernel
def best_range(lo, hi, values, lengths, single_root, value, heads):
    """value (B,), the highest scores, and heads (B, N) of sentences lo..hi - 1; -inf, or nan, and -1 without a tree."""
    for b in range(lo, hi):
        n = lengths[b]
        value[b], tree = best_tree(sentence_of(values, b, n), single_root)
        copy_to(tree, heads[b])


@kernel
def sentence_of(values, b, n):
    """The scores (n, n + 1) of sentence b of values (B, N, N + 1), float64."""
    own = np.empty((n, n + 1))
    for m in range(n):
        for h in range(n + 1):
            own[m, h] = values[b, m, h]
    return own


@kernel
def best_tree(values, single_root):
    """Value and heads (n,) of a best tree. Without a tree, the value is -inf; with a nan or +inf entry it is nan; then
    all heads are -1.
    """
    heads = np.empty(values.shape[0], np.int64)
    if not are_scores(values):
        value = np.nan
    elif best_heads(values, single_root, heads):
        return tree_score(values, heads), heads
    else:
        value = -np.inf
    heads[:] = -1
    return value, heads


@kernel
def best_heads(values, single_root, heads):
    """Whether there is a tree under values (n, n + 1), C order, without nan or +inf; if so, heads (n,) become those of
    a best one.
    """
    n = values.shape[0]
    if n == 0:
        return True
    a, root = np.empty((n + 1, padded(n + 1))), np.empty(n + 1)
    n_roots = 0
    for m in range(n):
        v = m + 1
        for j in range(n + 1):
            a[v, j] = values[m, j]
        for j in range(n + 1, a.shape[1]):
            a[v, j] = -np.inf
        root[v] = a[v, 0]
        a[v, 0] = a[v, v] = -np.inf
        top = largest(a, v)
        if root[v] >= top:
            if root[v] == -np.inf:
                return False
            heads[m] = 0
            n_roots += 1
        else:
            heads[m] = _first(a, v, top)
    if _is_tree(heads) and (n_roots == 1 or not single_root):
        return True
    return _grow(a, root, single_root, heads)


@kernel
def best_with_each_arc(values, single_root):
    """The best score (n, n + 1) of a tree with each arc; -inf if there is none."""
    n = values.shape[0]
    out, limited, heads = np.full((n, n + 1), -np.inf), values.copy(), np.empty(n, np.int64)
    if not best_heads(values, single_root, heads):
        return out
    value = tree_score(values, heads)
    for m in range(n):
        out[m, heads[m]] = value
    other = np.empty(n, np.int64)
    for m in range(n):
        limited[m, :] = -np.inf
        for h in range(n + 1):
            if h != heads[m] and h != m + 1 and values[m, h] > -np.inf:
                limited[m, h] = values[m, h]
                if best_heads(limited, single_root, other):
                    out[m, h] = tree_score(values, other)
                limited[m, h] = -np.inf
        copy_to(values[m], limited[m])
    return out


@kernel
def best_parts(limited, heads, fixed, single_root):
    """Best trees that first differ from ``heads`` at each token, none before ``fixed``: whether there is one (n,),
    scores, heads (n, n).
    """
    n = len(heads)
    limited = limited.copy()
    possible, scores, trees = np.zeros(n, np.bool_), np.empty(n), np.empty((n, n), np.int64)
    other = np.empty(n, np.int64)
    for m in range(n):
        kept = limited[m, heads[m]]
        if m >= fixed:
            limited[m, heads[m]] = -np.inf
            possible[m] = best_heads(limited, single_root, other)
            if possible[m]:
                scores[m] = tree_score(limited, other)
                copy_to(other, trees[m])
        limited[m, :] = -np.inf
        limited[m, heads[m]] = kept
    return possible, scores, trees


@kernel
def tree_score(values, heads):
    """The score of a tree, summed token after token."""
    total = 0.0
    for m in range(len(heads)):
        total += values[m, heads[m]]
    return total


@inlined
def _first(a, v, top):
    j = 0
    while a[v, j] != top:
        j += 1
    return j


@kernel
def _is_tree(heads):
    """Whether all heads lead to the root."""
    n = len(heads)
    walk = np.zeros(n + 1, np.int64)  # the walk that visited each token
    walk[0] = -1
    for start in range(1, n + 1):
        v = start
        while walk[v] == 0:
            walk[v] = start
            v = heads[v - 1]
        if walk[v] == start:
            return False
    return True


@kernel
def _grow(a, root, single_root, heads):
    """The rest of ``best_heads``; a (n + 1, Lp) and root (n + 1,), both indexed by the token, are overwritten."""
    n = len(heads)
    arc_of, root_arc = np.empty(a.shape, np.int64), np.empty(n + 1, np.int64)
    for v in range(1, n + 1):
        root_arc[v] = (v - 1) * (n + 1)
        for j in range(a.shape[1]):
            arc_of[v, j] = root_arc[v] + j
    status, gain, path = np.full(n + 1, FRESH), np.empty(n + 1), np.empty(n + 1, np.int64)
    # nodes of the forest of contractions: tokens are 1..n, cycles lie above n
    node, chosen, parent, nodes = np.arange(n + 1), np.empty(2 * n + 1, np.int64), np.zeros(2 * n + 1, np.int64), n + 1
    for start in range(1, n + 1):
        if status[start] != FRESH:
            continue
        v, depth = start, 1
        path[0], status[v] = v, ON_PATH
        while True:
            top = largest(a, v)
            if root[v] > -np.inf and ((top == -np.inf) if single_root else (root[v] >= top)):
                chosen[node[v]] = root_arc[v]
                break
            if top == -np.inf:
                return False
            j = _first(a, v, top)
            gain[v], chosen[node[v]] = top, arc_of[v, j]
            if status[j] == FINISHED:
                break
            if status[j] == FRESH:
                path[depth], status[j] = j, ON_PATH
                depth, v = depth + 1, j
                continue
            bottom = depth - 1
            while path[bottom] != j:
                bottom -= 1
            _contract(a, arc_of, root, root_arc, gain, status, path, bottom, depth)
            for i in range(bottom, depth):
                parent[node[path[i]]] = nodes
            node[j] = nodes
            nodes, depth, v = nodes + 1, bottom + 1, j
        for i in range(depth):
            status[path[i]] = FINISHED
    return _unwind(chosen, parent, nodes, single_root, heads)


@kernel
def _contract(a, arc_of, root, root_arc, gain, status, path, bottom, depth):
    """The tokens path[bottom:depth] become one, named by the first of them. The score of a head of this token is the
    gain over the arc that the head replaces.
    """
    r = path[bottom]
    lost = gain[r]
    for j in range(a.shape[1]):
        a[r, j] -= lost
    root[r] -= lost
    for b in range(bottom + 1, depth):
        c = path[b]
        lost = gain[c]
        status[c] = ABSORBED
        for j in range(a.shape[1]):
            x = a[c, j] - lost
            better = x > a[r, j]
            arc_of[r, j] = arc_of[c, j] if better else arc_of[r, j]
            a[r, j] = x if better else a[r, j]
        if root[c] - lost > root[r]:
            root[r], root_arc[r] = root[c] - lost, root_arc[c]
    for i in range(1, a.shape[0]):
        if status[i] == FRESH or status[i] == ON_PATH:
            best, arc = a[i, r], arc_of[i, r]
            for b in range(bottom + 1, depth):
                c = path[b]
                if a[i, c] > best:
                    best, arc = a[i, c], arc_of[i, c]
                a[i, c] = -np.inf
            a[i, r], arc_of[i, r] = best, arc
    a[r, r] = -np.inf


@kernel
def _unwind(chosen, parent, nodes, single_root, heads):
    """The heads, from the last cycle back to the first: a cycle's arc replaces the arcs of all nodes that contain its
    token. False if there is more than one root.
    """
    n, n_roots = len(heads), 0
    settled = np.zeros(nodes, np.bool_)
    for top in range(nodes - 1, 0, -1):
        if not settled[top]:
            v = chosen[top] // (n + 1) + 1
            heads[v - 1] = chosen[top] % (n + 1)
            n_roots += heads[v - 1] == 0
            settled[top] = True
            while v != top:
                settled[v] = True
                v = parent[v]
    return n_roots == 1 or not single_root
