"""Packed problems and their questions: the type of a problem determines which bodies answer.

:mod:`accelerated.compiled.problems.oracles` has the questions. The problems have a file each: sequences by max-product,
entropy and top-K, with features of pairs of neighbours, trees, tokens under heads, candidates of images, classes,
alignments, graphs to segment, segments. Loops import everything from here, so that the bodies for every type are known
when the loops are compiled.
"""

from accelerated.compiled.problems import (  # noqa: F401 (their bodies)
    alignment_sets,
    arc_sets,
    candidate_sets,
    class_sets,
    oracles,
    sequence_sets,
    shared,
)
from accelerated.compiled.problems.alignments import AlignmentProblem
from accelerated.compiled.problems.arcs import ArcProblem
from accelerated.compiled.problems.candidates import CandidateProblem
from accelerated.compiled.problems.classes import ClassProblem
from accelerated.compiled.problems.edges import EdgeEntropyProblem, EdgeMaxProblem
from accelerated.compiled.problems.oracles import *  # noqa: F403
from accelerated.compiled.problems.segmentations import Entries, SegmentationProblem
from accelerated.compiled.problems.segments import SegmentProblem
from accelerated.compiled.problems.sequence import Work, augmented_scores, gather, longest_of, new_work
from accelerated.compiled.problems.sequence_entropy import EntropyProblem
from accelerated.compiled.problems.sequence_max import MaxProblem
from accelerated.compiled.problems.sequence_top_k import TopKProblem
from accelerated.compiled.problems.trees import TreeEntropyProblem, TreeMaxProblem

__all__ = [
    *oracles.__all__,
    "AlignmentProblem",
    "ArcProblem",
    "CandidateProblem",
    "ClassProblem",
    "EdgeEntropyProblem",
    "EdgeMaxProblem",
    "Entries",
    "EntropyProblem",
    "MaxProblem",
    "SegmentProblem",
    "SegmentationProblem",
    "TopKProblem",
    "TreeEntropyProblem",
    "TreeMaxProblem",
    "Work",
    "augmented_scores",
    "gather",
    "longest_of",
    "new_work",
]
