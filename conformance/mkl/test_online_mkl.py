"""Online multiple kernel learning: rounds are their equations, whichever form holds the weights; bounds and
variational forms hold on runs.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import accelerated
import reference
from conformance.tolerances import close
from reference import bounds
from reference.models.kernel_sequence import KernelWeights
from reference.online_mkl.rounds import MKL, KernelProblem
from reference.training.counterparts import counterpart


@pytest.fixture
def words(rng):
    """Five short sequences, one of them empty, of three features and three labels."""
    lengths = (2, 4, 1, 3, 0)
    return [rng.normal(size=(n, 3)) for n in lengths], [rng.integers(0, 3, n) for n in lengths]


def model_of(backend, transitions="own"):
    return backend.KernelSequenceModel(
        [backend.kernels.Linear(), backend.kernels.Explicit(), backend.kernels.Gaussian(1.0)],
        3,
        transitions=transitions,
    )


def box_of(loss, penalty, sigma, radius, average):
    return MKL(penalty, reference.steps.InverseSqrt(0.6), loss, sigma, radius, average)


def states(backend, model, data, box, rounds=12, rng=0):
    """The states of a run from 0 by the backend's own loop, one round at a time."""
    rng, problem = np.random.default_rng(rng), KernelProblem(model, data)
    box, state = counterpart(box, problem), box.init(problem, model.zeros(data))
    for t in range(1, rounds + 1):
        i, gamma = int(rng.integers(data.n)), 0.6 / np.sqrt(t)
        after = box.sweep(problem, state, np.array([i]))
        yield i, gamma, state, after
        state = after


def features(model, data, X):
    """phi_k of all outputs' parts as matrices: explicit features whose products are the kernels, by a square root of
    each Gram matrix.
    """
    found = []
    for group in model.groups:
        if isinstance(group, reference.kernels.Explicit):
            found.append(np.concatenate(X))
        else:
            values, vectors = np.linalg.eigh(group(np.concatenate(X)))
            found.append(vectors * np.sqrt(np.clip(values, 0, None)))
    return found


def theta(model, data, weights, phi):
    """The groups' weights as plain vectors: features times coefficients, and the transitions with the group that
    they are in.
    """
    parts = []
    for group, A, f in zip(model.groups, weights.coefficients, phi, strict=True):
        parts.append((A if isinstance(group, reference.kernels.Explicit) else f.T @ A).ravel())
    tables = weights.transitions.reshape(len(weights.transitions), -1)
    if model.transitions == "own":
        return [*parts, tables[0]]
    return [np.concatenate(pair) for pair in zip(parts, tables, strict=True)] if model.transitions == "each" else parts


