"""Dependency trees drawn from their Gibbs distribution: loop-erased random walks, one step after another.

A walk from a token moves to head h with probability proportional to exp(score / mu). Erasing its loops until it meets
the tree built so far
gives that tree's next branch (Wilson 1996). No walk is made here, since it may take for ever: the law of a step of the
walk without its loops
is known, from the probability of reaching the tree before the branch, and elimination finds that without a subtraction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reference.arrays import Array, Place, host, logsumexp
from reference.structures.arborescence_max import ArborescenceScores, host_values
from reference.structures.sampling import choose

__all__ = ["sample"]


class Step(NamedTuple):
    """A state taken out of a Markov chain: log probabilities of going on to the states left; log flows into it from
    those to be taken out later."""

    state: int
    left: np.ndarray
    onward: np.ndarray
    later: list[int]
    inflow: np.ndarray


class Branch(NamedTuple):
    """Draws that agree so far: their numbers, the heads (n,) drawn (-1: not yet), and the tokens of the branch that
    grows."""

    draws: np.ndarray
    heads: np.ndarray
    tokens: tuple[int, ...]


def sample(
    scores: ArborescenceScores, uniforms: Array, mu: float = 1.0, single_root: bool = False
) -> tuple[Array, Array]:
    """Dependency trees drawn with probability exp(score(y) / mu) / Z, independently, exactly.

    P(y_v = h) = w_vh P_h(T before B) / sum_h' w_vh' P_h'(T before B),  w = exp(scores / mu)

    for the last token v of a branch B that grows from the first token without a head until it meets the tree T, at
    first the root; P_h(T
    before B) is the probability that the walk from h meets the tree before the branch. With a single root T is at first
    the token that
    has it, with probability proportional to w_r0 tau_r, tau_r the weight of all trees of the tokens with root r.

    Parameters
    ----------
    scores : ArborescenceScores
    uniforms : array (size, n + 1)
        Independent numbers from [0, 1): the one at [s, m] decides the head of token m in draw s, the one at [s, 0] the
        single root.
    mu : float > 0
        Temperature.
    single_root : bool
        Whether exactly one token has the root as its head.

    Returns
    -------
    value : array ()
        mu log Z; -inf where every tree uses a forbidden arc.
    heads : int64 array (size, n)
        0 for the root, m for token m; -1 throughout if there is no tree.

    Notes
    -----
    Time O(n^4) a draw at most: n eliminations, which draws share as long as they agree. Weights are logarithms, added,
    multiplied and
    divided only, so that no scores are too far apart and an arc that no tree has is never drawn. Scores up to 1e300 mu
    in size.

    Source
    ------
    Wilson (1996), "Generating random spanning trees more quickly than the cover time"; elimination as in Grassmann,
    Taksar and Heyman
    (1985). Branson et al., section 1.2, take such draws as the samples of an update.
    """
    values, place = host_values(scores), Place.of(scores.values)
    numbers, n = host(uniforms).astype(np.float64), len(values)
    shift = np.where(np.isfinite(top := values.max(axis=1, initial=-np.inf)), top, 0.0)
    log_w = np.concatenate(
        [np.full((1, n + 1), -np.inf), (values - shift[:, None]) / mu]
    )  # (token, head), row 0 unused
    heads = np.full((len(numbers), n), -1)
    nothing, no_tokens = Branch(np.arange(len(numbers)), np.full(n, -1), ()), np.full(n + 1, False)
    if single_root and n:
        log_z, roots = _roots(log_w)
        waiting = _grown(nothing, choose(roots, numbers[:, 0]) + 1, np.array(0), no_tokens) if log_z > -np.inf else []
        log_w[:, 0] = -np.inf
    else:
        _, log_z = _eliminate(np.roll(log_w[1:], -1, axis=1))
        waiting = [nothing] if log_z > -np.inf else []
    while waiting:
        branch = waiting.pop()
        if not branch.tokens and np.all(branch.heads >= 0):
            heads[branch.draws] = branch.heads
            continue
        if not branch.tokens:
            branch = branch._replace(tokens=(int(np.argmin(branch.heads)) + 1,))
        outside = np.append(False, branch.heads < 0)  # of the tree
        outside[list(branch.tokens)] = True
        last = branch.tokens[-1]
        head = choose(log_w[last] + _escape(log_w, ~outside, branch.tokens), numbers[branch.draws, last])
        waiting += _grown(branch, np.array(last), head, outside)
    return place.floats(np.sum(shift) + mu * log_z), place.integers(heads)


def _grown(branch: Branch, token: np.ndarray, head: np.ndarray, outside: np.ndarray) -> list[Branch]:
    """The draws parted by the arcs drawn for them; a branch goes on from a head (n + 1,) outside the tree."""
    parted = []
    for t, h in sorted(set(np.broadcast(token, head))):
        heads = branch.heads.copy()
        heads[t - 1] = h
        draws = branch.draws[(token == t) & (head == h)]
        parted.append(Branch(draws, heads, (*branch.tokens, int(h)) if outside[h] else ()))
    return parted


def _roots(log_w: np.ndarray) -> tuple[float, np.ndarray]:
    """log Z of the trees with a single root, and the log weight (n,) of each token as that root, up to a constant.

    The weights tau are in proportion the stationary distribution of the walk on the tokens: the flow into each is the
    flow out of it.
    """
    steps, log_z = _eliminate(log_w[1:, 1:], kept=1)
    log_tau = np.full(len(log_w) - 1, -np.inf)
    log_tau[list(set(range(len(log_tau))) - {step.state for step in steps})] = 0.0
    for step in reversed(steps):
        log_tau[step.state] = logsumexp(np, log_tau[step.later] + step.inflow, axis=0)
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
        log_p[step.state] = logsumexp(np, log_p[step.left] + step.onward, axis=0)
    found = np.where(tree, 0.0, -np.inf)
    found[free] = log_p[:f]
    return found


def _eliminate(rates: np.ndarray, kept: int = 0) -> tuple[list[Step], float]:
    """Take the first states of a chain with log rates (f, m) out, the fastest to leave first; the log of the product of
    their rates.

    (no steps, -inf): a state cannot be left.
    """
    rates, staying, left = rates.copy(), list(range(len(rates))), np.arange(rates.shape[1])
    steps, total = [], 0.0
    while len(staying) > kept:
        leaving = logsumexp(np, rates[staying][:, left], axis=1)
        rate = float(leaving.max())
        if rate == -np.inf:
            return [], -np.inf
        k = staying.pop(int(np.argmax(leaving)))
        left = left[left != k]
        into, onward = rates[staying, k], rates[k, left] - rate
        here = np.ix_(np.array(staying, np.int64), left)
        rates[here] = np.logaddexp(rates[here], into[:, None] + onward)
        rates[staying, staying] = -np.inf  # a loop is no part of a tree
        steps.append(Step(k, left, onward, list(staying), into - rate))
        total += rate
    return steps, total
