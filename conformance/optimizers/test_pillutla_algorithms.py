"""What Pillutla et al. prove of the Casimir algorithm, on small problems whose minimum is known, and of prox-linear, on
sines of linear maps, whose smoothness is known. See ``conformance/identities`` for the lemmas.

Casimir is the package's box with an inner solver as inexact as it may be: each subproblem is solved exactly, and the
answer then moved away until the stopping criterion (26) holds with equality.
"""

from __future__ import annotations

import functools
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, linprog, minimize

import reference
from conformance.sines import exact_step, exactly, hinge, least_of_planes, sines
from conformance.tolerances import close
from reference import algorithms, bounds
from reference.identities import pillutla as law
from reference.linearized import LinearizedObjective
from reference.optimizers.prox_linear import regularised

SMOOTHERS = {"entropy": (1, reference.smoothings.Entropy()), "l2": (2, reference.smoothings.SquaredL2())}
CHOICES = {
    "17": lambda kappa, mu: bounds.Corollary17(0.3, kappa, mu),
    "18": lambda kappa, mu: bounds.Corollary18(0.3, kappa, mu),
    "19": bounds.Corollary19,
    "20": bounds.Corollary20,
}


class Problem:
    """F(w) = mean_i max_y (A_i w + b_i)_y + lam/2 ||w||^2 over n examples of m listed outputs, the first one true."""

    def __init__(self, seed, kind, lam, n=3, m=4, d=3):
        rng = np.random.default_rng(seed)
        self.A, self.b = rng.normal(size=(n, m, d)), rng.uniform(0, 1, (n, m))
        if seed % 2:  # integers: outputs tie
            self.A, self.b = np.round(self.A), np.round(self.b)
        self.A[:, 0], self.b[:, 0] = 0.0, 0.0
        self.lam, self.w0 = lam, 2 * rng.normal(size=d)
        self.alpha, self.smoothing = SMOOTHERS[kind]
        self.D = self.smoothing.width(m)

    def value_and_gradient(self, w, mu=0.0):
        z = self.A @ w + self.b
        if mu == 0:
            return z.max(axis=1).mean() + self.lam / 2 * w @ w, None
        value, u = self.smoothing(reference.Table(z), mu)
        gradient = np.einsum("im,imd->d", u.values, self.A) / len(z) + self.lam * w
        return value.mean() + self.lam / 2 * w @ w, gradient

    def value(self, w, mu=0.0):
        return self.value_and_gradient(w, mu)[0]

    def subproblem(self, w, z, mu, kappa):
        value, gradient = self.value_and_gradient(w, mu)
        return value + kappa / 2 * (w - z) @ (w - z), gradient + kappa * (w - z)

    def smoothness(self, mu):
        """L of F_mu: the largest example's, and the regulariser's lam."""
        return max(bounds.smoothness(float(law.operator_norm(A, self.alpha)), mu) for A in self.A) + self.lam

    @functools.cached_property
    def optimum(self):
        """A minimiser of F, as a quadratic or a linear program."""
        if self.lam > 0:
            return least_of_planes(self.A, self.b, self.lam)[0]
        n, m, d = self.A.shape
        rows = np.concatenate([np.hstack([A, np.tile(-np.eye(n)[i], (m, 1))]) for i, A in enumerate(self.A)])
        costs = np.concatenate([np.zeros(d), np.full(n, 1 / n)])
        solved = linprog(costs, A_ub=rows, b_ub=-self.b.ravel(), bounds=[(None, None)] * (d + n))
        assert abs(self.value(solved.x[:d]) - solved.fun) < 1e-9
        return solved.x[:d]


def solve(problem, z, mu, kappa):
    """The minimiser of a subproblem and its minimum."""
    found = minimize(problem.subproblem, z, args=(z, mu, kappa), jac=True, method="BFGS", options={"gtol": 1e-11})
    assert np.linalg.norm(found.jac) < 1e-6
    return found.x, found.fun


