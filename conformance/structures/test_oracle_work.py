"""Operations and memory of oracles, counted (Pillutla et al., Propositions 12 and 14): exponents of p, L and K, none
too low. Answers of more outputs than memory holds are refused before any is sought; what is asked beyond the number of
outputs costs no search.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys

import numpy as np
import pytest

import reference
from conformance.counting import Counted, CountingNumpy, counted, grows_as
from conformance.plain_kernels import ORACLES, STRUCTURES, peak
from conformance.specimens.structures import SMALL
from reference.structures import cut_network, matching

every_oracle = pytest.mark.parametrize("oracle", ["max", "topk", "exp"])
OTHER_SHAPES = [pytest.param(shape, marks=pytest.mark.beyond("counts of each line")) for shape in ("path", "binary")]
by_shape = pytest.mark.parametrize("shape", ["chain", *OTHER_SHAPES])


def of_kernels(what, jobs):
    """The lines that each call (structure, p, L, k, oracle) runs in kernels, or the most bytes that it holds."""
    command = [sys.executable, "-m", "conformance.plain_kernels", what]
    done = subprocess.run(command, input=json.dumps(jobs), capture_output=True, text=True, check=True)
    return dict(zip(jobs, json.loads(done.stdout), strict=True))


@every_oracle
@by_shape
def test_time_of_the_oracles_of_trees(oracle, shape):
    """p L^2, and for the K best p K L^2 log(K L): the reference sorts what the paper merges in log K."""

    def work(p, L, k):
        structure = STRUCTURES[shape](reference, p, L, counted)
        return Counted.during(lambda: ORACLES[oracle](structure, k))

    def order(p, L, k):
        return p * L**2 * (k * np.log2(k * L) if oracle == "topk" else 1)

    grows_as(lambda p: work(p, 8, 4), lambda p: order(p, 8, 4), [8, 16, 32, 64, 128])
    grows_as(lambda L: work(16, L, 4), lambda L: order(16, L, 4), [8, 32, 128])
    if oracle == "topk":
        grows_as(lambda k: work(48, 8, k), lambda k: order(48, 8, k), [2, 8, 32, 64])


@every_oracle
def test_operations_of_the_oracles_of_segments(oracle):
    """n W L + n L^2, not n W L^2; for the K best sorted."""

    def work(n, W, L):
        rng = np.random.default_rng(n * W * L)
        structure = reference.Segments(counted(rng.normal(size=(n, W, L))), counted(rng.normal(size=(L, L))))
        return Counted.during(lambda: ORACLES[oracle](structure, 4))

    def order(n, W, L):
        sorts = (np.log2(4 * W), np.log2(4 * L)) if oracle == "topk" else (1, 1)
        return n * W * L * sorts[0] + n * L**2 * sorts[1]

    grows_as(lambda n: work(n, 6, 8), lambda n: order(n, 6, 8), [8, 16, 32, 64])
    grows_as(lambda W: work(64, W, 8), lambda W: order(64, W, 8), [4, 16, 64])
    grows_as(lambda x: work(16, x, x), lambda x: order(16, x, x), [8, 32, 128])


def test_each_child_of_a_node_costs_the_same():
    """Children are merged one at a time, of two sorted lists the pairs that can matter (Proposition 41)."""
    grows_as(
        lambda p: Counted.during(lambda: STRUCTURES["star"](reference, p, 8, counted).topk(4)),
        lambda p: p,
        [8, 32, 128],
    )


@by_shape
def test_costs_of_table_2_over_those_of_the_max_oracle(shape):
    """For the expectation a constant, for the K best K log(K L)."""

    def over(p, L, k, oracle):
        structure = STRUCTURES[shape](reference, p, L, counted)
        each = (lambda of=of: ORACLES[of](structure, k) for of in (oracle, "max"))
        return np.divide(*map(Counted.during, each))

    ratios = [over(p, L, 1, "exp") for p, L in ((16, 8), (64, 8), (16, 32), (16, 128))]
    assert max(ratios) <= 2 * min(ratios)
    grows_as(lambda k: over(48, 8, k, "topk"), lambda k: k * np.log2(k * 8), [2, 8, 32, 64])


@every_oracle
@by_shape
def test_memory_of_the_oracles_of_trees(oracle, shape):
    """p L, and p K L for the K best, where the pairwise scores are shared: what a further node adds to the peak."""

    def held(p, L, k):
        structure = STRUCTURES[shape](reference, p, L)
        return peak(lambda: ORACLES[oracle](structure, k))[1]

    def a_node(L, k):
        return (held(24, L, k) - held(8, L, k)) / 16

    held(4, 4, 4)  # what is imported on first use
    grows_as(lambda p: held(p, 16, 4), lambda p: p, [128, 512, 1024])
    grows_as(lambda L: a_node(L, 2), lambda L: L, [48, 96, 192], lower=1.0)
    if oracle == "topk":
        grows_as(lambda k: a_node(32, k), lambda k: k, [8, 32, 128])


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

    ring = functools.partial(STRUCTURES["ring"], reference)
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

    hard = functools.partial(STRUCTURES["matching"], reference)
    for oracle in ("best", "max_marginals"):
        grows_as(lambda p, oracle=oracle: Counted.during(getattr(hard(p), oracle)), lambda p: p**3, [8, 24, 80])
    grows_as(lambda p: Counted.during(lambda: hard(p).topk(3)), lambda p: 3 * p**3, [8, 20, 72])
    grows_as(lambda k: Counted.during(lambda: hard(8).topk(k)), lambda k: k * 8**3, [4, 8, 16, 32])


# kernels --------------------------------------------------------------------------------------------------------------


@by_shape
def test_time_of_the_kernels_of_trees(shape):
    """p L^2, and less than the paper's p K L^2 log K for the K best: the first costs p L^2, each further one p L."""
    sizes = {(p, 8, 4) for p in (8, 16, 32, 64, 128)} | {(6, L, 2) for L in (16, 32, 64)}
    jobs = [(shape, *size, oracle) for size in sizes for oracle in ("max", "topk", "exp")]
    found = of_kernels("lines", jobs + [(shape, 16, 8, k, "topk") for k in (1, 8, 32, 128)])
    for oracle in ("max", "topk", "exp"):
        grows_as(lambda p, of=oracle: found[shape, p, 8, 4, of], lambda p: p, [8, 16, 32, 64, 128])
        grows_as(lambda L, of=oracle: found[shape, 6, L, 2, of], lambda L: L**2, [16, 32, 64], lower=1.0)
    one = found[shape, 16, 8, 1, "topk"]
    grows_as(lambda k: found[shape, 16, 8, k, "topk"] - one, lambda k: k - 1, [8, 32, 128])


