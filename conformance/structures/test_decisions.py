"""Losses over ``best`` alone: SparseMAP with its Jacobian, perturbed maxima, SPO+ and regret, against enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import reference
from conformance.namespaces import HOST
from conformance.recipes.structure import Subset
from conformance.specimens.models import MODELS
from conformance.specimens.outputs import listed
from conformance.specimens.pages import check_refusals
from conformance.specimens.structures import STRUCTURES
from conformance.tolerances import close
from reference.structures.scores import inner, mapped
from reference.structures.vectors import Vectors, flat

SCALES = st.sampled_from([1e-3, 0.3, 1.0, 20.0, 1e4])


def all_but(*kinds):
    return pytest.mark.parametrize("specimen", [each for each in STRUCTURES if each.kind not in kinds], ids=repr)


def drawn(data, specimen, backend, space=HOST):
    """A structure with moderate scores in a space, its possible outputs, and their parts (m, d), each its own."""
    instance = data.draw(specimen.draw(batched=False, **({"huge": False} if specimen.kind == "Cut" else {})))
    listing = specimen.enumerate(instance).possible()
    assume(listing.outputs and np.max(np.abs(listing.scores)) < 1e6)
    rows = np.concatenate([part.reshape(len(part), -1) for part in listing.parts.values()], axis=1)
    return specimen.make(backend, instance, space), listing, rows.astype(np.float64)


def own_scores(structure, listing):
    """The scores (d,) of the parts, those of shared scores repeated; 0 where forbidden."""
    own = structure.scores._asdict() if isinstance(structure.scores, tuple) else {"": structure.scores}
    each = [np.broadcast_to(HOST.get(own[name]), part.shape[1:]).ravel() for name, part in listing.parts.items()]
    s = np.concatenate(each).astype(np.float64)
    return np.where(s > -np.inf, s, 0.0)


@all_but()
@given(data=st.data(), mu=SCALES, of_variables=st.booleans())
def test_sparsemap_is_optimal(backend, specimen, data, mu, of_variables):
    """No output lies further in the direction of the gradient than the gap says; weights, value and marginals fit."""
    structure, listing, rows = drawn(data, specimen, backend)
    s, names = own_scores(structure, listing), [structure.variables] if of_variables else [*listing.parts]
    squared = np.repeat([name in names for name in listing.parts], [x[0].size for x in listing.parts.values()])
    if of_variables:
        assume(structure.variables is not None)
    elif specimen.kind == "Cut":
        mu = min(mu, 1e-3)  # the edges' scores stay those of a cut
    try:
        answer = backend.sparsemap(structure, mu, parts="variables" if of_variables else "all")
    except ValueError as problem:
        assert specimen.kind == "Cut" and not of_variables and "pairwise" in str(problem)
        return
    assert isinstance(answer, backend.SparseMarginals)
    index = [listing.outputs.index(listed(y)) for y in answer.outputs]
    assert len(set(index)) == len(index) and np.all(answer.weights >= 0)
    assert np.all(np.diff(answer.weights) <= 0) and np.isclose(answer.weights.sum(), 1.0, rtol=1e-12)
    p = answer.weights @ rows[index]
    direction = s / mu - np.where(squared, p, 0.0)
    scale = max(1.0, float(s @ s) / mu**2)
    found = np.max(rows @ direction) - p @ direction
    assert answer.gap <= 1e-10 * scale and found <= answer.gap + 1e-10 * scale
    close(answer.value, s @ p - mu / 2 * np.sum(p[squared] ** 2), scale=mu * scale)
    for name, part in listing.parts.items():
        field, mean = HOST.get(getattr(answer.marginals, name)), np.tensordot(answer.weights, part[index], 1)
        close(field, mean.sum(axis=tuple(range(mean.ndim - field.ndim))), scale=1.0)  # of shared scores
    again = backend.sparsemap(structure, mu, parts="variables" if of_variables else "all", start=answer.outputs)
    close(again.value, answer.value, scale=mu * scale)


def normal(structure, random, decimals=1):
    """Numbers in the form of the scores; 0 for pairs of a Cut, which stays one, and for the loss of boxes."""
    noise = mapped(lambda x: np.round(random.normal(size=x.shape), decimals), structure.scores)
    fixed = {"Cut": "pairwise", "Boxes": "loss"}.get(type(structure).__name__)
    return noise if fixed is None else noise._replace(**{fixed: 0.0 * getattr(noise, fixed)})


@all_but("Boxes", "Cut")
@given(data=st.data(), noise=st.sampled_from(["additive", "multiplicative"]), seed=st.integers(0, 99))
def test_a_perturbed_maximum_is_one_convex_function_of_the_scores(backend, specimen, data, noise, seed):
    """With one seed: its gradient supports it at other scores, and gives its value where it is linear."""
    structure, listing, _ = drawn(data, specimen, backend)
    options = {"noise": noise, "scale": 0.3, "samples": 4, "rng": seed}
    value, gradient = backend.perturbed(structure, **options)
    step = normal(structure, np.random.default_rng(seed + 1))
    further, _ = backend.perturbed(structure.augment(step), **options)
    size = 100.0 * (1.0 + float(np.max(np.abs(listing.scores))))
    assert float(further) >= float(value) + inner(step, gradient) - 1e-9 * size
    finite = mapped(lambda x: np.where(x > -np.inf, x, 0.0), structure.scores)
    if noise == "multiplicative":  # homogeneous: F(s) = <gradient, s>
        close(value, inner(finite, gradient), scale=size)
        return
    random = np.random.default_rng(seed)
    each = [mapped(lambda x: 0.3 * random.standard_normal(x.shape), structure.scores) for _ in range(4)]
    close(value, np.mean([float(structure.augment(z).best()[0]) for z in each]), scale=size)


def test_multiplicative_noise_leaves_a_cut_a_cut(backend):
    """Where equal labels score at least 0 and different ones at most 0."""
    pairs = np.array([[[1.0, -0.5], [-0.2, 2.0]]] * 3)
    cut = backend.Cut([[0.3, 0.0], [0.0, 1.0], [0.1, 0.0]], pairs, [[0, 1], [1, 2], [2, 0]])
    value, gradient = backend.perturbed(cut, "multiplicative", samples=20, rng=1)
    close(value, inner(cut.scores, gradient))


@all_but("Boxes")
@given(data=st.data(), mu=st.sampled_from([1e-3, 0.3, 2.0]), seed=st.integers(0, 99))
def test_sparsemap_smooths_the_maximum(backend, specimen, data, mu, seed):
    """Between the max and the max + mu c/2, convex, with the marginals as gradient; a value at other scores is at least
    the score that the marginals have there.
    """
    smoothing = reference.SparseMAP("variables" if specimen.kind == "Cut" else "all")
    structure, listing, _ = drawn(data, specimen, backend)
    size = 1.0 + float(np.max(np.abs(listing.scores))) + mu
    value, gradient = structure.smooth_max(smoothing, mu)
    best, width = float(np.max(listing.scores)), smoothing.width_of(structure)
    tolerance = 1e-9 * size * max(1.0, size / mu)
    assert best - tolerance <= float(value) <= best + mu * width + tolerance
    step = normal(structure, np.random.default_rng(seed))
    other = structure.augment(step)
    further, _ = other.smooth_max(smoothing, mu)
    assert float(further) >= float(value) + inner(step, gradient) - tolerance
    finite = mapped(lambda x: np.where(x > -np.inf, x, 0.0), other.scores)
    assert float(further) >= inner(finite, gradient) - tolerance
    assert structure.smooth_max(smoothing, 0.0)[0] == structure.best()[0]


@pytest.mark.parametrize("kind", ["alignments", "sequences", "trees"])
def test_sparsemap_trains_with_a_certificate(backend, kind):
    """Smoothed hinges of matchings, chains and trees in batches: gradients by differences; the optimum of L-BFGS is
    within mu c/2 of that of the hinge itself, whose lower bound is the certificate's.
    """
    problem = MODELS[kind].training()
    model = problem.make(backend)
    data, mu, lam = model.pack(problem.X, problem.Y), 0.05, 0.1
    smooth = backend.StructuralHinge(model, data, smoothing=backend.SparseMAP())
    random = np.random.default_rng(0)
    w, v = random.normal(size=(2, model.size))
    _, gradient = smooth.value_and_gradient(w, None, mu)
    up, down = (smooth.value_and_gradient(w + sign * 1e-6 * v, None, mu)[0] for sign in (1, -1))
    assert (up - down) / 2e-6 == pytest.approx(gradient @ v, rel=1e-5, abs=1e-7)
    result = backend.lbfgs(smooth, lam=lam, mu=mu, tol=1e-6)
    hard = backend.bcfw(backend.StructuralHinge(model, data), lam=lam, epochs=300, tol=1e-3, rng=0)
    low = hard.fun - hard.certificate
    assert low - 1e-9 <= result.fun <= hard.fun + mu * smooth.width() + 1e-6 * hard.fun
    answer = smooth.linearize(result.x, None, mu)
    dual = answer.task_loss - answer.gradient @ answer.gradient / (2 * lam)  # of a mean of outputs: below the hinge's
    assert dual <= hard.fun + 1e-9 and result.fun - dual <= mu * smooth.width() + 1e-4


@all_but()
@given(data=st.data(), shift=st.integers(0, 2**20))
def test_spo_plus_bounds_the_regret_of_every_best_output(backend, specimen, data, shift):
    """By enumeration: its value, the regret of the worst of the outputs that are best; 0 at the true scores."""
    predicted, listing, rows = drawn(data, specimen, backend)
    random = np.random.default_rng(shift)
    true = predicted.augment(normal(predicted, random))
    p, s = own_scores(predicted, listing), own_scores(true, listing)
    size = 1.0 + np.max(np.abs(rows @ p)) + np.max(np.abs(rows @ s))
    value, gradient = backend.spo_plus(predicted, true)
    best, mine = np.max(rows @ s), rows @ p
    ties = np.flatnonzero(rows @ s >= best - 1e-12 * size)
    expected = [np.max(rows @ (2 * p - s)) - rows[z] @ (2 * p - s) for z in ties]  # z: the best that the panel finds
    assert np.min(np.abs(expected - value)) <= 1e-9 * size
    lost = best - rows @ s
    assert value >= np.max(lost[mine >= mine.max() - 1e-12 * size]) - 1e-9 * size
    regret = float(backend.regret(predicted, true))
    assert np.min(np.abs(lost[mine >= mine.max() - 1e-12 * size] - regret)) <= 1e-9 * size and regret >= -1e-12 * size
    assert abs(float(backend.spo_plus(true, true)[0])) <= 1e-9 * size
    step = normal(predicted, random)
    further, _ = backend.spo_plus(predicted.augment(step), true)
    assert float(further) >= float(value) + inner(step, gradient) - 1e-9 * size  # a subgradient


def test_normal_noise_on_two_outputs():
    """The probability of the first is that of a normal difference above a number."""
    gap, samples = 2.0, 2500  # enough to tell other noise: 1/(1 + e^-2), of Gumbel's, is seven deviations away
    _, gradient = reference.perturbed(reference.Table([gap, 0.0]), samples=samples, rng=0)
    expected = 0.5 * (1.0 + math.erf(gap / 2.0))  # P(gap + Z_1 > Z_2), a difference of variance 2
    assert abs(gradient.values[0] - expected) < 4 * math.sqrt(expected * (1 - expected) / samples)


def test_refused_arguments_of_losses_over_best(backend):
    check_refusals("wrong_decisions.txt", {"b": backend, "np": np, "reference": reference})


# the Jacobian of SparseMAP ------------------------------------------------------------------------------------------


@all_but("Cut")
@given(data=st.data(), mu=SCALES, seed=st.integers(0, 99))
def test_the_jacobian_is_the_projector_of_the_face(backend, specimen, data, mu, seed):
    """By enumeration: onto the differences of the outputs that are best at s/mu - p, where scores tie, too."""
    structure, listing, rows = drawn(data, specimen, backend)
    structure, s = Vectors(structure).space, own_scores(structure, listing) / mu
    marginals = backend.sparsemap(structure, mu, tol=1e-14).marginals
    p = flat(marginals)
    along = normal(structure, np.random.default_rng(seed), 9)
    slack = np.max(rows @ (s - p)) - rows @ (s - p)
    scale = max(1.0, np.linalg.norm(s))
    assume(not np.any((slack > 1e-9 * scale) & (slack < 1e-4 * scale)))  # ties that are none
    face = rows[slack <= 1e-9 * scale]
    _, sizes, directions = np.linalg.svd(face - face.mean(axis=0), full_matrices=False)
    basis = directions[sizes > 1e-9]
    expected = basis.T @ (basis @ flat(along)) / mu
    found = backend.sparsemap_product(structure, marginals, along, mu)
    np.testing.assert_allclose(flat(found), expected, rtol=0, atol=1e-7 / mu)


@all_but("Cut")
@given(data=st.data(), mu=st.sampled_from([0.3, 1.0, 20.0]), seed=st.integers(0, 99))
def test_the_jacobian_is_that_of_differences(backend, specimen, data, mu, seed):
    """Of the marginals at scores that do not tie; there it is its own transpose."""
    structure, rng = Vectors(drawn(data, specimen, backend)[0]).space, np.random.default_rng(seed)
    apart = structure.augment(normal(structure, rng, 9))
    v, w = normal(apart, rng), normal(apart, rng)

    def marginals(step):
        there = apart.augment(mapped(lambda x: step * x, v))
        return backend.sparsemap(there, mu, tol=1e-14).marginals

    h, here = 1e-6 * mu, marginals(0.0)
    one, two = (flat(marginals(h)) - flat(here)) / h, (flat(here) - flat(marginals(-h))) / h
    assume(np.max(np.abs(one - two), initial=0.0) < 1e-4 / mu)  # no face ends between
    product = flat(backend.sparsemap_product(apart, here, v, mu))
    np.testing.assert_allclose(product, (one + two) / 2, rtol=0, atol=1e-4 / mu)
    other = flat(backend.sparsemap_product(apart, here, w, mu))
    assert product @ flat(w) == pytest.approx(flat(v) @ other, abs=1e-9 / mu)


@given(seed=st.integers(0, 999), mu=SCALES)
def test_subsets_are_projected_onto_the_cube(backend, seed, mu):
    """A structure of one's own, with best and parts alone: each score over mu is cut to 0..1, where at 0 and at 1 the
    Jacobian is that between them; the part that all outputs have stays 1.
    """
    s = np.random.default_rng(seed).normal(size=6)
    subset = Subset(np.append(np.round(s, 1), 0.5))
    answer = backend.sparsemap(subset, mu, tol=1e-14)
    expected = np.clip(np.round(s, 1) / mu, 0.0, 1.0)
    np.testing.assert_allclose(answer.marginals, np.append(expected, 1.0), atol=1e-9)
    product = backend.sparsemap_product(subset, answer.marginals, np.append(s, 1.0), mu)
    inside = expected == np.round(s, 1) / mu
    np.testing.assert_allclose(product, np.append(np.where(inside, s / mu, 0.0), 0.0), atol=1e-9 / mu)
