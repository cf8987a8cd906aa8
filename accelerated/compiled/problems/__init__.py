"""Packed sequence problems and their oracles, chosen by the problem's type.

A problem's fields are as :mod:`accelerated.compiled.problems.sequence` says, its type says which oracle answers
(:mod:`accelerated.compiled.problems.oracles`): ``MaxProblem``, ``EntropyProblem`` and ``TopKProblem`` each have a file. Loops import all
from here, so that the bodies for every type are known when they are compiled.
"""

from accelerated.compiled.problems.oracles import (
    add_features,
    add_transitions,
    exact,
    flush,
    oracle,
    outputs_of,
    prepared,
    task_loss,
)
from accelerated.compiled.problems.sequence import Work, augmented_scores, gather, longest_of, new_work
from accelerated.compiled.problems.sequence_entropy import EntropyProblem
from accelerated.compiled.problems.sequence_max import MaxProblem
from accelerated.compiled.problems.sequence_top_k import TopKProblem

__all__ = [
    "EntropyProblem",
    "MaxProblem",
    "TopKProblem",
    "Work",
    "add_features",
    "add_transitions",
    "augmented_scores",
    "exact",
    "flush",
    "gather",
    "longest_of",
    "new_work",
    "oracle",
    "outputs_of",
    "prepared",
    "task_loss",
]