@by_shape
def test_memory_of_the_kernels_of_trees(shape):
    """p L, and p K L for the K best at most: what a further node adds to the peak."""
    sizes = {(p, 8, 4) for p in (48, 96, 192)} | {(p, L, 2) for p in (8, 24) for L in (8, 16, 32)}
    jobs = [(shape, *size, oracle) for size in sizes for oracle in ("max", "topk", "exp")]
    found = of_kernels("bytes", jobs + [(shape, p, 8, k, "topk") for p in (8, 24) for k in (32, 128)])

    def a_node(L, k, oracle):
        return (found[shape, 24, L, k, oracle] - found[shape, 8, L, k, oracle]) / 16

    for oracle in ("max", "topk", "exp"):
        grows_as(lambda p, of=oracle: found[shape, p, 8, 4, of], lambda p: p, [48, 96, 192], lower=1.0)
        grows_as(lambda L, of=oracle: a_node(L, 2, of), lambda L: L, [8, 16, 32], lower=1.0)
    grows_as(lambda k: a_node(8, k, "topk"), lambda k: k, [32, 128], lower=1.0)


def test_work_of_the_kernels_of_loopy_graphs():
    """Of rings in units of a minimum cut, of matchings at most p^3, and each of the K best the same."""
    rings = [(4, 4), (8, 4), (16, 4), (32, 4), (16, 8), (16, 16), (16, 32)]
    jobs = [("ring", p, 2, 1, oracle) for p in (4, 8, 16) for oracle in ("max", "node_max_marginals")]
    jobs += [("ring", p, 2, k, "topk") for p, k in rings] + [("matching", 8, 2, k, "topk") for k in (4, 8, 16)]
    jobs += [("matching", p, 2, 3, oracle) for p in (8, 16, 24) for oracle in ("max", "max_marginals", "topk")]
    found = of_kernels("lines", jobs)
    for p in (4, 8, 16):
        cut = found["ring", p, 2, 1, "max"]
        assert found["ring", p, 2, 1, "node_max_marginals"] <= (p + 1) * cut
        assert found["ring", p, 2, 4, "topk"] <= (4 + 5 * (p + 1)) * cut
    grows_as(lambda p: found["ring", p, 2, 4, "topk"], lambda p: 4 * p, [4, 8, 16, 32])
    grows_as(lambda k: found["ring", 16, 2, k, "topk"], lambda k: 16 * k, [4, 8, 16, 32])
    for oracle in ("max", "max_marginals", "topk"):
        ratios = np.array([found["matching", p, 2, 3, oracle] / p**3 for p in (8, 16, 24)])
        assert np.all(np.diff(ratios) <= 0), ratios
    grows_as(lambda k: found["matching", 8, 2, k, "topk"], lambda k: k, [4, 8, 16])


