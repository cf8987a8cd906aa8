"""Sparse CRFs behind ``fit``: optimality, what is selected, and beta and alpha chosen by what is held out."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import reference
from conformance.tolerances import close
from diptych.sparse_fits import HeldOut, choose, splits

pytestmark = pytest.mark.filterwarnings("ignore:sparse_path")


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


@pytest.fixture
def both(estimators, rows, words):
    """Learners at one beta and along a path, with examples: of classes and of labels."""
    return [
        (estimators.SparseClassifier, estimators.SparseClassifierPath, *rows),
        (estimators.SparseCRF, estimators.SparseCRFPath, *words),
    ]


def loss(learner, X, y, w):
    """The mean log loss at w, which laws of models hold against enumeration, and its gradient."""
    X, y = (np.asarray(X), [*map(str, y)]) if np.ndim(y[0]) == 0 else (X, [[*map(str, labels)] for labels in y])
    return reference.LogLoss(learner.model_, learner.model_.pack(X, y)).value_and_gradient(np.asarray(w))


def off_optimum(learner, X, y, w, alpha, beta):
    """The distance of -G from the subdifferential of beta (alpha/2 ||w||^2 + ||w||_1), the largest."""
    G, w = np.asarray(loss(learner, X, y, w)[1]), np.asarray(w)
    at_zero = np.maximum(np.abs(G) - beta, 0)
    return np.max(np.where(w == 0, at_zero, np.abs(G + alpha * beta * w + beta * np.sign(w))))


@pytest.mark.parametrize("alpha", [1.0, 0.0])
def test_the_weights_are_optimal(both, alpha):
    for make, _, X, y in both:
        learner = make(beta_share=0.2, alpha=alpha, tol=1e-13).fit(X, y)
        w, beta = learner.weights_, learner.beta_
        close(learner.beta_max_, np.max(np.abs(loss(learner, X, y, np.zeros(learner.model_.size))[1])))
        close(beta, 0.2 * learner.beta_max_)
        assert off_optimum(learner, X, y, w, alpha, beta) < 1e-5 * beta
        close(learner.result_.fun, loss(learner, X, y, w)[0] + beta * np.sum(np.abs(w) + alpha / 2 * w**2))
        assert np.array_equal(learner.support_, np.flatnonzero(w)) and 0 < len(learner.support_) < learner.model_.size
        again = make(beta=beta, alpha=alpha, tol=1e-13, rule="none").fit(X, y)
        np.testing.assert_allclose(again.weights_, w, atol=1e-5)
        assert learner.result_.screenings and not again.result_.screenings
        with pytest.warns(UserWarning, match="is predicted everywhere in the training data"):
            empty = make(beta_share=1.0, alpha=alpha).fit(X, y)
        assert not np.any(empty.weights_) and empty.selected() == {c: [] for c in empty.classes_.tolist()}


def test_what_is_selected(estimators, rows, words):
    """By label, the largest first; the model's labels are in the order of classes_."""
    learner, labeler = estimators.SparseClassifier().fit(*rows), estimators.SparseCRF(beta_share=0.05).fit(*words)
    matrix, transitions = (np.asarray(x) for x in labeler.model_.split(labeler.coef_))
    for each, columns, names in (
        (learner, np.column_stack([learner.coef_, learner.intercept_]), [*range(5), "intercept"]),
        (labeler, matrix.T, [0, 1, 2, "start", "stop"]),
    ):
        found = each.selected()
        assert list(found) == each.classes_.tolist()
        for column, (label, one) in zip(columns, found.items(), strict=True):
            sizes = [abs(weight) for _, weight in one]
            assert sizes == sorted(sizes, reverse=True) and each.selected(top=1)[label] == one[:1]
            assert dict(one) == {name: weight for name, weight in zip(names, column, strict=True) if weight}
    assert found[10][0][0] == 0 and found[10][0][1] > 0  # by column 0
    moves = labeler.selected_transitions()
    assert moves == {([2, 10][a], [2, 10][b]): transitions[a, b] for a, b in np.argwhere(transitions)}
    assert list(moves.values()) == sorted(moves.values(), reverse=True)
    assert sum(map(len, found.values())) + len(moves) == len(labeler.support_)


