"""Dependency trees over scores of an encoder, as :class:`reference.Arborescence` has them.

values (..., n, n + 1): values[m, h] is the score of head h (0: the root) for token m + 1; -inf forbids an arc, and
values[m, m + 1] is ignored. By name: lengths (...,), the tokens of each sentence; single_root, whether each tree has
exactly one. Trees may have arcs that cross. Errors as in :mod:`diptych.layers.torch.chain`.

On the CPU a call is one call of a kernel for the whole batch; derivatives of first order, and an error where a second
one is asked for. Elsewhere sums are determinants in float64 (the matrix-tree theorem), and best trees are found on the
host. Source: Koo et al. (2007) and McDonald et al. (2005).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from accelerated.structures import arborescence_batch
from diptych.layers.torch.arguments import floating, label_tensor, lengths_tensor, undifferentiated
from diptych.layers.torch.chain import Best
from reference.arrays import number
from reference.structures.base import InfeasibleError

__all__ = ["best", "crf_loss", "hinge_loss", "log_partition", "marginals", "score"]


class Trees(NamedTuple):
    """values (B, n, n + 1), lengths (B,), and the leading axes of the caller."""

    values: Tensor
    lengths: Tensor
    batch: tuple[int, ...]

    def shaped(self, x: Tensor) -> Tensor:
        return x.reshape(*self.batch, *x.shape[1:])


def log_partition(
    values: Tensor, *, lengths: Tensor | None = None, single_root: bool = False, mu: float = 1.0
) -> Tensor:
    """mu log sum_y exp(score(y) / mu) over trees, (...,); 0 for a sentence without tokens."""
    given, mu = _trees(values, lengths), number("mu", mu, positive=True)
    if given.values.device.type != "cpu":
        return given.shaped(_determinants(given, single_root, mu))
    value, _ = _Sums.apply(given.values, given.lengths, bool(single_root), mu)
    return given.shaped(value)


def marginals(values: Tensor, *, lengths: Tensor | None = None, single_root: bool = False, mu: float = 1.0) -> Tensor:
    """The probability of each arc, (..., n, n + 1), where P(y) is proportional to exp(score(y) / mu)."""
    given, mu = _trees(values, lengths), number("mu", mu, positive=True)
    if given.values.device.type != "cpu":
        with torch.enable_grad():
            x = given.values if given.values.requires_grad else given.values.detach().requires_grad_()
            total = _determinants(given._replace(values=x), single_root, mu).sum()
            return given.shaped(torch.autograd.grad(total, x, create_graph=values.requires_grad)[0])
    shares = tree_sums(given.values, given.lengths, bool(single_root), mu)[1]
    return given.shaped(undifferentiated(shares, given.values))


def best(values: Tensor, *, lengths: Tensor | None = None, single_root: bool = False) -> Best:
    """The highest score (...,), whose gradient is the indicator of the best tree's arcs, and its heads (..., n), -1
    past a sentence's length.
    """
    given = _trees(values, lengths)
    heads = best_trees(given.values, given.lengths, bool(single_root))
    return Best(given.shaped(_score(given, heads)), given.shaped(heads))


def score(values: Tensor, heads: Tensor, *, lengths: Tensor | None = None) -> Tensor:
    """The sum (...,) of the scores of heads (..., n); those past a sentence's length are ignored."""
    given = _trees(values, lengths)
    return given.shaped(_score(given, _heads(given, heads, values)))


def crf_loss(values: Tensor, heads: Tensor, *, lengths: Tensor | None = None, single_root: bool = False) -> Tensor:
    """-log P(heads), (...,): the log-partition less the score of heads (..., n)."""
    whole = log_partition(values, lengths=lengths, single_root=single_root)
    return whole - score(values, heads, lengths=lengths)


