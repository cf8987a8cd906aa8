"""The k best labellings and the max-marginals of chains against enumeration (Pillutla et al., Algo. 2, corrected)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance import strategies
from conformance.objectives.test_smoothing import projection
from conformance.specimens.outputs import listing
from conformance.specimens.structures import chains, members
from conformance.tolerances import close

KS = st.one_of(st.integers(1, 6), st.sampled_from([26, 27, 28, 80, 81, 82, 90]))  # 3**3 and 3**4 are numbers of outputs


@given(data=st.data(), k=KS)
def test_ties_go_to_the_smaller_label_from_the_end(backend, data, k):
    """With integer scores sums are exact, so the whole order can be checked by enumeration."""
    n, L = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    entry = st.sampled_from([-1.0, 0.0, -0.0, 1.0, -np.inf])
    unary = np.array(data.draw(st.lists(entry, min_size=n * L, max_size=n * L))).reshape(n, L)
    pairwise = np.array(data.draw(st.lists(entry, min_size=L * L, max_size=L * L))).reshape(L, L)
    outputs, scores, _ = listing("Chain", {"unary": unary, "pairwise": pairwise})
    order = sorted((-s, y[::-1]) for y, s in zip(outputs, scores, strict=True) if s > -np.inf)
    found = backend.Chain(unary, pairwise).topk(k)
    assert [tuple(y) for y in np.asarray(found.labels)[: int(found.count)].tolist()] == [y[::-1] for _, y in order[:k]]


# the search of the kernels, which stops as soon as the rest is certified to have weight 0 -----------------------------


@given(instance=chains(), k=st.integers(1, 90), mu=st.sampled_from([0.0, 1e-3, 0.5, 3.0, 100.0]))
def test_the_search_stops_when_the_rest_has_no_weight(instance, k, mu):
    """Against the projection of the scores of all labellings; one workspace for all chains of a batch."""
    from accelerated.compiled.structures.chain_k_best import k_best, k_best_workspace
    from accelerated.compiled.sweeps import load, padded

    n, L = instance.unary.shape[-2:]
    work, matrix = k_best_workspace(n, L, k), np.empty((padded(L), padded(L)))
    each = members(instance)
    for unary, pairwise, _ in [*each, *each[::-1]]:
        everything = listing("Chain", {"unary": unary, "pairwise": pairwise}).scores
        pairwise = np.broadcast_to(pairwise, (max(len(unary) - 1, 0), L, L))
        psi = np.sort(everything[everything > -np.inf])[::-1]
        scale = np.abs(psi).max(initial=1.0)
        scores, values, labels = np.empty((len(unary), padded(L))), np.full(k, np.nan), np.full((k, n), -7)
        load(unary, 1.0, scores)
        edges = np.ascontiguousarray(pairwise) if len(pairwise) else np.zeros((1, L, L))
        count, certified = k_best(scores, len(unary), edges, 0, 1, matrix, mu, values, labels, work)
        close(values[:count], psi[:count])
        assert np.all(np.isnan(values[count:])) and np.all(labels[count:] == -7)  # nothing beyond
        if mu == 0.0:
            assert count == min(k, len(psi)) and (certified or count == k)
        elif certified and count:
            u = projection(psi / mu)
            np.testing.assert_allclose(projection(values[:count] / mu), u[:count], atol=1e-12 * scale / mu)
            assert u[count:].max(initial=0.0) <= 1e-12 * scale / mu
            before = np.sum(psi[: count - 1] - psi[count - 1])  # one labelling less would not do
            assert before <= mu + 1e-9 * scale
        elif not certified:
            assert count == k <= len(psi) and np.sum(psi[: k - 1] - psi[k - 1]) <= mu + 1e-9 * scale
        assert np.all(work.node == -1)  # as it was


@given(values=strategies.tables(forbidden=False), mu=st.sampled_from([1e-3, 0.5, 3.0, 100.0]))
def test_kernel_weights_are_the_projection(values, mu):
    from accelerated.compiled.structures.chain_top_k import weights_of

    psi = np.sort(values.ravel())[::-1]
    u = np.zeros(len(psi))
    m = weights_of(psi, len(psi), mu, u)
    assert np.all(u[:m] > 0)
    np.testing.assert_allclose(np.where(np.arange(len(psi)) < m, u, 0.0), projection(psi / mu), atol=1e-12 * 1e4 / mu)


@pytest.mark.parametrize("smoothing", ["TopK", "SquaredL2"])
@pytest.mark.parametrize("k", [1, 3, 40])
def test_letters_over_the_best_outputs(other, smoothing, k):
    """Gradients, how many are certified, and trajectories from a random start on real words."""
    words = reference.load_letters().take(np.arange(0, 6000, 150))
    runs = []
    for b in (reference, other):
        model = b.SequenceModel(128, words.labels)
        objective = b.StructuralHinge(
            model, model.pack(words.X, words.Y), smoothing=getattr(b.smoothings, smoothing)(k)
        )
        w = 0.1 * np.random.default_rng(0).normal(size=model.size)
        runs.append(
            (
                objective.linearize(w, mu=0.3),
                b.sgd(objective, w, lam=0.01, mu=0.3, step_size=0.01, epochs=1, rng=0),
            )
        )
    (ours, x), (theirs, y) = runs
    close(theirs.value, ours.value)
    close(theirs.gradient, ours.gradient)
    close(theirs.task_loss, ours.task_loss)
    assert theirs.exact == ours.exact
    np.testing.assert_allclose(y.x, x.x, rtol=1e-10, atol=1e-10)


def test_too_many_outputs_for_the_kernel_take_the_loop(rng):
    """The kernel holds all outputs that it is asked for; where that would be gigabytes, the smoothing's own loop
    runs.
    """
    import accelerated
    from accelerated.problems import problem_of

    model = accelerated.SequenceModel(3, 4)
    data = model.pack([rng.normal(size=(30, 3))], [rng.integers(0, 4, 30)])
    w = rng.normal(size=model.size)
    few, many = (
        accelerated.StructuralHinge(model, data, smoothing=accelerated.smoothings.SquaredL2(k)) for k in (64, 10**9)
    )
    assert problem_of(few, 0.1) is not None and problem_of(many, 0.1) is None
    close(many.linearize(w, mu=0.1).gradient, few.linearize(w, mu=0.1).gradient)


@pytest.mark.parametrize("L", [7, 8, 16])
def test_nan_is_never_made_a_number(other, L):
    """Finite inputs whose products overflow: inf - inf inside, at widths with and without padding."""
    model = other.SequenceModel(1, L)
    data = model.pack([np.array([[1e200], [-1e200], [1e200], [-1e200]])], [np.zeros(4, dtype=int)])
    w = np.zeros(model.size)
    w[:L] = 1e200
    for smoothing in (other.smoothings.TopK(4), other.smoothings.SquaredL2(4)):
        objective = other.StructuralHinge(model, data, smoothing=smoothing)
        with np.errstate(over="ignore", invalid="ignore"):
            assert not np.isfinite(objective.value_and_gradient(w, mu=1.0)[0])
            assert not np.isfinite(
                objective.value_and_gradient(np.where(np.arange(model.size) == 1, np.nan, 0.0), mu=1.0)[0]
            )


@pytest.mark.parametrize("L", [2, 3, 8])
def test_where_the_value_is_no_number_the_gradient_is_none(backend, L):
    """Finite weights and features whose products overflow; example 1 is in order, and does not hide the other."""
    model = backend.SequenceModel(1, L, start_stop=False)
    data = model.pack([np.array([[1e200], [-1e200], [1e200]]), np.ones((2, 1))], [[0, 0, 0], [0, 1]])
    for column in range(L):
        w = np.zeros(model.size)
        w[column] = 1e200
        for smoothing in (backend.smoothings.TopK(1), backend.smoothings.TopK(3), backend.smoothings.SquaredL2(4)):
            objective = backend.StructuralHinge(model, data, smoothing=smoothing)
            for batch in ([0], [1], None):
                with np.errstate(over="ignore", invalid="ignore"):
                    value, gradient = objective.value_and_gradient(w, batch, mu=1.0)
                assert not np.isnan(value) or np.any(np.isnan(gradient))
                assert not np.isnan(value) if batch == [1] else not np.isfinite(value)


def test_weights_of_scores_that_are_no_numbers_are_none():
    from accelerated.compiled.structures.chain_top_k import mixture, outputs_room, smoothed_best
    from accelerated.compiled.sweeps import padded
    from reference.smoothings import top_k_weights

    with np.errstate(invalid="ignore"):
        value, u = top_k_weights(np.array([[np.nan, 1.0], [np.inf, 1.0], [2.0, 1.0]]), 0.5)
    assert np.all(~np.isfinite(value[:2])) and np.all(np.isnan(u[:2])) and np.array_equal(u[2], [1.0, 0.0])
    for labels in (2, 8):
        outputs, edges = outputs_room(2, labels, 3), np.zeros((1, labels, labels))
        scores, matrix = np.zeros((2, padded(labels))), np.full((padded(labels), padded(labels)), -np.inf)
        matrix[:labels, :labels], scores[1, 1] = 0.0, np.nan
        assert np.isnan(smoothed_best(scores, 2, edges, matrix, 0.5, outputs))
        found = outputs.labels[0]
        for gold in (found[1], 1 - found[1]):
            m = mixture(outputs.state[0], outputs.labels, outputs.weights, 1, gold, outputs.here, outputs.share)
            assert m > 0 and np.any(np.isnan(outputs.share[:m]))


@pytest.mark.parametrize("L", [7, 8, 16])
def test_steps_that_diverge_are_said(other, rng, L):
    model = other.SequenceModel(1, L)
    data = model.pack([rng.normal(size=(6, 1)) for _ in range(10)], [rng.integers(0, L, 6) for _ in range(10)])
    objective = other.StructuralHinge(model, data, smoothing=other.smoothings.TopK(4))
    result = other.sgd(objective, lam=1.0, mu=1.0, step_size=1e20, rng=0)
    assert not result.success and "diverged" in result.message and not np.isfinite(result.fun)


@pytest.mark.parametrize("L", [1, 7, 8, 16])
@pytest.mark.parametrize("strange", [np.nan, np.inf])
@pytest.mark.parametrize("shared", [True, False])
def test_the_search_stays_in_bounds_and_says_nan(rng, L, strange, shared):
    """Wherever one score is nan, so is the best; at inf it is inf or nan. Labels are labels, the workspace is left
    clean.
    """
    from accelerated.compiled.structures.chain_k_best import k_best, k_best_workspace
    from accelerated.compiled.sweeps import load, padded

    for trial in range(30):
        n, k, mu = int(rng.integers(2, 6)), int(rng.integers(1, 9)), float(rng.choice([0.0, 0.5, 50.0]))
        unary, pairwise = rng.normal(size=(n, L)), rng.normal(size=(1 if shared else n - 1, L, L))
        for table in (unary, pairwise)[trial % 2 :][:1]:
            table.reshape(-1)[rng.integers(table.size)] = strange
            table[rng.random(table.shape) < 0.1 * (trial % 3)] = strange
        work, matrix, scores = k_best_workspace(n, L, k), np.empty((padded(L), padded(L))), np.empty((n, padded(L)))
        load(unary, 1.0, scores)
        load(pairwise[0], 1.0, matrix)
        values, labels = np.full(k, 0.0), np.full((k, n), -7)
        count, certified = k_best(scores, n, pairwise, 0, int(not shared), matrix, mu, values, labels, work)
        assert count >= 1 and np.all((labels[:count] >= 0) & (labels[:count] < L)) and np.all(work.node == -1)
        if np.isnan(strange):
            assert np.isnan(values[0]) and count == 1 and not certified
        else:
            assert values[0] == np.inf or np.isnan(values[0])
