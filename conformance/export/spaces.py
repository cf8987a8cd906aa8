"""The structures: their scores in one line, drawn inputs, and all outputs with their parts, listed by itertools."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from conformance.export.draws import Draws, Nature
from conformance.export.numbers import Array, indices

__all__ = ["SPACES", "Space"]

Inputs = dict[str, Any]  # by the names of the constructor's arguments
Output = tuple[int, ...] | int
Part = tuple[str, tuple[int, ...], Fraction | int]  # a field, an index, and how often the output has it


class Space(NamedTuple):
    """A structure. parts: what the score of an output adds up; shapes: of the fields with an entry for each part;
    answers: the questions beyond the best and the k best; ledger: the label of each answer's statement.
    """

    score: str
    draw: Callable[[Draws, Nature], Inputs]
    outputs: Callable[[Inputs], Iterator[Output]]
    parts: Callable[[Inputs, Any], list[Part]]
    shapes: Callable[[Inputs], dict[str, tuple[int, ...]]]
    answers: tuple[str, ...]
    ledger: dict[str, str]


ALL = ("max_marginals", "sums", "squared_l2")
MARGINALS = "P Definition 13"


def _integers(draws: Draws, p: int, least: int, most: int) -> Array:
    return Array((p,), [draws.between(least, most) for _ in range(p)], "int64")


def _table(draws: Draws, nature: Nature) -> Inputs:
    return {"values": nature.scores(draws, nature.sizes(draws, 6))}


def _chain(draws: Draws, nature: Nature) -> Inputs:
    n, L = nature.sizes(draws, 4, 0), draws.choice((1, 2, 2, 3, 3))
    shape = (L, L) if draws.chance(2) else (max(n - 1, 0), L, L)
    return {"unary": nature.scores(draws, n, L), "pairwise": nature.scores(draws, *shape)}


def _labels(y: tuple[int, ...]) -> list[Part]:
    return [("unary", (t, label), 1) for t, label in enumerate(y)]


def _chain_parts(inputs: Inputs, y: tuple[int, ...]) -> list[Part]:
    pairs: list[Part] = [("pairwise", (t - 1, y[t - 1], y[t]), 1) for t in range(1, len(y))]
    return _labels(y) + pairs


def _chain_shapes(inputs: Inputs) -> dict[str, tuple[int, ...]]:
    n, L = inputs["unary"].shape
    return {"unary": (n, L), "pairwise": (max(n - 1, 0), L, L)}


def _tree(draws: Draws, nature: Nature) -> Inputs:
    p, L = nature.sizes(draws, 4, 0), draws.choice((1, 2, 2, 3, 3))
    shape = (L, L) if draws.chance(2) else (p, L, L)
    order, parents = list(range(p))[:: draws.choice((1, -1))], [-1] * p  # parents before their children, or after
    for i, v in enumerate(order):
        j = draws.between(-1, i - 1)
        parents[v] = order[j] if j >= 0 else -1
    inputs = {"unary": nature.scores(draws, p, L), "pairwise": nature.scores(draws, *shape)}
    counts = {"counts": _integers(draws, p, 1, L)} if draws.chance(3) else {}
    return {**inputs, "parents": Array((p,), parents, "int64"), **counts}


def _tree_parts(inputs: Inputs, y: tuple[int, ...]) -> list[Part]:
    parents = inputs["parents"].values
    pairs: list[Part] = [("pairwise", (v, y[u], y[v]), 1) for v, u in enumerate(parents) if u >= 0]
    return _labels(y) + pairs


def _tree_shapes(inputs: Inputs) -> dict[str, tuple[int, ...]]:
    p, L = inputs["unary"].shape
    return {"unary": (p, L), "pairwise": (p, L, L)}


def _labellings(inputs: Inputs) -> Iterator[Output]:
    p, L = inputs["unary"].shape
    counts = inputs["counts"].values if "counts" in inputs else [L] * p
    return itertools.product(*map(range, counts))


def _edges(draws: Draws, p: int) -> Array:
    """Edges in either order, some of them twice."""
    pairs = [(a, b) for a in range(p) for b in range(p) if a != b]
    chosen = [draws.choice(pairs) for _ in range(draws.between(1, 5))] if pairs else []
    return Array((len(chosen), 2), [v for pair in chosen for v in pair], "int64")


def _graph(draws: Draws, nature: Nature) -> Inputs:
    p, L = nature.sizes(draws, 4, 0), draws.choice((1, 2, 2, 3, 3))
    edges = _edges(draws, p)
    inputs = {"unary": nature.scores(draws, p, L), "pairwise": nature.scores(draws, edges.shape[0], L, L)}
    counts = {"counts": _integers(draws, p, 1, L)} if draws.chance(3) else {}
    return {**inputs, "edges": edges, **counts}


def _cut(draws: Draws, nature: Nature) -> Inputs:
    """Of each edge's four scores the two with the larger sum are those of equal labels."""
    p = nature.sizes(draws, 5, 0)
    edges, matrices = _edges(draws, p), []
    for _ in range(edges.shape[0]):
        a, b, c, d = (nature.score(draws) for _ in range(4))
        if Fraction(a) + Fraction(d) < Fraction(b) + Fraction(c):
            a, b, c, d = b, a, d, c
        forbidden = nature.forbidden > 1 and draws.chance(nature.forbidden)
        matrices += [a, float("-inf") if forbidden else b, c, d]
    pairwise = Array((edges.shape[0], 2, 2), matrices)
    return {"unary": nature.scores(draws, p, 2), "pairwise": pairwise, "edges": edges}