@pytest.mark.parametrize("transitions", ["own", "each", "free"])
@pytest.mark.parametrize("loss", ["hinge", "crf"])
@pytest.mark.parametrize("penalty", ["squared l1", "ridge", "l1"])
def test_a_round_is_its_equation(backend, words, transitions, loss, penalty):
    """In explicit feature spaces: theta - gamma (sigma theta + gradient), then the prox of the groups' norms, then
    the ball; and the average.
    """
    (X, Y), sigma, radius = words, 0.1, 0.8
    model = model_of(backend, transitions)
    data, psi = (
        model.pack(X, Y),
        {"squared l1": backend.SquaredL1(0.2), "ridge": backend.HalfSquaredL2(0.2), "l1": backend.L1(0.05)}[penalty],
    )
    phi, rules, seen = features(model, data, X), box_of(loss, psi, sigma, radius, "uniform"), []
    for i, gamma, before, after in states(backend, model, data, rules):
        a, b = data.offsets[i], data.offsets[i + 1]
        truth = before.weights
        outputs = list(itertools.product(range(3), repeat=b - a))
        T = truth.transitions.sum(axis=0)
        unary = sum(
            f[a:b] @ (A if isinstance(g, reference.kernels.Explicit) else f.T @ A)
            for g, f, A in zip(model.groups, phi, truth.coefficients, strict=True)
        )
        score = np.array(
            [
                sum(unary[t, y] for t, y in enumerate(ys)) + sum(T[p, q] for p, q in itertools.pairwise(ys))
                for ys in outputs
            ]
        )
        if loss == "hinge":
            best = np.argmax(score + [sum(np.array(ys) != Y[i]) for ys in outputs])
            shares = np.eye(len(outputs))[best]
        else:
            shares = np.exp(score - np.logaddexp.reduce(score))
        D, D_T = np.zeros((b - a, 3)), np.zeros((3, 3))
        for share, ys in [*zip(shares, outputs, strict=True), (-1.0, tuple(Y[i]))]:
            for t, y in enumerate(ys):
                D[t, y] += share
            for p, q in itertools.pairwise(ys):
                D_T[p, q] += share
        gradients = [f[a:b].T @ D for f in phi]
        if transitions == "own":
            gradients.append(D_T)
        elif transitions == "each":
            gradients = [np.concatenate([g.ravel(), D_T.ravel()]) for g in gradients]
        moved = [
            (1 - gamma * sigma) * w - gamma * g.ravel()
            for w, g in zip(theta(model, data, truth, phi), gradients, strict=True)
        ]
        norms = np.array([np.linalg.norm(w) for w in moved])
        shrunk = np.asarray(psi.prox(norms, gamma))
        expected = [w * (s / n if n > 0 else 0.0) for w, s, n in zip(moved, shrunk, norms, strict=True)]
        whole = np.sqrt(np.sum(shrunk**2))
        expected = [w * min(1.0, radius / whole if whole > 0 else 1.0) for w in expected]
        for got, want in zip(theta(model, data, after.weights, phi), expected, strict=True):
            close(got, want)
        close(after.weights.squared_norms, [w @ w for w in expected])
        close(after.weights.squared_norms, model.squared_norms(data, after.weights))
        if transitions == "free":
            close(after.weights.transitions[0], truth.transitions[0] - gamma * D_T)
        seen.append(truth)
        for k, mean in enumerate(after.mean.coefficients):
            close(mean, np.mean([w.coefficients[k] for w in seen], axis=0))
        close(after.mean.transitions, np.mean([w.transitions for w in seen], axis=0))


def test_groups_fall_to_zero_and_come_back(backend, words):
    """A strong penalty takes groups to exactly 0, coefficients and all; rounds after it go on from there."""
    X, Y = words
    model = model_of(backend)
    data, zeros = model.pack(X, Y), 0
    for _, _, _, after in states(
        backend, model, data, box_of("hinge", backend.SquaredL1(3.0), 0.0, None, "uniform"), rounds=40
    ):
        for norm, A in zip(after.weights.squared_norms[:3], after.weights.coefficients, strict=True):
            zeros += norm == 0
            assert (norm == 0) == (not np.any(A))
        close(after.weights.squared_norms, model.squared_norms(data, after.weights))
    assert zeros > 0


@pytest.mark.parametrize("storage", ["dense", "sparse", "blocks"])
@pytest.mark.parametrize("loss", ["hinge", "crf"])
@pytest.mark.parametrize("average", ["last", "uniform"])
def test_storage_and_panels_have_one_trajectory(backend, other, words, storage, loss, average):
    (X, Y), runs = words, []
    for panel, held in ((backend, storage), (other, "dense")):
        model = panel.KernelSequenceModel(
            [panel.kernels.Gaussian(2.0), panel.kernels.Explicit(), panel.kernels.B1Spline(1.5)], 3
        )
        runs.append(
            panel.mkl(
                model,
                model.pack(X, Y, storage=held),
                lam=0.05,
                step_size=panel.steps.InverseSqrt(0.37),
                loss=loss,
                average=average,
                epochs=4,
                rng=1,
            )
        )
    close(runs[0].fun, runs[1].fun)
    close(runs[0].beta, runs[1].beta)
    for got, want in zip(runs[0].x.coefficients, runs[1].x.coefficients, strict=True):
        close(got, want)
    close([row.objective for row in runs[0].history], [row.objective for row in runs[1].history])
    close(runs[0].norms, runs[1].norms)


