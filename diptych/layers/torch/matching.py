"""Matchings of rows with columns over scores of an encoder, as :class:`reference.Matching` has them.

values (..., p, q): the score of each pair; -inf forbids it. If p <= q all rows are matched, else all columns. Sums over
matchings are #P-complete, so there are best matchings only; their scores have gradients. Found on the CPU.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

import accelerated
from diptych.layers.torch.arguments import floating
from diptych.layers.torch.chain import Best, KBest
from reference.arrays import integer

__all__ = ["best", "hinge_loss", "score", "topk"]


def best(values: Tensor) -> Best:
    """The highest score (...,), whose gradient is the indicator of the best pairs, and the column of each row (..., p),
    -1 for none.
    """
    found = topk(values, 1)
    return Best(found.scores[..., 0], found.labels[..., 0, :])


def topk(values: Tensor, k: int) -> KBest:
    """The k best distinct matchings: scores (..., k), labels (..., k, p), count (...,)."""
    flat, batch, k = *_flat(values), integer("k", k, 1)
    labels, count = best_matchings(flat, k)
    there = torch.arange(k, device=labels.device) < count[:, None]
    scores = torch.where(there, _score(flat[:, None].expand(-1, k, -1, -1), labels), -torch.inf)
    return KBest(scores.reshape(*batch, k), labels.reshape(*batch, *labels.shape[1:]), count.reshape(batch))


def score(values: Tensor, columns: Tensor) -> Tensor:
    """The sum (...,) of the scores of the columns (..., p) of all rows, -1 for none."""
    flat, batch = _flat(values)
    if not isinstance(columns, Tensor) or columns.dtype != torch.int64:
        raise TypeError(f"columns: expected int64, got {getattr(columns, 'dtype', type(columns).__name__)}")
    if tuple(columns.shape) != tuple(values.shape[:-1]):
        raise ValueError(f"columns: expected shape {tuple(values.shape[:-1])}, got {tuple(columns.shape)}")
    if bool(((columns < -1) | (columns >= values.shape[-1])).any()):
        raise ValueError(
            f"columns: expected -1..{values.shape[-1] - 1}, got {int(columns.min())}..{int(columns.max())}"
        )
    return _score(flat, columns.reshape(flat.shape[:2])).reshape(batch)


def hinge_loss(values: Tensor, columns: Tensor, cost: float = 1.0) -> Tensor:
    """max_y cost * (number of pairs of y that are none of columns) + score(y) - score(columns), (...,)."""
    gold = score(values, columns)
    values = floating("values", values)
    wrong = torch.arange(values.shape[-1], device=values.device) != columns[..., None]
    augmented = values + cost * wrong.to(values.dtype)
    return best(augmented).value - gold


@torch.library.custom_op("diptych::best_matchings", mutates_args=())
def best_matchings(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best matchings (B, k, p), -1 beyond those there are, and their number (B,). Raises ValueError; if k = 1
    InfeasibleError.
    """
    B, p, _ = values.shape
    labels, count = torch.full((B, k, p), -1), torch.ones(B, dtype=torch.int64)
    for b, each in enumerate(values.detach().cpu().double().numpy()):
        matching = accelerated.Matching(each.copy())
        if k == 1:
            labels[b, 0] = torch.from_numpy(matching.best()[1])
        else:
            found = matching.topk(k)
            labels[b], count[b] = torch.from_numpy(found.labels), int(found.count)
    return labels.to(values.device), count.to(values.device)


@best_matchings.register_fake
def _(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    B, p, _ = values.shape
    return values.new_empty((B, k, p), dtype=torch.int64), values.new_empty((B,), dtype=torch.int64)


@best_matchings.register_vmap
def _(info: Any, dims: Any, values: Tensor, k: int) -> Any:
    x = values.movedim(dims[0], 0)
    found = best_matchings(x.reshape(-1, *x.shape[2:]), k)
    return tuple(y.reshape(info.batch_size, -1, *y.shape[1:]) for y in found), (0, 0)


def _flat(values: Any) -> tuple[Tensor, tuple[int, ...]]:
    values = floating("values", values)
    if values.ndim < 2:
        raise ValueError(f"values: expected shape (..., p, q), got {tuple(values.shape)}")
    *batch, p, q = values.shape
    return values.reshape(math.prod(batch), p, q), tuple(batch)


def _score(values: Tensor, columns: Tensor) -> Tensor:
    if values.shape[-1] == 0:
        return values.sum((-2, -1))
    each = values.gather(-1, columns.clamp(min=0)[..., None])[..., 0]
    return torch.where(columns >= 0, each, 0.0).sum(-1)
