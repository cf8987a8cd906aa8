"""fit, predict and score, by scikit-learn's own checks, and against its optima."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from functools import partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

import diptych.estimators
import reference
from conformance.specimens.pages import entries
from conformance.tolerances import close
from diptych.metrics import chunk_f1, chunk_f1_scorer

sklearn = pytest.importorskip("sklearn")

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few iterations are asked for


@pytest.fixture(params=["reference", "accelerated"])
def estimators(request):
    """The estimators, in a panel."""
    return SimpleNamespace(
        **{name: partial(getattr(diptych.estimators, name), panel=request.param) for name in diptych.estimators.__all__}
    )


def words(n=60):
    """Some words of three or more letters, pixels and labels by name."""
    letters = reference.load_letters().take(np.arange(n))
    return letters.X, [np.array(letters.labels)[y] for y in letters.Y]


def tokens():
    """Features by name, and labels."""
    X = [[{"w": "the", "first": True}, {"w": "duck"}, {"w": "swims", "bias": 1.0}], [{"w": "a"}, {"w": "duck"}], []]
    return X, [["B-NP", "I-NP", "O"], ["B-NP", "I-NP"], []]


# classes --------------------------------------------------------------------------------------------------------------


@pytest.mark.beyond("scikit-learn's own checks")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("MulticlassClassifier", {}),
        (
            "MulticlassClassifier",
            {"loss": "hinge", "optimizer": "cutting_planes", "options": {"tol": 1e-9, "epochs": 2000}},
        ),
        ("SparseClassifier", {}),
        ("SparseClassifierPath", {"count": 2, "tol": 1e-3}),
    ],
)
def test_every_check_of_scikit_learn(estimators, name, options):
    from sklearn.utils.estimator_checks import check_estimator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(getattr(estimators, name)(**options), on_fail=None)
    assert len(found) > 50
    failed = {result["check_name"]: str(result["exception"]) for result in found if result["status"] == "failed"}
    assert not failed


@pytest.mark.beyond("a long training through a command or learner")
def test_the_classifier_is_logistic_regression(estimators):
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression

    X, y = load_iris(return_X_y=True)
    lam, weights = 0.05, np.random.default_rng(0).uniform(0, 2, len(y))
    ours = estimators.MulticlassClassifier(lam=lam, fit_intercept=False, options={"tol": 1e-9, "iterations": 2000})
    for sample_weight, total in ((None, len(y)), (weights, weights.sum())):
        theirs = LogisticRegression(C=1 / (lam * total), fit_intercept=False, tol=1e-9, max_iter=5000)
        theirs.fit(X, y, sample_weight)
        ours.fit(X, y, sample_weight)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


@pytest.mark.filterwarnings("ignore:sparse_path")  # the path of a few rows
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
def test_classifiers_have_the_shapes_of_scikit_learn(estimators, rng, classes, intercept):
    """Scores are X coef_^T + intercept_, of two classes a row; weights_ are the model's."""
    y = np.arange(12) % classes
    X = rng.normal(size=(12, 4)) + 4.0 * np.eye(classes, 4)[y]
    for name in ("MulticlassClassifier", "SparseClassifier", "SparseClassifierPath"):
        more = {"count": 3, "cv": 2} if name.endswith("Path") else {}
        learner = getattr(estimators, name)(fit_intercept=intercept, **more)
        assert not hasattr(learner, "coef_") and not hasattr(learner, "intercept_")
        learner.fit(X, y)
        rows = classes if classes > 2 else 1
        assert learner.coef_.shape == (rows, 4) and learner.intercept_.shape == (rows,)
        scores, found = X @ learner.coef_.T + learner.intercept_, learner.decision_function(X)
        close(found, scores if classes > 2 else scores[:, 0])
        best = learner.model_.predict(learner.model_.pack(X), None, learner.weights_)
        assert learner.predict(X).tolist() == [int(learner.model_.labels[k]) for k in best]


def test_margins_are_costs(estimators):
    """Where examples cannot be told apart, the most frequent class wins by a margin of what it costs to miss it."""
    X, y = np.ones((10, 1)), np.array(["b"] * 6 + ["a"] * 4)
    cost = np.array([[0.0, 9.0], [2.0, 0.0]])  # missing b costs 2
    options = {"loss": "hinge", "lam": 1e-3, "fit_intercept": False, "random_state": 0}
    margins = [
        estimators.MulticlassClassifier(cost=c, **options).fit(X, y).decision_function(X[:1]) for c in (None, cost)
    ]
    np.testing.assert_allclose(margins, [[1.0], [2.0]], atol=0.05)
    with pytest.raises(AttributeError, match="probabilities"):
        _ = estimators.MulticlassClassifier(**options).fit(X, y).predict_proba


