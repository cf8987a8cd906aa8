"""Matchings against enumeration, SciPy's assignment and integer programs, and duality (Pillutla et al., appendix
C.3, Algo. 12). Then the best outputs of matchings, cuts and dependency trees by networkx and SciPy against enumeration
and against the panels: ties, forbidden parts, every scale and namespace.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from accelerated.compiled.structures.assignment import assign
from accelerated.structures import arborescence, cut, matching
from conformance.specimens.outputs import listing
from conformance.specimens.scores import size, stored
from conformance.specimens.structures import STRUCTURES
from conformance.tolerances import close
from reference import ArborescenceScores, CutScores, MatchingScores
from reference.structures.matching import optimum

KINDS = {
    "uniform": lambda rng, p, q: rng.random((p, q)),
    "integers": lambda rng, p, q: rng.integers(0, 10, (p, q)).astype(np.float64),
    "all equal": lambda rng, p, q: np.zeros((p, q)),
    "diagonal": lambda rng, p, q: rng.random((p, q)) + 2 * np.eye(p, q),
    "products": lambda rng, p, q: np.outer(np.arange(p), np.arange(q)) / 7.0,  # long wars over the same columns
    "mostly forbidden": lambda rng, p, q: np.where(rng.random((p, q)) < 0.9, -np.inf, rng.normal(size=(p, q))),
}


def best_with(values):
    """The max-marginals by enumeration, and the best score of all."""
    _, scores, parts = listing("Matching", {"values": values})
    return np.where(parts["values"] > 0, scores[:, None, None], -np.inf).max(axis=0), scores.max()


@pytest.mark.parametrize("forbidden", [0.0, 0.2])
@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (5, 2), (4, 4), (5, 6), (6, 5)])
def test_integer_scores_are_exact(backend, rng, shape, forbidden):
    """Sums of integers are: each max-marginal is the best score of a matching with that pair, bit for bit."""
    for _ in range(10):
        values = np.where(rng.random(shape) < forbidden, -np.inf, rng.integers(-9, 10, shape))
        assert np.array_equal(backend.Matching(values).max_marginals().values, best_with(values)[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(8, 8), (40, 40), (30, 70)])
@pytest.mark.parametrize("solve", [optimum, assign], ids=["reference", "accelerated"])
def test_potentials_prove_the_optimum(rng, kind, shape, solve):
    """Feasible in the dual, tight on the matching, 0 on unmatched columns: no matching is better than sum u + sum v."""
    values = KINDS[kind](rng, *shape)
    answer = solve(values)
    if answer is None or answer[0] is False:
        with pytest.raises(ValueError, match="infeasible"):
            optimize.linear_sum_assignment(values, maximize=True)
        return
    column, u, v = answer[-3:]
    rows = np.arange(len(values))
    assert np.all(u[:, None] + v - values >= -1e-12)
    close(u + v[column], values[rows, column])
    if shape[0] < shape[1]:
        assert np.all(v >= 0) and np.all(np.delete(v, column) == 0)
    close(u.sum() + v.sum(), values[rows, column].sum())


def test_scores_of_very_different_sizes(backend):
    values = np.array([[1e300, 1e-300, -1e300], [1e300, 0.0, 1.0], [-1e300, 1e-300, -0.0]])
    value, columns = backend.Matching(values).best()
    assert value == 1e300 and columns[0] == 0
    assert np.asarray(backend.Matching(values).max_marginals().values).max() == 1e300


def test_sums_over_matchings_are_intractable(backend):
    with pytest.raises(backend.IntractableError, match="#P-complete"):
        backend.Matching(np.zeros((2, 2))).count()
    model = backend.AlignmentModel(1)
    with pytest.raises(backend.IntractableError, match="LogLoss .* needs expectation.*Proposition 14"):
        backend.LogLoss(model, model.pack([np.ones((2, 2, 1))], [[0, 1]]))


def test_where_there_are_more_rows_the_variables_are_the_columns(backend, rng):
    values = rng.normal(size=(6, 9))
    tall, wide = backend.Matching(values.T), backend.Matching(values)
    assert np.array_equal(tall.states(tall.best()[1]), wide.best()[1])


def test_the_log_partition_of_matchings_is_a_permanent(rng):
    """Jerrum and Sinclair's count: sum_y exp(score(y)) over matchings is the permanent of exp(values)
    (Ryser's formula).
    """
    values = rng.normal(size=(5, 5))
    scores = listing("Matching", {"values": values}).scores
    a, ryser = np.exp(values), 0.0
    for mask in range(1, 32):
        chosen = [j for j in range(5) if mask >> j & 1]
        ryser += (-1) ** (5 - len(chosen)) * np.prod(a[:, chosen].sum(axis=1))
    close(np.log(np.exp(scores).sum()), np.log(ryser))


# misprints ------------------------------------------------------------------------------------------------------------


def test_printed_residual_weights_give_no_max_marginals():
    """Line 3 of Algorithm 12 as printed: every arc both ways, weights 1 - I and -I instead of scores of pairs
    outside and in the matching.
    """
    values = np.array([[3.0, 0.0], [0.0, 5.0]])
    best, top = best_with(values)
    matched = np.eye(2)
    weight = np.full((4, 4), -np.inf)  # nodes: rows 0 and 1, columns 2 and 3
    weight[:2, 2:], weight[2:, :2] = 1.0 - matched, -matched.T
    for k in range(4):
        weight = np.maximum(weight, weight[:, k, None] + weight[k])
    printed = top + (1 - matched) * (weight[2:, :2].T + values)
    assert not np.allclose(printed, best)
    assert best[0, 1] == 0.0 and printed[0, 1] > top  # printed: a forced pair scores more than the best matching


def test_residual_arcs_of_scores_give_max_marginals(rng):
    """Line 3 corrected, and line 5: psi* + phi(v, z) + Delta(z, v), over the paper's 2 p nodes without potentials."""
    for _ in range(30):
        p = int(rng.integers(1, 6))
        values = np.where(rng.random((p, p)) < 0.2, -np.inf, rng.integers(-9, 10, (p, p)).astype(np.float64))
        best, top = best_with(values)
        if top == -np.inf:
            continue
        outputs, scores, _ = listing("Matching", {"values": values})
        matched = np.array(outputs[int(np.argmax(scores))])[:, None] == np.arange(p)
        path = np.full((2 * p, 2 * p), -np.inf)
        path[:p, p:] = np.where(matched, -np.inf, values)
        path[p:, :p] = np.where(matched, -values, -np.inf).T
        for k in range(2 * p):
            path = np.maximum(path, path[:, k, None] + path[k])
        assert np.array_equal(np.where(matched, top, top + values + path[p:, :p].T), best)


def test_inequalities_leave_rows_unmatched():
    """The linear program of C.3 and (73) with <= 1: at phi = [[-1]] it is 0 at theta = 0, and the only matching
    scores -1.
    """
    program = {"c": [1.0], "bounds": [(0, 1)]}
    printed = optimize.linprog(A_ub=[[1.0], [1.0]], b_ub=[1, 1], **program)
    equalities = optimize.linprog(A_eq=[[1.0], [1.0]], b_eq=[1, 1], **program)
    scores = listing("Matching", {"values": np.array([[-1.0]])}).scores
    assert -printed.fun == 0.0 and -equalities.fun == scores.max() == -1.0


# other libraries ------------------------------------------------------------------------------------------------------

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
    instance = data.draw(OF[name].draw(batched=False, **huge))
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
        if scores[0].ndim > 2:
            continue
        scaled = type(scores)(*(x if x is None or x.dtype == np.int64 else np.ldexp(x, power) for x in scores))
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
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "shape", [(12, 12), (7, 15), (15, 7), (1, 40), (40, 1), (0, 3), (3, 0), (0, 0), (30, 30), (20, 50), (50, 20)]
)
def test_others_and_the_panels_match_alike(backend, match, rng, kind, shape):
    for _ in range(3 if sum(shape) < 50 else 1):
        scores = MatchingScores(KINDS[kind](rng, *shape))
        (value, columns), (v, y) = match(scores), backend.Matching.ops.assignment(scores)
        close(value, v)
        assert columns.shape == y.shape and np.sum(columns >= 0) == np.sum(y >= 0)
        if v > -np.inf:
            close(backend.Matching(*scores).score(y), v)


@cache
def spanned(kind, n, single_root):
    """Scores, and the best value and heads by networkx, which are slow to find: once for both panels."""
    rng, found = np.random.default_rng(20), []
    for _ in range(2 if n < 20 else 1):
        scores = ArborescenceScores(TREES[kind](rng, n))
        found.append((scores, *arborescence.by_networkx(scores, single_root)))
    return found


@pytest.mark.parametrize("single_root", [False, True], ids=["roots", "one root"])
@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 12, 30])
def test_networkx_and_the_panels_span_alike(backend, kind, n, single_root):
    for scores, value, heads in spanned(kind, n, single_root):
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
