"""Sums over outputs that a kernel finds together with its marginals, and their first derivatives.

There are no second derivatives: asking for one is an error. :func:`mean` has derivatives, for entropies: those of the
log-partition in plain PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from diptych.layers.torch.arguments import applied, undifferentiated
from reference.structures.scores import finite

__all__ = ["log_partition", "log_total", "marginals", "mean"]


def log_partition(operator: Callable[..., Any], *given: Any) -> Tensor:
    """The value (B,) of an operator of four arguments, tensors of scores first, that returns it with the marginals."""
    value: Tensor = applied(_Value, operator, *given)[0]
    return value


def marginals(operator: Callable[..., Any], *given: Any) -> tuple[Tensor, ...]:
    """The marginals, without derivatives."""
    _, *parts = operator(*(x.detach() if isinstance(x, Tensor) else x for x in given))
    return tuple(undifferentiated(x, *given[: len(parts)]) for x in parts)


def mean(plain: Callable[..., Tensor], scores: Sequence[Tensor], direction: Sequence[Tensor]) -> Tensor:
    """<marginals, direction>, (B,), where plain(*scores) is the log-partition (B,) in PyTorch."""
    value, slopes = torch.func.vjp(plain, *(x.double() for x in scores))
    parts = slopes(torch.ones_like(value))
    each = [(x * v).flatten(1).sum(1) for x, v in zip(parts, direction, strict=True)]
    return torch.stack(each).sum(0).to(scores[0].dtype)


def log_total(x: Tensor, dim: int) -> Tensor:
    """log sum exp, with derivatives 0 where all are -inf."""
    top = finite(torch, x.detach().amax(dim, keepdim=True))
    mass = (x - top).exp().sum(dim)
    return torch.where(mass > 0, torch.where(mass > 0, mass, 1.0).log() + top.squeeze(dim), -torch.inf)


class _Value(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(operator: Any, a: Any, b: Any, c: Any, mu: Any) -> Any:  # compiled programs take no *given here
        return operator(a, b, c, mu)

    @staticmethod
    def setup_context(ctx: Any, given: Any, found: Any) -> None:
        ctx.mark_non_differentiable(*found[1:])
        kept = *given[1 : len(found)], *found[1:]
        ctx.save_for_backward(*kept)
        if not torch.compiler.is_compiling():
            ctx.save_for_forward(*kept)

    @staticmethod
    def backward(ctx: Any, weights: Tensor, *_: Any) -> Any:
        slopes = [weights.reshape(-1, *(1,) * (x.ndim - 1)) * x for x in _marginals(ctx)]
        return None, *slopes, *(None,) * (4 - len(slopes))

    @staticmethod
    def forward_mode(ctx: Any, _: Any, *along: Any) -> Any:
        parts = _marginals(ctx)
        terms = [(x * v).flatten(1).sum(1) for x, v in zip(parts, along, strict=False) if v is not None]
        return sum(terms), *(None,) * len(parts)


def _marginals(ctx: Any) -> list[Tensor]:
    half = len(ctx.saved_tensors) // 2
    scores, parts = ctx.saved_tensors[:half], ctx.saved_tensors[half:]
    return list(parts) if torch.compiler.is_compiling() else [undifferentiated(x, *scores) for x in parts]
