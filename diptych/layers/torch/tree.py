"""Rooted trees of labelled nodes over scores of an encoder, as :class:`reference.Tree` has them.

score(y) = sum_v unary[v, y_v] + sum over nodes with a parent of pairwise[y_parent, y_v]. unary (..., p, L); pairwise
(L, L), or (..., p, L, L), a table for each node, of which those of roots are ignored; parents (p,) integers, -1 for a
root: those of all examples. -inf forbids. Errors as in :mod:`diptych.layers.torch.chain`. Computed on the CPU, by
kernels over the whole batch; second derivatives, and :func:`entropy` and :func:`kl`, go node by node in PyTorch.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import accelerated.structures.tree as kernels
from diptych.layers.torch import formulas, sums
from diptych.layers.torch.arguments import beside, floating, label_tensor, undifferentiated
from diptych.layers.torch.chain import Best, KBest, Parts
from diptych.layers.torch.operators import checked_labels, more_groups
from diptych.layers.torch.sums import Rule, total, weighted
from reference.arrays import integer, number
from reference.smoothings import Max
from reference.structures.base import feasible
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

OF = sys.modules[__name__]  # what the formulas call


class Trees(NamedTuple):
    """unary (B, p, L), pairwise (B, p, L, L), parents (p,), and the leading axes of the caller."""

    unary: Tensor
    pairwise: Tensor
    parents: Tensor
    batch: tuple[int, ...]

    @property
    def scores(self) -> tuple[Tensor, Tensor]:
        return self.unary, self.pairwise

    @property
    def detached(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.unary.detach(), self.pairwise.detach(), self.parents

    def shaped(self, x: Tensor) -> Tensor:
        return x.reshape((*self.batch, *x.shape[1:]))


def log_partition(unary: Tensor, pairwise: Tensor, parents: Any, *, mu: float = 1.0) -> Tensor:
    """mu log sum_y exp(score(y) / mu), (...,)."""
    given = _trees(unary, pairwise, parents)
    return given.shaped(_value(given, number("mu", mu, positive=True)))


def marginals(unary: Tensor, pairwise: Tensor, parents: Any, *, mu: float = 1.0) -> Parts:
    """P(y_v = i), (..., p, L), and P(y_parent = i, y_v = j), (..., p, L, L), 0 at roots, where P(y) is proportional to
    exp(score(y) / mu).
    """
    given = _trees(unary, pairwise, parents)
    return Parts(*map(given.shaped, sums.marginals(SUMS, *given[:3], number("mu", mu, positive=True))))


def best(unary: Tensor, pairwise: Tensor, parents: Any) -> Best:
    """The highest score (...,), whose gradient is the indicator of the best labels, and these, (..., p)."""
    given = _trees(unary, pairwise, parents)
    labels = best_labels(*given.detached)
    return Best(given.shaped(_score(given, labels[:, None])[:, 0]), given.shaped(labels))


def topk(unary: Tensor, pairwise: Tensor, parents: Any, k: int) -> KBest:
    """The k best distinct labellings: scores (..., k), labels (..., k, p), count (...,)."""
    given, k = _trees(unary, pairwise, parents), integer("k", k, 1)
    labels, count = k_best_labels(*given.detached, k)
    there = torch.arange(k, device=labels.device) < count[:, None]
    scores = torch.where(there, _score(given, labels), -torch.inf)
    return KBest(given.shaped(scores), given.shaped(labels), given.shaped(count))


def max_marginals(unary: Tensor, pairwise: Tensor, parents: Any) -> Parts:
    """The highest score of a labelling with each label, (..., p, L), and pair, (..., p, L, L); no derivatives."""
    given = _trees(unary, pairwise, parents)
    highest = (undifferentiated(x, *given.scores) for x in node_max_marginals(*given.detached))
    return Parts(*map(given.shaped, highest))


def sample(
    unary: Tensor, pairwise: Tensor, parents: Any, size: int = 1, *, mu: float = 1.0, generator: Any = None
) -> Tensor:
    """Labels (..., size, p) drawn with probability proportional to exp(score / mu)."""
    given, mu = _trees(unary, pairwise, parents), number("mu", mu, positive=True)
    shape = (len(given.unary), integer("size", size, 1), given.unary.shape[1])
    uniforms = torch.rand(shape, generator=generator, dtype=torch.float64, device=unary.device)
    return given.shaped(node_samples(*given.detached, uniforms, mu))


def score(unary: Tensor, pairwise: Tensor, parents: Any, labels: Tensor) -> Tensor:
    """The score (...,) of labels (..., p)."""
    given = _trees(unary, pairwise, parents)
    B, p, L = given.unary.shape
    y = checked_labels(label_tensor("labels", labels, unary).reshape(1, B, p), None, L)
    return given.shaped(_score(given, y.reshape(B, 1, p))[:, 0])


def entropy(unary: Tensor, pairwise: Tensor, parents: Any) -> Tensor:
    """-sum_y P(y) log P(y), (...,), where P(y) is proportional to exp(score(y))."""
    return formulas.entropy(_trees(unary, pairwise, parents), _value, _mean)


def kl(unary: Tensor, pairwise: Tensor, parents: Any, other_unary: Tensor, other_pairwise: Tensor) -> Tensor:
    """sum_y P(y) log (P(y) / Q(y)), (...,), P of the first scores and Q of the others; inf where Q forbids what P
    does not.
    """
    p, q = _trees(unary, pairwise, parents), _trees(other_unary, other_pairwise, parents)
    if p.batch != q.batch or p.unary.shape != q.unary.shape:
        raise ValueError(f"other_unary: expected shape {tuple(unary.shape)}, got {tuple(other_unary.shape)}")
    return formulas.kl(p, q, _value, _mean)


def smooth_max(unary: Tensor, pairwise: Tensor, parents: Any, smoothing: Any, mu: float) -> Tensor:
    """The smoothed max (...,) over labellings, by a smoothing of :mod:`reference.smoothings`.

    Source: Pillutla et al., Definition 6.
    """
    return formulas.smooth_max(OF, (unary, pairwise, parents), smoothing, mu, {})


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


def _made(unary: Tensor, pairwise: Tensor, parents: Tensor) -> kernels.Tree:
    return kernels.Tree(unary.detach(), pairwise.detach(), parents.numpy())


@torch.library.custom_op("diptych::node_sums", mutates_args=())
def node_sums(unary: Tensor, pairwise: Tensor, parents: Tensor, mu: float) -> tuple[Tensor, Tensor, Tensor]:
    """The log-partitions (B,) and the marginals (B, p, L) and (B, p, L, L). Raises ValueError, InfeasibleError."""
    value, parts = _made(unary, pairwise, parents).expectation(mu)
    return value, parts.unary, parts.pairwise


@torch.library.custom_op("diptych::best_labels", mutates_args=())
def best_labels(unary: Tensor, pairwise: Tensor, parents: Tensor) -> Tensor:
    """The best labels (B, p). Raises ValueError, InfeasibleError."""
    labels: Tensor = _made(unary, pairwise, parents).best()[1]
    return labels


@torch.library.custom_op("diptych::k_best_labels", mutates_args=())
def k_best_labels(unary: Tensor, pairwise: Tensor, parents: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best labels (B, k, p), -1 beyond those there are, and their number (B,). Raises ValueError."""
    best = _made(unary, pairwise, parents).topk(k)
    return best.labels, best.count


