"""Layers of JAX under its transformations, in both precisions, and what they refuse. Values and first derivatives are
held by the laws of layers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import accelerated
from conformance.specimens.pages import check_refusals

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402

from diptych.layers.jax import arborescence, chain  # noqa: E402

pytestmark = pytest.mark.beyond("compiles")

MASK = jnp.asarray([[True, True, True, True], [False, True, False, True], [False] * 4])


def drawn(*sizes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.normal(size=size)) for size in sizes]


def problem(of: Any) -> tuple[Any, tuple[Any, ...]]:
    """Scores of a minibatch, and what follows them."""
    x, pairs, values = drawn((3, 4, 3), (3, 3), (3, 4, 5))
    return (x, (pairs,)) if of is chain else (values.at[0, 1, 1].set(-jnp.inf), ())


KINDS = pytest.mark.parametrize("of", [chain, arborescence], ids=["chain", "arborescence"])


@KINDS
def test_forward_mode_and_hessians_are_those_of_differences(of):
    (x, more), h = problem(of), 1e-5
    weights, along = jnp.arange(1.0, 4.0), jnp.asarray(np.random.default_rng(1).normal(size=x.shape))

    def loss(x: Any) -> Any:
        return jnp.sum(of.log_partition(x, *more, mask=MASK) * weights)

    value, slope = jax.jit(loss), jax.jit(jax.grad(loss))
    forward = jax.jit(lambda x: jax.jvp(loss, (x,), (along,))[1])(x)
    np.testing.assert_allclose(forward, (value(x + h * along) - value(x - h * along)) / (2 * h), rtol=1e-7)
    bend = (slope(x + h * along) - slope(x - h * along)) / (2 * h)
    np.testing.assert_allclose(jnp.tensordot(jax.hessian(loss)(x), along, x.ndim), bend, atol=1e-7)


@KINDS
def test_vmap_is_a_loop(of):
    x, more = problem(of)
    if of is chain:
        asked = of.log_partition, of.best, lambda *given, **where: of.topk(*given, 2, **where).labels
        tables = jnp.stack([more[0], -2 * more[0]])
        for ask in asked:
            over_tables = jax.vmap(lambda A: ask(x, A, mask=MASK))(tables)  # noqa: B023
            np.testing.assert_allclose(over_tables, np.stack([ask(x, A, mask=MASK) for A in tables]))
    else:
        asked = of.log_partition, of.marginals
    for ask in asked:
        over_rows = jax.vmap(lambda row, m: ask(row, *more, mask=m))(x, MASK)  # noqa: B023
        np.testing.assert_allclose(over_rows, ask(x, *more, mask=MASK), atol=1e-12)


@KINDS
def test_empty_and_huge_scores_and_those_of_half_precision(of):
    x, more = problem(of)
    assert of.log_partition(x[:, :0] if of is chain else jnp.zeros((3, 0, 1)), *more).tolist() == [0.0] * 3
    assert of.log_partition(x[:0], *more).shape == (0,)
    half = [each.astype(jnp.bfloat16) for each in (x, *more)]
    found = of.log_partition(*half, mask=MASK)
    assert found.dtype == jnp.float32
    np.testing.assert_array_equal(found, of.log_partition(*(each.astype(jnp.float32) for each in half), mask=MASK))
    huge = [np.asarray(1e4 * each) for each in (x, *more)]  # kernels take arrays on the host
    panel = accelerated.Chain(*huge) if of is chain else accelerated.Arborescence(*huge)
    np.testing.assert_allclose(of.log_partition(*huge), panel.expectation()[0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("single_root", [False, True])
def test_sums_over_long_sentences_are_those_of_the_kernels(dtype, single_root):
    """Also in float32 where scores are large: a determinant would lose all digits."""
    eps, rng = np.finfo(dtype).eps, np.random.default_rng(0)
    asked = (arborescence.log_partition, arborescence.marginals)
    both = jax.jit(lambda x: [ask(x, single_root=single_root, mu=0.7) for ask in asked])
    for scale in (1.0, 30.0, 100.0):
        values = (scale * rng.normal(size=(4, 25, 26))).astype(np.float32).astype(np.float64)
        values[:, :, 1:][rng.random((4, 25, 25)) < 0.3] = -np.inf
        value, shares = both(jnp.asarray(values, dtype))
        z, expected = accelerated.Arborescence(values, single_root).expectation(0.7)
        np.testing.assert_allclose(value, z, rtol=10 * eps, atol=100 * scale * eps)
        np.testing.assert_allclose(shares, expected.values, atol=100 * scale * eps)


@KINDS
def test_scores_that_are_no_numbers_are_not_hidden(of):
    """But where they are left out: off the mask, or a token as its own head."""
    x, more = problem(of)
    own = (0, 3, 1) if of is chain else (0, 1, 2)
    ignored = x.at[1, 0, 0].set(jnp.nan).at[2, 1, 1].set(jnp.inf).at[own].set(0.0 if of is chain else jnp.nan)
    for y, wrong in ((ignored, 0), (ignored.at[0, 0, 2].set(jnp.nan), 1), (ignored.at[0, 0, 2].set(jnp.inf), 1)):
        slopes = jax.grad(lambda x: jnp.sum(of.log_partition(x, *more, mask=MASK)))(y)
        assert np.isnan(of.log_partition(y, *more, mask=MASK)).tolist() == [bool(wrong), False, False]
        assert np.all(np.isfinite(slopes[wrong:]))


def test_wrong_arguments_are_named():
    u, A, arcs = drawn((3, 4, 3), (3, 3), (3, 4, 5))
    names = {"jax": jax, "chain": chain, "arborescence": arborescence, "u": u, "A": A, "arcs": arcs}
    check_refusals("wrong_layers_of_jax.txt", {**names, "y": jnp.zeros((3, 4), int)})
