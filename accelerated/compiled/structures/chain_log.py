"""Sum-product of one chain in the log domain: about ten times slower than the scaled one, and safe for any scores."""

from __future__ import annotations

import numpy as np

from accelerated.compiled.arithmetic import exp
from accelerated.compiled.sweeps import fill, largest, load, max_plus_product, total
from accelerated.kernel import kernel

__all__ = ["log_forward", "log_sum_product", "log_total"]


@kernel
def log_sum_product(scores, n, pairwise, first, stride, inverse_mu, work, edges):
    """`sum_product` in the log domain, with pairwise[first + (t - 1) * stride] * inverse_mu, (E, K, K), between t - 1
    and t.

    scores (>= n, Lp) becomes the node marginals; edges (E, K, K) += edge marginals. Forward messages are shifted to
    largest 0. The backward sweep passes probabilities and normalises each distribution, so that marginals sum to 1 at
    any scale and rounding does not grow with n.
    """
    if n == 0:
        return 0.0
    value = log_forward(scores, n, pairwise, first, stride, inverse_mu, work)
    if value == -np.inf:
        for t in range(n):
            fill(0.0, scores, t)
        return value
    rest, top = log_total(work.forward, n - 1), largest(work.forward, n - 1)
    for j in range(scores.shape[1]):
        scores[n - 1, j] = exp(work.forward[n - 1, j] - top)
    _normalize(scores, n - 1)
    for t in range(n - 1, 0, -1):
        e = first + (t - 1) * stride
        load(pairwise[e], inverse_mu, work.matrix)
        _backward(work.forward, scores, t - 1, work.matrix, work.rows, edges[e])
    return value + rest


@kernel
def log_forward(scores, n, pairwise, first, stride, inverse_mu, work):
    """Sum of the shifts, -inf if nothing is allowed; work.forward[t] = log forward message, largest 0."""
    alpha, value = work.forward, 0.0
    for t in range(n):
        if t == 0:
            fill(0.0, alpha, t)
        else:
            load(pairwise[first + (t - 1) * stride], inverse_mu, work.matrix)
            _log_product(alpha, t - 1, work.matrix, pairwise.shape[1], work.rows, alpha, t)
        for j in range(alpha.shape[1]):
            alpha[t, j] += scores[t, j]
        top = largest(alpha, t)
        if top == -np.inf:
            return top
        for j in range(alpha.shape[1]):
            alpha[t, j] -= top
        value += top
    return value


@kernel
def _log_product(x, s, matrix, K, rows, out, t):
    """out[t, j] = log sum_{i < K} exp(x[s, i] + matrix[i, j]); rows (2, Lp) is scratch."""
    max_plus_product(x, s, matrix, K, out, t)
    for j in range(out.shape[1]):
        rows[0, j] = 0.0
        rows[1, j] = out[t, j] if out[t, j] > -np.inf else 0.0
    for i in range(K):
        for j in range(out.shape[1]):
            rows[0, j] += exp(x[s, i] + matrix[i, j] - rows[1, j])
    for j in range(out.shape[1]):
        out[t, j] += np.log(rows[0, j])


@kernel
def _backward(alpha, scores, t, matrix, rows, edges):
    """scores[t] become the marginals of position t, from those of t + 1; edges (K, K) += edge marginals. matrix and
    rows are overwritten.
    """
    K = edges.shape[0]
    max_plus_product(alpha, t, matrix, K, rows, 0)
    for j in range(matrix.shape[1]):
        rows[0, j] = rows[0, j] if rows[0, j] > -np.inf else 0.0
        rows[1, j] = 0.0
    for i in range(K):
        for j in range(matrix.shape[1]):
            matrix[i, j] = exp(alpha[t, i] + matrix[i, j] - rows[0, j])
            rows[1, j] += matrix[i, j]
    for j in range(matrix.shape[1]):
        rows[1, j] = scores[t + 1, j] / rows[1, j] if rows[1, j] != 0.0 else 0.0 * scores[t + 1, j]
    fill(0.0, scores, t)
    for i in range(K):
        for j in range(matrix.shape[1]):
            matrix[i, j] *= rows[1, j]  # P(y_t = i, y_{t + 1} = j)
        scores[t, i] = total(matrix, i)
        for j in range(K):
            edges[i, j] += matrix[i, j]
    _normalize(scores, t)


@kernel
def _normalize(a, t):
    """Divide row t by its sum; nan if the sum is 0."""
    mass = total(a, t)
    for j in range(a.shape[1]):
        a[t, j] /= mass


@kernel
def log_total(a, t):
    """log sum exp of row t, which is not all -inf."""
    top, mass = largest(a, t), 0.0
    for j in range(a.shape[1]):
        mass += exp(a[t, j] - top)
    return top + np.log(mass)