@pytest.mark.parametrize("loss", ["hinge", "crf"])
@pytest.mark.parametrize("lam", [0.2, 2.0, 10.0])
def test_averages_keep_their_digits_while_groups_shrink(backend, other, words, loss, lam):
    """A ridge multiplies all groups by 1/(1 + gamma lam) in each of 100 rounds: down to 1e-60 if no round added to
    them.
    """
    (X, Y), runs = words, []
    for panel in (backend, other):
        model = panel.KernelSequenceModel([panel.kernels.Gaussian(2.0), panel.kernels.Explicit()], 3)
        how = {"penalty": panel.HalfSquaredL2(lam), "step_size": 0.3, "epochs": 20, "rng": 1}
        runs.append(panel.mkl(model, model.pack(X, Y), loss=loss, average="uniform", **how))
    for got, want in zip(runs[0].x.coefficients, runs[1].x.coefficients, strict=True):
        close(got, want, scale=float(np.abs(want).max()))
    close(runs[0].x.transitions, runs[1].x.transitions)


def test_runs_in_other_namespaces(space, words):
    (X, Y), runs = words, []
    for put in (np.asarray, space.put):
        model = reference.KernelSequenceModel([reference.kernels.Gaussian(2.0), reference.kernels.Explicit()], 3)
        data = model.pack(X, Y, like=put(np.zeros(1)))
        runs.append(
            reference.mkl(model, data, lam=0.05, step_size=0.37, loss="crf", average="uniform", epochs=1, rng=1)
        )
        guess = model.predict(runs[-1].x, X)
        assert [len(y) for y in guess] == [len(x) for x in X]
    for got, want in zip(runs[1].x.coefficients, runs[0].x.coefficients, strict=True):
        close(space.get(got), want, space.dtype)
    close(runs[1].fun, runs[0].fun, space.dtype)


@pytest.mark.parametrize("loss", ["hinge", "crf"])
def test_explicit_and_implicit_groups_are_one(backend, words, loss):
    """The linear kernel and its features: the same norms, shares and labellings."""
    (X, Y), runs = words, []
    for group in (backend.kernels.Linear(), backend.kernels.Explicit()):
        model = backend.KernelSequenceModel([group, backend.kernels.Gaussian(1.0)], 3)
        data = model.pack(X, Y)
        run = backend.mkl(model, data, lam=0.05, step_size=backend.steps.InverseSqrt(0.37), loss=loss, epochs=5, rng=0)
        runs.append((run, model.predict(run.x, X), data))
    close(runs[0][0].norms, runs[1][0].norms)
    close(runs[0][0].fun, runs[1][0].fun)
    assert all(np.array_equal(a, b) for a, b in zip(runs[0][1], runs[1][1], strict=True))
    close(runs[0][2].X.T @ runs[0][0].x.coefficients[0], runs[1][0].x.coefficients[0])


def test_linear_kernels_with_a_unit_diagonal_are_one(backend, words):
    X, Y = words
    X, runs = [*X, np.zeros((2, 3))], []  # rows of zeros stay so
    Y = [*Y, np.array([0, 1])]
    for group in (backend.kernels.Linear(True), backend.kernels.Explicit(True)):
        model = backend.KernelSequenceModel([group, backend.kernels.Gaussian(1.0)], 3)
        run = backend.mkl(model, model.pack(X, Y), lam=0.05, step_size=backend.steps.InverseSqrt(0.37), epochs=5, rng=0)
        runs.append((run, model.predict(run.x, X)))
    close(runs[0][0].norms, runs[1][0].norms)
    close(runs[0][0].fun, runs[1][0].fun)
    assert all(np.array_equal(a, b) for a, b in zip(runs[0][1], runs[1][1], strict=True))


