"""Chains with masks, scores of ends, weights of examples, and products with their Hessian; scaled forward-backward."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from conformance import laws
from conformance.layers.chains import CASES, drawn
from conformance.tolerances import RELATIVE, close
from reference.arrays import Place
from reference.structures import chain_scaled, chain_sum
from reference.structures.chain import ChainScores

MASKED = {name: case for name, case in CASES.items() if case.get("mask")}


def batch_of(backend, chains, space=None):
    put = (lambda x: x) if space is None else space.put
    given = [put(x) for x in (chains.unary, chains.pairwise, chains.starts, chains.ends)]
    return backend.Chain(given[0], given[1], mask=chains.mask, starts=given[2], ends=given[3])


@pytest.mark.parametrize("case", CASES)
def test_a_masked_chain_is_that_of_its_kept_positions(backend, space, case):
    """Every answer, at the positions it belongs to; scores of edges are those of their later position."""
    chains = drawn(**CASES[case])
    batch, mu = batch_of(backend, chains, space), 0.7
    (value, y), (log_z, parts), most = batch.best(), batch.expectation(mu), batch.max_marginals()
    k_best, drawn_ys = batch.topk(3), batch.sample(2, mu, 0)
    value, y, log_z, labels, ys = (space.get(x) for x in (value, y, log_z, k_best.labels, drawn_ys))
    nodes, edges, most_nodes, most_edges = (space.get(x) for x in (*parts[:2], *most[:2]))
    gold, total = space.get(batch.score(chains.labels)), np.zeros(edges.shape)
    for b, (chain, at, own) in enumerate(chains.rows()):
        off = np.setdiff1d(np.arange(y.shape[1]), at)
        z, marginals = chain.expectation(mu)
        scale = max(1.0, float(np.abs(chain.best()[0])))
        close(value[b], chain.best()[0], space.dtype, scale)
        close(log_z[b], z, space.dtype, scale)
        close(gold[b], chain.score(own), space.dtype, scale)
        close(chain.score(y[b, at]), chain.best()[0], space.dtype, scale)
        close(nodes[b, at], marginals.unary, space.dtype, 100.0 * scale)
        close(most_nodes[b, at], chain.max_marginals().unary, space.dtype, scale)
        close(most_edges[b, at[1:] - 1], chain.max_marginals().pairwise, space.dtype, scale)
        assert np.all(nodes[b, off] == 0) and np.all(most_nodes[b, off] == -np.inf)
        assert np.all(most_edges[b, np.setdiff1d(np.arange(len(most_edges[b])), at[1:] - 1)] == -np.inf)
        assert np.all(y[b, off] == -1) and np.all(labels[b][:, off] == -1) and np.all(ys[b][:, off] == -1)
        if total.ndim == 2:
            total += marginals.pairwise.sum(axis=0)
        else:
            total[b, at[1:] - 1] = marginals.pairwise
    close(edges, total, space.dtype, 100.0 * CASES[case].get("scale", 1.0))


@pytest.mark.parametrize("case", MASKED)
def test_a_masked_chain_obeys_the_laws_of_its_own_outputs(backend, case):
    chains = drawn(**MASKED[case])
    for b in range(3):
        edges = chains.pairwise if chains.pairwise.ndim == 2 else chains.pairwise[b]
        one = backend.Chain(chains.unary[b], edges, mask=chains.mask[b], starts=chains.starts, ends=chains.ends)
        laws.check_structure(one)


@pytest.mark.parametrize("case", CASES)
def test_weights_multiply_the_marginals_of_their_chain(backend, case):
    """Those of a shared table too, which are summed over chains."""
    chains = drawn(**CASES[case])
    weights = np.array([2.0, 0.0, -0.5])[: len(chains.unary)]
    value, parts = batch_of(backend, chains).expectation(0.7, weights)
    total = np.zeros(parts.pairwise.shape)
    for b, (chain, at, _) in enumerate(chains.rows()):
        z, marginals = chain.expectation(0.7)
        close(value[b], z)
        close(parts.unary[b, at], weights[b] * marginals.unary, scale=1e3)
        if total.ndim == 2:
            total += weights[b] * marginals.pairwise.sum(axis=0)
        else:
            total[b, at[1:] - 1] = weights[b] * marginals.pairwise
    close(parts.pairwise, total, scale=1e5)


@pytest.mark.parametrize("case", [name for name in CASES if name != "huge"])
def test_hessian_products_are_differences_of_marginals(backend, case):
    chains, h = drawn(**CASES[case]), 1e-5
    rng, weights = np.random.default_rng(1), np.array([2.0, 1.0, -0.5])[: len(chains.unary)]
    along = ChainScores(rng.normal(size=chains.unary.shape), rng.normal(size=chains.pairwise.shape))
    inner, tangents = batch_of(backend, chains).hessian_product(along, 0.7, weights)
    moved = [chains._replace(unary=chains.unary + s * along.unary, pairwise=chains.pairwise + s * along.pairwise)
             for s in (h, -h)]  # fmt: skip
    (up, more), (down, less) = (batch_of(reference, each).expectation(0.7, weights) for each in moved)
    np.testing.assert_allclose(inner, (up - down) / (2 * h), atol=1e-7)
    for found, a, b in zip(tangents[:2], more[:2], less[:2], strict=True):
        np.testing.assert_allclose(found, (a - b) / (2 * h), atol=1e-7)


@pytest.mark.parametrize("case", CASES)
def test_scaled_sums_are_those_in_logs_where_they_are_certified(space, case):
    """Ordinary scores are certified; others are computed in logs."""
    chains = drawn(**CASES[case] | {"mask": False})
    lengths = np.array([chains.labels.shape[1], 0, 1])[: len(chains.unary)].clip(max=chains.labels.shape[1])
    weights = space.put(np.array([2.0, 1.0, -0.5])[: len(chains.unary)])
    unary = space.put(chains.unary)
    scores = ChainScores(unary, space.put(chains.pairwise), Place.of(unary).integers(lengths))
    if chains.labels.shape[1]:
        certified = space.get(chain_scaled.forward(scores, 0.7).certified)
        assert np.all(certified) == (case != "huge") or case in ("one position", "no chain", "one label")
    value, parts = chain_scaled.forward_backward(scores, 0.7, weights)
    expected, marginals = chain_sum.forward_backward(scores, 0.7, weights)
    close(space.get(value), space.get(expected), space.dtype)
    for a, b in zip(parts[:2], marginals[:2], strict=True):
        np.testing.assert_allclose(space.get(a), space.get(b), atol=30 * RELATIVE[space.dtype])


@pytest.mark.parametrize("spread", [140.0, 160.0, 400.0, 1e4])
def test_certified_sums_lose_no_path(spread):
    """A path that only transitions far below the largest lead to, and that wins by the scores of labels."""
    rng = np.random.default_rng(0)
    for again in (-spread, -2 * spread, -np.inf):  # the score of staying where the scores of labels are highest
        pairwise = np.array([[0.0, -spread], [-spread, again]])
        unary = rng.normal(size=(6, 2)) + np.array([0.0, 1.5 * spread])
        scores = ChainScores(unary, pairwise)
        scaled = chain_scaled.forward(scores)
        if scaled.certified:
            value, parts = chain_sum.forward_backward(scores)
            close(scaled.value, value)
            for a, b in zip(chain_scaled.backward(scores, scaled)[:2], parts[:2], strict=True):
                np.testing.assert_allclose(a, b, atol=1e-9)
        assert bool(scaled.certified) <= (spread < 150)
        close(chain_scaled.forward_backward(scores)[0], chain_sum.forward_backward(scores)[0])


WRONG = {
    "mask: expected booleans, got int64": {"mask": np.ones((3, 4), np.int64)},
    r"mask: expected shape \(3, 4\), got \(4,\)": {"mask": np.ones(4, bool)},
    r"starts: expected shape \(3,\), got \(2,\)": {"starts": np.zeros(2)},
    "ends: expected finite scores, or -inf for a forbidden part, got nan": {"ends": np.array([0.0, np.nan, 0.0])},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_named(backend, message):
    chains = drawn()
    with pytest.raises((ValueError, TypeError), match=message):
        backend.Chain(chains.unary, chains.pairwise, **WRONG[message])
    batch = backend.Chain(chains.unary, chains.pairwise)
    with pytest.raises(ValueError, match=r"weights: expected shape \(3,\), got \(2,\)"):
        batch.expectation(1.0, np.ones(2))
    with pytest.raises(ValueError, match="weights: expected finite numbers, got nan"):
        batch.expectation(1.0, np.array([1.0, np.nan, 1.0]))
    with pytest.raises(ValueError, match=r"direction.unary: expected finite numbers, got -inf"):
        batch.hessian_product(ChainScores(chains.unary - np.inf, chains.pairwise))
