"""Sparse CRFs behind ``fit``: optimality by enumeration, beta chosen by what is held out, and scikit-learn's own
checks.
"""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from conformance.application.test_estimators import estimators
from conformance.tolerances import close
from diptych.sparse_fits import HeldOut, choose, follow, splits

__all__ = ["estimators"]  # a fixture


@pytest.fixture
def rows(rng):
    """Rows of which two columns tell the three classes, with noise."""
    X = rng.normal(size=(60, 5))
    y = np.array(["a", "b", "c"])[(X[:, 0] > 0).astype(int) + (X[:, 1] + 0.5 * rng.normal(size=60) > 0)]
    return X, y


@pytest.fixture
def words(rng):
    """Short sequences of rows, whose labels, 2 and 10, follow one column."""
    X = [rng.normal(size=(n, 3)) for n in (2, 3, 1, 3, 2, 3, 2, 1, 3, 2)]
    return X, [np.where(x[:, 0] + 0.3 * rng.normal(size=len(x)) > 0, 10, 2) for x in X]


def off_optimum(w, G, alpha, beta):
    """The distance of -G from the subdifferential of beta (alpha/2 ||w||^2 + ||w||_1), the largest."""
    at_zero = np.maximum(np.abs(G) - beta, 0)
    return np.max(np.where(w == 0, at_zero, np.abs(G + alpha * beta * w + beta * np.sign(w))))


def chain_gradient(X, Y, classes, w):
    """Of the mean log loss, by listing all labellings, with w in the layout of SequenceModel; and that loss."""
    L, F = len(classes), X[0].shape[1]
    G, loss = np.zeros_like(w), 0.0

    def features(x, y):
        rows, transitions = np.zeros((F + 2, L)), np.zeros((L, L))
        for t, k in enumerate(y):
            rows[:F, k] += x[t]
        rows[F, y[0]] += 1
        rows[F + 1, y[-1]] += 1
        for a, b in pairwise(y):
            transitions[a, b] += 1
        return np.concatenate([rows.ravel(), transitions.ravel()])

    for x, labels in zip(X, Y, strict=True):
        phi = np.array([features(x, y) for y in product(range(L), repeat=len(x))])
        true = features(x, [list(classes).index(k) for k in labels])
        scores = phi @ w
        p = np.exp(scores - scores.max())
        loss += np.log(p.sum()) + scores.max() - true @ w
        G += p @ phi / p.sum() - true
    return G / len(X), loss / len(X)


def class_gradient(X, y, classes, w):
    """Of the mean log loss, with w (F + 1, L) flat, the intercepts last; and that loss."""
    X = np.column_stack([X, np.ones(len(X))])
    scores = X @ w.reshape(X.shape[1], -1)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    true = np.asarray(y)[:, None] == np.asarray(classes)
    return (X.T @ (p - true)).ravel() / len(X), -np.mean(np.log(p[true]))


def cases(estimators, path, rows, words):
    """A learner of classes and one of labels, with data and gradient by enumeration."""
    suffix = "Path" if path else ""
    yield getattr(estimators, f"SparseClassifier{suffix}"), *rows, class_gradient
    yield getattr(estimators, f"SparseCRF{suffix}"), *words, chain_gradient


# at one beta ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1.0, 0.0])
def test_the_weights_are_optimal(estimators, rows, words, alpha):
    for make, X, y, gradient in cases(estimators, False, rows, words):
        learner = make(beta_share=0.2, alpha=alpha, tol=1e-13).fit(X, y)
        zeros = np.zeros(learner.model_.size)
        close(learner.beta_max_, np.max(np.abs(gradient(X, y, learner.classes_, zeros)[0])))
        close(learner.beta_, 0.2 * learner.beta_max_)
        G, loss = gradient(X, y, learner.classes_, learner.weights_)
        assert off_optimum(learner.weights_, G, alpha, learner.beta_) < 1e-5 * learner.beta_
        w = learner.weights_
        close(learner.result_.fun, loss + learner.beta_ * np.sum(np.abs(w) + alpha / 2 * w**2))
        assert np.array_equal(learner.support_, np.flatnonzero(learner.weights_))
        assert 0 < len(learner.support_) < learner.model_.size
        again = make(beta=learner.beta_, alpha=alpha, tol=1e-13, rule="none").fit(X, y)
        np.testing.assert_allclose(again.weights_, learner.weights_, atol=1e-5)
        with pytest.warns(UserWarning, match="is predicted everywhere in the training data"):
            empty = make(beta_share=1.0, alpha=alpha).fit(X, y)
        assert not np.any(empty.weights_) and empty.selected() == {c: [] for c in empty.classes_.tolist()}


