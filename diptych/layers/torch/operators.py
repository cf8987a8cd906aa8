"""Chains as operators of PyTorch: values, weighted gradients, products with Hessians, and their derivatives.

On the CPU, where chains share transitions, each is one call of a kernel of :mod:`accelerated.structures.chain_batch`
for the whole batch. Elsewhere the scaled forward-backward of :mod:`reference.structures.chain_scaled` runs in PyTorch,
on the device.

Scores are unary (G, B, n, L); pairwise (G, L, L), or (G, B, n-1, L, L) for each edge; starts and ends (G, L). Beside
them: labels and mask (G, B, n) or None; mu. G groups of B chains: ``torch.vmap`` adds groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.forward_ad import unpack_dual
from torch.nn.functional import pad

import accelerated.structures.chain as kernels
from accelerated.structures import chain_batch
from accelerated.structures.chain_batch import Tables
from diptych.layers.torch.arguments import Maybe, Scores, applied, operator, undifferentiated
from reference.structures import chain_hessian, chain_scaled
from reference.structures.base import InfeasibleError
from reference.structures.chain_masks import at_end, front, parts_back, with_end
from reference.structures.chain_scores import ChainScores


def fused(unary: Tensor, pairwise: Tensor) -> bool:
    """Whether one call of a kernel takes the whole batch."""
    return unary.device.type == "cpu" and pairwise.ndim == 3


def _alike(tensors: Any) -> list[Tensor]:
    return [torch.empty_like(each, memory_format=torch.contiguous_format) for each in tensors]


def _nothing(like: Tensor) -> list[Tensor]:
    """Four tensors (G, 0): no gradient is kept."""
    return [like.new_empty((like.shape[0], 0)) for _ in range(4)]


def _fake_value(scores: Any, labels: Any, mask: Any, mu: float, keep: bool) -> list[Tensor]:
    return [scores[0].new_empty(scores[0].shape[:2]), *(_alike(scores) if keep else _nothing(scores[0]))]


@operator("chain_value", _fake_value)
def chain_value(scores: Scores, labels: Maybe, mask: Maybe, mu: float, keep: bool) -> list[Tensor]:
    """mu log sum_y exp(score(y) / mu), (G, B), less the score of labels, which only fused calls take; and the gradient
    of its sum in the scores if ``keep``, else four empty tensors.

    Raises
    ------
    ValueError
        nan or +inf among scores, labels that are none of 0..L-1 or forbidden; InfeasibleError.
    """
    unary, pairwise, *_ = scores
    if not fused(unary, pairwise):
        check_scores(scores, mask)
    weights = unary.new_ones(unary.shape[:2] if keep or not fused(unary, pairwise) else 0)
    value, gradient = _sums(weights, scores, labels, mask, mu)
    _check_values(value, scores, labels, mask)
    return [value.to(unary.dtype), *(gradient if keep else _nothing(unary))]


@operator("chain_gradient", lambda weights, kept, scores, *_: _alike(scores))
def chain_gradient(
    weights: Tensor, kept: Scores, scores: Scores, labels: Maybe, mask: Maybe, mu: float
) -> list[Tensor]:
    """The gradient in the scores of the sum of weights (G, B) times :func:`chain_value`, and what that kept."""
    if len(kept[2].T) > 0 and weights.shape[1] > 0:
        same = weights[:, 0].detach()
        if bool((weights == same[:, None]).all()):
            return [x.detach() * same.reshape(-1, *(1,) * (x.ndim - 1)) for x in kept]
    return _sums(weights.detach(), scores, labels, mask, mu)[1]


@operator("chain_hessian", lambda weights, scores, *_: _alike((weights, *scores)))
def chain_hessian_product(weights: Tensor, scores: Scores, mask: Maybe, mu: float, along: Scores) -> list[Tensor]:
    """<marginals, direction> of each chain, (G, B); the derivative of :func:`chain_gradient` along the direction."""
    if fused(*scores[:2]):
        batch, nodes = _batch(scores, None, mask), along[0].detach().contiguous().numpy()
        ends = np.stack(list(map(_doubles, along[2:])))
        direction = Tables(nodes.reshape(batch.unary.shape), _doubles(along[1]), ends)
        each, threads = _doubles(weights).reshape(-1), torch.get_num_threads()
        inner, found = chain_batch.hessian(batch, mu, each, direction, threads)
        if not np.isnan(inner).any():
            return [torch.from_numpy(inner).reshape(weights.shape).to(weights.dtype), *_tensors(found, scores)]
    wide = torch.float64 if weights.device.type == "cpu" else weights.dtype
    chains, other = (chain_scores([x.to(wide) for x in each], mask) for each in (scores, along))
    mean, tangents = chain_hessian.hessian_product(front(chains), front(other), mu, weights.detach().to(wide))
    return [torch.as_tensor(mean).to(weights.dtype), *_parts(tangents, chains, scores)]


@operator("chain_labels", lambda labels, *_: torch.empty_like(labels))
def checked_labels(labels: Tensor, mask: Maybe, n_labels: int) -> Tensor:
    """Labels (G, B, n), a copy. Raises ValueError if one on the mask is none of 0..n_labels-1."""
    outside = (labels < 0) | (labels >= n_labels)
    outside = outside if mask is None else mask & outside
    if outside.any():
        (_, b, t), got = torch.nonzero(outside)[0].tolist(), int(labels[outside][0])
        raise ValueError(f"labels: expected 0..{n_labels - 1}, got {got} at position {t} of example {b}")
    return labels.clone()


class _Value(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(u: Any, A: Any, starts: Any, ends: Any, labels: Any, mask: Any, mu: Any, keep: Any) -> Any:
        return tuple(chain_value([u, A, starts, ends], labels, mask, mu, keep))

    @staticmethod
    def setup_context(ctx: Any, given: Any, found: Any) -> None:
        ctx.mu = given[-2]
        ctx.mark_non_differentiable(*found[1:])
        ctx.save_for_backward(*found[1:], *given[:-2])
        if not torch.compiler.is_compiling():
            ctx.save_for_forward(*given[:-2])

    @staticmethod
    def backward(ctx: Any, weights: Tensor, *_: Any) -> Any:
        given = weights, *ctx.saved_tensors, ctx.mu
        asked = torch.compiler.is_compiling() or torch.is_grad_enabled()
        if asked or any(unpack_dual(x).tangent is not None for x in given[:9]):
            return *applied(_Gradient, *given), *(None,) * 4
        return *_Gradient.forward(*given), *(None,) * 4  # nothing asks for a derivative of this one

    @staticmethod
    def forward_mode(ctx: Any, *along: Any) -> Any:
        *scores, labels, mask = ctx.saved_tensors
        tangents = _tangents(along, scores)
        mean = Mean.apply(*scores, *tangents, mask, ctx.mu)
        return (mean if labels is None else mean - gold_score(tangents, labels, mask)), *(None,) * 4


class _Gradient(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(
        weights: Any, a: Any, b: Any, c: Any, d: Any, u: Any, A: Any, s: Any, e: Any, y: Any, mask: Any, mu: Any
    ) -> Any:
        return tuple(chain_gradient(weights, [a, b, c, d], [u, A, s, e], y, mask, mu))

    @staticmethod
    def setup_context(ctx: Any, given: Any, found: Any) -> None:
        ctx.mu = given[-1]
        ctx.save_for_backward(given[0], *given[5:-1])
        if not torch.compiler.is_compiling():
            ctx.save_for_forward(*given[:-1])

    @staticmethod
    def backward(ctx: Any, *along: Tensor) -> Any:
        weights, *scores, labels, mask = ctx.saved_tensors
        mean, *tangents = chain_hessian_product(weights, scores, mask, ctx.mu, along)
        if labels is not None:
            mean = mean - gold_score(along, labels, mask)
        return mean, None, None, None, None, *tangents, None, None, None

    @staticmethod
    def forward_mode(ctx: Any, change: Maybe, *along: Any) -> Any:
        weights, *kept, u, A, s, e, labels, mask = ctx.saved_tensors
        scores = u, A, s, e
        _, *found = chain_hessian_product(weights, scores, mask, ctx.mu, _tangents(along[4:], scores))
        tangents = [undifferentiated(x, *scores) for x in found]
        if change is None:
            return tuple(tangents)
        more = applied(_Gradient, change, *kept, *scores, labels, mask, ctx.mu)
        return tuple(a + b for a, b in zip(tangents, more, strict=True))


class Mean(Function):
    """<marginals, direction> of each chain, (G, B); given: the scores, the direction (finite), mask and mu."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        unary: Any, pairwise: Any, starts: Any, ends: Any, u: Any, A: Any, s: Any, e: Any, mask: Any, mu: Any
    ) -> Any:
        weights = unary.new_ones(unary.shape[:2])
        return chain_hessian_product(weights, [unary, pairwise, starts, ends], mask, mu, [u, A, s, e])[0]

    @staticmethod
    def setup_context(ctx: Any, given: Any, found: Any) -> None:
        ctx.mu = given[-1]
        ctx.save_for_backward(*given[:-1])

    @staticmethod
    def backward(ctx: Any, weights: Tensor) -> Any:
        *tensors, mask = ctx.saved_tensors
        scores, along = tensors[:4], tensors[4:]
        _, *tangents = chain_hessian_product(weights, scores, mask, ctx.mu, along)
        gradient = chain_gradient(weights, _nothing(weights), scores, None, mask, ctx.mu)
        return *tangents, *gradient, None, None