def _graph_parts(inputs: Inputs, y: tuple[int, ...]) -> list[Part]:
    ends = inputs["edges"].values
    edges = enumerate(zip(ends[::2], ends[1::2], strict=True))
    pairs: list[Part] = [("pairwise", (e, y[a], y[b]), 1) for e, (a, b) in edges]
    return _labels(y) + pairs


def _matching(draws: Draws, nature: Nature) -> Inputs:
    return {"values": nature.scores(draws, nature.sizes(draws, 4, 0), nature.sizes(draws, 4, 0))}


def _matchings(inputs: Inputs) -> Iterator[Output]:
    p, q = inputs["values"].shape
    if p <= q:
        yield from itertools.permutations(range(q), p)
    else:
        for rows in itertools.permutations(range(p), q):
            yield tuple(rows.index(v) if v in rows else -1 for v in range(p))


def _arborescence(draws: Draws, nature: Nature) -> Inputs:
    n = nature.sizes(draws, 4, 0)
    return {"values": nature.scores(draws, n, n + 1), "single_root": draws.chance(2)}


def _arborescences(inputs: Inputs) -> Iterator[Output]:
    n = inputs["values"].shape[0]
    for heads in itertools.product(range(n + 1), repeat=n):
        reached = {0}
        for _ in range(n):
            reached |= {m + 1 for m in range(n) if heads[m] in reached}
        if len(reached) == n + 1 and not (inputs["single_root"] and n and heads.count(0) != 1):
            yield heads


def _boxes(draws: Draws, nature: Nature) -> Inputs:
    H, W = nature.sizes(draws, 3), nature.sizes(draws, 4)
    pixels = nature.scores(draws, H, W)
    if draws.chance(2):
        return {"pixels": pixels}
    truth = draws.choice(list(_all_boxes({"pixels": pixels})))
    return {"pixels": pixels, "loss": abs(nature.score(draws)), "truth": Array((4,), list(truth), "int64")}


def _all_boxes(inputs: Inputs) -> Iterator[Output]:
    H, W = inputs["pixels"].shape
    for (top, left), (bottom, right) in itertools.product(indices((H, W)), indices((H + 1, W + 1))):
        if top < bottom and left < right:
            yield top, left, bottom, right


def _inside(box: Any) -> set[tuple[int, int]]:
    return set(itertools.product(range(box[0], box[2]), range(box[1], box[3])))


def _box_parts(inputs: Inputs, y: tuple[int, ...]) -> list[Part]:
    parts: list[Part] = [("pixels", pixel, 1) for pixel in sorted(_inside(y))]
    if "truth" in inputs:
        ours, truth = _inside(y), _inside(inputs["truth"].values)
        parts.append(("loss", (), 1 - Fraction(len(ours & truth), len(ours | truth))))
    return parts


