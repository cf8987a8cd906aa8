"""Drawn instances of each structure, by kind: ordinary scores, forbidden parts, scales, sizes at the edge, batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from conformance.specimens.scores import joined, supermodular

__all__ = ["MET", "instances", "numbers", "shown"]  # and the names of kinds

FORBIDDEN, NOTHING, MORE = "forbidden parts", "every output forbidden", "more than there are"
KEPT, BESIDE = "arguments afterwards", "another of one root made beside it"
LARGE, SMALL, MIXED = "scores of 1e10", "scores of 1e-8", "scores of 1e-6 to 1e6"
SINGLE, RECTANGLES = "one variable", "rectangles"
RAGGED, PADDED = "ragged batch", "batch with padding"
FINITE = st.one_of(
    st.integers(-2, 2).map(float),  # which tie
    st.integers(-50, 50).map(lambda tenths: tenths / 10),  # which round
    st.floats(-5, 5, width=32),
)
SOME_FORBIDDEN = st.one_of(FINITE, st.just(-np.inf))
MOST_FORBIDDEN = st.one_of(st.just(-np.inf), st.just(-np.inf), FINITE)


def scores(draw: Any, shape: tuple[int, ...], kind: str) -> np.ndarray:
    size, entry = int(np.prod(shape)), FINITE
    if FORBIDDEN in kind or kind == NOTHING:
        entry = MOST_FORBIDDEN if draw(st.booleans()) else SOME_FORBIDDEN
    drawn = np.array(draw(st.lists(entry, min_size=size, max_size=size)), np.float64).reshape(shape)
    powers = {LARGE: [1e10], SMALL: [1e-8], MIXED: [1.0, 1e-6, 1e6]}.get(kind, [1.0])
    return drawn * np.array(draw(st.lists(st.sampled_from(powers), min_size=size, max_size=size))).reshape(shape)


def chain(draw: Any, kind: str, L: int, *lengths: int) -> dict[str, Any]:
    if kind not in (RAGGED, PADDED):
        return {"unary": scores(draw, (*lengths, L), kind), "pairwise": scores(draw, (L, L), kind)}
    longest = max(lengths) + (kind == PADDED)
    unary, pairwise = scores(draw, (len(lengths), longest, L), kind), scores(draw, (L, L), kind)
    return {"unary": unary, "pairwise": pairwise, "lengths": np.array(lengths, np.int64)}


def cut(draw: Any, kind: str, p: int) -> dict[str, Any]:
    edges = draw(joined(p, 6, least=1))
    unary, pairwise = scores(draw, (p, 2), kind), scores(draw, (len(edges), 2, 2), kind)
    diagonal = pairwise[:, [0, 1], [0, 1]]
    pairwise[:, [0, 1], [0, 1]] = np.where(diagonal == -np.inf, 0.0, diagonal)  # of equal labels none is forbidden
    supermodular(pairwise)
    return {"unary": unary, "pairwise": pairwise, "edges": edges}


def tree(draw: Any, kind: str, n: int) -> dict[str, Any]:
    instance = {"values": scores(draw, (n, n + 1), kind)}
    return {**instance, "single_root": True} if kind.startswith("one root") else instance


DRAWN: dict[str, Callable[..., dict[str, Any]]] = {
    "Chain": chain,
    "Arborescence": tree,
    "ProjectiveTree": tree,
    "SpanTree": lambda draw, kind, n: {"values": np.triu(scores(draw, (n, n), kind))},
    "Cut": cut,
    "Matching": lambda draw, kind, p, q: {"values": scores(draw, (p, q), kind)},
}


def instances(structure: str, kind: str) -> list[st.SearchStrategy[dict[str, Any]]]:
    """Those of one structure and kind: a strategy for each size, the smallest first."""
    return [st.composite(DRAWN[structure])(kind, *size) for size in sizes(structure, kind)]


def sizes(structure: str, kind: str) -> list[tuple[int, ...]]:
    """Of chains: how many labels, and the lengths; of trees and cuts: how many tokens or variables."""
    if structure == "Matching":
        rectangles = [(1, 2), (2, 1), (2, 3), (3, 2), (2, 4), (4, 3)]
        return [(1, 1)] if kind == SINGLE else rectangles if kind == RECTANGLES else [(p, p) for p in (1, 2, 3, 4)]
    if structure != "Chain":
        return [(1,)] if kind == SINGLE else [(2,), (3,)] if kind == MORE else [(2,), (3,), (4,)]
    if kind == SINGLE:
        return [(1, 1), (2, 1), (3, 1)]
    if kind in (RAGGED, PADDED):
        return [(L, *lengths) for lengths in ((2,), (2, 3), (3, 2), (2, 4, 3)) for L in (2, 3)]
    return [(1, n) for n in (2, 3)] if kind == "one label" else [(L, n) for n in (2, 3, 4) for L in (2, 3)]


def shown(instance: dict[str, Any]) -> str:
    """An instance in one line."""
    return ", ".join(f"{name} = {numbers(field)}" for name, field in instance.items())


def numbers(x: Any) -> str:
    """Arrays and numbers as Python writes lists of them, to nine digits."""
    x = x.tolist() if hasattr(x, "tolist") else x
    return f"[{', '.join(map(numbers, x))}]" if isinstance(x, list) else str(x) if isinstance(x, bool) else f"{x:.9g}"


def met(k: int = 1, **fields: Any) -> tuple[dict[str, Any], int]:
    return {name: np.array(field, np.int64 if name == "edges" else np.float64) for name, field in fields.items()}, k


PATH = [[0, -np.inf, 1, -np.inf], [-np.inf, 0, -np.inf, 1], [-np.inf, -np.inf, 0, -np.inf]]  # the one tree: 1, 2, 3
MET = {  # by structure, method and kind: instances that random draws would rarely give; they come first
    ("Chain", "best", LARGE): met(unary=[[-1e10, -1e10], [0, 0]], pairwise=[[0, 0], [0, 0]]),
    ("Chain", "log_partition", LARGE): met(unary=[[-1e10, -1e10], [0, 0]], pairwise=[[0, 0], [0, 0]]),
    ("Arborescence", "best", FORBIDDEN): met(values=PATH),
    ("Arborescence", "topk", FORBIDDEN): met(values=PATH),
    ("Arborescence", "topk", MORE): met(
        values=[[-np.inf, -np.inf, 0, 1], [0, -np.inf, -np.inf, 3], [0, 0, -np.inf, -np.inf]]
    ),
    ("Cut", "best", "ordinary"): met(
        unary=[[2.5, 0], [0, 0], [0, 2.7]],
        pairwise=[[[0, a], [b, 0]] for a, b in ((-1.7, -0.1), (-1.1, -2.2), (-1.9, -1.6), (-3, 0), (-1.3, -2.4))],
        edges=[[1, 2], [0, 2], [1, 0], [2, 1], [0, 1]],
    ),
}
