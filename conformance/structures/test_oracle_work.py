"""Operations and memory of the reference's oracles, counted (Pillutla et al., Propositions 12 and 14): exponents of p,
L and K, none too low."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import reference
from conformance.counting import Counted, CountingNumpy, counted, grows_as
from reference.structures import cut_network, matching

ORACLES = {
    "max": lambda structure, k: structure.best(),
    "topk": lambda structure, k: structure.topk(k),
    "exp": lambda structure, k: structure.expectation(0.7),
}
PARENTS = {"path": lambda p: np.arange(p) - 1, "binary": lambda p: (np.arange(p) - 1) // 2}
every_oracle = pytest.mark.parametrize("oracle", ORACLES)
every_shape = pytest.mark.parametrize("shape", ["chain", *PARENTS])


def drawn(shape, p, L, put=np.asarray):
    """A chain or a tree of p nodes and L labels with one matrix of pairwise scores."""
    rng = np.random.default_rng(p * L)
    unary, pairwise = put(rng.normal(size=(p, L))), put(rng.normal(size=(L, L)))
    return reference.Chain(unary, pairwise) if shape == "chain" else reference.Tree(unary, pairwise, PARENTS[shape](p))


@every_oracle
@every_shape
def test_time_of_the_oracles_of_trees(oracle, shape):
    """p L^2, and for the K best p K L^2 log(K L): the reference sorts what the paper merges in log K."""

    def work(p, L, k):
        structure = drawn(shape, p, L, counted)
        return Counted.during(lambda: ORACLES[oracle](structure, k))

    def order(p, L, k):
        return p * L**2 * (k * np.log2(k * L) if oracle == "topk" else 1)

    grows_as(lambda p: work(p, 8, 4), lambda p: order(p, 8, 4), [8, 16, 32, 64, 128])
    grows_as(lambda L: work(16, L, 4), lambda L: order(16, L, 4), [8, 32, 128])
    if oracle == "topk":
        grows_as(lambda k: work(48, 8, k), lambda k: order(48, 8, k), [2, 8, 32, 64])


@every_oracle
@every_shape
def test_memory_of_the_oracles_of_trees(oracle, shape):
    """p L, and p K L for the K best, where the pairwise scores are shared: what a further node adds to the peak."""

    def peak(p, L, k):
        structure = drawn(shape, p, L)
        tracemalloc.start()
        try:
            ORACLES[oracle](structure, k)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def a_node(L, k):
        return (peak(24, L, k) - peak(8, L, k)) / 16

    peak(4, 4, 4)  # what is imported on first use
    grows_as(lambda p: peak(p, 16, 4), lambda p: p, [128, 512, 1024])
    grows_as(lambda L: a_node(L, 2), lambda L: L, [48, 96, 192], lower=1.0)
    if oracle == "topk":
        grows_as(lambda k: a_node(32, k), lambda k: k, [8, 32, 128])


def ring(p):
    """A supermodular cycle."""
    rng = np.random.default_rng(p)
    unequal, pairwise = -rng.uniform(size=p), np.zeros((p, 2, 2))
    pairwise[:, 0, 1] = pairwise[:, 1, 0] = unequal
    return reference.Cut(rng.normal(size=(p, 2)), pairwise, [(v, (v + 1) % p) for v in range(p)])


def test_minimum_cuts_of_the_oracles(monkeypatch):
    """Proposition 14, case A: one for the max oracle, p + 1 for all max-marginals, O(p K) for the K best."""
    flows, maximise = [0], cut_network.Flow.maximise

    def maximised(self):
        flows[0] += 1
        return maximise(self)

    monkeypatch.setattr(cut_network.Flow, "maximise", maximised)

    def cuts(run):
        flows[0] = 0
        run()
        return flows[0]

    for p in (4, 8, 16):
        assert cuts(ring(p).best) == 1 and cuts(ring(p).node_max_marginals) == p + 1
        for k in (2, 4, 8):
            assert cuts(lambda p=p, k=k: ring(p).topk(k)) <= k + (2 * k - 3) * (p + 1)
    grows_as(lambda p: cuts(lambda: ring(p).topk(4)), lambda p: 4 * p, [4, 8, 16, 32])
    grows_as(lambda k: cuts(lambda: ring(16).topk(k)), lambda k: 16 * k, [4, 8, 16, 32])


def test_operations_of_the_oracles_of_matchings(monkeypatch):
    """Proposition 14, case B: p^3 for the max oracle and for all max-marginals, K p^3 for the K best, at scores that
    make each path long."""
    monkeypatch.setattr(matching, "np", CountingNumpy())

    def hard(p):
        noise = np.random.default_rng(p).uniform(size=(p, p))
        return reference.Matching(1e-3 * noise - np.outer(np.arange(1.0, p + 1), np.arange(1.0, p + 1)))

    for oracle in ("best", "max_marginals"):
        grows_as(lambda p, oracle=oracle: Counted.during(getattr(hard(p), oracle)), lambda p: p**3, [8, 32, 96])
    grows_as(lambda p: Counted.during(lambda: hard(p).topk(3)), lambda p: 3 * p**3, [8, 24, 80])
    grows_as(lambda k: Counted.during(lambda: hard(12).topk(k)), lambda k: k * 12**3, [4, 8, 16, 32])
