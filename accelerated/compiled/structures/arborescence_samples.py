"""Dependency trees drawn at random, arc by arc along loop-erased walks; samples whose arcs agree so far share the work.

The probability that a walk meets the tree before its own branch comes from an elimination without subtractions, with
plain weights, each row divided by its largest. As in `arborescence_sum`, weights below e^-400 are lost: where too much
may be lost, the step is done with logarithms.
"""

from __future__ import annotations

import numpy as np

from accelerated.compiled.arithmetic import exp
from accelerated.compiled.copies import copy_to, largest_entry
from accelerated.compiled.reductions import plus
from accelerated.compiled.structures.arborescence_sum import is_certain, sum_over_trees
from accelerated.compiled.structures.chain_samples import cumulate, reached
from accelerated.compiled.sweeps import padded
from accelerated.kernel import kernel

__all__ = ["sample_trees"]

NO_MORE = 1e-13  # marginals up to this may be rounding
TREE, BRANCH, FREE = 0, 1, 2  # states of tokens: the tree has one, the branch one, and free tokens FREE, FREE + 1, ...


@kernel
def sample_trees(values, mu, single_root, uniforms, heads):
    """mu log Z; heads (size, n), -1 before, become draws by the numbers uniforms (size, n + 1) in [0, 1]. values (n,
    n + 1), C order. -inf: there is no tree; nan: a score is nan or +inf.
    """
    n, draws = values.shape[0], len(heads)
    value, marginals = sum_over_trees(values, mu, single_root)
    if not value > -np.inf or n == 0 or draws == 0:
        return value
    log_w, w = np.empty((n, n + 1)), np.empty((n, n + 1))
    _weights(values, mu, single_root, log_w, w)
    order, first, chosen = np.arange(draws), np.zeros(draws, np.int64), np.empty(draws, np.int64)
    groups, waiting = np.empty((draws, 2), np.int64), 0  # draws order[lo:hi] have the same arcs
    rows, rates, state = np.empty((2, padded(n + 1))), np.empty((n + 2, n + 2)), np.empty(n + 1, np.int64)
    if single_root:
        for h in range(n + 1):
            rows[1, h] = marginals[h - 1, 0] if h > 0 and marginals[h - 1, 0] > NO_MORE else 0.0
        cumulate(rows, n + 1)
        for s in range(draws):
            chosen[s] = reached(rows, n + 1, uniforms[s, 0])
            heads[s, chosen[s] - 1] = 0
        waiting = _grouped(order, 0, draws, chosen, groups, waiting)
    else:
        groups[0], waiting = (0, draws), 1
    while waiting:
        waiting -= 1
        lo, hi = groups[waiting]
        last, states = _place(heads[order[lo]], first[order[lo]], state)
        if last == 0:
            continue
        if not _by_weights(w, last, state, states, rates, rows):
            _by_logarithms(log_w, last, state, states, rates, rows)
        cumulate(rows, n + 1)
        start = last if first[order[lo]] == 0 else first[order[lo]]
        for r in range(lo, hi):
            s = order[r]
            chosen[s] = reached(rows, n + 1, uniforms[s, last])
            heads[s, last - 1] = chosen[s]
            first[s] = start if state[chosen[s]] >= FREE else 0
        waiting = _grouped(order, lo, hi, chosen, groups, waiting)
    return value


@kernel
def _weights(values, mu, single_root, log_w, w):
    """log_w = values / mu less its row's largest; w = exp(log_w) over its row's sum. No token is its own head; with a
    single root, the root is none.
    """
    for m in range(len(values)):
        copy_to(values[m], log_w[m])
        log_w[m, m + 1] = -np.inf
        log_w[m, 0] = -np.inf if single_root else log_w[m, 0]
        top = log_w[m].max()
        for h in range(log_w.shape[1]):
            log_w[m, h] = (log_w[m, h] - top) / mu if top > -np.inf else top
            w[m, h] = exp(log_w[m, h])
        w[m] /= max(w[m].sum(), 1.0)


@kernel
def _grouped(order, lo, hi, chosen, groups, waiting):
    """Sort the draws order[lo:hi] by their chosen head, and add a group for each head. Returns the number of groups."""
    draws = order[lo:hi].copy()
    copy_to(draws[np.argsort(chosen[draws])], order[lo:])
    for r in range(lo, hi):
        if r == lo or chosen[order[r]] != chosen[order[r - 1]]:
            groups[waiting, 0] = r
            waiting += 1
        groups[waiting - 1, 1] = r + 1
    return waiting


