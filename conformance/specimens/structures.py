"""Every structure: drawn instances, its outputs by enumeration, what it refuses, and the order of its ties.

An instance is the structure's scores on the host, as float64 (``ChainScores``, ``TreeScores``, ...).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from conformance.namespaces import HOST, Space
from conformance.specimens import Specimen, Wrong
from conformance.specimens.outputs import Listing, listing
from conformance.strategies import arrays, forests, tables
from reference import (
    ArborescenceScores,
    BoxScores,
    ChainScores,
    CutScores,
    GraphScores,
    MatchingScores,
    TableScores,
    TreeScores,
)
from reference.structures.clique_tree import clique_tree

__all__ = ["LARGE", "SMALL", "STRUCTURES", "StructureSpecimen", "alike", "members", "size", "stored"]


# instances -----------------------------------------------------------------------------------------------------------


@st.composite
def listed(draw: Any, forbidden: bool = True, batched: bool = True) -> TableScores:
    """Few outputs, or batches of them."""
    values = draw(tables(forbidden))
    return TableScores(values if batched else values.reshape(-1, values.shape[-1])[0])


@st.composite
def chains(draw: Any, forbidden: bool = True, batched: bool = True) -> ChainScores:
    """Up to 4 positions and 3 labels; batches with and without lengths; pairwise scores shared or not."""
    n, L = draw(st.integers(0, 4)), draw(st.integers(1, 3))
    batch = draw(st.sampled_from([(), (1,), (3,), (2, 2)])) if batched else ()
    unary = draw(arrays((*batch, n, L), forbidden))
    shared = draw(st.booleans())
    pairwise = draw(arrays((L, L) if shared else (*batch, max(n - 1, 0), L, L), forbidden))
    lengths = None
    if batch and draw(st.booleans()):
        number = int(np.prod(batch))
        lengths = np.array(draw(st.lists(st.integers(0, n), min_size=number, max_size=number)), np.int64).reshape(batch)
    return ChainScores(unary, pairwise, lengths)


def counts(draw: Any, p: int, L: int) -> np.ndarray | None:
    """How many states each variable has, or None."""
    drawn = np.array(draw(st.lists(st.integers(1, L), min_size=p, max_size=p)), np.int64)
    return drawn if draw(st.booleans()) else None


@st.composite
def trees(draw: Any, forbidden: bool = True, batched: bool = True) -> TreeScores:
    """Forests of up to 5 nodes, or batches of them; fewer labels here and there."""
    p, L = draw(st.integers(0, 5)), draw(st.integers(1, 3))
    batch = draw(st.sampled_from([(), (1,), (3,), (2, 2)])) if batched else ()
    unary = draw(arrays((*batch, p, L), forbidden))
    pairwise = draw(arrays((L, L) if draw(st.booleans()) else (*batch, p, L, L), forbidden))
    return TreeScores(unary, pairwise, draw(forests(p)), counts(draw, p, L))


@st.composite
def graphs(draw: Any, forbidden: bool = True, batched: bool = True) -> GraphScores:
    """Up to 5 variables: none, no edges, disconnected, edges twice and in either order, fewer states here and there."""
    p, L = draw(st.integers(0, 5)), draw(st.integers(1, 3))
    pairs = [(a, b) for a in range(p) for b in range(p) if a != b]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=8)) if pairs else []
    unary, pairwise = draw(arrays((p, L), forbidden)), draw(arrays((len(edges), L, L), forbidden))
    return GraphScores(unary, pairwise, np.array(edges, np.int64).reshape(-1, 2), counts(draw, p, L))


@st.composite
def cuts(
    draw: Any, forbidden: bool = True, batched: bool = True, integer: bool = False, huge: bool = True
) -> CutScores:
    """Up to 5 binary variables and 7 edges, repeated ones too; scales mixed within an instance, forbidden labels and
    pairs.
    """
    p = draw(st.integers(0, 5))
    pairs = [(a, b) for a in range(p) for b in range(p) if a != b]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=7)) if pairs else []
    e = len(edges)
    unary, pairwise = draw(arrays((p, 2), forbidden=False)), draw(arrays((e, 2, 2), forbidden=False))
    if integer:
        unary, pairwise = np.round(np.clip(unary, -3, 3)), np.round(np.clip(pairwise, -3, 3))
    elif draw(st.booleans()):
        powers = [-6.0, 0.0, 6.0] + ([300.0] if huge else [])
        unary = unary * 10.0 ** np.array(draw(st.lists(st.sampled_from(powers), min_size=p, max_size=p))).reshape(p, 1)
        pairwise = pairwise * 10.0 ** draw(st.sampled_from(powers))
        unary, pairwise = np.clip(unary, -1e300, 1e300), np.clip(pairwise, -1e300, 1e300)
    pairwise[:, 0, 0] = np.maximum(pairwise[:, 0, 0], pairwise[:, 0, 1] + pairwise[:, 1, 0] - pairwise[:, 1, 1])
    if forbidden and draw(st.booleans()):
        bans = np.array(draw(st.lists(st.integers(0, 4), min_size=2 * p + 2 * e, max_size=2 * p + 2 * e))) == 0
        unary[bans[: 2 * p].reshape(p, 2)] = -np.inf
        pairwise[:, [0, 1], [1, 0]] = np.where(bans[2 * p :].reshape(e, 2), -np.inf, pairwise[:, [0, 1], [1, 0]])
    return CutScores(unary, pairwise, np.array(edges, np.int64).reshape(e, 2))


@st.composite
def matchings(draw: Any, forbidden: bool = True, batched: bool = True) -> MatchingScores:
    """Up to 4 rows and columns, either may be none; some scores are far from 0."""
    values = draw(arrays((draw(st.integers(0, 4)), draw(st.integers(0, 4))), forbidden))
    return MatchingScores(values + draw(st.sampled_from([0.0, 0.0, 0.0, 1e6])))


@st.composite
def dependencies(
    draw: Any, forbidden: bool = True, batched: bool = True, largest: int = 4, scales: Any = (1.0, 1.0, 30.0)
) -> ArborescenceScores:
    """The heads of up to ``largest`` tokens, some scores hundreds of thousands apart."""
    n = draw(st.integers(0, largest))
    values = draw(arrays((n, n + 1), forbidden))
    return ArborescenceScores(values * draw(st.sampled_from(scales)))


PIXELS: dict[str, Callable[..., np.ndarray]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "ties": lambda rng, shape: rng.integers(-2, 3, shape).astype(np.float64),
    "zeros": lambda rng, shape: np.where(rng.random(shape) < 0.5, 0.0, -0.0),
    "negative": lambda rng, shape: -rng.random(shape) - 0.1,
    "positive": lambda rng, shape: rng.random(shape),
    "planted": lambda rng, shape: np.where(
        (np.arange(shape[0])[:, None] >= shape[0] // 2) & (np.arange(shape[1]) >= shape[1] // 3), 1.0, -1.0
    ),
}


@st.composite
def boxes(draw: Any, forbidden: bool = True, batched: bool = True, scales: Any = (1.0,), largest: int = 4) -> BoxScores:
    """Images of up to ``largest`` by ``largest`` pixels, with a true box and the weight of its loss, or without."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    H, W = (draw(st.integers(1, largest)) for _ in range(2))
    scale = draw(st.sampled_from(scales))
    pixels = scale * PIXELS[draw(st.sampled_from(list(PIXELS)))](rng, (H, W))
    if forbidden and draw(st.booleans()):
        pixels[rng.random((H, W)) < draw(st.sampled_from([0.1, 0.5, 1.0]))] = -np.inf
    if draw(st.booleans()):
        return BoxScores(pixels, np.array(0.0), None)
    top, left = rng.integers(0, H), rng.integers(0, W)
    truth = np.array([top, left, rng.integers(top + 1, H + 1), rng.integers(left + 1, W + 1)])
    return BoxScores(pixels, np.array(draw(st.sampled_from([0.0, 1.0, 0.3, 100.0, -1.0])) * scale), truth)


