"""Sums over outputs that a kernel finds together with its marginals, with derivatives of every order.

Those beyond the first are of <marginals, direction>, which plain PyTorch computes step by step: numbers are logarithms
that are only added, multiplied and divided, each with its mean of the direction (the expectation semiring of Li and
Eisner 2009, "First- and second-order expectation semirings").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from diptych.layers.torch.arguments import undifferentiated

__all__ = ["Rule", "Weighted", "log_partition", "marginals", "share", "total", "weighted"]


@dataclass(frozen=True)
class Rule:
    """The operator (*scores, *rest, mu) of four arguments -> value (B,) and marginals, one for each of the scores; the
    function (scores, direction, *rest, mu) -> <marginals, direction>, (B,); and the number of scores.
    """

    operator: Callable[..., tuple[Tensor, ...]]
    mean: Callable[..., Tensor]
    scores: int


class Weighted(NamedTuple):
    """Sums of outputs: the logarithm of their weight, its order of smallness, and their mean of the direction."""

    log: Tensor
    order: Tensor
    mean: Tensor


def weighted(x: Tensor, direction: Tensor) -> Weighted:
    """Parts of these scores, in float64; those that are forbidden have order 1, not a logarithm of -inf."""
    off = x == -torch.inf
    return Weighted(torch.where(off, 0.0, x).double(), off.double(), direction.double())


def total(x: Weighted) -> Weighted:
    """The sums over the last axis, which stays with size 1, of the terms of lowest order: those of outputs without a
    forbidden part where there are any, and finite elsewhere.
    """
    lowest = x.order.amin(-1, keepdim=True)
    z = torch.logsumexp(torch.where(x.order == lowest, x.log, -torch.inf), -1, keepdim=True)
    return Weighted(z, lowest, (share(x, z, lowest) * x.mean).sum(-1, keepdim=True))


def share(x: Weighted, log: Tensor, order: Tensor) -> Tensor:
    """Of terms in their sum."""
    return (torch.where(x.order == order, x.log, -torch.inf) - log).exp()


def log_partition(rule: Rule, *given: Any) -> Tensor:
    """The value (B,), with derivatives of every order; in compiled programs of the first."""
    function = _Value if torch.compiler.is_compiling() else _ForwardValue
    value: Tensor = function.apply(rule, *given)[0]
    return value


def marginals(rule: Rule, *given: Any) -> tuple[Tensor, ...]:
    """The marginals, with derivatives of every order; in compiled programs of none."""
    scores = given[: rule.scores]
    parts = rule.operator(*(x.detach() for x in scores), *given[rule.scores :])[1:]
    if torch.compiler.is_compiling():
        return tuple(undifferentiated(x, *scores) for x in parts)
    found: tuple[Tensor, ...] = _Parts.apply(rule, *given, *parts)
    return found


class _Value(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(rule: Rule, a: Any, b: Any, c: Any, mu: Any) -> Any:  # compiled programs take no *given here
        return rule.operator(a, b, c, mu)

    @staticmethod
    def setup_context(ctx: Any, given: Any, found: Any) -> None:
        _keep(ctx, *given, *found[1:])
        ctx.mark_non_differentiable(*found[1:])

    @staticmethod
    def backward(ctx: Any, weights: Tensor, *_: Any) -> Any:
        rule, given, parts = _kept(ctx)
        if not torch.compiler.is_compiling():
            parts = _Parts.apply(rule, *given, *parts)
        slopes = [weights.reshape(-1, *(1,) * (x.ndim - 1)) * x for x in parts]
        return None, *slopes, *(None,) * (len(given) - len(slopes))


class _ForwardValue(_Value):
    """With a rule for forward mode, which compiled programs cannot have."""

    @staticmethod
    def jvp(ctx: Any, _: Any, *along: Any) -> Any:
        rule, given, parts = _kept(ctx)
        scores = given[: rule.scores]
        return rule.mean(scores, _tangents(along, scores), *given[rule.scores :]), *(None,) * len(parts)


class _Parts(Function):
    """Marginals that are there, with their derivatives: those of <marginals, direction> as the Hessian is symmetric."""

    generate_vmap_rule = True

    @staticmethod
    def forward(rule: Rule, *given: Any) -> Any:
        return tuple(x.clone() for x in given[-rule.scores :])

    @staticmethod
    def setup_context(ctx: Any, given: Any, found: Any) -> None:
        _keep(ctx, *given)

    @staticmethod
    def backward(ctx: Any, *along: Any) -> Any:
        rule, given, parts = _kept(ctx)
        slopes = _hessian(rule, given, along)
        return None, *slopes, *(None,) * (len(given) - len(slopes) + len(parts))

    @staticmethod
    def jvp(ctx: Any, _: Any, *along: Any) -> Any:
        rule, given, _ = _kept(ctx)
        return _hessian(rule, given, _tangents(along, given[: rule.scores]))


def _hessian(rule: Rule, given: Any, along: Any) -> tuple[Tensor, ...]:
    scores, rest = tuple(given[: rule.scores]), given[rule.scores :]
    mean, slope = torch.func.vjp(lambda *x: rule.mean(x, along, *rest), *scores)
    slopes: tuple[Tensor, ...] = slope(torch.ones_like(mean))
    return slopes


def _tangents(along: Any, scores: Any) -> list[Tensor]:
    return [torch.zeros_like(x) if v is None else v for v, x in zip(along, scores, strict=False)]


def _keep(ctx: Any, rule: Rule, *given: Any) -> None:
    ctx.rule, ctx.plain = rule, [None if isinstance(x, Tensor) else x for x in given]
    ctx.save_for_backward(*(x for x in given if isinstance(x, Tensor)))
    if not torch.compiler.is_compiling():
        ctx.save_for_forward(*(x for x in given if isinstance(x, Tensor)))


def _kept(ctx: Any) -> tuple[Rule, list[Any], list[Any]]:
    """The rule, the arguments and the marginals."""
    tensors = iter(ctx.saved_tensors)
    given = [next(tensors) if x is None else x for x in ctx.plain]
    return ctx.rule, given[: -ctx.rule.scores], given[-ctx.rule.scores :]