# more than memory holds -----------------------------------------------------------------------------------------------

LIMIT = 2**28
MADE = {name: lambda backend, each=each: each[0].make(backend, each[1](np.zeros)) for name, each in SMALL.items()}
MADE["batch of chains"] = lambda backend: backend.Chain(np.zeros((7, 5, 2)), np.zeros((2, 2)))
MADE["empty chain"] = lambda backend: backend.Chain(np.zeros((0, 2)), np.zeros((2, 2)))
everywhere = pytest.mark.parametrize("name", MADE)


def refused(ask, *, match):
    with pytest.raises(ValueError, match=match):
        ask()


@everywhere
def test_more_outputs_than_an_answer_holds(backend, name):
    structure = MADE[name](backend)
    most = LIMIT // max(structure.topk(1).labels.size, 1)
    for k, shown in ((most + 1, f"{most + 1}"), (2**40, f"{2**40}"), (10**400, "an integer of")):
        message = f"^k: expected at most {most} outputs, .* got {shown}"
        assert peak(lambda k=k, message=message: refused(lambda: structure.topk(k), match=message))[1] < 2**22
    for size in (most + 1, 2**40, 2**62) if structure.supports("sample") else ():
        message = f"^size: expected at most {most} outputs, .* got {size}"
        refused(lambda size=size: structure.sample(size), match=message)
    if structure.supports("sample"):
        huge = "^size: expected an integer in 1..9223372036854775807, got an integer of 1329"
        refused(lambda: structure.sample(10**400), match=huge)


@everywhere
def test_beyond_the_number_of_outputs_only_the_answer_grows(backend, name):
    """All outputs first, then -inf and -1; no other room is taken than that of the answer."""
    structure, k = MADE[name](backend), 2**16
    few, (many, room) = structure.topk(100), peak(lambda: structure.topk(k))
    assert np.array_equal(many.count, few.count) and np.max(np.asarray(few.count)) < 100
    assert np.array_equal(np.asarray(many.scores)[..., :100], few.scores)
    assert np.all(np.asarray(many.scores)[..., 100:] == -np.inf)
    batch = (slice(None),) * (np.ndim(many.scores) - 1)
    assert np.all(np.asarray(many.labels)[(*batch, slice(100, None))] == -1)
    assert room < 2**21 + 8 * 8 * k * max(structure.topk(1).labels.size, 1)


def test_samples_take_the_room_of_the_answer(backend):
    """Many draws of many labels: no number for each draw and label, which would be 128 MiB."""
    labels, size = 512, 2**15
    unary, pairwise = np.linspace(-1.0, 1.0, 2 * labels).reshape(2, labels), np.zeros((labels, labels))
    for structure in (
        backend.Table(unary[0]),
        backend.Chain(unary, pairwise),
        backend.Tree(unary, pairwise, [-1, 0]),
        backend.Graph(unary, pairwise[None], [[0, 1]]),
    ):
        structure.sample(1, rng=0)  # compiles
        drawn, room = peak(lambda structure=structure: structure.sample(size, rng=0))
        assert drawn.size == size * max(drawn.ndim, 1) and np.unique(drawn).size > labels // 2
        assert room < 2**25
    assert backend.Table(np.zeros(10**6)).sample(1000, rng=0).max() < 10**6