@pytest.mark.parametrize("transitions", ["own", "each"])
def test_prediction_in_blocks_is_one_by_one(backend, rng, transitions):
    """700 positions, more than one block, as each sequence alone, and by enumeration of the labellings of the short
    ones.
    """
    X = [rng.normal(size=(n, 3)) for n in (2, 0, 5, 3)]
    model = model_of(backend, transitions)
    data = model.pack(X, [rng.integers(0, 3, len(x)) for x in X])
    weights = backend.mkl(model, data, lam=0.02, step_size=0.3, epochs=4, rng=0).x
    some = model.support(weights)
    assert some.rows.shape[0] <= data.X.shape[0] and np.all(
        np.any(np.hstack([some.coefficients[0], some.coefficients[2]]), axis=1)
    )
    many = [rng.normal(size=(n, 3)) for n in rng.integers(0, 5, 350)]
    found = model.predict(weights, many)
    assert len(found) == 350 and model.predict(weights, []) == []
    T = np.sum(weights.transitions, axis=0)
    for x, y in zip(many, found, strict=True):
        assert np.array_equal(model.predict(weights, [x])[0], y) and np.array_equal(model.predict(some, [x])[0], y)
        unary = sum(
            x @ A if isinstance(g, reference.kernels.Explicit) else g(x, data.X) @ A if len(x) else np.zeros((0, 3))
            for g, A in zip(model.groups, weights.coefficients, strict=True)
        )
        outputs = list(itertools.product(range(3), repeat=len(x)))
        scores = [
            sum(unary[t, a] for t, a in enumerate(ys)) + sum(T[a, b] for a, b in itertools.pairwise(ys))
            for ys in outputs
        ]
        close(scores[outputs.index(tuple(y.tolist()))], max(scores))


def test_prediction_has_the_same_bits_on_any_number_of_threads(rng):
    from accelerated.threads import set_num_threads

    model = accelerated.KernelSequenceModel([accelerated.kernels.Gaussian(1.0), accelerated.kernels.Explicit()], 3)
    X = [rng.normal(size=(n, 3)) for n in rng.integers(0, 9, 200)]
    data = model.pack(X[:20], [rng.integers(0, 3, len(x)) for x in X[:20]])
    weights, seen = accelerated.mkl(model, data, lam=0.01, step_size=0.3, epochs=2, rng=0).x, []
    try:
        for threads in (1, 3):
            set_num_threads(threads)
            seen.append(np.concatenate(model.predict(weights, X)).tolist())
    finally:
        set_num_threads(None)
    assert seen[0] == seen[1]


def test_the_mean_loss_is_that_of_each_sequence(backend, words):
    """Enumeration of all labellings, for both losses, with a cost that is not 0 or 1."""
    X, Y = words
    model = backend.KernelSequenceModel([backend.kernels.Gaussian(1.0)], 3, cost=[[0, 2, 1], [1, 0, 0.5], [3, 1, 0]])
    data = model.pack(X, Y)
    weights = backend.mkl(model, data, lam=0.02, step_size=0.3, epochs=2, rng=0).x
    unary, T = backend.kernels.Gaussian(1.0)(np.concatenate(X)) @ weights.coefficients[0], weights.transitions[0]
    for loss in ("hinge", "crf"):
        losses = []
        for y, a, b in zip(Y, data.offsets[:-1], data.offsets[1:], strict=True):

            def score(ys, u=unary[a:b]):
                return sum(u[t, l] for t, l in enumerate(ys)) + sum(T[p, q] for p, q in itertools.pairwise(ys))

            cost = lambda ys, y=y: sum(model.cost[t, p] for t, p in zip(y, ys, strict=True))  # noqa: E731
            outputs = list(itertools.product(range(3), repeat=len(y)))
            if loss == "hinge":
                best = max(score(ys) + cost(ys) for ys in outputs)
            else:
                best = np.logaddexp.reduce([score(ys) for ys in outputs])
            losses.append(best - score(y))
        close(model.mean_loss(data, weights, loss), np.mean(losses))


