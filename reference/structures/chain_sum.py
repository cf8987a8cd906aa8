"""Linear chains: log-partition function and marginals by forward-backward (the exp oracle).

Source: Pillutla et al., Algorithm 3 (sum-product), in log space.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from reference.arrays import Array, logsumexp, normalized, softmax
from reference.structures.chain_scores import ChainScores, exists, frozen, no_positions, transitions
from reference.structures.scores import finite

__all__ = ["Edges", "filtered", "forward_backward"]


def forward_backward(scores: ChainScores, mu: float = 1.0, weights: Array | None = None) -> tuple[Array, ChainScores]:
    """Log-partition function of each chain at temperature mu, and its gradient (the exp oracle).

    A = mu log sum_y exp(score(y) / mu), with gradient the marginals P(y_t = i) and P(y_{t-1} = i, y_t = j).

    Parameters
    ----------
    scores : ChainScores
    mu : float > 0
        Temperature.
    weights : array (...,), optional
        Of the chains: their marginals are multiplied by these, as in the gradient of a weighted sum of the values.

    Returns
    -------
    value : array (...,)
        -inf where every labelling is forbidden.
    marginals : ChainScores
        unary (..., n, L), 0 past a chain's length; pairwise shaped like the scores' pairwise. **The gradient of a
        shared pairwise matrix is summed over positions and over the batch** (expected numbers of transitions). All 0
        if no labelling is feasible.

    Notes
    -----
    Time O(n L^2) with an exponential per term; memory O(n L^2). Forward messages are normalised logarithms, so nothing
    underflows. Backwards, P(y_t) is the sum over y_{t+1} of P(y_{t+1}) P(y_t | y_{t+1}, scores up to t). Rounding
    errors do not grow with the length of the chain, and marginals sum to 1 at any scale up to 1e300 mu. At large scales
    terms smaller than the rounding error of the summed scores are lost, such as mu log(number of tied labellings).

    Source
    ------
    Pillutla et al., Algorithm 3 and Lemma 7 (ii), *corrected*: messages are normalised and in log space, and P(y_t)
    replaces the backward message, which is P(y_t) divided by the forward message. With backward messages, marginals of
    positions and of pairs differ by the rounding of the scores, such as 1e-3 at scores of 1e13.
    """
    xp = array_namespace(scores.unary)
    n = scores.unary.shape[-2]
    if n == 0:
        return no_positions(xp, scores.unary)[0], ChainScores(
            scores.unary, xp.zeros_like(scores.pairwise), scores.lengths
        )
    scaled = ChainScores(scores.unary / mu, scores.pairwise / mu, scores.lengths)
    lengths = scaled.lengths
    log_z, forward = filtered(xp, scaled)
    feasible = xp.astype(log_z > -xp.inf, log_z.dtype)[..., None]
    nodes, edges = [feasible * softmax(xp, forward[n - 1])], Edges(xp, scores)
    for t in range(n - 2, -1, -1):
        conditional = softmax(xp, forward[t][..., None] + transitions(scaled, t + 1), axis=-2)  # P(y_t | y_{t+1})
        pair = frozen(xp, lengths, t + 1, conditional * nodes[-1][..., None, :], 0.0)
        nodes.append(frozen(xp, lengths, t + 1, normalized(xp, xp.sum(pair, axis=-1)), nodes[-1]))
        edges.add(pair if weights is None else pair * weights[..., None, None])
    nodes_ = xp.stack(nodes[::-1], axis=-2)
    nodes_ = nodes_ if weights is None else nodes_ * weights[..., None, None]
    nodes_ = xp.where(exists(xp, scores)[..., None], nodes_, 0.0)
    return mu * log_z, ChainScores(nodes_, edges.backwards(), lengths)


def filtered(xp: Any, scaled: ChainScores) -> tuple[Array, list[Array]]:
    """For chains of n >= 1 positions: log sum_y exp(score(y)), and log P(y_t | scores up to t), (..., L), for each t.

    Past a chain's length the distribution is that of its last position. If no labelling is feasible, all are -inf.
    """
    unary, lengths = scaled.unary, scaled.lengths
    forward: list[Array] = []
    norms: list[Array] = []  # the log-normaliser of each step; their sum is the log-partition
    for t in range(unary.shape[-2]):
        message = unary[..., t, :]
        if t > 0:
            message = message + logsumexp(xp, forward[-1][..., None] + transitions(scaled, t), axis=-2)
        norm = logsumexp(xp, message, axis=-1)
        norms.append(norm if t == 0 else frozen(xp, lengths, t, norm, 0.0))
        normalised = message - finite(xp, norm)[..., None]
        forward.append(normalised if t == 0 else frozen(xp, lengths, t, normalised, forward[-1]))
    log_z = xp.sum(xp.stack(norms, axis=-1), axis=-1)
    return (log_z if lengths is None else xp.where(lengths > 0, log_z, 0.0)), forward


class Edges:
    """Edge marginals (..., L, L) for each t: stored separately, or summed if the pairwise scores are shared."""

    def __init__(self, xp: Any, scores: Any) -> None:
        self.xp, self.shared = xp, scores.pairwise.ndim == 2
        self.empty = xp.zeros_like(scores.pairwise)
        self.each: list[Array] = []

    def add(self, pair: Array) -> None:
        if self.shared:
            summed = self.xp.sum(pair, axis=tuple(range(pair.ndim - 2))) if pair.ndim > 2 else pair
            pair = self.each.pop() + summed if self.each else summed
        self.each.append(pair)

    def backwards(self) -> Array:
        """The added marginals, the last first, shaped like the pairwise scores."""
        if not self.each:
            return self.empty
        return self.each[0] if self.shared else self.xp.stack(self.each[::-1], axis=-3)