# sequences ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", diptych.estimators.__all__)
def test_the_checks_that_need_no_table_of_numbers(name):
    from sklearn.base import clone
    from sklearn.utils import estimator_checks as checks

    estimator = getattr(diptych.estimators, name)()
    for check in (
        checks.check_estimator_cloneable,
        checks.check_estimator_repr,
        checks.check_estimator_tags_renamed,
        checks.check_valid_tag_types,
        checks.check_no_attributes_set_in_init,
        checks.check_parameters_default_constructible,
        checks.check_get_params_invariance,
        checks.check_set_params,
        checks.check_do_not_raise_errors_in_init_or_set_params,
        checks.check_mixin_order,
    ):
        check(name, clone(estimator))
    weight = "alpha" if name.startswith("Sparse") else "C" if name == "KernelSequenceLabeler" else "lam"
    assert repr(clone(estimator).set_params(**{weight: 0.25})) == f"{name}({weight}=0.25)"
    for ask in [estimator.predict, *([estimator.selected] if hasattr(estimator, "selected") else [])]:
        with pytest.raises(sklearn.exceptions.NotFittedError):
            ask([])


@pytest.mark.beyond("a long training through a command or learner")
def test_search_and_cross_validation_over_sequences(estimators):
    from sklearn.model_selection import GridSearchCV, cross_val_score

    X, Y = words()
    labeler = estimators.SequenceLabeler(lam=0.01, options={"iterations": 20})
    search = GridSearchCV(labeler, {"lam": [10.0, 0.01]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"lam": 0.01}  # 10 forgets everything
    scores = cross_val_score(labeler, X, Y, cv=3)
    close(search.best_score_, scores.mean())
    labels = [np.where(np.isin(y, [*"aeiou"]), "B-X", "O") for y in Y]
    by_f1 = GridSearchCV(labeler, {"lam": [10.0, 0.01]}, cv=3, scoring=chunk_f1_scorer).fit(X, labels)
    close(by_f1.best_score_, cross_val_score(labeler, X, labels, cv=3, scoring=chunk_f1_scorer).mean())
    assert by_f1.score(X, labels) == chunk_f1(labels, by_f1.predict(X)) > 0.5
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    for a, b in zip(search.predict(X[:5]), again.predict(X[:5]), strict=True):
        assert a == b


def test_features_by_name(estimators):
    from scipy.sparse import csr_array

    X, Y = tokens()
    labeler = estimators.SequenceLabeler(lam=0.01, transitions="bio").fit(X, Y)
    assert labeler.predict(X) == Y and labeler.score(X, Y) == 1.0
    assert {type(label) for y in labeler.predict(X) for label in y} == {str}  # what scorers of chunks take
    assert labeler.classes_.tolist() == ["B-NP", "I-NP", "O"]
    assert {"w:duck", "first", "bias"} <= set(labeler.model_.vocabulary)
    names = [[[f"w={at['w']}"] for at in x] for x in X]  # lists of strings
    assert estimators.SequenceLabeler(lam=0.01, bits=8).fit(names, Y).predict(names) == Y
    rows = [csr_array(x) for x in words(8)[0]]
    dense = estimators.SequenceLabeler(options={"iterations": 5}).fit(*words(8))
    sparse = estimators.SequenceLabeler(options={"iterations": 5}).fit(rows, words(8)[1])
    close(dense.coef_, sparse.coef_)


def test_integer_labels_keep_their_order(estimators):
    """10 comes after 2 among integers and before it among names."""
    X, Y = tokens()
    numbers = {"B-NP": 2, "I-NP": 10, "O": -1}
    Z = [[numbers[label] for label in y] for y in Y]
    labeler = estimators.SequenceLabeler(lam=0.01).fit(X, Z)
    assert labeler.classes_.tolist() == [-1, 2, 10]
    assert labeler.predict(X) == Z and {type(label) for y in labeler.predict(X) for label in y} == {int}
    by_name = estimators.SequenceLabeler(lam=0.01).fit(X, Y)
    for p, q in zip(labeler.predict_marginals(X), by_name.predict_marginals(X), strict=True):
        np.testing.assert_allclose(p[:, [1, 2, 0]], q, atol=1e-4)  # O, B-NP, I-NP as -1, 2, 10


def test_costs_are_in_the_order_of_classes(estimators):
    """2 comes before 10 there, and after it among the model's names; margins are costs, as above."""
    X, Y = [[["x"]] for _ in range(10)], [[10]] * 6 + [[2]] * 4
    cost = np.array([[0.0, 9.0], [2.0, 0.0]])  # missing 10 costs 2
    labeler = estimators.SequenceLabeler(loss="hinge", lam=1e-3, cost=cost, pairs="all", random_state=0).fit(X, Y)
    assert labeler.model_.labels == ("10", "2") and labeler.classes_.tolist() == [2, 10]
    np.testing.assert_allclose(labeler.coef_[0] - labeler.coef_[1], 2.0, atol=0.05)


def test_marginals_are_sums_over_labellings(estimators):
    X, Y = tokens()
    labeler = estimators.SequenceLabeler(lam=0.5).fit(X, Y)
    model, data = labeler.model_, labeler.model_.pack([[["w:a"], ["w:duck"], ["w:the"]]])
    scores = model.scores(data, np.array([0]), labeler.coef_)
    unary, pairwise = np.asarray(scores.unary)[0], np.asarray(scores.pairwise)
    expected, total = np.zeros((3, 3)), 0.0
    for y in product(range(3), repeat=3):
        weight = np.exp(sum(unary[t, y[t]] for t in range(3)) + pairwise[y[0], y[1]] + pairwise[y[1], y[2]])
        expected[np.arange(3), list(y)] += weight
        total += weight
    found = labeler.predict_marginals([[{"w": "a"}, {"w": "duck"}, {"w": "the"}]])
    close(found[0], expected / total)
    assert labeler.predict_marginals([[]])[0].shape == (0, 3)


def test_weights_of_sequences_are_repetitions(estimators):
    X, Y = words(8)
    weights = np.array([2, 0, 1, 1, 3, 1, 1, 1])
    repeated = np.repeat(np.arange(8), weights)
    labels = set(np.concatenate(Y)) - set(np.concatenate([Y[i] for i in repeated]))
    assert not labels  # else a weight of 0 would leave a class without examples
    options = {"iterations": 300, "tol": 1e-9}
    weighted = estimators.SequenceLabeler(options=options).fit(X, Y, sample_weight=weights)
    plain = estimators.SequenceLabeler(options=options).fit([X[i] for i in repeated], [Y[i] for i in repeated])
    np.testing.assert_allclose(weighted.coef_, plain.coef_, atol=1e-5)
    assert weighted.score(X, Y, sample_weight=weights) == plain.score(
        [X[i] for i in repeated], [Y[i] for i in repeated]
    )


@pytest.mark.filterwarnings("ignore:no kernel")
def test_a_parser(estimators):
    from sklearn.model_selection import GridSearchCV

    X = [{"tag": list("DNV")}, {"tag": list("NVDN")}, {"tag": list("DNVDN")}, {"tag": list("NV")}]
    Y = [[2, 3, 0], [2, 0, 4, 2], [2, 3, 0, 5, 3], [2, 0]]
    templates = [("h.tag", "m.tag", "direction"), ("h.tag", "m.tag", "distance")]
    parser = estimators.DependencyParser(templates=templates, bits=8, random_state=0)
    assert parser.fit(X, Y).score(X, Y) == 1.0
    known = estimators.DependencyParser(templates=templates, bits=None, lam=0.001, random_state=0).fit(X, Y)
    assert known.score(X, Y) == 1.0 and len(known.coef_) == len(known.model_.keys)
    search = GridSearchCV(parser, {"lam": [0.1, 1.0]}, cv=2).fit(X, Y)
    heads = search.predict([{"tag": list("DNV")}])
    assert heads == [[2, 3, 0]] and {type(h) for h in heads[0]} == {int}
    weighted = parser.fit(X, Y, sample_weight=[1.0, 2.0, 0.5, 1.0])
    assert weighted.score(X, Y, sample_weight=[1.0, 0.0, 1.0, 1.0]) == 1.0


@pytest.mark.beyond("a long training through a command or learner")
def test_kernels(estimators):
    """The labels within a ring: no line separates them, a Gaussian kernel does, and it gets the weight."""
    from sklearn.model_selection import GridSearchCV

    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 2)) for _ in range(40)]
    Y = [np.where(np.sum(x**2, axis=1) < 1.4, "in", "out") for x in X]
    labeler = estimators.KernelSequenceLabeler(kernels="linear,gaussian:0.5", random_state=0, transitions="free")
    assert labeler.fit(X, Y).score(X, Y) > 0.9 and labeler.beta_[1] > 0.9
    model = labeler.model_
    single = estimators.KernelSequenceLabeler(kernels=model.groups[:1], random_state=0).fit(X, Y)
    assert single.score(X, Y) < 0.8
    search = GridSearchCV(labeler, {"kernels": ["linear", "gaussian:0.5"], "C": [100.0]}, cv=2).fit(X, Y)
    assert search.best_params_["kernels"] == "gaussian:0.5"
    again = pickle.loads(pickle.dumps(labeler))
    assert again.predict(X) == labeler.predict(X)
    assert {type(label) for y in again.predict(X) for label in y} == {str}


