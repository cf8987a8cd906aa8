"""Projective dependency trees beside arborescences, and beside the numbers of trees (Eisner 1996)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from conformance.specimens.outputs import listing
from conformance.tolerances import close

NONE = -np.inf
roots = pytest.mark.parametrize("single_root", [False, True], ids=["roots", "one root"])


def are_stretches(heads):
    """Whether the tokens under each token are neighbours."""
    for top in range(1, len(heads) + 1):
        under = {top}
        for _ in heads:
            under |= {m for m, h in enumerate(heads, 1) if h in under}
        if max(under) - min(under) >= len(under):
            return False
    return True


@roots
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_tokens_under_each_token_are_a_stretch(backend, n, single_root):
    """An arc that crosses one of the root leaves a gap, too."""
    trees = backend.Arborescence(np.zeros((n, n + 1)), single_root).enumerate()
    assert list(backend.Projective(np.zeros((n, n + 1)), single_root).enumerate()) == list(filter(are_stretches, trees))


@roots
@pytest.mark.parametrize("c", [0.0, -1e16, 1e300])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 45])
def test_the_number_of_projective_trees(backend, n, c, single_root):
    """binom(3 n, n) / (2 n + 1), binom(3 n - 2, n - 1) / n of a single root; equally likely at every height."""
    structure = backend.Projective(np.full((n, n + 1), c), single_root)
    count = math.comb(3 * n - 2, n - 1) // n if single_root else math.comb(3 * n, n) // (2 * n + 1)
    assert structure.count() == count
    value, marginals = structure.expectation()
    close(value, n * c + math.log(count))
    close(np.asarray(marginals.values).sum(axis=1), np.ones(n))


@roots
@pytest.mark.parametrize("n", [5, 20, 40])
def test_sums_of_ones_are_numbers_of_trees(backend, rng, n, single_root):
    """Exact integers. The trees with an arc are all but those where it is forbidden."""
    values = np.where(rng.random((n, n + 1)) < 0.2, NONE, 0.0)
    values[0, 0], values[np.arange(1, n), np.arange(1, n)] = 0.0, 0.0
    structure = backend.Projective(values, single_root)
    value, marginals = structure.expectation()
    close(value, math.log(structure.count()))
    for m, h in zip(rng.integers(0, n, 3), rng.integers(0, n + 1, 3), strict=True):
        without = values.copy()
        without[m, h] = NONE
        share = 1 - backend.Projective(without, single_root).count() / structure.count()
        close(np.asarray(marginals.values)[m, h], share)


@roots
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3, 1e16])
def test_fewer_trees_than_arborescences(backend, rng, scale, single_root):
    """Best scores and sums are at most those of all trees, and equal where a projective tree is far ahead."""
    values = scale * rng.normal(size=(12, 13))
    ours, all_of_them = backend.Projective(values, single_root), backend.Arborescence(values, single_root)
    assert ours.best()[0] <= all_of_them.best()[0] + 1e-14 * scale
    assert ours.log_partition() <= all_of_them.log_partition() + 1e-14 * scale
    y = np.asarray(backend.Projective(np.zeros((12, 13)), single_root).sample(1, rng=rng))[0]
    planted = values + 100 * scale * np.asarray(ours.parts(y).values)
    for kind in (backend.Projective, backend.Arborescence):
        assert np.array_equal(kind(planted, single_root).best()[1], y)


@roots
@pytest.mark.parametrize("scale", [1.0, 1e3, "ties"])
def test_answers_by_enumeration(backend, rng, scale, single_root):
    """Of 5 tokens: K best, max-marginals, sums; also where the best heads of all tokens are far from any tree."""
    values = rng.integers(-2, 3, (5, 6)).astype(float) if scale == "ties" else scale * rng.normal(size=(5, 6))
    outputs = listing("Projective", {"values": values, "single_root": single_root})
    structure, scores = backend.Projective(values, single_root), outputs.scores
    best = structure.topk(60)
    close(best.scores, np.sort(scores)[::-1][:60])
    assert len(np.unique(best.labels, axis=0)) == 60 and np.array_equal(best.labels[0], structure.best()[1])
    arcs = outputs.parts["values"] > 0
    close(structure.max_marginals().values, np.where(arcs, scores[:, None, None], NONE).max(axis=0))
    value, means = outputs.expectation(0.7)
    close(structure.expectation(0.7)[0], value)
    close(structure.expectation(0.7)[1].values, means["values"])


@roots
@pytest.mark.parametrize("scale", [1.0, 1e300])
def test_trees_are_drawn_as_often_as_they_are_likely(backend, rng, scale, single_root):
    values = scale * rng.integers(-1, 2, (4, 5))
    outputs = listing("Projective", {"values": values, "single_root": single_root})
    drawn, size = np.asarray(backend.Projective(values, single_root).sample(4000, 2.0, rng=0)).tolist(), 4000
    weights = np.exp((outputs.scores - outputs.scores.max()) / 2.0)
    for y, p in zip(outputs.outputs, weights / weights.sum(), strict=True):
        assert abs(drawn.count(list(y)) - size * p) <= 5 * math.sqrt(size * p)


def test_trees_with_crossing_arcs_are_refused(backend):
    model = backend.ParsingModel([("direction", "h.tag")], bits=4, projective=True)
    crossed = "arcs that do not cross.*those of tokens"
    for heads in ([3, 4, 0, 3], [3, 0, 2]):  # two arcs of tokens; one and the root's
        with pytest.raises(ValueError, match=crossed):
            backend.Projective(np.zeros((len(heads), len(heads) + 1))).score(heads)
        with pytest.raises(ValueError, match=f"Y.*{crossed}"):
            model.pack([{"tag": ["N"] * len(heads)}], [heads])
    data = backend.ParsingModel([("direction", "h.tag")], bits=4).pack([{"tag": ["N"] * 3}], [[3, 0, 2]])
    with pytest.raises(ValueError, match=crossed):
        model.check(data)
    assert model.counts(data) == [12]
