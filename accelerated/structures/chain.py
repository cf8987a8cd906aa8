"""Linear chains: the reference's functions as kernels, over padded batches, in parallel over chains."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import reference.structures.chain as reference
from accelerated.arrays import are_sound, like, view
from accelerated.compiled.structures.chain import Chains, forward_backward_range, viterbi_range
from accelerated.compiled.structures.chain_k_best import max_marginals_range, top_k_range
from accelerated.compiled.structures.chain_samples import sample_range
from accelerated.mirror import mirrors
from accelerated.structures import chain_batch
from accelerated.structures.answers import feasible as feasible  # of ops
from accelerated.structures.answers import k_best
from accelerated.threads import in_parallel, ranges
from reference.arrays import Array
from reference.structures.base import KBest
from reference.structures.chain import ChainScores, parts, score

__all__ = [
    "Chain",
    "ChainScores",
    "forward_backward",
    "hessian_product",
    "max_marginals",
    "parts",
    "sample",
    "score",
    "top_k_viterbi",
    "viterbi",
]


FIRST = np.zeros(1, np.int64)  # where the only chain begins


def flat_chains(scores: ChainScores) -> Chains:
    """A padded batch in the kernels' layout; a shared pairwise is (1, L, L) with stride 0."""
    *batch, n, n_labels = scores.unary.shape
    shared = scores.pairwise.ndim == 2
    if tuple(scores.pairwise.shape) not in ((n_labels, n_labels), (*batch, max(n - 1, 0), n_labels, n_labels)):
        raise ValueError(
            f"pairwise: shape {tuple(scores.pairwise.shape)} does not fit unary {tuple(scores.unary.shape)}"
        )
    if not batch and scores.lengths is None:
        unary, pairwise = view("unary", scores.unary), view("pairwise", scores.pairwise)
        return Chains(unary, pairwise.reshape(-1, n_labels, n_labels), FIRST, np.array([n]), FIRST, 0 if shared else 1)
    chains = int(np.prod(batch))
    length = np.full(chains, n) if scores.lengths is None else view("lengths", scores.lengths, np.int64).reshape(-1)
    if length.shape != (chains,) or (chains and not 0 <= length.min() <= length.max() <= n):
        raise ValueError(f"lengths: expected {chains} numbers in 0..{n}, got {length.tolist()[:9]}")
    return Chains(
        view("unary", scores.unary).reshape(chains * n, n_labels),
        view("pairwise", scores.pairwise).reshape(-1, n_labels, n_labels),
        np.arange(chains) * n,
        length,
        np.arange(chains) * (0 if shared else max(n - 1, 0)),
        0 if shared else 1,
    )


def pieces_of(chains: Chains) -> list[tuple[int, int]]:
    """Ranges of chains for threads, of about equal work."""
    if len(chains.length) == 1:
        return [(0, 1)]
    return ranges(np.concatenate([[0], np.cumsum(chains.length)]))


@mirrors(reference.viterbi)
def viterbi(scores: ChainScores) -> tuple[Array, Array]:
    flat = flat_chains(scores)
    value, labels = np.empty(len(flat.start)), np.full(len(flat.unary), -1)
    in_parallel(lambda lo, hi: viterbi_range(lo, hi, flat, value, labels), pieces_of(flat))
    shape = tuple(scores.unary.shape[:-1])
    return like(value.reshape(shape[:-1]), scores.unary), like(labels.reshape(shape), scores.unary)


@mirrors(reference.forward_backward)
def forward_backward(scores: ChainScores, mu: float = 1.0, weights: Array | None = None) -> tuple[Array, ChainScores]:
    if weights is not None:
        return _weighted(scores, float(mu), view("weights", weights).reshape(-1))
    flat = flat_chains(scores)
    pieces = pieces_of(flat)
    shared = flat.edge_stride == 0
    value, nodes = np.empty(len(flat.start)), np.zeros(flat.unary.shape)
    edges = np.zeros((len(pieces) if shared else 1, *flat.pairwise.shape))

    def run(lo: int, hi: int) -> None:
        mine = edges[pieces.index((lo, hi)) if shared else 0]
        forward_backward_range(lo, hi, flat, float(mu), value, nodes, mine)

    in_parallel(run, pieces)
    whole = edges[0] if len(edges) == 1 else edges.sum(axis=0)
    return like(value.reshape(scores.unary.shape[:-2]), scores.unary), _answer(scores, nodes, whole)


def _weighted(scores: ChainScores, mu: float, weights: np.ndarray) -> tuple[Array, ChainScores]:
    """:func:`forward_backward` with weights (B,) of the chains."""
    *batch, _, _ = scores.unary.shape
    if scores.pairwise.ndim > 2:
        value, (nodes, edges, *layout) = forward_backward(scores, mu)
        each = like(weights.reshape(*batch, 1, 1), scores.unary)
        return value, ChainScores(nodes * each, edges * each[..., None], *layout)
    chains = _batch(scores)
    values, gradient = chain_batch.sums(chains, mu, weights)
    return like(values.reshape(batch), scores.unary), _answer(scores, gradient.nodes, gradient.edges)


