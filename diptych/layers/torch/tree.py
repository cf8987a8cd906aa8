"""Rooted trees of labelled nodes over scores of an encoder, as :class:`reference.Tree` has them.

score(y) = sum_v unary[v, y_v] + sum over nodes with a parent of pairwise[y_parent, y_v]. unary (..., p, L); pairwise
(L, L), or (..., p, L, L), a table for each node, of which those of roots are ignored; parents (p,) integers, -1 for a
root: those of all examples. -inf forbids. Errors as in :mod:`diptych.layers.torch.chain`. Computed on the CPU, by
kernels over the whole batch; derivatives of first order, and an error where a second one is asked for.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

import accelerated
from diptych.layers.torch.arguments import beside, floating, label_tensor, undifferentiated
from diptych.layers.torch.chain import Best, KBest, Parts
from reference.arrays import integer, number

__all__ = ["best", "crf_loss", "log_partition", "marginals", "max_marginals", "score", "topk"]


class Trees(NamedTuple):
    """unary (B, p, L), pairwise (B, p, L, L), parents (p,), and the leading axes of the caller."""

    unary: Tensor
    pairwise: Tensor
    parents: Tensor
    batch: tuple[int, ...]

    def shaped(self, x: Tensor) -> Tensor:
        return x.reshape(*self.batch, *x.shape[1:])


def log_partition(unary: Tensor, pairwise: Tensor, parents: Any, *, mu: float = 1.0) -> Tensor:
    """mu log sum_y exp(score(y) / mu), (...,)."""
    given = _trees(unary, pairwise, parents)
    value = _Sums.apply(*given[:3], number("mu", mu, positive=True))[0]
    return given.shaped(value)


def marginals(unary: Tensor, pairwise: Tensor, parents: Any, *, mu: float = 1.0) -> Parts:
    """P(y_v = i), (..., p, L), and P(y_parent = i, y_v = j), (..., p, L, L), 0 at roots, where P(y) is proportional to
    exp(score(y) / mu).
    """
    given = _trees(unary, pairwise, parents)
    _, nodes, edges = node_sums(*given[:3], number("mu", mu, positive=True))
    nodes, edges = (undifferentiated(x, *given[:2]) for x in (nodes, edges))
    return Parts(given.shaped(nodes), given.shaped(edges))


def best(unary: Tensor, pairwise: Tensor, parents: Any) -> Best:
    """The highest score (...,), whose gradient is the indicator of the best labels, and these, (..., p)."""
    given = _trees(unary, pairwise, parents)
    labels = best_labels(*given[:3], 1)[0][:, 0]
    return Best(given.shaped(_score(given, labels)), given.shaped(labels))


def topk(unary: Tensor, pairwise: Tensor, parents: Any, k: int) -> KBest:
    """The k best distinct labellings: scores (..., k), labels (..., k, p), count (...,)."""
    given, k = _trees(unary, pairwise, parents), integer("k", k, 1)
    labels, count = best_labels(*given[:3], k)
    each = [_score(given, labels[:, r].clamp(min=0)) for r in range(k)]
    there = torch.arange(k, device=labels.device) < count[:, None]
    scores = torch.where(there, torch.stack(each, -1), -torch.inf)
    return KBest(given.shaped(scores), given.shaped(labels), given.shaped(count))


def max_marginals(unary: Tensor, pairwise: Tensor, parents: Any) -> Parts:
    """The highest score of a labelling with each label, (..., p, L), and pair, (..., p, L, L); no derivatives."""
    given = _trees(unary, pairwise, parents)
    nodes, edges = (undifferentiated(x, *given[:2]) for x in node_max_marginals(*given[:3]))
    return Parts(given.shaped(nodes), given.shaped(edges))


def score(unary: Tensor, pairwise: Tensor, parents: Any, labels: Tensor) -> Tensor:
    """The score (...,) of labels (..., p)."""
    given = _trees(unary, pairwise, parents)
    return given.shaped(_score(given, _labels(given, labels, unary)))


def crf_loss(unary: Tensor, pairwise: Tensor, parents: Any, labels: Tensor) -> Tensor:
    """-log P(labels), (...,): the log-partition less the score of labels (..., p)."""
    return log_partition(unary, pairwise, parents) - score(unary, pairwise, parents, labels)


def _made(unary: Tensor, pairwise: Tensor, parents: Tensor) -> Any:
    return accelerated.Tree(unary.detach(), pairwise.detach(), parents.numpy())


@torch.library.custom_op("diptych::node_sums", mutates_args=())
def node_sums(unary: Tensor, pairwise: Tensor, parents: Tensor, mu: float) -> tuple[Tensor, Tensor, Tensor]:
    """The log-partitions (B,) and the marginals (B, p, L) and (B, p, L, L). Raises ValueError, InfeasibleError."""
    value, parts = _made(unary, pairwise, parents).expectation(mu)
    return value, parts.unary, parts.pairwise


@torch.library.custom_op("diptych::best_labels", mutates_args=())
def best_labels(unary: Tensor, pairwise: Tensor, parents: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best labels (B, k, p), -1 beyond those there are, and their number (B,). Raises ValueError; if k = 1
    InfeasibleError.
    """
    tree = _made(unary, pairwise, parents)
    if k == 1:
        labels = tree.best()[1]
        return labels[:, None].contiguous(), torch.ones(len(labels), dtype=torch.int64)
    found = tree.topk(k)
    return found.labels, found.count


