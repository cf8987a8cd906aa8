"""Linear chains: products with the Hessian of the log-partition, which is the covariance of the parts.

The tangents of forward-backward along a direction: one more pass each way. Source: forward-mode differentiation of
Pillutla et al., Algorithm 3.
"""

from __future__ import annotations

from array_api_compat import array_namespace

from reference.arrays import Array, softmax
from reference.structures.chain_scores import ChainScores, exists, frozen, no_positions, transitions
from reference.structures.chain_sum import Edges, filtered

__all__ = ["hessian_product"]


def hessian_product(
    scores: ChainScores, direction: ChainScores, mu: float = 1.0, weights: Array | None = None
) -> tuple[Array, ChainScores]:
    """The derivatives, along a direction, of the value and of the marginals of :func:`forward_backward`.

    With q_t(i | j) = P(y_{t-1} = i | y_t = j, scores up to t), which the messages give, m_t the tangent of the forward
    message and u, v those of the scores over mu:

        e_t(j) = sum_i q_t(i | j) (m_{t-1}(i) + v_t(i, j)),   m_t = u_t + e_t
        dq_t(i | j) = q_t(i | j) (m_{t-1}(i) + v_t(i, j) - e_t(j))
        dP(y_{t-1}, y_t) = dP(y_t) q_t + P(y_t) dq_t,   summed over y_t: dP(y_{t-1})

    Parameters
    ----------
    scores : ChainScores
    direction : ChainScores
        Finite; shaped like the scores.
    mu : float > 0
    weights : array (...,), optional
        Of the chains, as in :func:`forward_backward`.

    Returns
    -------
    inner : array (...,)
        <marginals, direction>, without weights; 0 where every labelling is forbidden.
    tangents : ChainScores
        Of the marginals, each chain's times its weight; a shared pairwise matrix gets the sum, as there.

    Notes
    -----
    Time and memory O(n L^2).
    """
    xp = array_namespace(scores.unary)
    n, lengths = scores.unary.shape[-2], scores.lengths
    if n == 0:
        return no_positions(xp, scores.unary)[0], ChainScores(scores.unary, xp.zeros_like(scores.pairwise), lengths)
    scaled = ChainScores(scores.unary / mu, scores.pairwise / mu, lengths)
    along = ChainScores(direction.unary / mu, direction.pairwise / mu, lengths)
    log_z, forward = filtered(xp, scaled)
    tangent = along.unary[..., 0, :]
    kept = []  # q_t and dq_t, (..., label at t-1, label at t)
    for t in range(1, n):
        q = softmax(xp, forward[t - 1][..., None] + transitions(scaled, t), axis=-2)
        change = tangent[..., None] + transitions(along, t)
        mean = xp.sum(q * change, axis=-2)
        kept.append((q, q * (change - mean[..., None, :])))
        tangent = frozen(xp, lengths, t, along.unary[..., t, :] + mean, tangent)
    feasible = xp.astype(log_z > -xp.inf, log_z.dtype)
    if lengths is not None:
        feasible = feasible * xp.astype(lengths > 0, log_z.dtype)
    p = feasible[..., None] * softmax(xp, forward[n - 1])
    inner = xp.sum(p * tangent, axis=-1)
    dp = p * (tangent - inner[..., None])
    scale = xp.ones_like(feasible) if weights is None else weights
    nodes, edges = [dp], Edges(xp, scores)
    for t in range(n - 1, 0, -1):
        q, dq = kept[t - 1]
        dpair = dp[..., None, :] * q + p[..., None, :] * dq
        edges.add(frozen(xp, lengths, t, dpair * scale[..., None, None], 0.0))
        p = frozen(xp, lengths, t, xp.sum(p[..., None, :] * q, axis=-1), p)
        dp = frozen(xp, lengths, t, xp.sum(dpair, axis=-1), dp)
        nodes.append(dp)
    unary = xp.stack(nodes[::-1], axis=-2) * scale[..., None, None]
    unary = xp.where(exists(xp, scores)[..., None], unary, 0.0)
    return mu * inner, ChainScores(unary, edges.backwards(), lengths)
