"""Labellings of chains drawn from their Gibbs distribution: forward filtering, backward sampling."""

from __future__ import annotations

from array_api_compat import array_namespace

from reference.arrays import Array
from reference.structures.chain_scores import ChainScores, exists, frozen, no_positions, transitions
from reference.structures.chain_sum import filtered
from reference.structures.sampling import choose

__all__ = ["sample"]


def sample(scores: ChainScores, uniforms: Array, mu: float = 1.0) -> tuple[Array, Array]:
    """Independent labellings of each chain, drawn exactly with probability exp(score(y) / mu) / Z.

    y_{n-1} ~ P(y_{n-1}),  then y_t ~ P(y_t | scores up to t) exp(pairwise[t, y_t, y_{t+1}] / mu), normalised

    Parameters
    ----------
    scores : ChainScores
    uniforms : array (..., size, n)
        Independent random numbers in [0, 1); [..., s, t] determines the label at t of sample s.
    mu : float > 0
        Temperature.

    Returns
    -------
    value : array (...,)
        mu log Z; -inf where every labelling is forbidden.
    labels : int64 array (..., size, n)
        -1 past a chain's length, and at every position of a chain without a feasible labelling.

    Notes
    -----
    Time O(n (L^2 + size log L)), memory O(n (L + size) + L^2). Messages are normalised logarithms, as in
    :func:`reference.structures.chain_sum.forward_backward`, so they do not underflow in long chains.

    Source
    ------
    Branson et al., section 1.2. The samples there come from importance sampling, here from the model's distribution.
    """
    xp = array_namespace(scores.unary)
    *batch, _, n = uniforms.shape
    L = scores.unary.shape[-1]
    if n == 0:
        return no_positions(xp, scores.unary)[0], xp.astype(uniforms, xp.int64)
    scaled = ChainScores(scores.unary / mu, scores.pairwise / mu, scores.lengths)
    value, forward = filtered(xp, scaled)
    label = choose(forward[n - 1], None, uniforms[..., n - 1])
    labels = [label]
    for t in range(n - 2, -1, -1):
        alone = xp.broadcast_to(forward[t][..., None, :], (*batch, L, L))
        logits = frozen(xp, scores.lengths, t + 1, alone + xp.matrix_transpose(transitions(scaled, t + 1)), alone)
        label = choose(logits, label, uniforms[..., t])  # the row of the next label
        labels.append(label)
    path = xp.stack(labels[::-1], axis=-1)
    keep = exists(xp, scores)[..., None, :] & (value > -xp.inf)[..., None, None]
    return mu * value, xp.where(keep, path, -1)
