"""Dependency trees over scores of an encoder, as :class:`reference.Arborescence` has them.

values (..., n, n + 1): values[m, h] is the score of head h (0: the root) for token m + 1; -inf forbids an arc, and
values[m, m + 1] is ignored. Trees may have arcs that cross. All functions take by name

- mask (..., n) bool, or lengths (...,): the tokens of each sentence. Those off the mask are left out; heads still count
  all positions. A sentence may have no tokens.
- single_root: whether each tree has exactly one root.

Errors as in :mod:`diptych.layers.torch.chain`. On the CPU sums and best trees are one call of a kernel for the whole
batch. Elsewhere sums are inverses of matrices in float64 (the matrix-tree theorem) where these are accurate, and else
found on the host, as trees are. The derivatives of :func:`entropy` and :func:`kl` are those of an elimination of token
after token in PyTorch, in float64 and with logarithms, in time and memory O(n^3). Source: Koo et al. (2007) and
McDonald et al. (2005).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import accelerated.structures.arborescence as kernels
from diptych.layers.torch import sums
from diptych.layers.torch.arguments import floating, mask_of, operator
from diptych.layers.torch.formulas import LABELLED, OUTPUTS, SUMS, Batch, functions
from diptych.layers.torch.oracles import KINDS, Kind
from diptych.layers.torch.sums import log_total
from reference.arrays import number
from reference.structures.base import InfeasibleError
from reference.structures.scores import finite

__all__ = [formula.__name__ for formula in (*SUMS, *OUTPUTS, *LABELLED)]


@dataclass
class Trees(Batch):
    """values (B, n, n + 1), tokens first, and their numbers (B,) as ``where``; mask (B, n) of the caller; places (B,
    n): that of each token there and then those off the mask, or None where tokens come first.
    """

    kind = "arborescence"
    output = "heads"
    mask: Any = None
    places: Tensor | None = None

    @classmethod
    def of(
        cls,
        values: Tensor,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        single_root: bool = False,
    ) -> Trees:
        values = floating("values", values)
        if values.ndim < 2 or values.shape[-1] != values.shape[-2] + 1:
            raise ValueError(f"values: expected shape (..., n, n + 1), got {tuple(values.shape)}")
        if not isinstance(single_root, bool):
            raise TypeError(f"single_root: expected True or False, got {single_root!r}")
        *batch, n, _ = values.shape
        B, kept = math.prod(batch), mask_of(mask, lengths, tuple(batch), n, values.device)
        kept = values.new_ones((B, n), dtype=torch.bool) if kept is None else kept.reshape(B, n)
        flat, places = values.reshape(B, n, n + 1), None
        if mask is not None:
            places = (~kept).long().argsort(stable=True, dim=-1)
            flat = _moved(flat, places)
        return cls((flat,), tuple(batch), kept.sum(-1), None, single_root, kept, places)

    def checked(self, y: Tensor) -> Tensor:
        y = checked_heads(y, self.mask, self.single_root)
        if self.places is None:
            return y
        return _renamed(y[:, None], self.places, self.places.argsort(-1))[:, 0]

    def costs(self, y: Tensor, cost: Any) -> Tensor:
        return super().costs(y, number("cost", cost))

    def value(self, mu: float) -> Tensor:
        return sums.log_partition(tree_sums, *self.scores, self.where, self.single_root, mu)

    def mean(self, direction: list[Tensor]) -> Tensor:
        return sums.mean(lambda x: _eliminated(x, self.where, self.single_root), self.scores, direction)

    def marginals(self, mu: float) -> Sequence[Tensor]:
        (shares,) = sums.marginals(tree_sums, *self.scores, self.where, self.single_root, mu)
        return [self.parts(shares)]

    def parts(self, x: Tensor) -> Tensor:
        return self.shaped(x if self.places is None else _moved(x, self.places.argsort(-1)))

    def outputs(self, y: Tensor) -> Tensor:
        return y if self.places is None else _renamed(y, self.places.argsort(-1), self.places)


log_partition, marginals, entropy, kl = functions(Trees, SUMS)
best, best_labels, topk, max_marginals, sample, smooth_max, sparsemap = functions(Trees, OUTPUTS)
score, crf_loss, hinge_loss, smooth_hinge_loss, sparsemap_loss = functions(Trees, LABELLED)


@operator("tree_sums", lambda values, *_: (values.new_empty(values.shape[:1]), values.new_empty(values.shape)))
def tree_sums(values: Tensor, lengths: Tensor, single_root: bool, mu: float) -> tuple[Tensor, Tensor]:
    """The log-partitions (B,) and the marginals (B, n, n + 1). Raises ValueError, InfeasibleError."""
    if not on_host(values):
        value, shares, exact = _by_inverse(values, lengths, single_root, mu)
        if exact.all():
            return value.to(values.dtype), shares.to(values.dtype)
    found = _answers(kernels.sum_range, values, lengths, (single_root, mu), (0.0, *values.shape[1:]))
    value, shares = (torch.from_numpy(each).to(values.device, values.dtype) for each in found)
    _check(value, values, lengths)
    return value, shares


def _best(scores: Any, lengths: Any, parents: Any, single_root: bool) -> Tensor:
    value, heads = _answers(kernels.best_range, scores[0], lengths, (single_root,), (-1, scores[0].shape[1]))
    _check(torch.from_numpy(value).to(lengths.device), scores[0], lengths)
    return torch.from_numpy(heads).to(lengths.device)


def _made(scores: Any, lengths: Any, parents: Any, single_root: bool) -> kernels.Arborescence:
    values = torch.where(_arcs(scores[0], lengths), scores[0], 0.0)  # also where what is left out is nan
    return kernels.Arborescence(values.cpu(), single_root, lengths.cpu())


KINDS["arborescence"] = Kind(_made, _best)


def _answers(kernel: Any, values: Tensor, lengths: Tensor, given: Any, room: Any) -> list[np.ndarray]:
    """The values and the rest that a kernel finds on the host."""
    scores = kernels.ArborescenceScores(values.detach().cpu().contiguous().numpy(), lengths.cpu().numpy())
    return kernels.answers(kernel, scores, given, (0.0,), room, threads=torch.get_num_threads())


@operator("checked_heads", lambda heads, *_: torch.empty_like(heads))
def checked_heads(heads: Tensor, mask: Tensor, single_root: bool) -> Tensor:
    """Heads (B, n), a copy, -1 off the mask. Raises ValueError if they are no tree of the tokens on the mask."""
    n, y = heads.shape[1], torch.where(mask, heads, 0)
    there = torch.nn.functional.pad(mask, (1, 0), value=True)
    outside = (y < 0) | (y > n) | ~there.gather(1, y.clamp(0, n))
    if outside.any():
        b, m = torch.nonzero(outside)[0].tolist()
        last, got = int(torch.nonzero(there[b]).max()), int(y[b, m])
        what = f"0..{last}" if not 0 <= got <= last else "0 or a token on the mask"
        raise ValueError(f"heads: expected {what}, got {got} at token {m + 1} of example {b}")
    above = torch.nn.functional.pad(y, (1, 0))
    for _ in range(n.bit_length()):
        above = above.gather(1, above)  # 2, 4, 8, ... arcs towards the root
    if above.any():
        b, m = torch.nonzero(above)[0].tolist()
        raise ValueError(f"heads: expected a tree, got a cycle above token {m} of example {b}")
    roots = (mask & (y == 0)).sum(1)
    wrong = mask.any(1) & (roots != 1)
    if single_root and wrong.any():
        b = int(torch.nonzero(wrong)[0])
        raise ValueError(f"heads: expected a single token of head 0, got {int(roots[b])} in example {b}")
    return torch.where(mask, heads, -1)


def on_host(values: Tensor) -> bool:
    """Whether kernels take these scores."""
    return values.device.type == "cpu"


def _by_inverse(values: Tensor, lengths: Tensor, single_root: bool, mu: float) -> tuple[Tensor, Tensor, Tensor]:
    """The log-partitions and the marginals by the matrix-tree theorem, and whether rounding changes them by less than
    1e-9, of float32 scores 1e-6: n^2 eps times the condition of the matrix bounds the change of its log-determinant.
    """
    n, top = values.shape[1], _highest(values, lengths)
    weights = torch.where(_arcs(values, lengths), ((values.double() - top) / mu).exp(), 0.0)
    absent = torch.arange(n, device=values.device) >= lengths[:, None]
    root, heads, first = weights[..., 0], weights[..., 1:], torch.arange(n, device=values.device) == 0
    matrix = torch.diag_embed(heads.sum(-1) + (0.0 if single_root else root)) - heads.mT  # [h, m]
    if single_root:  # in place of the first row, those of the roots
        matrix = torch.where(first[:, None], root[:, None, :], matrix)
    matrix = matrix + torch.diag_embed(absent.double())
    inverse = torch.linalg.inv_ex(matrix)[0]  # [m, h], the derivatives of the log-determinant
    size = matrix.abs().sum(-1).amax(-1) * inverse.abs().sum(-1).amax(-1) if n else lengths.double()
    own, of_heads = inverse.diagonal(dim1=-2, dim2=-1), inverse
    of_root = inverse[..., 0] if single_root and n else own
    if single_root:
        own, of_heads = own.masked_fill(first, 0.0), inverse.masked_fill(first, 0.0)
    slopes = torch.cat([of_root[..., None], own[..., None] - of_heads], -1)
    value = mu * torch.linalg.slogdet(matrix)[1] + top.sum((1, 2))
    most = 1e-9 if values.dtype == torch.float64 else 1e-6
    return value, (weights * slopes).clamp(min=0.0), n * n * torch.finfo(torch.float64).eps * size < most


def _eliminated(values: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """The log-partitions (B,). A token is taken out, its dependents get its heads: w_ij += w_ik w_kj / (its sum, the
    pivot), and the sum over trees is the product of the pivots. With a single root only the last pivot counts the root.
    The largest pivot goes first, so that one that is 0 means that no tree is left.

    Source: Grassmann, Taksar and Heyman (1985), as in :mod:`reference.structures.arborescence_sum`.
    """
    n, arcs, top = values.shape[1], _arcs(values, lengths), _highest(values, lengths)
    w, left, value = torch.where(arcs, values - top, -torch.inf), arcs[..., 0], top.sum((1, 2))
    token, column = (torch.arange(size, device=values.device) for size in (n, n + 1))
    for _ in range(n):
        early = (left.sum(1) > 1) & single_root
        pivots = log_total(torch.where(early[:, None, None] & (column == 0), -torch.inf, w), -1)
        k = torch.where(left, pivots.detach(), -torch.inf).argmax(1, keepdim=True)
        pivot = pivots.gather(1, k)
        heads = w.gather(1, k[..., None].expand(-1, 1, n + 1)) - finite(torch, pivot)[..., None]
        through = w.gather(2, k[:, None].expand(-1, n, 1) + 1) + heads
        value = value + torch.where(left.any(1), pivot[:, 0], 0.0)
        left = left & (token != k)
        there = arcs & left[..., None] & torch.nn.functional.pad(left, (1, 0), value=True)[:, None]
        w = torch.where(there, log_total(torch.stack((w, through), -1), -1), -torch.inf)
    return value


def _highest(values: Tensor, lengths: Tensor) -> Tensor:
    """Of each row, (B, n, 1), 0 if all are forbidden: what is left is exact where scores are large."""
    scores = torch.where(_arcs(values, lengths), values.detach().double(), -torch.inf)
    return finite(torch, scores.amax(-1, keepdim=True))


def _arcs(values: Tensor, lengths: Tensor) -> Tensor:
    """Booleans (B, n, n + 1): from a token of the sentence to the root or to another."""
    place = torch.arange(values.shape[2], device=values.device)
    there = place <= lengths[:, None]
    return there[:, 1:, None] & there[:, None, :] & (place[1:, None] != place)


def _check(value: Tensor, values: Tensor, lengths: Tensor) -> None:
    """Say what is wrong where a value is not finite."""
    wrong = ~torch.isfinite(value)
    if wrong.any():
        _made([values], lengths, None, False)  # raises the error, which names the score
        raise InfeasibleError(f"every tree of example {torch.nonzero(wrong)[0].item()} has a forbidden arc")


def _moved(x: Tensor, places: Tensor) -> Tensor:
    """Numbers of arcs (B, n, n + 1) whose tokens are those at places (B, n)."""
    heads = torch.nn.functional.pad(places + 1, (1, 0))
    return x.gather(1, places[..., None].expand_as(x)).gather(2, heads[:, None].expand_as(x))


def _renamed(heads: Tensor, places: Tensor, names: Tensor) -> Tensor:
    """Heads (B, k, n) of the tokens at places (B, n), where token m becomes names[m - 1] + 1."""
    B, k, n = heads.shape
    table = torch.nn.functional.pad(torch.nn.functional.pad(names + 1, (1, 0)), (1, 0), value=-1)
    moved = heads.gather(-1, places[:, None].expand(B, k, n))
    return table[:, None].expand(B, k, n + 2).gather(-1, moved + 1)
