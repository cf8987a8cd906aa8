"""Models with some of their weights, and what models know of how far features are spread over outputs: against
enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.specimens.models import MODELS, classes
from conformance.tolerances import close
from reference.arrays import host
from reference.screening.registry import Known, feature_range, feature_totals, known_of, listed_spread, register
from reference.screening.restricted import restrict
from reference.structures.base import UnsupportedError

seeds = given(seed=st.integers(0, 2**32 - 1))
UNKNOWN = ("segments", "chunks", "arcs", "alignments", "images", "windows")
KNOWING = [name for name in MODELS if not name.startswith(UNKNOWN)]


@pytest.mark.parametrize("name", [name for name in MODELS if name != "images"])
@seeds
def test_restricted_models_are_the_model_at_zeros(backend, space, name, seed):
    """Scores, gradients, predictions and what is known of features, restricted once and again."""
    problem, rng = MODELS[name].draw(seed), np.random.default_rng(seed)
    model, data = problem.packed(backend, space.put(0.0))
    d = model.size
    first = np.sort(rng.choice(d, 2 * d // 3, replace=False))
    second = np.sort(rng.choice(len(first), len(first) // 2, replace=False))
    once = restrict(model, first)
    twice = restrict(once, second)
    some = once.narrow(data)
    loss = backend.LogLoss if MODELS[name].sums else backend.StructuralHinge
    for columns, mine, packed in ((first, once, some), (first[second], twice, twice.narrow(some))):
        assert mine.size == len(columns)
        w = rng.normal(size=len(columns))
        embedded = np.zeros(d)
        embedded[columns] = w
        value, g = loss(model, data).value_and_gradient(space.put(embedded))
        fewer, gradient = loss(mine, packed).value_and_gradient(space.put(w))
        close(fewer, value, space.dtype, 10.0)
        close(space.get(gradient), space.get(g)[columns], space.dtype, 10.0)
        for i, y in enumerate(mine.predict(packed, None, space.put(w))):
            outputs, phi, _, _ = problem.listed[i]
            k = [tuple(np.ravel(z)) for z in outputs].index(tuple(np.ravel(host(y))))
            close(phi[k] @ embedded, np.max(phi @ embedded), space.dtype, 10.0)
        assert mine.counts(packed) == model.counts(data)
        for of in (lambda *both: [feature_range(*both)], feature_totals, listed_spread) if name in KNOWING else ():
            for a, b in zip(of(mine, packed) or (), of(model, data) or (), strict=True):
                close(a, b[columns], space.dtype)
    mask = np.zeros(d, dtype=bool)
    mask[first] = True
    assert np.array_equal(restrict(model, mask).columns, once.columns)


@pytest.mark.parametrize("name", MODELS)
@seeds
def test_what_is_known_of_features(backend, space, name, seed):
    """Ranges and sums of features are met by outputs, or bound them where labels are tied to each other; spreads and
    norms are those of the list."""
    problem = MODELS[name].draw(seed)
    model, data = problem.packed(backend, space.put(0.0))
    found, totals, spread = feature_range(model, data), feature_totals(model, data), listed_spread(model, data)
    if name not in KNOWING:
        assert found is totals is spread is None
        return
    each = [listed.phi for listed in problem.listed]
    ranges = np.sqrt(np.sum([(np.ptp(phi, axis=0) / 2) ** 2 for phi in each], axis=0))
    least, most = (np.sum([of(phi, axis=0) for phi in each], axis=0) for of in (np.min, np.max))
    near = 1e-12 if space.dtype == "float64" else 1e-4
    assert np.all(found >= ranges - near)
    assert (totals is None) == (name == "candidates")
    totals = (least, most) if totals is None else totals
    assert np.all(totals[0] <= least + near) and np.all(totals[1] >= most - near)
    met = slice(None) if name != "trees" else slice(0, (model.n_features + 1) * model.n_labels)  # pairs are bounded
    if getattr(model, "n_edge_features", 0):  # weights of attributes of pairs are bounded, too
        met = slice(0, model.size - int(np.sum(model.edge_weights(np.ones(model.size)))))
    if "transitions" not in name and "own_rules" not in name:
        for bound, expected in ((found, ranges), (totals[0], least), (totals[1], most)):
            close(bound[met], expected[met], space.dtype)
    assert (spread is not None) == (name in ("classes", "candidates", "lists"))
    if spread is not None:
        centred, from_last = ([phi - of(phi) for phi in each] for of in (lambda x: x.mean(axis=0), lambda x: x[-1]))
        for bound, differences in ((spread.centred, centred), (spread.from_last, from_last)):
            close(bound**2, np.sum([np.sum(x**2, axis=0) for x in differences], axis=0), space.dtype)
        norms = [np.linalg.norm(phi, 2) ** 2 if phi.size else 0.0 for phi in each]
        close(model.squared_norms(data), norms, space.dtype)


def test_rows_without_weights_leave_the_arrays(backend):
    X = np.array([[1.0, 2, 0, 4], [0, 1, 5, 2]])
    model = backend.MulticlassModel(4, 3)
    some = restrict(model, [3, 5, 9])  # features 1 and 3
    data = some.narrow(model.pack(X, [0, 2]))
    assert data.rows.width == 2 and len(data.rows.data) == 4 and some.model.size == 6
    nothing = restrict(model, [])
    assert len(nothing.narrow(model.pack(X, [0, 2])).rows.data) == 0
    words = backend.SequenceModel(4, 3)
    some = restrict(words, [3, 5, 9, 18 + 4])
    data = some.narrow(words.pack([X], [[0, 2]]))
    assert data.rows.width == 2 + 2 and len(data.rows.data) == 4 + 2 and some.model.size == 4 * 3 + 9


def test_bounds_are_of_the_scores_that_they_came_with(backend, rng):
    """A subclass has none until they are registered; whole or restricted, no rule removes what it needs. No row may be
    taken away from a model that reads features in its own way: it gets zeros."""

    class Louder(backend.MulticlassModel):
        def scores(self, data, batch, w):
            scores = super().scores(data, batch, w)
            return scores._replace(values=10 * scores.values)

        def pullback(self, data, batch, w, g):
            return 10 * super().pullback(data, batch, w, g)

    class Said(Louder):
        """A trivial subclass."""

    register(Said, Known(lambda model, data: 10 * known_of(backend.MulticlassModel).feature_range(model, data)))

    X, Y = rng.normal(size=(20, 4)), rng.integers(0, 3, 20)
    for kind, bounded in ((Louder, False), (Said, True)):
        model = kind(4, 3)
        objective = backend.LogLoss(model, model.pack(X, Y))
        beta = 0.5 * backend.beta_max(objective)
        listed = classes(10 * X, Y, 3).crf(1.0, beta)
        if bounded:
            found = backend.solve_sparse(objective, beta=beta, tol=1e-12)
            assert found.screenings[-1].kept < model.size
            close(found.fun, listed.primal(listed.solve()))
        rules = backend.CountRule(), backend.L2GapRule(), backend.HalfSpaceRule(rng=0)
        for rule in rules if bounded else (backend.L1GapRule(), *rules):
            with pytest.raises(UnsupportedError, match=f"{kind.__name__} "):
                backend.solve_sparse(objective, beta=beta, rule=rule)
        some, w = restrict(model, [1, 4, 7]), rng.normal(size=3)
        fewer = backend.LogLoss(some, some.narrow(objective.data))
        embedded = np.zeros(model.size)
        embedded[[1, 4, 7]] = w
        close(fewer.value(w), listed.loss(embedded))
        problem = backend.ElasticNetCRF(fewer, alpha=1.0, beta=beta)
        assert (problem.features.range is not None) == bounded and problem.features.spread is None


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_ranges_at_any_scale_and_of_repeated_columns(backend, scale):
    """A column that stands twice in a row adds up; squares neither overflow nor vanish."""
    twice, once = np.array([0, 3, 4]), np.array([[-1.0, 3.0], [0.0, 4.0]])
    X = backend.Rows(twice, np.array([1, 1, 0, 1]), scale * np.array([1.0, 2.0, -1.0, 4.0]), 2)
    classes, words = backend.MulticlassModel(2, 2), backend.SequenceModel(2, 2, start_stop=False)
    listed = backend.ListModel(lambda x: np.asarray(x), backend.Table, size=2)
    for model, scaled, plain, y in (
        (classes, X, once, [0, 1]),
        (words, [X], [once], [[0, 1]]),
        (listed, [scale * once], [once], [0]),
    ):
        for of in (feature_range, lambda *both: np.concatenate(feature_totals(*both))):
            ours, theirs = of(model, model.pack(scaled, y)), of(model, model.pack(plain, y))
            of_features = slice(None) if model is not words else np.arange(len(ours)) % 8 < 4  # not of transitions
            np.testing.assert_allclose(ours[of_features] / scale, theirs[of_features])
    spreads = (listed_spread(classes, classes.pack(x, [0, 1])).from_last for x in (X, once))
    np.testing.assert_allclose(next(spreads) / scale, next(spreads))


def test_models_that_have_no_answers(backend):
    grid = backend.ListModel(lambda x: np.eye(4) * x, backend.Chain, size=4)
    packed = grid.pack([1.0])
    assert feature_range(grid, packed) is feature_totals(grid, packed) is listed_spread(grid, packed) is None
    with pytest.raises(backend.UnsupportedError, match="SegmentationModel has weights that must be >= 0"):
        restrict(backend.SegmentationModel(1, 1), [0])
    some = restrict(backend.ParsingModel([("h.tag", "m.tag")], bits=3), [0])
    with pytest.raises(TypeError, match="RestrictedModel must define pack"):
        some.pack([1.0])