@pytest.mark.parametrize("rule", ["l1-gap", "l2-gap", "half-space", "count", "union", "none"])
def test_rules_by_name(estimators, rows, rule):
    """The same weights by any rule; classes alone are listed."""
    X, y = rows
    plain = estimators.SparseClassifier(rule=None, tol=1e-12).fit(X, y)
    learner = estimators.SparseClassifier(rule=rule, tol=1e-12, random_state=0).fit(X, y)
    np.testing.assert_allclose(learner.coef_, plain.coef_, atol=1e-5)
    assert bool(learner.result_.screenings) == (rule != "none")


def test_what_is_selected(estimators, rows, words):
    X, y = rows
    learner = estimators.SparseClassifier().fit(X, y)
    matrix, names = np.vstack([learner.coef_.T, learner.intercept_]), [*range(5), "intercept"]
    for k, (label, found) in enumerate(learner.selected().items()):
        assert label == learner.classes_[k] and dict(found) == {
            names[j]: matrix[j, k] for j in range(6) if matrix[j, k]
        }
        sizes = [abs(weight) for _, weight in found]
        assert sizes == sorted(sizes, reverse=True) and learner.selected(top=1)[label] == found[:1]
    X, Y = words
    labeler = estimators.SparseCRF(beta_share=0.05).fit(X, Y)
    found = labeler.selected()
    assert list(found) == [2, 10] and found[10][0][0] == 0 and found[10][0][1] > 0  # by column 0
    assert {name for each in found.values() for name, _ in each} <= {0, 1, 2, "start", "stop"}
    matrix, transitions = (np.asarray(x) for x in labeler.model_.split(labeler.coef_))
    for label, each in found.items():  # the model's labels are in the order of classes_
        column = [2, 10].index(label)
        assert all(weight in matrix[:, column] for _, weight in each) and len(each) == np.count_nonzero(
            matrix[:, column]
        )
    assert sum(map(len, found.values())) + np.count_nonzero(transitions) == len(labeler.support_)
    moves = labeler.selected_transitions()
    assert moves == {([2, 10][a], [2, 10][b]): transitions[a, b] for a, b in np.argwhere(transitions)}
    assert list(moves.values()) == sorted(moves.values(), reverse=True)


def test_features_by_name(estimators):
    """10 comes after 2 among labels, and before it among the model's names of them."""
    X = [[{"w": "the", "first": True}, {"w": "duck"}], [{"w": "a"}, {"w": "duck"}], [{"w": "duck"}]]
    Y = [[2, 10], [2, 10], [10]]
    labeler = estimators.SparseCRF(beta_share=0.2, pairs="all").fit(X, Y)
    assert labeler.predict(X) == Y and labeler.score(X, Y) == 1.0
    found = {label: dict(each) for label, each in labeler.selected().items()}
    assert found[10]["w:duck"] > 0 > found[2]["w:duck"] and labeler.selected_transitions()[2, 10] > 0
    for p, y in zip(labeler.predict_marginals(X), Y, strict=True):
        assert np.all(p[np.arange(len(y)), [[2, 10].index(k) for k in y]] > 0.5)


def test_nothing_to_tell_classes_by(estimators):
    """beta_max = 0: all weights are 0, at any beta; predictions are possible."""
    X, y = np.ones((4, 2)), [0, 1, 0, 1]
    for make in (estimators.SparseClassifier, estimators.SparseClassifierPath):
        learner = make().fit(X, y)
        assert learner.beta_max_ == 0 and learner.beta_ == 1 and not np.any(learner.coef_)
        np.testing.assert_allclose(learner.predict_proba(X), 0.5)


# along a path ---------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:sparse_path")
def test_the_path_is_of_all_examples(estimators, rows, words):
    for make, X, y, gradient in cases(estimators, True, rows, words):
        learner = make(count=4, ratio=0.05, tol=1e-12, random_state=0).fit(X, y)
        close(learner.betas_, learner.beta_max_ * 0.05 ** (np.arange(4) / 3))
        assert learner.held_out_losses_.shape == (4, 1)
        flat = [np.asarray(learner.path_.weights(k)) for k in range(4)]
        for w, beta in zip(flat, learner.betas_, strict=True):
            assert off_optimum(w, gradient(X, y, learner.classes_, w)[0], 1.0, beta) < 1e-4 * beta
        (k,) = np.flatnonzero(learner.betas_ == learner.beta_)
        assert np.array_equal(learner.weights_, flat[k]) and np.array_equal(learner.coef_, learner.coefs_[k])
        if hasattr(learner, "intercepts_"):
            assert learner.coefs_.shape == (4, 3, 5) and np.array_equal(learner.intercept_, learner.intercepts_[k])
        assert np.array_equal(learner.support_, learner.path_.points[k].support)


