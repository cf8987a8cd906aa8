"""Losses without gradients, for problems whose oracles find both at once."""

from __future__ import annotations

from accelerated.compiled.problems import oracles
from accelerated.compiled.problems.alignments import AlignmentProblem
from accelerated.compiled.problems.arcs import ArcProblem
from accelerated.compiled.problems.candidates import CandidateProblem
from accelerated.compiled.problems.classes import ClassProblem
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.problems.segmentations import SegmentationProblem
from accelerated.compiled.problems.sequence_max import MaxProblem
from accelerated.compiled.problems.sequence_top_k import TopKProblem
from accelerated.compiled.problems.trees import TreeEntropyProblem, TreeMaxProblem


@answers(
    oracles.only_value,
    AlignmentProblem,
    ArcProblem,
    CandidateProblem,
    ClassProblem,
    MaxProblem,
    SegmentationProblem,
    TopKProblem,
    TreeEntropyProblem,
    TreeMaxProblem,
)
def only_value(problem, i, s, W, A, ready, mu, work):
    return oracles.oracle(problem, i, s, W, A, ready, mu, work)
