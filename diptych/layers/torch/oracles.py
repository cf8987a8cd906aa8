"""Oracles of chains that have no derivative, as operators of PyTorch: best and K best labels, samples, max-marginals.

Arguments as in :mod:`diptych.layers.torch.operators`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import accelerated.structures.chain as kernels
import reference.structures.chain as reference
from accelerated.structures import chain_batch
from diptych.layers.torch.operators import batch_of, check_scores, check_values, fused, more_groups
from reference.structures.base import feasible
from reference.structures.chain_masks import front, labels_back, parts_back, with_end
from reference.structures.chain_scores import ChainScores

__all__ = ["chain_best", "chain_k_best", "chain_max_marginals", "chain_sample"]


def _scores(g: int, unary: Tensor, pairwise: Tensor, starts: Tensor, ends: Tensor, mask: Tensor | None) -> ChainScores:
    plain = ChainScores(unary[g].detach(), pairwise[g].detach(), None, None if mask is None else mask[g])
    return with_end(with_end(plain, starts[g].detach(), last=False), ends[g].detach(), last=True)


def _panel(unary: Tensor) -> Any:
    return kernels if unary.device.type == "cpu" else reference


@torch.library.custom_op("diptych::chain_best", mutates_args=())
def chain_best(unary: Tensor, pairwise: Tensor, starts: Tensor, ends: Tensor, mask: Tensor | None) -> Tensor:
    """The best labels (G, B, n), -1 off the mask. Raises InfeasibleError."""
    if fused(unary, pairwise):
        batch = batch_of(unary, pairwise, starts, ends, None, mask)
        best, of_rows = chain_batch.best(batch, torch.get_num_threads())
        check_values(torch.from_numpy(best).reshape(unary.shape[:2]), unary, pairwise, starts, ends, None, mask)
        return torch.from_numpy(of_rows).reshape(unary.shape[:3])
    check_scores(unary, pairwise, starts, ends, mask)
    found = []
    for g in range(unary.shape[0]):
        scores = _scores(g, unary, pairwise, starts, ends, mask)
        value, labels = _panel(unary).viterbi(front(scores))
        feasible(value, "best")
        found.append(labels_back(scores, labels))
    return torch.stack(found)


@torch.library.custom_op("diptych::chain_k_best", mutates_args=())
def chain_k_best(
    unary: Tensor, pairwise: Tensor, starts: Tensor, ends: Tensor, mask: Tensor | None, k: int
) -> tuple[Tensor, Tensor]:
    """The k best labels (G, B, k, n), -1 beyond those there are, whose number (G, B) comes second."""
    check_scores(unary, pairwise, starts, ends, mask)
    found = []
    for g in range(unary.shape[0]):
        scores = _scores(g, unary, pairwise, starts, ends, mask)
        best = _panel(unary).top_k_viterbi(front(scores), k)
        found.append((labels_back(scores, best.labels), best.count))
    labels, count = zip(*found, strict=True)
    return torch.stack(labels), torch.stack(count)


@torch.library.custom_op("diptych::chain_sample", mutates_args=())
def chain_sample(
    unary: Tensor, pairwise: Tensor, starts: Tensor, ends: Tensor, mask: Tensor | None, uniforms: Tensor, mu: float
) -> Tensor:
    """Labels (G, B, size, n) drawn with probability proportional to exp(score / mu), by uniform numbers of this shape.

    Raises InfeasibleError.
    """
    check_scores(unary, pairwise, starts, ends, mask)
    found = []
    for g in range(unary.shape[0]):
        scores = _scores(g, unary, pairwise, starts, ends, mask)
        value, labels = _panel(unary).sample(front(scores), uniforms[g], mu)
        feasible(value, "sample")
        found.append(labels_back(scores, labels))
    return torch.stack(found)


@torch.library.custom_op("diptych::chain_max_marginals", mutates_args=())
def chain_max_marginals(
    unary: Tensor, pairwise: Tensor, starts: Tensor, ends: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The highest score with each label (G, B, n, L) and each pair (G, B, n-1, L, L)."""
    check_scores(unary, pairwise, starts, ends, mask)
    found = []
    for g in range(unary.shape[0]):
        scores = _scores(g, unary, pairwise, starts, ends, mask)
        found.append(parts_back(scores, _panel(unary).max_marginals(front(scores)), -torch.inf)[:2])
    nodes, edges = zip(*found, strict=True)
    return torch.stack(nodes), torch.stack(edges)


@chain_best.register_fake
def _(unary: Tensor, *rest: Any) -> Tensor:
    return unary.new_empty(unary.shape[:3], dtype=torch.int64)


@chain_k_best.register_fake
def _(unary: Tensor, pairwise: Tensor, starts: Tensor, ends: Tensor, mask: Tensor | None, k: int) -> Any:
    G, B, n, _ = unary.shape
    return unary.new_empty((G, B, k, n), dtype=torch.int64), unary.new_empty((G, B), dtype=torch.int64)


@chain_sample.register_fake
def _(unary: Tensor, pairwise: Tensor, starts: Tensor, ends: Tensor, mask: Any, uniforms: Tensor, mu: float) -> Tensor:
    return torch.empty_like(uniforms, dtype=torch.int64)


@chain_max_marginals.register_fake
def _(unary: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    G, B, n, L = unary.shape
    return unary.new_empty(unary.shape), unary.new_empty((G, B, max(n - 1, 0), L, L))


for each in (chain_best, chain_k_best, chain_sample, chain_max_marginals):
    more_groups(each)