def test_nothing_to_tell_classes_by(estimators):
    """beta_max = 0: all weights are 0, at any beta; predictions are possible."""
    X, y = np.ones((4, 2)), [0, 1, 0, 1]
    for make in (estimators.SparseClassifier, estimators.SparseClassifierPath):
        learner = make().fit(X, y)
        assert learner.beta_max_ == 0 and learner.beta_ == 1 and not np.any(learner.coef_)
        np.testing.assert_allclose(learner.predict_proba(X), 0.5)


@pytest.mark.beyond("a long training through a command or learner")
def test_beta_is_the_best_of_what_is_held_out(both):
    """By fits of single betas to the training examples, and the losses of the held-out ones."""
    for single, make, X, y in both:
        n = len(y)
        pairs = [(np.arange(0, n - 4), np.arange(n - 4, n)), (np.arange(2, n), np.arange(2))]
        learner = make(betas=[0.1, 0.03, 0.003], cv=pairs, tol=1e-10).fit(X, y)
        losses = np.zeros((3, 2))
        for fold, (training, held) in enumerate(pairs):
            for k, beta in enumerate(learner.betas_):
                found = single(beta=beta, tol=1e-10).fit([X[i] for i in training], [y[i] for i in training])
                losses[k, fold] = loss(learner, [X[i] for i in held], [y[i] for i in held], found.weights_)[0]
        np.testing.assert_allclose(learner.held_out_losses_, losses, rtol=1e-3)
        pooled = losses @ [4, 2] / 6
        assert learner.beta_ == learner.betas_[np.argmin(pooled)] and np.ptp(pooled) > 0.05 * np.min(pooled)


@pytest.mark.beyond("a long training through a command or learner")
def test_alpha_is_the_best_of_what_is_held_out(both):
    """Each alpha has the path that it has alone; that with the least loss is kept, of equals the first."""
    for _, make, X, y in both:
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
    objective = backend.LogLoss(model, model.pack(rows[0], np.unique(rows[1], return_inverse=True)[1]))
    path, rising = backend.sparse_path(objective, count=3), backend.sparse_path(objective, betas=[0.1, 0.3, 0.2])
    for which, losses, expected in (
        (path, [3.0, 1.0, 1.0], 1), (path, [2.0, 2.0, 3.0], 0), (path, [3.0, 2.0], 1), (path, [], 2),
        (rising, [1.0, 1.0, 1.0], 1), (rising, [1.0, 2.0, 1.0], 2),
    ):  # fmt: skip
        held_out = HeldOut([5])
        held_out.folds[0] = losses
        assert choose(which, held_out).chosen == expected
    uneven = HeldOut([1, 3])
    uneven.folds = [[4.0, 0.0, 9.0], [0.0, 1.0]]  # the second fold is not done
    close(uneven.mean, [1.0, 0.75])
    assert choose(path, uneven).chosen == 1


def test_folds_are_masks_numbers_or_what_scikit_learn_has(estimators, both, rows):
    model_selection = pytest.importorskip("sklearn.model_selection")
    for _, make, X, y in both:
        mask = np.arange(len(y)) % 3 == 0
        options = {"count": 3, "tol": 1e-5, "rule": "union", "alpha": [1, 0]}  # of which chains cannot use all
        by_mask = make(cv=[(~mask, mask)], **options).fit(X, y)
        by_number = make(cv=[(np.flatnonzero(~mask), np.flatnonzero(mask))], **options).fit(X, y)
        close(by_mask.held_out_losses_, by_number.held_out_losses_)
        assert [each.path.alpha for each in by_mask.searched_] == [1.0, 0.0]
    folds = model_selection.StratifiedKFold(3)
    one, other = (
        estimators.SparseClassifierPath(count=3, ratio=0.1, cv=cv).fit(*rows) for cv in (folds, [*folds.split(*rows)])
    )
    assert one.held_out_losses_.shape == (3, 3) and np.array_equal(one.held_out_losses_, other.held_out_losses_)


