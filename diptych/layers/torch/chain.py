"""Linear chains (conditional random fields) over scores of an encoder.

score(y) = sum_t unary[t, y_t] + sum_{t>=1} pairwise[y_{t-1}, y_t] + starts[y_first] + ends[y_last]

All functions take unary (..., n, L), pairwise (L, L), or (..., n-1, L, L) with a table for each edge, and by name

- mask (..., n) bool, or lengths (...,): the positions that belong to a chain. Positions off the mask are left out, and
  their neighbours adjoin; the score of an edge belongs to its later position. A chain may have no positions.
- starts, ends (L,): scores of the labels at the first and at the last position that is left.

Marginals of transitions that chains share are the expected number of each, in all chains together. -inf forbids. Half
precision is computed in float32. Errors are ValueErrors and TypeErrors that name the argument, or
:class:`reference.InfeasibleError` if every labelling of a chain is forbidden. docs/layers.md says which derivatives
there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import accelerated
import reference
from diptych.layers.torch.arguments import beside, floating, mask_of, pair_tensor
from diptych.layers.torch.formulas import LABELLED, OUTPUTS, SUMS, Batch, Best, KBest, Parts, functions
from diptych.layers.torch.operators import (
    Mean,
    best_of,
    chain_scores,
    check_scores,
    checked_labels,
    fused,
    gold_score,
    gradient_of,
    value_of,
)
from diptych.layers.torch.oracles import KINDS, Kind

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
    "sparsemap",
    "sparsemap_loss",
    "topk",
]


class Chains(Batch):
    """unary (1, B, n, L), pairwise (1, L, L) or (1, B, n-1, L, L), starts and ends (1, L); mask (1, B, n) or None as
    ``where``.
    """

    kind = "chain"
    fields = "unary", "pairwise"
    axes = 2

    @classmethod
    def of(
        cls,
        unary: Tensor,
        pairwise: Tensor,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        starts: Tensor | None = None,
        ends: Tensor | None = None,
    ) -> Chains:
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
        return cls((unary.reshape(1, B, n, L), pairs, *tables), tuple(batch), kept)

    def checked(self, y: Tensor) -> Tensor:
        y = checked_labels(y, self.where, self.scores[0].shape[-1])
        return y if self.where is None else torch.where(self.where, y, -1)

    def value(self, mu: float) -> Tensor:
        return value_of(self.scores, None, self.where, mu)

    def mean(self, direction: list[Tensor]) -> Tensor:
        found: Tensor = Mean.apply(*self.scores, *direction, self.where, 1.0)
        return found

    def marginals(self, mu: float) -> Sequence[Tensor]:
        nodes, edges, _, _ = gradient_of(self.scores, self.where, mu)
        return self.shaped(nodes), edges[0] if edges.ndim == 3 else self.shaped(edges)

    def own(self) -> list[Tensor]:
        """Scores of ends are added to those of the labels there."""
        unary, pairwise, starts, ends = self.scores
        _, B, n, L = unary.shape
        kept = torch.ones_like(unary[..., 0], dtype=torch.bool) if self.where is None else self.where
        place = kept.long().cumsum(-1)
        first, last = kept & (place == 1), kept & (place == place[..., -1:])
        nodes = torch.where(kept[..., None], unary, 0.0)
        for there, scores in ((first, starts), (last, ends)):
            nodes = nodes + torch.where(there[..., None], scores[:, None, None], 0.0)
        return [nodes[0], pairwise.expand(1, B, max(n - 1, 0), L, L)[0]]

    def of_own(self, parts: list[Tensor]) -> list[Tensor]:
        nodes, edges = parts
        return [self.shaped(nodes[None]), edges.sum((0, 1)) if self.scores[1].ndim == 3 else self.shaped(edges[None])]

    def loss(self, y: Tensor) -> Tensor:
        return value_of(self.scores, y, self.where, 1.0) if fused(*self.scores[:2]) else super().loss(y)

    def score(self, y: Tensor) -> Tensor:
        (_, B, k, n), kept = y.shape, None if self.where is None and y.shape[2] == 1 else y >= 0
        each = [x[:, :, None].expand(1, B, k, *x.shape[2:]).flatten(1, 2) if x.ndim > 3 else x for x in self.scores]
        mask = None if kept is None else kept.reshape(1, B * k, n)
        return gold_score(each, y.reshape(1, B * k, n), mask).reshape(1, B, k)


log_partition, marginals, entropy, kl = functions(Chains, SUMS)
best, best_labels, topk, max_marginals, sample, smooth_max, sparsemap = functions(Chains, OUTPUTS)
score, crf_loss, hinge_loss, smooth_hinge_loss, sparsemap_loss = functions(Chains, LABELLED)


def _made(scores: Any, mask: Any, parents: Any, single_root: bool) -> Any:
    check_scores(scores, mask)
    unary, pairwise, *_ = chain_scores(scores, mask)
    panel = accelerated if unary.device.type == "cpu" else reference
    return panel.Chain(unary, pairwise, mask=mask)


KINDS["chain"] = Kind(_made, lambda scores, mask, *_: best_of(scores, mask))
KINDS["labels"] = Kind(lambda x, mask, *_: accelerated.Chain(x[0], x[1], mask=mask))  # a table each, no ends
