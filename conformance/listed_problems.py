"""Problems for tests of screening: an objective of a backend and, beside it, the same problem listed."""

from __future__ import annotations

import numpy as np

from conformance.listed_crf import ListedCRF, as_list_model, classes, sequences


def listed_outputs(rng, sizes, d):
    """Random features for examples with these numbers of outputs, and random true outputs."""
    A, gold = [], []
    for m in sizes:
        F = rng.normal(size=(d, m))
        gold.append(int(rng.integers(m)))
        A.append(F[:, gold[-1] : gold[-1] + 1] - F)
    return A, gold


def _list(backend, A, gold):
    return as_list_model(backend, ListedCRF(A, gold, 1.0, 1.0)), lambda alpha, beta: ListedCRF(A, gold, alpha, beta)


def _classes(backend, X, Y, L):
    model = backend.MulticlassModel(X.shape[1], L)
    return backend.LogLoss(model, model.pack(X, Y)), lambda alpha, beta: classes(X, Y, L, alpha, beta)


def _words(backend, X, Y, L, **options):
    model = backend.SequenceModel(X[0].shape[1], L, **options)
    data = model.pack(X, Y)
    return backend.LogLoss(model, data), lambda alpha, beta: sequences(X, Y, L, alpha, beta, **options)


def random_list(backend, rng):
    return _list(backend, *listed_outputs(rng, (3, 5, 2, 1, 4), 7))


def random_classes(backend, rng):
    return _classes(backend, rng.normal(size=(9, 4)), rng.integers(0, 3, 9), 3)


def duplicates(backend, rng):
    """Every feature twice."""
    A, gold = listed_outputs(rng, (3, 4, 3, 2), 4)
    return _list(backend, [np.concatenate([a, a]) for a in A], gold)


def collinear(backend, rng):
    """Features that are sums and multiples of others, one that is constant over outputs, one of zeros."""
    A, gold = listed_outputs(rng, (3, 4, 3), 3)
    more = np.array([[1.0, 1, 0], [-2, 0, 0], [0, 1e-6, 0], [0, 0, 0]])
    return _list(backend, [np.concatenate([a, more @ a]) for a in A], gold)


def absent_class(backend, rng):
    """Four classes, two of which occur in the data; 0/1 features; one column is empty."""
    X = (rng.random((8, 4)) < 0.5).astype(float)
    X[:, 3] = 0.0
    return _classes(backend, X, rng.integers(0, 2, 8), 4)


def one_example(backend, rng):
    return _list(backend, *listed_outputs(rng, (4,), 5))


def two_outputs(backend, rng):
    """One example, two outputs, one feature: nearly everything is an equality."""
    return _list(backend, [np.array([[0.0, 2.0]])], [0])


def large_scale(backend, rng):
    A, gold = listed_outputs(rng, (3, 4, 2), 5)
    return _list(backend, [1e5 * a for a in A], gold)


def small_scale(backend, rng):
    A, gold = listed_outputs(rng, (3, 4, 2), 5)
    return _list(backend, [1e-5 * a for a in A], gold)


def words(backend, rng):
    """Chains: lengths 0 to 4, dense features of any sign."""
    lengths = (2, 3, 0, 4, 1)
    return _words(backend, [rng.normal(size=(n, 2)) for n in lengths], [rng.integers(0, 2, n) for n in lengths], 2)


def words_without_a_label(backend, rng):
    """Three labels, two of which occur in the data; 0/1 features; no start and stop weights."""
    lengths = (3, 1, 2)
    X = [(rng.random((n, 2)) < 0.5).astype(float) for n in lengths]
    return _words(backend, X, [rng.integers(0, 2, n) for n in lengths], 3, start_stop=False)


LISTED = (
    random_list,
    random_classes,
    duplicates,
    collinear,
    absent_class,
    one_example,
    two_outputs,
    large_scale,
    small_scale,
)
CHAINS = (words, words_without_a_label)