@torch.library.custom_op("diptych::node_samples", mutates_args=())
def node_samples(unary: Tensor, pairwise: Tensor, parents: Tensor, uniforms: Tensor, mu: float) -> Tensor:
    """Labels (B, size, p) by uniform numbers of this shape. Raises ValueError, InfeasibleError."""
    value, labels = kernels.sample(_made(unary, pairwise, parents).scores, uniforms, mu)
    feasible(value, "sample")
    return torch.as_tensor(labels)


@torch.library.custom_op("diptych::node_max_marginals", mutates_args=())
def node_max_marginals(unary: Tensor, pairwise: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
    """The max-marginals (B, p, L) and (B, p, L, L)."""
    highest = _made(unary, pairwise, parents).max_marginals()
    return highest.unary, highest.pairwise


@torch.library.custom_op("diptych::upward", mutates_args=())
def upward(parents: Tensor) -> Tensor:
    """The nodes (p,), each before its parent. Raises ValueError at a cycle."""
    walk = order(parents.numpy())
    return torch.tensor([*walk.upward, *walk.roots], dtype=torch.int64)


node_sums.register_fake(
    lambda u, A, parents, mu: (u.new_empty(u.shape[:1]), u.new_empty(u.shape), A.new_empty(A.shape))
)
best_labels.register_fake(lambda u, A, parents: parents.new_empty(u.shape[:2]))
k_best_labels.register_fake(
    lambda u, A, parents, k: (parents.new_empty((len(u), k, u.shape[1])), parents.new_empty(u.shape[:1]))
)
node_samples.register_fake(lambda u, A, parents, uniforms, mu: parents.new_empty(uniforms.shape))
node_max_marginals.register_fake(lambda u, A, parents: (u.new_empty(u.shape), A.new_empty(A.shape)))
upward.register_fake(torch.empty_like)
for each in (node_sums, best_labels, k_best_labels, node_samples, node_max_marginals):
    more_groups(each, shared=(2,))


def node_mean(scores: Any, direction: Any, parents: Tensor, mu: float) -> Tensor:
    """<marginals, direction>, (B,), by the messages of :func:`reference.structures.tree.sum_product` from each node to
    its parent; those of roots go to one more node, from tables of 0.
    """
    (unary, pairwise), (along, along_pairs) = scores, direction
    p, below = unary.shape[1], (parents >= 0)[:, None, None]
    tables = torch.stack(
        weighted(torch.where(below, pairwise.double() / mu, 0.0), torch.where(below, along_pairs, 0.0))
    )
    nodes = torch.nn.functional.pad(torch.stack(weighted(unary.double() / mu, along)), (0, 0, 0, 1))
    above = torch.where(parents >= 0, parents, p)
    for v in upward(parents).reshape(p, 1).unbind():
        pair = tables.index_select(2, v)[:, :, 0] + nodes.index_select(2, v)
        message = torch.stack(total(sums.Weighted(*pair)))[..., 0]
        nodes = nodes.index_add(2, above[v], message[:, :, None])
    return nodes[2, :, p, 0].to(unary.dtype)


SUMS = Rule(node_sums, node_mean, 2)


def _value(given: Trees, mu: float) -> Tensor:
    return sums.log_partition(SUMS, *given[:3], mu)


def _mean(given: Trees, direction: list[Tensor]) -> Tensor:
    return node_mean(given.scores, direction, given.parents, 1.0)


def _score(given: Trees, labels: Tensor) -> Tensor:
    """The scores (B, k) of labels (B, k, p), -1 for none."""
    (B, k, p), L, y = labels.shape, given.unary.shape[-1], labels.clamp(min=0)
    above = y[..., given.parents.clamp(min=0)] * L + y
    nodes = given.unary[:, None].expand(B, k, p, L).gather(-1, y[..., None])[..., 0]
    edges = given.pairwise.reshape(B, 1, p, L * L).expand(B, k, p, L * L).gather(-1, above[..., None])[..., 0]
    each = nodes + torch.where(given.parents >= 0, edges, 0.0)
    return torch.where(labels >= 0, each, 0.0).sum(-1)


def _trees(unary: Any, pairwise: Any, parents: Any) -> Trees:
    unary = floating("unary", unary)
    if unary.ndim < 2 or unary.shape[-1] < 1:
        raise ValueError(f"unary: expected shape (..., p, L) with L >= 1, got {tuple(unary.shape)}")
    if unary.device.type != "cpu":
        raise ValueError(f"unary: expected a tensor on the CPU, got one on {unary.device}")
    pairwise = beside("pairwise", pairwise, unary)
    *batch, p, L = unary.shape
    shared, own = (L, L), (*batch, p, L, L)
    if tuple(pairwise.shape) not in (shared, own):
        raise ValueError(f"pairwise: expected shape {shared} or {own}, got {tuple(pairwise.shape)}")
    B = math.prod(batch)
    above = torch.as_tensor(np.asarray(parents) if not isinstance(parents, Tensor) else parents)
    if above.dtype not in (torch.int64, torch.int32) or tuple(above.shape) != (p,):
        raise ValueError(f"parents: expected integers of shape {(p,)}, got {above.dtype} {tuple(above.shape)}")
    tables = pairwise.expand(B, p, L, L) if tuple(pairwise.shape) == shared else pairwise.reshape(B, p, L, L)
    return Trees(unary.reshape(B, p, L), tables.contiguous(), above.long(), tuple(batch))
