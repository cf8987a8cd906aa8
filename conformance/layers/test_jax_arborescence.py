"""Sums over dependency trees in JAX: enumeration, the other panels, derivatives, in both precisions."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import accelerated
import reference

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402

from diptych.layers.jax import arborescence as layers  # noqa: E402

pytestmark = pytest.mark.beyond("compiles")

B, N = 8, 4  # every test has batches of this shape, which is compiled once
ROWS = ["1111", "1111", "1110", "0101", "0010", "0000", "1111", "1111"]
MASK = np.array([list(row) for row in ROWS]) == "1"
CASES = [(dtype, single_root) for dtype in (np.float64, np.float32) for single_root in (False, True)]


@cache
def answers(single_root: bool) -> Any:
    """Log-partitions and marginals as a compiled function of scores and a mask."""
    asked = layers.log_partition, layers.marginals
    return jax.jit(lambda x, mask: [ask(x, mask=mask, single_root=single_root, mu=0.7) for ask in asked])


@cache
def trees(n: int, single_root: bool) -> np.ndarray:
    """The heads of all trees over n tokens, one row each."""
    found = list(reference.Arborescence(np.zeros((n, n + 1)), single_root).enumerate())
    return np.array(found, np.int64).reshape(len(found), n)


def drawn(n: int = N, scale: float = 1.0, forbidden: float = 0.0, seed: int = 0) -> np.ndarray:
    """Scores (B, n, n + 1) that float32 has; the share of arcs that are forbidden."""
    rng = np.random.default_rng(seed)
    values = (scale * rng.normal(size=(B, n, n + 1))).astype(np.float32).astype(np.float64)
    return np.where(rng.random(values.shape) < forbidden, -np.inf, values)


@pytest.mark.parametrize(("dtype", "single_root"), CASES)
@pytest.mark.parametrize("forbidden", [0.0, 0.3, 1.0])
def test_sums_are_those_over_all_trees_of_the_kept_tokens(dtype, single_root, forbidden):
    for scale in (1.0, 30.0, 100.0):
        values, tol = drawn(scale=scale, forbidden=forbidden), 100 * scale * np.finfo(dtype).eps
        values[6, 0, 1:] = -np.inf  # the first token has no head but the root
        value, shares = answers(single_root)(jnp.asarray(values, dtype), jnp.asarray(MASK))
        assert value.dtype == shares.dtype == dtype
        for b, mask in enumerate(MASK):
            here = np.flatnonzero(mask)
            heads, expected = trees(len(here), single_root), np.zeros((N, N + 1))
            heads = np.r_[0, here + 1][heads]
            scores = values[b, here, heads].sum(-1) / 0.7
            if np.all(scores == -np.inf):  # none of no trees, too
                assert value[b] == -np.inf and not np.any(shares[b])
                continue
            log_z = np.logaddexp.reduce(scores)
            for y, score in zip(heads, scores, strict=True):
                expected[here, y] += np.exp(score - log_z)
            np.testing.assert_allclose(value[b], 0.7 * log_z, atol=tol)
            np.testing.assert_allclose(shares[b], expected, atol=tol)


@pytest.mark.parametrize(("dtype", "single_root"), CASES)
def test_long_sentences_are_those_of_the_kernels(dtype, single_root):
    eps = np.finfo(dtype).eps
    for scale in (1.0, 30.0, 100.0):
        values = drawn(25, scale, forbidden=0.3)
        values[:, :, 0] = np.where(values[:, :, 0] > -np.inf, values[:, :, 0], 0.0)
        value, shares = answers(single_root)(jnp.asarray(values, dtype), jnp.ones((B, 25), bool))
        for b in range(B):
            z, expected = accelerated.Arborescence(values[b], single_root).expectation(0.7)
            np.testing.assert_allclose(value[b], z, rtol=10 * eps, atol=100 * scale * eps)
            np.testing.assert_allclose(shares[b], expected.values, atol=100 * scale * eps)


def test_losses_and_scores_are_those_of_each_sentence():
    values, lengths = drawn(), np.array([4, 3, 2, 1, 0, 4, 4, 4])
    heads = np.array([trees(4, True)[7]] * B)
    heads[1:5] = [[2, 0, 2, 9], [0, 1, -5, 9], [0, 7, 7, 7], [-1, -1, -1, -1]]
    heads[6, 1], heads[7, 0] = 5, 1  # no such head, and the token itself
    given, where = (jnp.asarray(values), jnp.asarray(heads)), {"lengths": jnp.asarray(lengths)}
    gold, loss = layers.score(*given, **where), layers.crf_loss(*given, single_root=True, **where)
    for b, n in enumerate(lengths[:6]):
        tree = reference.Arborescence(values[b, :n, : n + 1], True)
        np.testing.assert_allclose(gold[b], tree.score(heads[b, :n]), rtol=1e-12)
        np.testing.assert_allclose(loss[b], tree.expectation()[0] - tree.score(heads[b, :n]), atol=1e-12)
    assert np.all(np.isnan(gold[6:])) and np.all(np.isnan(loss[6:]))
    assert layers.log_partition(jnp.zeros((2, 0, 1))).tolist() == [0.0, 0.0]
    assert layers.log_partition(jnp.zeros((0, 2, 3))).shape == (0,)
    assert layers.log_partition(jnp.full((1, 2), 7.0, jnp.bfloat16)).dtype == jnp.float32


@pytest.mark.parametrize("single_root", [False, True])
def test_derivatives_are_those_of_differences_and_vmap_is_a_loop(single_root):
    values, mask, h = jnp.asarray(drawn(scale=3.0, forbidden=0.2)), jnp.asarray(MASK), 1e-5
    direction = jnp.asarray(np.random.default_rng(1).normal(size=values.shape))

    def first(x: Any) -> Any:
        return layers.marginals(x, mask=mask, single_root=single_root)

    slope, again = jax.jit(lambda x: jax.jvp(first, (x,), (direction,)))(values)
    moved = (jax.jit(first)(values + h * direction) - jax.jit(first)(values - h * direction)) / (2 * h)
    np.testing.assert_allclose(again, moved, atol=1e-8)
    each = jax.jit(jax.vmap(lambda x, m: layers.marginals(x, mask=m, single_root=single_root)))(values, mask)
    np.testing.assert_allclose(each, slope, atol=1e-12)


def test_scores_that_are_no_numbers_are_not_hidden():
    values = drawn()
    values[0, 1, 1], values[1, 0, 3], values[5, 0, 0], values[2, 1, 2] = np.nan, np.inf, np.nan, np.nan
    value, shares = answers(False)(jnp.asarray(values), jnp.asarray(MASK))
    assert np.isnan(value).tolist() == [True, True, *[False] * 6]  # of no token, or of a token itself: ignored
    assert np.all(np.isnan(np.asarray(shares[:2])).any((1, 2))) and np.all(np.isfinite(shares[2:]))


WRONG = {
    r"values: expected shape \(..., n, n \+ 1\), got \(8, 5, 4\)": lambda x, y: layers.log_partition(x.mT),
    "values: expected floating-point scores, got int64": lambda x, y: layers.marginals(y),
    "mask and lengths: expected one of them, got both": lambda x, y: layers.score(x, y, mask=y > 0, lengths=y[:, 0]),
    r"lengths: expected integers \(8,\), got": lambda x, y: layers.log_partition(x, lengths=y),
    "mask: expected booleans, got int64": lambda x, y: layers.log_partition(x, mask=y),
    r"heads: expected shape \(8, 4\), got \(8, 3\)": lambda x, y: layers.score(x, y[:, 1:]),
    "heads: expected integers, got float64": lambda x, y: layers.crf_loss(x, y * 1.0),
    "mu: expected a finite number > 0": lambda x, y: layers.log_partition(x, mu=0.0),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_named(message):
    with pytest.raises((ValueError, TypeError), match=message):
        WRONG[message](jnp.asarray(drawn()), jnp.zeros((B, N), int))
