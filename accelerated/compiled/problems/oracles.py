"""What a packed problem answers, each question with one body for each type of problem. One example is

    work = new_work(longest, L, outputs_of(problem))      once
    ready = prepared(problem, A, mu, work)                once for each A
    loss = oracle(problem, i, s, W, A, ready, mu, work)   scores, then the (smoothed) max
    add_features(problem, i, factor, work, G)             G (F, Lp) += factor * (features of the (smoothed) best - of the truth)
    add_transitions(problem, i, factor, work, G)          G (1, L, L) likewise, but for expected transitions ...
    flush(problem, factor, ready, work, G)                ... which wait for this: all since the last flush
    task_loss(problem, i, work)                           its mean under the oracle's weights
    exact(problem, work)                                  whether the oracle's answer is that of the smoothing itself

The Python functions of these names are only the places that the bodies hang on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from numba.extending import overload

__all__ = [
    "add_features",
    "add_transitions",
    "answers",
    "exact",
    "flush",
    "oracle",
    "outputs_of",
    "prepared",
    "task_loss",
]


def answers(question: Callable[..., Any], problem_type: type) -> Callable[..., Any]:
    """Mark a kernel as the body of ``question`` for one type of problem; numba picks it when a loop is compiled."""

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        @overload(question)
        @wraps(body)  # numba wants both to have one signature
        def choose(problem: Any, *rest: Any) -> Callable[..., Any] | None:
            return body if problem.instance_class is problem_type else None

        return body

    return register


def outputs_of(problem: Any) -> Any:
    """How many outputs of a sequence the oracle keeps: k, or 0 where it keeps labels or marginals instead."""
    raise TypeError("outputs_of is called from kernels only")


def prepared(problem: Any, A: Any, mu: Any, work: Any) -> Any:
    """What the oracle needs of the transition weights."""
    raise TypeError("prepared is called from kernels only")


def oracle(problem: Any, i: Any, s: Any, W: Any, A: Any, ready: Any, mu: Any, work: Any) -> Any:
    """The loss of sequence i; the workspace then holds its gradient."""
    raise TypeError("oracle is called from kernels only")


def add_features(problem: Any, i: Any, factor: Any, work: Any, G: Any) -> Any:
    """G (F, Lp) += factor * the gradient of sequence i with respect to the feature weights."""
    raise TypeError("add_features is called from kernels only")


def add_transitions(problem: Any, i: Any, factor: Any, work: Any, G: Any) -> Any:
    """G (1, L, L) += factor * the gradient with respect to the transitions, but for what waits for ``flush``."""
    raise TypeError("add_transitions is called from kernels only")


def flush(problem: Any, factor: Any, ready: Any, work: Any, G: Any) -> Any:
    """G (1, L, L) += factor * the expected transitions gathered since the last flush."""
    raise TypeError("flush is called from kernels only")


def task_loss(problem: Any, i: Any, work: Any) -> Any:
    """The mean task loss of sequence i under the oracle's weights."""
    raise TypeError("task_loss is called from kernels only")


def exact(problem: Any, work: Any) -> Any:
    """Whether the oracle's answer is that of the smoothing itself."""
    raise TypeError("exact is called from kernels only")
