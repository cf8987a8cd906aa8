"""Martins et al., section 3.1 and appendices A, B, F: residuals vanish, slacks stay positive, prints are wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.prox.test_prox import objective
from conformance.specimens import regularizers
from conformance.tolerances import close
from reference.identities import martins

every_kind = pytest.mark.parametrize("kind", regularizers.KINDS)


class Shifted:
    """A regularizer whose prox is off by a little: what each check must notice."""

    def __init__(self, phi, by):
        self.phi, self.by = phi, by

    def __getattr__(self, name):
        return getattr(self.phi, name)

    def prox(self, x, step_size=1.0):
        return self.phi.prox(x, step_size) + self.by


@every_kind
@given(data=st.data(), step=regularizers.STEPS)
def test_moreau_decomposition(backend, kind, data, step):
    p, make = data.draw(regularizers.instances(kind))
    phi, x = make(backend), data.draw(regularizers.points(p, 2))
    close(martins.moreau(phi, x, step), np.zeros((2, p)))
    close(martins.moreau_envelopes(phi, x, step), np.zeros(2), scale=10 * (1 + np.sum(x**2)))
    assert np.abs(martins.moreau(Shifted(phi, 1e-3), x, step)).max() > 1e-4


@every_kind
@given(data=st.data())
def test_lemma_7_and_corollary_3(backend, kind, data):
    p, make = data.draw(regularizers.instances(kind))
    phi, x, y = make(backend), data.draw(regularizers.points(p)), data.draw(regularizers.points(p))
    for other in (y, phi.prox(y), phi.prox(x) + 1e-4 * y):
        near = 1e-10 * (1 + np.sum(x**2) + np.sum(other**2))
        gap = martins.lemma_7(phi, x, other)
        assert gap >= -near
        assert martins.corollary_3(phi, x, other) >= -near
        sharper = martins.corollary_3_sharper(phi, x, other)
        assert sharper >= -near
        if np.isfinite(gap):
            np.testing.assert_allclose(sharper, 2 * gap, atol=near)


def test_lemma_7_fails_for_another_point(backend):
    """A point that is no prox has a y against it; Corollary 3, which is weaker, sees it where x is near its prox."""
    x, off = np.array([2.0, -0.5]), np.array([0.3, 0.0])
    for tau in (0.0, 1.0):
        phi = backend.L1(tau)
        wrong, y = Shifted(phi, off), phi.prox(x)
        assert martins.lemma_7(wrong, x, y) < -0.01
        assert martins.corollary_3_sharper(wrong, x, y) < -0.01
        assert (martins.corollary_3(wrong, x, y) < -0.01) == (tau == 0.0)


@given(data=st.data(), lam=regularizers.FACTORS, batch=st.sampled_from([(), (2,), (2, 2)]))
def test_proposition_1(backend, data, lam, batch):
    """Four functions of norms, even in each coordinate; groups of norm 0 come with the points."""
    groups, x = [[0, 3], [1], [2, 4]], data.draw(regularizers.points(5, *batch))
    for phi, psi in (
        (backend.SquaredL21(lam, groups), backend.SquaredL1(lam)),
        (backend.L21(lam, groups), backend.L1(lam)),
        (backend.L21Ball(lam, groups), backend.L1Ball(lam)),
        (backend.NonSparseMKL(lam, 2.0, groups), backend.HalfSquaredL2(lam)),
        (backend.HalfSquaredL2(lam), backend.HalfSquaredL2(lam)),
    ):
        close(martins.proposition_1(phi, psi, groups, x), np.zeros(x.shape))
        close(martins.proposition_1_envelope(phi, psi, groups, x), np.zeros(batch), scale=100.0)
    if np.any(x) and lam > 0:
        wrong = backend.L21(1.5 * lam, groups), backend.HalfSquaredL2(lam)
        assert np.any(martins.proposition_1(*wrong, groups, x)) and np.any(
            martins.proposition_1_envelope(*wrong, groups, x)
        )


@st.composite
def squared_weighted(draw):
    """x0, d > 0, lam: dyadic, so that sums are exact and the split point is decided, not rounded."""
    p = draw(st.integers(1, 6))
    x0 = np.array(draw(st.lists(st.integers(-6, 6).map(float), min_size=p, max_size=p)))
    d = np.array(draw(st.lists(st.sampled_from([0.5, 1.0, 2.0, 4.0]), min_size=p, max_size=p)))
    return x0, d, draw(st.sampled_from([0.25, 1.0, 3.0, 8.0]))


@given(instance=squared_weighted(), data=st.data())
def test_lemma_9(backend, instance, data):
    x0, d, lam = instance
    signs = np.array(data.draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=len(x0), max_size=len(x0))))
    phi = backend.WeightedSquaredL1(lam, d)
    assert martins.lemma_9_signs(x0, phi.prox(x0)) >= 0
    assert not np.any(martins.lemma_9_flips(phi, x0, signs))
    if np.any(x0):
        assert martins.lemma_9_signs(x0, -x0) < 0
    assert np.any(martins.lemma_9_flips(backend.Simplex(), np.array([2.0, 0.5]), np.array([-1.0, 1.0])))


@given(instance=squared_weighted())
def test_lemma_10_and_proposition_11(backend, instance):
    x0, d, lam = instance
    x = backend.prox_weighted_squared_l1(x0, d, lam)
    rho, tau = martins.split_point(d, x0, lam)
    assert martins.lemma_10(d, x0, x) == 0
    assert martins.proposition_11(d, x0, x, lam) == 0
    close(martins.equation_34(d, x0, x, lam), 0.0)
    u0 = np.sort(np.abs(x0) / d)[::-1]
    assert rho == 0 or u0[rho - 1] > tau  # (38)
    assert rho == len(u0) or tau >= u0[rho]


def test_the_split_point_can_be_missed(backend):
    d, x0, lam = np.array([1.0, 2.0, 1.0]), np.array([3.0, 4.0, 1.0]), 1.0
    x = backend.prox_weighted_squared_l1(x0, d, lam)
    assert np.count_nonzero(x) == 2
    swapped = np.where(x0 == 3.0, 0.0, np.where(x0 == 1.0, 0.5, x))  # the first coordinate vanishes before the last
    assert martins.lemma_10(d, x0, swapped) == -0.5
    assert martins.proposition_11(d, x0, swapped, lam) == 0
    assert martins.proposition_11(d, x0, x0, lam) == 1
    assert abs(martins.equation_34(d, x0, x0, lam)) > 1


@given(seed=st.integers(0, 10**6))
def test_lemma_10_by_its_exchange(seed):
    """Case (i), a_j <= a_k and u0_j < u0_k: the whole objective (31) falls by what the corrected line says."""
    rng = np.random.default_rng(seed)
    a, u0, lam, eps = rng.uniform(0.1, 2.0, 3), rng.normal(size=3), rng.uniform(0.0, 3.0), rng.uniform(0.1, 1.0)
    a[1], u0[1] = a[0] * rng.choice([1.0, 1.7]), u0[0] + rng.uniform(0.1, 1.0)

    def F(u):
        return 0.5 * np.sum(a * (u - u0) ** 2) + 0.5 * lam * np.sum(a * u) ** 2

    before, after = np.array([eps, 0.0, 0.3]), np.array([0.0, eps * a[0] / a[1], 0.3])
    corrected = eps**2 * (a[0] ** 2 / a[1] - a[0]) + 2 * a[0] * eps * (u0[0] - u0[1])
    np.testing.assert_allclose(2 * (F(after) - F(before)), corrected, atol=1e-12)
    assert corrected < 0
    np.testing.assert_allclose(martins.lemma_10_exchange(a[0], a[1], u0[0], u0[1], eps), 0.0, atol=1e-12)


@given(instance=squared_weighted())
def test_in_every_namespace(backend, space, instance):
    x0, d, lam = instance
    phi = backend.WeightedSquaredL1(lam, d)
    x0, d = space.put(x0), space.put(d)
    x = phi.prox(x0)
    for residual in (
        martins.moreau(phi, x0),
        martins.moreau_envelopes(phi, x0),
        martins.lemma_10(d, x0, x),
        martins.equation_34(d, x0, x, lam),
        martins.lemma_9_flips(phi, x0, -1.0 + 0.0 * x0),
    ):
        close(space.get(residual), 0.0 * space.get(residual), space.dtype, scale=100.0)
    assert int(space.get(martins.proposition_11(d, x0, x, lam))) == 0
    assert float(space.get(martins.lemma_9_signs(x0, x))) >= 0
    for slack in (martins.lemma_7, martins.corollary_3, martins.corollary_3_sharper):
        assert float(space.get(slack(phi, x0, 0.5 * x0))) >= -1e-2
    groups = [[i] for i in range(x0.shape[-1])]
    close(space.get(martins.proposition_1(phi, phi, groups, x0)), np.zeros(x0.shape), space.dtype, scale=10.0)
    close(space.get(martins.proposition_1_envelope(phi, phi, groups, x0)), 0.0, space.dtype, scale=100.0)


# printed forms, each executed as printed and shown to be wrong --------------------------------------------------------


def algorithm_2_as_printed(x, lam):
    y = np.sort(np.abs(x))[::-1]
    rho = max(j for j in range(1, len(y) + 1) if y[j - 1] - lam / (1 + j * lam) * y[:j].sum() > 0)
    tau = lam / (1 + rho * lam) * y[:rho].sum()
    return np.sign(x) * np.maximum(np.abs(x) - tau, 0)


def algorithm_4_as_printed(x, d, lam):
    with np.errstate(divide="ignore", invalid="ignore"):
        u, a = np.abs(x) / d, d**2
        order = np.argsort(-u)
        S, A = np.cumsum((a * u)[order]), np.cumsum(a[order])
        rho = np.flatnonzero(u[order] - lam / (1 + lam * A) * S > 0)[-1]
        return np.sign(x) * d * np.maximum(u - lam / (1 + lam * A[rho]) * S[rho], 0)


def test_proposition_1_needs_an_even_function(backend):
    """psi(u) = u, one group of one coordinate, x = 0.5: the reduction gives prox_psi(0.5) = -0.5; phi = |.| gives 0."""
    x = np.array([0.5])
    as_printed = (np.abs(x) - 1.0) * x / np.abs(x)
    phi = backend.L21(1.0, [[0]])
    assert phi.prox(x)[0] == 0.0 and as_printed[0] == -0.5
    assert objective(phi, phi.prox(x), x, 1.0) < objective(phi, as_printed, x, 1.0) - 0.1


def test_proposition_1_at_a_group_of_norm_zero(backend):
    x, groups = np.array([0.0, 0.0, 2.0]), [[0, 1], [2]]
    norms = np.array([0.0, 2.0])
    with np.errstate(invalid="ignore"):
        factors = backend.prox_squared_l1(norms, 1.0) / norms
    assert np.isnan(factors[0])
    np.testing.assert_allclose(backend.SquaredL21(1.0, groups).prox(x), [0.0, 0.0, 1.0])


def test_algorithm_2_is_undefined_at_zero(backend):
    with pytest.raises(ValueError, match=r"(empty|max\(\))"):
        algorithm_2_as_printed(np.zeros(3), 1.0)
    assert np.array_equal(backend.prox_squared_l1(np.zeros(3), 1.0), np.zeros(3))
    x = np.array([3.0, -1.0, 0.5, 0.0])
    np.testing.assert_allclose(backend.prox_squared_l1(x, 0.3), algorithm_2_as_printed(x, 0.3), atol=1e-15)


def test_algorithm_4_divides_by_weights_of_zero(backend):
    x, d = np.array([2.0, 5.0]), np.array([1.0, 0.0])
    with pytest.raises(IndexError):  # 5/0 comes first and 0 * inf is no number: every threshold is nan, there is no rho
        algorithm_4_as_printed(x, d, 1.0)
    np.testing.assert_allclose(backend.prox_weighted_squared_l1(x, d, 1.0), [1.0, 5.0])
    d = np.array([1.0, 2.0])
    np.testing.assert_allclose(
        backend.prox_weighted_squared_l1(x, d, 1.0), algorithm_4_as_printed(x, d, 1.0), atol=1e-15
    )


def test_algorithm_3_means_half_the_square(backend):
    """Line 8 writes prox of eta lam ||.||^2 and calls Algorithm 2 with eta lam, which is the prox of half of that."""
    x, half, whole = np.array([3.0, -1.0]), backend.SquaredL1(1.0), backend.SquaredL1(2.0)
    np.testing.assert_allclose(algorithm_2_as_printed(x, 1.0), [1.5, 0.0])
    np.testing.assert_allclose(half.prox(x), [1.5, 0.0])
    np.testing.assert_allclose(whole.prox(x), [1.0, 0.0])  # the prox of ||.||_1^2
    assert objective(whole, whole.prox(x), x, 1.0) < objective(whole, half.prox(x), x, 1.0) - 0.1


@pytest.mark.parametrize("q", [1.0, 1.5, 3.0])
def test_the_equation_of_non_sparse_mkl_has_half_the_factor(backend, q):
    """The root of the printed x - x0 + lam eta q x^(q-1) = 0 is beaten by the root with half the factor; at q = 1 and
    x0 < lam eta it is negative, where the prox is 0."""
    lam, x0 = 1.0, 2.0
    phi = backend.NonSparseMKL(lam, q, [[0]])
    (x,) = phi.prox([x0])
    np.testing.assert_allclose(x - x0 + 0.5 * lam * q * x ** (q - 1.0), 0.0, atol=1e-14)
    low, high = 0.0, x0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle - x0 + lam * q * middle ** (q - 1.0) < 0 else (low, middle)
    assert np.array_equal(backend.NonSparseMKL(lam, 1.0, [[0]]).prox([0.1]), [0.0])
    there = np.array([x0])
    assert objective(phi, np.array([x]), there, 1.0) < objective(phi, np.array([low]), there, 1.0) - 1e-2


def test_equations_34_and_37_as_printed(backend):
    """(34): one coordinate, d = 2, x0 = 1, lam = 1: sum u = 0.1, sum a u = 0.4, and the right side is 0.4. (37): at a
    coordinate that vanishes, -u0 + lam sum a u = xi / a with xi the multiplier of u >= 0; printed: xi."""
    for d, x0 in ((np.array([2.0]), np.array([1.0])), (np.array([1.0, 2.0]), np.array([3.0, 0.1]))):
        x = backend.prox_weighted_squared_l1(x0, d, 1.0)
        a, u, u0 = d**2, np.abs(x) / d, np.abs(x0) / d
        np.testing.assert_allclose(martins.equation_34(d, x0, x, 1.0), 0.0, atol=1e-15)
        if len(d) == 1:
            np.testing.assert_allclose([np.sum(u), np.sum(a * u), np.sum(a * u0) / (1 + np.sum(a))], [0.1, 0.4, 0.4])
    xi = a * (u - u0) + np.sum(a * u) * a  # equation (32)
    left = -u0[1] + np.sum(a * u)
    np.testing.assert_allclose(left, xi[1] / a[1])
    assert x[1] == 0 and abs(left - xi[1]) > 0.1


def test_lemma_10_needs_the_term_that_the_print_lacks():
    """Equal weights: the printed change of the objective is 0 and contradicts nothing; the true one is negative."""
    a, u0_j, u0_k, eps = 1.0, 1.0, 2.0, 0.5
    as_printed = eps**2 * (a**2 / a - a)
    true = a * (u0_j**2 - (eps - u0_j) ** 2) + a * ((eps - u0_k) ** 2 - u0_k**2)
    assert as_printed == 0 and true == -1.0
    assert martins.lemma_10_exchange(a, a, u0_j, u0_k, eps) == 0


def test_the_order_of_the_proxes_matters(backend):
    """ "Two proximal steps": l1 first is the prox of the sum; the group first is not, nor are groups that cross."""
    x, groups = np.array([2.0, 1.5, 1.5]), [[0, 1, 2]]
    l1, l21 = backend.L1(1.0), backend.L21(1.0, groups)
    right, wrong = backend.Sequential([l1, l21]), backend.Sequential([l21, l1])
    assert right.exact and not wrong.exact
    assert objective(right, right.prox(x), x, 1.0) < objective(right, wrong.prox(x), x, 1.0) - 1e-2
    crossing = backend.Sequential([backend.L21(1.0, [[0, 1]]), backend.L21(1.0, [[1, 2]])])
    better = np.array([1.09, 0.5, 0.69])
    assert objective(crossing, better, x, 1.0) < objective(crossing, crossing.prox(x), x, 1.0) - 1e-2


# section 2 and section 3.2: one problem in three forms ---------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.03, 1.0, 30.0])
def test_group_lasso_and_the_ball_are_mkl_for_another_lam(backend, rng, lam):
    """The optimum w of lam/2 ||.||_{2,1}^2 is that of lam ||w||_{2,1} ||.||_{2,1}, and that in the ball of radius
    ||w||_{2,1}; from the optimum of the group lasso or of a ball the way back leads to the same point.
    """
    groups, (A, y) = [[0, 1], [2, 3], [4, 5]], (rng.normal(size=(9, 6)), rng.normal(size=9))
    step = 1.0 / np.linalg.norm(A, 2) ** 2

    def after_a_step(phi, w):
        return phi.prox(w - step * A.T @ (A @ w - y), step)

    def optimum(phi):
        w, before, steps = np.zeros(6), np.ones(6), 0
        while steps < 3000 and not np.array_equal(w, before):
            w, before, steps = after_a_step(phi, w), w, steps + 1
        return w

    def size(w):
        return float(sum(np.linalg.norm(w[group]) for group in groups))

    w = optimum(backend.SquaredL21(lam, groups))
    assert size(w) > 0
    for phi in (backend.L21(lam * size(w), groups), backend.L21Ball(size(w), groups)):
        close(after_a_step(phi, w), w)
        assert np.abs(after_a_step(phi, w + 0.01) - w - 0.01).max() > 1e-4
    largest = max(np.linalg.norm((A.T @ y)[group]) for group in groups)  # above it, the group lasso's optimum is 0
    v = optimum(backend.L21(0.5 * largest, groups))
    close(after_a_step(backend.SquaredL21(0.5 * largest / size(v), groups), v), v)
    assert not np.any(optimum(backend.L21(1.001 * largest, groups))) and np.any(
        optimum(backend.SquaredL21(1e6, groups))
    )
