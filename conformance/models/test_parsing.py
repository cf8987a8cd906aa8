"""The dependency parser: features by hand, hashing and vocabulary, adjoint, packing, and training on planted trees
that cross.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance.tolerances import close
from reference.models.templates import DISTANCES, TEMPLATES
from reference.smoothings import SquaredL2

ROOT, OUTSIDE = ("root",), ("outside",)
SENTENCE = {"word": ["a", "bird", "sang"], "tag": ["D", "N", "V"]}
TEMPLATE_LISTS = (
    [("h.tag", "m.tag")],
    [("h.word", "m.word", "distance"), ("b.tag", "h.tag", "direction"), ("m.tag",)],
    [("b.tag",), ("h-1.tag", "m+1.tag", "m.word")],
    "20",
)


def by_hand(templates, sentence, h, m):
    """The features of an arc, each a set of (atom, value), as a list; written out from what the atoms are said to
    mean.
    """
    rows = {
        field: dict(enumerate([ROOT, *(sentence["word"] if field in ("prefix", "suffix") else sentence[field])]))
        for field in {"prefix", "suffix", *sentence}
    }
    between = {rows["tag"][b] for b in range(min(h, m) + 1, max(h, m))}
    side = "right" if h > m else "left"
    found = []

    def value(atom, tag):
        if atom == "direction":
            return side
        if atom == "distance":
            return side, max(d for d in DISTANCES if d <= abs(h - m))
        if atom == "b.tag":
            return tag
        who, field = atom.split(".")
        place = {"h": h, "m": m}[who[0]] + int(who[1:] or 0)
        seen = rows[field].get(place, OUTSIDE)
        if seen in (ROOT, OUTSIDE):
            return seen
        return {"prefix": seen[:5], "suffix": seen[-3:]}.get(field, seen)

    for template in templates:
        for tag in sorted(between) if "b.tag" in template else [None]:
            found.append(frozenset((atom, value(atom, tag)) for atom in template))
    return found


@st.composite
def sentences(draw):
    """0 to 6 tokens of few different words and tags, and a tree of them."""
    n = draw(st.integers(0, 6))
    words = draw(st.lists(st.sampled_from(["a", "bird", "birdsong", "sang", "<root>", "\0"]), min_size=n, max_size=n))
    tags = draw(st.lists(st.sampled_from("DNV"), min_size=n, max_size=n))
    order = draw(st.permutations(range(1, n + 1)))
    heads = np.zeros(n, np.int64)
    for place, m in enumerate(order):
        heads[m - 1] = draw(st.sampled_from([0, *order[:place]]))
    return {"word": words, "tag": tags, "other": None}, heads


def planted(rng, n, tags=4, single_root=False):
    """n sentences with the best trees under planted weights: many cross."""
    model = reference.ParsingModel([("h.tag", "m.tag"), ("h.tag", "direction")], bits=7, single_root=single_root)
    X = [{"tag": [str(t) for t in rng.integers(0, tags, rng.integers(2, 7))]} for _ in range(n)]
    w = rng.normal(size=model.size)
    return model, X, model.predict(model.pack(X), None, w), w


def crosses(heads):
    """Whether two arcs of a tree cross."""
    arcs = [tuple(sorted((h, m))) for m, h in enumerate(heads.tolist(), 1)]
    return any(a < c < b < d for (a, b), (c, d) in itertools.permutations(arcs, 2))


def of(backend, templates, **options):
    return backend.ParsingModel(templates, **options)


def test_features_by_hand(backend):
    """The arc from "sang" to "a", with "bird" between: three features, each with a weight of its own."""
    model = of(backend, [("h.word", "m.tag"), ("h.tag", "b.tag", "direction"), ("m+1.word",)], bits=20)
    data = model.pack([SENTENCE])
    arcs, keys = model.arc_keys(data, 0)
    mine = keys[arcs == 0 * 4 + 3]
    assert len(mine) == len(set(mine.tolist())) == 3
    w = np.zeros(model.size)
    w[(keys & np.uint64(model.size - 1)).astype(int)] = 0.0
    w[(mine & np.uint64(model.size - 1)).astype(int)] = [1.0, 10.0, 100.0]
    scores = model.scores(data, np.array([0]), w).values
    assert scores.shape == (3, 4) and scores[0, 3] == 111.0
    # the word after "a" for all its heads; of the other two nothing is shared: the word, the tag, the side differ
    shared = scores[0, 0], scores[0, 2]
    assert shared[0] == shared[1] and shared[0] in (1.0, 10.0, 100.0)
    assert not scores[1:].any() and scores[0, 1] == 0.0


@given(examples=st.lists(sentences(), min_size=1, max_size=3))
@pytest.mark.parametrize("templates", TEMPLATE_LISTS)
def test_keys_are_equal_where_features_are(templates, examples):
    """Over all arcs of some sentences: a key for each feature, and different ones for different features."""
    model = reference.ParsingModel(templates)
    data = model.pack([x for x, _ in examples])
    key_of, feature_of = {}, {}
    for i, (x, _) in enumerate(examples):
        n = len(x["tag"])
        arcs, keys = model.arc_keys(data, i)
        x = {"word": x["word"], "tag": x["tag"]}
        for m, h in itertools.product(range(1, n + 1), range(n + 1)):
            mine = keys[arcs == (m - 1) * (n + 1) + h].tolist()
            if h == m:
                assert mine == []
                continue
            features = by_hand(model.templates, x, h, m)
            assert len(mine) == len(features)
            assert len(set(mine)) == len(set(features))
            for feature in features:
                key_of.setdefault(feature, set(mine)).intersection_update(mine)
            for key in mine:
                feature_of.setdefault(key, set(features)).intersection_update(features)
    assert all(key_of.values()) and all(feature_of.values())


@given(examples=st.lists(sentences(), min_size=1, max_size=3), listed=st.booleans())
@pytest.mark.parametrize("templates", TEMPLATE_LISTS)
def test_scores_are_sums_of_weights_and_pullback_is_the_adjoint(backend, space, templates, examples, listed):
    """Against the keys, one arc after another; <J dw, g> = <dw, J^T g>; Hamming loss and true arcs; hashed, and by a
    vocabulary.
    """
    model = of(backend, templates, bits=6)
    X, Y = [x for x, _ in examples], [y for _, y in examples]
    if listed:
        model = of(backend, templates, vocabulary=model.vocabulary(model.pack(X, Y)))
    data = model.pack(X, Y, like=space.put(np.zeros(1)))
    rng = np.random.default_rng(1)
    w = rng.normal(size=model.size)
    for i, y in enumerate(Y):
        n, piece = len(y), np.array([i])
        scores = model.scores(data, piece, space.put(w))
        arcs, keys = model.arc_keys(data, i)
        number = {int(key): j for j, key in enumerate(model.keys)} if listed else None
        expected = np.zeros((n, n + 1))
        for arc, key in zip(arcs.tolist(), keys.tolist(), strict=True):
            j = number.get(key) if listed else key % model.size
            expected[divmod(arc, n + 1)] += 0.0 if j is None else w[j]
        close(space.get(scores.values), expected, space.dtype, 10.0)
        g = rng.normal(size=(n, n + 1)) * rng.integers(0, 2, (n, n + 1))
        back = space.get(model.pullback(data, piece, space.put(w), scores._replace(values=space.put(g))))
        assert back.shape == (model.size,)
        close((expected * g).sum(), back @ w, space.dtype, 100.0)
        true = np.arange(n + 1) == y[:, None]
        assert np.array_equal(space.get(model.gold(data, piece).values), true)
        assert np.array_equal(space.get(model.task_loss(data, piece).values), ~true)


def test_a_vocabulary_knows_the_features_of_true_arcs(backend):
    """By hand: tags of head and modifier of three true arcs, of which one occurs twice; others have no weight."""
    plain = of(backend, [("h.tag", "m.tag")])
    X = [{"tag": ["D", "N", "V"]}, {"tag": ["D", "N"]}]
    data = plain.pack(X, [[2, 3, 0], [2, 0]])
    every, twice = plain.vocabulary(data), plain.vocabulary(data, least=2)
    assert len(every) == 4 and len(twice) == 1  # D<-N, N<-V, V<-root, N<-root
    model = of(backend, [("h.tag", "m.tag")], vocabulary=twice.tolist())
    assert model.size == 1
    scores = model.scores(model.pack(X), np.array([0]), np.array([5.0])).values
    assert np.array_equal(np.argwhere(scores), [[0, 2]]) and scores[0, 2] == 5.0
    empty = of(backend, [("h.tag", "m.tag")], vocabulary=[])
    assert empty.size == 0 and not empty.scores(empty.pack(X), np.array([0]), np.zeros(0)).values.any()
    same = of(backend, **model.settings())
    assert same.settings() == model.settings() and same.size == 1


def test_named_templates(backend):
    for name, templates in TEMPLATES.items():
        model = of(backend, name)
        assert len(model.templates) == len(templates) == int(name) and model.size == 2**20
        assert all("b.tag" in t for t in model.templates[model.simple :])


@pytest.mark.parametrize("single_root", [False, True])
def test_predicted_trees_are_the_best_of_all(backend, rng, single_root):
    model, X, Y, w = planted(rng, 8, single_root=single_root)
    model = of(backend, model.templates, bits=7, single_root=single_root)
    data = model.pack(X)
    counts = model.counts(data)
    for i, y in enumerate(model.predict(data, None, w)):
        scores, n = model.scores(data, np.array([i]), w).values, len(Y[i])
        if n > 5:
            continue
        totals = {
            heads: scores[np.arange(n), heads].sum()
            for heads in model.structure_type(scores, single_root=single_root).enumerate()
        }
        assert y.dtype == np.int64 and len(totals) == counts[i]
        close(totals[tuple(y.tolist())], max(totals.values()))


@pytest.mark.parametrize("single_root", [False, True])
def test_bcfw_learns_trees_that_cross(backend, rng, single_root):
    """To a certified relative gap of 2 %; the hinge bounds the number of wrong heads, and most heads of new
    sentences are right.
    """
    model, X, Y, w = planted(rng, 20, single_root=single_root)
    assert sum(crosses(y) for y in Y) > 3
    model = of(backend, model.templates, bits=7, single_root=single_root)
    hinge = backend.StructuralHinge(model, model.pack(X, Y))
    found = backend.bcfw(hinge, lam=0.01, tol=0.02, epochs=100, rng=0)
    assert found.success and 0 <= found.certificate <= 0.02 * found.fun
    value = hinge.value_and_gradient(found.x)[0] + 0.005 * found.x @ found.x
    close(value, found.fun)
    for v in rng.normal(size=(20, model.size)):  # the certificate bounds from below
        other = found.x + 0.3 * v
        assert hinge.value_and_gradient(other)[0] + 0.005 * other @ other >= found.fun - found.certificate - 1e-9
    new = model.pack([{"tag": [str(t) for t in rng.integers(0, 4, 5)]} for _ in range(30)])
    right = np.concatenate(model.predict(new, None, found.x)) == np.concatenate(model.predict(new, None, w))
    assert right.mean() > 0.7
    wrong = [np.sum(y != z) for y, z in zip(model.predict(hinge.data, None, found.x), Y, strict=True)]
    assert np.mean(wrong) <= hinge.value_and_gradient(found.x)[0]


def test_the_log_loss_is_the_negative_log_likelihood(backend, rng):
    """By enumeration, its gradient by differences."""
    model, X, Y, w = planted(rng, 3, single_root=True)
    model = of(backend, model.templates, bits=7, single_root=True)
    X, Y = [{"tag": x["tag"][:3]} for x in X], [[2, 0, 2][: len(x["tag"])] for x in X]
    data = model.pack(X, Y)
    loss = backend.LogLoss(model, data)
    expected = 0.0
    for i, y in enumerate(Y):
        scores, n = model.scores(data, np.array([i]), w).values, len(y)
        trees = model.structure_type(scores, single_root=True).enumerate()
        every = np.array([scores[np.arange(n), heads].sum() for heads in trees])
        expected += np.log(np.exp(every).sum()) - scores[np.arange(n), y].sum()
    value, gradient = loss.value_and_gradient(w)
    close(value, expected / len(Y))
    for _ in range(5):
        v = rng.normal(size=model.size)
        up, down = (loss.value_and_gradient(w + t * v)[0] for t in (1e-5, -1e-5))
        close((up - down) / 2e-5, gradient @ v, scale=1e4)


@pytest.mark.parametrize("average", ["last", "uniform", "weighted"])
@pytest.mark.parametrize("loss", ["StructuralHinge", "LogLoss", "StructuralHinge, squared l2"])
@pytest.mark.parametrize("listed", [False, True])
def test_panels_step_alike(other, rng, loss, average, listed):
    """Sparse updates, scales and averages: the iterates of the reference's loop, steps that set the scale to 0
    included.
    """
    plain, X, Y, _ = planted(rng, 6)
    templates = [*plain.templates, ("h.tag", "b.tag", "m.tag")]
    model = reference.ParsingModel(templates, bits=7)
    options = {"bits": 7, "vocabulary": model.vocabulary(model.pack(X, Y)) if listed else None}
    runs = []
    for panel in (reference, other):
        model = panel.ParsingModel(templates, **options)
        kind, _, smooth = loss.partition(", ")
        more = {"smoothing": SquaredL2()} if smooth else {}
        objective = getattr(panel, kind)(model, model.pack([*X, {"tag": []}], [*Y, []]), **more)
        w0 = np.random.default_rng(3).normal(size=model.size)
        steps = {
            "lam": 0.5,
            "mu": 0.5 if smooth else None,
            "step_size": lambda t, lam: np.where(t == 4, 1 / lam, 0.3),
            "average": average,
        }
        runs.append(panel.sgd(objective, w0, epochs=3, rng=0, **steps))
    close(runs[1].x, runs[0].x)
    close([row.objective for row in runs[1].history], [row.objective for row in runs[0].history])


@pytest.mark.parametrize(
    "options", [{}, {"cached_passes": 0}, {"average": "weighted", "capacity": 2}, {"line_search": False}]
)
def test_panels_climb_the_dual_alike(other, rng, options):
    """The first epochs of block-coordinate Frank-Wolfe, before rounding decides between trees that are equally good."""
    plain, X, Y, _ = planted(rng, 6)
    runs = []
    for panel in (reference, other):
        model = panel.ParsingModel([*plain.templates, ("h.tag", "b.tag", "distance")], bits=7)
        hinge = panel.StructuralHinge(model, model.pack([*X, {"tag": []}], [*Y, []]))
        runs.append(panel.bcfw(hinge, lam=0.1, epochs=3, tol=None, rng=0, **options))
    close(runs[1].x, runs[0].x, scale=1e3)
    for a, b in zip(runs[1].history, runs[0].history, strict=True):
        close([a.objective, a.dual], [b.objective, b.dual], scale=1e3)