def test_sparse_weights_behind_fit(estimators):
    """The regularizer, or what makes it of the model; groups of columns vanish together."""
    X, Y = words(40)
    how = {"loss": "hinge", "optimizer": "online-proximal", "random_state": 0}

    def columns(model):
        groups = np.append(np.repeat(np.arange(model.width), model.n_labels), [model.width] * model.n_labels**2)
        return reference.L21(0.2, groups)

    steps = {"step_size": 0.1, "epochs": 3}
    plain, by_column = (
        estimators.SequenceLabeler(options={**steps, "regularizer": regularizer}, **how).fit(X, Y)
        for regularizer in (reference.L1(0.01), columns)
    )
    assert 0 < np.count_nonzero(plain.coef_) < len(plain.coef_)
    model = by_column.model_
    weights = by_column.coef_[: model.width * model.n_labels].reshape(model.width, model.n_labels)
    empty = np.all(weights == 0, axis=1)
    pixels = np.any(np.concatenate(X) != 0, axis=0)
    assert np.any(empty[:128] & pixels) and not np.all(empty)


def test_a_fit_that_is_not_done_warns(estimators):
    X, Y = words(8)
    with pytest.warns(sklearn.exceptions.ConvergenceWarning, match="lbfgs: "):
        estimators.SequenceLabeler(options={"iterations": 1}).fit(X, Y)


