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

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

import accelerated
import reference
from diptych.layers.torch import formulas
from diptych.layers.torch.arguments import beside, floating, label_tensor, mask_of, pair_tensor
from diptych.layers.torch.formulas import Batch, Best, KBest
from diptych.layers.torch.operators import (
    Mean,
    best_of,
    check_scores,
    checked_labels,
    fused,
    gold_score,
    gradient_of,
    value_of,
)
from diptych.layers.torch.oracles import KINDS, Kind, best_outputs
from reference.arrays import number
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


class Parts(NamedTuple):
    """Numbers of labels, unary (..., n, L), and of pairs of neighbours, shaped like pairwise."""

    unary: Tensor
    pairwise: Tensor


class Chains(Batch):
    """unary (1, B, n, L), pairwise (1, L, L) or (1, B, n-1, L, L), starts and ends (1, L); mask (1, B, n) or None as
    ``where``.
    """

    kind = "chain"
    axes = 2

    def value(self, mu: float) -> Tensor:
        return value_of(self.scores, None, self.where, mu)

    def mean(self, direction: list[Tensor]) -> Tensor:
        found: Tensor = Mean.apply(*self.scores, *direction, self.where, 1.0)
        return found

    def score(self, y: Tensor) -> Tensor:
        (_, B, k, n), kept = y.shape, None if self.where is None and y.shape[2] == 1 else y >= 0
        each = [x[:, :, None].expand(1, B, k, *x.shape[2:]).flatten(1, 2) if x.ndim > 3 else x for x in self.scores]
        mask = None if kept is None else kept.reshape(1, B * k, n)
        return gold_score(each, y.reshape(1, B * k, n), mask).reshape(1, B, k)


def log_partition(unary: Tensor, pairwise: Tensor, *, mu: float = 1.0, **where: Any) -> Tensor:
    """mu log sum_y exp(score(y) / mu), (...,); 0 for a chain without positions."""
    return formulas.log_partition(_chains(unary, pairwise, **where), mu)


def marginals(unary: Tensor, pairwise: Tensor, *, mu: float = 1.0, **where: Any) -> Parts:
    """P(y_t = i) and P(y_{t-1} = i, y_t = j) where P(y) is proportional to exp(score(y) / mu).

    Of transitions that chains share: the expected number of each, in all chains together.
    """
    given, mu = _chains(unary, pairwise, **where), number("mu", mu, positive=True)
    nodes, edges, _, _ = gradient_of(given.scores, given.where, mu)
    return Parts(nodes.reshape(unary.shape), edges.reshape(pairwise.shape))


def best(unary: Tensor, pairwise: Tensor, **where: Any) -> Best:
    """The highest score, whose gradient is the indicator of the best labels, and these; ties go to one of them."""
    return formulas.best(_chains(unary, pairwise, **where))


def best_labels(unary: Tensor, pairwise: Tensor, **where: Any) -> Tensor:
    """The labels (..., n) of :func:`best` alone."""
    given = _chains(unary, pairwise, **where)
    return given.shaped(best_outputs(*given.asked))


def topk(unary: Tensor, pairwise: Tensor, k: int, **where: Any) -> KBest:
    """The k best distinct labellings."""
    return formulas.topk(_chains(unary, pairwise, **where), k)


def max_marginals(unary: Tensor, pairwise: Tensor, **where: Any) -> Parts:
    """The highest score of a labelling with each label, (..., n, L), and pair, (..., n-1, L, L); no derivatives."""
    return Parts(*formulas.max_marginals(_chains(unary, pairwise, **where)))


def sample(
    unary: Tensor, pairwise: Tensor, size: int = 1, *, mu: float = 1.0, generator: Any = None, **where: Any
) -> Tensor:
    """Labels (..., size, n) drawn with probability proportional to exp(score / mu)."""
    return formulas.sample(_chains(unary, pairwise, **where), size, mu, generator)


def score(unary: Tensor, pairwise: Tensor, labels: Tensor, **where: Any) -> Tensor:
    """The score (...,) of labels (..., n); those off the mask are ignored."""
    given = _chains(unary, pairwise, **where)
    return formulas.score(given, _labels(given, label_tensor("labels", labels, unary)))