class Inexact:
    """An inner solver that ends where (26) holds with equality."""

    def __init__(self, problem, rng):
        self.problem, self.rng = problem, rng

    def minimize(self, subproblem, start, delta, memory, rng):
        z, mu, kappa = subproblem.center, subproblem.mu, subproblem.kappa
        exact, least = solve(self.problem, z, mu, kappa)
        direction = self.rng.normal(size=len(z))

        def slack(t):
            w = exact + t * direction / np.linalg.norm(direction)
            gap = self.problem.subproblem(w, z, mu, kappa)[0] - least
            return law.relative_accuracy_slack(gap, w, z, delta=delta, kappa=kappa)

        far = brentq(slack, 0.0, 10.0) if slack(0.0) > 0 else 0.0
        return exact + far * direction / np.linalg.norm(direction), None


@pytest.mark.parametrize("corollary", CHOICES)
@pytest.mark.parametrize("kind", SMOOTHERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_run_keeps_the_promise(corollary, kind, seed):
    """Theorem 16 and Corollaries 17 to 20 bound F(w_k) - min F, for ten steps of Algorithm 4."""
    rng = np.random.default_rng(100 + seed)
    choice = CHOICES[corollary](10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-1.5, 0))
    problem = Problem(seed, kind, choice.lam)
    least = problem.value(problem.optimum)
    gap, distance = problem.value(problem.w0) - least, float(np.linalg.norm(problem.w0 - problem.optimum))
    delta_0 = bounds.start_gap(choice, gap, distance)
    box = algorithms.Casimir(choice, Inexact(problem, rng))
    state = box.init(None, problem.w0)
    for k, rate in zip(range(1, 11), bounds.casimir_rates(choice), strict=False):
        state = box.epoch(None, state, None)
        reached = problem.value(state.w) - least
        assert reached <= rate.bound(delta_0, problem.D) + 1e-7
        assert reached <= choice.bound(k, gap, distance, problem.D) + 1e-7
    if corollary != "19":  # one who stays at w_0 breaks the promise, so it says something
        assert choice.bound(10**6, gap, distance, 0.0) < 1e-2 * gap


@pytest.mark.parametrize("kind", SMOOTHERS)
@pytest.mark.parametrize("lam", [0.0, 0.3])
@pytest.mark.parametrize("kappa", [0.1, 3.0])
def test_gradient_descent_is_as_fast_as_proposition_27_says(kind, lam, kappa):
    """C = 1 and tau = (lam + kappa)/(L + kappa) for gradient steps of length 1/(L + kappa), started at the prox
    center.
    """
    problem, mu, delta = Problem(1, kind, lam), 0.2, 0.3
    z = problem.w0
    _, least = solve(problem, z, mu, kappa)
    L = problem.smoothness(mu)
    w, T, held = z, 0, False
    while not held:
        value, gradient = problem.subproblem(w, z, mu, kappa)
        held = law.relative_accuracy_slack(value - least, w, z, delta=delta, kappa=kappa) >= 0
        w, T = w - gradient / (L + kappa), T + (not held)
    tau = (lam + kappa) / (L + kappa)
    assert 0 < T <= bounds.inner_iterations(tau, 1.0, L=L, kappa=kappa, delta=delta)


def test_lemmas_in_every_namespace(space, rng):
    """Lemma 51 and Claim 24; with eta > alpha the slack of Claim 24, eta (alpha - eta) ||w - v||^2, is negative."""
    points = rng.normal(size=(3, 3))
    given = [space.put(x) for x in points]
    for theta in (1e-3, 0.5, 3.0, 1e3):
        found, expected = law.three_points_slack(*given, theta), law.three_points_slack(*points, theta)
        close([float(space.get(x)) for x in found], expected, space.dtype, 1e4)
    for eta in (0.0, 0.3, 0.5, 0.75):
        slack, residual = (float(space.get(x)) for x in law.prox_center_slack(0.5, eta, *given))
        close([slack, residual], [eta * (0.5 - eta) * np.sum((points[1] - points[2]) ** 2), 0.0], space.dtype, 1e2)


def test_three_points_is_tight_and_needs_a_positive_theta():
    w, r = np.array([1.0, 0.0]), np.zeros(2)
    assert law.three_points_slack(w, 2 * w, r, 2.0)[0] == 0.0
    assert law.three_points_slack(w, r, r, -1.0)[0] < 0


