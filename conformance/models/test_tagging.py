"""Taggers: weights of observed pairs, forbidden label sequences by enumeration, hashing, training in both panels."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance.application.test_chunks import written
from conformance.tolerances import close
from diptych.chunks import chunks
from diptych.files import load_model, save_model
from reference.models.schemes import allowed

LABELS = {
    "bio": ("O", "B-X", "I-X", "B-Y", "I-Y"),
    "iob1": ("O", "B-X", "I-X", "I-Y"),
    "iobes": ("O", "B-X", "I-X", "E-X", "S-X"),
    "bilou": ("o", "b-X", "i-X", "l-X", "u-X"),
    "bmes": ("O", "B", "M", "E", "S"),
}
OPTIONS = [
    {},
    {"pairs": "all"},
    {"transitions": "bio"},
    {"pairs": "all", "transitions": "bio"},
    {"bits": 6},
    {"bits": 8, "pairs": "all", "transitions": "bio"},
    {"least": 3},
]


def legal(labels, scheme):
    """Whether a sequence is what its chunks are written as in the scheme."""
    return written(len(labels), chunks(labels), scheme) == [label[0].upper() + label[1:] for label in labels]


def sentences(rng, n=6, scheme="bio", lengths=(3, 5, 1, 0, 7, 4)):
    """Sentences of few words and tags, and legal labels."""
    X, Y = [], []
    for i in range(n):
        m = lengths[i % len(lengths)]
        X.append({"word": [str(rng.integers(5)) for _ in range(m)], "tag": [str(rng.integers(3)) for _ in range(m)]})
        y = ["I-X"] * m
        while not legal(y, scheme):
            y = [LABELS[scheme][k] for k in rng.integers(0, len(LABELS[scheme]), m)]
        Y.append(y)
    return X, Y


def fitted(panel, rng, options, like=None):
    X, Y = sentences(rng)
    model = panel.TaggingModel.of(X, Y, "chunks", **options)
    return model, model.pack(X, Y, like=like), X, Y


@pytest.mark.parametrize("options", OPTIONS)
def test_scores_are_sums_of_the_weights_of_pairs(backend, space, rng, options):
    """Written out from the weights by name; the pullback is the adjoint."""
    model, data, X, _ = fitted(backend, rng, options, space.put(0.0))
    w = rng.normal(size=model.size)
    L, pairs = len(model.labels), np.arange(model.width * len(model.labels)) if model.pairs is None else model.pairs
    weight = dict(zip(pairs.tolist(), w.tolist(), strict=False))
    moves = dict(zip(model.label_pairs.tolist(), w[len(pairs) :].tolist(), strict=True))
    follows, begins, ends = allowed(model.labels, options.get("transitions"))
    found = reference.models.tagging.attributes_of(X, model.templates)
    rows = model._rows_of(found.names)
    for i, x in enumerate(X):
        n, first = len(x["word"]), found.offsets[i]
        scores = model.scores(data, np.array([i]), space.put(w))
        expected = np.zeros((1, n, L))
        for t, label in itertools.product(range(n), range(L)):
            for e in range(found.indptr[first + t], found.indptr[first + t + 1]):
                if (row := rows[found.numbers[e]]) >= 0:
                    expected[0, t, label] += weight.get(int(row) * L + label, 0.0)
            if (t == 0 and not begins[label]) or (t == n - 1 and not ends[label]):
                expected[0, t, label] = -np.inf
        pairwise = np.array([[moves.get(a * L + b, 0.0) for b in range(L)] for a in range(L)])
        close(space.get(scores.unary), expected, space.dtype, 10.0)
        close(space.get(scores.pairwise), np.where(follows, pairwise, -np.inf), space.dtype)
        linear = model.pushforward(data, np.array([i]), space.put(0 * w), space.put(w))
        g, h = rng.normal(size=(1, n, L)), rng.normal(size=(L, L))
        back = space.get(
            model.pullback(
                data, np.array([i]), space.put(w), linear._replace(unary=space.put(g), pairwise=space.put(h))
            )
        )
        forward = (space.get(linear.unary) * g).sum() + (space.get(linear.pairwise) * h).sum()
        assert back.shape == (model.size,) and np.all(np.isfinite(back))
        close(forward, back @ w, space.dtype, 100.0)


def test_observed_pairs_by_hand(backend):
    X = [{"word": ["a", "b", "a"]}, {"word": ["b"]}]
    Y = [["N", "V", "N"], ["N"]]
    model = backend.TaggingModel.of(X, Y, ["word"])
    assert model.labels == ("N", "V") and model.vocabulary == ("word[0]=a", "word[0]=b")
    assert model.pairs.tolist() == [0, 2, 3] and model.label_pairs.tolist() == [1, 2]  # a-N, b-N, b-V; NV, VN
    assert model.size == 5
    every = backend.TaggingModel.of(X, Y, ["word"], pairs="all")
    assert every.size == 2 * 2 + 4 and every.pairs is None and not every.restricted
    assert backend.TaggingModel.of(X, Y, ["word"], least=3).size == 0 + 2
    unknown = model.pack([{"word": ["c", "a"]}])
    assert unknown.rows.indices.tolist() == [0] and unknown.rows.indptr.tolist() == [0, 0, 1]


@pytest.mark.parametrize("options", OPTIONS)
def test_losses_and_their_gradients_by_enumeration(backend, rng, options):
    model, data, X, Y = fitted(backend, rng, options)
    keep = [i for i, y in enumerate(Y) if 0 < len(y) <= 4]
    data = model.pack([X[i] for i in keep], [Y[i] for i in keep])
    w, L = rng.normal(size=model.size), len(model.labels)
    log_loss = hinge = 0.0
    for i, k in enumerate(keep):
        scores, y = model.scores(data, np.array([i]), w), [model.labels.index(label) for label in Y[k]]
        totals = []
        for labels in itertools.product(range(L), repeat=len(y)):
            if options.get("transitions") and not legal([model.labels[a] for a in labels], options["transitions"]):
                continue
            unary = sum(scores.unary[0, t, a] for t, a in enumerate(labels))
            totals.append((unary + sum(scores.pairwise[a, b] for a, b in itertools.pairwise(labels)), labels))
        assert model.counts(data)[i] == len(totals)
        values = np.array([total for total, _ in totals])
        assert np.all(np.isfinite(values))
        (gold,) = (total for total, labels in totals if list(labels) == y)
        log_loss += np.log(np.exp(values - values.max()).sum()) + values.max() - gold
        hinge += max(total + sum(a != b for a, b in zip(labels, y, strict=True)) for total, labels in totals) - gold
        assert model.predict(data, np.array([i]), w)[0].tolist() == list(max(totals)[1])
    for objective, expected in (
        (backend.LogLoss(model, data), log_loss),
        (backend.StructuralHinge(model, data), hinge),
    ):
        value, gradient = objective.value_and_gradient(w)
        close(value, expected / len(keep))
        for _ in range(3):
            v = rng.normal(size=model.size)
            up, down = (objective.value_and_gradient(w + t * v)[0] for t in (1e-6, -1e-6))
            close((up - down) / 2e-6, gradient @ v, scale=1e3)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("loss", ["LogLoss", "StructuralHinge", "TopK"])
def test_panels_step_alike(other, rng, options, loss):
    """SGD with steps that set the scale to 0 and below, SVRG, SAGA, and block-coordinate Frank-Wolfe on the hinge
    itself.
    """
    runs = []
    for panel in (reference, other):
        model, data, *_ = fitted(panel, np.random.default_rng(5), options)
        w0, mu = np.random.default_rng(3).normal(size=model.size), None
        if loss == "TopK":
            objective, mu = panel.StructuralHinge(model, data, smoothing=panel.smoothings.TopK(3)), 0.7
        else:
            objective = getattr(panel, loss)(model, data)
        found = [panel.sgd(objective, w0, lam=0.1, mu=mu, epochs=2, rng=0, average=a).x for a in ("last", "weighted")]
        odd = panel.sgd(
            objective,
            w0,
            lam=0.5,
            mu=mu,
            epochs=1,
            rng=0,
            step_size=lambda t, lam: np.where(t == 2, 2.0, 0.1 + 3.0 * (t == 3)),
        )
        found += [odd.x, objective.value_and_gradient(w0, np.array([1, 4, 1]), mu)[1]]
        if loss != "StructuralHinge":
            found += [panel.svrg(objective, w0, lam=0.1, mu=mu, epochs=2, rng=0, step_size=s).x for s in (None, 0.01)]
            saga = {"inner": "saga", "stop": "gradient", "kappa": 0.1, "step_size": 0.01}
            found.append(panel.casimir(objective, w0, lam=0.1, mu=mu, epochs=3, rng=0, **saga).x)
        else:
            found.append(panel.bcfw(objective, lam=0.1, epochs=2, rng=0).x)
        runs.append(found)
    for mine, theirs in zip(*runs, strict=True):
        close(mine, theirs)


@pytest.mark.parametrize("transitions", [None, "bio"])
def test_pairs_without_a_weight_stay_at_zero(backend, rng, transitions):
    """Training on observed pairs is training on all of them with the others fixed: the same minimum of a constrained
    problem.
    """
    model, data, X, Y = fitted(backend, rng, {"transitions": transitions})
    every = backend.TaggingModel.of(X, Y, "chunks", pairs="all", transitions=transitions)
    found = backend.lbfgs(backend.LogLoss(model, data), lam=0.1, tol=1e-7, iterations=500)
    assert found.success and found.certificate < 1e-12
    whole = np.zeros(every.size)
    whole[np.searchsorted(every.cells, model.cells)] = found.x
    value, gradient = backend.LogLoss(every, every.pack(X, Y)).value_and_gradient(whole)
    close(value + 0.05 * whole @ whole, found.fun)
    gradient += 0.1 * whole
    free = np.isin(every.cells, model.cells)
    assert np.abs(gradient[free]).max() < 1e-6 < 1e-3 < np.abs(gradient[~free]).max()


def test_hashing_is_the_same_for_ever(backend):
    """Rows are hashes of names, BLAKE2b modulo their number: a change would make saved models useless."""
    model = backend.TaggingModel(["a", "b", "c"], ["bias", "word"], bits=10)
    assert model.width == 2**10 // 3 and model.size == 341 * 3 + 9
    data = model.pack([{"word": ["cat", "dog"]}])
    names = ("bias", "word[0]=cat", "bias", "word[0]=dog")
    digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names]
    assert data.rows.indices.tolist() == [int.from_bytes(digest, "little") % 341 for digest in digests]
    assert backend.TaggingModel(["a", "b", "c"], ["bias", "word"], bits=2).width == 1


@given(data=st.data())
def test_predicted_labels_are_legal(backend, data):
    scheme = data.draw(st.sampled_from(sorted(LABELS)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**20)))
    scale = data.draw(st.sampled_from([0.0, 1.0, 1e300, 1e-300]))
    X, _ = sentences(rng, scheme=scheme)
    model = backend.TaggingModel(LABELS[scheme], ["bias", "word[-1..1]"], bits=8, transitions=scheme)
    w = scale * rng.choice([-1.0, 0.0, 1.0], model.size)
    for x, y in zip(X, model.predict(model.pack(X), None, w), strict=True):
        assert len(y) == len(x["word"]) and legal([model.labels[i] for i in y], scheme)


def test_models_are_saved_with_their_vocabulary(backend, rng, tmp_path):
    for options in OPTIONS:
        model, data, X, _ = fitted(backend, rng, options)
        w = rng.normal(size=model.size)
        save_model(tmp_path / "m.npz", model, w)
        for panel in (backend.module, reference):
            again, v, _ = load_model(tmp_path / "m.npz", panel)
            assert type(again) is panel.TaggingModel and again.settings() == model.settings() and np.array_equal(v, w)
            guess = again.predict(again.pack(X), None, v)
            assert all(np.array_equal(a, b) for a, b in zip(guess, model.predict(data, None, w), strict=True))


def test_functions_have_no_file_form(backend, tmp_path):
    X, Y = [["a", "b"]], [["N", "V"]]
    model = backend.TaggingModel.of(X, Y, lambda sentence, t: [sentence[t]])
    with pytest.raises(TypeError, match="templates: a function cannot be saved; make a model with templates=None"):
        save_model(tmp_path / "m.npz", model, np.zeros(model.size))
    same = backend.TaggingModel.of([[["a"], ["b"]]], Y, None)
    assert same.vocabulary == model.vocabulary == ("a", "b") and same.settings()["templates"] is None
    weighed = same.pack([[{"a": 2.0, "b": 0.5}]])
    close(same.scores(weighed, np.array([0]), np.array([1.0, 10.0, 0.0])).unary, [[[2.0, 5.0]]])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"vocabulary": None}, ValueError, "vocabulary: expected either a vocabulary or bits"),
        ({"bits": 4}, ValueError, "vocabulary: expected either a vocabulary or bits"),
        ({"vocabulary": None, "bits": 1}, ValueError, r"bits: expected at most 30, and 2\^bits >= 5"),
        ({"vocabulary": ["x", "x"]}, ValueError, "vocabulary: expected different attributes"),
        ({"pairs": [1, 1]}, ValueError, r"pairs: expected different numbers in 0..9, in order"),
        ({"pairs": [10]}, ValueError, r"pairs: expected different numbers in 0..9"),
        ({"pairs": [0.5]}, TypeError, "pairs: expected integers"),
        ({"label_pairs": [25]}, ValueError, r"label_pairs: expected different numbers in 0..24"),
        (
            {"label_pairs": [2], "transitions": "bio"},
            ValueError,
            "label_pairs: I-X after O is not allowed by transitions='bio'",
        ),
        ({"transitions": "iob"}, ValueError, "transitions: expected one of bio, iob1, iobes, bilou, .*, got 'iob'"),
        (
            {"labels": ["N", "V"], "transitions": "bio"},
            ValueError,
            "transitions: expected labels O and B-X, I-X for bio, got 'N'",
        ),
        (
            {"labels": ["I-X"], "transitions": "bio"},
            ValueError,
            "transitions: none of the labels I-X may begin a sentence",
        ),
        ({"templates": ["word["]}, ValueError, "templates: expected bias"),
    ],
)
def test_what_is_wrong_is_named(backend, change, error, message):
    options = {"labels": LABELS["bio"], "templates": ["bias", "word"], "vocabulary": ["bias", "word[0]=a"], **change}
    with pytest.raises(error, match=message):
        backend.TaggingModel(**options)


def test_labels_that_break_the_mask_are_named(backend):
    model = backend.TaggingModel(LABELS["bio"], ["bias"], vocabulary=["bias"], transitions="bio")
    X = [{"word": ["a"]}, {"word": ["a", "b"]}]
    for wrong, message in (
        (["I-X", "O"], r"Y\[1\]\[0\]: I-X after the start, at token 0, is not allowed by transitions='bio'"),
        (["B-X", "I-Y"], r"Y\[1\]\[1\]: I-Y after B-X, at token 1, is not allowed by transitions='bio'"),
    ):
        with pytest.raises(ValueError, match=message):
            model.pack(X, [["O"], wrong])
    model = backend.TaggingModel(LABELS["iobes"], ["bias"], vocabulary=["bias"], transitions="iobes")
    with pytest.raises(
        ValueError, match=r"Y\[0\]\[0\]: the end after B-X, at token 1, is not allowed by transitions='iobes'"
    ):
        model.pack(X[:1], [["B-X"]])
    for arguments, message in (
        (([], []), "Y: expected names of labels"),
        ((X, [["O"], ["O"]]), r"Y\[1\]: expected 2 labels"),
        ((X, [["O"]]), "Y: expected 2 label sequences"),
    ):
        with pytest.raises(ValueError, match=message):
            backend.TaggingModel.of(*arguments, ["bias"])
    with pytest.raises(ValueError, match="pairs: expected observed or all, got 'some'"):
        backend.TaggingModel.of(X, [["O"], ["O", "O"]], ["bias"], pairs="some")