@pytest.mark.filterwarnings("ignore:sparse_path")
def test_beta_is_the_best_of_what_is_held_out(estimators, rows, words):
    """By fits of single betas to the training examples, and the losses of the held-out ones by enumeration."""
    for make, X, y, gradient in cases(estimators, True, rows, words):
        n = len(y)
        pairs = [(np.arange(0, n - 4), np.arange(n - 4, n)), (np.arange(2, n), np.arange(2))]
        learner = make(betas=[0.1, 0.03, 0.003], cv=pairs, tol=1e-10).fit(X, y)
        losses = np.zeros((3, 2))
        single = getattr(estimators, make.func.__name__.removesuffix("Path"))
        for fold, (training, held) in enumerate(pairs):
            for k, beta in enumerate(learner.betas_):
                found = single(beta=beta, tol=1e-10).fit([X[i] for i in training], [y[i] for i in training])
                some = [X[i] for i in held], [y[i] for i in held]
                losses[k, fold] = gradient(*some, learner.classes_, found.weights_)[1]
        np.testing.assert_allclose(learner.held_out_losses_, losses, rtol=1e-3)
        pooled = losses @ [4, 2] / 6
        assert learner.beta_ == learner.betas_[np.argmin(pooled)] and np.ptp(pooled) > 0.05 * np.min(pooled)


@pytest.mark.beyond("a long training through a command or learner")
@pytest.mark.filterwarnings("ignore:sparse_path")
def test_alpha_is_the_best_of_what_is_held_out(estimators, rows, words):
    """Of several alphas each has the path that it has alone, and the one with the least loss is kept; of equals the
    first.
    """
    for make, X, y, _ in cases(estimators, True, rows, words):
        options = {"betas": [0.1, 0.03, 0.003], "cv": 2, "tol": 1e-10, "random_state": 0}
        alone = [make(alpha=alpha, **options).fit(X, y) for alpha in (4.0, 0.0, 1.0)]
        learner = make(alpha=[4.0, 0.0, 1.0], **options).fit(X, y)
        for one, each in zip(alone, learner.searched_, strict=True):
            close(one.held_out_losses_, each.held_out.losses, scale=1.0)
            assert one.alpha_ == each.path.alpha and one.beta_ == each.path.betas[each.chosen]
        losses = [each.loss for each in learner.searched_]
        best = alone[int(np.argmin(losses))]
        assert len(set(losses)) == 3 and learner.alpha_ == best.alpha_ and learner.beta_ == best.beta_
        close(learner.coef_, best.coef_, scale=1.0)
        twice = make(alpha=[best.alpha_, best.alpha_], **options).fit(X, y)
        assert twice.path_ is twice.searched_[0].path


def test_the_largest_of_equal_betas_is_chosen(backend, rows):
    model = backend.MulticlassModel(5, 3)
    path = backend.sparse_path(
        backend.LogLoss(model, model.pack(rows[0], np.unique(rows[1], return_inverse=True)[1])), count=3
    )
    for losses, expected in (([3.0, 1.0, 1.0], 1), ([2.0, 2.0, 3.0], 0), ([3.0, 2.0], 1), ([], 2)):
        held_out = HeldOut([5])
        held_out.folds[0] = losses
        assert choose(path, held_out).chosen == expected
    Y = np.unique(rows[1], return_inverse=True)[1]
    rising = backend.sparse_path(backend.LogLoss(model, model.pack(rows[0], Y)), betas=[0.1, 0.3, 0.2])
    for losses, expected in (([1.0, 1.0, 1.0], 1), ([1.0, 2.0, 1.0], 2)):
        held_out = HeldOut([5])
        held_out.folds[0] = losses
        assert choose(rising, held_out).chosen == expected
    uneven = HeldOut([1, 3])
    uneven.folds = [[4.0, 0.0, 9.0], [0.0, 1.0]]  # the second fold is not done
    close(uneven.mean, [1.0, 0.75])
    assert choose(path, uneven).chosen == 1


def test_masks_are_folds_and_unions_leave_out_what_they_cannot_use(estimators, rows, words):
    for make, X, y, _ in cases(estimators, True, rows, words):
        mask = np.arange(len(y)) % 3 == 0
        options = {"count": 3, "tol": 1e-8, "rule": "union", "alpha": [1, 0]}
        by_mask = make(cv=[(~mask, mask)], **options).fit(X, y)
        by_number = make(cv=[(np.flatnonzero(~mask), np.flatnonzero(mask))], **options).fit(X, y)
        close(by_mask.held_out_losses_, by_number.held_out_losses_)
        assert [each.path.alpha for each in by_mask.searched_] == [1.0, 0.0]


