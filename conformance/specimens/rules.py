"""Screening: problems, each an objective of a backend and beside it the same listed; the rules; what both refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conformance.listed_crf import ListedCRF, as_list_model
from conformance.sines import sines
from conformance.specimens import Wrong
from conformance.specimens.learners import chains, loss_of
from conformance.specimens.models import MODELS, classes, labellings
from reference.structures.base import UnsupportedError


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


def _of(backend, problem):
    return backend.LogLoss(*problem.packed(backend)), problem.crf


def random_list(backend, rng):
    return _list(backend, *listed_outputs(rng, (3, 5, 2, 1, 4), 7))


def random_classes(backend, rng):
    return _of(backend, classes(rng.normal(size=(9, 4)), rng.integers(0, 3, 9), 3))


def duplicates(backend, rng):
    """Every feature twice, and every example."""
    A, gold = listed_outputs(rng, (3, 4, 3, 2), 4)
    return _list(backend, 2 * [np.concatenate([a, a]) for a in A], 2 * gold)


def collinear(backend, rng):
    """Features that are sums and multiples of others, one that is constant over outputs, one of zeros."""
    A, gold = listed_outputs(rng, (3, 4, 3), 3)
    more = np.array([[1.0, 1, 0], [-2, 0, 0], [0, 1e-6, 0], [0, 0, 0]])
    return _list(backend, [np.concatenate([a, more @ a]) for a in A], gold)


def absent_class(backend, rng):
    """Four classes, two of which occur in the data; 0/1 features; one column is empty."""
    X = (rng.random((8, 4)) < 0.5).astype(float)
    X[:, 3] = 0.0
    return _of(backend, classes(X, rng.integers(0, 2, 8), 4))


def one_example(backend, rng):
    return _list(backend, *listed_outputs(rng, (4,), 5))


def two_outputs(backend, rng):
    """One example, two outputs, one feature: nearly everything is an equality."""
    return _list(backend, [np.array([[0.0, 2.0]])], [0])


def large_scale(backend, rng, factor=1e5):
    A, gold = listed_outputs(rng, (3, 4, 2), 5)
    return _list(backend, [factor * a for a in A], gold)


def small_scale(backend, rng):
    return large_scale(backend, rng, 1e-5)


def words(backend, rng):
    """Chains: lengths 0 to 4, dense features of any sign."""
    lengths = (2, 3, 0, 4, 1)
    X, Y = [rng.normal(size=(n, 2)) for n in lengths], [rng.integers(0, 2, n) for n in lengths]
    return _of(backend, labellings(X, Y, 2, 2))


def words_without_a_label(backend, rng):
    """Three labels, two of which occur in the data; 0/1 features; no start and stop weights."""
    lengths = (3, 1, 2)
    X = [(rng.random((n, 2)) < 0.5).astype(float) for n in lengths]
    return _of(backend, labellings(X, [rng.integers(0, 2, n) for n in lengths], 2, 3, start_stop=False))


LISTED = (random_list, random_classes, duplicates, collinear, absent_class, one_example, two_outputs)
LISTED += (large_scale, small_scale)
CHAINS = (words, words_without_a_label)
PROBLEMS = LISTED + CHAINS
ALPHAS = (1.0, 0.03, 0.0)
every_problem = pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)


def drawn(backend, name, seed):
    """A drawn problem of a model."""
    return _of(backend, MODELS[name].draw(seed))


def optimum(listed, iterations=5000):
    """The listed optimum (d,), the dual point of it, and the gap between them."""
    best = listed.solve(iterations)
    point = feasible(listed, listed.theta(best))
    return best, point, listed.primal(best) + listed.dual(point)


def feasible(listed, theta):
    """The dual point of probabilities."""
    return theta if listed.alpha > 0 else listed.shrunken(theta)


def rules(backend: Any, listed: bool, alpha: float) -> list[Any]:
    """Every rule that has an answer where outputs are listed or not."""
    found = [backend.L1GapRule(), backend.CountRule()]
    if listed:
        found.append(backend.L2GapRule())
        if alpha > 0:
            options = ((1, "none"), (2, "none"), (2, "random"), (1, "all"), (2, "all"))
            found += [backend.HalfSpaceRule(modulus, half_spaces, 0) for modulus, half_spaces in options]
    return found


def places(best, rng):
    """Weights from far off to the optimum, and 0."""
    size = np.max(np.abs(best), initial=0.0) or 1.0
    off = rng.normal(size=len(best))
    yield np.zeros(len(best))
    yield 0.5 * best
    for distance in (3.0, 0.3, 1e-2, 1e-4, 0.0):
        yield best + distance * size * off
    for distance in (1.0, 1e-3):
        yield best * (1 + distance * off)


def _arcs(b):
    """A model that knows nothing of its features."""
    model = b.ParsingModel([("h.tag", "m.tag")], bits=3)
    return b.LogLoss(model, model.pack([{"tag": list("DNV")}, {"tag": ["N"]}], [[2, 3, 0], [0]]))


def _chains(b):
    return words(b, np.random.default_rng(0))[0]


def _pair(b):
    return two_outputs(b, None)[0]


def _nonlinear(b):
    return b.LogLoss(*sines(b, np.random.default_rng(0)))


def _sparse(objective, rule=None):
    return lambda b: b.solve_sparse(objective(b), beta=0.1, rule=rule and getattr(b, rule)())


def _path(*arguments, **options):
    return lambda b: b.sparse_path(_pair(b), *arguments, **options)


def _problem(b, **options):
    return b.ElasticNetCRF(_pair(b), **{"alpha": 0.0, "beta": 1.0, **options})


BAD = {
    ValueError: (
        (lambda b: _problem(b, alpha=-1.0), "alpha: expected a finite number >= 0, got -1.0"),
        (lambda b: _problem(b, beta=0.0), "beta: expected a finite number > 0, got 0.0"),
        (lambda b: _problem(b, alpha=np.nan), "alpha"),
        (lambda b: _problem(b).evaluate(np.zeros(2)), "w: expected 1 weights, got shape"),
        (lambda b: _problem(b).evaluate([np.nan]), "w: expected finite numbers, got nan"),
        (lambda b: b.HalfSpaceRule(modulus=3), "modulus: expected 1 or 2, got 3"),
        (lambda b: b.HalfSpaceRule(half_spaces="some"), "half_spaces: expected random, all or none, got 'some'"),
        (lambda b: b.solve_sparse(_pair(b), alpha=0.0, beta=0.1, rule=b.HalfSpaceRule()), "alpha: HalfSpaceRule needs"),
        (lambda b: b.ProximalNewton(memory=0), "memory: expected"),
        (lambda b: b.ProximalNewton(largest=0), "largest: expected"),
        (lambda b: b.AcceleratedProximalGradient(grow=1.0), "grow: expected"),
        (lambda b: b.AcceleratedProximalGradient(shrink=1.5), "shrink: expected"),
        (lambda b: b.AcceleratedProximalGradient(curvature=0.0), "curvature: expected"),
        (_path([0.1, -1.0]), r"betas\[1\]: expected a finite number > 0, got -1.0"),
        (_path([]), "betas: expected at least one"),
        (_path([0.1], alpha=-1.0), "alpha: expected a finite number >= 0, got -1.0"),
        (_path([0.2, 0.1], alpha=[1.0, -1.0]), r"alpha\[1\]: expected a finite number >= 0, got -1.0"),
        (_path([0.2, 0.1], alpha=[1.0]), "alpha: expected as many numbers as betas has, 2, got 1"),
        (_path(alpha=np.ones(3)), "alpha: expected a number without betas, got a sequence of 3"),
        (_path([0.1], count=3), "count: expected nothing, betas says which, got 3"),
        (_path([0.1], ratio=0.5), "ratio: expected nothing, betas says which, got 0.5"),
        (lambda b: b.sparse_path(_of(b, classes(np.zeros((2, 1)), [0, 1], 2))[0]), "beta_max is 0"),
    ),
    TypeError: (
        (lambda b: b.ElasticNetCRF(loss_of(b, "hinge", *chains(b)), alpha=1.0, beta=1.0), "objective: expected "),
        (lambda b: b.UnionRule(b.L1GapRule(), b.L1GapRule), "rule: expected an object with screen"),
        (lambda b: b.UnionRule(b.L1GapRule(), 3), "rule: expected an object with screen"),
        (lambda b: b.solve_sparse(_pair(b), beta=0.1, rule=b.L1GapRule), "rule: expected an object with screen"),
        (
            lambda b: b.solve_sparse(_pair(b), beta=0.1, solver=b.ProximalNewton),
            "solver: expected an object with start",
        ),
        (lambda b: b.AcceleratedProximalGradient(skip_zeros=1), "skip_zeros: expected True or False, got 1"),
        (_path(1), "betas: expected a sequence of numbers > 0, got int"),
    ),
    IndexError: ((lambda b: _path(count=2)(b).weights(2), r"k: expected a point in 0..1, got 2"),),
    UnsupportedError: (
        (_sparse(_arcs, "L1GapRule"), "ParsingModel does not bound the ranges of its features"),
        (_sparse(_arcs, "CountRule"), "CountRule: ParsingModel does not bound the sums of its features"),
        (_sparse(_chains, "L2GapRule"), "the outputs of SequenceModel are not listed"),
        (_sparse(_chains, "HalfSpaceRule"), "the outputs of SequenceModel are not listed"),
        (lambda b: _problem(b).primal_weights(np.zeros(1)), "alpha"),
        (lambda b: b.beta_max(_nonlinear(b)), "objective: the scores of SineModel are not linear in the weights"),
        (_sparse(_nonlinear), "objective: the scores of SineModel are not linear in the weights"),
    ),
}
WRONG = tuple(Wrong(ask, message, error) for error, cases in BAD.items() for ask, message in cases)
