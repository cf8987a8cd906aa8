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
    own_transitions(problem, i, s, W, work)             before decode, in a sequence: the scores of features of pairs
    decode(problem, i, A, work)                         the best value of work.scores and A; work.labels: its labels

and, for block-coordinate Frank-Wolfe (:mod:`accelerated.compiled.problems.working_sets`),

    scratch = visiting(problem, order, sets, w)         once, for examples ``order``
    join_best(problem, i, capacity, sets, w, scratch)   the best output joins the set of example i
    score_set(problem, i, joined, sets, w, scratch)     g = scores of its outputs, up to what all have in common
    move(problem, i, factor, S, sets, w, sums, scratch) w += factor * sum_a change_a v_a, sums += S times that, if kept

In a full set the best output takes the place of an idle one. ``joined``: whether ``join_best`` came just before.
``move`` returns the change of the weighted losses.

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
    "own_transitions",
    "parent",
    "prepared",
    "question",
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


def question(name: str) -> Callable[..., Any]:
    """A question of this name, which :func:`answers` gives its bodies."""

    def ask(*_: Any) -> Any:
        raise TypeError(f"{name} is called from kernels only")

    ask.__name__ = ask.__qualname__ = name
    return ask


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


room = question("room")
prepared = question("prepared")
oracle = question("oracle")
only_value = question("only_value")
add_rows = question("add_rows")
add_dense = question("add_dense")
flush = question("flush")
task_loss = question("task_loss")
exact = question("exact")
touched = question("touched")
remember = question("remember")
recall = question("recall")
remember_rows = question("remember_rows")
recall_rows = question("recall_rows")
subtract = question("subtract")
add_difference = question("add_difference")
parent = question("parent")
decode = question("decode")
own_transitions = question("own_transitions")
visiting = question("visiting")
join_best = question("join_best")
score_set = question("score_set")
move = question("move")
