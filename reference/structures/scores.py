"""Arithmetic of scores: a NamedTuple of arrays (or one bare array) seen as one long vector.

Every oracle takes scores and returns a gradient of the same shape. The operations are adding a loss, subtracting the
parts of the true output and the inner product. Fields named in a tuple's ``layout`` (such as the lengths of chains) are
not scores and are returned unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from array_api_compat import array_namespace

from reference.arrays import Array

__all__ = ["add", "finite", "flatten", "inner", "mapped"]

Scores = Any  # a NamedTuple of arrays, or a bare array


def score_fields(scores: Scores) -> list[Array]:
    """The fields that are scores, in order: all except the layout."""
    if not isinstance(scores, tuple):
        return [scores]
    layout = getattr(scores, "layout", ())
    names: tuple[str, ...] = scores._fields  # type: ignore[attr-defined]
    return [value for name, value in zip(names, scores, strict=True) if name not in layout]


def add(scores: Scores, other: Scores, factor: float = 1.0) -> Scores:
    """``scores + factor * other``, field by field, with the layout of ``scores``.

    ``other`` must be finite; -inf in ``scores`` stays. (``+`` on tuples would concatenate.)
    """
    for field, term in zip(score_fields(scores), score_fields(other), strict=True):
        if tuple(field.shape) != tuple(term.shape):
            raise ValueError(f"other: expected the shape of the scores, {tuple(field.shape)}, got {tuple(term.shape)}")
    return mapped(lambda x, y: x + factor * y, scores, other)


def finite(xp: Any, x: Array) -> Array:
    """x with 0 in place of -inf: -inf minus -inf is then never computed."""
    return xp.where(x > -xp.inf, x, 0.0)


def mapped(function: Callable[..., Array], scores: Scores, *others: Scores) -> Scores:
    """The function of each field of the scores, and of those of others beside it; the layout is that of ``scores``."""
    each = [function(*fields) for fields in zip(*map(score_fields, (scores, *others)), strict=True)]
    if not isinstance(scores, tuple):
        return each[0]
    layout = getattr(scores, "layout", ())
    names = [name for name in scores._fields if name not in layout]  # type: ignore[attr-defined]
    return scores._replace(**dict(zip(names, each, strict=True)))  # type: ignore[attr-defined]


def inner(scores: Scores, parts: Scores) -> float:
    """The inner product <scores, parts> over all fields except the layout, as a Python float.

    A forbidden part (-inf) that does not occur counts 0. Batch axes are summed over.
    """
    total = 0.0
    for s, p in zip(score_fields(scores), score_fields(parts), strict=True):
        xp = array_namespace(s, p)
        total += float(xp.sum(xp.where(p != 0, s, 0.0) * p))
    return total


def flatten(scores: Scores) -> Array:
    """All score fields as one vector (p,): fields in order, each in C order."""
    fields = [f for f in score_fields(scores)]
    xp = array_namespace(*fields)
    return xp.concat([xp.reshape(f, (-1,)) for f in fields])
