"""Chains in JAX: values of the reference's chains of the kept positions, under its transformations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conformance.layers.chains import CASES, Chains, drawn

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402

import diptych.layers.jax as layers  # noqa: E402

pytestmark = pytest.mark.beyond("compiles")

SHARED = {name: case for name, case in CASES.items() if "edges" not in case and name != "no chain"}


def arguments(chains: Chains) -> tuple[Any, Any, dict[str, Any]]:
    mask = None if chains.mask is None else jnp.asarray(chains.mask)
    return jnp.asarray(chains.unary), jnp.asarray(chains.pairwise), {
        "starts": jnp.asarray(chains.starts), "ends": jnp.asarray(chains.ends), "mask": mask,
    }  # fmt: skip


@pytest.mark.parametrize("case", SHARED)
def test_answers_are_those_of_the_chains_of_the_kept_positions(case):
    chains = drawn(**SHARED[case])
    unary, pairwise, where = arguments(chains)
    y = jnp.asarray(chains.labels)
    log_z = jax.jit(lambda u: layers.log_partition(u, pairwise, mu=0.7, **where))(unary)
    nodes, edges = layers.marginals(unary, pairwise, mu=0.7, **where)
    best, k_best = layers.best(unary, pairwise, **where), layers.topk(unary, pairwise, 3, **where)
    loss, hinge = layers.crf_loss(unary, pairwise, y, **where), layers.hinge_loss(unary, pairwise, y, **where)
    total = np.zeros(pairwise.shape)
    for b, (chain, at, labels) in enumerate(chains.rows()):
        value, marginals = chain.expectation(0.7)
        np.testing.assert_allclose(log_z[b], value, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(nodes[b, at], marginals.unary, atol=1e-8)
        total += marginals.pairwise.sum(axis=0)
        found = np.asarray(best[b])
        np.testing.assert_allclose(chain.score(found[at]), chain.best()[0], rtol=1e-9, atol=1e-9)
        assert np.all(np.delete(found, at) == -1)
        np.testing.assert_allclose(k_best.scores[b], chain.topk(3).scores, rtol=1e-9, atol=1e-9)
        z, gold = chain.expectation()[0], chain.score(labels)
        np.testing.assert_allclose(loss[b], z - gold, rtol=1e-9, atol=1e-9 * max(1.0, abs(float(z))))
        wrong = np.arange(chain.scores.unary.shape[-1]) != labels[:, None]
        augmented = type(chain)(chain.scores.unary + wrong, chain.scores.pairwise).best()[0]
        np.testing.assert_allclose(hinge[b], augmented - gold, rtol=1e-9, atol=1e-9 * max(1.0, abs(float(gold))))
    np.testing.assert_allclose(edges, total, atol=1e-8)


def test_derivatives_are_those_of_differences():
    chains = drawn(mask=True)
    unary, pairwise, where = arguments(chains)
    direction, h = jnp.asarray(np.random.default_rng(1).normal(size=unary.shape)), 1e-5

    def loss(u: Any) -> Any:
        return jnp.sum(layers.crf_loss(u, pairwise, jnp.asarray(chains.labels), **where) * jnp.arange(1.0, 4.0))

    slope = (loss(unary + h * direction) - loss(unary - h * direction)) / (2 * h)
    np.testing.assert_allclose(jnp.sum(jax.grad(loss)(unary) * direction), slope, rtol=1e-7)
    np.testing.assert_allclose(jax.jvp(loss, (unary,), (direction,))[1], slope, rtol=1e-7)
    bend = (jax.grad(loss)(unary + h * direction) - jax.grad(loss)(unary - h * direction)) / (2 * h)
    np.testing.assert_allclose(jnp.tensordot(jax.hessian(loss)(unary), direction, 3), bend, atol=1e-7)


def test_vmap_is_a_loop():
    unary, pairwise, where = arguments(drawn(mask=True))
    tables, mask = jnp.stack([pairwise, -2 * pairwise]), where["mask"]
    for ask in (layers.log_partition, layers.best, lambda u, A, mask: layers.topk(u, A, 2, mask=mask).labels):
        over_tables = jax.vmap(lambda A: ask(unary, A, mask=mask))(tables)  # noqa: B023
        np.testing.assert_allclose(over_tables, np.stack([ask(unary, A, mask=mask) for A in tables]))
        over_rows = jax.vmap(lambda u, m: ask(u, pairwise, mask=m))(unary, mask)  # noqa: B023
        np.testing.assert_allclose(over_rows, ask(unary, pairwise, mask=mask))


WRONG = {
    r"unary: expected shape \(..., n, L\)": lambda u, A, y: layers.log_partition(u[0, 0], A),
    "unary: expected floating-point scores": lambda u, A, y: layers.log_partition(y[..., None], A),
    r"pairwise: expected shape \(3, 3\), got \(2, 3\)": lambda u, A, y: layers.best(u, A[:2]),
    "mask: expected booleans, got int64": lambda u, A, y: layers.best(u, A, mask=y),
    r"mask: expected shape \(3, 4\), got \(3, 3\)": lambda u, A, y: layers.best(u, A, mask=y[:, 1:] > 0),
    "mask and lengths: expected one of them, got both": lambda u, A, y: layers.best(u, A, mask=y > 0, lengths=y[:, 0]),
    r"starts: expected shape \(3,\), got \(2,\)": lambda u, A, y: layers.best(u, A, starts=u[0, 0, :2]),
    r"labels: expected shape \(3, 4\), got \(3, 3\)": lambda u, A, y: layers.crf_loss(u, A, y[:, 1:]),
    r"labels: expected 0..2, got 9 at \(0, 0\)": lambda u, A, y: jax.grad(
        lambda x: layers.crf_loss(x, A, y.at[0, 0].set(9)).sum()
    )(u),
    "labels: expected integers, got float64": lambda u, A, y: layers.crf_loss(u, A, y * 1.0),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_named(message):
    unary, pairwise, _ = arguments(drawn())
    with pytest.raises((ValueError, TypeError), match=message):
        WRONG[message](unary, pairwise, jnp.asarray(drawn().labels))
