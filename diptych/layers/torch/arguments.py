"""Arguments of layers, checked; operators of PyTorch for what kernels do with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Optional, TypeAlias

import torch
from torch import Tensor
from torch.autograd import Function

from diptych.documentation import page

Scores: TypeAlias = Sequence[Tensor]
Maybe: TypeAlias = Optional[Tensor]  # noqa: UP045, the site is built without PyTorch, whose stand-ins have no |


def operator(name: str, fake: Callable[..., Any], shared: tuple[int, ...] = ()) -> Callable[..., Any]:
    """A function as an operator of PyTorch: ``fake`` gives empty answers. vmap puts its axis before that of the groups,
    or of the examples, the first of each tensor but of those arguments that all share.
    """

    def made(function: Callable[..., Any]) -> Any:
        found = torch.library.custom_op(f"diptych::{name}", function, mutates_args=())
        found.register_fake(fake)
        found.register_vmap(lambda info, dims, *given: _more_groups(found, shared, info.batch_size, dims, given))
        return found

    return made


def _more_groups(function: Any, shared: tuple[int, ...], V: int, dims: tuple[Any, ...], given: tuple[Any, ...]) -> Any:
    def joined(x: Any, dim: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return [joined(*each) for each in zip(x, dim or [None] * len(x), strict=True)]
        if not isinstance(x, Tensor):
            return x
        x = x.expand(V, *x.shape) if dim is None else x.movedim(dim, 0)
        return x.reshape(V * x.shape[1], *x.shape[2:])

    found = function(*(x if place in shared else joined(x, dim)
                       for place, (x, dim) in enumerate(zip(given, dims, strict=True))))  # fmt: skip
    alone = isinstance(found, Tensor)
    apart = [x.reshape(V, x.shape[0] // V, *x.shape[1:]) for x in ([found] if alone else found)]
    return (apart[0], 0) if alone else (type(found)(apart), type(found)([0] * len(apart)))


@torch.library.custom_op("diptych::no_derivative", mutates_args=())
def no_derivative(weights: Tensor) -> Tensor:
    """0, the derivative of numbers that have no weights; of others RuntimeError."""
    if weights.any():
        raise RuntimeError(f"this derivative is not there: {page('layers')} says which are")
    return weights.new_zeros(())


no_derivative.register_fake(lambda weights: weights.new_empty(()))
no_derivative.register_vmap(lambda info, dims, weights: (no_derivative(weights), None))


def applied(function: Any, *given: Any) -> Any:
    """A function of PyTorch, with its rule ``forward_mode``; without it in compiled programs, which take none."""
    return (function if torch.compiler.is_compiling() else _with_forward_mode(function)).apply(*given)


@cache
def _with_forward_mode(function: Any) -> Any:
    return type(function.__name__, (function,), {"jvp": staticmethod(function.forward_mode)})


class _Undifferentiated(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, a: Any, b: Any, c: Any, d: Any) -> Any:  # compiled programs take no *scores here
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, given: Any, found: Any) -> None:
        ctx.save_for_backward(*given[1:])

    @staticmethod
    def backward(ctx: Any, weights: Tensor) -> Any:
        none = no_derivative(weights)
        return None, *(None if x is None else none.to(x.dtype).expand_as(x) for x in ctx.saved_tensors)

    @staticmethod
    def forward_mode(ctx: Any, *_: Any) -> Any:
        no_derivative(torch.ones(1))


def undifferentiated(x: Tensor, *scores: Tensor) -> Tensor:
    """Numbers without a derivative in these scores: asking for one is an error, where PyTorch would answer 0."""
    found: Tensor = applied(_Undifferentiated, x.detach(), *scores, *(None,) * (4 - len(scores)))
    return found


HALF = (torch.float16, torch.bfloat16)  # computed in float32


def floating(name: str, x: Any) -> Tensor:
    """A tensor of scores; half precision becomes float32."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(x).__name__}")
    if not x.is_floating_point():
        raise TypeError(f"{name}: expected floating-point scores, got {x.dtype}")
    return x.float() if x.dtype in HALF else x


def beside(name: str, x: Any, unary: Tensor) -> Tensor:
    """A tensor of scores of the dtype and the device of unary."""
    x = floating(name, x)
    if x.dtype != unary.dtype:
        raise ValueError(f"{name}: expected {unary.dtype}, as unary is, got {x.dtype}")
    if x.device != unary.device:
        raise ValueError(f"{name}: expected a tensor on {unary.device}, as unary is, got one on {x.device}")
    return x


def pair_tensor(pairwise: Any, unary: Tensor, fewer: int) -> Tensor:
    """Scores of pairs (L, L), or (..., n - fewer, L, L), beside unary (..., n, L)."""
    if unary.ndim < 2 or unary.shape[-1] < 1:
        raise ValueError(f"unary: expected shape (..., n, L) with L >= 1, got {tuple(unary.shape)}")
    pairwise = beside("pairwise", pairwise, unary)
    *batch, n, L = unary.shape
    shared, each = (L, L), (*batch, max(n - fewer, 0), L, L)
    if tuple(pairwise.shape) not in (shared, each):
        raise ValueError(f"pairwise: expected shape {shared} or {each}, got {tuple(pairwise.shape)}")
    return pairwise


def mask_of(mask: Maybe, lengths: Maybe, batch: tuple[int, ...], n: int, device: torch.device) -> Maybe:
    """The positions (..., n) that belong to a chain, by a mask or by lengths; None: all."""
    if mask is not None and lengths is not None:
        raise ValueError("mask and lengths: expected one of them, got both")
    if mask is not None:
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
            raise TypeError(f"mask: expected a boolean tensor, got {getattr(mask, 'dtype', type(mask).__name__)}")
        if tuple(mask.shape) != (*batch, n):
            raise ValueError(f"mask: expected shape {(*batch, n)}, got {tuple(mask.shape)}")
        if mask.device != device:
            raise ValueError(f"mask: expected a tensor on {device}, as unary is, got one on {mask.device}")
        return mask
    lengths = lengths_tensor(lengths, batch, n, device)
    return None if lengths is None else torch.arange(n, device=device) < lengths[..., None]


def lengths_tensor(lengths: Any, batch: tuple[int, ...], n: int, device: torch.device) -> Maybe:
    """Lengths (...,) in 0..n."""
    if lengths is None:
        return None
    lengths = torch.as_tensor(lengths, device=device)
    if lengths.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"lengths: expected integers, got {lengths.dtype}")
    if tuple(lengths.shape) != batch:
        raise ValueError(f"lengths: expected shape {batch}, got {tuple(lengths.shape)}")
    if not torch.compiler.is_compiling() and bool(((lengths < 0) | (lengths > n)).any()):
        raise ValueError(f"lengths: expected 0..{n}, got {int(lengths.min())}..{int(lengths.max())}")
    return lengths


def label_tensor(name: str, y: Any, unary: Tensor) -> Tensor:
    """Labels (..., n) beside unary (..., n, L)."""
    if not isinstance(y, Tensor) or y.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        raise TypeError(f"{name}: expected a tensor of integers, got {getattr(y, 'dtype', type(y).__name__)}")
    if tuple(y.shape) != tuple(unary.shape[:-1]):
        raise ValueError(f"{name}: expected shape {tuple(unary.shape[:-1])}, got {tuple(y.shape)}")
    if y.device != unary.device:
        raise ValueError(f"{name}: expected a tensor on {unary.device}, as unary is, got one on {y.device}")
    return y.long()
