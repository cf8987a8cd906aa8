"""What exponentiated gradient asks of a sequence's pairs of neighbours: nothing where they have no features, else the
local scores and the marginals of their cells (:mod:`accelerated.compiled.problems.edges`).

points and new: as in :mod:`accelerated.compiled.epochs.exponentiated_gradient`.
"""

from __future__ import annotations

from accelerated.compiled.entries import entry
from accelerated.compiled.problems import edges as of_edges
from accelerated.compiled.problems.edges import (
    EDGES,
    add_to_truth,
    entries_of,
    fill_tables,
    take_cells,
)
from accelerated.compiled.problems.oracles import answers, question
from accelerated.compiled.problems.shared import SEQUENCES
from accelerated.compiled.reductions import only_if, plus
from accelerated.compiled.structures.chain import finish, prepare, sum_product
from accelerated.compiled.structures.chain_tables import sums_of_tables
from accelerated.compiled.sweeps import fill, larger, smaller
from accelerated.kernel import inlined

__all__ = [
    "aim_cells",
    "begin_cells",
    "growth_of",
    "local_sums",
    "most_cells",
    "move_cells",
    "move_cells_back",
    "recall_cells",
    "shrunk",
    "step_cells",
    "store_cells",
]

local_sums = question("local_sums")
most_cells = question("most_cells")
aim_cells = question("aim_cells")
recall_cells = question("recall_cells")
begin_cells = question("begin_cells")
step_cells = question("step_cells")
move_cells = question("move_cells")
move_cells_back = question("move_cells_back")
store_cells = question("store_cells")


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


# log Z of new.theta, and the mean score of cells; new.nodes and new.table become the marginals


@answers(local_sums, *SEQUENCES)
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


@answers(local_sums, *EDGES)
def sums_of_own_transitions(problem, i, new, work):
    n, used = problem.offsets[i + 1] - problem.offsets[i], 0.0
    fill_tables(problem, i, new.table_A[0], 1.0, new.theta_E, work.tables)
    log_z = sums_of_tables(new.nodes, n, work.tables, work.factors, work.chain)
    take_cells(problem, i, work.tables, new.cells, new.table)
    _, last, begin = entries_of(problem, i)
    for c in range(problem.edges.cells[last] - begin):
        used = plus(used, only_if(new.cells[c] > 0.0, new.theta_E[c]) * new.cells[c])
    return log_z, used


# the others, without features of pairs


@answers(most_cells, *SEQUENCES)
def no_cells(problem, order, lo, hi):
    return 0


@answers(aim_cells, *SEQUENCES)
def nothing_to_aim(problem, i, threshold, W, new):
    pass


@answers(recall_cells, *SEQUENCES)
def nothing_to_recall(problem, i, points, new):
    pass


@answers(begin_cells, *SEQUENCES)
def nothing_to_begin(problem, i, points):
    pass


@answers(step_cells, *SEQUENCES)
def nothing_to_step(problem, i, keep, share, points, new):
    pass


@answers(move_cells, *SEQUENCES)
def nothing_to_move(problem, i, factor, points, threshold, W, new):
    return 0.0


@answers(move_cells_back, *SEQUENCES)
def nothing_to_move_back(problem, i, W, new):
    pass


@answers(store_cells, *SEQUENCES)
def nothing_to_store(problem, i, new, points):
    pass


# and with them


@answers(most_cells, *EDGES)
def most(problem, order, lo, hi):
    return of_edges.most_cells(problem, order, lo, hi)


@answers(aim_cells, *EDGES)
def aim(problem, i, threshold, W, new):
    edges, flat = problem.edges, W.reshape(-1)
    first, last, begin = entries_of(problem, i)
    for e in range(first, last):
        x, j, c = entry(edges.data, e), edges.indices[e], edges.cells[e] - begin
        for k in range(edges.many[j]):
            new.target_E[c + k] = x * shrunk(flat[edges.first[j] + k], threshold)


@answers(recall_cells, *EDGES)
def recall_theta(problem, i, points, new):
    _, last, begin = entries_of(problem, i)
    for c in range(problem.edges.cells[last] - begin):
        new.target_E[c] = points.theta_E[begin + c]


@answers(begin_cells, *EDGES)
def begin_at_truth(problem, i, points):
    _, last, begin = entries_of(problem, i)
    for c in range(begin, problem.edges.cells[last]):
        points.theta_E[c] = points.cells[c] = 0.0
    add_to_truth(problem, i, 1.0, points.cells[begin:])


@answers(step_cells, *EDGES)
def step(problem, i, keep, share, points, new):
    _, last, begin = entries_of(problem, i)
    for c in range(problem.edges.cells[last] - begin):
        new.theta_E[c] = keep * points.theta_E[begin + c] + share * new.target_E[c]


@answers(move_cells, *EDGES)
def move(problem, i, factor, points, threshold, W, new):
    edges, flat, growth = problem.edges, W.reshape(-1), 0.0
    first, last, begin = entries_of(problem, i)
    for e in range(first, last):
        x, j, c = factor * entry(edges.data, e), edges.indices[e], edges.cells[e] - begin
        for k in range(edges.many[j]):
            change = x * (points.cells[begin + c + k] - new.cells[c + k])
            new.moves_E[c + k] = change
            growth += growth_of(flat[edges.first[j] + k], change, threshold)
            flat[edges.first[j] + k] += change
    return growth


@answers(move_cells_back, *EDGES)
def move_back(problem, i, W, new):
    edges, flat = problem.edges, W.reshape(-1)
    first, last, begin = entries_of(problem, i)
    for e in range(first, last):
        j, c = edges.indices[e], edges.cells[e] - begin
        for k in range(edges.many[j]):
            flat[edges.first[j] + k] -= new.moves_E[c + k]


@answers(store_cells, *EDGES)
def store(problem, i, new, points):
    _, last, begin = entries_of(problem, i)
    for c in range(problem.edges.cells[last] - begin):
        points.theta_E[begin + c], points.cells[begin + c] = new.theta_E[c], new.cells[c]