def _batch(scores: ChainScores) -> Any:
    """Chains that share transitions, as :mod:`chain_batch` takes them."""
    flat, (*_, n, n_labels) = flat_chains(scores), scores.unary.shape
    ends, mask = np.zeros((1, n_labels)), np.arange(n) < flat.length[:, None]
    unary = flat.unary.reshape(1, len(flat.start), n, n_labels)
    return chain_batch.batch_of(unary, flat.pairwise, ends, ends, mask=mask[None])


def _answer(scores: ChainScores, nodes: np.ndarray, edges: np.ndarray) -> ChainScores:
    unary, pairwise = nodes.reshape(scores.unary.shape), edges.reshape(scores.pairwise.shape)
    return ChainScores(like(unary, scores.unary), like(pairwise, scores.pairwise), scores.lengths)


@mirrors(reference.hessian_product)
def hessian_product(
    scores: ChainScores, direction: ChainScores, mu: float = 1.0, weights: Array | None = None
) -> tuple[Array, ChainScores]:
    if scores.pairwise.ndim > 2:
        return reference.hessian_product(scores, direction, mu, weights)
    chains, (*batch, _, n_labels) = _batch(scores), scores.unary.shape
    along = chain_batch.Tables(
        view("direction.unary", direction.unary).reshape(chains.unary.shape),
        view("direction.pairwise", direction.pairwise).reshape(1, n_labels, n_labels),
        np.zeros((2, 1, n_labels)),
    )
    each = np.ones(len(chains.offset) - 1) if weights is None else view("weights", weights).reshape(-1)
    inner, tangents = chain_batch.hessian(chains, float(mu), each, along)
    if np.isnan(inner).any():  # in logs
        return reference.hessian_product(scores, direction, mu, weights)
    return like(inner.reshape(batch), scores.unary), _answer(scores, tangents.nodes, tangents.edges)


@mirrors(reference.top_k_viterbi)
def top_k_viterbi(scores: ChainScores, k: int) -> KBest:
    flat = flat_chains(scores)
    *batch, n, n_labels = scores.unary.shape
    chains, kept = len(flat.start), min(k, n_labels**n)
    value, labels = np.full((chains, kept), -np.inf), np.full((chains, kept, n), -1)
    in_parallel(lambda lo, hi: top_k_range(lo, hi, flat, value, labels), pieces_of(flat))
    shape = (*batch, kept)
    return k_best(like(value.reshape(shape), scores.unary), like(labels.reshape(*shape, n), scores.unary), k)


@mirrors(reference.sample)
def sample(scores: ChainScores, uniforms: Array, mu: float = 1.0) -> tuple[Array, Array]:
    flat = flat_chains(scores)
    *batch, n, _ = scores.unary.shape
    if (*uniforms.shape[:-2], uniforms.shape[-1]) != (*batch, n):
        raise ValueError(f"uniforms: shape {tuple(uniforms.shape)} does not fit unary {tuple(scores.unary.shape)}")
    shape = tuple(uniforms.shape)
    numbers = view("uniforms", uniforms).reshape(len(flat.start), shape[-2], n)
    value, labels = np.empty(len(flat.start)), np.full(numbers.shape, -1)
    in_parallel(lambda lo, hi: sample_range(lo, hi, flat, float(mu), numbers, value, labels), pieces_of(flat))
    return like(value.reshape(shape[:-2]), scores.unary), like(labels.reshape(shape), scores.unary)


@mirrors(reference.max_marginals)
def max_marginals(scores: ChainScores) -> ChainScores:
    flat = flat_chains(scores)
    *batch, n, n_labels = scores.unary.shape
    nodes = np.full(flat.unary.shape, -np.inf)
    edges = np.full((len(flat.start), max(n - 1, 0), n_labels, n_labels), -np.inf)
    in_parallel(lambda lo, hi: max_marginals_range(lo, hi, flat, nodes, edges), pieces_of(flat))
    return ChainScores(
        like(nodes.reshape(scores.unary.shape), scores.unary),
        like(edges.reshape(*batch, *edges.shape[1:]), scores.unary),
        scores.lengths,
    )


class Chain(reference.Chain):
    ops = sys.modules[__name__]

    def __init__(
        self, unary: Any, pairwise: Any, lengths: Any = None, mask: Any = None, *, starts: Any = None, ends: Any = None
    ) -> None:
        plain = lengths is None and mask is None and starts is None and ends is None
        if plain and are_sound(unary, pairwise) and unary.ndim >= 2 and unary.shape[-1] >= 1:
            *batch, n, n_labels = unary.shape
            if pairwise.shape in ((n_labels, n_labels), (*batch, max(n - 1, 0), n_labels, n_labels)):
                self.scores = ChainScores(unary, pairwise)
                return
        super().__init__(unary, pairwise, lengths, mask, starts=starts, ends=ends)