# what is done with an instance ---------------------------------------------------------------------------------------


def stored(space: Space, instance: Any) -> Any:
    """The instance as the space's dtype stores its scores, in float64: what enumeration is run on."""
    layout = getattr(instance, "layout", ())
    return type(instance)(
        *(
            x if name in layout else np.asarray(x, space.dtype).astype(np.float64)
            for name, x in zip(instance._fields, instance, strict=True)
        )
    )


def size(instance: Any) -> float:
    """The sum of the finite magnitudes of an instance's scores: what rounding is relative to."""
    fields = [x for x in instance if x is not None and np.asarray(x).dtype.kind == "f"]
    return float(sum(np.abs(x[np.isfinite(x)]).sum() for x in fields))


def members(instance: Any) -> list[Any]:
    """Each chain (cut to its length), tree or table of a batch alone; a single instance itself."""
    if isinstance(instance, TableScores):
        return [TableScores(row) for row in instance.values.reshape(-1, instance.values.shape[-1])]
    if not isinstance(instance, ChainScores | TreeScores):
        return [instance]
    *batch, n, L = instance.unary.shape
    number, each = int(np.prod(batch)), instance.pairwise.shape[-3:]
    unary = instance.unary.reshape(number, n, L)
    own = [instance.pairwise] * number if instance.pairwise.ndim == 2 else instance.pairwise.reshape(number, *each)
    if isinstance(instance, TreeScores):
        return [instance._replace(unary=u, pairwise=w) for u, w in zip(unary, own, strict=True)]
    lengths = np.full(number, n) if instance.lengths is None else instance.lengths.reshape(-1)
    return [
        ChainScores(u[:m], w if w.ndim == 2 else w[: max(m - 1, 0)])
        for u, w, m in zip(unary, own, lengths, strict=True)
    ]