def _tangents(along: Any, scores: Any) -> list[Tensor]:
    return [torch.zeros_like(x) if v is None else v for v, x in zip(along, scores, strict=False)]


def value_of(scores: Scores, labels: Maybe, mask: Maybe, mu: float) -> Tensor:
    """:func:`chain_value` alone, with its derivatives."""
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in scores)
    value: Tensor = applied(_Value, *scores, labels, mask, mu, keep)[0]
    return value


def gradient_of(scores: Scores, mask: Maybe, mu: float) -> tuple[Tensor, ...]:
    """The gradient of the sum of :func:`chain_value`, with its derivatives."""
    _, *kept = chain_value([x.detach() for x in scores], None, mask, mu, True)
    ones = scores[0].new_ones(scores[0].shape[:2])
    found: tuple[Tensor, ...] = applied(_Gradient, ones, *kept, *scores, None, mask, mu)
    return found


def best_of(scores: Scores, mask: Maybe) -> Maybe:
    """The best labels (G, B, n), -1 off the mask, by one call of a kernel, or None. Raises ValueError,
    InfeasibleError.
    """
    unary, pairwise, *_ = scores
    if not fused(unary, pairwise):
        return None
    value, of_rows = chain_batch.best(_batch(scores, None, mask), torch.get_num_threads())
    _check_values(torch.from_numpy(value).reshape(unary.shape[:2]), scores, None, mask)
    return torch.from_numpy(of_rows).reshape(unary.shape[:3])


