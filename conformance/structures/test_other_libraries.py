"""Best outputs by networkx and SciPy against enumeration and against the panels: ties, forbidden parts, every scale
and namespace.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelerated.structures import arborescence, cut, matching
from conformance.specimens.scores import size, stored
from conformance.specimens.structures import STRUCTURES
from conformance.structures.test_matching import KINDS as MATRICES
from conformance.tolerances import close
from reference import ArborescenceScores, CutScores, MatchingScores

OF = {specimen.name: specimen for specimen in STRUCTURES}
SOLVERS = {  # of a structure, by its name in the catalogue
    "networkx cuts": ("Cut", cut.by_networkx),
    "networkx matches": ("Matching", matching.by_networkx),
    "SciPy matches": ("Matching", matching.by_scipy),
    "networkx spans": ("Arborescence", arborescence.by_networkx),
    "networkx spans from one root": ("Arborescence, one root", lambda scores: arborescence.by_networkx(scores, True)),
}
TREES = {
    "random": lambda rng, n: rng.normal(size=(n, n + 1)),
    "planted": lambda rng, n: rng.normal(size=(n, n + 1)) + 5.0 * np.eye(n, n + 1),
    "integers": lambda rng, n: rng.integers(0, 4, (n, n + 1)).astype(np.float64),
    "equal": lambda rng, n: np.zeros((n, n + 1)),
    "pairs": lambda rng, n: (
        rng.normal(size=(n, n + 1)) + 9.0 * (np.arange(n)[:, None] // 2 == (np.arange(n + 1) - 1) // 2)
    ),
    "nested": lambda rng, n: -np.abs(np.arange(n)[:, None] - np.arange(-1.0, n)) + 1e-3 * rng.random((n, n + 1)),
    "far apart": lambda rng, n: rng.uniform(-1e3, 1e3, (n, n + 1)),
    "mostly forbidden": lambda rng, n: np.where(rng.random((n, n + 1)) < 0.8, -np.inf, rng.normal(size=(n, n + 1))),
}
everyone = pytest.mark.parametrize(("name", "solve"), SOLVERS.values(), ids=SOLVERS)


@everyone
@given(data=st.data())
def test_others_answer_as_enumeration_does(space, name, solve, data):
    """Value and output, where the scores are; -inf and -1 where every output is forbidden."""
    huge = {"huge": space.dtype == "float64"} if name == "Cut" else {}
    instance = data.draw(OF[name].draw(**huge))
    value, y = (space.get(x) for x in solve(type(instance)(*space.put_fields(instance))))
    assert value.shape == () and value.dtype == space.dtype and y.dtype == np.int64 and y.shape == (len(instance[0]),)
    outputs, scores, _ = OF[name].enumerate(stored(space, instance))
    if scores.max(initial=-np.inf) == -np.inf:
        assert value == -np.inf and np.all(y == -1)
        return
    scale = max(1.0, size(stored(space, instance))) if name == "Cut" else None
    close(value, scores.max(), space.dtype, scale)
    close(scores[outputs.index(tuple(y.tolist()))], value, space.dtype, scale)


@everyone
@pytest.mark.parametrize("power", [-900, -300, 300, 900])
def test_others_answer_at_every_scale(rng, name, solve, power):
    """A power of two changes no rounding."""
    for make in OF[name].large.values():
        scores = make(lambda shape: np.where(rng.random(shape) < 0.1, -np.inf, rng.normal(size=shape)))
        scaled = type(scores)(*(x if x.dtype == np.int64 else np.ldexp(x, power) for x in scores))
        (value, y), (large, again) = solve(scores), solve(scaled)
        assert large == np.ldexp(value, power) and np.array_equal(y, again)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(("name", "solve"), [each for each in SOLVERS.values() if each[0] != "Cut"])
def test_what_is_no_score_is_no_number_to_others(name, solve, bad):
    values = np.array([[0.0, 0.0, 0.0], [bad, 0.0, 0.0]])
    value, y = solve(MatchingScores(values) if name == "Matching" else ArborescenceScores(values))
    assert np.isnan(value) and y.tolist() == [-1, -1]


def test_networkx_augments_paths_where_its_preflows_fail():
    """Float capacities whose rounding ends a preflow in an IndexError; and what no cut expresses is refused."""
    unary = np.array([[1.0, -1.2], [0.1, 0.9], [0.2, 1.0], [-3.6, 0.8]])
    edges = np.array([[0, 1], [3, 2], [1, 3]])
    pairwise = np.array([[[0.9, -0.7], [0.9, 0.6]], [[-2.4, -1.5], [0.6, 1.8]], [[1.0, -0.9], [1.2, -0.7]]])
    value, labels = cut.by_networkx(CutScores(unary, pairwise, edges))
    close(value, 4.7)
    assert labels.tolist() == [0, 0, 1, 1]
    pairwise[0] = [[0.0, 2.0], [0.0, 0.0]]
    with pytest.raises(ValueError, match=r"pairwise: .* edge 0 \(0, 1\), 0 \+ 0 falls short of 2 \+ 0 by 2"):
        cut.by_networkx(CutScores(unary, pairwise, edges))


@pytest.mark.parametrize("match", [matching.by_networkx, matching.by_scipy], ids=lambda function: function.__name__)
@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize(
    "shape", [(12, 12), (7, 15), (15, 7), (1, 40), (40, 1), (0, 3), (3, 0), (0, 0), (30, 30), (20, 50), (50, 20)]
)
def test_others_and_the_panels_match_alike(backend, match, rng, kind, shape):
    for _ in range(3 if sum(shape) < 50 else 1):
        scores = MatchingScores(MATRICES[kind](rng, *shape))
        (value, columns), (v, y) = match(scores), backend.Matching.ops.assignment(scores)
        close(value, v)
        assert columns.shape == y.shape and np.sum(columns >= 0) == np.sum(y >= 0)
        if v > -np.inf:
            close(backend.Matching(*scores).score(y), v)


@pytest.mark.parametrize("single_root", [False, True], ids=["roots", "one root"])
@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 12, 30])
def test_networkx_and_the_panels_span_alike(backend, rng, kind, n, single_root):
    for _ in range(2 if n < 20 else 1):
        scores = ArborescenceScores(TREES[kind](rng, n))
        value, heads = arborescence.by_networkx(scores, single_root)
        best, tree = backend.Arborescence.ops.maximum_arborescence(scores, single_root)
        close(best, value)
        if value > -np.inf and n:
            for y in (heads, tree):  # which is a tree, or it has no score
                close(backend.Arborescence(scores.values, single_root).score(y), best)


@pytest.mark.parametrize("gain", [0.5, 5.0, 1e6])
def test_the_only_tree_is_found_however_bad(backend, gain):
    """Cycles of high scores and one tree of low ones, of which networkx itself says that there is none."""
    values = np.full((3, 4), -np.inf)
    values[[0, 1, 2], [0, 1, 2]] = 0.0
    values[[1, 0], [3, 2]] = gain
    for answer in (arborescence.by_networkx, backend.Arborescence.ops.maximum_arborescence):
        value, heads = answer(ArborescenceScores(values))
        assert float(value) == 0.0 and np.asarray(heads).tolist() == [0, 1, 2]
