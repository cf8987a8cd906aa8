"""Laws at the edges that single changes of the readable panel cross: thresholds, defaults, resets, allowed zeros, and
constants of bounds and of inner solvers.
"""

from __future__ import annotations

import sys
from decimal import Decimal, localcontext
from types import SimpleNamespace

import numpy as np
import pytest

import reference
from conformance.finite_sums import Logistic
from conformance.specimens.rules import random_classes
from conformance.tolerances import close
from reference.optimizers.multisample import updated
from reference.screening.problem import _divergence
from reference.screening.proximal import curvature_along_gradient
from reference.screening.ranges import column_norms
from reference.screening.scored import Whole
from reference.smoothings import certified, positive_mu
from reference.steps import CheckedSchedule
from reference.training import prox_linear


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_certified_is_equation_12(rng, k):
    """mu <= sum_{i <= k} (psi_i - psi_{k+1}) decides, a millionth to either side; a boolean a row, whether more
    outputs than k are given or not.
    """
    for scale in (1e-3, 1.0, 1e6):
        psi = scale * np.sort(rng.normal(size=7))[::-1]
        total = float(np.sum(psi[:k] - psi[k]))
        assert bool(certified(psi, k, total * (1 - 1e-6)))
        assert not bool(certified(psi, k, total * (1 + 1e-6)))
    rows = np.sort(np.arange(24.0).reshape(2, 3, 4), axis=-1)[..., ::-1]
    assert certified(rows, k, 1.0).shape == (2, 3)


def test_the_temperature_is_1_unless_given(backend, rng):
    """Of smoothings, sampled corners, the partition of trees and the log loss; at 2 they say something else."""
    objective, _ = random_classes(backend, rng)
    hinge, w = backend.StructuralHinge(objective.model, objective.data), rng.normal(size=objective.model.size)
    table, trees = backend.Table(rng.normal(size=6)), backend.Arborescence(rng.normal(size=(4, 5)))

    def draws(**mu):
        return np.stack([hinge.sampled_corners(w, None, 2, rng=seed, **mu).directions for seed in range(20)])

    def answer(value, gradient):
        return np.append(np.ravel(gradient.values), float(value))

    smoothings = backend.smoothings.Entropy(), backend.smoothings.SquaredL2(), backend.smoothings.TopK(3)
    asked = [lambda smoothing=each, **mu: answer(*smoothing(table, **mu)) for each in smoothings]
    for ask in (*asked, draws, lambda **mu: answer(*trees.ops.tree_partition(trees.scores, **mu))):
        assert np.array_equal(ask(), ask(mu=1.0)) and not np.array_equal(ask(), ask(mu=2.0))
    for smoothing in smoothings:
        close(float(smoothing.smoothed(table).value), float(smoothing(table)[0]))
    assert objective.mu == 1.0
    close(objective.value_and_gradient(w)[0], objective.value_and_gradient(w, None, objective.mu)[0])


def test_steps_may_be_zero_where_there_is_no_prox(backend, rng):
    """SGD takes steps of 0, which leave w where it was."""
    objective, _ = random_classes(backend, rng)
    w0 = rng.normal(size=objective.model.size)
    zero = lambda t, lam: np.zeros(t.shape)  # noqa: E731
    result = backend.sgd(objective, lam=0.1, step_size=zero, epochs=1, w0=w0, rng=0, average="last")
    assert np.array_equal(np.asarray(result.x), w0)
    with pytest.raises(ValueError, match="step_size: expected 2 finite steps > 0"):
        CheckedSchedule(zero, positive=True)(np.arange(1, 3), 0.1)


def test_momentum_is_reset_where_a_weight_that_is_not_zero_leaves(backend, rng):
    """Of the weights that leave, one in w or in the iterate before suffices; where all are 0, momentum goes on."""
    objective, _ = random_classes(backend, rng)
    problem, solver = backend.ElasticNetCRF(objective, alpha=1.0, beta=0.1), backend.AcceleratedProximalGradient()
    w = rng.normal(size=problem.size)
    w[:2] = 0.0
    before = 0.5 * w
    before[2] = 0.0
    for leaving, changed, reset in (([0, 1], 0.0, False), ([0, 2], 0.0, True), ([0, 1], 1.0, True)):
        before[1] = changed
        memory = solver.start(problem.evaluate(w))
        memory = memory._replace(before=before.copy(), before_scores=problem.scored.forward(before), t=2.0, c=0.25)
        kept = np.setdiff1d(np.arange(problem.size), leaving)
        smaller, _ = problem.narrowed(memory.state, kept)
        left = solver.narrow(memory, smaller, kept)
        assert (left.c, left.t) == ((0.0, 1.0) if reset else (0.25, 2.0))
        assert np.array_equal(left.before, w[kept] if reset else before[kept])