def test_what_is_held_out(rng):
    classes = np.array([0] * 20 + [1] * 10)
    for share, counts in ((0.2, [4, 2]), (0.5, [10, 5]), (1e-9, None), (0.999, None)):
        ((training, held),) = splits(30, share, None, rng, classes)
        assert sorted([*training, *held]) == list(range(30)) and len(training) and len(held)
        assert counts is None or np.bincount(classes[held]).tolist() == counts
    folds = splits(30, 0.2, 5, rng, classes)
    assert sorted(np.concatenate([held for _, held in folds])) == list(range(30))
    for training, held in folds:
        assert np.bincount(classes[held]).tolist() == [4, 2] and sorted([*training, *held]) == list(range(30))
    again = [splits(30, 0.3, None, np.random.default_rng(s), None)[0][1].tolist() for s in (1, 1, 2)]
    assert again[0] == again[1] != again[2] and len(again[0]) == 9


@pytest.mark.filterwarnings("ignore:sparse_path")
def test_folds_as_scikit_learn_has_them(estimators, rows):
    model_selection = pytest.importorskip("sklearn.model_selection")
    X, y = rows
    folds = model_selection.StratifiedKFold(3)
    one, other = (
        estimators.SparseClassifierPath(count=3, ratio=0.1, cv=cv).fit(X, y) for cv in (folds, list(folds.split(X, y)))
    )
    assert one.held_out_losses_.shape == (3, 3) and np.array_equal(one.held_out_losses_, other.held_out_losses_)


def test_a_path_goes_as_deep_as_it_gains(estimators, rows, words):
    """Four values a decade, each a solution; the loss at the end falls no more, and all folds go as deep."""
    for make, X, y, gradient in cases(estimators, True, rows, words):
        usual = make(count=4, cv=2, ratio=0.1, tol=1e-10, random_state=0)
        with pytest.warns(UserWarning, match="the last beta of the path, 0.1 of beta_max, is the best"):
            usual.fit(X, y)
        learner = make(count=4, cv=2, tol=1e-10, random_state=0).fit(X, y)
        many, losses = len(learner.betas_), learner.held_out_losses_.mean(axis=1)
        close(learner.betas_[:4], usual.betas_)
        close(learner.betas_[4:], usual.betas_[-1] * 10.0 ** (-np.arange(1, many - 3) / 4))
        close(learner.held_out_losses_[:4], usual.held_out_losses_, scale=1e4)
        assert many > 4 and learner.held_out_losses_.shape == (many, 2)
        assert losses[-2] - losses[-1] < 1e-3 * losses[0] and losses.min() < usual.held_out_losses_.mean(axis=1).min()
        for k, beta in enumerate(learner.betas_):
            w = learner.path_.weights(k)
            assert off_optimum(w, gradient(X, y, learner.classes_, w)[0], 1.0, beta) < 1e-3 * beta


class Interrupting:
    """A rule that screens nothing, and is interrupted as soon as beta is small enough."""

    def __init__(self, beta):
        self.beta = beta

    def screen(self, state):
        if state.problem.beta <= self.beta:
            raise KeyboardInterrupt
        return np.zeros(state.problem.size, dtype=bool)


def test_ctrl_c_keeps_what_is_there(estimators, backend, rows):
    X, y = rows
    betas = [0.1, 0.05, 0.02, 0.01, 0.005]
    with pytest.warns(UserWarning, match="sparse_path"):
        learner = estimators.SparseClassifierPath(betas=betas, rule=Interrupting(0.01)).fit(X, y)
    assert learner.path_.interrupted and learner.betas_.tolist() == betas[:4] and learner.held_out_losses_.size == 0
    assert learner.beta_ == 0.02 and learner.path_.points[2].success  # the last that was solved
    assert learner.score(X, y) > 0.4
    model = backend.MulticlassModel(5, 3)
    objective = backend.LogLoss(model, model.pack(X, np.unique(y, return_inverse=True)[1]))
    seen = []

    def callback(point):
        seen.append(point)
        if len(seen) == 3:
            raise KeyboardInterrupt

    path = follow(backend.module, objective, callback, count=9, alpha=0.5)
    assert path.interrupted and path.alpha == 0.5 and list(path.points) == seen and path.size == 15
    close(path.beta_max, backend.beta_max(objective))


# searches, warnings, errors -------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:solve_sparse")
def test_search_over_sequences(estimators, words):
    model_selection = pytest.importorskip("sklearn.model_selection")
    X, Y = words
    search = model_selection.GridSearchCV(estimators.SparseCRF(), {"beta_share": [1.0, 0.1]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"beta_share": 0.1}  # at 1 nothing is learned


def test_a_fit_that_is_not_done_warns(estimators, rows):
    for make in (estimators.SparseClassifier, estimators.SparseClassifierPath):
        with pytest.warns(UserWarning, match="the duality gap is"):
            make(iterations=0).fit(*rows)
    with pytest.warns(
        UserWarning, match="sparse_path: .* more; 6 of the solutions that beta is chosen by have not converged"
    ):
        estimators.SparseClassifierPath(betas=[0.01, 0.02], cv=3, iterations=0, tol=0.0).fit(*rows)
