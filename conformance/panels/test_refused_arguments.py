"""What is refused by name, before anything is lost: numbers that no float or int64 holds, and masked arrays."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from diptych.estimators import MulticlassClassifier
from reference import bounds

HUGE = 10**400
BITS = "an integer of 1329 bits"
SQUARE = np.array([[1.0, 2.0], [3.0, 4.0]])


def multiclass(b, **options):
    model = b.MulticlassModel(2, 2, **options)
    return b.StructuralHinge(model, model.pack(np.eye(2), [0, 1]))


# by the name of the argument: what asks a backend with a value for it
NUMBERS = {
    "tau": lambda b, x: b.L1(x),
    "group_tau": lambda b, x: b.SparseGroupLasso(1.0, [[0]], x),
    "step_size": lambda b, x: b.L1(1.0).prox([1.0], x),
    "lam": lambda b, x: b.sgd(multiclass(b), lam=x),
    "mu": lambda b, x: multiclass(b).value_and_gradient(np.zeros(4), mu=x),
    "loss": lambda b, x: b.Boxes(np.zeros((2, 2)), loss=x, truth=[0, 0, 1, 1]),
    "tol": lambda b, x: b.lbfgs(multiclass(b), lam=0.1, tol=x),
}
OF_BOUNDS = {
    "kappa": lambda b, x: bounds.Corollary19(kappa=x, mu=1.0),
    "norm": lambda b, x: bounds.smoothness(x, 1.0),
}
SIZES = {
    "epochs": lambda b, k: b.sgd(multiclass(b), lam=0.1, epochs=k),
    "n_features": lambda b, k: b.MulticlassModel(k, 2),
    "labels": lambda b, k: b.MulticlassModel(2, k),
    r"X\[1\]": lambda b, k: b.MulticlassModel(2, 2).pack([[0], [k]]),
}
FLOATS = {  # with an array that it takes
    "values": (lambda b, x: b.Table(x).marginals().values, SQUARE),
    "unary": (lambda b, x: b.Chain(x, np.zeros((2, 2))).best()[0], SQUARE),
    "x": (lambda b, x: b.L1(1.0).prox(x), SQUARE),
    "X": (lambda b, x: b.MulticlassModel(2, 2).pack(x).rows.data, SQUARE),
    "weights": (lambda b, x: b.L21(1.0, [[0], [1]], weights=x).value(np.ones(2)), SQUARE[0]),
    "cost": (lambda b, x: b.MulticlassModel(2, 2, cost=x).cost, 1 - np.eye(2)),
    "w0": (lambda b, x: b.sgd(multiclass(b), x, lam=0.1, epochs=1, rng=0).x, np.ones(4)),
}
INTEGERS = {
    "y": (lambda b, x: b.Chain(np.eye(2), np.zeros((2, 2))).parts(x)[0], np.array([0, 1])),
    "lengths": (lambda b, x: b.Chain(np.zeros((2, 1, 2)), np.zeros((2, 2)), x).best()[1], np.array([0, 1])),
    "edges": (lambda b, x: b.Graph(np.eye(2), np.ones((1, 2, 2)), x).best()[0], np.array([[0, 1]])),
    "batch": (lambda b, x: multiclass(b).value_and_gradient(np.zeros(4), x)[1], np.array([0, 1])),
    "Y": (lambda b, x: b.MulticlassModel(2, 2).pack(np.eye(2), x).labels, np.array([0, 1])),
    "groups": (lambda b, x: b.L21(1.0, x).value(np.ones(2)), np.array([0, 1])),
    "truth": (lambda b, x: b.Boxes(np.zeros((2, 2)), loss=1.0, truth=x).best()[0], np.array([0, 0, 1, 1])),
}


def with_last(array, value):
    """Lists with another last entry."""
    entries = array.astype(object)
    entries[(-1,) * array.ndim] = value
    return entries.tolist()


@pytest.mark.parametrize("value", [HUGE, -HUGE, Fraction(HUGE)], ids=["positive", "negative", "fraction"])
def test_numbers_beyond_the_floats_are_named(backend, value):
    got = "a Fraction beyond that" if isinstance(value, Fraction) else BITS
    whole = isinstance(value, int)
    for name, ask in [*NUMBERS.items(), *(OF_BOUNDS.items() if whole else ())]:
        with pytest.raises(ValueError, match=f"^{name}: expected a number of at most 1.8e308 in size, got {got}$"):
            ask(backend, value)
    for name, (ask, good) in FLOATS.items() if whole else ():
        if name == "X":  # its lists are column numbers
            continue
        with pytest.raises(TypeError, match=f"^{name}: expected real numbers, got {BITS}$"):
            ask(backend, with_last(good, value))


@pytest.mark.parametrize("value", [2**63, 2**64, -(2**70), HUGE])
def test_integers_beyond_int64_are_named(backend, value):
    """2^63 is a uint64 to NumPy, and would be -2^63 as an int64."""
    for name, (ask, good) in INTEGERS.items():
        with pytest.raises((TypeError, ValueError), match=rf"^{name}(\[1\])?: expected"):
            ask(backend, with_last(good, value))
    for name, ask in SIZES.items() if value > 0 else ():
        with pytest.raises((TypeError, ValueError), match=f"^{name}: expected"):
            ask(backend, value)


def test_large_numbers_that_are_right(backend):
    """The largest float, fractions, a number of outputs of any size, long seeds."""
    largest = int(np.finfo(np.float64).max)
    assert backend.L1(largest).tau == float(largest)
    assert backend.L1(Fraction(1, 3)).tau == 1 / 3
    assert bounds.squared_l2_width(HUGE) == 0.5
    first, second = (backend.Table(np.zeros(50)).sample(20, rng=HUGE) for _ in range(2))
    assert np.array_equal(first, second)


# masked arrays --------------------------------------------------------------------------------------------------------

NESTED = {  # within lists, a scalar, booleans
    r"Y\[0\]": lambda b, x: b.SequenceModel(2, 2).pack([np.eye(2)], [(x[0] > 1.5).astype(int)]),
    r"X\[0\]": lambda b, x: b.SequenceModel(2, 2).pack([x]),
    r"groups\[1\]": lambda b, x: b.L21(1.0, [[0], x[0].astype(int)]),
    r"values\[0\]": lambda b, x: b.Table([x[0]]),
    "weights": lambda b, x: b.Weighted(multiclass(b), x[0]),
    "tau": lambda b, x: b.L1(x[0, 0]),
    "allowed": lambda b, x: b.Chain(np.eye(2), np.eye(2)).constrained(x > 0),
}


def test_masked_entries_are_no_numbers_and_masks_that_hide_nothing_change_nothing(backend):
    message = r"^{}: expected numbers throughout, got a masked array with \d+ of"
    for name, (ask, good) in (FLOATS | INTEGERS).items():
        hidden = np.zeros(good.shape, bool)
        np.testing.assert_array_equal(ask(backend, np.ma.array(good, mask=hidden)), ask(backend, good), err_msg=name)
        hidden[(0,) * good.ndim] = True
        with pytest.raises(ValueError, match=message.format(name)):
            ask(backend, np.ma.array(good, mask=hidden))
    for name, ask in NESTED.items():
        with pytest.raises(ValueError, match=message.format(name)):
            ask(backend, np.ma.array(SQUARE, mask=[[True, False], [False, False]]))


def test_learners_refuse_what_is_masked(rng):
    """scikit-learn's own checks take what a mask hides."""
    X = rng.normal(size=(12, 2))
    y = (X[:, 0] > 0).astype(int)
    learner = MulticlassClassifier()
    for use in (
        lambda: learner.fit(np.ma.masked_array(X, X > 1), y),
        lambda: learner.fit(X, np.ma.masked_array(y, y > 0)),
        lambda: learner.fit(X, y, sample_weight=np.ma.masked_array(np.ones(12), y > 0)),
        lambda: learner.fit(X, y).predict(np.ma.masked_array(X, X > 1)),
    ):
        with pytest.raises(ValueError, match="^(X|y|sample_weight): expected numbers throughout, got a masked array"):
            use()