def test_a_divergence_of_two_losses_allows_for_their_rounding(backend, rng):
    """KL = F(w) - F(y) - <G(y), w - y> at y = w is 0 up to the rounding of F, which a certificate must include."""
    objective, _ = random_classes(backend, rng)
    problem = backend.ElasticNetCRF(objective, alpha=1.0, beta=0.1)
    w = 100.0 * rng.normal(size=problem.size)
    at_w = problem.evaluate(w)
    assert at_w.loss > 10 and at_w.divergence == 0
    apart = problem.state(w, at_w.loss, w.copy(), at_w.answer)
    assert problem.eps * at_w.loss <= apart.divergence <= 1000 * problem.eps * (1 + at_w.loss)


def test_a_block_with_a_mixture_is_solved_exactly(rng):
    """The weights of a mixture and new samples maximise <b, a> - <a, Q a>/2 over a >= 0, sum a <= 1.

    So they do for classes, too, whose closed form does not hold beside a mixture.
    """
    objective, _ = random_classes(reference, rng)
    hinge = reference.StructuralHinge(objective.model, objective.data)
    x, lam_t = rng.normal(size=objective.model.size), 3.0
    for _ in range(10):
        V, losses, start = rng.normal(size=(4, len(x))), rng.random(4), np.array([0.5, 0.0, 0.0, 0.0])
        alpha = updated(hinge, x, V, losses, start, lam_t, "exact")
        Q = V @ V.T / lam_t
        slope = losses + V @ x + Q @ start - Q @ alpha  # of the dual; at most the multiplier, and that where alpha > 0
        multiplier = max(0.0, float(np.max(slope)))
        assert np.all(alpha >= 0) and alpha.sum() <= 1 + 1e-12
        np.testing.assert_allclose(alpha * (slope - multiplier), 0.0, atol=1e-9)
        assert multiplier <= 1e-9 or alpha.sum() >= 1 - 1e-9


@pytest.mark.parametrize("rest", [0.5, 1e-2, 1e-5, 1e-9])
def test_divergences_keep_their_digits_near_one(rest):
    """KL(s theta + (1 - s) e_1 || theta) of two outputs against 50 digits; at s near 1 it is about (1 - s)^2."""
    s = 1.0 - rest
    with localcontext(prec=50):
        for loss in (0.01, 0.5, 3.0):
            theta = (-Decimal(loss)).exp()
            p = theta + (1 - Decimal(s)) * (1 - theta)
            expected = p * (p / theta).ln() + (1 - p) * ((1 - p) / (1 - theta)).ln()
            assert abs(float(_divergence(np.array([loss]), s)[0]) / float(expected) - 1) <= 1e-10
    # KL(theta || theta) = 0, also where the true output has probability 0
    assert _divergence(np.array([800.0, 1e300, 0.0]), 1.0).tolist() == [0.0, 0.0, 0.0]


def test_curvature_is_one_where_the_gradient_is_zero(backend):
    """Features that are all 0: nothing can be learned, and no division by ||G|| = 0."""
    model = backend.MulticlassModel(2, 3)
    objective = backend.LogLoss(model, model.pack(np.zeros((4, 2)), [0, 1, 2, 0]))
    state = backend.ElasticNetCRF(objective, alpha=1.0, beta=0.1).evaluate(np.zeros(6))
    assert not np.any(state.gradient) and state.loss > 0
    assert curvature_along_gradient(state) == 1.0


def test_a_batch_asks_for_more_outputs_while_any_row_needs_them(backend):
    """Two outputs suffice for the first chain, not for the second: each is answered as it is alone."""
    unary = np.zeros((2, 3, 2))
    unary[0, :, 0] = 100.0
    transitions, smoothing = np.zeros((2, 2)), backend.smoothings.SquaredL2()
    together = backend.Chain(unary, transitions).smooth_max(smoothing, 1.0)[0]
    alone = [float(backend.Chain(row, transitions).smooth_max(smoothing, 1.0)[0]) for row in unary]
    close(alone, [300.0, 0.5 * (1 - 1 / 8)])
    close(np.asarray(together), alone)


