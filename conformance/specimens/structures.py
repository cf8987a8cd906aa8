"""Every structure: its instances, its outputs by enumeration, and the order of its ties (``wrong_structures.txt``: what
each refuses).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import reference as sp
from conformance.namespaces import HOST, Space
from conformance.specimens import Specimen, scores
from conformance.specimens.outputs import Listing, listing
from conformance.specimens.scores import chains
from reference.structures.clique_tree import clique_tree

__all__ = ["LARGE", "PARENTS", "SMALL", "STRUCTURES", "StructureSpecimen", "chains"]


@dataclass(frozen=True, repr=False)
class StructureSpecimen(Specimen):
    """A structure: class ``kind``, made of an instance and ``options``.

    ``small`` and ``large``: instances within and beyond enumeration, of scores that a function of their shape draws.
    ``ends(instance)``: the two variables (e, 2) that each matrix of pairwise scores joins, and which matrices (e,) do.
    The promise "consistent": marginals of pairs sum to those of variables at any scale of the scores; "order": the
    panels give tied outputs in the same order; "bits": and scores of the same bits; "ranked": ``first`` orders the
    ties of the K best as well.
    ``functions``: those of the max and of the exp oracle, which return -inf where the methods raise.
    ``first``: of tied outputs the best is the one with the smallest key ``first(instance, y)``, or None if the
    structure does not say.
    """

    kind: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    small: dict[str, Callable[..., Any]] = field(default_factory=dict)
    large: dict[str, Callable[..., Any]] = field(default_factory=dict)
    ends: Callable[[Any], tuple[np.ndarray, np.ndarray]] | None = None
    functions: tuple[str, ...] = ()
    first: Callable[[Any, Any], Any] | None = None


def _specimen(kind: str, draw: Callable[..., Any], name: str = "", promises: str = "", **given: Any) -> Any:
    options = given.get("options", {})

    def make(backend: Any, instance: Any, space: Space = HOST) -> Any:
        return getattr(backend, kind)(**dict(zip(instance._fields, space.put_fields(instance), strict=True)), **options)

    def enumerated(instance: Any) -> Listing:
        return listing(kind, {**instance._asdict(), **options})

    return StructureSpecimen(
        name=name or kind,
        draw=draw,
        make=make,
        enumerate=enumerated,
        kind=kind,
        promises=frozenset(promises.split()),
        **given,
    )


def _downward(instance: sp.TreeScores, y: Any) -> list[int]:
    """The labels of the nodes, parents first."""

    def depth(v: int) -> int:
        u = int(instance.parents[v])
        return 0 if u < 0 else 1 + depth(u)

    return [y[v] for v in sorted(range(len(y)), key=lambda v: (depth(v), v))]


def _clique_by_clique(instance: sp.GraphScores, y: Any) -> list[int]:
    """The labels in the order in which cliques, from the root down, come to the variables."""
    cliques = clique_tree(len(instance.unary), tuple(map(tuple, instance.edges.tolist()))).cliques
    return [y[v] for v in dict.fromkeys(itertools.chain(*cliques))]


def _below(parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    v = np.flatnonzero(parents >= 0)
    return np.stack([parents[v], v], axis=1), v


PARENTS = {
    shape: scores.random_parents(np.random.default_rng(0), 30, shape) for shape in ("tree", "path", "star", "forest")
}
PAIRS = np.stack([np.arange(20), np.arange(1, 21)], axis=1)
PATH, RING, CROSS = [[0, 1], [1, 2]], [[0, 1], [1, 2], [2, 3], [3, 0]], [[0, 1], [2, 1], [1, 3]]

STRUCTURES: list[StructureSpecimen] = [
    _specimen(
        "Table",
        scores.listed,
        promises="batches expectation ranked",
        functions=("argmax", "softmax"),
        small={"Table": lambda draw: sp.TableScores(draw((6,)))},
        large={"Table": lambda draw: sp.TableScores(draw((3, 200)))},
        first=lambda instance, y: y,
    ),
    _specimen(
        "Chain",
        chains,
        promises="batches expectation consistent order bits ranked",
        functions=("viterbi", "forward_backward"),
        small={
            "Chain": lambda draw: sp.ChainScores(draw((3, 3)), draw((2, 3, 3))),
            "Chain, shared": lambda draw: sp.ChainScores(draw((4, 2)), draw((2, 2))),
        },
        large={
            "Chain": lambda draw: sp.ChainScores(draw((4, 9, 5)), draw((4, 8, 5, 5))),
            "Chain, shared": lambda draw: sp.ChainScores(draw((4, 12, 5)), draw((5, 5)), np.array([12, 0, 1, 7])),
        },
        ends=lambda instance: (PAIRS[: instance.unary.shape[-2] - 1], np.arange(instance.unary.shape[-2] - 1)),
        first=lambda instance, y: y[::-1],
    ),
    _specimen(
        "Tree",
        scores.trees,
        promises="batches expectation consistent order bits",
        functions=("max_product", "sum_product"),
        small={
            "Tree": lambda draw: sp.TreeScores(draw((4, 2)), draw((4, 2, 2)), np.array([1, -1, 1, 1])),
            "Tree, shared": lambda draw: sp.TreeScores(
                draw((4, 3)), draw((3, 3)), np.array([-1, 0, 0, -1]), np.array([3, 2, 3, 1])
            ),
        },
        large={
            f"Tree, {shape}": lambda draw, shape=shape, parents=parents: sp.TreeScores(
                draw((2, 30, 5)), draw((5, 5) if shape == "star" else (2, 30, 5, 5)), parents
            )
            for shape, parents in PARENTS.items()
        },
        ends=lambda instance: _below(instance.parents),
        first=_downward,
    ),
    _specimen(
        "Graph",
        scores.graphs,
        promises="expectation",
        small={
            "Graph, ring": lambda draw: sp.GraphScores(draw((4, 2)), draw((4, 2, 2)), np.array(RING)),
            "Graph, counts": lambda draw: sp.GraphScores(
                draw((3, 3)), draw((2, 3, 3)), np.array(PATH), np.array([3, 1, 2])
            ),
        },
        large={
            "Graph, grid": lambda draw: sp.GraphScores(draw((16, 3)), draw((24, 3, 3)), sp.grid_edges(4, 4)),
            "Graph, counts": lambda draw: sp.GraphScores(
                draw((16, 3)), draw((24, 3, 3)), sp.grid_edges(4, 4)[:, ::-1], 1 + np.arange(16) % 3
            ),
        },
        ends=lambda instance: (instance.edges, np.arange(len(instance.edges))),
        first=_clique_by_clique,
    ),
    _specimen(
        "Cut",
        scores.cuts,
        small={"Cut": lambda draw: scores.alike(draw, RING), "Cut, tree": lambda draw: scores.alike(draw, CROSS)},
        large={"Cut": lambda draw: scores.alike(draw, sp.grid_edges(4, 4), 16)},
        first=lambda instance, y: y,  # the fewest ones: the best labellings have a meet
    ),
    _specimen(
        "Matching",
        scores.matchings,
        promises="batches",
        functions=("assignment",),
        small={
            "Matching": lambda draw: sp.MatchingScores(draw((3, 3))),
            "Matching, wide": lambda draw: sp.MatchingScores(draw((2, 4))),
            "Matching, tall": lambda draw: sp.MatchingScores(draw((4, 2))),
        },
        large={
            f"Matching, {' x '.join(map(str, shape))}": lambda draw, shape=shape: sp.MatchingScores(draw(shape))
            for shape in ((9, 9), (6, 11), (11, 6), (2, 5, 4))
        },
    ),
    *(
        _specimen(
            kind,
            scores.dependencies,
            name=name,
            functions=("maximum_arborescence", "tree_partition"),
            promises="batches expectation" + " order" * (kind == "Projective"),
            options=options,
            small={name: lambda draw: sp.ArborescenceScores(draw((3, 4)))},
            large={
                name: lambda draw: sp.ArborescenceScores(draw((9, 10))),
                f"{name}, batch": lambda draw: sp.ArborescenceScores(draw((2, 5, 6))),
            },
        )
        for kind in ("Arborescence", "Projective")
        for name, options in ((kind, {}), (f"{kind}, one root", {"single_root": True}))
    ),
    _specimen(
        "Segments",
        scores.segments,
        promises="batches expectation order bits ranked",
        functions=("best_segments", "segment_sums"),
        small={"Segments": lambda draw: sp.SegmentScores(draw((3, 2, 2)), draw((2, 2)))},
        large={
            "Segments": lambda draw: sp.SegmentScores(draw((4, 12, 5, 3)), draw((3, 3)), np.array([12, 0, 1, 7])),
            "Segments, one": lambda draw: sp.SegmentScores(draw((9, 3, 4)), draw((4, 4))),
        },
        first=lambda instance, y: [(label, w) for _, w, label in reversed(y) if label >= 0],
    ),
    _specimen(
        "Boxes",
        scores.boxes,
        promises="order",
        small={"Boxes": lambda draw: sp.BoxScores(draw((2, 3)), np.array(draw(())), np.array([0, 1, 2, 3]))},
        large={
            "Boxes": lambda draw: sp.BoxScores(draw((7, 8)), np.array(0.0), None),
            "Boxes, loss": lambda draw: sp.BoxScores(draw((6, 7)), 3 * np.abs(draw(())), np.array([1, 2, 3, 4])),
        },
    ),
]
LARGE = {name: (specimen, make) for specimen in STRUCTURES for name, make in specimen.large.items()}
SMALL = {name: (specimen, make) for specimen in STRUCTURES for name, make in specimen.small.items()}
