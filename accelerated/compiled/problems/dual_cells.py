"""What exponentiated gradient keeps of a sequence's cells (:mod:`accelerated.compiled.problems.edges`): local scores
and marginals. A sequence whose pairs of neighbours have no features has no cells.

points and new: as in :mod:`accelerated.compiled.epochs.exponentiated_gradient`.
"""

from __future__ import annotations

from accelerated.compiled.copies import copy_table
from accelerated.compiled.entries import entry
from accelerated.compiled.problems.edges import EDGES, EdgeFeatures, add_to_truth, span_of, sums, take_cells
from accelerated.compiled.problems.oracles import answers, question
from accelerated.compiled.problems.sequence_entropy import EntropyProblem
from accelerated.compiled.problems.sequence_max import MaxProblem
from accelerated.compiled.reductions import only_if, plus
from accelerated.compiled.structures.chain import finish, prepare, sum_product
from accelerated.compiled.sweeps import fill, larger, load, smaller
from accelerated.kernel import inlined, kernel

__all__ = ["aim_cells", "begin_cells", "growth_of", "local_sums", "move_cells", "move_cells_back", "shrunk", "span"]

span = question("span")  # as span_of
edges_of = question("edges_of")  # the problem's EdgeFeatures
local_sums = question("local_sums")  # log Z of new.theta, the mean score of cells; the marginals of all but cells
begin_cells = question("begin_cells")  # marginals of the truth, theta = 0


@inlined
def shrunk(x, threshold):
    """soft(x, threshold)."""
    if threshold is None:
        return x
    return x - smaller(larger(x, -threshold), threshold)


@inlined
def growth_of(x, change, threshold):
    """The growth of the square of a weight whose x changes."""
    if threshold is None:
        return change * (2.0 * x + change)
    before, after = shrunk(x, threshold), shrunk(x + change, threshold)
    return (after - before) * (after + before)


@kernel
def aim_cells(problem, i, threshold, W, new):
    """Target scores of the cells: those at the weights."""
    edges, flat, (first, last, begin, _) = edges_of(problem), W.reshape(-1), span(problem, i)
    for e in range(first, last):
        x, j, c = entry(edges.data, e), edges.indices[e], edges.cells[e] - begin
        for k in range(edges.many[j]):
            new.target_E[c + k] = x * shrunk(flat[edges.first[j] + k], threshold)


@kernel
def move_cells(problem, i, factor, points, threshold, W, new):
    """Move x as the marginals of cells change. Returns the growth of the weights' squared norm."""
    edges, flat, growth, (first, last, begin, _) = edges_of(problem), W.reshape(-1), 0.0, span(problem, i)
    for e in range(first, last):
        x, j, c = factor * entry(edges.data, e), edges.indices[e], edges.cells[e] - begin
        for k in range(edges.many[j]):
            change = x * (points.cells[begin + c + k] - new.cells[c + k])
            new.moves_E[c + k] = change
            growth += growth_of(flat[edges.first[j] + k], change, threshold)
            flat[edges.first[j] + k] += change
    return growth


@kernel
def move_cells_back(problem, i, W, new):
    """Undo the last move of x."""
    edges, flat, (first, last, begin, _) = edges_of(problem), W.reshape(-1), span(problem, i)
    for e in range(first, last):
        j, c = edges.indices[e], edges.cells[e] - begin
        for k in range(edges.many[j]):
            flat[edges.first[j] + k] -= new.moves_E[c + k]


@answers(span, MaxProblem, EntropyProblem, inlined=True)
def no_span(problem, i):
    return 0, 0, 0, 0


@answers(edges_of, MaxProblem, EntropyProblem, inlined=True)
def no_edges(problem):
    none = problem.indptr[:0]
    return EdgeFeatures(none, none, problem.data[:0], none, none, none, none, none)


@answers(begin_cells, MaxProblem, EntropyProblem)
def nothing_begins(problem, i, points):
    pass


@answers(local_sums, MaxProblem, EntropyProblem)
def sums_of_shared_transitions(problem, i, new, work):
    L = new.table.shape[1]
    for a in range(L):
        for b in range(L):
            new.table[0, a, b] = 0.0
    for a in range(work.pairs.shape[0]):
        fill(0.0, work.pairs, a)
    n, ready = problem.offsets[i + 1] - problem.offsets[i], prepare(new.table_A[0], 1.0, work.matrix, work.transposed)
    log_z = sum_product(new.nodes, n, ready, new.table_A, 0, 1.0, work.chain, work.pairs, new.table)
    finish(ready, work.pairs, new.table[0])
    return log_z, 0.0


answers(span, *EDGES, inlined=True)(span_of.py_func)


@answers(edges_of, *EDGES, inlined=True)
def own_edges(problem):
    return problem.edges


@answers(begin_cells, *EDGES)
def truth_begins(problem, i, points):
    _, _, begin, end = span_of(problem, i)
    for c in range(begin, end):
        points.theta_E[c] = points.cells[c] = 0.0
    add_to_truth(problem, i, 1.0, points.cells[begin:])


@answers(local_sums, *EDGES)
def sums_of_own_transitions(problem, i, new, work):
    load(new.table_A[0], 1.0, work.matrix)
    log_z, used = sums(problem, i, 1.0, new.nodes, new.theta_E, work), 0.0
    take_cells(problem, i, work.tables, new.cells)
    _, _, begin, end = span_of(problem, i)
    for c in range(end - begin):
        used = plus(used, only_if(new.cells[c] > 0.0, new.theta_E[c]) * new.cells[c])
    L = new.table.shape[1]
    copy_table(work.pairs[:L, :L], new.table[0])
    return log_z, used
