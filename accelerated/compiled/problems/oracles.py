"""The questions that a packed problem answers. Each has one body for each type of problem, so that loops are written
once.

A problem is a NamedTuple of packed examples. Its weights are two arrays: the rows of W (F, Lp), of which an example
touches few, and A (1, p, q), of which it may touch all; either may be empty. For one example i:

    work = room(problem, batch, lo, hi, A)              once, for examples batch[lo:hi]
    ready = prepared(problem, A, mu, work)              once for each A
    loss = oracle(problem, i, s, W, A, ready, mu, work) the (smoothed) loss at weights s W, A
    add_rows(problem, i, factor, work, G)               G (F, Lp) += factor * its gradient in W
    add_dense(problem, i, factor, work, G)              G (1, p, q) += factor * its gradient in A, except what ...
    flush(problem, factor, ready, work, G)              ... waits for this call: all since the last flush
    task_loss(problem, i, work)                         the mean task loss under the oracle's weights
    exact(problem, work)                                whether the oracle's answer equals that of the smoothing
    only_value(problem, i, s, W, A, ready, mu, work)    the loss as by oracle, bit for bit; work holds no gradient
    touched(problem, i)                                 the rows of W that it touches, some of them more than once

and, for passes that use an answer again (:mod:`accelerated.compiled.problems.answers`),

    remember(problem, i, work, kept)                    stores the oracle's answer; call flush just before
    recall(problem, i, kept, work)                      restores work as after the oracle; False: not stored
    remember_rows, recall_rows                          the same for the part that ``add_rows`` needs
    subtract(problem, i, work, other)                   before add_difference: work's answer less that of other
    add_difference(problem, i, factor, work, other, G)  G (F, Lp) += factor * (gradient in work - that in other)

and, where positions have labels (:mod:`accelerated.compiled.problems.sequence`),

    parent(problem, i, t)                               the position above t; in a sequence t - 1; -1: none
    decode(problem, i, A, work)                         the best value of work.scores and A; work.labels: its labels

and, for block-coordinate Frank-Wolfe (:mod:`accelerated.compiled.problems.working_sets`),

    scratch = visiting(problem, order, sets, w)         once, for examples ``order``
    join_best(problem, i, capacity, sets, w, scratch)   the best output joins the set of example i
    score_set(problem, i, joined, sets, w, scratch)     g = scores of its outputs, up to what all have in common
    move(problem, i, factor, S, sets, w, sums, scratch) w += factor * sum_a change_a v_a, sums += S times that

The Python functions of these names only carry the bodies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from numba.extending import overload

from accelerated.kernel import part_options

__all__ = [
    "add_dense",
    "add_difference",
    "add_rows",
    "answers",
    "decode",
    "exact",
    "flush",
    "join_best",
    "move",
    "only_value",
    "oracle",
    "parent",
    "prepared",
    "recall",
    "recall_rows",
    "remember",
    "remember_rows",
    "room",
    "score_set",
    "subtract",
    "task_loss",
    "touched",
    "visiting",
]


def answers(question: Callable[..., Any], *types: type, inlined: bool = False) -> Callable[..., Any]:
    """Mark a kernel as the body of ``question`` for these types of problems; numba selects it when a loop is
    compiled.
    """

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        @overload(question, jit_options=part_options(forceinline=inlined))
        @wraps(body)  # numba requires the same signature of both
        def choose(problem: Any, *rest: Any) -> Callable[..., Any] | None:
            return body if problem.instance_class in types else None

        return body

    return register


def room(problem: Any, batch: Any, lo: Any, hi: Any, A: Any) -> Any:
    """Room for any one of the examples batch[lo:hi]."""
    raise TypeError("room is called from kernels only")


def prepared(problem: Any, A: Any, mu: Any, work: Any) -> Any:
    """What the oracle needs from A, computed once."""
    raise TypeError("prepared is called from kernels only")


def oracle(problem: Any, i: Any, s: Any, W: Any, A: Any, ready: Any, mu: Any, work: Any) -> Any:
    """The loss of example i; the workspace then holds its gradient."""
    raise TypeError("oracle is called from kernels only")


def only_value(problem: Any, i: Any, s: Any, W: Any, A: Any, ready: Any, mu: Any, work: Any) -> Any:
    """The loss of example i without its gradient."""
    raise TypeError("only_value is called from kernels only")


def add_rows(problem: Any, i: Any, factor: Any, work: Any, G: Any) -> Any:
    """G (F, Lp) += factor * the gradient of example i in W."""
    raise TypeError("add_rows is called from kernels only")


def add_dense(problem: Any, i: Any, factor: Any, work: Any, G: Any) -> Any:
    """G (1, p, q) += factor * the gradient in A, except for the part that waits for ``flush``."""
    raise TypeError("add_dense is called from kernels only")


def flush(problem: Any, factor: Any, ready: Any, work: Any, G: Any) -> Any:
    """G (1, p, q) += factor * the part gathered since the last flush."""
    raise TypeError("flush is called from kernels only")


def task_loss(problem: Any, i: Any, work: Any) -> Any:
    """The mean task loss of example i under the oracle's weights."""
    raise TypeError("task_loss is called from kernels only")


