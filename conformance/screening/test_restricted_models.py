"""Models with some of their weights, and what models know of how far features are spread over outputs: against
enumeration.
"""

from __future__ import annotations

import numpy as np
import pytest

from conformance.listed_crf import classes
from conformance.listed_problems import CHAINS, LISTED
from conformance.tolerances import close
from reference.screening.registry import Known, feature_range, feature_totals, known_of, listed_spread, register
from reference.screening.restricted import restrict
from reference.structures.base import UnsupportedError
from reference.structures.scores import add


@pytest.fixture(params=LISTED + CHAINS, ids=lambda make: make.__name__)
def pair(backend, rng, request):
    """(objective, the listed problem by alpha and beta)."""
    return request.param(backend, rng)


def test_restricted_models_are_the_model_at_zeros(backend, pair, rng):
    """Scores, gradients, predictions and what is known of features, restricted once and again."""
    objective, _ = pair
    model, data = objective.model, objective.data
    d = model.size
    first = np.sort(rng.choice(d, max(1, 2 * d // 3), replace=False))
    second = np.sort(rng.choice(len(first), max(1, len(first) // 2), replace=False))
    once = restrict(model, first)
    twice = restrict(once, second)
    some = once.narrow(data)
    for columns, mine, packed in ((first, once, some), (first[second], twice, twice.narrow(some))):
        assert mine.size == len(columns)
        w = rng.normal(size=len(columns))
        embedded = np.zeros(d)
        embedded[columns] = w
        value, g = objective.value_and_gradient(embedded)
        smaller = type(objective)(mine, packed)
        got, gradient = smaller.value_and_gradient(w)
        close(got, value)
        close(gradient, g[columns])
        for a, b in zip(mine.predict(packed, None, w), model.predict(data, None, embedded), strict=True):
            assert np.array_equal(a, b)
        close(feature_range(mine, packed), feature_range(model, data)[columns])
        for a, b in zip(feature_totals(mine, packed), feature_totals(model, data), strict=True):
            close(a, b[columns])
        assert mine.counts(packed) == model.counts(data)
        if listed_spread(model, data) is not None:
            for a, b in zip(listed_spread(mine, packed), listed_spread(model, data), strict=True):
                close(a, b[columns])
    mask = np.zeros(d, dtype=bool)
    mask[first] = True
    assert np.array_equal(restrict(model, mask).columns, once.columns)


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


def test_a_model_that_reads_features_in_its_own_way_is_heard(backend, rng):
    """Rows may not be taken away from it: it gets zeros."""

    class Doubled(backend.MulticlassModel):
        def scores(self, data, batch, w):
            scores = super().scores(data, batch, w)
            return scores._replace(values=2 * scores.values)

        def pullback(self, data, batch, w, g):
            return 2 * super().pullback(data, batch, w, g)

    X, Y = rng.normal(size=(5, 3)), rng.integers(0, 2, 5)
    model = Doubled(3, 2)
    some, w = restrict(model, [1, 4]), rng.normal(size=2)
    value, _ = backend.LogLoss(some, some.narrow(model.pack(X, Y))).value_and_gradient(w)
    close(value, classes(2 * X, Y, 2, 1.0, 1.0).loss(np.array([0, w[0], 0, 0, w[1], 0])))


def test_bounds_are_of_the_scores_that_they_came_with(backend, rng):
    """A subclass has none until they are registered; whole or restricted, no rule removes what it needs."""

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
        listed = classes(10 * X, Y, 3, 1.0, beta)
        for rule, says in (
            (backend.L1GapRule(), bounded),
            (backend.CountRule(), False),
            (backend.L2GapRule(), False),
            (backend.HalfSpaceRule(rng=0), False),
        ):
            if says:
                found = backend.solve_sparse(objective, beta=beta, tol=1e-12, rule=rule)
                assert found.screenings[-1].kept < model.size
                close(found.fun, listed.primal(listed.solve()))
            else:
                with pytest.raises(UnsupportedError, match=f"{kind.__name__} "):
                    backend.solve_sparse(objective, beta=beta, rule=rule)
        some = restrict(model, [1, 4, 7])
        fewer = backend.LogLoss(some, some.narrow(objective.data))
        problem = backend.ElasticNetCRF(fewer, alpha=1.0, beta=beta)
        assert (problem.features.range is not None) == bounded and problem.features.spread is None


@pytest.mark.parametrize(
    ("columns", "error"), [([0, 0], ValueError), ([1, 0], ValueError), ([7], ValueError), ([0.5], TypeError)]
)
def test_bad_columns_are_named(backend, columns, error):
    for model in (backend.MulticlassModel(2, 3), backend.SequenceModel(0, 2, start_stop=False)):
        with pytest.raises(error, match="columns: expected"):
            restrict(model, columns)


# what models know of their features -----------------------------------------------------------------------------------


def norms(listed, of):
    """The norm over examples of what ``of`` finds in each one's A (d, m)."""
    return np.sqrt(sum(of(A) ** 2 for A in listed.A))


def truth_features(model, data, i):
    """phi_i(y_i) (d,)."""
    piece, w = np.array([i]), np.zeros(model.size)
    return np.asarray(model.pullback(data, piece, w, model.gold(data, piece)))


def test_ranges_and_spreads_are_those_of_listed_outputs(backend, pair):
    """Ranges by counts are those of all labellings, no bounds above them."""
    objective, listed_at = pair
    listed = listed_at(1.0, 1.0)
    model, data = objective.model, objective.data
    close(feature_range(model, data), norms(listed, lambda A: (A.max(axis=1) - A.min(axis=1)) / 2))
    least, most = feature_totals(model, data)
    close(most - least, sum(np.ptp(A, axis=1) for A in listed.A))
    gold = sum(truth_features(model, data, i) for i in range(data.n))
    close(most - gold, sum(np.max(-A, axis=1) for A in listed.A))
    found = listed_spread(model, data)
    if found is None:
        assert isinstance(model, backend.SequenceModel)
        return
    close(found.centred, norms(listed, lambda A: np.linalg.norm(A - A.mean(axis=1, keepdims=True), axis=1)))
    close(found.from_last, norms(listed, lambda A: np.linalg.norm(A - A[:, -1:], axis=1)))


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_ranges_at_any_scale_and_of_repeated_columns(backend, scale):
    """A column that stands twice in a row adds up; squares neither overflow nor vanish."""
    X = backend.Rows(np.array([0, 3, 4]), np.array([1, 1, 0, 1]), scale * np.array([1.0, 2.0, -1.0, 4.0]), 2)
    model = backend.MulticlassModel(2, 2)
    data = model.pack(X, [0, 1])
    np.testing.assert_allclose(feature_range(model, data) / scale, [0.5, 0.5, 2.5, 2.5])
    np.testing.assert_allclose(listed_spread(model, data).from_last / scale, [1, 1, 5, 5])
    np.testing.assert_allclose(np.array(feature_totals(model, data)) / scale, [[-1, -1, 0, 0], [0, 0, 7, 7]])
    if scale == 1:
        np.testing.assert_allclose(model.squared_norms(data), [10.0, 16.0])
    model = backend.SequenceModel(2, 2, start_stop=False)
    found = feature_range(model, model.pack([X], [[0, 1]]))
    np.testing.assert_allclose(found[:4] / scale, [0.5, 0.5, 3.5, 3.5])
    np.testing.assert_allclose(found[4:], [0.5, 0.5, 0.5, 0.5])
    found = np.array(feature_totals(model, model.pack([X], [[0, 1]])))
    np.testing.assert_allclose(found[:, :4] / scale, [[-1, -1, 0, 0], [0, 0, 7, 7]])
    np.testing.assert_allclose(found[:, 4:], [[0] * 4, [1] * 4])
    listed = backend.ListModel(lambda x: np.asarray(x), backend.Table, size=2)
    data = listed.pack([scale * np.array([[0.0, 4.0], [3.0, 4.0]])], [0])
    np.testing.assert_allclose(feature_range(listed, data) / scale, [1.5, 0.0])
    np.testing.assert_allclose(np.array(feature_totals(listed, data)) / scale, [[0, 4], [3, 4]])


@pytest.mark.parametrize("transitions", [None, "bio"])
def test_ranges_of_a_tagger_bound_those_of_its_labellings(backend, transitions):
    X, Y = [{"word": list("abca")}, {"word": []}, {"word": list("bb")}], [["B-X", "I-X", "O", "O"], [], ["B-X", "O"]]
    model = backend.TaggingModel.of(X, Y, ["bias", "word[-1..0]"], transitions=transitions)
    data = model.pack(X, Y)
    total, least, most = np.zeros((3, model.size))
    for i in range(data.n):
        piece = np.array([i])
        scores, gold = model.scores(data, piece, np.zeros(model.size)), model.gold(data, piece)
        n = int(data.lengths[i])
        outputs = np.array(np.meshgrid(*[range(model.n_labels)] * n)).reshape(n, -1).T if n else np.zeros((1, 0), int)
        space, rows = model.structure_type.unchecked(scores), []
        for y in outputs:
            parts = space.ops.parts(scores, y[None])
            if np.isfinite(np.sum(scores.unary[parts.unary > 0])) and np.isfinite(
                np.sum(scores.pairwise[parts.pairwise > 0])
            ):
                rows.append(model.pullback(data, piece, np.zeros(model.size), add(parts, gold, -1.0)))
        total += ((np.max(rows, axis=0) - np.min(rows, axis=0)) / 2) ** 2
        here = truth_features(model, data, i)
        least, most = least + np.min(rows, axis=0) + here, most + np.max(rows, axis=0) + here
    found, bounds = feature_range(model, data), feature_totals(model, data)
    assert np.all(found >= np.sqrt(total) - 1e-12)
    assert np.all(bounds.least <= least + 1e-12) and np.all(bounds.most >= most - 1e-12)
    if transitions is None:
        close(found, np.sqrt(total))
        close(bounds.least, least)
        close(bounds.most, most)


def test_ranges_of_trees_bound_those_of_their_labellings(backend, rng):
    """Features are met exactly; pairs where a star's root and leaves may all differ."""
    parents = [np.array([-1, 0, 0, 1]), np.array([-1, -1]), np.zeros(0, int), np.array([-1, 0])]
    X = [(rng.normal(size=(len(p), 2)), p) for p in parents]
    model = backend.TreeModel(2, 2)
    data = model.pack(X, [np.zeros(len(p), int) for p in parents])
    total, least, most, zero = np.zeros((4, model.size))
    for i, p in enumerate(parents):
        piece = np.array([i])
        scores = model.scores(data, piece, zero)
        space = model.structure_type.unchecked(scores)
        rows = [model.pullback(data, piece, zero, space.parts(np.array(y, int))) for y in np.ndindex(*[2] * len(p))]
        total += ((np.max(rows, axis=0) - np.min(rows, axis=0)) / 2) ** 2
        least, most = least + np.min(rows, axis=0), most + np.max(rows, axis=0)
    found, bounds = feature_range(model, data), feature_totals(model, data)
    assert np.all(found >= np.sqrt(total) - 1e-12)
    assert np.all(bounds.least <= least + 1e-12) and np.all(bounds.most >= most - 1e-12)
    close(found[:-4], np.sqrt(total)[:-4])
    close(np.array(bounds)[:, :-4], np.array([least, most])[:, :-4])
    assert found[-4] == np.sqrt(total[-4])
    single = backend.TreeModel(2, 1)
    assert not np.any(feature_range(single, single.pack(X)))


def test_totals_of_a_single_output_are_its_features(backend, rng):
    """With one label nothing can vary: least and most are the truth's features, to the transitions."""
    x = [rng.normal(size=(n, 2)) for n in (3, 0, 1)]
    parents = [np.arange(len(a)) - 1 for a in x]
    for model, X, Y in (
        (backend.MulticlassModel(2, 1), x[0], [0, 0, 0]),
        (backend.SequenceModel(2, 1), x, [[0] * len(a) for a in x]),
        (backend.TreeModel(2, 1), list(zip(x, parents, strict=True)), [[0] * len(a) for a in x]),
    ):
        data = model.pack(X, Y)
        gold = sum(truth_features(model, data, i) for i in range(data.n))
        for bound in feature_totals(model, data):
            close(bound, gold)


def test_scores_of_the_truth(backend, pair, rng):
    """log Z minus them is the loss, of each example and in pieces of a batch."""
    objective, _ = pair
    model, data = objective.model, objective.data
    w = rng.normal(size=model.size)
    for piece in model.chunks(data, np.arange(data.n)):
        value, _ = model.structure_type.unchecked(model.scores(data, piece, w)).expectation()
        each = np.reshape(value, (-1,)) - np.asarray(model.gold_scores(data, piece, w))
        assert each.shape == piece.shape
        for i, loss in zip(piece, each, strict=True):
            close(loss, objective.value_and_gradient(w, [i])[0])


def test_models_that_have_no_answers(backend, rng):
    model = backend.ParsingModel([("h.tag", "m.tag")], bits=3)
    data = model.pack([{"tag": list("DNV")}, {"tag": ["N"]}], [[2, 3, 0], [0]])
    assert feature_range(model, data) is feature_totals(model, data) is listed_spread(model, data) is None
    assert feature_totals(restrict(model, [0]), data) is None
    grid = backend.ListModel(lambda x: np.eye(4) * x, backend.Chain, size=4)
    packed = grid.pack([1.0])
    assert feature_range(grid, packed) is feature_totals(grid, packed) is listed_spread(grid, packed) is None
    with pytest.raises(backend.UnsupportedError, match="SegmentationModel has weights that must be >= 0"):
        restrict(backend.SegmentationModel(1, 1), [0])
    some = restrict(model, np.arange(3))
    w = rng.normal(size=3)
    value, g = backend.LogLoss(model, data).value_and_gradient(np.concatenate([w, np.zeros(model.size - 3)]))
    got, gradient = backend.LogLoss(some, some.narrow(data)).value_and_gradient(w)
    close(got, value)
    close(gradient, g[:3])
    with pytest.raises(TypeError, match="RestrictedModel must define pack"):
        some.pack([1.0])


def test_restricted_models_work_in_every_namespace(backend, space, rng):
    like = space.put(np.zeros(1))
    X, Y = rng.normal(size=(5, 3)), rng.integers(0, 2, 5)
    words, labels = [rng.normal(size=(n, 3)) for n in (2, 3)], [rng.integers(0, 2, n) for n in (2, 3)]
    for model, x, y in ((backend.MulticlassModel(3, 2), X, Y), (backend.SequenceModel(3, 2), words, labels)):
        columns = np.array([0, 4, 5, model.size - 1]) if model.size > 6 else np.array([0, 4])
        some, w = restrict(model, columns), rng.normal(size=len(columns))
        data = model.pack(x, y, like=like)
        value, g = backend.LogLoss(some, some.narrow(data)).value_and_gradient(space.put(w))
        plain = model.pack(x, y)
        expected, gradient = backend.LogLoss(some, some.narrow(plain)).value_and_gradient(w)
        close(value, expected, space.dtype)
        close(space.get(g), gradient, space.dtype)
        close(feature_range(model, data), feature_range(model, plain), space.dtype)
        close(np.array(feature_totals(model, data)), np.array(feature_totals(model, plain)), space.dtype)