def test_what_is_held_out(rng):
    classes = np.array([0] * 20 + [1] * 10)
    for share, folds, counts in ((0.2, None, [4, 2]), (0.5, None, [10, 5]), (1e-9, None, None), (0.999, None, None),
                                 (0.2, 5, [4, 2])):  # fmt: skip
        found = splits(30, share, folds, rng, classes)
        assert len(found) == (folds or 1)
        for training, held in found:
            assert sorted([*training, *held]) == list(range(30)) and len(training) and len(held)
            assert counts is None or np.bincount(classes[held]).tolist() == counts
    assert sorted(np.concatenate([held for _, held in found])) == list(range(30))
    again = [splits(30, 0.3, None, np.random.default_rng(s), None)[0][1].tolist() for s in (1, 1, 2)]
    assert again[0] == again[1] != again[2] and len(again[0]) == 9


@pytest.mark.beyond("a long training through a command or learner")
def test_a_path_goes_as_deep_as_it_gains(both):
    """Four values a decade, each a solution; the loss at the end falls no more, and all folds go as deep."""
    for _, make, X, y in both:
        usual = make(count=4, cv=2, ratio=0.1, tol=1e-10, random_state=0)
        with pytest.warns(UserWarning, match="the last beta of the path, 0.1 of beta_max, is the best"):
            usual.fit(X, y)
        learner = make(count=4, cv=2, tol=1e-10, random_state=0).fit(X, y)
        many, losses = len(learner.betas_), learner.held_out_losses_.mean(axis=1)
        close(usual.betas_, usual.beta_max_ * 0.1 ** (np.arange(4) / 3))
        close(learner.betas_[:4], usual.betas_)
        close(learner.betas_[4:], usual.betas_[-1] * 10.0 ** (-np.arange(1, many - 3) / 4))
        close(learner.held_out_losses_[:4], usual.held_out_losses_, scale=1e4)
        assert many > 4 and learner.held_out_losses_.shape == (many, 2)
        assert losses[-2] - losses[-1] < 1e-3 * losses[0] and losses.min() < usual.held_out_losses_.mean(axis=1).min()
        for k, beta in enumerate(learner.betas_):
            assert off_optimum(learner, X, y, learner.path_.weights(k), 1.0, beta) < 1e-3 * beta
        (k,) = np.flatnonzero(learner.betas_ == learner.beta_)
        assert np.array_equal(learner.weights_, learner.path_.weights(k))
        assert np.array_equal(learner.coef_, learner.coefs_[k])
        assert np.array_equal(learner.support_, learner.path_.points[k].support)
        if hasattr(learner, "intercepts_"):
            assert learner.coefs_.shape == (many, 3, 5) and np.array_equal(learner.intercept_, learner.intercepts_[k])


def test_ctrl_c_keeps_what_is_there(estimators, rows):
    """Here of a rule that screens nothing, and is interrupted as soon as beta is small enough."""

    def screen(state):
        if state.problem.beta <= 0.01:
            raise KeyboardInterrupt
        return np.zeros(state.problem.size, dtype=bool)

    betas, rule = [0.1, 0.05, 0.02, 0.01, 0.005], SimpleNamespace(screen=screen)
    with pytest.warns(UserWarning, match="sparse_path"):
        learner = estimators.SparseClassifierPath(betas=betas, rule=rule).fit(*rows)
    assert learner.path_.interrupted and learner.betas_.tolist() == betas[:4] and learner.held_out_losses_.size == 0
    assert learner.beta_ == 0.02 and learner.path_.points[2].success  # the last that was solved
    assert learner.score(*rows) > 0.4
