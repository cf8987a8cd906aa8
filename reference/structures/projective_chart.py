"""Eisner's chart: the spans of a sentence from which dependency trees without crossing arcs are put together.

Places 0..n stand in a row: the root at 0, then the tokens. There are four kinds of spans s..t (Eisner 1996):

- complete, to the right: s is the head, and all of s + 1..t descend from it; to the left: t is, of s..t - 1;
- incomplete, to the right: the same with the arc s -> t, and t has no dependents right of it yet; to the left: t -> s.

Both incomplete spans arise from the same *pair* of complete ones, s..r to the right and r + 1..t to the left, and an
arc between their heads. A complete span to the right is an incomplete one, s..r, and a complete one, r..t, both to the
right; to the left it is the mirror image. A tree is a complete span 0..n to the right.

Each tree has one derivation, so that sums over derivations are sums over trees. In a complete span to the right with
s < t, r is the last dependent of s. In an incomplete span with the arc s -> t, the tokens between them descend from
dependents of s or of t; as arcs do not cross, those of s come first, and r is the last of them, or s. So a tree
determines each split, and the spans below it. Conversely, the arcs of a derivation form a tree, and none of them
crosses another, because those of two spans that share at most one place cannot.

A chart has for each kind and width w = t - s an array (..., n + 1 - w, ranks) over the first places s. All spans of a
width are made at once from narrower ones: O(n^2) operations of arrays, O(n^3) numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from reference.arrays import Array
from reference.structures.arborescence_max import ArborescenceScores
from reference.structures.sampling import choose

__all__ = ["Chart", "crossing", "drawn", "inside", "outside", "splits", "used", "whole"]

RIGHT, LEFT, PAIR = "complete, to the right", "complete, to the left", "pair"
INCOMPLETE = ARC_RIGHT, ARC_LEFT = "incomplete, to the right", "incomplete, to the left"

Spans = tuple[str, int, int]  # kind and width of a half, and how far it begins right of its whole
Chart = dict[str, list[Array]]  # kind, then width


def splits(kind: str, w: int) -> list[tuple[Spans, Spans]]:
    """The halves of a span of this kind and width, for each of its splits, from left to right."""
    if kind == PAIR:
        return [((RIGHT, r, 0), (LEFT, w - 1 - r, r + 1)) for r in range(w)]
    if kind == RIGHT:
        return [((ARC_RIGHT, r, 0), (RIGHT, w - r, r)) for r in range(1, w + 1)]
    return [((LEFT, r, 0), (ARC_LEFT, w - r, r)) for r in range(w)]


def used(scores: ArborescenceScores) -> tuple[Array, Array]:
    """The scores (..., n, n + 1) with -inf for what is ignored, and in all of a sentence with a score of nan or +inf;
    whether (...,) it has none.
    """
    values, lengths = scores
    xp, where, n = array_namespace(values), device(values), values.shape[-2]
    m, h = xp.arange(1, n + 1, device=where)[:, None], xp.arange(n + 1, device=where)
    counts = m != h
    if lengths is not None:
        counts = counts & (m <= lengths[..., None, None]) & (h <= lengths[..., None, None])
    values = xp.where(counts, values, -xp.inf)
    sound = xp.all(values < xp.inf, axis=(-2, -1))
    return xp.where(sound[..., None, None], values, -xp.inf), sound


def inside(
    values: Array,
    single_root: bool,
    times: Callable[[Array, Array], Array],
    plus: Callable[[Array], tuple[Array, Array]],
    zero: Any,
    one: Array,
) -> tuple[Chart, Chart]:
    """The chart of all spans, narrow ones first, and what ``plus`` keeps of the splits of each.

    values (..., n, n + 1): of arcs, that of a token as its own head ``zero``. times(left, right): the candidates (...,
    m, c) of a split, of pairs of its halves' ranks. plus: of the candidates of all splits the numbers (..., m, ranks)
    of a span, and what :func:`outside` needs of them. zero: of what is not possible; one (..., 1, ranks): of a place
    alone. With a single root its complete spans have no part in a pair, except the root alone.
    """
    xp, n = array_namespace(one), values.shape[-2]
    flat = xp.reshape(values, (*values.shape[:-2], n * (n + 1), 1))
    alone = xp.concat([one] * (n + 1), axis=-2)
    chart: Chart = {RIGHT: [alone], LEFT: [alone], PAIR: [None], ARC_RIGHT: [None], ARC_LEFT: [None]}
    kept: Chart = {RIGHT: [None], LEFT: [None], PAIR: [None]}
    for w in range(1, n + 1):
        for kind in (PAIR, RIGHT, LEFT):
            halves = [[chart[half][u][..., d : d + n + 1 - w, :] for half, u, d in way] for way in splits(kind, w)]
            ways = [times(*both) for both in halves]
            if kind == PAIR and single_root:
                later = xp.arange(n + 1 - w, device=device(one))[:, None] > 0  # do not begin at the root
                ways[1:] = [xp.where(later, x, zero) for x in ways[1:]]
            value, back = plus(xp.concat(ways, axis=-1))
            chart[kind].append(value)
            kept[kind].append(back)
            for arc in INCOMPLETE if kind == PAIR else ():
                arcs = xp.take(flat, xp.asarray(_entries(n, arc, w), device=device(one)), axis=-2)
                chart[arc].append(times(value, arcs)[..., : value.shape[-1]])
    return chart, kept


def _entries(n: int, kind: str, w: int) -> np.ndarray:
    """Of the arcs s -> s + w, or s + w -> s, the entries (n + 1 - w,) in a matrix (n, n + 1) of heads of tokens, row
    after row. The arc into the root has the entry of a token as its own head.
    """
    s = np.arange(n + 1 - w)
    if kind == ARC_RIGHT:
        return (s + w - 1) * (n + 1) + s
    return np.where(s > 0, (s - 1) * (n + 1) + s + w, (w - 1) * (n + 1) + w)


def whole(chart: Chart, lengths: Array | None) -> Array:
    """The numbers (..., ranks) of all of a sentence."""
    complete = chart[RIGHT]
    if lengths is None:
        return complete[-1][..., 0, :]
    xp = array_namespace(lengths)
    by_length = xp.stack([x[..., 0, :] for x in complete], axis=-2)
    return xp.take_along_axis(by_length, lengths[..., None, None], axis=-2)[..., 0, :]


def outside(
    n: int, lengths: Array | None, start: Array, given: Callable[[str, int, Array], list[tuple[Array, Array]]]
) -> Array:
    """The numbers (..., n, n + 1, ranks) that go to arcs, from whole sentences down to the halves of each span.

    start (..., ranks): of whole sentences; 0 elsewhere. given(kind, w, mine): what each split hands to its two halves,
    of the spans' own numbers (..., m, ranks). What a span is given is added up.
    """
    xp, where, (*batch, ranks) = array_namespace(start), device(start), start.shape

    def blank(m: int) -> Array:
        return xp.zeros((*batch, m, ranks), dtype=start.dtype, device=where)

    def among(m: int, before: int, x: Array) -> Array:
        """x (..., _, ranks) among m spans, the others 0."""
        return xp.concat([blank(before), x, blank(m - before - x.shape[-2])], axis=-2)

    length = xp.asarray(n, device=where) if lengths is None else lengths[..., None, None]
    out: Chart = {kind: [blank(n + 1 - w) for w in range(n + 1)] for kind in (RIGHT, LEFT, *INCOMPLETE)}
    for w in range(n + 1):
        out[RIGHT][w] = among(n + 1 - w, 0, xp.where(length == w, start[..., None, :], 0))
    for w in range(n, 0, -1):
        for kind in (RIGHT, LEFT, PAIR):
            mine = out[kind][w] if kind != PAIR else out[ARC_RIGHT][w] + out[ARC_LEFT][w]
            for way, shares in zip(splits(kind, w), given(kind, w, mine), strict=True):
                for (half, width, before), share in zip(way, shares, strict=True):
                    out[half][width] = out[half][width] + among(n + 1 - width, before, share)
    arcs = [(kind, w) for kind in INCOMPLETE for w in range(1, n + 1)]
    numbers = xp.concat([blank(0), *(out[kind][w] for kind, w in arcs)], axis=-2)
    order = np.argsort(np.concatenate([np.zeros(0, np.int64), *(_entries(n, *arc) for arc in arcs)]))
    return xp.reshape(xp.take(numbers, xp.asarray(order, device=where), axis=-2), (*batch, n, n + 1, ranks))


def drawn(terms: Chart, n: int, numbers: np.ndarray) -> np.ndarray:
    """The heads (n,) of a tree by the numbers (2 n,); terms: of the log sums of all spans."""
    heads, waiting, taken = np.full(n, -1), [(RIGHT, n, 0)], 0
    while waiting:
        kind, w, s = waiting.pop()
        if kind in INCOMPLETE:
            child, head = (s + w, s) if kind == ARC_RIGHT else (s, s + w)
            heads[child - 1], kind = head, PAIR
        if w > 0:
            way = int(choose(terms[kind][w][s], None, numbers[taken : taken + 1])[0])
            taken += 1
            waiting += [(half, width, s + offset) for half, width, offset in reversed(splits(kind, w)[way])]
    return heads


def crossing(heads: np.ndarray) -> np.ndarray:
    """Two tokens (2,) whose arcs cross, of heads (n,); empty if there are none."""
    ends = np.stack([heads, np.arange(1, len(heads) + 1)])
    a, b = ends.min(axis=0), ends.max(axis=0)
    pairs = np.argwhere((a[:, None] < a) & (a < b[:, None]) & (b[:, None] < b))
    return pairs[0] + 1 if len(pairs) else np.zeros(0, np.int64)
