"""The Jacobian of SparseMAP: the projector of an enumerated face, differences of marginals, and what leaves them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from conformance.recipes.structure import Subset
from conformance.specimens.structures import STRUCTURES
from conformance.structures.test_decisions import SCALES, drawn, own_scores
from reference.structures.scores import mapped, score_fields
from reference.structures.vectors import Vectors

SPECIMENS = [each for each in STRUCTURES if each.kind != "Cut"]  # whose edges' scores are not free


def each_its_own(data, specimen, backend):
    """What is drawn, where each edge has scores of its own."""
    structure, listing, rows = drawn(data, specimen, backend)
    return Vectors(structure).space, own_scores(structure, listing), rows


def vector(scores):
    return np.concatenate([np.asarray(x, np.float64).ravel() for x in score_fields(scores)])


def directed(structure, rng):
    """Numbers in the form of the scores; 0 for the loss of boxes."""
    noise = mapped(lambda x: np.asarray(rng.normal(size=x.shape)), structure.scores)
    return noise._replace(loss=0.0 * noise.loss) if hasattr(noise, "loss") else noise


@pytest.mark.parametrize("specimen", SPECIMENS, ids=repr)
@given(data=st.data(), mu=SCALES, seed=st.integers(0, 99))
def test_the_jacobian_is_the_projector_of_the_face(backend, specimen, data, mu, seed):
    """By enumeration: onto the differences of the outputs that are best at s/mu - p, where scores tie, too."""
    structure, s, rows = each_its_own(data, specimen, backend)
    s = s / mu
    marginals = backend.sparsemap(structure, mu, tol=1e-14).marginals
    p = vector(marginals)
    along = directed(structure, np.random.default_rng(seed))
    slack = np.max(rows @ (s - p)) - rows @ (s - p)
    scale = max(1.0, np.linalg.norm(s))
    assume(not np.any((slack > 1e-9 * scale) & (slack < 1e-4 * scale)))  # ties that are none
    face = rows[slack <= 1e-9 * scale]
    _, sizes, directions = np.linalg.svd(face - face.mean(axis=0), full_matrices=False)
    basis = directions[sizes > 1e-9]
    expected = basis.T @ (basis @ vector(along)) / mu
    found = backend.sparsemap_product(structure, marginals, along, mu)
    np.testing.assert_allclose(vector(found), expected, rtol=0, atol=1e-7 / mu)


@pytest.mark.parametrize("specimen", SPECIMENS, ids=repr)
@given(data=st.data(), mu=st.sampled_from([0.3, 1.0, 20.0]), seed=st.integers(0, 99))
def test_the_jacobian_is_that_of_differences(backend, specimen, data, mu, seed):
    """Of the marginals at scores that do not tie; there it is its own transpose."""
    structure, _, _ = each_its_own(data, specimen, backend)
    rng = np.random.default_rng(seed)
    apart = structure.augment(directed(structure, rng))
    v, w = directed(apart, rng), directed(apart, rng)

    def marginals(step):
        there = apart.augment(mapped(lambda x: step * x, v))
        return backend.sparsemap(there, mu, tol=1e-14).marginals

    h, here = 1e-6 * mu, marginals(0.0)
    one, two = (vector(marginals(h)) - vector(here)) / h, (vector(here) - vector(marginals(-h))) / h
    assume(np.max(np.abs(one - two), initial=0.0) < 1e-4 / mu)  # no face ends between
    product = vector(backend.sparsemap_product(apart, here, v, mu))
    np.testing.assert_allclose(product, (one + two) / 2, rtol=0, atol=1e-4 / mu)
    other = vector(backend.sparsemap_product(apart, here, w, mu))
    assert product @ vector(w) == pytest.approx(vector(v) @ other, abs=1e-9 / mu)


@given(seed=st.integers(0, 999), p=st.integers(1, 4), more=st.integers(0, 2), tied=st.booleans())
def test_a_constant_added_to_a_row_leaves_the_marginals(backend, seed, p, more, tied):
    """Of matchings, whose rows are all matched, and of trees, whose tokens all have a head."""
    rng = np.random.default_rng(seed)
    for kind, values in (("Matching", rng.normal(size=(p, p + more))), ("Arborescence", rng.normal(size=(p, p + 1)))):
        structure = getattr(backend, kind)(np.round(values) if tied else values)
        shift = structure.scores._replace(values=np.repeat(rng.normal(size=(p, 1)), values.shape[1], axis=1))
        answer = backend.sparsemap(structure, 0.7, tol=1e-14)
        moved = backend.sparsemap(structure.augment(shift), 0.7, tol=1e-14)
        np.testing.assert_allclose(moved.marginals.values, answer.marginals.values, atol=1e-6)
        product = backend.sparsemap_product(structure, answer.marginals, shift, 0.7)
        np.testing.assert_allclose(product.values, 0.0, atol=1e-9)


@given(seed=st.integers(0, 999), mu=SCALES)
def test_subsets_are_projected_onto_the_cube(backend, seed, mu):
    """A structure of one's own, with best and parts alone: each score over mu is cut to 0..1, where at 0 and at 1 the
    Jacobian is that between them.
    """
    s = np.random.default_rng(seed).normal(size=6)
    subset = Subset(np.round(s, 1))
    answer = backend.sparsemap(subset, mu, tol=1e-14)
    expected = np.clip(subset.scores / mu, 0.0, 1.0)
    np.testing.assert_allclose(answer.marginals, expected, atol=1e-9)
    product = backend.sparsemap_product(subset, answer.marginals, s, mu)
    inside = expected == subset.scores / mu
    np.testing.assert_allclose(product, np.where(inside, s / mu, 0.0), atol=1e-9 / mu)
