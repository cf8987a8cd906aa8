"""crfsuite's objective from sequences of features and labels, and its optimum by our solvers.

    sum_i -log p(y_i | x_i; w) + c1 ||w||_1 + c2 ||w||^2

It is n times ours for n sequences: l1 = c1/n, lam = 2 c2/n. A fit ends as soon as the duality gap, a bound on the
distance to the optimum, is at most epsilon times the objective.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import accelerated
from diptych.crfsuite.model_files import CrfsuiteModel
from diptych.elastic_net import elastic_net
from reference.arrays import Array, host
from reference.models.token_templates import TokenAttributes
from reference.training.result import Result, Row

__all__ = ["Features", "Sequence", "features_of", "minimised", "model_of_weights"]

EPOCHS = 200  # of exponentiated gradient, before L-BFGS goes on from its weights
NO_BOUND = 2**31 - 1  # of iterations, as in crfsuite


class Sequence(NamedTuple):
    """Numbers of features (m,) and their values (m,), how many each of the n tokens has (n,), and labels (n,)."""

    numbers: np.ndarray
    values: np.ndarray
    counts: np.ndarray
    labels: np.ndarray


class Features(NamedTuple):
    """The weights of a model: attribute-label pairs (m,) and transitions (k,), as ``TaggingModel`` numbers them."""

    pairs: np.ndarray
    label_pairs: np.ndarray


def joined(sequences: list[Sequence], names: list[str]) -> TokenAttributes:
    """Sequences as a tagger packs them."""
    empty = np.zeros(0, np.int64)
    counts = np.concatenate([empty, *(each.counts for each in sequences)])
    return TokenAttributes(
        np.cumsum([0, *(len(each.counts) for each in sequences)], dtype=np.int64),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.concatenate([empty, *(each.numbers for each in sequences)]),
        np.concatenate([np.zeros(0), *(each.values for each in sequences)]),
        names,
    )


def features_of(sequences: list[Sequence], L: int, least: float, *, states: bool, moves: bool) -> Features:
    """The features that crfsuite generates, with L labels.

    The frequency of a pair is the sum of its values in the sequences, and that of a transition is how often it occurs.
    A feature is kept if its frequency is at least ``least``. Those that do not occur have frequency 0, and are
    generated with ``states`` (for attributes that occur) and ``moves``.
    """
    numbers = np.concatenate([np.zeros(0, np.int64), *(each.numbers for each in sequences)])
    values = np.concatenate([np.zeros(0), *(each.values for each in sequences)])
    labels = [np.repeat(each.labels, each.counts) for each in sequences]
    cells = numbers * L + np.concatenate([np.zeros(0, np.int64), *labels])
    following = [each.labels[:-1] * L + each.labels[1:] for each in sequences]
    pairs, of = np.unique(cells, return_inverse=True)
    often: np.ndarray = np.bincount(of, values, len(pairs))
    if states:
        every = (np.unique(numbers)[:, None] * L + np.arange(L)).reshape(-1)
        frequency = np.zeros(len(every))
        frequency[np.searchsorted(every, pairs)] = often
        pairs, often = every, frequency
    times: np.ndarray = np.bincount(np.concatenate([np.zeros(0, np.int64), *following]), minlength=L * L)
    kept = (times >= least) & (moves | (times > 0))
    return Features(pairs[often >= least], np.flatnonzero(kept))


def minimised(
    objective: Any,
    c1: float,
    c2: float,
    epsilon: float,
    iterations: int,
    callback: Callable[[int, float, float | None, Array], bool],
) -> tuple[np.ndarray, bool, str]:
    """The weights, whether the optimum is reached, and a message.

    ``callback(k, fun, gap, w)`` gets the number of each iteration, the objective and the gap in crfsuite's scale (None:
    unknown), and the weights; True ends the run. With c1 = c2 = 0 there is no gap, and the run ends when the largest
    entry of the gradient of the mean loss is at most epsilon.
    """
    n, l1, lam = objective.n, c1 / objective.n, 2.0 * c2 / objective.n
    done, ended = 0, False

    def each(row: Row, w: Array) -> bool:
        nonlocal ended
        ended = bool(callback(done + row.epoch, n * row.objective, None if row.gap is None else n * row.gap, w))
        return ended or (row.gap is not None and row.gap <= epsilon * row.objective)

    result: Result | Any
    if l1:
        result = elastic_net(objective, l1=l1, lam=lam, tol=epsilon, iterations=iterations, callback=each)
        return host(result.x), ended or bool(result.success), result.message
    w0 = None
    if lam:
        epochs = min(iterations, EPOCHS)
        result = accelerated.exponentiated_gradient(
            objective, lam=lam, tol=epsilon, epochs=epochs, rng=0, callback=each
        )
        if ended or result.interrupted or result.success or epochs == iterations:
            return host(result.x), ended or bool(result.success), result.message
        w0, done = result.x, result.nit
    tol, more = None if lam else epsilon, iterations - done
    result = accelerated.lbfgs(objective, w0, lam=lam, tol=tol, iterations=more, callback=each)
    small = not lam or (not result.interrupted and float(result.certificate) <= epsilon * result.fun)
    return host(result.x), ended or bool(result.success and small), result.message


def model_of_weights(labels: list[str], names: list[str], features: Features, w: np.ndarray) -> CrfsuiteModel:
    """The model as crfsuite keeps it: weights that are not 0, and attributes that have one."""
    L = len(labels)
    state_weights, weights = np.split(w, [len(features.pairs)])
    states = np.stack(np.divmod(features.pairs[state_weights != 0], L), 1)
    moves = np.stack(np.divmod(features.label_pairs[weights != 0], L), 1)
    used, states[:, 0] = np.unique(states[:, 0], return_inverse=True)
    attributes = tuple(names[i] for i in used.tolist())
    state_weights, weights = state_weights[state_weights != 0], weights[weights != 0]
    return CrfsuiteModel(tuple(labels), attributes, states, state_weights, moves, weights)