def test_single_precision_follows_double(backend, words):
    """Gram matrices in float32: norms and the objective of a run without near ties within 1e-4, relative."""
    (X, Y), runs = words, []
    for dtype in (np.float32, np.float64):
        model = backend.KernelSequenceModel(
            [backend.kernels.Linear(True), backend.kernels.Polynomial(2), backend.kernels.Gaussian(1.0)], 3
        )
        data = model.pack(X, Y, like=np.zeros(0, dtype))
        runs.append(
            backend.mkl(model, data, lam=0.05, step_size=backend.steps.InverseSqrt(0.37), loss="crf", epochs=6, rng=0)
        )
    assert runs[0].x.transitions.dtype == np.float32 and runs[0].x.coefficients[1].dtype == np.float32
    np.testing.assert_allclose(runs[0].norms, runs[1].norms, rtol=1e-4)
    np.testing.assert_allclose(runs[0].fun, runs[1].fun, rtol=1e-4)


@pytest.mark.parametrize("loss", ["hinge", "crf"])
@pytest.mark.parametrize("average", ["last", "uniform"])
def test_a_run_that_was_cut_in_two_is_one(backend, words, tmp_path, loss, average):
    """Checkpoint after 3 epochs, then to 7; and an interrupt, after which the rest is resumed."""
    (X, Y), path = words, tmp_path / "c.npz"
    model = model_of(backend)
    data = model.pack(X, Y)
    options = {"lam": 0.1, "step_size": backend.steps.InverseSqrt(0.4), "loss": loss, "average": average, "rng": 3}
    whole = backend.mkl(model, data, epochs=7, **options)
    backend.mkl(model, data, epochs=3, checkpoint=path, **options)

    def interrupt(row, weights):
        if row.epoch == 5:
            raise KeyboardInterrupt

    broken = backend.mkl(model, data, epochs=7, checkpoint=path, resume=path, callback=interrupt, **options)
    assert broken.interrupted and not broken.success and broken.history[-1].epoch == 5 == len(broken.norms)
    best = min(broken.history, key=lambda row: row.objective)
    assert broken.fun == best.objective
    run = backend.mkl(model, data, epochs=7, resume=path, **options)
    assert run.fun == whole.fun and np.array_equal(run.norms, whole.norms) and np.array_equal(run.beta, whole.beta)
    assert [row.objective for row in run.history] == [row.objective for row in whole.history]
    for got, want in zip(run.x.coefficients, whole.x.coefficients, strict=True):
        assert np.array_equal(got, want)
    with pytest.raises(ValueError, match=r"resume: .*c.npz is of a run with penalty = SquaredL1.lam=0.1"):
        backend.mkl(model, data, epochs=7, resume=path, **{**options, "lam": 0.2})
    other = backend.KernelSequenceModel(
        [backend.kernels.Linear(), backend.kernels.Explicit(), backend.kernels.Gaussian(2.0)], 3
    )
    with pytest.raises(ValueError, match=r"resume: .* groups = Linear"):
        backend.mkl(other, other.pack(X, Y), epochs=7, resume=path, **options)


def test_one_kernel_with_its_transitions_is_a_plain_svm(backend, words):
    """transitions="each" and the ridge: online steps on lam/2 ||w||^2 + hinge, as ``online_proximal`` takes them on
    all features.
    """
    X, Y = words
    model = backend.KernelSequenceModel([backend.kernels.Explicit()], 3, transitions="each")
    run = backend.mkl(
        model, model.pack(X, Y), lam=0.0, penalty=backend.HalfSquaredL2(0.1), step_size=0.3, epochs=3, rng=4
    )
    plain = backend.SequenceModel(3, 3, start_stop=False)
    hinge = backend.StructuralHinge(plain, plain.pack(X, Y))
    same = backend.online_proximal(hinge, backend.HalfSquaredL2(0.1), step_size=0.3, epochs=3, rng=4)
    close(np.concatenate([run.x.coefficients[0].ravel(), run.x.transitions.ravel()]), same.x)
    close(run.fun, same.fun)


def test_beta_minimises_the_variational_form(backend, rng):
    """(5)-(7): (sum_k n_k)^2 = min over the simplex of sum_k n_k^2 / beta_k, met at beta = n / sum n."""
    for _ in range(20):
        norms = np.abs(rng.normal(size=4)) + 0.01
        weights = KernelWeights((), np.zeros((1, 2, 2)), norms**2, np.zeros((0, 1)))
        close(np.sum(norms**2 / weights.beta), norms.sum() ** 2)
        for other in rng.dirichlet(np.ones(4), size=50):
            assert np.sum(norms**2 / np.maximum(other, 1e-300)) >= norms.sum() ** 2 * (1 - 1e-12)
    assert KernelWeights((), np.zeros((1, 2, 2)), np.zeros(3), np.zeros((0, 1))).beta.tolist() == [0, 0, 0]


