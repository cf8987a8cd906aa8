"""Answers that problems of several types share."""

from __future__ import annotations

import numpy as np

from accelerated.compiled.problems import oracles
from accelerated.compiled.problems.alignments import AlignmentProblem
from accelerated.compiled.problems.arcs import ArcProblem
from accelerated.compiled.problems.candidates import CandidateProblem
from accelerated.compiled.problems.classes import ClassProblem
from accelerated.compiled.problems.edges import EDGES, EdgeEntropyProblem, EdgeMaxProblem
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.problems.pairs import rows_of
from accelerated.compiled.problems.segmentations import SegmentationProblem
from accelerated.compiled.problems.segments import SegmentProblem
from accelerated.compiled.problems.sequence import longest_of, new_work
from accelerated.compiled.problems.sequence_entropy import EntropyProblem
from accelerated.compiled.problems.sequence_max import MaxProblem
from accelerated.compiled.problems.sequence_top_k import TopKProblem
from accelerated.compiled.problems.trees import TreeEntropyProblem, TreeMaxProblem
from accelerated.compiled.sweeps import load

SEQUENCES = (MaxProblem, EntropyProblem, TopKProblem)
TREES = (TreeMaxProblem, TreeEntropyProblem)
OTHERS = (AlignmentProblem, ArcProblem, CandidateProblem, ClassProblem, SegmentationProblem)
HINGES = (EdgeMaxProblem, MaxProblem, SegmentProblem, TreeMaxProblem)
CHEAP = (*HINGES, AlignmentProblem, ArcProblem, SegmentationProblem)  # storing costs as much


@answers(oracles.parent, *SEQUENCES, *EDGES, inlined=True)
def position_before(problem, i, t):
    return t - 1


@answers(oracles.room, MaxProblem, EntropyProblem, *TREES)
def room_of_sequences(problem, batch, lo, hi, A):
    return new_work(longest_of(problem, batch, lo, hi), A.shape[1])


@answers(oracles.touched, *SEQUENCES, *TREES)
def touched_by_positions(problem, i):
    return rows_of(problem, i)


@answers(oracles.touched, AlignmentProblem, CandidateProblem, SegmentationProblem)
def none_touched(problem, i):
    return np.empty(0, np.int64)


@answers(oracles.prepared, EdgeMaxProblem, MaxProblem, TopKProblem)
def prepared_matrix(problem, A, mu, work):
    load(A[0], 1.0, work.matrix)
    return work.matrix


@answers(oracles.prepared, *OTHERS)
def nothing_prepared(problem, A, mu, work):
    return 0


@answers(oracles.only_value, *OTHERS, *EDGES, MaxProblem, SegmentProblem, TopKProblem, *TREES)
def value_of_oracle(problem, i, s, W, A, ready, mu, work):
    return oracles.oracle(problem, i, s, W, A, ready, mu, work)


@answers(oracles.task_loss, AlignmentProblem, ArcProblem, SegmentationProblem)
def task_loss_of_oracle(problem, i, work):
    return work.numbers[0]


@answers(oracles.exact, *CHEAP, EdgeEntropyProblem, EntropyProblem, TreeEntropyProblem)
def always_exact(problem, work):
    return True


@answers(oracles.add_rows, AlignmentProblem, CandidateProblem, SegmentationProblem)
def no_rows(problem, i, factor, work, G):
    pass


@answers(oracles.add_dense, ArcProblem, ClassProblem)
def no_dense(problem, i, factor, work, G):
    pass


@answers(oracles.flush, *OTHERS, *EDGES, MaxProblem, SegmentProblem, TopKProblem, TreeMaxProblem)
def nothing_to_flush(problem, factor, ready, work, G):
    pass


@answers(oracles.remember, *CHEAP)
def never_stored(problem, i, work, kept):
    pass


@answers(oracles.recall, *HINGES)
def not_stored(problem, i, kept, work):
    return False


@answers(oracles.remember, ClassProblem, TopKProblem)
def remember_rows_alone(problem, i, work, kept):
    oracles.remember_rows(problem, i, work, kept)


@answers(oracles.recall, ClassProblem, TopKProblem)
def recall_rows_alone(problem, i, kept, work):
    if len(kept.outputs) == 0 or kept.outputs[i] < 0:
        return False
    oracles.recall_rows(problem, i, kept, work)
    return True


@answers(oracles.subtract, *HINGES, TopKProblem)
def not_subtracted(problem, i, work, other):
    pass


@answers(oracles.add_difference, *HINGES, TopKProblem)
def add_and_subtract(problem, i, factor, work, other, G):
    oracles.add_rows(problem, i, factor, work, G)
    oracles.add_rows(problem, i, -factor, other, G)


@answers(oracles.add_difference, ClassProblem, EdgeEntropyProblem, EntropyProblem, TreeEntropyProblem)
def add_subtracted(problem, i, factor, work, other, G):
    oracles.add_rows(problem, i, factor, work, G)
