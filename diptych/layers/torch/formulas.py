"""Answers that layers of all structures give by the same formulas.

``of`` is a module of layers with ``best``, ``topk``, ``log_partition`` and ``score``; scores are its first arguments,
and ``where`` those by name. A given batch has ``scores`` and ``shaped``; value(given, mu) and mean(given, direction)
are its log-partitions and its <marginals, direction>.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from diptych.layers.torch.arguments import floating, label_tensor
from reference.arrays import number
from reference.smoothings import Entropy, Max, SquaredL2, TopK
from reference.structures.base import InfeasibleError

__all__ = ["augmented", "entropy", "kl", "smooth_max"]


def entropy(given: Any, value: Any, mean: Any) -> Tensor:
    """-sum_y P(y) log P(y), (...,), where P(y) is proportional to exp(score(y))."""
    found: Tensor = given.shaped(value(given, 1.0) - mean(given, [_finite(x) for x in given.scores]))
    return found


def kl(p: Any, q: Any, value: Any, mean: Any) -> Tensor:
    """sum_y P(y) log (P(y) / Q(y)), (...,); inf where Q forbids a part that P has."""
    pairs = list(zip(p.scores, q.scores, strict=True))
    apart = value(q, 1.0) - value(p, 1.0) + mean(p, [_finite(a) - _finite(b) for a, b in pairs])
    lost = mean(p, [((b == -torch.inf) & (a > -torch.inf)).to(a.dtype) for a, b in pairs])
    found: Tensor = p.shaped(torch.where(lost.detach() > 0, torch.inf, apart))
    return found


def smooth_max(of: Any, scores: tuple[Any, ...], smoothing: Any, mu: float, where: dict[str, Any]) -> Tensor:
    """The smoothed max (...,) over outputs, by a smoothing of :mod:`reference.smoothings`.

    Source: Pillutla et al., Definition 6.
    """
    value: Tensor
    if isinstance(smoothing, Max) or mu == 0:
        value = of.best(*scores, **where).value
    elif isinstance(smoothing, Entropy):
        value = of.log_partition(*scores, mu=mu, **where)
    elif isinstance(smoothing, (TopK, SquaredL2)):
        value = _of_the_best(of, scores, smoothing, number("mu", mu, positive=True), where)
    else:
        raise TypeError(f"smoothing: expected Max, Entropy, TopK or SquaredL2, got {type(smoothing).__name__}")
    return value


def _of_the_best(
    of: Any, scores: tuple[Any, ...], smoothing: TopK | SquaredL2, mu: float, where: dict[str, Any]
) -> Tensor:
    k = smoothing.k if isinstance(smoothing, TopK) else 8
    while True:
        best = of.topk(*scores, k, **where)
        weights = _projected(best.scores / mu)
        if isinstance(smoothing, TopK) or k >= smoothing.max_k:
            break
        if bool(((weights[..., -1] == 0) | (best.count < k)).all()):
            break
        k = min(4 * k, smoothing.max_k)
    each = torch.where(weights > 0, best.scores, 0.0)
    value = (weights * each).sum(-1) - 0.5 * mu * ((weights * weights).sum(-1) - 1.0)
    return torch.where(possible(best.count) > 0, value, -torch.inf)


@torch.library.custom_op("diptych::possible", mutates_args=())
def possible(count: Tensor) -> Tensor:
    """The numbers of outputs, a copy. Raises InfeasibleError if one is 0."""
    if (count == 0).any():
        raise InfeasibleError(f"every output of example {torch.nonzero(count == 0)[0].tolist()} is forbidden")
    return count.clone()


@possible.register_fake
def _(count: Tensor) -> Tensor:
    return torch.empty_like(count)


possible.register_vmap(lambda info, dims, count: (possible(count), dims[0]))


def augmented(unary: Tensor, labels: Tensor, cost: Any, name: str = "labels") -> Tensor:
    """Scores (..., n, L) plus the cost of each label: a number for all but the right one, or a matrix (L, L) of (label,
    predicted label). Labels outside 0..L-1 cost nothing here.
    """
    unary = floating("unary", unary)
    y, L = label_tensor(name, labels, unary), unary.shape[-1]
    table = torch.as_tensor(cost, dtype=unary.dtype, device=unary.device)
    if table.ndim == 0:
        table = table * (1.0 - torch.eye(L, dtype=unary.dtype, device=unary.device))
    if tuple(table.shape) != (L, L):
        raise ValueError(f"cost: expected a number or shape {(L, L)}, got {tuple(table.shape)}")
    return unary + torch.where(((y >= 0) & (y < L))[..., None], table[y.clamp(0, L - 1)], 0.0)


def _projected(z: Tensor) -> Tensor:
    """The projection of scores (..., k), from high to low, -inf last, onto the simplex; with its derivatives."""
    there, highest = torch.isfinite(z), z[..., :1].detach()
    top = torch.where(there, z - torch.where(torch.isfinite(highest), highest, 0.0), 0.0)
    sums = torch.cumsum(top, -1)
    rank = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype, device=z.device)
    inside = there & (1.0 + rank * top > sums)
    support = inside.sum(-1, keepdim=True).clamp(min=1)
    threshold = (sums.gather(-1, support - 1) - 1.0) / support
    return torch.where(inside, top - threshold, 0.0)


def _finite(x: Tensor) -> Tensor:
    return torch.where(x > -torch.inf, x, 0.0)