@pytest.mark.parametrize("loss", ["hinge", "crf"])
def test_rounds_keep_the_bounds(backend, words, loss):
    """Lemma 4 with the comparator 0, and Proposition 5.2's regret against it, in a ball that Proposition 8 gives."""
    X, Y = words
    model, lam = model_of(backend), 0.2
    data, psi = model.pack(X, Y), backend.SquaredL1(0.2)
    radius = bounds.optimum_radius(2.0 * (1.0 if loss == "hinge" else np.log(3)), lam)  # mean length 2
    rules, paid, G, T = box_of(loss, psi, 0.0, radius, "last"), 0.0, 0.0, 0
    for i, gamma, before, after in states(backend, model, data, rules, rounds=30):
        each = model.group_scores(data, i, before.weights)
        D, value = model.difference(data, i, each, before.weights, loss)
        squared = float(np.sum(model.squared_lengths(data, i, D)))
        zero = model.difference(data, i, model.group_scores(data, i, model.zeros(data)), model.zeros(data), loss)[1]
        now, then = (float(np.sum(w.squared_norms)) for w in (before.weights, after.weights))
        bound = bounds.round_bound(zero, squared, gamma, now, then)
        assert value + float(psi.value(np.sqrt(after.weights.squared_norms))) <= bound + 1e-9
        paid += value + float(psi.value(np.sqrt(before.weights.squared_norms))) - zero
        G, T = max(G, np.sqrt(squared)), T + 1
        assert paid <= bounds.regret_decaying_step(T, 0.6, G, 2 * radius) + 1e-9


def test_which_penalties_have_a_kernel(words):
    """Those of either panel, but no subclass, and no model of yours: their loop hears what they override."""

    class Mine(accelerated.SquaredL1):
        """A trivial subclass."""

    class Model(accelerated.KernelSequenceModel):
        """As trivial."""

    X, Y = words
    for kind in (accelerated.KernelSequenceModel, Model):
        model = kind([accelerated.kernels.Gaussian(1.0)], 3)
        data = model.pack(X, Y)
        fused = [
            type(counterpart(box_of("hinge", penalty, 0.0, None, "last"), KernelProblem(model, data))) is not MKL
            for panel in (accelerated, reference)
            for penalty in (
                panel.SquaredL1(0.1),
                panel.L1(0.1),
                panel.HalfSquaredL2(0.1),
                Mine(0.1),
                panel.ElasticNet(panel.L1(0.1), 0.1),
            )
        ]
        assert fused == ([True, True, True, False, False] if kind is not Model else [False] * 5) * 2
    model = accelerated.KernelSequenceModel([accelerated.kernels.Gaussian(1.0)], 3)
    options = {"step_size": 0.4, "epochs": 3, "rng": 0}
    a = accelerated.mkl(model, model.pack(X, Y), lam=0.1, **options)
    b = accelerated.mkl(model, model.pack(X, Y), penalty=Mine(0.1), **options)
    close(a.norms, b.norms)


def test_it_learns_which_kernel_matters(backend, rng):
    """Labels by the distance from 0: no linear function has them; the Gaussian's share grows, and words held out are
    read.
    """
    X = [rng.normal(size=(4, 2)) * 1.5 for _ in range(60)]
    Y = [(np.linalg.norm(x, axis=1) > 1.5).astype(int) for x in X]
    model = backend.KernelSequenceModel([backend.kernels.Linear(), backend.kernels.Gaussian(0.5)], 2)
    data = model.pack(X[:40], Y[:40])
    run = backend.mkl(model, data, lam=0.01, step_size=backend.steps.InverseSqrt(1.0), epochs=8, rng=0)
    assert run.beta[1] > 0.6 and abs(run.beta.sum() - 1) < 1e-12
    guess = np.concatenate(model.predict(run.x, X[40:]))
    assert np.mean(guess == np.concatenate(Y[40:])) > 0.8
    assert run.history[-1].objective < run.history[0].objective