WORDS, TOKENS = ([np.eye(3)] * 10, [[*"abc"]] * 10), tokens()
ROWS = np.arange(40.0).reshape(10, 4) % 7, [*"abcabcabca"]
PENALTY = {"penalty": reference.L1(0.1)}
L1 = {"optimizer": "online_proximal", "options": {"regularizer": reference.L1(0.1), "step_size": 0.1}}


@pytest.mark.parametrize(("entry", "message"), entries("wrong_fits.txt"))
def test_errors_name_the_parameter(estimators, entry, message):
    with pytest.raises((ValueError, TypeError), match=message):
        eval(entry, {**globals(), **vars(estimators)})


@pytest.mark.beyond("starts processes")
def test_without_scikit_learn():
    code = """
import sys
sys.modules["sklearn"] = None
from diptych.estimators import MulticlassClassifier, SequenceLabeler, SparseClassifierPath
labeler = SequenceLabeler(lam=1.0).set_params(lam=0.1)
X, Y = [[["w=the"], ["w=duck"]], [["w=duck"]]], [["D", "N"], ["N"]]
try:
    labeler.predict(X)
except ValueError as problem:
    print("not fitted" in str(problem))
print(labeler.fit(X, Y).predict(X), labeler.get_params()["lam"], "lam=0.1" in repr(labeler))
print(MulticlassClassifier(lam=0.1).fit([[0.0], [1.0]], ["a", "b"]).predict([[2.0]]))
try:
    labeler.set_params(lamda=1)
except ValueError as problem:
    print("lamda: no parameter of SequenceLabeler" in str(problem))
path = SparseClassifierPath(count=3, random_state=0).fit([[0.0], [1.0], [0.1], [0.9]], ["n", "y", "n", "y"])
print(path.predict([[-5.0], [5.0]]).tolist() == ["n", "y"] and "count=3" in repr(path))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:5] == ["True", "[['D', 'N'], ['N']] 0.1 True", "['b']", "True", "True"]
