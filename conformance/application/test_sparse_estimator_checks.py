"""Sparse CRFs behind ``fit``: scikit-learn's own checks, searches, errors."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest

import diptych.estimators
from conformance.application.test_sparse_estimators import NAMES, estimators, rows, words  # noqa: F401 (fixtures)


@pytest.mark.beyond("scikit-learn's own checks")
@pytest.mark.parametrize(
    ("name", "options"), [("SparseClassifier", {}), ("SparseClassifierPath", {"count": 2, "tol": 1e-3})]
)
def test_every_check_of_scikit_learn(estimators, name, options):
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = checks.check_estimator(getattr(estimators, name)(**options), on_fail=None)
    assert len(found) > 50
    assert not {result["check_name"]: str(result["exception"]) for result in found if result["status"] == "failed"}


@pytest.mark.parametrize("name", NAMES)
def test_the_checks_that_need_no_table_of_numbers(name):
    sklearn = pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.utils import estimator_checks as checks

    estimator = getattr(diptych.estimators, name)()
    for check in (
        checks.check_estimator_cloneable,
        checks.check_estimator_repr,
        checks.check_no_attributes_set_in_init,
        checks.check_parameters_default_constructible,
        checks.check_get_params_invariance,
        checks.check_set_params,
        checks.check_do_not_raise_errors_in_init_or_set_params,
        checks.check_mixin_order,
    ):
        check(name, clone(estimator))
    assert repr(clone(estimator).set_params(alpha=0.25)) == f"{name}(alpha=0.25)"
    for ask in (estimator.predict, estimator.selected):
        with pytest.raises(sklearn.exceptions.NotFittedError):
            ask([])


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


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("SparseClassifier", {"beta": 1.0, "beta_share": 0.5}, "beta, beta_share: expected one"),
        ("SparseClassifier", {"beta": 0.0}, "beta: expected a finite number > 0"),
        ("SparseClassifier", {"beta_share": -1}, "beta_share: expected a finite number > 0"),
        ("SparseClassifier", {"alpha": -1}, "alpha: expected a finite number >= 0"),
        ("SparseClassifier", {"rule": "all"}, "rule: expected one of l1-gap, l2-gap, .* got 'all'"),
        ("SparseClassifier", {"rule": 3}, "rule: expected an object with screen"),
        ("SparseCRF", {"rule": "l2-gap"}, "rule: l2-gap lists all outputs, and sequences have too many"),
        ("SparseCRF", {"bits": 4}, "transitions, bits: of features by name alone"),
        ("SparseCRFPath", {"held_out": 0.0}, r"held_out: expected a number in \(0, 1\)"),
        ("SparseCRFPath", {"held_out": 1.0}, r"held_out: expected a number in \(0, 1\)"),
        ("SparseCRFPath", {"cv": 1}, "cv: expected 2..10 folds"),
        ("SparseCRFPath", {"cv": 11}, "cv: expected 2..10 folds, as there are n_samples = 10, got 11"),
        ("SparseCRFPath", {"cv": "5"}, "cv: expected a number of folds, or pairs"),
        ("SparseCRFPath", {"cv": [(np.arange(3), np.arange(0))]}, "cv: expected pairs .* none of them empty"),
        ("SparseCRFPath", {"ratio": 1.0}, r"ratio: expected a number in \(0, 1\)"),
        ("SparseCRFPath", {"count": 0}, "count: expected an integer >= 1"),
        ("SparseCRFPath", {"betas": []}, "betas: expected at least one"),
        ("SparseCRFPath", {"alpha": []}, "alpha: expected at least one"),
        ("SparseClassifier", {"rule": "half-space", "alpha": 0}, "rule: half-space needs alpha > 0"),
        (
            "SparseCRFPath",
            {"cv": [(np.ones(4, bool), np.arange(3))]},
            r"cv: expected example numbers of shape \(b,\), got bool of shape \(4,\)",
        ),
        ("SparseCRFPath", {"cv": [(np.arange(3), [0.5])]}, "cv: expected example numbers of shape"),
        ("SparseCRFPath", {"cv": [(np.arange(3), [10])]}, "cv: expected example numbers in 0..9, got 10..10"),
        ("SparseCRFPath", {"cv": [(np.arange(3), [-1])]}, "cv: expected example numbers in 0..9, got -1..-1"),
        ("SparseCRFPath", {"alpha": [1.0, -1.0]}, r"alpha\[1\]: expected a finite number >= 0, got -1.0"),
    ],
)
def test_errors_name_the_parameter(estimators, rows, words, name, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(estimators, name)(**options).fit(*(words if "CRF" in name else rows))


def test_one_example_cannot_be_held_out(estimators, words):
    with pytest.raises(ValueError, match="expected 2 or more, got n_samples = 1"):
        estimators.SparseCRFPath().fit(words[0][:1], words[1][:1])


def test_examples_have_no_weights(estimators, rows):
    with pytest.raises(TypeError, match="sample_weight"):
        estimators.SparseClassifier().fit(*rows, sample_weight=np.ones(60))


@pytest.mark.beyond("starts processes")
def test_without_scikit_learn():
    code = """
import sys
sys.modules["sklearn"] = None
from diptych.estimators import SparseClassifierPath, SparseCRF
learner = SparseClassifierPath(count=3, random_state=0).fit([[0.0], [1.0], [0.1], [0.9]], ["n", "y", "n", "y"])
assert learner.predict([[-5.0], [5.0]]).tolist() == ["n", "y"] and "count=3" in repr(learner)
try:
    SparseCRF().predict([])
except ValueError as problem:
    print(problem)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "this SparseCRF is not fitted yet" in done.stdout
