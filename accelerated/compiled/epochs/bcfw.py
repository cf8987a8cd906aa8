"""Block-coordinate Frank-Wolfe over the examples of a problem: a pass of visits.

Scores of outputs matter up to a number common to an example's outputs, and steps use only scores and squared distances
(:mod:`accelerated.compiled.epochs.bcfw_steps`), so weights change once a visit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.epochs.bcfw_steps import frank_wolfe_step, pairwise_steps, visit_begins
from accelerated.compiled.problems import join_best, move, score_set, visiting
from accelerated.kernel import kernel
from reference.optimizers.bcfw import EQUAL, PAIRWISE_SHARE

__all__ = ["Done", "Visits", "bcfw_pass"]


class Visits(NamedTuple):
    """Examples in ``order``. oracle: whether visits call the oracle; if not, examples that are not restless are
    skipped. pairwise: whether visits take pairwise steps. capacity: of sets. line_search: whether to use line search,
    or steps 2n / (2n + t). average: whether means are computed.
    """

    order: np.ndarray
    oracle: bool
    pairwise: bool
    lam_n: float
    capacity: int
    line_search: bool
    average: bool


class Done(NamedTuple):
    """Number of visits so far, the weighted losses and their mean."""

    t: int
    loss: float
    mean_loss: float


@kernel
def bcfw_pass(problem, visits, done, sets, w, sums):
    """A visit for each example: sets and w change in place. Returns the fields of the next ``Done`` as a plain tuple.

    With ``average``, ``sums`` gathers each change of w times the sum of the numbers of this pass's earlier visits. The
    sum over visits s of s w_s is then S w - U, with S the sum of all numbers and U the sums.
    """
    order, oracle, pairwise, lam_n, capacity, line_search, average = visits
    t, loss, mean_loss = done
    scratch = visiting(problem, order, sets, w)
    n, S = len(order), 0.0
    for k in range(n):
        i = order[k]
        if not oracle and not sets.restless[i]:
            continue
        if oracle:
            join_best(problem, i, capacity, sets, w, scratch)
        if sets.outputs[i] > 1:
            score_set(problem, i, oracle, sets, w, scratch)
            best, violation, largest_loss = visit_begins(sets, i, scratch)
            sets.restless[i], moves = violation > EQUAL * largest_loss, False
            if oracle:
                fixed = -1.0 if line_search else 2.0 * n / (2.0 * n + t)
                moves |= frank_wolfe_step(sets, i, best, lam_n, fixed, scratch)
            if pairwise:
                moves |= pairwise_steps(sets, i, lam_n, PAIRWISE_SHARE * violation, scratch)
            if moves:
                loss += move(problem, i, -1.0 / lam_n, S, sets, w, sums, scratch) / n
        t += 1
        S += t
        mean_loss += (2.0 / (t + 1.0) if average else 1.0) * (loss - mean_loss)
    return (
        t,
        loss,
        mean_loss,
    )  # no NamedTuple: numba would build it in Python code, where a Ctrl-C ends the process
