"""Statements of Martins et al. about proximity operators, as numbers: residuals (0 when the identity holds) and slacks
(>= 0 when the inequality holds).

phi is any regularizer of ``reference.prox`` (or of another panel); x, y are arrays (..., p) of one namespace, and the
results are (...,) unless said otherwise. Statements have the numbers of the 2010 paper, and in parentheses those of the
supplement.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from reference.arrays import Array, floats

__all__ = [
    "corollary_3",
    "corollary_3_sharper",
    "equation_6",
    "equation_17",
    "equation_34",
    "kernel_expansion",
    "lemma_7",
    "lemma_9_flips",
    "lemma_9_signs",
    "lemma_10",
    "lemma_10_exchange",
    "moreau",
    "moreau_envelopes",
    "proposition_1",
    "proposition_1_envelope",
    "proposition_11",
    "split_point",
]


def moreau(phi: Any, x: Array, step_size: float = 1.0) -> Array:
    """prox_{s phi}(x) + s prox_{phi*/s}(x/s) - x (..., p), a residual.

    Source: Martins et al., Proposition 2 (6), equation (8), for s phi. It holds trivially if phi has no
    ``prox_conjugate`` of its own.
    """
    return phi.prox(x, step_size) + step_size * phi.prox_conjugate(x / step_size, 1.0 / step_size) - x


def moreau_envelopes(phi: Any, x: Array, step_size: float = 1.0) -> Array:
    """M_phi(x) + M_phi*(x) - ||x||^2 / 2, with s phi in place of phi, a residual.

    s M_phi(x) + s min_v [phi*(v) + (s/2) ||v - x/s||^2] - ||x||^2 / 2

    Source: Martins et al., Proposition 2 (6), equation (8).
    """
    v = phi.prox_conjugate(x / step_size, 1.0 / step_size)
    dual = phi.conjugate(v) + 0.5 * step_size * _square(v - x / step_size)
    return step_size * (phi.envelope(x, step_size) + dual) - 0.5 * _square(x)


def equation_6(norms: Array, beta: Array) -> Array:
    """sum_k norms_k^2 / beta_k - (sum_k norms_k)^2 (...,), a slack: beta (..., p) in the simplex weighs the kernels,
    norms (..., p) are >= 0.

    It is 0 at beta_k = norms_k / sum_l norms_l, and inf if a kernel has weight 0 and its group has a norm > 0.

    Source: Martins et al., (5) to (7): the squared norm of f under the kernel sum_k beta_k K_k is the minimum of the
    first sum over f = sum_k f_k.
    """
    norms, beta = floats(norms=norms, beta=beta)
    xp = array_namespace(norms)
    used = beta > 0
    terms = xp.where(used, norms * norms / xp.where(used, beta, xp.ones_like(beta)), xp.zeros_like(norms))
    lacking = xp.where(~used & (norms > 0), xp.full_like(norms, xp.inf), xp.zeros_like(norms))
    return xp.sum(terms + lacking, axis=-1) - xp.sum(norms, axis=-1) ** 2


def equation_17(before: Any, after: Any, right: Any, wrong: Any, kernels: tuple[Any, Any, Any], step_size: Any) -> Any:
    """after - (before - 2 gamma (wrong - right) + gamma^2 (K(u, u) + K(v, v) - 2 K(u, v))), a residual, for each group.

    before, after: ||theta_k||^2 and ||theta_k - gamma (phi_k(v) - phi_k(u))||^2, u with the true output, v with the
    best loss-augmented one;
    right, wrong: the group's scores f_k(u), f_k(v); kernels: K(u, u), K(v, v), K(u, v). Numbers or arrays of one shape.

    Source: Martins et al., (17), *corrected*: the first line prints f_k(u) for f_k(v) - f_k(u), the second f_k(v).
    """
    own, others, both = kernels
    return after - (before - 2.0 * step_size * (wrong - right) + step_size**2 * (own + others - 2.0 * both))


def kernel_expansion(steps: Array, factors: Array) -> Array:
    """alpha_s = gamma_s prod_{r >= s} factors_r (T,) for a group: theta = sum_s alpha_s (phi(x_s, y_s) - phi(x_s, v_s))
    after T rounds.

    steps, factors (T,): the step of each round, and the factor by which the prox and the projection scale the group:
    (b/b~) min(1, radius/||theta~||), where 0/0 is 0. If a gradient step also shrinks the weights by 1 - gamma sigma,
    the factor of that round includes this factor, and the step is divided by it.

    Source: Martins et al., section 3.4.
    """
    steps, factors = floats(steps=steps, factors=factors)
    xp = array_namespace(factors)
    return steps * xp.flip(xp.cumulative_prod(xp.flip(factors)))


def lemma_7(phi: Any, x: Array, y: Array) -> Array:
    """phi(y) - phi(xbar) - (xbar - y)'(xbar - x) with xbar = prox_phi(x), a slack.

    Source: Martins et al., Lemma 7 (8), equation (19).
    """
    xbar = phi.prox(x)
    return phi.value(y) - phi.value(xbar) - _inner(xbar - y, xbar - x)


def corollary_3(phi: Any, x: Array, y: Array) -> Array:
    """2 (phi(y) - phi(xbar)) - ||y - xbar||^2 + ||y - x||^2 with xbar = prox_phi(x), a slack.

    Source: Martins et al., Corollary 3 (7), equation (9).
    """
    xbar = phi.prox(x)
    return 2.0 * (phi.value(y) - phi.value(xbar)) - _square(y - xbar) + _square(y - x)


def corollary_3_sharper(phi: Any, x: Array, y: Array) -> Array:
    """The slack of Corollary 3 less ||x - xbar||^2, still a slack: twice that of Lemma 7.

    2 (phi(y) - phi(xbar)) - ||x - xbar||^2 - ||y - xbar||^2 + ||y - x||^2

    Source: Martins et al., the proof of Corollary 3; the statement drops this term.
    """
    return corollary_3(phi, x, y) - _square(x - phi.prox(x))


def proposition_1(phi: Any, psi: Any, groups: Any, x: Array) -> Array:
    """prox_phi(x) - [b_k x_k / n_k]_k (..., p) with n_k = ||x_k||, b = prox_psi(n), a residual; 0 x_k where n_k = 0.

    For phi(x) = psi(||x_1||, ..., ||x_K||) and psi even in each coordinate; ``groups`` is a list of index lists that
    covers every coordinate once.

    Source: Martins et al., Proposition 1 (5), *corrected*: it does not hold "for some psi", but for psi even in each
    coordinate.
    """
    norms = group_norms(groups, x)
    xp, b = array_namespace(x), psi.prox(norms)
    factors = b / xp.where(norms > 0, norms, xp.ones_like(norms))
    return phi.prox(x) - x * xp.stack([factors[..., _group_of(groups, i)] for i in range(x.shape[-1])], axis=-1)


def proposition_1_envelope(phi: Any, psi: Any, groups: Any, x: Array) -> Array:
    """M_phi(x_1, ..., x_K) - M_psi(||x_1||, ..., ||x_K||), a residual, under the same condition.

    Source: Martins et al., Proposition 1 (5), equation (18).
    """
    return phi.envelope(x) - psi.envelope(group_norms(groups, x))


def group_norms(groups: Any, x: Array) -> Array:
    """||x_k|| (..., K), by definition."""
    xp = array_namespace(x)
    return xp.stack([xp.sqrt(sum((x[..., i] ** 2 for i in group), 0.0 * x[..., 0])) for group in groups], axis=-1)


def lemma_9_signs(x0: Array, x: Array) -> Array:
    """min_i x0_i x_i, a slack, for x the prox of (lam/2) (sum_m d_m |x_m|)^2 at x0.

    Source: Martins et al., Lemma 9.1 (10.1).
    """
    return array_namespace(x0).min(x0 * x, axis=-1)


def lemma_9_flips(phi: Any, x0: Array, signs: Array) -> Array:
    """prox_phi(s x0) - s prox_phi(x0) (..., p) for signs s in {-1, 1}^p, a residual.

    Source: Martins et al., Lemma 9.2 (10.2); it holds for every phi that is even in each coordinate.
    """
    return phi.prox(signs * x0) - signs * phi.prox(x0)


def lemma_10(weights: Array, x0: Array, x: Array) -> Array:
    """- max {|x_j| : x_k = 0 and |x0_j|/d_j < |x0_k|/d_k for some k}, a slack (0: no such j is nonzero).

    For x the prox of (lam/2) (sum_m d_m |x_m|)^2 at x0, with d > 0: coordinates vanish in the order of |x0_m| / d_m.

    Source: Martins et al., Lemma 10 (11).
    """
    weights, x0, x = floats(weights=weights, x0=x0, x=x)
    xp = array_namespace(x)
    u0 = xp.abs(x0) / weights
    highest_zero = xp.max(xp.where(x == 0, u0, xp.full_like(u0, -1.0)), axis=-1, keepdims=True)
    return -xp.max(xp.where(u0 < highest_zero, xp.abs(x), xp.zeros_like(x)), axis=-1)


def lemma_10_exchange(a_j: Any, a_k: Any, u0_j: Any, u0_k: Any, eps: Any) -> Any:
    """2 (F(u~) - F(u*)) less eps^2 (a_j^2/a_k - a_j) + 2 a_j eps (u0_j - u0_k), for a_j <= a_k, a residual.

    The exchange in the proof: u*_j = eps, u*_k = 0 become u~_j = 0, u~_k = eps a_j/a_k, which does not change sum_m a_m
    u_m. The arguments are numbers or arrays of one shape.

    Source: Martins et al., proof of Lemma 10 (11), case (i), *corrected*: the second term is missing in the paper.
    Without it the right-hand side is 0 for a_j = a_k, and there is no contradiction.
    """
    moved = eps * a_j / a_k
    change = a_j * (u0_j**2 - (eps - u0_j) ** 2) + a_k * ((moved - u0_k) ** 2 - u0_k**2)
    return change - (eps**2 * (a_j**2 / a_k - a_j) + 2.0 * a_j * eps * (u0_j - u0_k))


def split_point(weights: Array, x0: Array, lam: float) -> tuple[Array, Array]:
    """rho (...,) int64 and tau (...,), the longest prefix whose last entry stays positive, and its threshold.

    rho = max {j : u0_(j) - lam / (1 + lam sum_{r<=j} a_(r)) sum_{r<=j} a_(r) u0_(r) > 0} with a = d^2, u0 = |x0| / d in
    descending order; tau is that fraction at j = rho. rho = 0 and tau = 0 if x0 = 0.

    Source: Martins et al., Proposition 11 (12), equation (39), for d > 0.
    """
    weights, x0 = floats(weights=weights, x0=x0)
    xp = array_namespace(x0)
    a, u0 = xp.broadcast_to(weights**2, x0.shape), xp.abs(x0) / weights
    order = xp.argsort(u0, axis=-1, descending=True, stable=True)
    a, u0 = xp.take_along_axis(a, order, axis=-1), xp.take_along_axis(u0, order, axis=-1)
    t = lam * xp.cumulative_sum(a * u0, axis=-1) / (1.0 + lam * xp.cumulative_sum(a, axis=-1))
    rank = xp.cumulative_sum(xp.ones_like(order), axis=-1)
    rho = xp.max(xp.where(u0 - t > 0, rank, xp.zeros_like(rank)), axis=-1)
    tau = xp.sum(xp.where(rank == rho[..., None], t, xp.zeros_like(t)), axis=-1)
    return rho, tau


def proposition_11(weights: Array, x0: Array, x: Array, lam: float) -> Array:
    """The number of non-zeros of x less rho (...,), a residual, for x the prox at x0 with d > 0.

    Source: Martins et al., Proposition 11 (12).
    """
    weights, x0, x = floats(weights=weights, x0=x0, x=x)
    xp = array_namespace(x)
    return xp.sum(xp.astype(x != 0, xp.int64), axis=-1) - split_point(weights, x0, lam)[0]


def equation_34(weights: Array, x0: Array, x: Array, lam: float) -> Array:
    """lam sum_m a_m u*_m - tau with a = d^2, u* = |x| / d and tau from :func:`split_point`, a residual (d > 0).

    Source: Martins et al., equation (34) (36), *corrected*: the paper has sum_m u*_m on the left.
    """
    weights, x0, x = floats(weights=weights, x0=x0, x=x)
    xp = array_namespace(x)
    return lam * xp.sum(weights * xp.abs(x), axis=-1) - split_point(weights, x0, lam)[1]


def _inner(x: Array, y: Array) -> Array:
    return array_namespace(x, y).sum(x * y, axis=-1)


def _square(x: Array) -> Array:
    return _inner(x, x)


def _group_of(groups: Any, i: int) -> int:
    return next(k for k, group in enumerate(groups) if i in group)