def alike(shape: Callable[..., np.ndarray], edges: Any, p: int = 4) -> CutScores:
    """A cut whose neighbours prefer equal labels: supermodular with room to spare, or modular where scores are 0."""
    different = -np.abs(shape((len(edges), 2)))
    pairwise = np.zeros((len(edges), 2, 2))
    pairwise[:, 0, 1], pairwise[:, 1, 0] = different.T
    return CutScores(shape((p, 2)), pairwise, np.array(edges))


# the catalogue -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class StructureSpecimen(Specimen):
    """A structure: class ``kind``, made of an instance and ``options``.

    ``small`` and ``large``: instances within and beyond enumeration, of scores that a function of their shape draws.
    ``ends(instance)``: the two variables (e, 2) that each matrix of pairwise scores joins, and which matrices (e,) do.
    The promise "consistent": marginals of pairs sum to those of variables at any scale of the scores; "order": the
    panels give tied outputs in the same order; "bits": and scores of the same bits.
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


def _downward(instance: TreeScores, y: Any) -> list[int]:
    """The labels of the nodes, parents first."""

    def depth(v: int) -> int:
        u = int(instance.parents[v])
        return 0 if u < 0 else 1 + depth(u)

    return [y[v] for v in sorted(range(len(y)), key=lambda v: (depth(v), v))]


def _clique_by_clique(instance: GraphScores, y: Any) -> list[int]:
    """The labels in the order in which cliques, from the root down, come to the variables."""
    cliques = clique_tree(len(instance.unary), tuple(map(tuple, instance.edges.tolist()))).cliques
    return [y[v] for v in dict.fromkeys(itertools.chain(*cliques))]


def _neighbours(instance: ChainScores) -> tuple[np.ndarray, np.ndarray]:
    t = np.arange(instance.unary.shape[-2] - 1)
    return np.stack([t, t + 1], axis=1), t


def _below(parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    v = np.flatnonzero(parents >= 0)
    return np.stack([parents[v], v], axis=1), v


def random_parents(rng: np.random.Generator, p: int, shape: str) -> np.ndarray:
    """Parents (p,) of a random tree, a path or a star, nodes in random order; a forest of a random tree's pieces."""
    parents, order = np.full(p, -1), rng.permutation(p)
    for i in range(1, p):
        above = {"tree": rng.integers(i), "forest": rng.integers(i), "path": i - 1, "star": 0}[shape]
        if shape != "forest" or rng.random() < 0.8:
            parents[order[i]] = order[above]
    return parents


def grid_edges(rows: int) -> np.ndarray:
    """The edges of a square 4-connected grid, variables row by row."""
    at = np.arange(rows * rows).reshape(rows, rows)
    right = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    return np.concatenate([right, np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)])


z = np.zeros
PARENTS = {shape: random_parents(np.random.default_rng(0), 30, shape) for shape in ("tree", "path", "star", "forest")}
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


BOX_LOSS = BoxScores(z((4, 4)), np.array(1.0), np.array([1, 0, 3, 2]))


def _loss_refused(message: str, **given: Any) -> Wrong:
    """A loss that is not one of boxes."""
    return Wrong(lambda b: b.Boxes(z((4, 4))).augment(BOX_LOSS._replace(**given)), message)


