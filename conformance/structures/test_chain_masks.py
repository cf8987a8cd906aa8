"""Chains with masks, scores of ends, weights of examples, and products with their Hessian; scaled forward-backward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import reference
from conformance import laws
from conformance.layers.minibatches import Minibatch, drawn
from conformance.tolerances import RELATIVE, close
from reference.arrays import Place
from reference.structures import chain_scaled, chain_sum
from reference.structures.chain import ChainScores

CASES: dict[str, dict[str, Any]] = {
    "lengths": {"case": "chains with lengths"},
    "holes": {},
    "a table for each edge": {"case": "chains with holes and a table for each edge"},
    "forbidden": {"forbidden": True},
    "far apart": {"forbidden": True, "floor": -400.0},
    "huge": {"scale": 1e4},
    "one position": {"n": 1},
    "no position": {"n": 0},
    "no chain": {"B": 0},
}


def minibatch(case: str) -> Minibatch:
    """Chains, of which positions off the mask have scores of 0."""
    options = {"case": "chains with holes", "scale": 1.0, "forbidden": False, "B": 3, "n": 4} | CASES[case]
    floor, batch = options.pop("floor", -np.inf), drawn(seed=0, dtype="float64", **options)
    return batch._replace(fields=[np.nan_to_num(x, neginf=floor) for x in batch.fields])


def batch_of(backend, batch, space=None):
    unary, pairwise, starts, ends = batch.fields if space is None else map(space.put, batch.fields)
    return backend.Chain(unary, pairwise, **batch.where, starts=starts, ends=ends)


def rows(batch: Minibatch) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
    """The reference's chain of each row's kept positions, these, and their labels."""
    for b, at in enumerate(batch.kept):
        yield batch_of(reference, batch.row(b)), at, batch.labels[b, at]


@pytest.mark.parametrize("case", CASES)
def test_a_masked_chain_is_that_of_its_kept_positions(backend, space, case):
    """Every answer, at the positions it belongs to; scores of edges are those of their later position. Weights multiply
    the marginals of their chain, and those of a shared table, which are summed over chains.
    """
    chains, mu = minibatch(case), 0.7
    batch, scale = batch_of(backend, chains, space), CASES[case].get("scale", 1.0)
    weights = np.array([2.0, 0.0, -0.5])[: len(chains.kept)]
    (value, y), (log_z, parts), most = batch.best(), batch.expectation(mu, space.put(weights)), batch.max_marginals()
    answers = value, log_z, batch.score(chains.labels), y, batch.topk(3).labels, batch.sample(2, mu, 0)
    value, log_z, gold, y, labels, ys = map(space.get, answers)
    nodes, edges, most_nodes, most_edges = (space.get(x) for x in (*parts[:2], *most[:2]))
    total = np.zeros(edges.shape)
    for b, (chain, at, own) in enumerate(rows(chains)):
        off, pairs = np.setdiff1d(np.arange(y.shape[1]), at), at[1:] - 1
        (z, marginals), highest, best = chain.expectation(mu), chain.max_marginals(), chain.best()[0]
        for found, expected in ((value[b], best), (chain.score(y[b, at]), best), (log_z[b], z),
                                (gold[b], chain.score(own)), (most_nodes[b, at], highest.unary),
                                (most_edges[b, pairs], highest.pairwise)):  # fmt: skip
            close(found, expected, space.dtype, max(1.0, float(np.abs(best))))
        close(nodes[b, at], weights[b] * marginals.unary, space.dtype, 100.0 * scale)
        assert np.all(nodes[b, off] == 0) and np.all(most_nodes[b, off] == -np.inf)
        assert np.all(np.delete(most_edges[b], pairs, axis=0) == -np.inf)
        assert np.all(y[b, off] == -1) and np.all(labels[b][:, off] == -1) and np.all(ys[b][:, off] == -1)
        total[... if total.ndim == 2 else (b, pairs)] += weights[b] * marginals.pairwise
    close(edges, total, space.dtype, 100.0 * scale)


@pytest.mark.parametrize("case", ["holes", "a table for each edge", "forbidden", "huge"])
def test_a_masked_chain_obeys_the_laws_of_its_own_outputs(backend, case):
    chains = minibatch(case)
    (unary, pairwise, starts, ends), mask = chains.fields, chains.where["mask"]
    for b in range(3):
        edges = pairwise if pairwise.ndim == 2 else pairwise[b]
        laws.check_structure(backend.Chain(unary[b], edges, mask=mask[b], starts=starts, ends=ends))


@pytest.mark.parametrize("case", [name for name in CASES if name != "huge"])
def test_hessian_products_are_differences_of_marginals(backend, case):
    chains, h = minibatch(case), 1e-5
    rng, weights = np.random.default_rng(1), np.array([2.0, 1.0, -0.5])[: len(chains.kept)]
    along = ChainScores(*(rng.normal(size=x.shape) for x in chains.fields[:2]))
    inner, tangents = batch_of(backend, chains).hessian_product(along, 0.7, weights)
    moved = [chains._replace(fields=[x + s * v for x, v in zip(chains.fields, (*along[:2], 0, 0), strict=True)])
             for s in (h, -h)]  # fmt: skip
    (up, more), (down, less) = (batch_of(reference, each).expectation(0.7, weights) for each in moved)
    np.testing.assert_allclose(inner, (up - down) / (2 * h), atol=1e-7)
    for found, a, b in zip(tangents[:2], more[:2], less[:2], strict=True):
        np.testing.assert_allclose(found, (a - b) / (2 * h), atol=1e-7)


@pytest.mark.parametrize("case", CASES)
def test_scaled_sums_are_those_in_logs_where_they_are_certified(space, case):
    """Ordinary scores are certified; others are computed in logs."""
    unary, pairwise, *_ = minibatch(case).fields
    lengths, weights = (np.array(x)[: len(unary)] for x in ([4, 0, 1], [2.0, 1.0, -0.5]))
    unary, n, weights = space.put(unary), unary.shape[1], space.put(weights)
    scores = ChainScores(unary, space.put(pairwise), Place.of(unary).integers(lengths.clip(max=n)))
    if n:
        certified = space.get(chain_scaled.forward(scores, 0.7).certified)
        assert np.all(certified) == (case not in ("huge", "far apart")) or case in ("one position", "no chain")
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
