"""Matchings of rows with columns over scores of an encoder, as :class:`reference.Matching` has them.

values (..., p, q): the score of each pair; -inf forbids it. If p <= q all rows are matched, else all columns. By name:
lengths (..., 2) integers, the numbers of rows and of columns of each matrix of a padded batch. Sums over matchings are
#P-complete, so there are best matchings only; their scores have gradients. Found on the CPU: the best of a batch by one
call of a kernel.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from accelerated.structures import matching_batch
from accelerated.structures.matching import Matching, MatchingScores
from diptych.layers.torch.arguments import floating, lengths_tensor
from diptych.layers.torch.chain import Best, KBest
from diptych.layers.torch.operators import more_groups
from reference.arrays import integer
from reference.structures.base import InfeasibleError

__all__ = ["best", "hinge_loss", "score", "topk"]


class Matrices(NamedTuple):
    """values (B, p, q), lengths (B, 2), and the leading axes of the caller."""

    values: Tensor
    lengths: Tensor
    batch: tuple[int, ...]


def best(values: Tensor, *, lengths: Tensor | None = None) -> Best:
    """The highest score (...,), whose gradient is the indicator of the best pairs, and the column of each row (..., p),
    -1 for none.
    """
    found = topk(values, 1, lengths=lengths)
    return Best(found.scores[..., 0], found.labels[..., 0, :])


def topk(values: Tensor, k: int, *, lengths: Tensor | None = None) -> KBest:
    """The k best distinct matchings: scores (..., k), labels (..., k, p), count (...,)."""
    (flat, sizes, batch), k = _matrices(values, lengths), integer("k", k, 1)
    labels, count = best_matchings(flat.detach(), sizes, k)
    there = torch.arange(k, device=labels.device) < count[:, None]
    scores = torch.where(there, _score(flat[:, None].expand(-1, k, -1, -1), labels), -torch.inf)
    return KBest(scores.reshape(*batch, k), labels.reshape(*batch, *labels.shape[1:]), count.reshape(batch))


def score(values: Tensor, columns: Tensor, *, lengths: Tensor | None = None) -> Tensor:
    """The sum (...,) of the scores of the columns (..., p) of all rows, -1 for none; those of rows past a matrix's own
    are ignored.
    """
    flat, sizes, batch = _matrices(values, lengths)
    if not isinstance(columns, Tensor) or columns.dtype != torch.int64:
        raise TypeError(f"columns: expected int64, got {getattr(columns, 'dtype', type(columns).__name__)}")
    if tuple(columns.shape) != tuple(values.shape[:-1]):
        raise ValueError(f"columns: expected shape {tuple(values.shape[:-1])}, got {tuple(columns.shape)}")
    return _score(flat, checked_columns(columns.reshape(flat.shape[:2]), sizes)).reshape(batch)


def hinge_loss(values: Tensor, columns: Tensor, cost: float = 1.0, *, lengths: Tensor | None = None) -> Tensor:
    """max_y cost * (number of pairs of y that are none of columns) + score(y) - score(columns), (...,)."""
    gold = score(values, columns, lengths=lengths)
    values = floating("values", values)
    wrong = torch.arange(values.shape[-1], device=values.device) != columns[..., None]
    augmented = values + cost * wrong.to(values.dtype)
    return best(augmented, lengths=lengths).value - gold


@torch.library.custom_op("diptych::best_matchings", mutates_args=())
def best_matchings(values: Tensor, lengths: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best matchings (B, k, p), -1 beyond those there are, and their number (B,). Raises ValueError; if k = 1
    InfeasibleError.
    """
    x, sizes = values.detach().cpu().contiguous().numpy(), lengths.cpu().contiguous().numpy()
    value, columns = matching_batch.best(x, sizes, torch.get_num_threads())
    if np.isnan(value).any():
        Matching(x, sizes)  # raises the error, which names the score
    if k > 1:
        found = Matching.unchecked(MatchingScores(x, sizes)).topk(k)
        return torch.from_numpy(found.labels).to(values.device), torch.from_numpy(found.count).to(values.device)
    if (value == -np.inf).any():
        raise InfeasibleError(f"every matching of example {int(value.argmin())} has a forbidden pair")
    count = torch.ones(len(x), dtype=torch.int64, device=values.device)
    return torch.from_numpy(columns)[:, None].to(values.device), count


@best_matchings.register_fake
def _(values: Tensor, lengths: Tensor, k: int) -> tuple[Tensor, Tensor]:
    B, p, _ = values.shape
    return values.new_empty((B, k, p), dtype=torch.int64), values.new_empty((B,), dtype=torch.int64)


@torch.library.custom_op("diptych::checked_columns", mutates_args=())
def checked_columns(columns: Tensor, lengths: Tensor) -> Tensor:
    """Columns (B, p), a copy, -1 for rows past a matrix's own. Raises ValueError if one is none of -1..q-1."""
    inside = torch.arange(columns.shape[1], device=columns.device) < lengths[:, :1]
    outside = inside & ((columns < -1) | (columns >= lengths[:, 1:]))
    if outside.any():
        b, i = torch.nonzero(outside)[0].tolist()
        q, got = int(lengths[b, 1]), int(columns[b, i])
        raise ValueError(f"columns: expected -1..{q - 1}, got {got} at row {i} of example {b}")
    return torch.where(inside, columns, -1)


@checked_columns.register_fake
def _(columns: Tensor, lengths: Tensor) -> Tensor:
    return torch.empty_like(columns)


for each in (best_matchings, checked_columns):
    more_groups(each)


def _matrices(values: Any, lengths: Any) -> Matrices:
    values = floating("values", values)
    if values.ndim < 2:
        raise ValueError(f"values: expected shape (..., p, q), got {tuple(values.shape)}")
    *batch, p, q = values.shape
    B, device = math.prod(batch), values.device
    if lengths is None:
        sizes = torch.tensor([[p, q]], device=device).repeat(B, 1)
    else:
        lengths = torch.as_tensor(lengths, device=device)
        if tuple(lengths.shape) != (*batch, 2):
            raise ValueError(f"lengths: expected shape {(*batch, 2)}, got {tuple(lengths.shape)}")
        for i, most in enumerate((p, q)):
            lengths_tensor(lengths[..., i], tuple(batch), most, device)
        sizes = lengths.long().reshape(B, 2)
    return Matrices(values.reshape(B, p, q), sizes, tuple(batch))


def _score(values: Tensor, columns: Tensor) -> Tensor:
    if values.shape[-1] == 0:
        return values.sum((-2, -1))
    each = values.gather(-1, columns.clamp(min=0)[..., None])[..., 0]
    return torch.where(columns >= 0, each, 0.0).sum(-1)
