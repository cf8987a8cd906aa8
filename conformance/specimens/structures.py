"""Every structure: its instances, its outputs by enumeration, what it refuses, and the order of its ties."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import reference as sp
from conformance.namespaces import HOST, Space
from conformance.specimens import Specimen, Wrong, scores
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
        return getattr(backend, kind)(*space.put_fields(instance), **options)

    def enumerated(instance: Any) -> Listing:
        return listing(kind, {**instance._asdict(), **options})

    def ask(oracle: str, value: Any) -> Callable[[Any], Any]:
        zero = next(iter(given["large"].values()))(np.zeros)
        return lambda backend: getattr(make(backend, zero), oracle)(value)

    wrong = [Wrong(ask("topk", k), f"k: expected an integer >= 1, got {k}") for k in (0, -1, True)]
    wrong += [Wrong(ask("topk", k), f"k: expected an integer >= 1, got {k!r}", TypeError) for k in (2.0, "2", None)]
    if "expectation" in promises:
        wrong += [Wrong(ask("expectation", mu), "mu: expected") for mu in (0.0, -1.0, np.nan, np.inf)]
    return StructureSpecimen(
        name=name or kind,
        draw=draw,
        make=make,
        enumerate=enumerated,
        kind=kind,
        promises=frozenset(promises.split()),
        **{**given, "wrong": (*given["wrong"], *wrong)},
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


z = np.zeros
PARENTS = {
    shape: scores.random_parents(np.random.default_rng(0), 30, shape) for shape in ("tree", "path", "star", "forest")
}
PAIRS = np.stack([np.arange(20), np.arange(1, 21)], axis=1)
PATH, RING, CROSS = [[0, 1], [1, 2]], [[0, 1], [1, 2], [2, 3], [3, 0]], [[0, 1], [2, 1], [1, 3]]
NAN, INF = np.full((1, 2), np.nan), np.full((1, 2, 2), np.inf)


def _refused(kind: str, *cases: tuple[Any, ...]) -> tuple[Wrong, ...]:
    """Arguments of the constructor, the message and perhaps the error."""
    return tuple(
        Wrong(lambda b, arguments=arguments: getattr(b, kind)(*arguments), *rest) for arguments, *rest in cases
    )


def _no_outputs(kind: str, arguments: tuple[Any, ...], *cases: tuple[Any, ...]) -> tuple[Wrong, ...]:
    """What is no output of the structure of these arguments, the message and perhaps the error."""
    return tuple(
        Wrong(lambda b, ask=ask, y=y: getattr(getattr(b, kind)(*arguments), ask)(y), *rest)
        for y, *rest in cases
        for ask in ("score", "parts")
    )


NO_ARBORESCENCES = (
    *_refused(
        "Arborescence",
        *(((z(shape),), r"values: expected shape \(n, n \+ 1\), got \(") for shape in ((3, 3), (4,), (1, 2, 3))),
        *(((x,), "values: expected finite scores, or -inf for a forbidden part") for x in (NAN, INF[0, :1])),
        ((z((2, 3)), "yes"), "single_root: expected True or False, got 'yes'", TypeError),
    ),
    *_no_outputs(
        "Arborescence",
        (z((3, 4)),),
        ([0, 1], r"y: expected a head for each of 3 tokens, got shape \(2,\)"),
        ([0.0, 1.0, 1.0], "y: expected integers", TypeError),
        *((y, r"y: expected heads in 0..3, got \[") for y in ([0, 4, 1], [-1, 0, 1])),
        ([2, 1, 0], r"y: expected a tree, got the cycle of tokens \[1, 2\] in \[2, 1, 0\]"),
        ([0, 1, 3], r"y: expected a tree, got the cycle of tokens \[3\]"),
    ),
)
SEVERAL_ROOTS = _no_outputs(
    "Arborescence", (z((3, 4)), True), ([0, 0, 1], r"y: expected a single token of head 0, got \[0, 0, 1\]")
)
BOX_LOSS = sp.BoxScores(z((4, 4)), np.array(1.0), np.array([1, 0, 3, 2]))


def _loss_refused(message: str, **given: Any) -> Wrong:
    """A loss that is not one of boxes."""
    return Wrong(lambda b: b.Boxes(z((4, 4))).augment(BOX_LOSS._replace(**given)), message)


STRUCTURES: list[StructureSpecimen] = [
    _specimen(
        "Table",
        scores.listed,
        promises="batches expectation ranked",
        functions=("argmax", "softmax"),
        small={"Table": lambda draw: sp.TableScores(draw((6,)))},
        large={"Table": lambda draw: sp.TableScores(draw((3, 200)))},
        first=lambda instance, y: y,
        wrong=(
            *_refused(
                "Table",
                ((z((2, 0)),), r"values: expected shape \(..., m\)"),
                (([0.0, np.nan],), "values: .* got nan"),
            ),
            *_no_outputs("Table", ([0.0],), ([0, 0], "y: expected outputs of shape")),
        ),
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
        wrong=(
            *_refused(
                "Chain",
                ((z((2, 26)), z((26, 25))), r"pairwise: expected shape \(26, 26\) or \(1, 26, 26\), got \(26, 25\)"),
                ((z(3), z((3, 3))), r"unary: expected shape \(..., n, L\)"),
                ((z((2, 0)), z((0, 0))), r"unary: expected .* L >= 1"),
                ((NAN, z((2, 2))), r"unary: .* got nan at index \(0, 0\)"),
                ((z((1, 2)), [[0.0, np.inf], [0.0, 0.0]]), r"pairwise: .* got inf at index \(0, 1\)"),
                ((z((3, 4, 2)), z((2, 2)), [1, 2]), r"lengths: expected shape \(3,\), got \(2,\)"),
                ((z((2, 4, 2)), z((2, 2)), [1, 5]), r"lengths: expected 0..4, got 1..5"),
                (([[0.0], [1.0, 2.0]], z((1, 1))), r"unary: expected a rectangular array"),
                ((z((2, 2), np.float16), z((2, 2))), "unary: .*float16", TypeError),
                ((z((2, 2)), z((2, 2), complex)), "pairwise: .*complex128", TypeError),
                ((z((1, 2, 2)), z((2, 2)), [1.5]), "lengths: expected integers, got float64", TypeError),
            ),
            *_no_outputs("Chain", (z((2, 2)), z((2, 2))), ([0, 0, 0], r"y: .* of shape \(2,\), got \(3,\)")),
        ),
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
        wrong=(
            *_refused(
                "Tree",
                ((z((2, 4)), z((4, 3)), [-1, 0]), r"pairwise: .* \(4, 4\) or \(2, 4, 4\), got \(4, 3\)"),
                ((z(3), z((3, 3)), [-1]), r"unary: expected shape \(..., p, L\)"),
                ((z((2, 0)), z((0, 0)), [-1, 0]), r"unary: expected .* L >= 1"),
                ((NAN, z((2, 2)), [-1]), r"unary: .* got nan at index \(0, 0\)"),
                ((z((1, 2)), [[0.0, np.inf], [0.0, 0.0]], [-1]), r"pairwise: .* got inf at index \(0, 1\)"),
                ((z((3, 2)), z((2, 2)), [-1, 0]), r"parents: expected shape \(3,\), one for each node, got \(2,\)"),
                ((z((3, 2)), z((2, 2)), [-1, 0, 3]), r"parents: expected -1..2, got -1..3"),
                ((z((3, 2)), z((2, 2)), [-1, 2, 1]), r"parents: .* cycle: node 1 has no root above it"),
                ((z((2, 2)), z((2, 2)), [0, -1]), r"parents: .* cycle: node 0"),
                ((z((2, 2)), z((2, 2)), [-1, 0], [0, 2]), r"counts: expected 1..2, got 0..2"),
                ((z((2, 2)), z((2, 2)), [-1, 0], [1]), r"counts: expected shape \(2,\)"),
                ((z((1, 2)), z((2, 2)), [-1.0]), "parents: expected integers, got float64", TypeError),
            ),
            *_no_outputs("Tree", (z((2, 2)), z((2, 2)), [-1, 0]), ([0, 0, 0], r"y: .* of shape \(2,\), got \(3,\)")),
            *_no_outputs(
                "Tree",
                (z((2, 3, 3)), z((3, 3)), [-1, 0, 0], [3, 2, 3]),
                ([[0, 0, 0], [0, 2, 0]], r"y: expected labels in 0..1 at node 1, got 2 at \(1, 1\)"),
                ([[0, 0, -1], [0, 1, 0]], r"y: expected labels in 0..2 at node 2, got -1 at \(0, 2\)"),
            ),
        ),
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
            "Graph, grid": lambda draw: sp.GraphScores(draw((16, 3)), draw((24, 3, 3)), scores.grid_edges(4)),
            "Graph, counts": lambda draw: sp.GraphScores(
                draw((16, 3)), draw((24, 3, 3)), scores.grid_edges(4)[:, ::-1], 1 + np.arange(16) % 3
            ),
        },
        ends=lambda instance: (instance.edges, np.arange(len(instance.edges))),
        first=_clique_by_clique,
        wrong=(
            *_refused(
                "Graph",
                ((z((3, 0)), z((2, 2, 2)), PATH), r"unary: expected shape \(p, L\)"),
                ((z((3, 2)), z((1, 2, 2)), PATH), r"pairwise: expected shape \(2, 2, 2\), got \(1, 2, 2\)"),
                ((z((3, 2)), z((2, 2, 2)), [[0, 1, 2]]), r"edges: expected shape \(e, 2\)"),
                ((z((3, 2)), z((2, 2, 2)), [[0, 1], [1, 3]]), r"edges: expected variables in 0\.\.2, got 0\.\.3"),
                ((z((3, 2)), z((2, 2, 2)), [[0, 1], [2, 2]]), "edges: edge 1 joins variable 2 to itself"),
                ((z((3, 2)), z((2, 2, 2)), PATH, [1, 2]), r"counts: expected shape \(3,\)"),
                ((z((3, 2)), z((2, 2, 2)), PATH, [1, 2, 3]), r"counts: expected 1\.\.2, got 1\.\.3"),
                ((NAN, z((0, 2, 2)), []), "unary: .* got nan"),
                ((z((2, 2)), INF, [[0, 1]]), "pairwise: .* got inf"),
                ((z((3, 2)), z((2, 2, 2)), PATH, None, 0), "max_table: expected an integer >= 1"),
            ),
            *_no_outputs("Graph", (z((2, 2)), z((1, 2, 2)), [[0, 1]]), ([0], r"y: expected labels of shape \(2,\)")),
        ),
    ),
    _specimen(
        "Cut",
        scores.cuts,
        small={"Cut": lambda draw: scores.alike(draw, RING), "Cut, tree": lambda draw: scores.alike(draw, CROSS)},
        large={"Cut": lambda draw: scores.alike(draw, scores.grid_edges(4), 16)},
        first=lambda instance, y: y,  # the fewest ones: the best labellings have a meet
        wrong=(
            *_refused(
                "Cut",
                ((z((2, 3)), z((0, 2, 2)), []), r"unary: expected shape \(p, 2\), got \(2, 3\)"),
                ((z((2, 2)), z((2, 2)), [[0, 1]]), r"pairwise: expected shape \(1, 2, 2\), got \(2, 2\)"),
                ((z((2, 2)), z((1, 2, 2)), [[0, 2]]), r"edges: expected variables in 0..1, got 0..2"),
                ((z((2, 2)), z((1, 2, 2)), [[-1, 1]]), r"edges: expected variables in 0..1, got -1..1"),
                ((z((2, 2)), z((1, 2, 2)), [[1, 1]]), r"edges: edge 0 joins variable 1 to itself"),
                ((z((2, 2)), z((1, 2, 2)), [0, 1]), r"edges: expected shape \(e, 2\), got \(2,\)"),
                ((NAN, z((0, 2, 2)), []), "unary: .* got nan"),
                ((z((2, 2)), INF, [[0, 1]]), "pairwise: .* got inf"),
                ((z((2, 2)), z((1, 2, 2)), [[0.0, 1.0]]), "edges: expected integers, got float64", TypeError),
                (
                    (z((3, 2)), [z((2, 2)), [[0, 2], [0, 0]]], PATH),
                    r"pairwise: .* edge 1 \(1, 2\), 0 \+ 0 falls short of 2 \+ 0 by 2",
                ),
                (
                    (z((2, 2)), [[[0.0, 0.0], [0.0, -np.inf]]], [[0, 1]]),
                    r"edge 0 \(0, 1\) forbids the pair of labels \(1, 1\)",
                ),
            ),
            *_no_outputs(
                "Cut",
                (z((2, 2)), z((1, 2, 2)), [[0, 1]]),
                *((y, "y: expected 2 labels of 0 or 1") for y in ([0, 2], [0, -1], [0, 1, 1])),
            ),
            Wrong(lambda b: b.Cut(z((2, 2)), z((1, 2, 2)), [[0, 1]]).score([-1, -1]), "y: expected 2 labels of 0 or 1"),
        ),
    ),
    _specimen(
        "Matching",
        scores.matchings,
        functions=("assignment",),
        small={
            "Matching": lambda draw: sp.MatchingScores(draw((3, 3))),
            "Matching, wide": lambda draw: sp.MatchingScores(draw((2, 4))),
            "Matching, tall": lambda draw: sp.MatchingScores(draw((4, 2))),
        },
        large={
            f"Matching, {p} x {q}": lambda draw, p=p, q=q: sp.MatchingScores(draw((p, q)))
            for p, q in ((9, 9), (6, 11), (11, 6))
        },
        wrong=(
            *_refused(
                "Matching",
                ((z(3),), r"values: expected shape \(p, q\), got \(3,\)"),
                *(((x,), "values: expected finite scores, or -inf for a forbidden part") for x in (NAN, INF[0])),
            ),
            *_no_outputs(
                "Matching",
                (z((2, 3)),),
                ([0, 1, 2], r"y: expected a column for each of 2 rows, got shape \(3,\)"),
                ([0.0, 1.0], "y: expected integers", TypeError),
                *((y, r"y: expected columns in 0..2, or -1 for none, got \[") for y in ([0, 3], [-2, 0])),
                *((y, r"y: expected 2 pairs, each column once at most, got \[") for y in ([1, 1], [-1, 2])),
            ),
        ),
    ),
    *(
        _specimen(
            "Arborescence",
            scores.dependencies,
            name=name,
            functions=("maximum_arborescence", "tree_partition"),
            promises="expectation",
            options=options,
            small={name: lambda draw: sp.ArborescenceScores(draw((3, 4)))},
            large={name: lambda draw: sp.ArborescenceScores(draw((9, 10)))},
            wrong=wrong,
        )
        for name, options, wrong in (
            ("Arborescence", {}, NO_ARBORESCENCES),
            ("Arborescence, one root", {"single_root": True}, SEVERAL_ROOTS),
        )
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
        wrong=(
            *_refused(
                "Boxes",
                (([1.0, 2.0],), r"pixels: expected shape \(H, W\) with H, W >= 1, got \(2,\)"),
                ((z((0, 3)),), r"pixels: expected shape \(H, W\)"),
                *(((x,), "pixels: expected finite scores") for x in (NAN, INF[0])),
                (([[1.0]], 1.0), "truth: expected a box, as loss is not 0"),
                (([[1.0]], np.nan, [0, 0, 1, 1]), "loss: expected a finite number, got nan"),
                (([[1.0]], 1.0, [0, 0, 1, 2]), r"truth: .* within an image of 1 x 1 pixels"),
                (([[1.0]], 1.0, [0, 0, 0, 1]), r"truth: .* top < bottom and left < right"),
                (([[1.0]], 1.0, [0.0, 0, 1, 1]), "truth: expected integers, pixels, got float64", TypeError),
            ),
            *_no_outputs(
                "Boxes",
                ([[1.0]],),
                ([0, 0, 2, 1], "y: expected boxes within an image"),
                ([0, 0, 1], r"y: expected boxes .* of shape \(4,\), got \(3,\)"),
            ),
            _loss_refused("loss: expected a finite number", loss=np.array(-np.inf)),
            _loss_refused("truth: expected a box, as loss is not 0", truth=None),
            *(_loss_refused("truth: ", truth=np.array(box)) for box in ([0, 0, 5, 5], [1, 1, 1, 1])),
            Wrong(
                lambda b: b.Boxes(z((4, 4)), 1.0, [1, 0, 3, 2]).augment(
                    BOX_LOSS._replace(truth=np.array([0, 0, 1, 1]))
                ),
                r"loss: expected the truth \[1, 0, 3, 2\], got \[0, 0, 1, 1\]",
            ),
            Wrong(lambda b: b.Boxes([[1.0]]).among(np.zeros((0, 4), np.int64)), r"boxes: expected shape \(m, 4\)"),
        ),
    ),
]
LARGE = {name: (specimen, make) for specimen in STRUCTURES for name, make in specimen.large.items()}
SMALL = {name: (specimen, make) for specimen in STRUCTURES for name, make in specimen.small.items()}
