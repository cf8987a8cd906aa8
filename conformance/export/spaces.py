"""The structures: their scores in one line, drawn inputs, and which answers a file has."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from conformance.export.draws import Draws, Nature
from conformance.export.numbers import Array
from conformance.specimens.outputs import OUTPUTS, Outputs

__all__ = ["SPACES", "Space"]

Inputs = dict[str, Any]  # by the names of the constructor's arguments


class Space(NamedTuple):
    """A structure. outputs: with their parts; answers: the questions beyond the best and the k best; ledger: the label
    of each answer's statement.
    """

    score: str
    draw: Callable[[Draws, Nature], Inputs]
    outputs: Outputs
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


def _matching(draws: Draws, nature: Nature) -> Inputs:
    return {"values": nature.scores(draws, nature.sizes(draws, 4, 0), nature.sizes(draws, 4, 0))}


def _arborescence(draws: Draws, nature: Nature) -> Inputs:
    n = nature.sizes(draws, 4, 0)
    return {"values": nature.scores(draws, n, n + 1), "single_root": draws.chance(2)}


def _boxes(draws: Draws, nature: Nature) -> Inputs:
    H, W = nature.sizes(draws, 3), nature.sizes(draws, 4)
    pixels = nature.scores(draws, H, W)
    if draws.chance(2):
        return {"pixels": pixels}
    truth = draws.choice(list(OUTPUTS["Boxes"].all({"pixels": pixels})))
    return {"pixels": pixels, "loss": abs(nature.score(draws)), "truth": Array((4,), list(truth), "int64")}


def _ledger(best: str, topk: str, max_marginals: str = "", sums: str = "") -> dict[str, str]:
    squared = "P section 2.3.1, squared l2"
    return {"best": best, "topk": topk, "max_marginals": max_marginals, "sums": sums, "squared_l2": squared}


BMMF = "P Algorithm 10"
SPACES = {
    "Table": Space(
        "values[y]; y is an index", _table, OUTPUTS["Table"], ALL,
        _ledger("P Definition 6", "P max^(k)", MARGINALS, "P section 2.3.1"),
    ),
    "Chain": Space(
        "sum_t unary[t, y_t] + sum_{t>=1} pairwise[t-1, y_{t-1}, y_t]; a pairwise of two axes serves every t",
        _chain, OUTPUTS["Chain"], ALL,
        _ledger("P Algorithm 1", "P Algorithm 2", MARGINALS, "P Algorithm 3"),
    ),
    "Tree": Space(
        "sum_v unary[v, y_v] + sum_{v: parents[v] >= 0} pairwise[v, y_{parents[v]}, y_v]; a pairwise of two axes "
        "serves every v; y_v < counts[v] where there are counts",
        _tree, OUTPUTS["Tree"], ALL,
        _ledger("P Algorithm 7", "P Algorithm 8", MARGINALS, "P Algorithm 9"),
    ),
    "Graph": Space(
        "sum_v unary[v, y_v] + sum_e pairwise[e, y_a, y_b] with (a, b) = edges[e]; y_v < counts[v] where there are "
        "counts",
        _graph, OUTPUTS["Graph"], ALL,
        _ledger("P Remark 10", BMMF, "P Remark 10", "P Remark 10"),
    ),
    "Cut": Space(
        "sum_v unary[v, y_v] + sum_e pairwise[e, y_a, y_b] with (a, b) = edges[e], labels 0 and 1; pairwise[e, 0, 0] + "
        "pairwise[e, 1, 1] >= pairwise[e, 0, 1] + pairwise[e, 1, 0]",
        _cut, OUTPUTS["Cut"], ("max_marginals", "squared_l2"),
        _ledger("P Theorem 47", BMMF, MARGINALS),
    ),
    "Matching": Space(
        "sum_v values[v, y_v] over rows v with a column y_v of their own; min(p, q) rows have one, y_v = -1 for others",
        _matching, OUTPUTS["Matching"], ("max_marginals", "squared_l2"),
        _ledger("P appendix C.3, linear programs and (73)", BMMF, "P Algorithm 12"),
    ),
    "Arborescence": Space(
        "sum_m values[m, y_m]; y_m in 0..n is the head of token m + 1, 0 the root, which every token leads to; of root "
        "arcs there is exactly one where single_root is true",
        _arborescence, OUTPUTS["Arborescence"], ALL,
        _ledger("M section 4, dependency parsing: inference", "", MARGINALS, "M (3) over dependency trees"),
    ),
    "Boxes": Space(
        "sum of pixels[i, j] in the box y = (top, left, bottom, right), half-open and not empty, + loss * (1 - "
        "intersection over union of y and truth) where there is a truth",
        _boxes, OUTPUTS["Boxes"], (), _ledger("P Proposition 15", "P Algorithm 13"),
    ),
}  # fmt: skip