def exact(problem: Any, work: Any) -> Any:
    """Whether the oracle's answer equals that of the smoothing itself."""
    raise TypeError("exact is called from kernels only")


def touched(problem: Any, i: Any) -> Any:
    """The rows of W that example i touches, some of them more than once."""
    raise TypeError("touched is called from kernels only")


def remember(problem: Any, i: Any, work: Any, kept: Any) -> Any:
    """Store the oracle's answer for example i."""
    raise TypeError("remember is called from kernels only")


def recall(problem: Any, i: Any, kept: Any, work: Any) -> Any:
    """Put the stored answer for example i into the workspace; False if it was not stored."""
    raise TypeError("recall is called from kernels only")


def remember_rows(problem: Any, i: Any, work: Any, kept: Any) -> Any:
    """Store the part of the answer that ``add_rows`` needs."""
    raise TypeError("remember_rows is called from kernels only")


def recall_rows(problem: Any, i: Any, kept: Any, work: Any) -> Any:
    """Put the part that ``add_rows`` needs into the workspace."""
    raise TypeError("recall_rows is called from kernels only")


def subtract(problem: Any, i: Any, work: Any, other: Any) -> Any:
    """Before ``add_difference``: subtract the answer in ``other`` from the one in ``work``, for example i."""
    raise TypeError("subtract is called from kernels only")


def add_difference(problem: Any, i: Any, factor: Any, work: Any, other: Any, G: Any) -> Any:
    """G (F, Lp) += factor * (the gradient in W of work - that of other), after ``subtract``."""
    raise TypeError("add_difference is called from kernels only")


def parent(problem: Any, i: Any, t: Any) -> Any:
    """The position above t of example i, or -1."""
    raise TypeError("parent is called from kernels only")


def decode(problem: Any, i: Any, A: Any, work: Any) -> Any:
    """The best value of work.scores (which change) and the prepared A; its labels go to work.labels."""
    raise TypeError("decode is called from kernels only")


def visiting(problem: Any, order: Any, sets: Any, w: Any) -> Any:
    """Room for visits to examples ``order``: g, change and spread (outputs,), and what the other questions need."""
    raise TypeError("visiting is called from kernels only")


def join_best(problem: Any, i: Any, capacity: Any, sets: Any, w: Any, scratch: Any) -> Any:
    """The best output joins the set of example i. In a full set it takes the place of an idle one."""
    raise TypeError("join_best is called from kernels only")


def score_set(problem: Any, i: Any, joined: Any, sets: Any, w: Any, scratch: Any) -> Any:
    """scratch.g = the scores of the outputs of example i, up to what all have in common; ``joined``: whether
    ``join_best`` came just before.
    """
    raise TypeError("score_set is called from kernels only")


def move(problem: Any, i: Any, factor: Any, S: Any, sets: Any, w: Any, sums: Any, scratch: Any) -> Any:
    """w += factor * the sum of changes times directions; sums += S times that, if sums are kept. Returns the change of
    the weighted losses.
    """
    raise TypeError("move is called from kernels only")
