"""fit, predict and score, against scikit-learn's checks and optima; passes, warm starts, top features."""

from __future__ import annotations

import pickle
import warnings
from itertools import pairwise, product

import numpy as np
import pytest

import diptych.estimators
import reference
from conformance.application.processes import finished
from conformance.specimens.pages import entries
from conformance.tolerances import close
from diptych.metrics import chunk_f1, chunk_f1_scorer

sklearn = pytest.importorskip("sklearn")

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few iterations are asked for
COST = np.array([[0.0, 9.0], [2.0, 0.0]])  # it costs 2 to miss the second class
TREES = [{"tag": list("DNV")}, {"tag": list("NVDN")}, {"tag": list("DNVDN")}, {"tag": list("NV")}]
HEADS = [[2, 3, 0], [2, 0, 4, 2], [2, 3, 0, 5, 3], [2, 0]]


def words(n=60):
    """Some words of three or more letters, pixels and labels by name."""
    letters = reference.load_letters().take(np.arange(n))
    return letters.X, [np.array(letters.labels)[y] for y in letters.Y]


def tokens():
    """Features by name, and labels."""
    X = [[{"w": "the", "first": True}, {"w": "duck"}, {"w": "swims", "bias": 1.0}], [{"w": "a"}, {"w": "duck"}], []]
    return X, [["B-NP", "I-NP", "O"], ["B-NP", "I-NP"], []]


CUTTING = {"loss": "hinge", "optimizer": "cutting_planes", "options": {"tol": 1e-9, "epochs": 2000}}
CHECKED = [("MulticlassClassifier", {}), ("MulticlassClassifier", CUTTING), ("SparseClassifier", {})]
CHECKED += [("SparseClassifierPath", {"count": 2, "tol": 1e-3})]


@pytest.mark.beyond("scikit-learn's own checks")
@pytest.mark.parametrize(("name", "options"), CHECKED)
def test_every_check_of_scikit_learn(estimators, name, options):
    from sklearn.utils.estimator_checks import check_estimator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(getattr(estimators, name)(**options), on_fail=None)
    assert len(found) > 50
    failed = {result["check_name"]: str(result["exception"]) for result in found if result["status"] == "failed"}
    assert not failed


@pytest.mark.parametrize("name", diptych.estimators.__all__)
def test_the_checks_that_need_no_table_of_numbers(name):
    from sklearn.base import clone
    from sklearn.utils import estimator_checks as checks

    estimator = getattr(diptych.estimators, name)()
    names = "estimator_cloneable estimator_repr estimator_tags_renamed valid_tag_types no_attributes_set_in_init"
    names += " parameters_default_constructible get_params_invariance set_params mixin_order"
    names += " do_not_raise_errors_in_init_or_set_params"
    for check in (getattr(checks, f"check_{each}") for each in names.split()):
        check(name, clone(estimator))
    weight = "alpha" if name.startswith("Sparse") else "C" if name == "KernelSequenceLabeler" else "lam"
    assert repr(clone(estimator).set_params(**{weight: 0.25})) == f"{name}({weight}=0.25)"
    for ask in [estimator.predict, *([estimator.selected] if hasattr(estimator, "selected") else [])]:
        with pytest.raises(sklearn.exceptions.NotFittedError):
            ask([])


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


