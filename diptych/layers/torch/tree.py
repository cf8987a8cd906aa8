"""Rooted trees of labelled nodes over scores of an encoder, as :class:`reference.Tree` has them.

score(y) = sum_v unary[v, y_v] + sum over nodes with a parent of pairwise[y_parent, y_v]. unary (..., p, L); pairwise
(L, L), or (..., p, L, L), a table for each node, of which those of roots are ignored; parents (p,) integers, -1 for a
root: those of all examples. Marginals of pairs are (..., p, L, L), 0 at roots. -inf forbids. Errors as in
:mod:`diptych.layers.torch.chain`. Computed on the CPU, by kernels over the whole batch; the derivatives of
:func:`entropy` and :func:`kl` go node by node in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

import accelerated.structures.tree as kernels
from diptych.layers.torch import sums
from diptych.layers.torch.arguments import floating, operator, pair_tensor
from diptych.layers.torch.formulas import LABELLED, OUTPUTS, SUMS, Batch, chosen, functions
from diptych.layers.torch.operators import checked_labels
from diptych.layers.torch.oracles import KINDS, Kind
from diptych.layers.torch.sums import log_total
from reference.structures.tree_scores import order

__all__ = [formula.__name__ for formula in (*SUMS, *OUTPUTS, *LABELLED)]


class Trees(Batch):
    """unary (B, p, L), pairwise (B, p, L, L), parents (p,)."""

    kind = "tree"
    fields = "unary", "pairwise"

    @classmethod
    def of(cls, unary: Tensor, pairwise: Tensor, parents: Any) -> Trees:
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
        return cls((unary.reshape(B, p, L), tables.contiguous()), tuple(batch), parents=above.long())

    def checked(self, y: Tensor) -> Tensor:
        return checked_labels(y[None], None, self.scores[0].shape[-1])[0]

    def value(self, mu: float) -> Tensor:
        return sums.log_partition(node_sums, *self.scores, self.parents, mu)

    def mean(self, direction: list[Tensor]) -> Tensor:
        return sums.mean(lambda u, A: _upwards(u, A, self.parents), self.scores, direction)

    def marginals(self, mu: float) -> Sequence[Tensor]:
        return [*map(self.shaped, sums.marginals(node_sums, *self.scores, self.parents, mu))]

    def score(self, y: Tensor) -> Tensor:
        (unary, pairwise), above = self.scores, self.parents
        pair = y[..., above.clamp(min=0)] * unary.shape[-1] + y  # -1 or less where y is
        edges = torch.where(above >= 0, chosen(pairwise.flatten(2), pair), 0.0)
        return (chosen(unary, y) + edges).sum(-1)


log_partition, marginals, entropy, kl = functions(Trees, SUMS)
best, best_labels, topk, max_marginals, sample, smooth_max, sparsemap = functions(Trees, OUTPUTS)
score, crf_loss, hinge_loss, smooth_hinge_loss, sparsemap_loss = functions(Trees, LABELLED)


def _made(scores: Any, where: Any, parents: Any, single_root: bool) -> kernels.Tree:
    unary, pairwise = scores
    return kernels.Tree(unary, pairwise, parents.numpy())


KINDS["tree"] = Kind(_made)


@operator("node_sums", lambda u, A, *_: tuple(map(u.new_empty, (u.shape[:1], u.shape, A.shape))), shared=(2,))
def node_sums(unary: Tensor, pairwise: Tensor, parents: Tensor, mu: float) -> tuple[Tensor, Tensor, Tensor]:
    """The log-partitions (B,) and the marginals (B, p, L) and (B, p, L, L). Raises ValueError, InfeasibleError."""
    value, parts = kernels.Tree(unary.detach(), pairwise.detach(), parents.numpy()).expectation(mu)
    return value, parts.unary, parts.pairwise


@operator("upward", torch.empty_like)
def upward(parents: Tensor) -> Tensor:
    """The nodes (p,), each before its parent. Raises ValueError at a cycle."""
    walk = order(parents.numpy())
    return torch.tensor([*walk.upward, *walk.roots], dtype=torch.int64)


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