def _values_shape(inputs: Inputs) -> dict[str, tuple[int, ...]]:
    return {"values": inputs["values"].shape}


def _edge_shapes(inputs: Inputs) -> dict[str, tuple[int, ...]]:
    return {"unary": inputs["unary"].shape, "pairwise": inputs["pairwise"].shape}


def _ledger(best: str, topk: str, max_marginals: str = "", sums: str = "") -> dict[str, str]:
    squared = "P section 2.3.1, squared l2"
    return {"best": best, "topk": topk, "max_marginals": max_marginals, "sums": sums, "squared_l2": squared}


BMMF = "P Algorithm 10"
SPACES = {
    "Table": Space(
        "values[y]; y is an index", _table, lambda inputs: iter(range(inputs["values"].shape[0])),
        lambda inputs, y: [("values", (y,), 1)], _values_shape, ALL,
        _ledger("P Definition 6", "P max^(k)", MARGINALS, "P section 2.3.1"),
    ),
    "Chain": Space(
        "sum_t unary[t, y_t] + sum_{t>=1} pairwise[t-1, y_{t-1}, y_t]; a pairwise of two axes serves every t",
        _chain, _labellings, _chain_parts, _chain_shapes, ALL,
        _ledger("P Algorithm 1", "P Algorithm 2", MARGINALS, "P Algorithm 3"),
    ),
    "Tree": Space(
        "sum_v unary[v, y_v] + sum_{v: parents[v] >= 0} pairwise[v, y_{parents[v]}, y_v]; a pairwise of two axes "
        "serves every v; y_v < counts[v] where there are counts",
        _tree, _labellings, _tree_parts, _tree_shapes, ALL,
        _ledger("P Algorithm 7", "P Algorithm 8", MARGINALS, "P Algorithm 9"),
    ),
    "Graph": Space(
        "sum_v unary[v, y_v] + sum_e pairwise[e, y_a, y_b] with (a, b) = edges[e]; y_v < counts[v] where there are "
        "counts",
        _graph, _labellings, _graph_parts, _edge_shapes, ALL,
        _ledger("P Remark 10", BMMF, "P Remark 10", "P Remark 10"),
    ),
    "Cut": Space(
        "sum_v unary[v, y_v] + sum_e pairwise[e, y_a, y_b] with (a, b) = edges[e], labels 0 and 1; pairwise[e, 0, 0] + "
        "pairwise[e, 1, 1] >= pairwise[e, 0, 1] + pairwise[e, 1, 0]",
        _cut, _labellings, _graph_parts, _edge_shapes, ("max_marginals", "squared_l2"),
        _ledger("P Theorem 47", BMMF, MARGINALS),
    ),
    "Matching": Space(
        "sum_v values[v, y_v] over rows v with a column y_v of their own; min(p, q) rows have one, y_v = -1 for others",
        _matching, _matchings, lambda inputs, y: [("values", (v, z), 1) for v, z in enumerate(y) if z >= 0],
        _values_shape, ("max_marginals", "squared_l2"),
        _ledger("P appendix C.3, linear programs and (73)", BMMF, "P Algorithm 12"),
    ),
    "Arborescence": Space(
        "sum_m values[m, y_m]; y_m in 0..n is the head of token m + 1, 0 the root, which every token leads to; of root "
        "arcs there is exactly one where single_root is true",
        _arborescence, _arborescences, lambda inputs, y: [("values", (m, h), 1) for m, h in enumerate(y)],
        _values_shape, ALL,
        _ledger("M section 4, dependency parsing: inference", "", MARGINALS, "M (3) over dependency trees"),
    ),
    "Boxes": Space(
        "sum of pixels[i, j] in the box y = (top, left, bottom, right), half-open and not empty, + loss * (1 - "
        "intersection over union of y and truth) where there is a truth",
        _boxes, _all_boxes, _box_parts, lambda inputs: {}, (), _ledger("P Proposition 15", "P Algorithm 13"),
    ),
}  # fmt: skip
