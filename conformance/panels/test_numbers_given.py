"""Numbers that no float or int64 holds, masked arrays, groups and CSR matrices that are none: refused by name, before
anything is lost."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from diptych.estimators import MulticlassClassifier
from reference import bounds

HUGE = 10**400
BITS = "an integer of 1329 bits"
HIDDEN = np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[False, True], [False, False]])
NOTHING_HIDDEN = np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=False)


def multiclass(backend, **options):
    model = backend.MulticlassModel(2, 2, **options)
    return model, backend.StructuralHinge(model, model.pack(np.eye(2), [0, 1]))


# numbers beyond a float or an int64 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [HUGE, -HUGE, Fraction(HUGE)], ids=["positive", "negative", "fraction"])
def test_numbers_beyond_the_floats_are_named(backend, value):
    _, objective = multiclass(backend)
    got = "a Fraction beyond that" if isinstance(value, Fraction) else BITS
    expected = "expected a number of at most 1.8e308 in size, got " + got
    for name, ask in {
        "tau": lambda: backend.L1(value),
        "group_tau": lambda: backend.SparseGroupLasso(1.0, [[0]], value),
        "step_size": lambda: backend.L1(1.0).prox([1.0], value),
        "lam": lambda: backend.sgd(objective, lam=value),
        "mu": lambda: objective.value_and_gradient(np.zeros(4), mu=value),
        "loss": lambda: backend.Boxes(np.zeros((2, 2)), loss=value, truth=[0, 0, 1, 1]),
        "tol": lambda: backend.lbfgs(objective, lam=0.1, tol=value),
    }.items():
        with pytest.raises(ValueError, match=f"^{name}: {expected}$"):
            ask()


def test_the_largest_numbers_are_numbers(backend):
    largest = int(np.finfo(np.float64).max)
    assert backend.L1(largest).tau == float(largest)
    assert backend.L1(Fraction(1, 3)).tau == 1 / 3


def test_arrays_of_integers_beyond_a_float_are_named(backend):
    for name, ask in {
        "values": lambda: backend.Table([1.0, HUGE]),
        "unary": lambda: backend.Chain([[HUGE, 0]], np.zeros((2, 2))),
        "x": lambda: backend.L1(1.0).prox([HUGE]),
        "weights": lambda: backend.L21(1.0, [[0]], weights=[HUGE]),
        "cost": lambda: backend.MulticlassModel(2, 2, cost=[[0, HUGE], [1, 0]]),
        "w0": lambda: backend.sgd(multiclass(backend)[1], [HUGE, 0, 0, 0], lam=0.1),
    }.items():
        with pytest.raises(TypeError, match=f"^{name}: expected real numbers, got {BITS}$"):
            ask()


@pytest.mark.parametrize("value", [2**63, 2**64, -(2**70), HUGE])
def test_integers_beyond_int64_are_named(backend, value):
    """2^63 is a uint64 to NumPy, and would be -2^63 as an int64."""
    _, objective = multiclass(backend)
    for name, ask in {
        "y": lambda: backend.Table([1.0, 2.0]).parts(value),
        "lengths": lambda: backend.Chain(np.zeros((1, 1, 2)), np.zeros((2, 2)), [value]),
        "edges": lambda: backend.Graph(np.zeros((2, 2)), np.zeros((1, 2, 2)), [[0, value]]),
        "batch": lambda: objective.value_and_gradient(np.zeros(4), [value]),
        r"Y\[1\]": lambda: backend.MulticlassModel(2, 2).pack(np.eye(2), [0, value]),
        r"X\[1\]": lambda: backend.MulticlassModel(2, 2).pack([[0], [value]]),
    }.items():
        with pytest.raises((TypeError, ValueError), match=f"^{name}: expected"):
            ask()
    if value > 0:
        for name, ask in {
            "epochs": lambda: backend.sgd(objective, lam=0.1, epochs=value),
            "n_features": lambda: backend.MulticlassModel(value, 2),
            "labels": lambda: backend.MulticlassModel(2, value),
        }.items():
            with pytest.raises(ValueError, match=f"^{name}: expected"):
                ask()


def test_bounds_of_numbers_beyond_the_floats():
    for name, ask in {
        "lam": lambda: bounds.Corollary17(lam=HUGE, kappa=1.0, mu=1.0),
        "kappa": lambda: bounds.Corollary19(kappa=HUGE, mu=1.0),
        "norm": lambda: bounds.smoothness(HUGE, 1.0),
        "radius": lambda: bounds.subgradient_norm(1.0, radius=HUGE, largest_loss=1.0),
        "L": lambda: bounds.svrg_rate(HUGE, 1.0, 10),
    }.items():
        with pytest.raises(ValueError, match=f"^{name}: expected a number of at most 1.8e308 in size, got {BITS}$"):
            ask()
    assert bounds.squared_l2_width(HUGE) == 0.5  # a number of outputs may be of any size


def test_seeds_may_be_long(backend):
    first, second = (backend.Table(np.zeros(50)).sample(20, rng=HUGE) for _ in range(2))
    assert np.array_equal(first, second)


# masked arrays --------------------------------------------------------------------------------------------------------


def test_masked_entries_are_no_numbers(backend):
    model, objective = multiclass(backend)
    integers = np.ma.array([0, 1], mask=[False, True])
    chain = backend.SequenceModel(2, 2)
    for name, ask in {
        "unary": lambda: backend.Chain(HIDDEN, np.zeros((2, 2))),
        "values": lambda: backend.Table(HIDDEN),
        "x": lambda: backend.L1(1.0).prox(HIDDEN),
        "X": lambda: model.pack(HIDDEN),
        "Y": lambda: model.pack(np.eye(2), integers),
        r"Y\[0\]": lambda: chain.pack([np.eye(2)], [integers]),
        r"X\[0\]": lambda: chain.pack([HIDDEN]),
        "lengths": lambda: backend.Chain(np.zeros((2, 1, 2)), np.zeros((2, 2)), integers),
        "y": lambda: backend.Chain(np.eye(2), np.zeros((2, 2))).parts(integers),
        "batch": lambda: objective.value_and_gradient(np.zeros(4), integers),
        "weights": lambda: backend.Weighted(objective, HIDDEN[0]),
        "groups": lambda: backend.L21(1.0, integers),
        r"groups\[1\]": lambda: backend.L21(1.0, [[0], integers + 1]),
        r"values\[0\]": lambda: backend.Table([HIDDEN[0]]),
        "tau": lambda: backend.L1(np.ma.masked),
        "allowed": lambda: backend.Chain(np.eye(2), np.eye(2)).constrained(HIDDEN > 0),
        "truth": lambda: backend.Boxes(np.zeros((2, 2)), truth=np.ma.array([0, 0, 1, 1], mask=[1, 0, 0, 0])),
        "w0": lambda: backend.sgd(objective, np.ma.array(np.zeros(4), mask=[1, 0, 0, 0]), lam=0.1),
    }.items():
        with pytest.raises(ValueError, match=rf"^{name}: expected numbers throughout, got a masked array with \d+ of"):
            ask()


def test_masks_that_hide_nothing_change_nothing(backend):
    plain = np.asarray(NOTHING_HIDDEN)
    for ask in (
        lambda x: backend.Chain(x, x).best()[0],
        lambda x: backend.L1(1.0).prox(x),
        lambda x: backend.MulticlassModel(2, 2).pack(x, np.ma.array([0, 1])).rows.data,
        lambda x: backend.Table(x).marginals().values,
    ):
        found = ask(NOTHING_HIDDEN)
        assert type(found) is type(ask(plain)) and np.array_equal(found, ask(plain))


# groups ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        ([[0, 1], [-5]], ValueError, "expected coordinates >= 0, got -5 in group 1"),
        ([[0.0, 1.5]], TypeError, r"expected index arrays, got float64 of shape \(2,\) as group 0"),
        ([[True, False]], TypeError, r"expected index arrays, got bool of shape \(2,\) as group 0"),
        ([[0, [1]]], TypeError, "expected index arrays, got lists in a list as group 0"),
        ([[[0, 1]]], TypeError, r"expected index arrays, got int64 of shape \(1, 2\) as group 0"),
        ([[0], [2**62]], ValueError, "expected coordinates below 2.31, got 4611686018427387904 in group 1"),
        ([[2**63]], ValueError, "expected coordinates below 2.31, got 9223372036854775808 in group 0"),
        ([[2**70]], TypeError, "expected index arrays, got object"),
        (None, TypeError, "expected a sequence of index arrays"),
        ("ab", TypeError, "expected index arrays"),
    ],
    ids=str,
)
def test_groups_that_are_none(backend, groups, error, message):
    for make in (
        lambda: backend.TreeGroupLasso(groups),
        lambda: backend.L21(1.0, groups),
        lambda: backend.SquaredL21(1.0, groups),
        lambda: backend.L21Ball(1.0, groups),
        lambda: backend.NonSparseMKL(1.0, 1.5, groups),
        lambda: backend.ElasticNetMKL(1.0, 1.0, groups),
        lambda: backend.SparseGroupLasso(1.0, groups, 1.0),
    ):
        with pytest.raises(error, match=f"^groups: {message}"):
            make()


def test_group_numbers_that_would_fill_the_memory(backend):
    with pytest.raises(ValueError, match="groups: expected group numbers below 2.31, got 4611686018427387904"):
        backend.L21(1.0, np.array([0, 2**62]))


# CSR matrices by their attributes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "error", "message"),
    [
        ("indices", [0.0, 1.5], TypeError, r"X\.indices: expected integers, got float64"),
        ("indptr", [0.0, 1.9, 2.0], TypeError, r"X\.indptr: expected integers, got float64"),
        ("indices", [[0], [1]], ValueError, r"X\.indices: expected one dimension, got shape \(2, 1\)"),
        ("data", [[1.0], [2.0]], ValueError, r"X\.data: expected one dimension, got shape \(2, 1\)"),
        ("indptr", [[0], [1], [2]], ValueError, r"X\.indptr: expected one dimension, got shape \(3, 1\)"),
        ("indices", np.array([0, 2**63], np.uint64), ValueError, r"X\.indices: expected integers up to 2.63 - 1"),
        ("indices", np.array([True, False]), TypeError, r"X\.indices: expected integers, got bool"),
        ("data", np.ma.array([1.0, 2.0], mask=[0, 1]), ValueError, r"X\.data: expected numbers throughout"),
        ("indices", np.ma.array([0, 1], mask=[0, 1]), ValueError, r"X\.indices: expected numbers throughout"),
        ("data", [HUGE, 1], TypeError, "X: expected real numbers, got"),
    ],
    ids=str,
)
def test_what_is_no_csr_matrix(backend, field, value, error, message):
    fields = {"indptr": np.array([0, 1, 2]), "indices": np.array([0, 1]), "data": np.array([1.0, 2.0])}
    whole = SimpleNamespace(**fields, shape=(2, 2))
    assert backend.Rows.of(whole).n == 2
    fields[field] = value if isinstance(value, np.ndarray) else np.array(value)
    with pytest.raises(error, match=f"^{message}"):
        backend.Rows.of(SimpleNamespace(**fields, shape=(2, 2)))
    with pytest.raises((TypeError, ValueError), match=rf"^(rows\.)?{field}: expected"):
        backend.Rows(**fields, width=2)


def test_learners_refuse_what_is_masked():
    """scikit-learn's own checks take what a mask hides."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    y = (X[:, 0] > 0).astype(int)
    learner = MulticlassClassifier().fit(X, y)
    masked = np.ma.masked_array(X, X > 1)
    for use in (
        lambda: MulticlassClassifier().fit(masked, y),
        lambda: learner.predict(masked),
        lambda: MulticlassClassifier().fit(X, np.ma.masked_array(y, y > 0)),
        lambda: MulticlassClassifier().fit(X, y, sample_weight=np.ma.masked_array(np.ones(12), y > 0)),
    ):
        with pytest.raises(ValueError, match="^(X|y|sample_weight): expected numbers throughout, got a masked array"):
            use()
