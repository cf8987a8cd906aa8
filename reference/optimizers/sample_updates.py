"""Updates of one dual block over its sampled outputs: expand and swap moves, the exact maximum, and its closed form
for multiclass problems.

    max_alpha  <b, alpha> - <alpha, Q alpha>/2,  alpha >= 0, sum alpha <= 1
    b_j = loss_j + <w, v_j> at alpha = 0,  Q_jk = <v_j, v_k> / (lam t)

This is the block's share of the dual, D_t(alpha) - D_t(0), with w at alpha = 0: the weights w - u/(lam t),
u = sum_j alpha_j v_j, make it

      sum_j alpha_j loss_j - lam t/2 (||w - u/(lam t)||^2 - ||w||^2)
    = sum_j alpha_j (loss_j + <w, v_j>) - ||u||^2/(2 lam t)

and its gradient g = b - Q alpha is loss_j + <w - u/(lam t), v_j>. Source: Branson et al., equations (9)
to (25), *corrected*.
"""

from __future__ import annotations

import numpy as np

from reference.optimizers.simplex import maximize_on_simplex

__all__ = ["exact_update", "expand_and_swap", "multiclass_update"]


def expand_and_swap(Q: np.ndarray, b: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """One pass over the samples in order: each takes the better of two moves, with the best length.

    expand: alpha_j <- alpha_j + a;  a = clip( g_j / Q_jj, 0, 1 - sum alpha )
    swap: alpha <- (1 - a) alpha + a e_j;   a = clip( (g_j - <alpha, g>) / ||v_j - u||^2_Q, 0, 1 ),
    u = sum_k alpha_k v_k

    with g = b - Q alpha. No move lowers the dual.

    Parameters
    ----------
    Q : array (m, m)
    b : array (m,)
    alpha : array (m,)
        Weights to start from, >= 0, of sum <= 1.

    Returns
    -------
    array (m,)

    Notes
    -----
    O(m^2). At alpha = 0 the two moves are the same. The print swaps only once the weights sum to 1; then no later
    sample can take weight from the first before that sum is reached.

    Source
    ------
    Branson et al., Algorithm 1, *corrected*: the swap's length has ||v_j - u||^2, the print's ||v_j + u||^2 may lower
    the dual.
    """
    alpha, g = alpha.copy(), b - Q @ alpha
    for j in range(len(b)):
        room = max(0.0, 1.0 - float(np.sum(alpha)))
        mixed = b - g  # Q alpha
        slope = float(g[j] - alpha @ g)
        length = max(0.0, float(Q[j, j] - 2.0 * mixed[j] + alpha @ mixed))
        expand, gain = _best_length(float(g[j]), float(Q[j, j]), room)
        swap, other = _best_length(slope, length, 1.0)
        if other > gain:
            alpha *= 1.0 - swap
            alpha[j] += swap
        else:
            alpha[j] += expand
        g = b - Q @ alpha
    return alpha


def _best_length(slope: float, curvature: float, most: float) -> tuple[float, float]:
    """argmax and max of a slope - a^2 curvature / 2 over 0 <= a <= most."""
    if not slope > 0:
        return 0.0, 0.0
    a = min(most, slope / curvature) if curvature > 0 else most
    return a, a * slope - 0.5 * a * a * curvature


def exact_update(Q: np.ndarray, b: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """The maximum over all weights, up to rounding; the true output has weight 1 - sum alpha.

    Notes
    -----
    Repeated expand and swap moves do not reach it (*corrected*, Branson et al., Algorithm 1, line 16): an expand move
    never reduces a weight.
    """
    m = len(b)
    with_truth, gains = np.zeros((m + 1, m + 1)), np.append(0.0, b)
    with_truth[1:, 1:] = Q
    start = np.append(max(0.0, 1.0 - float(np.sum(alpha))), alpha)
    tol = 1e-13 * float(np.max(np.abs(gains)) + np.max(np.abs(Q), initial=0.0))
    return maximize_on_simplex(with_truth, gains, start / np.sum(start), tol)[1:]


def multiclass_update(c: np.ndarray, squared_norm: float) -> np.ndarray:
    """argmin_alpha P/2 (||alpha||^2 + (sum alpha)^2) + <c, alpha> over alpha >= 0, sum alpha <= 1, in closed form.

    alpha_j = max(0, theta - c_j) / P;   theta = min( s/(m+1), (P+s)/m ),
    s the sum of the m smallest of c: those below theta

    Parameters
    ----------
    c : array (K,)
        -lam t (loss_j + <w, v_j>) for K distinct wrong classes.
    squared_norm : float >= 0
        P = ||phi(x)||^2, the features' squared norm: <v_j, v_k> = P + P [j = k].

    Returns
    -------
    array (K,)

    Notes
    -----
    O(K log K). If P = 0, all weight is on the smallest c (the first of equal ones) provided that c < 0.

    Source
    ------
    Branson et al., Algorithm 2, *corrected*: the print takes one class too many, omits P and scales no weights.
    """
    alpha = np.zeros(len(c))
    if len(c) == 0:
        return alpha
    if squared_norm == 0:
        alpha[np.argmin(c)] = float(np.min(c) < 0)
        return alpha
    low = float(np.min(c))
    rise = np.sort(c - low)  # relative to the smallest c: P may be much smaller than c
    s, m, theta = 0.0, 0, -low
    while m < len(c) and rise[m] < theta:
        s, m = s + float(rise[m]), m + 1
        theta = min((s - low) / (m + 1), (squared_norm + s) / m)
    return np.maximum(theta - (c - low), 0.0) / squared_norm if m else alpha