def test_one_sample_is_the_best_output(backend, rng):
    """Branson et al., section 1.2: the first sample is the subgradient, so a set of one is the corner; one is the
    default."""
    objective, _ = random_classes(backend, rng)
    hinge, w = backend.StructuralHinge(objective.model, objective.data), rng.normal(size=objective.model.size)
    corner = hinge.corners(w, None, 1)
    assert np.array_equal(hinge.corners(w).directions, corner.directions)
    assert hinge.corners(w).losses.shape == (objective.n, 1)
    for options in ({}, {"k": 1}):
        sampled = hinge.sampled_corners(w, None, rng=0, **options)
        assert np.array_equal(sampled.directions, corner.directions) and np.array_equal(sampled.losses, corner.losses)


@pytest.mark.parametrize("name", ["Corollary19", "Corollary20"])
def test_without_strong_convexity_the_centre_moves_by_one_over_squares(name):
    """delta_k = 1 / (k + 1)^2, in [0, 1) from k = 1 on."""
    schedule = getattr(reference.algorithms, name)(kappa=2.0, mu=0.5)
    assert [schedule.delta_k(k) for k in range(1, 6)] == [1 / 4, 1 / 9, 1 / 16, 1 / 25, 1 / 36]


def test_a_step_of_prox_linear_is_one_step(backend, rng):
    """Step k asks its subproblem for the accuracy of step k."""
    objective, _ = random_classes(backend, rng)
    hinge, asked = backend.StructuralHinge(objective.model, objective.data), []

    def inner(model, k, generator):
        asked.append(k)
        return np.zeros(objective.model.size), None

    box = backend.algorithms.ProxLinear(lam=0.1, eta=1.0, inner=inner)
    state = box.init(hinge, np.zeros(objective.model.size))
    for _ in range(3):
        state = box.epoch(hinge, state, rng)
    assert asked == [1, 2, 3] and state.k == 3


def test_a_step_of_proximal_newton_is_counted_once(backend, rng):
    objective, _ = random_classes(backend, rng)
    problem, solver = backend.ElasticNetCRF(objective, alpha=1.0, beta=0.01), backend.ProximalNewton()
    memory = solver.start(problem.evaluate(np.zeros(problem.size)))
    for number in range(1, 4):
        memory = solver.step(memory)
        assert memory.steps == number


def test_the_smallest_normal_number_is_a_temperature():
    least = sys.float_info.min
    assert positive_mu(least) == least
    with pytest.raises(ValueError, match="mu"):
        positive_mu(least / 2)


def test_weights_of_a_regularizer_cannot_be_written(backend):
    given = np.ones(3)
    regularizer = backend.WeightedSquaredL1(1.0, given)
    with pytest.raises(ValueError, match="read-only"):
        regularizer.weights[0] = 2.0
    given[0] = 7.0
    assert regularizer.weights.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("label", [0, 1])
def test_an_edge_that_forbids_equal_labels_is_named_with_its_label(backend, label):
    pairwise = np.zeros((1, 2, 2))
    pairwise[0, label, label] = -np.inf
    with pytest.raises(ValueError, match=rf"forbids the pair of labels \({label}, {label}\)"):
        backend.Cut(np.zeros((2, 2)), pairwise, [[0, 1]])


def test_marginals_do_not_exceed_one(backend):
    """Of large scores some round to 1 + 2e-16 before they are clipped."""
    rng = np.random.default_rng(0)
    for scale in (1.0, 10.0, 100.0):
        for n in np.repeat(np.arange(1, 8), 30):
            _, marginals = backend.Arborescence(scale * rng.normal(size=(n, n + 1))).expectation()
            assert np.all(np.asarray(marginals.values) <= 1.0)


# bounds and inner solvers ---------------------------------------------------------------------------------------------


class WithoutMu(Logistic):
    """A finite sum without smoothing, which takes no mu."""

    def value_and_gradient(self, w, batch=None, mu=None):
        assert mu is None
        return super().value_and_gradient(w, batch, mu)


@pytest.mark.parametrize("schedule", [None, "const"])
def test_an_objective_without_smoothing_is_given_no_mu(backend, rng, schedule):
    loss = WithoutMu(rng.normal(size=(12, 3)), np.sign(rng.normal(size=12)))
    result = backend.casimir(loss, np.zeros(3), lam=0.1, schedule=schedule, epochs=3, rng=0)
    assert result.fun < result.history[0].objective