def gold_score(scores: Scores, labels: Tensor, mask: Maybe) -> Tensor:
    """The scores (G, B) of labels (G, B, n), whose values at positions off the mask are ignored."""
    unary, pairwise, starts, ends = scores
    n, L = unary.shape[2:]
    if n == 0:
        return unary.sum((2, 3)) + sum(x.flatten()[:0].sum() for x in (pairwise, starts, ends))  # 0, with gradients
    kept = torch.ones_like(labels, dtype=torch.bool) if mask is None else mask
    y, place = torch.where(kept, labels, 0), torch.arange(n, device=labels.device).expand_as(labels)
    last = torch.cummax(torch.where(kept, place, -1), -1).values  # the last kept position up to each
    before = pad(last[..., :-1], (1, 0), value=-1)
    pair = y.gather(-1, before.clamp(min=0)) * L + y
    tables = pairwise.flatten(1) if pairwise.ndim == 3 else pad(pairwise, (0, 0, 0, 0, 1, 0)).flatten(-2)
    here, inner, first, final = (
        torch.where(there, _entries(table, index), 0.0)
        for table, index, there in (
            (unary, y, kept),
            (tables, pair, kept & (before >= 0)),
            (starts, y, kept & (before < 0)),
            (ends, y, kept & (place == last[..., -1:])),
        )
    )
    return (here + inner + (first + final)).sum(-1)


def _entries(table: Tensor, index: Tensor) -> Tensor:
    """Those at an index (G, B, n) of tables (G, B, n, K), or (G, K)."""
    if table.ndim > 2:
        return table.gather(-1, index[..., None])[..., 0]
    return table.gather(-1, index.flatten(1)).reshape(index.shape)


