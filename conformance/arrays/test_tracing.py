"""JAX traces the reference: gradients, compiled functions and batches of functions are those of the plain calls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accelerated
import reference
from conformance.specimens.regularizers import KINDS, instances, points
from conformance.tolerances import close
from reference.arrays import gather_sum, scatter_sum

jax = pytest.importorskip("jax")
jnp = jax.numpy

PAIRS = [[0.3, -1.0, 0.4], [0.0, 1.2, -np.inf], [0.7, -0.2, 0.1]]
STRUCTURES = {
    "chain": lambda panel, x: panel.Chain(x, PAIRS),
    "padded chains": lambda panel, x: panel.Chain(x, PAIRS, [2, 4]),
    "segments": lambda panel, x: panel.Segments(x, PAIRS),
    "tree": lambda panel, x: panel.Tree(x, PAIRS, [-1, 0, 0, 1], [3, 2, 3, 3]),
    "list": lambda panel, x: panel.Table(x),
}
QUESTIONS = {
    "best": lambda space: space.best(),
    "topk": lambda space: space.topk(4),
    "expectation": lambda space: space.expectation(0.7),
    "sample": lambda space: space.sample(5, 0.7, rng=1),
    "max_marginals": lambda space: space.max_marginals(),
    "entropy": lambda space: space.smooth_max(reference.smoothings.Entropy(), 0.5),
    "top-3": lambda space: space.smooth_max(reference.smoothings.TopK(3), 0.5),
}
every_structure = pytest.mark.parametrize("structure", STRUCTURES)


@pytest.fixture(autouse=True)
def float64():
    jax.config.update("jax_enable_x64", True)


@pytest.fixture
def x(structure, rng):
    """Scores of two examples with a forbidden label."""
    scores = rng.normal(size=(2, 4, 3))
    scores[0, 1, 2] = -np.inf
    return jnp.asarray(scores)


def agree(found, expected):
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert ours.dtype == theirs.dtype
        close(ours, theirs)


@every_structure
def test_the_gradient_of_the_log_partition_is_the_marginals(structure, x):
    """With respect to a finite score; JAX differentiates the forward pass, the marginals are computed backwards."""
    make = STRUCTURES[structure]
    found = jax.grad(lambda x: jnp.sum(make(reference, x).log_partition(0.7)))(x)
    close(found, make(reference, x).marginals(0.7)[0])
    if structure == "chain":
        of_pairs = jax.grad(lambda pairs: jnp.sum(reference.Chain(x, pairs).log_partition(0.7)))(jnp.asarray(PAIRS))
        close(of_pairs, reference.Chain(x, jnp.asarray(PAIRS)).marginals(0.7).pairwise)


@every_structure
@pytest.mark.parametrize("question", QUESTIONS)
def test_compiled_and_batched_calls_are_the_plain_ones(structure, question, x):
    def answer(x):
        return QUESTIONS[question](STRUCTURES[structure](reference, x))

    plain = answer(x)
    agree(jax.jit(answer)(x), plain)
    mapped = jax.vmap(answer)(jnp.stack([x, 2.0 * x]))
    agree(jax.tree.map(lambda a: a[0], mapped), plain)
    agree(jax.tree.map(lambda a: a[1], mapped), answer(2.0 * x))
    if structure == "padded chains":
        of_lengths = lambda lengths: QUESTIONS[question](reference.Chain(x, PAIRS, lengths))  # noqa: E731
        agree(jax.jit(of_lengths)(jnp.asarray([2, 4])), plain)


def test_shapes_are_checked_and_values_are_not():
    """What a tracer holds is not known when it is checked: scores without an output have the value -inf, and nobody
    says so."""
    value = jax.jit(lambda x: reference.Chain(x, jnp.zeros((2, 2))).best()[0])
    assert value(jnp.full((3, 2), -jnp.inf)) == -jnp.inf
    assert np.isnan(value(jnp.full((3, 2), jnp.nan)))
    assert np.all(jax.jit(lambda y: reference.Table(jnp.zeros(2)).parts(y).values)(jnp.asarray(5)) == 0)
    with pytest.raises(ValueError, match=r"pairwise: expected shape \(4, 4\) or \(2, 4, 4\), got \(2, 2\)"):
        value(jnp.zeros((3, 4)))
    with pytest.raises(TypeError, match="arrays of several namespaces: unary of jax, pairwise of numpy"):
        jax.jit(lambda x: reference.Chain(x, np.zeros((2, 2))).best()[0])(jnp.zeros((3, 2)))
    with pytest.raises(TypeError, match=r"unary: expected float32 or float64 .*, got float16"):
        value(jnp.zeros((3, 2), dtype=jnp.float16))


def test_what_runs_on_the_host_says_so():
    """Loops over values cannot be traced: JAX's own error, and the fast panel's."""
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(lambda x: reference.Arborescence(x).best()[0])(jnp.zeros((3, 4)))
    with pytest.raises(TypeError, match="unary: kernels need numbers, got a tracer of JAX"):
        jax.jit(lambda x: accelerated.Chain(x, jnp.zeros((2, 2))).best()[0])(jnp.zeros((3, 2)))


def test_sparse_products_are_differentiated(rng):
    """<gather_sum(W), G> is linear in W, with the gradient scatter_sum(G)."""
    dense = np.where(rng.random((5, 4)) < 0.5, rng.normal(size=(5, 4)), 0.0)
    W, G = jnp.asarray(rng.normal(size=(4, 3))), jnp.asarray(rng.normal(size=(5, 3)))
    rows = reference.Rows.of(dense, like=W)
    found = jax.jit(jax.grad(lambda W: jnp.sum(gather_sum(rows, W) * G)))(W)
    close(found, dense.T @ np.asarray(G))
    close(jax.jit(lambda G: scatter_sum(rows, G))(G), dense.T @ np.asarray(G))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=2)  # each is compiled
@given(data=st.data())
def test_proxes_are_compiled_and_batched(kind, data):
    instance = data.draw(instances(kind))
    phi, x = instance.make(reference), jnp.asarray(data.draw(points(instance.p, 2)))
    plain = phi.prox(x, 0.5)
    close(jax.jit(lambda x: phi.prox(x, 0.5))(x), plain)
    close(jax.vmap(lambda x: phi.prox(x, 0.5))(x), plain)
    close(jax.jit(phi.value)(x), phi.value(x))