def test_rows_callbacks_and_evaluation(backend, words):
    X, Y = words
    model = model_of(backend)
    data, seen = model.pack(X, Y), []
    options = {"lam": 0.1, "step_size": 0.2, "rng": 0}
    run = backend.mkl(
        model, data, epochs=7, evaluate_every=3, callback=lambda row, w: seen.append(row.epoch), **options
    )
    assert seen == [3, 6, 7] and run.nit == 7 and run.oracle_calls == 35 and run.norms.shape == (7, 4)
    every = backend.mkl(model, data, epochs=7, **options)
    close(run.fun, every.fun)
    stopped = backend.mkl(model, data, epochs=7, callback=lambda row, w: row.epoch == 2, **options)
    assert stopped.nit == 2 and "callback" in stopped.message
    none = backend.mkl(model, data, epochs=0, **options)
    close(none.fun, np.mean([len(y) for y in Y]))  # at 0 the hinge is the Hamming loss of the worst labelling


@pytest.mark.parametrize(
    ("change", "error", "words_"),
    [
        ({"loss": "svm"}, ValueError, "loss: expected hinge or crf"),
        ({"lam": -1.0}, ValueError, "lam"),
        ({"penalty": 3}, TypeError, "penalty: expected a Regularizer"),
        ({"sigma": -1.0}, ValueError, "sigma"),
        ({"radius": 0.0}, ValueError, "radius"),
        ({"average": "weighted"}, ValueError, "average: expected one of last, uniform"),
        ({"epochs": -1}, ValueError, "epochs"),
        ({"evaluate_every": 0}, ValueError, "evaluate_every"),
        ({"step_size": -1.0}, ValueError, "gamma0"),
        ({"data": 3}, TypeError, "data: expected what model.pack returned"),
    ],
)
def test_bad_options_are_named(backend, words, change, error, words_):
    model = model_of(backend)
    options = {"data": model.pack(*words), "lam": 0.1, "step_size": 0.1} | change
    with pytest.raises(error, match=words_):
        backend.mkl(model, options.pop("data"), **options)


def test_bad_data_are_named(backend, words):
    (X, Y), model = words, model_of(backend)
    with pytest.raises(ValueError, match="Y: this data was packed without labels"):
        backend.mkl(model, model.pack(X), lam=0.1, step_size=0.1)
    with pytest.raises(ValueError, match=r"X\[1\]"):
        model.pack([X[0], X[1][:, :2]], Y[:2])
    with pytest.raises(ValueError, match=r"Y\[0\]: expected 2 labels"):
        model.pack(X, [Y[0][:1], *Y[1:]])
    with pytest.raises(ValueError, match="Y: expected 5 label sequences"):
        model.pack(X, Y[:2])
    with pytest.raises(ValueError, match="X: expected at least one"):
        model.pack([], [])
    with pytest.raises(TypeError, match="groups: expected kernels"):
        backend.KernelSequenceModel(["linear"], 3)
    with pytest.raises(ValueError, match="transitions: expected one of own, each, free"):
        backend.KernelSequenceModel([backend.kernels.Linear()], 3, transitions="none")
    with pytest.raises(ValueError, match="groups: expected explicit groups with one unit_diagonal"):
        backend.KernelSequenceModel([backend.kernels.Explicit(), backend.kernels.Explicit(True)], 3)
    data = model.pack(X, Y)
    with pytest.raises(TypeError, match="weights: expected KernelWeights"):
        model.predict(np.zeros(3), X)
    with pytest.raises(ValueError, match="weights: expected coefficients of shapes"):
        model_of(backend, "each").predict(model.zeros(data), X)
    with pytest.raises(ValueError, match=r"X\[0\]: expected finite numbers of shape \(n, 3\)"):
        model.predict(model.zeros(data), [np.ones((2, 2))])
