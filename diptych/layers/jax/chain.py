"""Linear chains (conditional random fields) for JAX: sums as scans of products of matrices, best labels by kernels.

score(y) = sum_t unary[t, y_t] + sum_{t>=1} pairwise[y_{t-1}, y_t] + starts[y_first] + ends[y_last]

Functions take unary (..., n, L), pairwise (L, L), and by name mask (..., n) bool or lengths (...,), starts and ends
(L,), as :mod:`diptych.layers.torch` has them. Sums and losses are traced: ``jit``, ``vmap``, ``grad``, ``jvp`` and
``hessian`` work. ``best`` and ``topk`` call kernels on the host (``jax.pure_callback``), in ``vmap`` once for all; they
have no derivatives, but the score of their labels has: :func:`score`. Labels outside 0..L-1 raise a ValueError where
they can be read, and are worth nan under ``jit``. Needs JAX: ``pip install "diptych[jax]"``.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import accelerated
from reference.arrays import integer, number
from reference.structures.base import KBest
from reference.structures.chain_scores import ChainScores
from reference.structures.scores import finite

__all__ = ["KBest", "best", "crf_loss", "hinge_loss", "log_partition", "marginals", "score", "topk"]

Array = Any
Chains = Any  # ChainScores with a mask, and with the scores of both ends in those of labels
LIMIT = {4: 25.0, 8: 150.0}  # by bytes of a number: how far below the largest transitions may lie, times mu


def log_partition(unary: Array, pairwise: Array, *, mu: float = 1.0, **where: Any) -> Array:
    """mu log sum_y exp(score(y) / mu), (...,); 0 for a chain without positions, -inf if all labellings are forbidden,
    and nan for scores that are nan or +inf.

    Notes
    -----
    By products of exponentials if no transition is forbidden or far below the largest, else in logs.
    """
    chains, mu = _chains(unary, pairwise, **where), number("mu", mu, positive=True)
    scaled = chains._replace(unary=chains.unary / mu, pairwise=chains.pairwise / mu)
    span = jnp.max(scaled.pairwise) - jnp.min(scaled.pairwise)
    safe = span <= LIMIT[scaled.pairwise.dtype.itemsize]  # False for nan
    sound = jnp.all(chains.unary < jnp.inf, (-2, -1)) & jnp.all(chains.pairwise < jnp.inf)
    return jnp.where(sound, mu * jax.lax.cond(safe, _by_products, _in_logs, scaled), jnp.nan)


def marginals(unary: Array, pairwise: Array, *, mu: float = 1.0, **where: Any) -> tuple[Array, Array]:
    """P(y_t = i), (..., n, L), and the expected number of each transition in all chains together, (L, L)."""
    nodes, edges = jax.grad(lambda u, A: jnp.sum(log_partition(u, A, mu=mu, **where)), (0, 1))(unary, pairwise)
    return nodes, edges


def score(unary: Array, pairwise: Array, labels: Array, **where: Any) -> Array:
    """The score (...,) of labels (..., n); those off the mask are ignored."""
    chains = _chains(unary, pairwise, **where)
    return _score(chains, _checked(chains, whole_numbers("labels", labels, unary.shape[:-1])))


def crf_loss(unary: Array, pairwise: Array, labels: Array, **where: Any) -> Array:
    """-log P(labels), (...,): the log-partition less the score of labels (..., n); labels off the mask are ignored."""
    return log_partition(unary, pairwise, **where) - score(unary, pairwise, labels, **where)


def hinge_loss(unary: Array, pairwise: Array, labels: Array, cost: Any = 1.0, **where: Any) -> Array:
    """max_y cost(y, labels) + score(y) - score(labels), (...,).

    cost: of each wrong label, or a matrix (L, L), of (label, predicted label), summed over positions.
    """
    y, L = whole_numbers("labels", labels, unary.shape[:-1]), unary.shape[-1]
    table = jnp.asarray(cost, unary.dtype)
    table = table * (1 - jnp.eye(L, dtype=unary.dtype)) if table.ndim == 0 else table
    if table.shape != (L, L):
        raise ValueError(f"cost: expected a number or shape {(L, L)}, got {table.shape}")
    augmented = unary + table[jnp.clip(y, 0, L - 1)]
    found = best(augmented, pairwise, **where)
    chains = _chains(augmented, pairwise, **where)
    return _score(chains, jnp.maximum(found, 0)) - _score(chains, _checked(chains, y))


def best(unary: Array, pairwise: Array, **where: Any) -> Array:
    """The best labels (..., n), -1 off the mask."""
    chains = jax.lax.stop_gradient(_chains(unary, pairwise, **where))  # labels have no derivatives
    return _on_host(lambda space: space.best()[1:], chains, (chains.mask.shape, _int()))[0]


def topk(unary: Array, pairwise: Array, k: int, **where: Any) -> KBest:
    """The k best distinct labellings: scores (..., k) from high to low, then -inf; labels (..., k, n), -1 off the mask
    and beyond count (...,).
    """
    chains, k = _chains(unary, pairwise, **where), integer("k", k, 1)
    *batch, n = chains.mask.shape
    shapes = ((*batch, k), chains.unary.dtype), ((*batch, k, n), _int()), (tuple(batch), _int())
    return KBest(*_on_host(lambda space: space.topk(k), chains, *shapes))


def _chains(
    unary: Array,
    pairwise: Array,
    mask: Array | None = None,
    lengths: Array | None = None,
    starts: Array | None = None,
    ends: Array | None = None,
) -> Chains:
    for name, x in (("unary", unary), ("pairwise", pairwise), ("starts", starts), ("ends", ends)):
        if x is not None and not jnp.issubdtype(jnp.asarray(x).dtype, jnp.floating):
            raise TypeError(f"{name}: expected floating-point scores, got {jnp.asarray(x).dtype}")
    dtype = jnp.promote_types(jnp.asarray(unary).dtype, jnp.float32)  # half precision in float32
    unary, pairwise = jnp.asarray(unary, dtype), jnp.asarray(pairwise, dtype)
    if unary.ndim < 2 or unary.shape[-1] < 1:
        raise ValueError(f"unary: expected shape (..., n, L) with L >= 1, got {unary.shape}")
    L = unary.shape[-1]
    if pairwise.shape != (L, L):
        raise ValueError(f"pairwise: expected shape {(L, L)}, got {pairwise.shape}")
    mask = positions(unary.shape[:-1], mask, lengths)
    for name, x, there in (
        ("starts", starts, jnp.cumsum(mask, -1) == 1),
        ("ends", ends, jnp.cumsum(mask[..., ::-1], -1)[..., ::-1] == 1),
    ):
        if x is not None:
            if jnp.shape(x) != (L,):
                raise ValueError(f"{name}: expected shape {(L,)}, got {jnp.shape(x)}")
            unary = unary + jnp.where((mask & there)[..., None], jnp.asarray(x, dtype), 0)
    return ChainScores(jnp.where(mask[..., None], unary, 0), pairwise, mask=mask)  # also where what is left out is nan


def positions(shape: tuple[int, ...], mask: Array | None, lengths: Array | None) -> Array:
    """The positions that belong to the structures, bool of a shape (..., n). Raises ValueError, TypeError."""
    if mask is not None and lengths is not None:
        raise ValueError("mask and lengths: expected one of them, got both")
    if lengths is not None:
        lengths = jnp.asarray(lengths)
        if lengths.shape != shape[:-1] or not jnp.issubdtype(lengths.dtype, jnp.integer):
            raise ValueError(f"lengths: expected integers {shape[:-1]}, got {lengths.dtype} {lengths.shape}")
        return jnp.arange(shape[-1]) < lengths[..., None]
    mask = jnp.ones(shape, bool) if mask is None else jnp.asarray(mask)
    if mask.dtype != bool:
        raise TypeError(f"mask: expected booleans, got {mask.dtype}")
    if mask.shape != shape:
        raise ValueError(f"mask: expected shape {shape}, got {mask.shape}")
    return mask


def whole_numbers(name: str, labels: Array, shape: tuple[int, ...]) -> Array:
    """Labels as an array. Raises ValueError, TypeError."""
    labels = jnp.asarray(labels)
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        raise TypeError(f"{name}: expected integers, got {labels.dtype}")
    if labels.shape != shape:
        raise ValueError(f"{name}: expected shape {shape}, got {labels.shape}")
    return labels


def _checked(chains: Chains, labels: Array) -> Array:
    """Labels. Raises ValueError if one on the mask is none of 0..L-1, unless they are traced."""
    if not isinstance(labels, jax.core.Tracer) and not isinstance(chains.mask, jax.core.Tracer):
        y, L = np.asarray(labels), chains.unary.shape[-1]
        for place in np.argwhere(np.asarray(chains.mask) & ((y < 0) | (y >= L)))[:1]:
            raise ValueError(f"labels: expected 0..{L - 1}, got {y[tuple(place)]} at {tuple(place.tolist())}")
    return labels


def _score(chains: Chains, labels: Array) -> Array:
    unary, pairwise, _, mask = chains
    n, L = unary.shape[-2:]
    sound = jnp.all(~mask | ((labels >= 0) & (labels < L)), axis=-1)
    y = jnp.clip(labels, 0, L - 1)
    here = jnp.where(mask, jnp.take_along_axis(unary, y[..., None], -1)[..., 0], 0)
    last = jax.lax.cummax(jnp.where(mask, jnp.arange(n), -1), axis=mask.ndim - 1)
    before = jnp.concatenate([jnp.full_like(last[..., :1], -1), last[..., :-1]], axis=-1)
    edges = pairwise[jnp.take_along_axis(y, jnp.maximum(before, 0), -1), y]
    total = jnp.sum(here + jnp.where(mask & (before >= 0), edges, 0), axis=-1)
    return jnp.where(sound, total, jnp.nan)


def _by_products(chains: Chains) -> Array:
    """Steps are products of matrices, as in :mod:`reference.structures.chain_scaled`."""
    shift = jax.lax.stop_gradient(jnp.max(chains.pairwise))
    table = jnp.exp(chains.pairwise - shift)
    return _summed(chains, lambda message: _log(jnp.exp(message) @ table) + shift)


def _in_logs(chains: Chains) -> Array:
    return _summed(chains, lambda message: logsumexp(message[..., :, None] + chains.pairwise, -2))


def _summed(chains: Chains, step: Any) -> Array:
    """Messages in logarithms, the largest 0: ``step`` sums over the label before. Rabiner (1989), section V.A."""
    unary, _, _, mask = chains

    def add(carry: Any, position: Any) -> Any:
        message, value, begun = carry
        scores, kept = position
        after = jnp.where(begun[..., None], step(message), 0.0) + scores
        top = jax.lax.stop_gradient(finite(jnp, jnp.max(after, axis=-1)))
        message = jnp.where(kept[..., None], after - top[..., None], message)
        return (message, value + jnp.where(kept, top, 0.0), begun | kept), None

    message = jnp.zeros_like(unary, shape=(*unary.shape[:-2], unary.shape[-1]))
    start = message, message[..., 0], jnp.zeros_like(mask, shape=mask.shape[:-1])
    positions = jnp.moveaxis(unary, -2, 0), jnp.moveaxis(mask, -1, 0)
    message, value, begun = jax.lax.scan(add, start, positions)[0]
    return value + jnp.where(begun, logsumexp(message, -1), 0.0)


def logsumexp(x: Array, axis: int) -> Array:
    """log sum exp, with derivatives 0 where all are -inf."""
    top = jax.lax.stop_gradient(finite(jnp, jnp.max(x, axis=axis, keepdims=True)))
    total = jnp.sum(jnp.where(x > -jnp.inf, jnp.exp(jnp.where(x > -jnp.inf, x, 0.0) - top), 0.0), axis=axis)
    return _log(total) + jnp.squeeze(top, axis)


def _log(x: Array) -> Array:
    return jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), -jnp.inf)


def _int() -> Any:
    return jnp.int64 if jax.config.jax_enable_x64 else jnp.int32


def _on_host(ask: Any, chains: Chains, *shapes: Any) -> Any:
    """The arrays of these shapes and dtypes that the kernels' chains answer; ``vmap`` calls once for all."""

    def asked(*given: Any) -> tuple[np.ndarray, ...]:
        return tuple(np.asarray(x).astype(dtype) for x, (_, dtype) in zip(ask(_host(*given)), shapes, strict=True))

    structs = tuple(jax.ShapeDtypeStruct(*each) for each in shapes)
    return jax.pure_callback(asked, structs, *chains, vmap_method="broadcast_all")


def _host(unary: Any, pairwise: Any, _: None, mask: Any) -> accelerated.Chain:
    """The batch, to which ``vmap`` has added axes before all others. Tables of transitions that differ become those of
    each edge.
    """
    unary, pairwise, mask = (np.asarray(x) for x in (unary, pairwise, mask))
    *extra, L, _ = pairwise.shape
    tables, (*batch, n) = pairwise.reshape(-1, L, L), mask.shape
    if np.all(tables == tables[:1]):
        return accelerated.Chain(unary, tables[0], mask=mask)
    tables = tables.reshape(*extra, *(1,) * (len(batch) - len(extra) + 1), L, L)
    return accelerated.Chain(unary, np.broadcast_to(tables, (*batch, max(n - 1, 0), L, L)), mask=mask)