def hinge_loss(
    values: Tensor, heads: Tensor, cost: float = 1.0, *, lengths: Tensor | None = None, single_root: bool = False
) -> Tensor:
    """max_y cost * (number of wrong heads) + score(y) - score(heads), (...,)."""
    values = floating("values", values)
    right = torch.nn.functional.one_hot(_clamped(values, heads), values.shape[-1])
    augmented = values + cost * (1 - right)
    found = best(augmented, lengths=lengths, single_root=single_root).value
    return found - score(augmented, heads, lengths=lengths)


@torch.library.custom_op("diptych::tree_sums", mutates_args=())
def tree_sums(values: Tensor, lengths: Tensor, single_root: bool, mu: float) -> tuple[Tensor, Tensor]:
    """The log-partitions (B,) and the marginals (B, n, n + 1). Raises ValueError, InfeasibleError."""
    x = values.detach().contiguous().numpy()
    value, shares = arborescence_batch.sums(x, lengths.numpy(), single_root, mu, torch.get_num_threads())
    found = torch.from_numpy(value)
    _check(found, values, lengths)
    return found.to(values.dtype), torch.from_numpy(shares).to(values.dtype)


@torch.library.custom_op("diptych::best_trees", mutates_args=())
def best_trees(values: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """The heads (B, n) of the best trees. Raises ValueError, InfeasibleError."""
    x = values.detach().cpu().contiguous().numpy()
    value, heads = arborescence_batch.best(x, lengths.cpu().numpy(), single_root, torch.get_num_threads())
    _check(torch.from_numpy(value), values, lengths)
    return torch.from_numpy(heads).to(values.device)


@tree_sums.register_fake
def _(values: Tensor, lengths: Tensor, single_root: bool, mu: float) -> tuple[Tensor, Tensor]:
    return values.new_empty(values.shape[:1]), torch.empty_like(values, memory_format=torch.contiguous_format)


@best_trees.register_fake
def _(values: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    return values.new_empty(values.shape[:2], dtype=torch.int64)


def _joined_batches(info: Any, dims: Any, *given: Any) -> list[Any]:
    """Arguments whose first axis is that of vmap and that of the batch together."""
    joined = []
    for x, dim in zip(given, dims, strict=True):
        if isinstance(x, Tensor):
            x = x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            x = x.reshape(-1, *x.shape[2:])
        joined.append(x)
    return joined


@tree_sums.register_vmap
def _(info: Any, dims: Any, *given: Any) -> Any:
    found = tree_sums(*_joined_batches(info, dims, *given))
    return tuple(x.reshape(info.batch_size, -1, *x.shape[1:]) for x in found), (0, 0)


@best_trees.register_vmap
def _(info: Any, dims: Any, *given: Any) -> Any:
    found = best_trees(*_joined_batches(info, dims, *given))
    return found.reshape(info.batch_size, -1, *found.shape[1:]), 0


class _Sums(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(values: Any, lengths: Any, single_root: Any, mu: Any) -> Any:
        return tree_sums(values, lengths, single_root, mu)

    @staticmethod
    def setup_context(ctx: Any, given: Any, found: Any) -> None:
        ctx.mark_non_differentiable(found[1])
        ctx.save_for_backward(found[1], given[0])

    @staticmethod
    def backward(ctx: Any, weights: Tensor, _: Any) -> Any:
        return weights[:, None, None] * undifferentiated(*ctx.saved_tensors), None, None, None


def _determinants(given: Trees, single_root: bool, mu: float) -> Tensor:
    """The log-partitions by the matrix-tree theorem: rows are divided by their largest weight, and tokens past a
    sentence's length have the root as their only head.
    """
    values, lengths, _ = given
    x, (_, n, _) = values.double() / mu, values.shape
    if n == 0:
        return values.sum((1, 2))
    token = torch.arange(n, device=x.device)
    inside = token < lengths[:, None]
    own = torch.nn.functional.pad(torch.eye(n, dtype=torch.bool, device=x.device), (1, 0))
    arcs = inside[:, :, None] & torch.nn.functional.pad(inside, (1, 0), value=True)[:, None, :] & ~own
    x = torch.where(arcs, x, -torch.inf)
    top = x.detach().amax(-1, keepdim=True)
    top = torch.where(top > -torch.inf, top, 0.0)
    weights = (x - top).exp()
    root, heads = weights[..., 0], weights[..., 1:]
    matrix = torch.diag_embed(heads.sum(-1) + (0.0 if single_root else root)) - heads.mT
    if single_root:
        matrix = torch.cat([root[:, None, :], matrix[:, 1:]], 1)
    missing = torch.diag_embed((~inside).double())
    matrix = torch.where(inside[:, None, :] & inside[:, :, None], matrix, missing)
    value = torch.linalg.slogdet(matrix)[1] + (top[..., 0] * inside).sum(-1)
    value = torch.where(lengths > 0, value, torch.zeros_like(value))
    _check(value.detach(), values, lengths)
    return (mu * value).to(values.dtype)


def _check(value: Tensor, values: Tensor, lengths: Tensor) -> None:
    """Say what is wrong where a value is not finite."""
    wrong = ~torch.isfinite(value)
    if not wrong.any():
        return
    bad = ~(values < torch.inf)
    if bad.any():
        place = tuple(torch.nonzero(bad)[0].tolist())
        got = float(values[bad][0])
        raise ValueError(f"values: expected finite scores, or -inf for a forbidden arc, got {got} at {place}")
    raise InfeasibleError(f"every tree of example {torch.nonzero(wrong)[0].item()} has a forbidden arc")


def _score(given: Trees, heads: Tensor) -> Tensor:
    each = given.values.gather(-1, heads.clamp(min=0)[..., None])[..., 0]
    inside = torch.arange(heads.shape[1], device=heads.device) < given.lengths[:, None]
    return torch.where(inside, each, 0.0).sum(-1)


def _trees(values: Any, lengths: Any) -> Trees:
    values = floating("values", values)
    if values.ndim < 2 or values.shape[-1] != values.shape[-2] + 1:
        raise ValueError(f"values: expected shape (..., n, n + 1), got {tuple(values.shape)}")
    *batch, n, _ = values.shape
    sizes = lengths_tensor(lengths, tuple(batch), n, values.device)
    B = math.prod(batch)
    if sizes is None:
        sizes = torch.full((B,), n, dtype=torch.int64, device=values.device)
    return Trees(values.reshape(B, n, n + 1), sizes.reshape(B).long(), tuple(batch))


def _heads(given: Trees, heads: Any, values: Tensor) -> Tensor:
    """Heads (B, n), 0..n where there are tokens."""
    y, n = label_tensor("heads", heads, values).reshape(given.values.shape[:2]), given.values.shape[1]
    return checked_heads(y, given.lengths, n)


@torch.library.custom_op("diptych::checked_heads", mutates_args=())
def checked_heads(heads: Tensor, lengths: Tensor, n: int) -> Tensor:
    """Heads (B, n), a copy, 0 past a sentence's length. Raises ValueError if one is none of 0..n."""
    inside = torch.arange(heads.shape[1], device=heads.device) < lengths[:, None]
    outside = inside & ((heads < 0) | (heads > lengths[:, None]))
    if outside.any():
        b, m = torch.nonzero(outside)[0].tolist()
        raise ValueError(
            f"heads: expected 0..{int(lengths[b])}, got {int(heads[b, m])} at token {m + 1} of example {b}"
        )
    return torch.where(inside, heads, 0)


@checked_heads.register_fake
def _(heads: Tensor, lengths: Tensor, n: int) -> Tensor:
    return torch.empty_like(heads)


@checked_heads.register_vmap
def _(info: Any, dims: Any, *given: Any) -> Any:
    found = checked_heads(*_joined_batches(info, dims, *given))
    return found.reshape(info.batch_size, -1, *found.shape[1:]), 0


def _clamped(values: Tensor, heads: Any) -> Tensor:
    return label_tensor("heads", heads, values).clamp(0, values.shape[-1] - 1)
