"""Linear chains: the exp oracle on probabilities that are scaled at each position, by products of matrices.

The forward-backward algorithm as it is usually written down: exponentials of the scores are taken once, and a step is a
vector times a matrix. It suits accelerators, and takes a tenth of the time of :mod:`chain_sum`, which stays in logs. It
may lose paths to underflow; a certificate says which chains lose none. Source: Rabiner (1989), "A tutorial on hidden
Markov models and selected applications in speech recognition", section V.A.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from array_api_compat import array_namespace

from reference.arrays import Array, concrete
from reference.structures import chain_sum
from reference.structures.chain_scores import ChainScores, exists
from reference.structures.scores import finite

__all__ = ["Scaled", "backward", "forward", "forward_backward"]


class Scaled(NamedTuple):
    """What :func:`forward` leaves to :func:`backward`.

    value (...,): mu log sum_y exp(score(y) / mu). certified (...,): whether no path that counts was lost. messages
    (..., n, L): P(y_t | scores up to t). factors (..., n, L): exp(unary[t] / mu) over its maximum and over c_t.
    """

    value: Array
    certified: Array
    messages: Array
    factors: Array


def forward(scores: ChainScores, mu: float = 1.0) -> Scaled:
    """The forward pass, of n >= 1 positions.

    message_t = (message_{t-1} @ E_t) * exp(unary_t / mu - top_t) / c_t,   E_t = exp(pairwise_t / mu - shift_t)
    value / mu = sum_t log c_t + top_t + shift_t

    with the largest scores top_t and shift_t, and c_t such that the message sums to 1.

    Notes
    -----
    A chain is certified if all scores of transitions lie within ``limit`` of the largest. Factors below exp(-least)
    become 0; paths that are lost by it weigh at most n L exp(2 limit - least) of all, whatever the scores of labels
    are. Where transitions are forbidden it is certified if all others, the factors and the messages are 0 or at least
    exp(-limit): then no product underflows, and every 0 is that of a forbidden part.
    """
    xp = array_namespace(scores.unary)
    unary, here = scores.unary / mu, exists(xp, scores)
    least, limit = _limits(scores)
    tables, shifts = _exponentials(xp, scores, mu)
    tops = finite(xp, xp.max(unary, axis=-1))
    logs = unary - tops[..., None]
    factors = xp.where(logs >= -least, xp.exp(logs), 0.0)
    smallest = float(xp.finfo(factors.dtype).smallest_normal)
    messages: list[Array] = []
    sums: list[Array] = []
    for t in range(unary.shape[-2]):
        message = factors[..., t, :]
        if t > 0:
            message = message * _times(xp, messages[-1], tables, t)
        c = xp.clip(xp.sum(message, axis=-1, keepdims=True), smallest, None)  # 0 / c is 0
        messages.append(message / c)
        sums.append(c)
    message, c = xp.stack(messages, axis=-2), xp.stack(sums, axis=-2)
    steps = xp.where(xp.any(message > 0, axis=-1), xp.log(c[..., 0]) + tops, -xp.inf)
    value = xp.sum(xp.where(here, steps, 0.0), axis=-1)
    inner = xp.zeros_like(steps[..., 1:]) + shifts
    value = value + xp.sum(xp.where(here[..., 1:], inner, 0.0), axis=-1)
    lost = (logs > -xp.inf) & (logs < -limit) | (message > 0) & (message < math.exp(-limit))
    whole = ~xp.any(xp.any(lost, axis=-1) & here, axis=-1)
    return Scaled(mu * value, _bounded(xp, scores, mu, limit, whole), message, factors / c)


def backward(scores: ChainScores, scaled: Scaled, mu: float = 1.0, weights: Array | None = None) -> ChainScores:
    """The marginals, each chain's times its weight, as :func:`chain_sum.forward_backward` returns them.

    beta_{t-1} = E_t @ (factor_t * beta_t)
    P(y_t) = message_t * beta_t,   P(y_{t-1}, y_t) = message_{t-1} E_t (factor_t * beta_t)

    beta is 1, or the weight, at the last position.
    """
    xp = array_namespace(scores.unary)
    messages, lengths, here = scaled.messages, scores.lengths, exists(xp, scores)[..., None]
    tables, _ = _exponentials(xp, scores, mu)
    transposed = xp.matrix_transpose(tables)
    factors = xp.where(here & (messages > 0), scaled.factors, 0.0)  # elsewhere beta may be huge
    last = xp.ones_like(messages[..., 0, :])
    last = last if weights is None else last * weights[..., None]
    betas, ahead = [last], [last]
    for t in range(messages.shape[-2] - 1, 0, -1):
        ahead.append(factors[..., t, :] * betas[-1])
        beta = _times(xp, ahead[-1], transposed, t)
        betas.append(beta if lengths is None else xp.where(lengths[..., None] == t, last, beta))
    unary = xp.where(here, messages * xp.stack(betas[::-1], axis=-2), 0.0)
    before, after = messages[..., :-1, :], xp.stack(ahead[::-1], axis=-2)[..., :-1, :]
    if scores.pairwise.ndim > 2:
        return ChainScores(unary, before[..., :, None] * tables * after[..., None, :], lengths)
    counts = xp.matmul(xp.matrix_transpose(before), after)
    return ChainScores(unary, tables * xp.sum(counts, axis=tuple(range(counts.ndim - 2))), lengths)


def forward_backward(scores: ChainScores, mu: float = 1.0, weights: Array | None = None) -> tuple[Array, ChainScores]:
    """The log-partition and the marginals of :func:`chain_sum.forward_backward`, by it if a chain is not certified."""
    if scores.unary.shape[-2] == 0:
        return chain_sum.forward_backward(scores, mu, weights)
    scaled = forward(scores, mu)
    certified = array_namespace(scores.unary).all(scaled.certified)
    if concrete(certified):
        if not certified:
            return chain_sum.forward_backward(scores, mu, weights)
        return scaled.value, backward(scores, scaled, mu, weights)
    xp = array_namespace(scores.unary)
    (value, slow), fast = chain_sum.forward_backward(scores, mu, weights), backward(scores, scaled, mu, weights)
    nodes, edges = (xp.where(certified, x, y) for x, y in zip(fast[:2], slow[:2], strict=True))
    return xp.where(certified, scaled.value, value), ChainScores(nodes, edges, scores.lengths)


def _limits(scores: ChainScores) -> tuple[float, float]:
    """Logs of the smallest numbers: ``least`` for factors that are not 0, ``limit`` for those of certified chains.

    exp(-3 limit), a product of three, is above the smallest normal number.
    """
    return (85.0, 25.0) if scores.unary.dtype == array_namespace(scores.unary).float32 else (700.0, 150.0)


def _exponentials(xp: Any, scores: ChainScores, mu: float) -> tuple[Array, Array]:
    """E (L, L) or (..., n-1, L, L), and the shifts () or (..., n-1)."""
    pairwise = scores.pairwise / mu
    shifts = finite(xp, xp.max(pairwise, axis=(-2, -1)))
    logs = pairwise - shifts[..., None, None]
    return xp.where(logs >= -_limits(scores)[0], xp.exp(logs), 0.0), shifts


def _times(xp: Any, x: Array, tables: Array, t: int) -> Array:
    """x (..., L) times the table between t - 1 and t."""
    return xp.matmul(x[..., None, :], tables if tables.ndim == 2 else tables[..., t - 1, :, :])[..., 0, :]


def _bounded(xp: Any, scores: ChainScores, mu: float, limit: float, exact: Array) -> Array:
    """Whether transitions lie within ``limit``, and none is forbidden or everything else is exact, (...,)."""
    logs = scores.pairwise / mu
    logs = logs - finite(xp, xp.max(logs, axis=(-2, -1), keepdims=True))
    near, dense = xp.all((logs == -xp.inf) | (logs >= -limit), axis=(-2, -1)), xp.all(logs > -xp.inf, axis=(-2, -1))
    if logs.ndim > 2:
        within = exists(xp, scores)[..., 1:]
        near, dense = xp.all(near | ~within, axis=-1), xp.all(dense | ~within, axis=-1)
    return near & (dense | exact)
