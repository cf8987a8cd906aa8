"""Packed sequence problems and their oracles, chosen by the problem's type.

A problem's fields are as :mod:`accelerated.compiled.work` says, its type says which oracle answers
(:mod:`accelerated.compiled.oracles`): ``MaxProblem``, ``EntropyProblem`` and ``TopKProblem`` each have a file. Loops import all
from here, so that the bodies for every type are known when they are compiled.
"""

from accelerated.compiled.entropy_problem import EntropyProblem
from accelerated.compiled.max_problem import MaxProblem
from accelerated.compiled.oracles import (
    add_features,
    add_transitions,
    exact,
    flush,
    oracle,
    outputs_of,
    prepared,
    task_loss,
)
from accelerated.compiled.top_k_problem import TopKProblem
from accelerated.compiled.work import Work, augmented_scores, gather, new_work

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
    "new_work",
    "oracle",
    "outputs_of",
    "prepared",
    "task_loss",
]
