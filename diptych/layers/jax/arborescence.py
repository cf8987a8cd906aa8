"""Sums over dependency trees for JAX, right in float32 too.

values (..., n, n + 1): values[m, h] is the score of head h (0: the root) for token m + 1; -inf forbids an arc, and
values[m, m + 1] is ignored. By name: lengths (...,), the tokens of each sentence, or mask (..., n) bool, which may have
holes: a token off it has no head and is none; single_root, whether each tree has exactly one arc from the root. Trees
may have arcs that cross.

A sum over trees is a determinant (Koo et al. 2007; McDonald and Satta 2007). Here it is found by elimination without a
subtraction (Grassmann, Taksar and Heyman 1985) in logarithms, because LAPACK in float32 loses all digits where scores
are large. ``jit``, ``vmap``, ``grad``, ``jvp`` and ``hessian`` work. O(n^3) operations, and memory for derivatives.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from diptych.layers.jax.chain import logsumexp, positions, whole_numbers
from reference.arrays import number
from reference.structures.scores import finite

__all__ = ["crf_loss", "log_partition", "marginals", "score"]

Array = Any


def log_partition(values: Array, *, single_root: bool = False, mu: float = 1.0, **where: Any) -> Array:
    """mu log sum_y exp(score(y) / mu) over trees, (...,); 0 for a sentence without tokens, -inf if there is no tree,
    and nan for values that are nan or +inf.
    """
    x, mask, mu = *_trees(values, **where), number("mu", mu, positive=True)
    n, B = x.shape[-2], math.prod(x.shape[:-2])
    sums = jax.vmap(lambda w, here: _eliminated(w, here, single_root))
    return mu * sums(x.reshape(B, n, n + 1) / mu, mask.reshape(B, n)).reshape(mask.shape[:-1])


def marginals(values: Array, **where: Any) -> Array:
    """The probability of each arc, (..., n, n + 1), where P(y) is proportional to exp(score(y) / mu); 0 where there is
    no tree.
    """
    value, derivative = jax.vjp(lambda x: log_partition(x, **where), jnp.asarray(values))
    return derivative(jnp.ones_like(value))[0]


def score(values: Array, heads: Array, **where: Any) -> Array:
    """The sum (...,) of the scores of heads (..., n); those of tokens off the mask are ignored.

    nan where a head is none of 0..n, or a token off the mask, or the token itself.
    """
    x, mask = _trees(values, **where)
    y, n = whole_numbers("heads", heads, x.shape[:-1]), x.shape[-2]
    chosen = jnp.clip(y, 0, n)[..., None]
    allowed = jnp.take_along_axis(_arcs(mask), chosen, -1)[..., 0] & (y >= 0) & (y <= n)
    each = jnp.where(mask, jnp.take_along_axis(x, chosen, -1)[..., 0], 0)
    return jnp.where(jnp.all(allowed | ~mask, -1), jnp.sum(each, -1), jnp.nan)


def crf_loss(values: Array, heads: Array, *, single_root: bool = False, **where: Any) -> Array:
    """-log P(heads), (...,): the log-partition less the score of heads (..., n)."""
    return log_partition(values, single_root=single_root, **where) - score(values, heads, **where)


def _eliminated(x: Array, mask: Array, single_root: bool) -> Array:
    """Of one sentence: log sum_y exp(score(y)).

    A token whose heads weigh p_j of their sum, the pivot, is taken out: its dependents get its heads, w_ij += w_ik p_j.
    The sum over trees is the product of the pivots. With a single root only the last pivot counts the root. The largest
    pivot goes first, so that one that is 0 means that no tree is left.
    """
    n, arcs = mask.shape[0], _arcs(mask)
    if n == 0:
        return jnp.sum(x)  # 0, on the device of the scores
    wrong = jnp.where(jnp.any(mask[:, None] & arcs & ~(x < jnp.inf)), jnp.nan, jnp.zeros_like(x))
    wrong = jnp.sum(wrong * jnp.where(jnp.isfinite(x), x, 0))  # nan, and so are its derivatives, or 0
    x = jnp.where(arcs & mask[:, None], x, -jnp.inf)
    top = jax.lax.stop_gradient(finite(jnp, jnp.max(x, -1)))  # of each row: then large scores have exact differences

    def without_one(_: Any, carry: Any) -> Any:
        w, left, value = carry
        root = jnp.asarray(not single_root) | (jnp.sum(left) == 1)
        pivots = logsumexp(jnp.where(jnp.arange(n + 1) > 0, w, jnp.where(root, w, -jnp.inf)), -1)
        k = jnp.argmax(jnp.where(left, pivots, -jnp.inf))
        through = w[:, k + 1, None] + (w[k] - finite(jnp, pivots[k]))
        after = left & (jnp.arange(n) != k)
        w = jnp.where(after[:, None] & _arcs(after), logsumexp(jnp.stack([w, through]), 0), -jnp.inf)
        return w, after, value + jnp.where(jnp.any(left), pivots[k], 0)

    value = jax.lax.fori_loop(0, n, without_one, (x - top[:, None], mask, jnp.zeros((), x.dtype)))[2]
    value = value + jnp.sum(top)
    return jnp.where(value > -jnp.inf, value, -jnp.inf) + wrong  # no derivative where there is no tree


def _arcs(mask: Array) -> Array:
    """Which heads each token of a mask (..., n) may have, (..., n, n + 1): the root, and other tokens on the mask."""
    n = mask.shape[-1]
    heads = jnp.concatenate([jnp.ones_like(mask[..., :1]), mask], -1)
    return heads[..., None, :] & (jnp.arange(n + 1) != jnp.arange(1, n + 1)[:, None])


def _trees(values: Array, mask: Array | None = None, lengths: Array | None = None) -> tuple[Array, Array]:
    values = jnp.asarray(values)
    if not jnp.issubdtype(values.dtype, jnp.floating):
        raise TypeError(f"values: expected floating-point scores, got {values.dtype}")
    if values.ndim < 2 or values.shape[-1] != values.shape[-2] + 1:
        raise ValueError(f"values: expected shape (..., n, n + 1), got {values.shape}")
    dtype = jnp.promote_types(values.dtype, jnp.float32)  # half precision in float32
    return values.astype(dtype), positions(values.shape[:-1], mask, lengths)
