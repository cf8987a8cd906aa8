"""Laws at the edges that single changes of the readable panel cross: thresholds, defaults, resets, allowed zeros."""

from __future__ import annotations

import sys
from decimal import Decimal, localcontext

import numpy as np
import pytest

import reference
from conformance.specimens.rules import random_classes
from conformance.tolerances import close
from reference.optimizers.multisample import updated
from reference.screening.problem import _divergence
from reference.screening.proximal import curvature_along_gradient
from reference.smoothings import certified, positive_mu
from reference.training.counterparts import counterpart


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_certified_is_equation_12(rng, k):
    """mu <= sum_{i <= k} (psi_i - psi_{k+1}) decides, a millionth to either side."""
    for scale in (1e-3, 1.0, 1e6):
        psi = scale * np.sort(rng.normal(size=7))[::-1]
        total = float(np.sum(psi[:k] - psi[k]))
        assert bool(certified(psi, k, total * (1 - 1e-6)))
        assert not bool(certified(psi, k, total * (1 + 1e-6)))


def test_the_temperature_is_1_unless_given(backend, rng):
    """Of smoothings, sampled corners, the partition of trees and the log loss; at 2 they say something else."""
    objective, _ = random_classes(backend, rng)
    hinge, w = backend.StructuralHinge(objective.model, objective.data), rng.normal(size=objective.model.size)
    table, trees = backend.Table(rng.normal(size=6)), backend.Arborescence(rng.normal(size=(4, 5)))

    def draws(**mu):
        return np.stack([hinge.sampled_corners(w, None, 2, rng=seed, **mu).directions for seed in range(20)])

    def answer(value, gradient):
        return np.append(np.ravel(gradient.values), float(value))

    asked = [lambda smoothing=each, **mu: answer(*smoothing(table, **mu)) for each in smoothings(backend)]
    for ask in (*asked, draws, lambda **mu: answer(*trees.ops.tree_partition(trees.scores, **mu))):
        assert np.array_equal(ask(), ask(mu=1.0)) and not np.array_equal(ask(), ask(mu=2.0))
    for smoothing in smoothings(backend):
        close(float(smoothing.smoothed(table).value), float(smoothing(table)[0]))
    assert objective.mu == 1.0
    close(objective.value_and_gradient(w)[0], objective.value_and_gradient(w, None, objective.mu)[0])


def smoothings(backend):
    return backend.smoothings.Entropy(), backend.smoothings.SquaredL2(), backend.smoothings.TopK(3)


def test_steps_may_be_zero_where_the_optimizer_allows_it(backend, rng):
    """SGD takes steps of 0, which leave w where it was."""
    objective, _ = random_classes(backend, rng)
    w0 = rng.normal(size=objective.model.size)
    zero = lambda t, lam: np.zeros(t.shape)  # noqa: E731
    result = backend.sgd(objective, lam=0.1, step_size=zero, epochs=1, w0=w0, rng=0, average="last")
    assert np.array_equal(np.asarray(result.x), w0)


def test_certified_has_the_shape_of_the_rows():
    """One boolean for each row, whether more outputs than k are given or not."""
    psi = np.sort(np.arange(24.0).reshape(2, 3, 4), axis=-1)[..., ::-1]
    assert certified(psi, 4, 1.0).shape == certified(psi, 2, 1.0).shape == (2, 3)
    assert np.all(certified(psi, 4, 1e9))


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


def test_a_step_of_zero_is_refused_by_what_has_its_own_prox_and_what_has_not(backend):
    for regularizer in (backend.L1(1.0), backend.HalfSquaredL2(1.0), backend.L2Ball(1.0)):
        with pytest.raises(ValueError, match="step_size: expected a finite number > 0, got 0.0"):
            regularizer.prox(np.ones(3), 0.0)


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


def test_the_norm_of_gradients_without_a_regularizer(rng):
    """G = 2 max ||phi||: by default the regularizer adds nothing."""
    assert reference.bounds.gradient_norm(3.0) == reference.bounds.gradient_norm(3.0, 2.0) == 6.0


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


def test_a_smoothing_says_what_it_needs_and_can_be_called(backend, rng):
    objective, _ = random_classes(backend, rng)
    only_named = type("OnlyNamed", (), {"needs": ("best",)})()
    for wrong in (lambda structure, mu=1.0: structure.best(), only_named, backend.smoothings.Entropy):
        with pytest.raises(TypeError, match="smoothing: expected an object such as Entropy"):
            backend.StructuralHinge(objective.model, objective.data, smoothing=wrong)


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


def test_svrg_contracts_on_strongly_convex_sums_only():
    with pytest.raises(ValueError, match="expected 0 < lam <= L and n >= 1, got lam = 0.0"):
        reference.bounds.svrg_rate(1.0, 0.0, 10)


def test_a_counterpart_that_fits_all_is_used(rng):
    """A class of kernels that does not say what it fits replaces the reference's box on every objective of its type."""
    accelerated = pytest.importorskip("accelerated")
    X = [rng.normal(size=(3, 2)), rng.normal(size=(2, 2))]
    model = accelerated.SequenceModel(2, 2)
    smoothed = accelerated.StructuralHinge(
        model, model.pack(X, [[0, 1, 1], [1, 0]]), smoothing=accelerated.smoothings.Entropy()
    )
    found = counterpart(reference.algorithms.SVRG(), smoothed)
    assert type(found).__module__.startswith("accelerated") and not hasattr(type(found), "fits")


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


def test_conjugates_of_mkl_regularizers_meet_fenchels_equality(backend, rng):
    """phi(x) + phi*(y) = <x, y> at y = grad phi(x); that of tau sum ||x_k|| is 0 within a ball, inf beyond."""
    groups = np.array([0, 0, 1, 1, 1])
    for q in (1.2, 1.5, 1.9):
        phi, x = backend.NonSparseMKL(0.7, q, groups), rng.normal(size=5)
        norms = np.array([np.linalg.norm(x[groups == k]) for k in groups])
        y = 0.5 * 0.7 * q * norms ** (q - 2) * x
        close(float(phi.value(x)) + float(phi.conjugate(y)), float(x @ y))
    ball, y = backend.ElasticNetMKL(2.0, 0.0, groups), np.array([1.0, 1.0, 0.5, 0.5, 0.5])
    assert float(ball.conjugate(y)) == 0.0 and float(ball.conjugate(10 * y)) == np.inf
    smooth, x = backend.ElasticNetMKL(0.3, 1.0, groups), rng.normal(size=5)
    norms = np.array([np.linalg.norm(x[groups == k]) for k in groups])
    y = x + 0.3 * x / norms
    close(float(smooth.value(x)) + float(smooth.conjugate(y)), float(x @ y))