def test_lemma_22_needs_a_positive_theta():
    """It is printed for all theta < 1. F = 0, lam = 0, kappa = 1, z = 0, w = 1/2, w' = 0: at theta = -1 it says 1/8
    <= -1/8.
    """
    w, other, gap = np.array([0.5]), np.array([0.0]), 0.125
    assert gap / -1.0 < 0.5 * 0.25 + 0.5 * (1 - -1.0) * 0.25
    with pytest.raises(ValueError, match="theta: expected a number between 0 and 1, both excluded, got -1.0"):
        law.approximate_prox_slack(0.0, gap, w, 0.0, other, other, theta=-1.0, lam=0.0, kappa=1.0)
    for theta in (0.01, 0.5, 0.99):
        assert law.approximate_prox_slack(0.0, gap, w, 0.0, other, other, theta=theta, lam=0.0, kappa=1.0) >= 0
    # with the gap of the point understated the slack is negative
    assert law.approximate_prox_slack(0.0, 0.01, w, 0.0, other, other, theta=0.5, lam=0.0, kappa=1.0) < 0


STEPS = 10
seeds = given(seed=st.integers(0, 2**32 - 1))


def problem(backend, rng, smoothing="Max", amplitude=1.0):
    objective = hinge(backend, rng, smoothing, n=3, m=3, d=2, amplitude=amplitude)
    return objective, objective.model.smoothness(objective.data)


def one_example(maps, losses):
    """One example of two outputs, the first one true: the hinge, and the model's smoothness."""
    model, data = sines(reference, np.random.default_rng(0), n=1, m=2, d=1)
    data = data._replace(maps=np.array([[[maps[0]], [maps[1]]]]), best=np.array([0]), losses=np.array([losses]))
    return reference.StructuralHinge(model, data), model.smoothness(data)


@seeds
def test_lemma_34(backend, seed):
    """How far the linearised hinge, smoothed or not, is from the hinge, both ways."""
    rng = np.random.default_rng(seed)
    objective, L = problem(backend, rng, "Entropy", amplitude=float(rng.choice([1.0, -3.0])))
    w, z = rng.normal(size=2), rng.normal(size=2) * 10 ** rng.uniform(-3, 1)
    convex = LinearizedObjective(objective, w)
    for mu in (0.0, 0.5):
        value = objective.value_and_gradient(w + z, None, mu)[0]
        near = convex.value_and_gradient(z, None, mu)[0]
        assert law.linearization_slack(value, near, z, L) >= -1e-12 * max(1, abs(value), abs(near))


OUTER = {  # G-Lipschitz in the Euclidean norm, and G
    "max": (np.max, 1.0),
    "log sum exp": (lambda u: np.logaddexp.reduce(u), 1.0),
    "l1": (lambda u: np.sum(np.abs(u)), 2.0),
    "l2": (lambda u: 3.0 * np.linalg.norm(u), 3.0),
}


@pytest.mark.parametrize("outer", OUTER)
@seeds
def test_assumption_33_holds_with_g_times_the_smoothness_of_the_scores(outer, seed):
    """L = G L~, for four smooth scores under a G-Lipschitz function; 3 ||.|| attains it."""
    rng, (h, G) = np.random.default_rng(seed), OUTER[outer]
    A, (w, z) = rng.normal(size=(4, 3)), rng.normal(size=(2, 3)) * 10 ** rng.uniform(-2, 1, (2, 1))
    # sines of A w: the Jacobian diag(cos(A w)) A changes by at most the largest row norm times the spectral norm
    value, near = h(np.sin(A @ (w + z))), h(np.sin(A @ w) + np.cos(A @ w) * (A @ z))
    smooth = np.linalg.norm(A, axis=1).max() * np.linalg.norm(A, 2)
    assert law.linearization_slack(value, near, z, G * smooth) >= -1e-12 * max(1, abs(value), abs(near))
    # squares s u^2/2 of each weight, from 0 along the steepest: L~ = max s
    s, t = rng.uniform(0.5, 2.0, 4), rng.uniform(0.1, 3.0)
    along = np.where(s == s.max(), t, 0.0)
    slack = law.linearization_slack(h(0.5 * s * along**2), h(np.zeros(4)), along, G * s.max())
    assert slack >= -1e-12
    if outer == "l2":
        close(slack, 0.0, scale=t * t)
        assert law.linearization_slack(h(0.5 * s * along**2), 0.0, along, 0.99 * G * s.max()) < 0