def chain_scores(scores: Scores, mask: Maybe) -> ChainScores:
    """The chains (G, B) as the panels take them, with a table for each edge if groups have tables of their own."""
    unary, pairwise, starts, ends = (x.detach() for x in scores)
    G, B, n, L = unary.shape
    unary = unary if mask is None else torch.where(mask[..., None], unary, 0.0)  # 0 times nan is nan
    if pairwise.ndim == 3:
        pairwise = pairwise[0] if G == 1 else pairwise[:, None, None].expand(G, B, max(n - 1, 0), L, L)
    chains = ChainScores(unary, pairwise, mask=mask)
    return with_end(with_end(chains, starts[:, None, None], last=False), ends[:, None, None], last=True)


def _parts(found: ChainScores, chains: ChainScores, scores: Scores) -> list[Tensor]:
    """Answers about the chains in front as numbers of labels, pairs, and labels at first and at last positions."""
    unary, pairwise = (torch.as_tensor(x) for x in parts_back(chains, found)[:2])
    if scores[1].ndim == 3:
        pairwise = pairwise[None] if pairwise.ndim == 2 else pairwise.sum((1, 2))
    ends = (torch.where(at_end(chains, last)[..., None], unary, 0.0).sum((1, 2)) for last in (False, True))
    return [x.to(like.dtype) for x, like in zip((unary, pairwise, *ends), scores, strict=True)]


def _batch(scores: Scores, labels: Maybe, mask: Maybe) -> chain_batch.Batch:
    """The chains as kernels take them."""
    gold, kept = (None if x is None else x.contiguous().numpy() for x in (labels, mask))
    A, s, e = map(_doubles, scores[1:])
    return chain_batch.batch_of(scores[0].detach().contiguous().numpy(), A, s, e, gold, kept)


def _doubles(x: Tensor) -> np.ndarray:
    return x.detach().to(torch.float64).contiguous().numpy()


def _sums(weights: Tensor, scores: Scores, labels: Maybe, mask: Maybe, mu: float) -> tuple[Tensor, list[Tensor]]:
    """The values (G, B) and the gradient of the sum of weights (G, B) times these; of weights (0,), none."""
    if fused(*scores[:2]):
        batch, threads = _batch(scores, labels, mask), torch.get_num_threads()
        value, found = chain_batch.sums(batch, mu, _doubles(weights).reshape(-1), threads)
        gradient = _tensors(found, scores) if weights.ndim > 1 else []
        return torch.from_numpy(value).reshape(scores[0].shape[:2]), gradient
    chains = chain_scores(scores, mask)
    panel = kernels if scores[0].device.type == "cpu" else chain_scaled
    values, marginals = panel.forward_backward(front(chains), mu, weights)
    return torch.as_tensor(values), _parts(marginals, chains, scores)


def _tensors(found: Tables, scores: Scores) -> list[Tensor]:
    tables = (torch.from_numpy(x).to(scores[1].dtype) for x in (found.edges, *found.ends))
    return [torch.from_numpy(found.nodes).reshape(scores[0].shape), *tables]


def _check_values(value: Tensor, scores: Scores, labels: Maybe, mask: Maybe) -> None:
    """Say what is wrong where a value is not finite."""
    right = torch.isfinite(value)
    if right.all():
        return
    wrong = ~right
    check_scores(scores, mask)
    if labels is not None:
        checked_labels(labels, mask, scores[0].shape[-1])
    b = torch.nonzero(wrong)[0].tolist()[1]
    if labels is not None and value[wrong][0] == torch.inf:
        raise ValueError(f"labels: those of example {b} are forbidden: their score is -inf")
    raise InfeasibleError(f"every labelling of example {b} is forbidden (all scores are -inf)")


def check_scores(scores: Scores, mask: Maybe) -> None:
    """Raise ValueError at nan or +inf, off the mask excepted."""
    for name, x in zip(("unary", "pairwise", "starts", "ends"), scores, strict=True):
        bad = ~(x < torch.inf)
        bad = bad if mask is None or name != "unary" else bad & mask[..., None]
        if bad.any():
            place, found = tuple(torch.nonzero(bad)[0].tolist())[1:], float(x[bad][0])
            raise ValueError(f"{name}: expected finite scores, or -inf for a forbidden part, got {found} at {place}")