STRUCTURES: list[StructureSpecimen] = [
    _specimen(
        "Table",
        listed,
        promises="batches expectation",
        functions=("argmax", "softmax"),
        small={"Table": lambda draw: TableScores(draw((6,)))},
        large={"Table": lambda draw: TableScores(draw((3, 200)))},
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
        promises="batches expectation consistent order bits",
        functions=("viterbi", "forward_backward"),
        small={
            "Chain": lambda draw: ChainScores(draw((3, 3)), draw((2, 3, 3))),
            "Chain, shared": lambda draw: ChainScores(draw((4, 2)), draw((2, 2))),
        },
        large={
            "Chain": lambda draw: ChainScores(draw((4, 9, 5)), draw((4, 8, 5, 5))),
            "Chain, shared": lambda draw: ChainScores(draw((4, 12, 5)), draw((5, 5)), np.array([12, 0, 1, 7])),
        },
        ends=_neighbours,
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
        trees,
        promises="batches expectation consistent order bits",
        functions=("max_product", "sum_product"),
        small={
            "Tree": lambda draw: TreeScores(draw((4, 2)), draw((4, 2, 2)), np.array([1, -1, 1, 1])),
            "Tree, shared": lambda draw: TreeScores(
                draw((4, 3)), draw((3, 3)), np.array([-1, 0, 0, -1]), np.array([3, 2, 3, 1])
            ),
        },
        large={
            f"Tree, {shape}": lambda draw, shape=shape, parents=parents: TreeScores(
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
        graphs,
        promises="expectation",
        small={
            "Graph, ring": lambda draw: GraphScores(draw((4, 2)), draw((4, 2, 2)), np.array(RING)),
            "Graph, counts": lambda draw: GraphScores(
                draw((3, 3)), draw((2, 3, 3)), np.array(PATH), np.array([3, 1, 2])
            ),
        },
        large={
            "Graph, grid": lambda draw: GraphScores(draw((16, 3)), draw((24, 3, 3)), grid_edges(4)),
            "Graph, counts": lambda draw: GraphScores(
                draw((16, 3)), draw((24, 3, 3)), grid_edges(4)[:, ::-1], 1 + np.arange(16) % 3
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
        cuts,
        small={"Cut": lambda draw: alike(draw, RING), "Cut, tree": lambda draw: alike(draw, CROSS)},
        large={"Cut": lambda draw: alike(draw, grid_edges(4), 16)},
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
        matchings,
        functions=("assignment",),
        small={
            "Matching": lambda draw: MatchingScores(draw((3, 3))),
            "Matching, wide": lambda draw: MatchingScores(draw((2, 4))),
            "Matching, tall": lambda draw: MatchingScores(draw((4, 2))),
        },
        large={
            f"Matching, {p} x {q}": lambda draw, p=p, q=q: MatchingScores(draw((p, q)))
            for p, q in ((9, 9), (6, 11), (11, 6))
        },
        wrong=(
            *_refused(
                "Matching",
                ((z(3),), r"values: expected shape \(p, q\), got \(3,\)"),
                ((NAN,), "values: expected finite scores, or -inf for a forbidden part"),
                ((INF[0],), "values: expected finite scores, or -inf for a forbidden part"),
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
    _specimen(
        "Arborescence",
        dependencies,
        functions=("maximum_arborescence", "tree_partition"),
        promises="expectation",
        small={"Arborescence": lambda draw: ArborescenceScores(draw((3, 4)))},
        large={"Arborescence": lambda draw: ArborescenceScores(draw((9, 10)))},
        wrong=(
            *_refused(
                "Arborescence",
                *(
                    ((z(shape),), r"values: expected shape \(n, n \+ 1\), got \(")
                    for shape in ((3, 3), (4,), (1, 2, 3))
                ),
                ((NAN,), "values: expected finite scores, or -inf for a forbidden part"),
                ((INF[0, :1],), "values: expected finite scores, or -inf for a forbidden part"),
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
        ),
    ),
    _specimen(
        "Arborescence",
        dependencies,
        functions=("maximum_arborescence", "tree_partition"),
        name="Arborescence, one root",
        promises="expectation",
        options={"single_root": True},
        small={"Arborescence, one root": lambda draw: ArborescenceScores(draw((3, 4)))},
        large={"Arborescence, one root": lambda draw: ArborescenceScores(draw((9, 10)))},
        wrong=_no_outputs(
            "Arborescence",
            (z((3, 4)), True),
            ([0, 0, 1], r"y: expected a single token of head 0, got \[0, 0, 1\]"),
        ),
    ),
    _specimen(
        "Boxes",
        boxes,
        promises="order",
        small={"Boxes": lambda draw: BoxScores(draw((2, 3)), np.array(draw(())), np.array([0, 1, 2, 3]))},
        large={
            "Boxes": lambda draw: BoxScores(draw((7, 8)), np.array(0.0), None),
            "Boxes, loss": lambda draw: BoxScores(draw((6, 7)), 3 * np.abs(draw(())), np.array([1, 2, 3, 4])),
        },
        wrong=(
            *_refused(
                "Boxes",
                (([1.0, 2.0],), r"pixels: expected shape \(H, W\) with H, W >= 1, got \(2,\)"),
                ((z((0, 3)),), r"pixels: expected shape \(H, W\)"),
                ((NAN,), "pixels: expected finite scores"),
                ((INF[0],), "pixels: expected finite scores"),
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
            _loss_refused("truth: ", truth=np.array([0, 0, 5, 5])),
            _loss_refused("truth: ", truth=np.array([1, 1, 1, 1])),
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