def test_lemma_34_has_the_true_output_in_it():
    """score_y = sin(w + y): each is 1-smooth, but the augmented score of another output with L = 1 is not; with
    L = 2 it is.
    """
    objective, L = one_example([1.0, -1.0], [0.0, 1.0])
    assert L == 2
    slacks = {1: [], 2: []}
    for w in np.linspace(-3, 3, 61):
        convex = LinearizedObjective(objective, np.array([w]))
        for z in (-0.2, 0.2):
            z = np.array([z])
            value, near = objective.value_and_gradient(w + z)[0], convex.value_and_gradient(z)[0]
            for L, found in slacks.items():
                found.append(law.linearization_slack(value, near, z, L))
    assert min(slacks[2]) >= -1e-12 and min(slacks[1]) < -1e-3


def run_with_tolerances(backend, accept, seed):
    """Steps whose subproblems are solved to exactly their tolerances eps_k: the objective, lam, eta, points, eps."""
    rng = np.random.default_rng(seed)
    objective, L = problem(backend, rng)
    lam, eps, points = (
        [0.0, 0.2][seed % 2],
        10 ** rng.uniform(-3, 0) / np.arange(1, STEPS + 1),
        [2 * rng.normal(size=2)],
    )

    def as_bad_as_allowed(p):
        """The optimum, moved until its gap is eps_k."""
        exact, u = exactly(p), rng.normal(size=2)

        def gap(t):
            v = exact.x + t * u
            return p.objective.value_and_gradient(v)[0] + p.lam / 2 * v @ v - exact.fun

        t = brentq(lambda t: gap(t) - eps[len(points) - 1], 0.0, 10.0)
        return reference.Result(exact.x + t * u, exact.fun, 1, True, "", "last", objective.n, float(gap(t)), ())

    options = {"lam": lam, "eta": 1 / L, "inner": as_bad_as_allowed, "accept": accept, "fixed_eta": True}
    backend.prox_linear(objective, points[0], iterations=STEPS, callback=lambda row, x: points.append(x), **options)
    return objective, lam, 1 / L, np.array(points), eps


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("accept", ["decrease", "always"])
def test_theorem_35(backend, accept, seed):
    """With tolerances used up: every step's descent, and the bound after each K. F never grows where steps are accepted
    by its decrease; where they always are it can, by Remark 36."""
    objective, lam, eta, points, eps = run_with_tolerances(backend, accept, seed)
    F = lambda x: regularised(objective, x, lam)  # noqa: E731
    values, exact = [F(x) for x in points], [exact_step(objective, x, lam, eta)[0] for x in points[:-1]]
    for j, (x, z) in enumerate(zip(points[:-1], exact, strict=True)):
        slack = law.prox_linear_descent_slack(values[j], values[j + 1], x, z, eta=eta, tolerance=eps[j])
        assert slack >= -1e-6
    starts = [points[-1], *np.random.default_rng(seed).normal(size=(4, 2)) * 3]
    least = min(minimize(F, x0, method="Nelder-Mead", options={"xatol": 1e-8}).fun for x0 in starts)
    squares = np.sum((points[:-1] - exact) ** 2, axis=1) / eta**2
    for K in range(1, STEPS + 1):
        bound = bounds.stationarity(eta, values[0] - min(least, *values), eps[:K].tolist())
        assert np.min(squares[:K]) <= bound + 1e-6
    assert np.any(np.diff(values) > 0) == (accept == "always")


def test_theorem_35_needs_short_steps():
    """F(w) = max(0, 5 + sin(w + 1)), L = 1: at w = -1 the tangent falls for ever, and eta = 100 follows it by 5, to
    where F is larger.
    """
    (objective, L), w, slacks = one_example([0.0, 1.0], [0.0, 5.0]), np.array([-1.0]), []
    assert L == 1
    for eta in (1.0, 100.0):
        exact, _ = exact_step(objective, w, 0.0, eta)
        before, after = (regularised(objective, x, 0.0) for x in (w, exact))
        slacks.append(law.prox_linear_descent_slack(before, after, w, exact, eta=eta, tolerance=0.0))
    assert slacks[0] >= -1e-9 and slacks[1] < -0.9