@torch.library.custom_op("diptych::node_max_marginals", mutates_args=())
def node_max_marginals(unary: Tensor, pairwise: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
    """The max-marginals (B, p, L) and (B, p, L, L)."""
    found = _made(unary, pairwise, parents).max_marginals()
    return found.unary, found.pairwise


@node_sums.register_fake
def _(unary: Tensor, pairwise: Tensor, parents: Tensor, mu: float) -> tuple[Tensor, Tensor, Tensor]:
    return unary.new_empty(unary.shape[:1]), unary.new_empty(unary.shape), unary.new_empty(pairwise.shape)


@best_labels.register_fake
def _(unary: Tensor, pairwise: Tensor, parents: Tensor, k: int) -> tuple[Tensor, Tensor]:
    B, p, _ = unary.shape
    return unary.new_empty((B, k, p), dtype=torch.int64), unary.new_empty((B,), dtype=torch.int64)


@node_max_marginals.register_fake
def _(unary: Tensor, pairwise: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
    return unary.new_empty(unary.shape), unary.new_empty(pairwise.shape)


def _one_batch(operator: Any) -> None:
    """Let vmap join its axis with that of the batch. parents are shared."""

    def rule(info: Any, dims: Any, unary: Any, pairwise: Any, parents: Any, *rest: Any) -> Any:
        joined = []
        for x, dim in zip((unary, pairwise), dims, strict=False):
            x = x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            joined.append(x.reshape(-1, *x.shape[2:]))
        found = operator(*joined, parents, *rest)
        return tuple(x.reshape(info.batch_size, -1, *x.shape[1:]) for x in found), (0,) * len(found)

    operator.register_vmap(rule)


for each in (node_sums, best_labels, node_max_marginals):
    _one_batch(each)


class _Sums(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(unary: Any, pairwise: Any, parents: Any, mu: Any) -> Any:
        return node_sums(unary, pairwise, parents, mu)

    @staticmethod
    def setup_context(ctx: Any, given: Any, found: Any) -> None:
        ctx.mark_non_differentiable(found[1], found[2])
        ctx.save_for_backward(found[1], found[2], given[0], given[1])

    @staticmethod
    def backward(ctx: Any, weights: Tensor, *_: Any) -> Any:
        nodes, edges, *scores = ctx.saved_tensors
        nodes, edges = (undifferentiated(x, *scores) for x in (nodes, edges))
        return weights[:, None, None] * nodes, weights[:, None, None, None] * edges, None, None


def _score(given: Trees, labels: Tensor) -> Tensor:
    unary, pairwise, parents, _ = given
    (B, p, L), has_parent = unary.shape, parents >= 0
    nodes = unary.gather(-1, labels[..., None])[..., 0]
    above = labels[:, parents.clamp(min=0)]
    edges = pairwise.reshape(B, p, L * L).gather(-1, (above * L + labels)[..., None])[..., 0]
    return (nodes + torch.where(has_parent, edges, 0.0)).sum(-1)


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


def _labels(given: Trees, labels: Any, unary: Tensor) -> Tensor:
    y: Tensor = checked_nodes(label_tensor("labels", labels, unary).reshape(given.unary.shape[:2]), unary.shape[-1])
    return y


@torch.library.custom_op("diptych::checked_nodes", mutates_args=())
def checked_nodes(labels: Tensor, n_labels: int) -> Tensor:
    """Labels (B, p), a copy. Raises ValueError if one is none of 0..n_labels-1."""
    outside = (labels < 0) | (labels >= n_labels)
    if outside.any():
        b, v = torch.nonzero(outside)[0].tolist()
        got = f"{int(labels[b, v])} at node {v} of example {b}"
        raise ValueError(f"labels: expected 0..{n_labels - 1}, got {got}")
    return labels.clone()


@checked_nodes.register_fake
def _(labels: Tensor, n_labels: int) -> Tensor:
    return torch.empty_like(labels)


@checked_nodes.register_vmap
def _(info: Any, dims: Any, labels: Tensor, n_labels: int) -> Any:
    y = labels.movedim(dims[0], 0)
    return checked_nodes(y.reshape(-1, y.shape[-1]), n_labels).reshape(y.shape), 0
