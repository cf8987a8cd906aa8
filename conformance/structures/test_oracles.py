"""The structure protocol. The smoothed max of every structure: Definition 6 over the list of its outputs, and Lemma 7's
gradients. What a user's own structure gets from two methods, and what it is told it lacks.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import reference
from conformance.specimens.outputs import log_sum_exp
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
def test_a_loss_is_added_to_every_output_or_refused(backend, rng, name):
    """The score of each output grows by <loss, parts>; what is not a loss of these scores is refused by name."""
    structure = made(backend, name, draws("ordinary", rng))
    loss = change(structure, rng)
    louder = structure.augment(loss)
    for y in structure.enumerate():
        close(float(louder.score(y)), float(structure.score(y)) + inner(loss, structure.parts(y)))
    assert len(list(louder.enumerate())) == len(list(structure.enumerate()))  # options stay
    names = [name for name in loss._fields if name not in getattr(loss, "layout", ())]
    single = structure.augment(loss._replace(**{name: getattr(loss, name).astype(np.float32) for name in names}))
    assert {str(field.dtype) for field in score_fields(single.scores)} == {"float64"}
    for other in (1, np.zeros(3), tuple(structure.scores)):
        with pytest.raises(TypeError, match=f"loss: expected {type(structure.scores).__name__}"):
            structure.augment(other)
    first = structure.scores._fields[0]
    field = host(getattr(structure.scores, first))
    for wrong, message in (
        (np.zeros((*field.shape, 1)), "expected the shape of the scores"),
        (np.full(field.shape, np.nan), "expected finite scores, or -inf for a forbidden part, got nan"),
        (np.full(field.shape, np.inf), "expected finite scores, or -inf for a forbidden part, got inf"),
    ):
        with pytest.raises(ValueError, match=f"loss.{first}: {message}"):
            structure.augment(loss._replace(**{first: wrong}))
    with pytest.raises(TypeError, match=f"loss.{first}: expected"):
        structure.augment(loss._replace(**{first: np.full(field.shape, "a")}))


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
    """Far apart, two outputs certify; at zero scores all are needed, and max_k of them are used, asking for at most
    4 max_k in all.
    """
    asked_for, zero, apart = [], made(backend, name, np.zeros), made(backend, name, draws("ordinary", rng))
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
    psi = np.sort([float(apart.score(y)) for y in apart.enumerate()])[::-1]
    mu = 0.5 * (psi[0] - psi[2])
    _, _, exact = backend.smoothings.SquaredL2(64).smoothed(Counting.unchecked(apart.scores), mu)
    assert asked_for == [3, 5, 3] and bool(exact)


@everywhere
def test_constraints_of_another_shape_or_type_are_refused(backend, rng, name):
    structure = made(backend, name, draws("ordinary", rng))
    if structure.variables is None:
        return
    p, states = structure.node_max_marginals().shape
    assert structure.constrained([[True] * states] * p).best()[0] == structure.best()[0]
    for allowed in ([[True] * states], True, [[True] * (states + 1)] * p):
        with pytest.raises(ValueError, match=rf"allowed: expected shape \({p}, {states}\), got"):
            structure.constrained(allowed)
    with pytest.raises(TypeError, match="allowed: expected booleans, got int64"):
        structure.constrained([[1] * states] * p)


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
    lacking = pick_one(backend)

    class Hard(lacking):
        intractable = {"expectation": "#P-complete"}

    for ask, needed in (("topk", "topk"), ("log_partition", "expectation"), ("marginals", "expectation")):
        with pytest.raises(backend.UnsupportedError, match=f"PickOne does not implement {needed}"):
            getattr(lacking(np.zeros(3)), ask)(1)
    for ask, given in (("max_marginals", ()), ("constrained", (np.ones((1, 3), bool),))):
        with pytest.raises(backend.UnsupportedError, match=f"PickOne does not implement {ask}"):
            getattr(lacking(np.zeros(3)), ask)(*given)
    with pytest.raises(backend.IntractableError, match=r"Hard has no expectation\(\): #P-complete"):
        Hard(np.zeros(3)).log_partition()
    for kind, error, message in (
        (lacking, backend.UnsupportedError, r"LogLoss with Entropy\(\) needs expectation\(\), which PickOne lacks"),
        (Hard, backend.IntractableError, r"LogLoss .* needs expectation\(\): #P-complete"),
    ):
        model = backend.ListModel(lambda x: np.eye(3), kind, size=3)
        with pytest.raises(error, match=message):
            backend.LogLoss(model, model.pack([0], [1]))


def test_chain_scores_in_a_list_model_are_the_sequence_model(backend, rng):
    """The same scores through plain callables: flattened parts are unary scores, then pairwise ones."""
    n, F, L = 4, 2, 3
    x, y = rng.normal(size=(n, F)), rng.integers(0, L, n)
    sequence = backend.SequenceModel(F, L, start_stop=False)
    ours = backend.StructuralHinge(sequence, sequence.pack([x], [y]), smoothing=backend.smoothings.Entropy())

    def features(x):
        unary = np.kron(x, np.eye(L)).reshape(n * L, F * L)
        return np.block([[unary, np.zeros((n * L, L * L))], [np.zeros((L * L, F * L)), np.eye(L * L)]])

    def shape(x, values):
        return backend.ChainScores(values[: n * L].reshape(n, L), values[n * L :].reshape(L, L))

    def loss(x, y):
        return np.concatenate([(1.0 - np.eye(L)[y]).ravel(), np.zeros(L * L)])

    listed = backend.ListModel(features, backend.Chain, loss, size=sequence.size, shape=shape)
    theirs = backend.StructuralHinge(listed, listed.pack([x], [y]), smoothing=backend.smoothings.Entropy())
    w = rng.normal(size=sequence.size)
    for mu in (0.0, 0.7):
        for a, b in zip(ours.value_and_gradient(w, mu=mu), theirs.value_and_gradient(w, mu=mu), strict=True):
            close(a, b)


def test_edges_are_the_structures_own(backend):
    """An array that its owner changes later must not lead a kernel astray."""
    edges = np.array([[0, 1]])
    structures = [f(np.zeros((2, 2)), np.zeros((1, 2, 2)), edges) for f in (backend.Cut, backend.Graph)]
    edges[0, 1] = 70
    assert all(structure.best()[1].tolist() == [0, 0] for structure in structures)
