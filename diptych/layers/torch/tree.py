"""Rooted trees of labelled nodes over scores of an encoder, as :class:`reference.Tree` has them.

score(y) = sum_v unary[v, y_v] + sum over nodes with a parent of pairwise[y_parent, y_v]. unary (..., p, L); pairwise
(L, L), or (..., p, L, L), a table for each node, of which those of roots are ignored; parents (p,) integers, -1 for a
root: those of all examples. -inf forbids. Errors as in :mod:`diptych.layers.torch.chain`. Computed on the CPU, by
kernels over the whole batch; the derivatives of :func:`entropy` and :func:`kl` go node by node in PyTorch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

import accelerated.structures.tree as kernels
from diptych.layers.torch import formulas, sums
from diptych.layers.torch.arguments import floating, label_tensor, pair_tensor
from diptych.layers.torch.chain import Parts
from diptych.layers.torch.formulas import Batch, Best, KBest
from diptych.layers.torch.operators import checked_labels, more_groups
from diptych.layers.torch.oracles import KINDS, Kind
from diptych.layers.torch.sums import log_total
from reference.arrays import number
from reference.smoothings import Max
from reference.structures.tree_scores import order

__all__ = [
    "best",
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


class Trees(Batch):
    """unary (B, p, L), pairwise (B, p, L, L), parents (p,)."""

    kind = "tree"

    def value(self, mu: float) -> Tensor:
        return sums.log_partition(node_sums, *self.scores, self.parents, mu)

    def mean(self, direction: list[Tensor]) -> Tensor:
        return sums.mean(lambda u, A: _upwards(u, A, self.parents), self.scores, direction)

    def score(self, y: Tensor) -> Tensor:
        (B, k, p), L, (unary, pairwise), above = y.shape, self.scores[0].shape[-1], self.scores, self.parents
        y, there = y.clamp(min=0), y >= 0
        pair = y[..., above.clamp(min=0)] * L + y
        nodes = unary[:, None].expand(B, k, p, L).gather(-1, y[..., None])[..., 0]
        edges = pairwise.reshape(B, 1, p, L * L).expand(B, k, p, L * L).gather(-1, pair[..., None])[..., 0]
        each = nodes + torch.where(above >= 0, edges, 0.0)
        return torch.where(there, each, 0.0).sum(-1)


def log_partition(unary: Tensor, pairwise: Tensor, parents: Any, *, mu: float = 1.0) -> Tensor:
    """mu log sum_y exp(score(y) / mu), (...,)."""
    return formulas.log_partition(_trees(unary, pairwise, parents), mu)


def marginals(unary: Tensor, pairwise: Tensor, parents: Any, *, mu: float = 1.0) -> Parts:
    """P(y_v = i), (..., p, L), and P(y_parent = i, y_v = j), (..., p, L, L), 0 at roots, where P(y) is proportional to
    exp(score(y) / mu).
    """
    given, mu = _trees(unary, pairwise, parents), number("mu", mu, positive=True)
    return Parts(*map(given.shaped, sums.marginals(node_sums, *given.scores, given.parents, mu)))


def best(unary: Tensor, pairwise: Tensor, parents: Any) -> Best:
    """The highest score (...,), whose gradient is the indicator of the best labels, and these, (..., p)."""
    return formulas.best(_trees(unary, pairwise, parents))


def topk(unary: Tensor, pairwise: Tensor, parents: Any, k: int) -> KBest:
    """The k best distinct labellings: scores (..., k), labels (..., k, p), count (...,)."""
    return formulas.topk(_trees(unary, pairwise, parents), k)


def max_marginals(unary: Tensor, pairwise: Tensor, parents: Any) -> Parts:
    """The highest score of a labelling with each label, (..., p, L), and pair, (..., p, L, L); no derivatives."""
    return Parts(*formulas.max_marginals(_trees(unary, pairwise, parents)))


def sample(
    unary: Tensor, pairwise: Tensor, parents: Any, size: int = 1, *, mu: float = 1.0, generator: Any = None
) -> Tensor:
    """Labels (..., size, p) drawn with probability proportional to exp(score / mu)."""
    return formulas.sample(_trees(unary, pairwise, parents), size, mu, generator)


def score(unary: Tensor, pairwise: Tensor, parents: Any, labels: Tensor) -> Tensor:
    """The score (...,) of labels (..., p)."""
    given = _trees(unary, pairwise, parents)
    B, p, L = given.scores[0].shape
    y = checked_labels(label_tensor("labels", labels, unary).reshape(1, B, p), None, L)
    return formulas.score(given, y[0])


def entropy(unary: Tensor, pairwise: Tensor, parents: Any) -> Tensor:
    """-sum_y P(y) log P(y), (...,), where P(y) is proportional to exp(score(y))."""
    return formulas.entropy(_trees(unary, pairwise, parents))


def kl(unary: Tensor, pairwise: Tensor, parents: Any, other_unary: Tensor, other_pairwise: Tensor) -> Tensor:
    """sum_y P(y) log (P(y) / Q(y)), (...,), P of the first scores and Q of the others; inf where Q forbids what P
    does not.
    """
    p, q = _trees(unary, pairwise, parents), _trees(other_unary, other_pairwise, parents)
    if p.shape != q.shape or p.scores[0].shape != q.scores[0].shape:
        raise ValueError(f"other_unary: expected shape {tuple(unary.shape)}, got {tuple(other_unary.shape)}")
    return formulas.kl(p, q)


def smooth_max(unary: Tensor, pairwise: Tensor, parents: Any, smoothing: Any, mu: float) -> Tensor:
    """The smoothed max (...,) over labellings, by a smoothing of :mod:`reference.smoothings`.

    Source: Pillutla et al., Definition 6.
    """
    return formulas.smooth_max(_trees(unary, pairwise, parents), smoothing, mu)


def crf_loss(unary: Tensor, pairwise: Tensor, parents: Any, labels: Tensor) -> Tensor:
    """-log P(labels), (...,): the log-partition less the score of labels (..., p)."""
    return log_partition(unary, pairwise, parents) - score(unary, pairwise, parents, labels)


def hinge_loss(unary: Tensor, pairwise: Tensor, parents: Any, labels: Tensor, cost: float | Tensor = 1.0) -> Tensor:
    """max_y cost(y, labels) + score(y) - score(labels), (...,).

    cost: of each wrong label, or a matrix (L, L), of (label, predicted label), summed over nodes.
    """
    return smooth_hinge_loss(unary, pairwise, parents, labels, Max(), 0.0, cost)


def smooth_hinge_loss(
    unary: Tensor, pairwise: Tensor, parents: Any, labels: Tensor, smoothing: Any, mu: float, cost: float | Tensor = 1.0
) -> Tensor:
    """:func:`hinge_loss` with :func:`smooth_max` in place of the max. Source: Pillutla et al., Definition 1."""
    costly = formulas.augmented(unary, labels, cost)
    return smooth_max(costly, pairwise, parents, smoothing, mu) - score(costly, pairwise, parents, labels)


def _made(scores: Any, where: Any, parents: Any, single_root: bool) -> list[kernels.Tree]:
    unary, pairwise = scores
    return [kernels.Tree(unary, pairwise, parents.numpy())]


KINDS["tree"] = Kind(_made)


@torch.library.custom_op("diptych::node_sums", mutates_args=())
def node_sums(unary: Tensor, pairwise: Tensor, parents: Tensor, mu: float) -> tuple[Tensor, Tensor, Tensor]:
    """The log-partitions (B,) and the marginals (B, p, L) and (B, p, L, L). Raises ValueError, InfeasibleError."""
    value, parts = kernels.Tree(unary.detach(), pairwise.detach(), parents.numpy()).expectation(mu)
    return value, parts.unary, parts.pairwise


@torch.library.custom_op("diptych::upward", mutates_args=())
def upward(parents: Tensor) -> Tensor:
    """The nodes (p,), each before its parent. Raises ValueError at a cycle."""
    walk = order(parents.numpy())
    return torch.tensor([*walk.upward, *walk.roots], dtype=torch.int64)


node_sums.register_fake(
    lambda u, A, parents, mu: (u.new_empty(u.shape[:1]), u.new_empty(u.shape), A.new_empty(A.shape))
)
upward.register_fake(torch.empty_like)
more_groups(node_sums, shared=(2,))


def _upwards(unary: Tensor, pairwise: Tensor, parents: Tensor) -> Tensor:
    """The log-partitions (B,) by the messages of :func:`reference.structures.tree.sum_product` from each node to its
    parent; those of roots go to one more node.
    """
    p, roots = unary.shape[1], (parents < 0)[:, None, None]
    tables, above = torch.where(roots, 0.0, pairwise), torch.where(parents < 0, p, parents)
    nodes = torch.nn.functional.pad(unary, (0, 0, 0, 1))
    for v in upward(parents).reshape(p, 1).unbind():
        pair = tables.index_select(1, v)[:, 0] + nodes.index_select(1, v)
        nodes = nodes.index_add(1, above[v], log_total(pair, -1)[:, None])
    return nodes[:, p, 0]


def _trees(unary: Any, pairwise: Any, parents: Any) -> Trees:
    unary = floating("unary", unary)
    if unary.device.type != "cpu":
        raise ValueError(f"unary: expected a tensor on the CPU, got one on {unary.device}")
    pairwise = pair_tensor(pairwise, unary, 0)
    *batch, p, L = unary.shape
    B = math.prod(batch)
    above = torch.as_tensor(np.asarray(parents) if not isinstance(parents, Tensor) else parents)
    if above.dtype not in (torch.int64, torch.int32) or tuple(above.shape) != (p,):
        raise ValueError(f"parents: expected integers of shape {(p,)}, got {above.dtype} {tuple(above.shape)}")
    tables = pairwise.expand(B, p, L, L) if pairwise.ndim == 2 else pairwise.reshape(B, p, L, L)
    return Trees((unary.reshape(B, p, L), tables.contiguous()), tuple(batch), parents=above.long())