@pytest.mark.beyond("a long training through a command or learner")
def test_search_and_cross_validation_over_sequences(estimators):
    from sklearn.model_selection import GridSearchCV, cross_val_score

    X, Y = words()
    labeler = estimators.SequenceLabeler(lam=0.01, options={"iterations": 20})
    search = GridSearchCV(labeler, {"lam": [10.0, 0.01]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"lam": 0.01}  # 10 forgets everything
    close(search.best_score_, cross_val_score(labeler, X, Y, cv=3).mean())
    labels = [np.where(np.isin(y, [*"aeiou"]), "B-X", "O") for y in Y]
    by_f1 = GridSearchCV(labeler, {"lam": [10.0, 0.01]}, cv=3, scoring=chunk_f1_scorer).fit(X, labels)
    close(by_f1.best_score_, cross_val_score(labeler, X, labels, cv=3, scoring=chunk_f1_scorer).mean())
    assert by_f1.score(X, labels) == chunk_f1(labels, by_f1.predict(X)) > 0.5


def test_margins_are_costs_in_the_order_of_classes(estimators):
    """The most frequent class wins by what it costs to miss it. Among the model's names 10 comes before 2."""
    options = {"loss": "hinge", "lam": 1e-3, "random_state": 0}
    X, y = np.ones((10, 1)), np.array(["b"] * 6 + ["a"] * 4)
    for cost, margin in ((None, 1.0), (COST, 2.0)):
        learner = estimators.MulticlassClassifier(cost=cost, fit_intercept=False, **options).fit(X, y)
        np.testing.assert_allclose(learner.decision_function(X[:1]), [margin], atol=0.05)
    with pytest.raises(AttributeError, match="probabilities"):
        _ = learner.predict_proba
    labeler = estimators.SequenceLabeler(cost=COST, pairs="all", **options).fit([[["x"]]] * 10, [[10]] * 6 + [[2]] * 4)
    assert labeler.model_.labels == ("10", "2") and labeler.classes_.tolist() == [2, 10]
    np.testing.assert_allclose(labeler.coef_[0] - labeler.coef_[1], 2.0, atol=0.05)


@pytest.mark.parametrize("name", ["SequenceLabeler", "SparseCRF"])
@pytest.mark.parametrize("labels", [["B-NP", "I-NP", "O"], [2, 10, -1]])
def test_features_and_labels_by_name(estimators, name, labels):
    """Labels keep their type, and integers their order; marginals are sums over all labellings."""
    X, Y = tokens()
    Y = [[labels[("B-NP", "I-NP", "O").index(label)] for label in y] for y in Y]
    more = {"lam": 0.01} if name == "SequenceLabeler" else {"beta_share": 0.1, "pairs": "all"}
    labeler = getattr(estimators, name)(**more).fit(X, Y)
    assert labeler.predict(X) == Y and labeler.score(X, Y) == 1.0 and labeler.classes_.tolist() == sorted(labels)
    assert {type(label) for y in labeler.predict(X) for label in y} == {type(labels[0])}  # what scorers of chunks take
    new, model, w = [{"w": "a"}, {"w": "duck"}, {"w": "the"}], labeler.model_, labeler.weights_
    scores = model.scores(model.pack([new]), np.array([0]), w)
    unary, pairwise = np.asarray(scores.unary)[0], np.asarray(scores.pairwise)
    expected, order = np.zeros((3, 3)), [labeler.classes_.astype(str).tolist().index(x) for x in model.labels]
    for y in product(range(3), repeat=3):
        weight = np.exp(sum(unary[t, y[t]] for t in range(3)) + pairwise[y[0], y[1]] + pairwise[y[1], y[2]])
        expected[np.arange(3), [order[k] for k in y]] += weight
    found, empty = labeler.predict_marginals([new, []])
    close(found, expected / expected[0].sum())
    assert empty.shape == (0, 3)


def test_weights_of_sequences_are_repetitions(estimators):
    """The default lam is 2/n at the optimum, with n the sum of the weights."""
    X, Y = words(8)
    weights = np.array([2, 0, 1, 1, 3, 1, 1, 1.5])
    for given, n in ((None, 8), (weights, 10.5)):
        found = estimators.SequenceLabeler().fit(X, Y, sample_weight=given)
        assert found.result_.success and found.result_.certificate < 1e-6
        close(found.coef_, estimators.SequenceLabeler(lam=2 / n).fit(X, Y, sample_weight=given).coef_)
    weights = weights.astype(int)
    repeated = np.repeat(np.arange(8), weights)
    assert set(np.concatenate(Y)) == set(np.concatenate([Y[i] for i in repeated]))  # no class is without examples
    X_again, Y_again, options = [X[i] for i in repeated], [Y[i] for i in repeated], {"iterations": 300, "tol": 1e-9}
    weighted = estimators.SequenceLabeler(options=options).fit(X, Y, sample_weight=weights)
    plain = estimators.SequenceLabeler(options=options).fit(X_again, Y_again)
    np.testing.assert_allclose(weighted.coef_, plain.coef_, atol=1e-5)
    assert weighted.score(X, Y, sample_weight=weights) == plain.score(X_again, Y_again)


@pytest.mark.filterwarnings("ignore:no kernel")
def test_a_parser(estimators):
    from sklearn.model_selection import GridSearchCV

    templates = [("h.tag", "m.tag", "direction"), ("h.tag", "m.tag", "distance")]
    parser = estimators.DependencyParser(templates=templates, bits=8, random_state=0)
    assert parser.fit(TREES, HEADS).score(TREES, HEADS) == 1.0
    known = estimators.DependencyParser(templates=templates, bits=None, lam=0.001, random_state=0).fit(TREES, HEADS)
    assert known.score(TREES, HEADS) == 1.0 and len(known.coef_) == len(known.model_.keys)
    heads = GridSearchCV(parser, {"lam": [0.1, 1.0]}, cv=2).fit(TREES, HEADS).predict(TREES[:1])
    assert heads == [[2, 3, 0]] and {type(h) for h in heads[0]} == {int}
    weighted = parser.fit(TREES, HEADS, sample_weight=[1.0, 2.0, 0.5, 1.0])
    assert weighted.score(TREES, HEADS, sample_weight=[1.0, 0.0, 1.0, 1.0]) == 1.0
    passed = estimators.DependencyParser(templates=templates[:1], bits=8, random_state=0)
    for _ in range(3):
        passed.partial_fit(TREES[::3], HEADS[::3])
    assert passed.score(TREES[::3], HEADS[::3]) == 1.0


def test_sparse_weights_behind_fit(estimators):
    """What makes a regularizer of the model: groups of columns vanish together."""
    X, Y = words(40)

    def columns(model):
        groups = np.append(np.repeat(np.arange(model.width), model.n_labels), [model.width] * model.n_labels**2)
        return reference.L21(0.2, groups)

    options = {"step_size": 0.1, "epochs": 3, "regularizer": columns}
    how = {"loss": "hinge", "optimizer": "online-proximal", "random_state": 0}
    model = (learner := estimators.SequenceLabeler(options=options, **how).fit(X, Y)).model_
    empty = np.all(learner.coef_[: model.width * model.n_labels].reshape(model.width, model.n_labels) == 0, axis=1)
    assert np.any(empty[:128] & np.any(np.concatenate(X) != 0, axis=0)) and not np.all(empty)


@pytest.mark.parametrize("name", ["MulticlassClassifier", "SequenceLabeler"])
def test_one_pass_over_one_example_is_the_step_of_sgd(estimators, name):
    """w <- (1 - gamma lam) w - gamma g with gamma = 1/(lam (t + 1/lam)), across calls, and on from fit."""
    X, Y = words(4) if name == "SequenceLabeler" else (np.eye(4)[:, :3], ["a", "b", "c", "a"])
    classes = np.unique(np.concatenate(Y)) if name == "SequenceLabeler" else ["c", "b", "a"]
    learner, lam = getattr(estimators, name)(lam=0.5), 0.5

    def stepped(w, t, i):
        """The weights after the step t on example i."""
        objective = reference.LogLoss(learner.model_, learner.model_.pack(X[i : i + 1], Y[i : i + 1]))
        w, gamma = objective.zeros() if w is None else w, 1 / (lam * (t + 1 / lam))
        return (1 - gamma * lam) * w - gamma * np.asarray(objective.value_and_gradient(w)[1])

    w = None
    for t in range(4):
        learner.partial_fit(X[t : t + 1], Y[t : t + 1], None if t else classes)
        w = stepped(w, t + 1, t)
        close(learner.weights_, w)
    again = pickle.loads(pickle.dumps(learner))
    close(again.partial_fit(X[:1], Y[:1]).weights_, learner.partial_fit(X[:1], Y[:1]).weights_)
    w = learner.fit(X, Y).weights_
    close(w, getattr(estimators, name)(lam=0.5).fit(X, Y).weights_)
    w = stepped(w, len(Y) * learner.n_iter_ + 1, 0)
    close(learner.partial_fit(X[:1], Y[:1]).weights_, w)


def test_a_warm_start_is_at_the_optimum(estimators):
    """Of the same examples nothing is left to do; weights of features and labels that stay are kept, in any order."""
    X, Y = tokens()
    for learner, data in (
        (estimators.SequenceLabeler(warm_start=True), (X, Y)),
        (estimators.SequenceLabeler(warm_start=True, bits=8), (X, Y)),
        (estimators.SparseCRF(beta_share=0.3, warm_start=True), (X, Y)),
        (estimators.MulticlassClassifier(warm_start=True), (np.eye(3), ["a", "b", "c"])),
        (estimators.DependencyParser(templates=[("h.tag",)], bits=4, loss="crf", warm_start=True), (TREES, HEADS)),
    ):
        assert learner.fit(*data).n_iter_ > 1
        w = learner.coef_
        assert learner.fit(*data).n_iter_ == 1
        np.testing.assert_allclose(learner.coef_, w, atol=1e-4)
    with pytest.raises(ValueError, match="warm_start: expected the templates of the last fit"):
        learner.set_params(templates=[("m.tag",)]).fit(TREES, HEADS)
    labeler = estimators.SequenceLabeler(warm_start=True, pairs="all").fit([[["y"], ["x"]]], [["B", "O"]])
    before = {(a, b): w for a, b, w in labeler.top_features()}
    labeler.set_params(options={"iterations": 0}).fit([[["x"], ["z"], ["y"]]], [["A", "O", "B"]])
    assert {(a, b): w for a, b, w in labeler.top_features()} == before and len(before) == 4


def test_top_features(estimators):
    """The largest weights of each label by name; hashed features have none."""
    X, Y = tokens()
    labeler = estimators.SequenceLabeler(pairs="all").fit(X, Y)
    weights, table = np.asarray(labeler.model_.split(labeler.coef_)[0]), labeler.top_features(2)
    assert [label for label, _, _ in table] == [label for label in labeler.classes_ for _ in range(2)]
    for label, feature, weight in table:
        column = weights[:, labeler.model_.labels.index(label)]
        assert weight == column[labeler.model_.vocabulary.index(feature)]
        assert abs(weight) >= np.sort(np.abs(column))[-2]
    lines = repr(table).splitlines()
    assert lines[0].split() == ["label", "feature", "weight"] and len(lines) == 7 and table.note is None
    hashed = estimators.SequenceLabeler(bits=8).fit(X, Y).top_features()
    assert "names are not kept" in repr(hashed) and all(isinstance(row.feature, int) for row in hashed)
    rows = estimators.MulticlassClassifier().fit([[0.0, 1.0], [2.0, 0.0]], [7, 3]).top_features()
    signs = {(label, feature): weight > 0 for label, feature, weight in rows if feature != "intercept"}
    assert signs == {(3, 0): True, (3, 1): False, (7, 0): False, (7, 1): True}
    parser = estimators.DependencyParser(templates=[("h.tag", "m.tag")], bits=8, random_state=0)
    assert "names are not kept" in repr(parser.fit(TREES, HEADS).top_features(3))


@pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_that_is_not_done_warns(estimators):
    several = "sparse_path: .* more; 6 of the solutions that beta is chosen by have not converged"
    for learner, data, message in (
        (estimators.SequenceLabeler(options={"iterations": 1}), words(8), "lbfgs: "),
        (estimators.SparseClassifier(iterations=0), ROWS, "the duality gap is"),
        (estimators.SparseClassifierPath(iterations=0), ROWS, "the duality gap is"),
        (estimators.SparseClassifierPath(betas=[0.01, 0.02], cv=3, iterations=0, tol=0.0), ROWS, several),
    ):
        with pytest.warns(sklearn.exceptions.ConvergenceWarning, match=message):
            learner.fit(*data)


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
def said(call):
    try:
        call()
    except ValueError as problem:
        return str(problem)
labeler = SequenceLabeler(lam=1.0).set_params(lam=0.1)
X, Y = [[["w=the"], ["w=duck"]], [["w=duck"]]], [["D", "N"], ["N"]]
print("not fitted" in said(lambda: labeler.predict(X)))
print(labeler.fit(X, Y).predict(X), labeler.get_params()["lam"], "lam=0.1" in repr(labeler))
print(MulticlassClassifier(lam=0.1).fit([[0.0], [1.0]], ["a", "b"]).predict([[2.0]]))
print("lamda: no parameter of SequenceLabeler" in said(lambda: labeler.set_params(lamda=1)))
path = SparseClassifierPath(count=3, random_state=0).fit([[0.0], [1.0], [0.1], [0.9]], ["n", "y", "n", "y"])
print(path.predict([[-5.0], [5.0]]).tolist() == ["n", "y"] and "count=3" in repr(path))
"""
    status, out, err = finished(None, "-c", code)
    assert status == 0, err
    assert out.split("\n")[:5] == ["True", "[['D', 'N'], ['N']] 0.1 True", "['b']", "True", "True"]


def test_own_rules_hold_in_a_labeler(rng):
    """As a mapping and as a matrix over ``classes_``: the same model; no two B stand side by side."""
    X = [[[f"w{k}"] for k in rng.integers(0, 3, 5)] for _ in range(8)]
    Y = [["B" if (t + i) % 2 else "O" for t in range(5)] for i in range(8)]
    labeler = diptych.estimators.SequenceLabeler
    first = labeler(lam=0.1, transitions={"forbidden": [["B", "B"]]}).fit(X, Y)
    second = labeler(lam=0.1, transitions=np.array([[False, True], [True, True]])).fit(X, Y)
    assert first.classes_.tolist() == ["B", "O"] and np.array_equal(first.weights_, second.weights_)
    assert first.model_.settings() == second.model_.settings()
    assert all((a, b) != ("B", "B") for y in first.predict(X[:3] + [X[0] + X[1]]) for a, b in pairwise(y))
    assert repr(sklearn.base.clone(second)) == repr(second)
