"""Linear chains (conditional random fields) over scores of an encoder.

score(y) = sum_t unary[t, y_t] + sum_{t>=1} pairwise[y_{t-1}, y_t] + starts[y_first] + ends[y_last]

All functions take unary (..., n, L), pairwise (L, L), or (..., n-1, L, L) with a table for each edge, and by name

- mask (..., n) bool, or lengths (...,): the positions that belong to a chain. Positions off the mask are left out, and
  their neighbours adjoin; the score of an edge belongs to its later position. A chain may have no positions.
- starts, ends (L,): scores of the labels at the first and at the last position that is left.

-inf forbids. Half precision is computed in float32. Errors are ValueErrors and TypeErrors that name the argument, or
:class:`reference.InfeasibleError` if every labelling of a chain is forbidden. docs/layers.md says which derivatives
there are.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import torch
from torch import Tensor

from diptych.layers.torch import formulas
from diptych.layers.torch.arguments import ChainArguments, chain_arguments, label_tensor, undifferentiated
from diptych.layers.torch.operators import Mean, checked_labels, fused, gold_score, gradient_of, value_of
from diptych.layers.torch.oracles import chain_best, chain_k_best, chain_max_marginals, chain_sample
from reference.arrays import integer, number
from reference.smoothings import Max

__all__ = [
    "Best",
    "KBest",
    "Parts",
    "best",
    "best_labels",
    "crf_loss",
    "entropy",
    "hinge_loss",
    "kl",
    "log_partition",
    "marginals",
    "max_marginals",
    "sample",
    "score",
    "smooth_hinge_loss",
    "smooth_max",
    "topk",
]

OF = sys.modules[__name__]  # what the formulas call


class Best(NamedTuple):
    """value (...,), the highest score; labels (..., n), -1 off the mask."""

    value: Tensor
    labels: Tensor


class KBest(NamedTuple):
    """scores (..., k) from high to low, then -inf; labels (..., k, n), -1 off the mask and beyond count (...,)."""

    scores: Tensor
    labels: Tensor
    count: Tensor


class Parts(NamedTuple):
    """Numbers of labels, unary (..., n, L), and of pairs of neighbours, shaped like pairwise."""

    unary: Tensor
    pairwise: Tensor


def log_partition(unary: Tensor, pairwise: Tensor, *, mu: float = 1.0, **where: Any) -> Tensor:
    """mu log sum_y exp(score(y) / mu), (...,); 0 for a chain without positions."""
    given = chain_arguments(unary, pairwise, **where)
    return given.shaped(_value(given, number("mu", mu, positive=True)))


def marginals(unary: Tensor, pairwise: Tensor, *, mu: float = 1.0, **where: Any) -> Parts:
    """P(y_t = i) and P(y_{t-1} = i, y_t = j) where P(y) is proportional to exp(score(y) / mu).

    Of transitions that chains share: the expected number of each, in all chains together.
    """
    given, mu = chain_arguments(unary, pairwise, **where), number("mu", mu, positive=True)
    ones = given.unary.new_ones(given.unary.shape[:2])
    nodes, edges, _, _ = gradient_of(ones, *given.scores, None, given.mask, mu)
    return Parts(nodes.reshape(unary.shape), edges.reshape(pairwise.shape))


def best(unary: Tensor, pairwise: Tensor, **where: Any) -> Best:
    """The highest score, whose gradient is the indicator of the best labels, and these; ties go to one of them."""
    given = chain_arguments(unary, pairwise, **where)
    labels = chain_best(*given.detached, given.mask)
    return Best(given.shaped(gold_score(given.scores, labels, given.mask)), given.shaped(labels))


def best_labels(unary: Tensor, pairwise: Tensor, **where: Any) -> Tensor:
    """The labels (..., n) of :func:`best` alone."""
    given = chain_arguments(unary, pairwise, **where)
    labels: Tensor = given.shaped(chain_best(*given.detached, given.mask))
    return labels


def topk(unary: Tensor, pairwise: Tensor, k: int, **where: Any) -> KBest:
    """The k best distinct labellings."""
    given = chain_arguments(unary, pairwise, **where)
    labels, count = chain_k_best(*given.detached, given.mask, integer("k", k, 1))
    there = torch.arange(k, device=labels.device) < count[..., None]
    scores = torch.where(there, _scores_of(given, labels), -torch.inf)
    return KBest(given.shaped(scores), given.shaped(labels), given.shaped(count))


def max_marginals(unary: Tensor, pairwise: Tensor, **where: Any) -> Parts:
    """The highest score of a labelling with each label, (..., n, L), and pair, (..., n-1, L, L); no derivatives."""
    given = chain_arguments(unary, pairwise, **where)
    nodes, edges = (undifferentiated(x, *given.scores) for x in chain_max_marginals(*given.detached, given.mask))
    return Parts(nodes.reshape(unary.shape), given.shaped(edges))


def sample(
    unary: Tensor, pairwise: Tensor, size: int = 1, *, mu: float = 1.0, generator: Any = None, **where: Any
) -> Tensor:
    """Labels (..., size, n) drawn with probability proportional to exp(score / mu)."""
    given, mu = chain_arguments(unary, pairwise, **where), number("mu", mu, positive=True)
    _, B, n, _ = given.unary.shape
    shape = (1, B, integer("size", size, 1), n)
    uniforms = torch.rand(shape, generator=generator, dtype=given.unary.dtype, device=given.unary.device)
    return given.shaped(chain_sample(*given.detached, given.mask, uniforms, mu))


def score(unary: Tensor, pairwise: Tensor, labels: Tensor, **where: Any) -> Tensor:
    """The score (...,) of labels (..., n); those off the mask are ignored."""
    given = chain_arguments(unary, pairwise, **where)
    y = _labels(given, label_tensor("labels", labels, unary))
    return given.shaped(gold_score(given.scores, y, given.mask))


def entropy(unary: Tensor, pairwise: Tensor, **where: Any) -> Tensor:
    """-sum_y P(y) log P(y), (...,), where P(y) is proportional to exp(score(y))."""
    return formulas.entropy(chain_arguments(unary, pairwise, **where), _value, _mean)


def kl(unary: Tensor, pairwise: Tensor, other_unary: Tensor, other_pairwise: Tensor, **where: Any) -> Tensor:
    """sum_y P(y) log (P(y) / Q(y)), (...,), P of the first scores and Q of the others; inf where Q forbids what P does
    not. starts and ends belong to both.
    """
    p, q = (chain_arguments(*scores, **where) for scores in ((unary, pairwise), (other_unary, other_pairwise)))
    return formulas.kl(p, q, _value, _mean)


def smooth_max(unary: Tensor, pairwise: Tensor, smoothing: Any, mu: float, **where: Any) -> Tensor:
    """The smoothed max (...,) over labellings, by a smoothing of :mod:`reference.smoothings`.

    Source: Pillutla et al., Definition 6.
    """
    return formulas.smooth_max(OF, (unary, pairwise), smoothing, mu, where)


def crf_loss(unary: Tensor, pairwise: Tensor, labels: Tensor, **where: Any) -> Tensor:
    """-log P(labels), (...,): the log-partition less the score of labels (..., n); labels off the mask are ignored."""
    given = chain_arguments(unary, pairwise, **where)
    y = label_tensor("labels", labels, unary).reshape(given.unary.shape[:3])
    if fused(given.unary, given.pairwise):
        return given.shaped(value_of(*given.scores, y, given.mask, 1.0))
    gold = gold_score(given.scores, _labels(given, y), given.mask)
    return given.shaped(_value(given, 1.0) - gold)


def hinge_loss(unary: Tensor, pairwise: Tensor, labels: Tensor, cost: float | Tensor = 1.0, **where: Any) -> Tensor:
    """max_y cost(y, labels) + score(y) - score(labels), (...,).

    cost: of each wrong label, or a matrix (L, L), of (label, predicted label), summed over positions.
    """
    return smooth_hinge_loss(unary, pairwise, labels, Max(), 0.0, cost, **where)


def smooth_hinge_loss(
    unary: Tensor, pairwise: Tensor, labels: Tensor, smoothing: Any, mu: float, cost: float | Tensor = 1.0, **where: Any
) -> Tensor:
    """:func:`hinge_loss` with :func:`smooth_max` in place of the max. Source: Pillutla et al., Definition 1."""
    augmented = formulas.augmented(unary, labels, cost)
    return smooth_max(augmented, pairwise, smoothing, mu, **where) - score(augmented, pairwise, labels, **where)


def _labels(given: ChainArguments, labels: Tensor) -> Tensor:
    """Labels (1, B, n), checked on the mask."""
    y: Tensor = checked_labels(labels.reshape(given.unary.shape[:3]), given.mask, given.unary.shape[-1])
    return y


def _scores_of(given: ChainArguments, labels: Tensor) -> Tensor:
    """The scores (1, B, k) of labels (1, B, k, n), 0 where they are -1."""
    _, B, k, n = labels.shape
    unary, pairwise, starts, ends = given.scores
    unary = unary[:, :, None].expand(1, B, k, *unary.shape[2:]).reshape(1, B * k, *unary.shape[2:])
    if pairwise.ndim > 3:
        pairwise = pairwise[:, :, None].expand(1, B, k, *pairwise.shape[2:]).reshape(1, B * k, *pairwise.shape[2:])
    kept = labels >= 0
    return gold_score((unary, pairwise, starts, ends), labels.reshape(1, B * k, n), kept.reshape(1, B * k, n)).reshape(
        1, B, k
    )


def _value(given: ChainArguments, mu: float) -> Tensor:
    return value_of(*given.scores, None, given.mask, mu)


def _mean(given: ChainArguments, direction: Any) -> Tensor:
    """<marginals, direction>, (1, B)."""
    mean: Tensor = Mean.apply(*given.scores, *direction, given.mask, 1.0)
    return mean