def test_the_printed_inexactness_test_allows_a_gap_of_50():
    """lam = 0, eta = 10, eps = 1: (lam + 1/eta) ||v||^2 <= eps lets v = sqrt(10) through; for F_eta = w^2/20 its gap
    is 50.
    """
    lam, eta, eps = 0.0, 10.0, 1.0
    v = np.array([sqrt(eps / (lam + 1 / eta))])
    w = v * eta  # where the gradient of w^2/(2 eta) is v
    assert (lam + 1 / eta) * float(v @ v) <= eps * (1 + 1e-12) and float(w @ w) / (2 * eta) == pytest.approx(50)
    assert law.inexactness_slack(v, lam=lam, eta=eta, tolerance=eps) < 0


@given(
    accuracy=st.floats(0.05, 2),
    eta=st.floats(0.01, 10),
    gap=st.floats(0, 10),
    eps_0=st.floats(0.01, 5),
    more=st.integers(0, 50),
)
def test_steps_of_proposition_37(accuracy, eta, gap, eps_0, more):
    """From the number of steps on, Theorem 35 with eps_k = eps_0/k is at most accuracy^2: sum 1/k <= 4 log K,
    K >= 2.
    """
    K = bounds.prox_linear_steps(accuracy, eta, gap, eps_0) + more
    harmonic = log(K) + 0.5772157 + 1 / (2 * K) if K > 1000 else sum(1 / k for k in range(1, K + 1))
    assert harmonic <= 4 * log(K)
    assert 2 / (eta * K) * (gap + eps_0 * harmonic) <= accuracy**2 * (1 + 1e-9)


def test_a_bound_of_accuracy_is_not_enough():
    """The proof asks for (2/(eta K)) (...) <= accuracy. F(w) = max(0, 1 - s w): rho = s until 1/(eta s^2) steps, s
    just above the accuracy.
    """
    accuracy, eta = 0.1, 1.0
    s = 1.01 * accuracy
    K = int(np.ceil(2 * 1.0 / (eta * accuracy)))  # enough by the printed inequality, subproblems being exact
    assert 2 / (eta * K) * 1.0 <= accuracy
    w, least = 0.0, np.inf
    for _ in range(K):
        following = min(w + eta * s, 1 / s)  # the proximal step
        w, least = following, min(least, abs(following - w) / eta)
    assert least > accuracy and least**2 <= bounds.stationarity(eta, 1.0, [0.0] * K)


def test_remark_38(backend, rng):
    """Task losses >= 0 make F >= 0 (the true output is one of the outputs), so that F(w_0) bounds F(w_0) - F*."""
    for _ in range(20):
        objective, _ = problem(backend, rng, amplitude=4.0)
        assert objective.value_and_gradient(3 * rng.normal(size=2))[0] >= 0
    model, data = objective.model, objective.data
    with pytest.raises(ValueError, match="task_loss: expected 0 for the true output, got -1.0 in example 0"):
        backend.StructuralHinge(model, data._replace(losses=-1.0 - data.losses))  # F could be negative


@given(seed=st.integers(0, 2**31), delta=st.sampled_from([1e-3, 0.5, 1.0]))
def test_the_criteria_of_inner_solvers_agree_on_the_roundest_problem(seed, delta):
    """Curvature lam + kappa in all directions: the gap is ||gradient||^2 / (2 (lam + kappa)), and the criterion by the
    gradient is (26) itself; elsewhere it is stricter."""
    rng = np.random.default_rng(seed)
    lam, kappa, w, z, least = *rng.uniform(0.1, 3.0, 2), *rng.normal(size=(3, 4))
    gradient, given = (lam + kappa) * (w - least), {"delta": delta, "kappa": kappa}
    slack = law.relative_accuracy_slack(gradient @ gradient / (2 * (lam + kappa)), w, z, **given)
    close(law.gradient_accuracy_slack(gradient, w, z, lam=lam, **given), 2 * (lam + kappa) * slack, scale=100.0)
