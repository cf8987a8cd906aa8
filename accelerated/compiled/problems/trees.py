"""Trees and forests as problems: like sequences, except for the parents of positions and the messages.

A problem has the fields of a sequence problem (:mod:`accelerated.compiled.problems.sequence`) and the forms of its
trees. The parent of node t of tree i is above[offsets[i] + t], counted within the tree; for roots it is the tree's
number of nodes. ``upward`` lists the nodes of each tree, the deepest first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.problems import oracles, sequence_entropy, sequence_max, sequence_sets
from accelerated.compiled.problems.answers import room_for
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.problems.pairs import Pairs
from accelerated.compiled.problems.sequence import augmented_scores
from accelerated.compiled.problems.sequence_entropy import EntropyProblem
from accelerated.compiled.problems.sequence_max import MaxProblem
from accelerated.compiled.problems.working_sets import new_sets
from accelerated.compiled.structures.tree import Forest, load_transposed, trace, upward_messages
from accelerated.compiled.structures.tree_sum import Messages, sum_product
from accelerated.compiled.sweeps import fill
from accelerated.kernel import kernel

__all__ = ["TreeEntropyProblem", "TreeMaxProblem"]


class TreeMaxProblem(NamedTuple):
    """Structural hinge: loss-augmented max-product. cost (L, L) by (true, predicted); no pairs."""

    offsets: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    labels: np.ndarray
    cost: np.ndarray
    pairs: Pairs
    above: np.ndarray
    upward: np.ndarray


class TreeEntropyProblem(NamedTuple):
    """The max smoothed by entropy: sum-product at temperature mu. The log loss has cost 0 and mu = 1."""

    offsets: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    labels: np.ndarray
    cost: np.ndarray
    pairs: Pairs
    above: np.ndarray
    upward: np.ndarray


@kernel
def forest(problem, i):
    """The part of tree i's form that messages need."""
    nodes, none = slice(problem.offsets[i], problem.offsets[i + 1]), problem.above[:0]
    return Forest(problem.above[nodes], problem.upward[nodes], none, none, none)


@answers(oracles.parent, TreeMaxProblem, TreeEntropyProblem, inlined=True)
def parent(problem, i, t):
    above = problem.above[problem.offsets[i] + t]
    return above if above < problem.offsets[i + 1] - problem.offsets[i] else -1


@answers(oracles.prepared, TreeMaxProblem)
def prepared(problem, A, mu, work):
    for j in range(work.transposed.shape[0]):
        fill(-np.inf, work.transposed, j)
    load_transposed(A, 0, work.transposed)
    return work.transposed


@answers(oracles.decode, TreeMaxProblem)
def decode(problem, i, A, work):
    form, below, messages = forest(problem, i), work.scores, work.chain.forward
    value = upward_messages(below, form, A, 0, 0, work.transposed, messages)
    trace(below, messages, form, A, 0, 0, work.labels)
    return value


@answers(oracles.oracle, TreeEntropyProblem)
def oracle(problem, i, s, W, A, ready, mu, work):
    gold = augmented_scores(problem, i, s, W, A, 1.0 / mu, work.scores)
    room = Messages(work.chain.forward, work.chain.factor, work.pairs)
    value = sum_product(work.scores, forest(problem, i), A, 0, 0, 1.0 / mu, ready, room, work.edges)
    for t in range(problem.offsets[i + 1] - problem.offsets[i]):
        work.scores[t, problem.labels[problem.offsets[i] + t]] -= 1.0
    return mu * value - gold


# other questions are answered as for sequences: some in :mod:`accelerated.compiled.problems.shared`

for name in ("oracle", "add_rows", "add_dense", "task_loss"):
    answers(getattr(oracles, name), TreeMaxProblem)(getattr(sequence_max, name))
for name in (
    *("prepared", "add_rows", "add_dense", "flush", "task_loss"),
    *("remember", "recall", "remember_rows", "recall_rows", "subtract"),
):
    answers(getattr(oracles, name), TreeEntropyProblem)(getattr(sequence_entropy, name))
for name in ("visiting", "join_best", "score_set", "move"):
    answers(getattr(oracles, name), TreeMaxProblem)(getattr(sequence_sets, name))
room_for.register(TreeEntropyProblem, room_for.dispatch(EntropyProblem))
new_sets.register(TreeMaxProblem, new_sets.dispatch(MaxProblem))