def test_kappa_is_that_of_proposition_29(monkeypatch):
    """Of subproblems and of the corollary: L/n - lam if L/n > 4 lam, else lam; at equality lam."""
    seen = []
    monkeypatch.setattr(prox_linear, "casimir", lambda *_, **options: seen.append(options))
    for L, lam in ((8.0, 0.25), (4.0, 0.25), (1.0, 0.25), (40.0, 2.0)):
        problem = SimpleNamespace(
            objective=SimpleNamespace(n=4), start=None, lam=lam, mu=None, L=L, passes=1, solved=None, rng=None
        )
        prox_linear.casimir_svrg(problem)
        kappa = L / 4 - lam if 4 * lam < L / 4 else lam
        assert seen[-1]["kappa"] == kappa and seen[-1]["step_size"] == 1 / (L + lam + kappa)
        assert reference.bounds.Corollary17.for_svrg(10.0, lam=lam, A=L, D=1.0, n=4).kappa == kappa


def test_the_bound_of_prox_linear_steps_is_tight_on_a_parabola():
    """One exact step of 1/L on L w^2/2 goes to 0 from anywhere: rho = L w, and F(w) - F* = L w^2/2."""
    for L, w in ((1.0, 3.0), (4.0, -0.5)):
        close(reference.bounds.stationarity(1 / L, 0.5 * L * w * w, [0.0]), (L * w) ** 2)


def test_scores_that_are_not_kept_are_extrapolated(backend, rng):
    """The loss and gradient at Z + c (Z - before), where Z are the weights."""
    hinge, _ = random_classes(backend, rng)
    loss = backend.LogLoss(hinge.model, hinge.data)
    Z, before = rng.normal(size=(2, hinge.model.size))
    for c in (0.0, 0.5, 1.0):
        value, gradient = loss.value_and_gradient(Z + c * (Z - before))
        answer = Whole(loss).loss_and_gradient(Z, before, c)
        close(answer.loss, float(value))
        close(answer.gradient, np.asarray(gradient))


def test_norms_of_columns_whose_squares_overflow():
    close(column_norms(np.array([0, 0, 1, 1]), np.array([1.0, 1e200, 3.0, -4.0]), 2), [1e200, 5.0])
    close(column_norms(np.array([0, 1]), np.array([1e-200, 2.0]), 2), [1e-200, 2.0])


def test_a_pass_of_the_online_proximal_box_is_a_step_an_example(rng):
    loss = Logistic(rng.normal(size=(7, 3)), np.sign(rng.normal(size=7)))
    box = reference.algorithms.OnlineProximal(reference.L1(0.1), reference.steps.Constant(0.1))
    assert box.epoch(loss, box.init(loss, np.zeros(3)), rng).t == 7


def test_cutting_planes_without_a_tolerance_solve_their_models_exactly(backend, rng):
    """The gap goes to 0: an inexact model would leave a share of it."""
    loss, _ = random_classes(backend, rng)
    hinge = backend.StructuralHinge(loss.model, loss.data)
    result = backend.cutting_planes(hinge, lam=0.1, epochs=60, tol=None)
    assert result.certificate <= 1e-6 * result.fun


def test_the_work_of_svrg_depends_on_ratios(rng):
    """A / mu, lam and kappa in another unit: the same number of iterations."""
    cost = reference.bounds.svrg_cost(0.3, lam=0.1, A=2.0, mu=0.5, n=10)
    close(reference.bounds.svrg_cost(3.0, lam=1.0, A=20.0, mu=0.5, n=10), cost)
    close(cost, 2.0 * (10 + 2.0 / 0.5 / 0.4))  # q = 1/4


def test_a_wrong_value_is_seen_beside_forbidden_parts(backend):
    """The allowed error is a share of the finite scores, though others are -inf."""
    scores = np.array([[1.0, -np.inf], [0.5, 2.0]])
    for value in (3.0, 3.1):
        model = backend.AlignmentModel(1, oracle=lambda scores, value=value: (value, np.array([0, 1])))
        structure = model.structure_type(scores)
        if value == 3.0:
            assert float(structure.best()[0]) == 3.0
        else:
            with pytest.raises(ValueError, match="value: expected the score of the output, 3, got 3.1"):
                structure.best()


@pytest.mark.parametrize(("k", "outputs", "mixed"), [(5, 3, 3), (2, 100, 2), (4, 4, 4), (3, 1, 1)])
def test_the_width_of_a_top_k_smoothing_is_that_of_as_many_outputs_as_it_mixes(backend, k, outputs, mixed):
    """max over the simplex of m outputs of (1 - ||u||^2)/2 is at u = 1/m; the max exceeds itself by nothing."""
    assert backend.smoothings.Max().width(outputs) == 0.0
    close(float(backend.smoothings.TopK(k).width(outputs)), 0.5 * (1 - 1 / mixed))