@kernel
def _place(heads, first, state):
    """The last token of the branch that begins with ``first``, of a new one if that is 0, or 0 if all tokens have
    heads; and the number of states. state (n + 1,): of each token and the root.
    """
    for h in range(len(state)):
        state[h] = TREE if h == 0 or heads[h - 1] >= 0 else FREE
        first = h if first == 0 and state[h] == FREE else first
    last, states = first, FREE
    while first > 0:
        state[first], last = BRANCH, first
        first = max(heads[first - 1], 0)
    for h in range(len(state)):
        if state[h] == FREE:
            state[h] = states
            states += 1
    return last, states


@kernel
def _by_weights(w, last, state, states, rates, rows):
    """rows[1] becomes the weights of the heads of token ``last``: w times the probability that the walk from the head
    meets the tree before the branch. Whether no more is lost than rounding.
    """
    n, share = len(w), 1.0
    rates[:states, :states] = 0.0
    for m in range(n):
        if state[m + 1] >= FREE:
            for h in range(n + 1):
                rates[state[m + 1], state[h]] += w[m, h]
    for k in range(states - 1, FREE - 1, -1):
        pivot = rates[k, :k].sum()
        share *= pivot
        if not share > 0.0:
            return False
        for j in range(k):
            rates[k, j] /= pivot
        for i in range(FREE, k):
            x = rates[i, k]
            for j in range(k):
                rates[i, j] += x * rates[k, j]
            rates[i, i] = 0.0  # a loop is no part of a tree
    rates[TREE, 0] = 1.0
    for k in range(FREE, states):  # rates[:, 0] becomes the probability of the tree
        for j in range(FREE, k):
            rates[k, 0] = plus(rates[k, 0], rates[k, j] * rates[j, 0])
    for h in range(n + 1):
        rows[1, h] = w[last - 1, h] * rates[state[h], 0]
    return is_certain(share * rows[1, : n + 1].sum(), n)


@kernel
def _by_logarithms(log_w, last, state, states, rates, rows):
    """rows[1] as `_by_weights`, over its largest; the token with the largest rate of leaving is eliminated first."""
    n, f, order = len(log_w), states - FREE, np.arange(states)
    copy_to(np.arange(FREE, states), order)
    order[f], order[f + 1] = TREE, BRANCH
    rates[:states, :states] = -np.inf
    for m in range(n):
        if state[m + 1] >= FREE:
            for h in range(n + 1):
                i, j = state[m + 1], state[h]
                rates[i, j] = _log_plus(rates[i, j], log_w[m, h])
    for t in range(f):
        place, rate = t, -np.inf
        for r in range(t, f):
            leaving = -np.inf
            for s in range(t, states):
                leaving = _log_plus(leaving, rates[order[r], order[s]])
            if leaving > rate:
                place, rate = r, leaving
        k = order[place]
        for r in range(place, t, -1):
            order[r] = order[r - 1]
        order[t] = k
        for s in range(t + 1, states):
            rates[k, order[s]] -= rate
        for r in range(t + 1, f):
            i = order[r]
            for s in range(t + 1, states):
                j = order[s]
                if j != i and rates[i, k] > -np.inf:
                    rates[i, j] = _log_plus(rates[i, j], rates[i, k] + rates[k, j])
    rates[TREE, 0] = 0.0
    for t in range(f - 1, -1, -1):  # rates[:, 0] becomes the log probability of the tree
        for s in range(t + 1, f):
            k, j = order[t], order[s]
            rates[k, 0] = _log_plus(rates[k, 0], rates[k, j] + rates[j, 0])
    for h in range(n + 1):
        rows[0, h] = log_w[last - 1, h] + rates[state[h], 0]
    most = largest_entry(rows[0, : n + 1])
    for h in range(n + 1):
        rows[1, h] = np.exp(rows[0, h] - most)


@kernel
def _log_plus(x, y):
    """log(exp(x) + exp(y))."""
    top, low = (x, y) if x > y else (y, x)
    return top + np.log1p(np.exp(low - top)) if low > -np.inf else top
