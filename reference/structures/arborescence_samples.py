"""Dependency trees drawn from their Gibbs distribution: the steps of loop-erased random walks.

A random walk over tokens moves to head h with probability proportional to exp(score / mu). The walk ends when it meets
the tree built so far; its loop-erased path is the next branch of the tree (Wilson 1996). A simulated walk may take
arbitrarily long, so the steps of the loop-erased path are drawn directly. Their distribution follows from the
probability that a walk reaches the tree before the branch; elimination computes it without subtractions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reference.arrays import Array, Place, host, logsumexp
from reference.structures.arborescence_max import ArborescenceScores, sentences
from reference.structures.sampling import choose

__all__ = ["sample"]


class Step(NamedTuple):
    """A state eliminated from a Markov chain, with the states that remained.

    targets, log_p: the remaining states, absorbing ones included, and the log probability of a move to each; sources,
    log_inflow: the states that are eliminated later, and the log flow from each into this state.
    """

    state: int
    targets: np.ndarray
    log_p: np.ndarray
    sources: list[int]
    log_inflow: np.ndarray


class Branch(NamedTuple):
    """Samples with the same arcs so far: their indices, heads (n,) (-1: not drawn), and the tokens of the branch."""

    draws: np.ndarray
    heads: np.ndarray
    tokens: tuple[int, ...]


def sample(
    scores: ArborescenceScores, uniforms: Array, mu: float = 1.0, single_root: bool = False
) -> tuple[Array, Array]:
    """Independent dependency trees of each sentence, drawn exactly with probability exp(score(y) / mu) / Z.

    P(y_v = h) = w_vh P_h(T before B) / sum_h' w_vh' P_h'(T before B),  w = exp(scores / mu)

    Here v is the last token of a branch B, which grows from the first token without a head until it meets the tree T.
    P_h(T before B) is the probability that the walk from h meets T before B. T starts as the root. With a single root,
    T starts as the token r below the root, drawn with probability proportional to w_r0 tau_r, where tau_r is the weight
    of all trees of the tokens with root r.

    Parameters
    ----------
    scores : ArborescenceScores
    uniforms : array (..., size, n + 1)
        Independent random numbers in [0, 1); [..., s, m] determines the head of token m in sample s, [..., s, 0] the
        token below a single root.
    mu : float > 0
        Temperature.
    single_root : bool
        Whether exactly one token has the root as its head.

    Returns
    -------
    value : array (...,)
        mu log Z; -inf if every tree has a forbidden arc.
    heads : int64 array (..., size, n)
        0 for the root, m for token m; -1 past a sentence's length, and all -1 if there is no tree.

    Notes
    -----
    Time at most O(n^4) per sample: n eliminations, which samples share while their arcs agree. Weights are stored as
    logarithms and only added, multiplied and divided. Scores may therefore differ by any amount, and an arc that no
    tree has is never drawn. Scores may be up to 1e300 mu in absolute value.

    Source
    ------
    Wilson (1996), "Generating random spanning trees more quickly than the cover time"; elimination as in Grassmann,
    Taksar and Heyman (1985). Branson et al., section 1.2, use such samples in an update.
    """
    place, numbers = Place.of(scores.values), host(uniforms).astype(np.float64)
    value, heads = np.zeros(numbers.shape[:-2]), np.full((*numbers.shape[:-1], numbers.shape[-1] - 1), -1)
    for b, values in sentences(scores):
        n = len(values)
        value[b], heads[b][:, :n] = sample_trees(values, numbers[b][:, : n + 1], mu, single_root)
    return place.floats(value), place.integers(heads)


def sample_trees(values: np.ndarray, numbers: np.ndarray, mu: float, single_root: bool) -> tuple[float, np.ndarray]:
    """mu log Z of one sentence, and heads (size, n) by the numbers (size, n + 1)."""
    n = len(values)
    shift = np.where(np.isfinite(top := values[:, int(single_root) :].max(axis=1, initial=-np.inf)), top, 0.0)
    # (token, head), row 0 unused
    log_w = np.concatenate([np.full((1, n + 1), -np.inf), (values - shift[:, None]) / mu])
    heads = np.full((len(numbers), n), -1)
    start, no_tokens = Branch(np.arange(len(numbers)), np.full(n, -1), ()), np.full(n + 1, False)
    if single_root and n:
        log_z, roots = _roots(log_w)
        stack = _grown(start, choose(roots, None, numbers[:, 0]) + 1, np.array(0), no_tokens) if log_z > -np.inf else []
        log_w[:, 0] = -np.inf
    else:
        _, log_z = _eliminate(np.roll(log_w[1:], -1, axis=1))
        stack = [start] if log_z > -np.inf else []
    while stack:
        branch = stack.pop()
        if not branch.tokens and np.all(branch.heads >= 0):
            heads[branch.draws] = branch.heads
            continue
        if not branch.tokens:
            branch = branch._replace(tokens=(int(np.argmin(branch.heads)) + 1,))
        outside = np.append(False, branch.heads < 0)  # not in the tree
        outside[list(branch.tokens)] = True
        last = branch.tokens[-1]
        head = choose(log_w[last] + _escape(log_w, ~outside, branch.tokens), None, numbers[branch.draws, last])
        stack += _grown(branch, np.array(last), head, outside)
    return float(np.sum(shift) + mu * log_z), heads


def _grown(branch: Branch, token: np.ndarray, head: np.ndarray, outside: np.ndarray) -> list[Branch]:
    """The samples grouped by the drawn arc. The branch continues if its head is ``outside`` (n + 1,) the tree."""
    branches = []
    for t, h in sorted(set(np.broadcast(token, head))):
        heads = branch.heads.copy()
        heads[t - 1] = h
        draws = branch.draws[(token == t) & (head == h)]
        branches.append(Branch(draws, heads, (*branch.tokens, int(h)) if outside[h] else ()))
    return branches


def _roots(log_w: np.ndarray) -> tuple[float, np.ndarray]:
    """log Z of the trees with a single root, and the log weight (n,) of each token below it, up to a constant.

    The weights tau are proportional to the stationary distribution of the walk on the tokens: the flow into each token
    equals the flow out of it.
    """
    steps, log_z = _eliminate(log_w[1:, 1:], kept=1)
    log_tau = np.full(len(log_w) - 1, -np.inf)
    log_tau[list(set(range(len(log_tau))) - {step.state for step in steps})] = 0.0
    for step in reversed(steps):
        log_tau[step.state] = logsumexp(np, log_tau[step.sources] + step.log_inflow, axis=0)
    roots = log_tau + log_w[1:, 0]
    return log_z + float(logsumexp(np, roots, axis=0)), roots


def _escape(log_w: np.ndarray, tree: np.ndarray, branch: tuple[int, ...]) -> np.ndarray:
    """log P(the walk from each node meets the tree before the branch), (n + 1,)."""
    free = np.flatnonzero(~tree & ~np.isin(np.arange(len(tree)), branch))
    f = len(free)
    ends = [logsumexp(np, log_w[np.ix_(free, nodes)], axis=1) for nodes in (np.flatnonzero(tree), np.array(branch))]
    steps, _ = _eliminate(np.column_stack([log_w[np.ix_(free, free)], *ends]))
    log_p = np.append(np.full(f, -np.inf), [0.0, -np.inf])  # of the free nodes, the tree, the branch
    for step in reversed(steps):
        log_p[step.state] = logsumexp(np, log_p[step.targets] + step.log_p, axis=0)
    escape = np.where(tree, 0.0, -np.inf)
    escape[free] = log_p[:f]
    return escape


def _eliminate(rates: np.ndarray, kept: int = 0) -> tuple[list[Step], float]:
    """Eliminate the first f states of a Markov chain with log rates (f, m) until ``kept`` of them remain.

    The state with the largest total rate of leaving is eliminated first. The result is the steps and the log of the
    product of these rates, or no steps and -inf if a state cannot be left.
    """
    rates, remaining, targets = rates.copy(), list(range(len(rates))), np.arange(rates.shape[1])
    steps, total = [], 0.0
    while len(remaining) > kept:
        leaving = logsumexp(np, rates[remaining][:, targets], axis=1)
        rate = float(leaving.max())
        if rate == -np.inf:
            return [], -np.inf
        k = remaining.pop(int(np.argmax(leaving)))
        targets = targets[targets != k]
        into, log_p = rates[remaining, k], rates[k, targets] - rate
        block = np.ix_(np.array(remaining, np.int64), targets)
        rates[block] = np.logaddexp(rates[block], into[:, None] + log_p)
        rates[remaining, remaining] = -np.inf  # a tree has no loops
        steps.append(Step(k, targets, log_p, list(remaining), into - rate))
        total += rate
    return steps, total
