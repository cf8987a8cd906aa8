"""SparseMAP of the examples of a batch: found on the host, one after another, by calls of ``best``; its derivatives.

Scores are x (B, d) in float64, those of an example in a row, with a score of its own for each part; n and L are the
sizes of its first field, and what follows are tables (L, L). Beside them, what operators of
:mod:`diptych.layers.torch.oracles` take. The Jacobian is that of :func:`reference.sparsemap_product`: a projector, that
does not change with the scores where it is one, so that derivatives of a second order are those of the weights alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

import reference
from diptych.layers.torch.arguments import operator
from diptych.layers.torch.oracles import KINDS
from reference.arrays import host
from reference.structures.scores import flatten, mapped

__all__ = ["fields_of", "projected"]

PAIRED = "labels", "tree"  # structures with tables
TOL = 1e-14  # of the gap: the Jacobian is that at the point itself


def projected(
    x: Tensor, kind: str, n: int, L: int, where: Any, parents: Any, single_root: bool, mu: float
) -> tuple[Tensor, Tensor]:
    """max_p <x, p> - mu/2 ||p||^2 over the hull of the outputs' parts, (B,), and its p (B, d); with derivatives."""
    value, p = sparse_marginals(kind, x.detach(), n, L, where, parents, single_root, mu)
    found: tuple[Tensor, Tensor] = _chosen()[0].apply(x, value, p, where, parents, kind, n, L, single_root, mu)
    return found


def fields_of(x: Any, kind: str, n: int, L: int) -> list[Any]:
    """Numbers (..., d) by field."""
    first = x[..., : n * L].reshape((*x.shape[:-1], n, L))
    if kind not in PAIRED:
        return [first]
    return [first, x[..., n * L :].reshape((*x.shape[:-1], (x.shape[-1] - n * L) // L**2, L, L))]


def _spaces(kind: str, x: Tensor, n: int, L: int, where: Any, parents: Any, single_root: bool) -> Iterator[Any]:
    """The structure of each example, of NumPy's arrays. Raises ValueError, which names the score in the batch."""
    fields, where = fields_of(x.detach().cpu(), kind, n, L), None if where is None else where.cpu()
    made = KINDS[kind].made
    made(fields, where, parents, single_root)
    for b in range(len(x)):
        one = slice(b, b + 1)
        space = made([f[one] for f in fields], None if where is None else where[one], parents, single_root).first()
        space.scores = space.scores._make(None if f is None else host(f) for f in space.scores)
        yield space


@operator("sparse_marginals", lambda kind, x, *_: (x.new_empty(x.shape[:1]), torch.empty_like(x)), shared=(5,))
def sparse_marginals(
    kind: str, x: Tensor, n: int, L: int, where: Tensor | None, parents: Tensor | None, single_root: bool, mu: float
) -> tuple[Tensor, Tensor]:
    """The maxima (B,) and the marginals (B, d). Raises ValueError, InfeasibleError."""
    value, p = np.zeros(len(x)), np.zeros(x.shape)
    for b, space in enumerate(_spaces(kind, x, n, L, where, parents, single_root)):
        try:
            found = reference.sparsemap(space, mu, tol=TOL)
        except reference.InfeasibleError:
            raise reference.InfeasibleError(f"every output of example {b} is forbidden") from None
        value[b], p[b] = found.value, flatten(found.marginals)
    return torch.from_numpy(value).to(x.device), torch.from_numpy(p).to(x.device)


@operator("sparse_product", lambda kind, x, *_: torch.empty_like(x), shared=(7,))
def sparse_product(
    kind: str,
    x: Tensor,
    p: Tensor,
    along: Tensor,
    n: int,
    L: int,
    where: Tensor | None,
    parents: Tensor | None,
    single_root: bool,
    mu: float,
) -> Tensor:
    """The Jacobian at the marginals p of each example times a direction (B, d)."""
    found = np.zeros(x.shape)
    given = [each.detach().cpu().numpy() for each in (p, along)]
    for b, space in enumerate(_spaces(kind, x, n, L, where, parents, single_root)):
        pieces = [iter(fields_of(each[b], kind, n, L)) for each in given]
        scores = [mapped(lambda _, piece=piece: next(piece), space.scores) for piece in pieces]
        found[b] = flatten(reference.sparsemap_product(space, scores[0], scores[1], mu))
    return torch.from_numpy(found).to(x.device)


class _Known(Function):
    """The maxima and the marginals, which are given, with their derivatives."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        x: Any, value: Any, p: Any, where: Any, parents: Any, kind: Any, n: Any, L: Any, root: Any, mu: Any
    ) -> Any:
        return value.clone(), p.clone()

    @staticmethod
    def setup_context(ctx: Any, given: Any, found: Any) -> None:
        ctx.options = given[5:]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*given[:5])
        if not torch.compiler.is_compiling():
            ctx.save_for_forward(*given[:5])

    @staticmethod
    def backward(ctx: Any, of_value: Any, of_p: Any) -> Any:
        function, product = _chosen()
        x, _, p, *beside = ctx.saved_tensors
        slope = None if of_value is None else of_value[:, None] * function.apply(*ctx.saved_tensors, *ctx.options)[1]
        if of_p is not None:
            more = product.apply(of_p, x, p, *beside, *ctx.options)
            slope = more if slope is None else slope + more
        return slope, *(None,) * 9


class _Product(_Known):
    """The Jacobian times a direction, in which it is linear; it is its own transpose."""

    @staticmethod
    def forward(  # type: ignore[override]
        along: Any, x: Any, p: Any, where: Any, parents: Any, kind: Any, n: Any, L: Any, root: Any, mu: Any
    ) -> Any:
        return sparse_product(kind, x, p, along, n, L, where, parents, root, mu)

    @staticmethod
    def backward(ctx: Any, weights: Any, _: Any = None) -> Any:
        return _chosen()[1].apply(weights, *ctx.saved_tensors[1:], *ctx.options), *(None,) * 9


class _ForwardKnown(_Known):
    """With a rule for forward mode, which compiled programs cannot have."""

    @staticmethod
    def jvp(ctx: Any, along: Tensor, *_: Any) -> Any:
        x, _, p, *beside = ctx.saved_tensors
        marginals = _ForwardKnown.apply(*ctx.saved_tensors, *ctx.options)[1]
        return (marginals * along).sum(1), _ForwardProduct.apply(along, x, p, *beside, *ctx.options)


class _ForwardProduct(_Product):
    @staticmethod
    def jvp(ctx: Any, along: Tensor | None, *_: Any) -> Any:
        if along is None:  # the Jacobian alone changes, by 0
            return torch.zeros_like(ctx.saved_tensors[0])
        return _ForwardProduct.apply(along, *ctx.saved_tensors[1:], *ctx.options)


def _chosen() -> tuple[Any, Any]:
    return (_Known, _Product) if torch.compiler.is_compiling() else (_ForwardKnown, _ForwardProduct)