def entropy(unary: Tensor, pairwise: Tensor, **where: Any) -> Tensor:
    """-sum_y P(y) log P(y), (...,), where P(y) is proportional to exp(score(y))."""
    return formulas.entropy(_chains(unary, pairwise, **where))


def kl(unary: Tensor, pairwise: Tensor, other_unary: Tensor, other_pairwise: Tensor, **where: Any) -> Tensor:
    """sum_y P(y) log (P(y) / Q(y)), (...,), P of the first scores and Q of the others; inf where Q forbids what P does
    not. starts and ends belong to both.
    """
    p, q = (_chains(*scores, **where) for scores in ((unary, pairwise), (other_unary, other_pairwise)))
    return formulas.kl(p, q)


def smooth_max(unary: Tensor, pairwise: Tensor, smoothing: Any, mu: float, **where: Any) -> Tensor:
    """The smoothed max (...,) over labellings, by a smoothing of :mod:`reference.smoothings`.

    Source: Pillutla et al., Definition 6.
    """
    return formulas.smooth_max(_chains(unary, pairwise, **where), smoothing, mu)


def crf_loss(unary: Tensor, pairwise: Tensor, labels: Tensor, **where: Any) -> Tensor:
    """-log P(labels), (...,): the log-partition less the score of labels (..., n); labels off the mask are ignored."""
    given = _chains(unary, pairwise, **where)
    y = label_tensor("labels", labels, unary).reshape(given.scores[0].shape[:3])
    if fused(*given.scores[:2]):
        return given.shaped(value_of(given.scores, y, given.where, 1.0))
    return given.shaped(given.value(1.0)) - formulas.score(given, _labels(given, y))


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


def _labels(given: Chains, labels: Tensor) -> Tensor:
    """Labels (1, B, n), checked on the mask, -1 off it."""
    *shape, L = given.scores[0].shape
    y: Tensor = checked_labels(labels.reshape(shape), given.where, L)
    return y if given.where is None else torch.where(given.where, y, -1)


def _best(scores: Any, mask: Any, parents: Any, single_root: bool) -> Tensor | None:
    return best_of(scores, mask)


def _made(scores: Any, mask: Any, parents: Any, single_root: bool) -> list[Any]:
    """A batch of chains for each group, with an axis of its own before it."""
    check_scores(scores, mask)
    panel, made = accelerated if scores[0].device.type == "cpu" else reference, []
    for g, (unary, pairwise, starts, ends) in enumerate(zip(*scores, strict=True)):
        here = None if mask is None else mask[g][None]
        unary = unary[None] if here is None else torch.where(here[..., None], unary[None], 0.0)
        pairwise = pairwise if pairwise.ndim == 2 else pairwise[None]
        made.append(panel.Chain(unary, pairwise, mask=here, starts=starts, ends=ends))
    return made


KINDS["chain"] = Kind(_made, _best)


def _chains(
    unary: Tensor,
    pairwise: Tensor,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
    starts: Tensor | None = None,
    ends: Tensor | None = None,
) -> Chains:
    """The arguments, checked. Raises ValueError, TypeError."""
    unary = floating("unary", unary)
    pairwise, tables = pair_tensor(pairwise, unary, 1), []
    *batch, n, L = unary.shape
    for name, x in (("starts", starts), ("ends", ends)):
        x = unary.new_zeros(L) if x is None else beside(name, x, unary)
        if tuple(x.shape) != (L,):
            raise ValueError(f"{name}: expected shape {(L,)}, got {tuple(x.shape)}")
        tables.append(x[None])
    kept, B = mask_of(mask, lengths, tuple(batch), n, unary.device), math.prod(batch)
    pairs = pairwise[None] if pairwise.ndim == 2 else pairwise.reshape(1, B, max(n - 1, 0), L, L)
    kept = None if kept is None else kept.reshape(1, B, n)
    return Chains((unary.reshape(1, B, n, L), pairs, *tables), tuple(batch), kept)
