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
from diptych.layers.torch.arguments import Maybe, applied, operator
from diptych.layers.torch.oracles import KINDS
from reference.arrays import host
from reference.structures.scores import finite, flatten, mapped

__all__ = ["projected"]

PAIRED = "labels", "tree"  # structures with tables
TOL = 1e-14  # of the gap: the Jacobian is that at the point itself


def projected(
    x: Tensor, kind: str, n: int, L: int, where: Any, parents: Any, single_root: bool, mu: float
) -> tuple[Tensor, list[Tensor]]:
    """max_p <x, p> - mu/2 ||p||^2 over the hull of the outputs' parts, (B,), and its p by field; with derivatives.

    Numbers that are found have those of x - x, which is 0: of p the Jacobian times it, of the maximum <p, it>, where
    half of p counts as constant, because the derivative of the maximum is p alone.
    """
    rest = where, parents, kind, n, L, single_root, mu
    value, p = sparse_marginals(kind, x.detach(), n, L, where, parents, single_root, mu)
    step = finite(torch, x) - finite(torch, x).detach()
    marginals = p + applied(_Product, step, x.detach(), p, *rest)
    return value + (step * (p + marginals)).sum(1) / 2, fields_of(marginals, kind, n, L)


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
    kind: str, x: Tensor, n: int, L: int, where: Maybe, parents: Maybe, single_root: bool, mu: float
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
    kind: str, x: Tensor, p: Tensor, along: Tensor, n: int, L: int, where: Maybe, parents: Maybe, root: bool, mu: float
) -> Tensor:
    """The Jacobian at the marginals p of each example times a direction (B, d)."""
    out = np.zeros(x.shape)
    given = [each.detach().cpu().numpy() for each in (p, along)]
    for b, space in enumerate(_spaces(kind, x, n, L, where, parents, root) if along.any() else ()):
        pieces = [iter(fields_of(each[b], kind, n, L)) for each in given]
        scores = [mapped(lambda _, piece=piece: next(piece), space.scores) for piece in pieces]
        out[b] = flatten(reference.sparsemap_product(space, scores[0], scores[1], mu))
    return torch.from_numpy(out).to(x.device)


class _Product(Function):
    """The Jacobian times a direction, in which it is linear; it is its own transpose."""

    generate_vmap_rule = True

    @staticmethod
    def forward(  # compiled programs take no *given here
        along: Any, x: Any, p: Any, where: Any, parents: Any, kind: Any, n: Any, L: Any, root: Any, mu: Any
    ) -> Any:
        return sparse_product(kind, x, p, along, n, L, where, parents, root, mu)

    @staticmethod
    def setup_context(ctx: Any, given: Any, product: Any) -> None:
        ctx.options = given[5:]
        ctx.save_for_backward(*given[1:5])
        if not torch.compiler.is_compiling():
            ctx.save_for_forward(*given[1:5])

    @staticmethod
    def backward(ctx: Any, weights: Any) -> Any:
        return applied(_Product, weights, *ctx.saved_tensors, *ctx.options), *(None,) * 9

    @staticmethod
    def forward_mode(ctx: Any, along: Tensor, *_: Any) -> Any:
        return applied(_Product, along, *ctx.saved_tensors, *ctx.options)
