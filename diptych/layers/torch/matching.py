"""Matchings of rows with columns over scores of an encoder, as :class:`reference.Matching` has them.

values (..., p, q): the score of each pair; -inf forbids it. If p <= q all rows are matched, else all columns. By name:
lengths (..., 2) integers, the numbers of rows and of columns of each matrix of a padded batch. Sums over matchings are
#P-complete, so there are best matchings only; their scores have gradients. Found on the CPU: the best of a batch by one
call of a kernel.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

import accelerated.structures.matching as kernels
from diptych.layers.torch import formulas
from diptych.layers.torch.arguments import floating, lengths_tensor, operator
from diptych.layers.torch.formulas import Batch, chosen, functions
from diptych.layers.torch.oracles import KINDS, Kind
from reference.structures.base import InfeasibleError

__all__ = ["best", "hinge_loss", "score", "sparsemap", "sparsemap_loss", "topk"]


class Matrices(Batch):
    """values (B, p, q), and lengths (B, 2)."""

    kind = "matching"
    output = "columns"

    @classmethod
    def of(cls, values: Tensor, *, lengths: Tensor | None = None) -> Matrices:
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
        return cls((values.reshape(B, p, q),), tuple(batch), sizes)

    def checked(self, y: Tensor) -> Tensor:
        return checked_columns(y, self.where)

    def costs(self, y: Tensor, cost: Any) -> Tensor:
        """Of each pair that is none of ``columns``."""
        values = self.scores[0]
        return cost * (torch.arange(values.shape[-1], device=values.device) != y[..., None]).to(values.dtype)

    def score(self, y: Tensor) -> Tensor:
        return chosen(torch.nn.functional.pad(self.scores[0], (0, 1)), y).sum(-1)  # there may be no columns


best, topk, sparsemap = functions(Matrices, (formulas.best, formulas.topk, formulas.sparsemap))
score, hinge_loss, sparsemap_loss = functions(Matrices, (formulas.score, formulas.hinge_loss, formulas.sparsemap_loss))


def _best(scores: Any, lengths: Any, parents: Any, single_root: bool) -> Tensor:
    given = kernels.MatchingScores(scores[0].cpu().contiguous().numpy(), lengths.cpu().contiguous().numpy())
    value, columns = kernels.best(given, torch.get_num_threads())
    if np.isnan(value).any():
        _made(scores, lengths, parents, single_root)  # raises the error, which names the score
    if (value == -np.inf).any():
        raise InfeasibleError(f"every matching of example {int(value.argmin())} has a forbidden pair")
    return torch.from_numpy(columns).to(scores[0].device)


def _made(scores: Any, lengths: Any, parents: Any, single_root: bool) -> kernels.Matching:
    values, (p, q) = scores[0], lengths.unbind(-1)
    rows, columns = (torch.arange(size, device=values.device) for size in values.shape[1:])
    inside = (rows < p[:, None])[:, :, None] & (columns < q[:, None])[:, None]
    values = torch.where(inside, values, 0.0)  # also where what is left out is nan
    return kernels.Matching(values.cpu(), lengths.cpu())


KINDS["matching"] = Kind(_made, _best)


@operator("checked_columns", lambda columns, *_: torch.empty_like(columns))
def checked_columns(columns: Tensor, lengths: Tensor) -> Tensor:
    """Columns (B, p), a copy, -1 for rows past a matrix's own. Raises ValueError if one is none of -1..q-1."""
    inside = torch.arange(columns.shape[1], device=columns.device) < lengths[:, :1]
    outside = inside & ((columns < -1) | (columns >= lengths[:, 1:]))
    if outside.any():
        b, i = torch.nonzero(outside)[0].tolist()
        q, got = int(lengths[b, 1]), int(columns[b, i])
        raise ValueError(f"columns: expected -1..{q - 1}, got {got} at row {i} of example {b}")
    return torch.where(inside, columns, -1)
