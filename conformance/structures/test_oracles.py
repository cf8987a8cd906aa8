"""The structure protocol. The smoothed max of every structure: Definition 6 over the list of its outputs, and Lemma 7's
gradients. What a user's own structure gets from two methods, and what it is told it lacks.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import reference
from conformance.specimens.outputs import log_sum_exp
from conformance.specimens.pages import check_refusals
from conformance.specimens.structures import SMALL, STRUCTURES
from conformance.tolerances import close
from reference.arrays import host
from reference.identities.pillutla import sparse_projection, sparsity
from reference.structures.scores import flatten, inner, score_fields

SMOOTHINGS = {
    "Max": lambda panel: panel.smoothings.Max(),
    "Entropy": lambda panel: panel.smoothings.Entropy(),
    "TopK(1)": lambda panel: panel.smoothings.TopK(1),
    "TopK(3)": lambda panel: panel.smoothings.TopK(3),
    "TopK(100)": lambda panel: panel.smoothings.TopK(100),
    "SquaredL2": lambda panel: panel.smoothings.SquaredL2(100),
}
everywhere = pytest.mark.parametrize("name", SMALL)
by_all = pytest.mark.parametrize("smoothing", SMOOTHINGS)


def draws(kind, rng):
    """Where scores come from: ordinary ones, integers that tie, zeros."""
    return {
        "ordinary": lambda shape: rng.normal(size=shape),
        "ties": lambda shape: rng.integers(-1, 2, shape).astype(float),
        "zero": np.zeros,
    }[kind]


def made(backend, name, draw):
    specimen, make = SMALL[name]
    return specimen.make(backend, make(draw))


def asked(backend, smoothing, structure):
    """The smoothing, or nothing if the structure does not have it (which another test looks at)."""
    smoothing = SMOOTHINGS[smoothing](backend)
    offered = structure.supports(smoothing.needs) and smoothing.needs not in structure.intractable
    return smoothing if offered else None


def definition(structure, smoothing, mu):
    """Definition 6 over all outputs: the value, the best scores and their weights."""
    psi = np.sort([float(structure.score(y)) for y in structure.enumerate()])[::-1]
    kind = type(smoothing).__name__
    if kind == "Max":
        return psi[0], psi[:1], np.ones(1)
    if kind == "Entropy":
        value, weights = log_sum_exp(psi, mu)
        return value, psi, weights
    kept = psi[: smoothing.k] if kind == "TopK" else psi
    u = host(sparse_projection(kept, mu, sparsity(kept, mu)))
    return u @ kept + mu / 2 * (1 - u @ u), kept, u


def change(structure, rng, size=1.0):
    """Something to add to the scores: no edge of a cut becomes less supermodular."""
    scores = structure.scores
    fields = [size * rng.normal(size=field.shape) for field in score_fields(scores)]
    if type(structure).__name__ == "Cut":
        fields[1] = np.abs(fields[1]) * np.array([[1.0, -1.0], [-1.0, 1.0]])
    names = [name for name in scores._fields if name not in getattr(scores, "layout", ())]
    return scores._replace(**dict(zip(names, fields, strict=True)))


def test_every_structure_is_listed():
    kinds = {
        name
        for name in reference.__all__
        if inspect.isclass(kind := getattr(reference, name)) and issubclass(kind, reference.Structure)
    }
    assert kinds - {"Structure"} == {specimen.kind for specimen in STRUCTURES}


@everywhere
def test_a_loss_is_added_to_every_output(backend, rng, name):
    """The score of each output grows by <loss, parts>; options and the dtype stay."""
    structure = made(backend, name, draws("ordinary", rng))
    loss = change(structure, rng)
    louder = structure.augment(loss)
    for y in structure.enumerate():
        close(float(louder.score(y)), float(structure.score(y)) + inner(loss, structure.parts(y)))
    assert len(list(louder.enumerate())) == len(list(structure.enumerate()))
    names = [name for name in loss._fields if name not in getattr(loss, "layout", ())]
    single = structure.augment(loss._replace(**{name: getattr(loss, name).astype(np.float32) for name in names}))
    assert {str(field.dtype) for field in score_fields(single.scores)} == {"float64"}
    with pytest.raises(TypeError, match=f"loss: expected {type(structure.scores).__name__}"):
        structure.augment(tuple(structure.scores))


@everywhere
@by_all
@pytest.mark.parametrize("kind", ["ordinary", "ties", "zero"])
def test_the_oracle_is_its_definition(backend, rng, name, smoothing, kind):
    """The value; a gradient whose inner product with the scores is sum_k u_k psi_k; without ties, sum_k u_k
    parts(y_k) itself; and as the value is convex, f(s + d) >= f(s) + <g, d> (Lemma 7 (i)), ties included.
    """
    for mu in (0.3, 2.0):
        structure = made(backend, name, draws(kind, rng))
        ask = asked(backend, smoothing, structure)
        if ask is None:
            return
        at = 0.0 if smoothing == "Max" else mu
        value, gradient = structure.smooth_max(ask, at)
        expected, psi, u = definition(structure, ask, at)
        close(value, expected)
        close(inner(structure.scores, gradient), u @ psi)
        if kind == "ordinary":
            outputs = sorted(structure.enumerate(), key=lambda y: -float(structure.score(y)))
            parts = np.array([host(flatten(structure.parts(y))) for y in outputs[: len(u)]])
            close(host(flatten(gradient)), u @ parts)
        for size in (0.01, 1.0, 10.0):
            d = change(structure, rng, size)
            there, _ = structure.augment(d).smooth_max(ask, at)
            assert float(there) >= float(value) + inner(d, gradient) - 1e-9 * (1 + size)


@everywhere
def test_what_is_intractable_says_why(backend, rng, name):
    """Cuts and matchings have no exp oracle (Proposition 14 (iii)); asking, and building an objective on it, is
    refused by name.
    """
    structure = made(backend, name, draws("ordinary", rng))
    assert ("expectation" in structure.intractable) == (SMALL[name][0].kind in ("Cut", "Matching"))
    if "expectation" not in structure.intractable:
        return
    for ask in (structure.expectation, structure.log_partition, structure.marginals):
        with pytest.raises(backend.IntractableError, match="Proposition 14"):
            ask()
    with pytest.raises(backend.IntractableError, match="Proposition 14"):
        structure.smooth_max(backend.smoothings.Entropy(), 0.5)
    structure.smooth_max(backend.smoothings.Entropy(), 0.0)  # the max itself


@everywhere
def test_squared_l2_stops_growing_where_it_can_and_where_it_must(backend, rng, name):
    """At zero scores all outputs are needed, and max_k of them are used, asking for at most 4 max_k in all; where the
    best two certify, no more are asked for.
    """
    asked_for, zero = [], made(backend, name, np.zeros)
    if zero.listed is not None:
        return

    class Counting(type(zero)):
        def topk(self, k):
            asked_for.append(k)
            return super().topk(k)

    outputs = len(list(zero.enumerate()))
    value, _, exact = backend.smoothings.SquaredL2(4).smoothed(Counting.unchecked(zero.scores), 1.0)
    assert asked_for == [3, 5] and bool(exact) == (outputs <= 4)
    close(value, (1 - 1 / min(outputs, 4)) / 2)
    apart = made(backend, name, draws("ordinary", rng))
    psi = apart.topk(3).scores
    _, _, exact = backend.smoothings.SquaredL2(64).smoothed(Counting.unchecked(apart.scores), 0.5 * (psi[0] - psi[2]))
    assert asked_for == [3, 5, 3] and bool(exact)


# structures of users, and numbers as they come ------------------------------------------------------------------------


def pick_one(backend):
    """A structure over a bare array of scores, with ``best`` and ``parts`` alone."""

    class PickOne(backend.Structure):
        def best(self):
            y = int(np.argmax(self.scores))
            return float(self.scores[y]), y

        def parts(self, y):
            return np.eye(len(self.scores))[y]

    return PickOne


def test_two_methods_derive_the_rest(backend):
    structure = pick_one(backend)(np.array([0.0, 2.0, -np.inf]))
    assert structure.score(1) == 2.0
    assert structure.augment(np.array([5.0, 0.0, 0.0])).best() == (5.0, 0)
    value, gradient = structure.smooth_max(backend.smoothings.Max(), 0.0)
    assert value == 2.0 and np.array_equal(gradient, [0.0, 1.0, 0.0])
    assert structure.supports("best") and not structure.supports("expectation")


def test_what_is_missing_is_said(backend):
    """By the structure, and at once by an objective that needs it."""

    class Hard(pick_one(backend)):
        intractable = {"expectation": "#P-complete"}

    names = {"b": backend, "np": np, "eye": np.eye(3), "Lacking": pick_one(backend), "Hard": Hard}
    check_refusals("wrong_oracles.txt", names)


def test_a_list_model_shapes_what_its_structure_reads(backend, rng):
    """A chain of 3 positions and 2 labels: flattened scores are unary ones, then pairwise ones."""
    features, y = rng.normal(size=(10, 4)), [0, 1, 1]
    loss = rng.random(10) * ~np.isin(np.arange(10), [0, 3, 5, 7, 9])  # 0 for y and its pairs

    def shape(x, values):
        return backend.ChainScores(values[:6].reshape(3, 2), values[6:].reshape(2, 2))

    model = backend.ListModel(lambda x: features, backend.Chain, lambda x, y: loss, size=4, shape=shape)
    hinge = backend.StructuralHinge(model, model.pack([0], [y]), smoothing=backend.smoothings.Entropy())
    w = rng.normal(size=4)
    chain = backend.Chain(*shape(0, features @ w + loss))
    true = flatten(chain.parts(y))
    for mu in (0.0, 0.7):
        expected, best = chain.expectation(mu) if mu else (chain.best()[0], chain.parts(chain.best()[1]))
        value, gradient = hinge.value_and_gradient(w, mu=mu)
        close(value, expected - true @ features @ w)
        close(gradient, features.T @ (flatten(best) - true))


def test_edges_are_the_structures_own(backend):
    """An array that its owner changes later must not lead a kernel astray."""
    edges = np.array([[0, 1]])
    structures = [f(np.zeros((2, 2)), np.zeros((1, 2, 2)), edges) for f in (backend.Cut, backend.Graph)]
    edges[0, 1] = 70
    assert all(structure.best()[1].tolist() == [0, 0] for structure in structures)
