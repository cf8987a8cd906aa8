"""Drawn scores of every structure, nasty ones included, and what tests do with them.

An instance is the structure's scores on the host, as float64 (``ChainScores``, ``TreeScores``, ...).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

import reference as sp
from conformance.namespaces import Space
from conformance.strategies import arrays, tables

BATCHES = st.sampled_from([(), (1,), (3,), (2, 2), (0,)])


@st.composite
def listed(draw: Any, forbidden: bool = True, batched: bool = True) -> sp.TableScores:
    """Few outputs, or batches of them."""
    values = draw(tables(forbidden))
    return sp.TableScores(values if batched else values.reshape(-1, values.shape[-1])[0])


@st.composite
def chains(draw: Any, forbidden: bool = True, batched: bool = True, longest: int = 0) -> Any:
    """Up to 4 positions and 3 labels, or segments of up to ``longest`` positions; batches with and without lengths;
    pairwise scores shared or not.
    """
    n, W, L = draw(st.integers(0, 4)), [draw(st.integers(1, longest))] if longest else [], draw(st.integers(1, 3))
    batch = draw(BATCHES) if batched else ()
    scores = draw(arrays((*batch, n, *W, L), forbidden))
    pairwise = draw(arrays((L, L) if draw(st.booleans()) else (*batch, max(n - 1, 0), L, L), forbidden))
    return (sp.SegmentScores if W else sp.ChainScores)(scores, pairwise, ragged(draw, batch, n))


segments = partial(chains, longest=5)


def ragged(draw: Any, batch: tuple[int, ...], n: int) -> np.ndarray | None:
    """Lengths of a batch, or None."""
    if not batch or draw(st.booleans()):
        return None
    number = int(np.prod(batch))
    return np.array(draw(st.lists(st.integers(0, n), min_size=number, max_size=number)), np.int64).reshape(batch)


def counts(draw: Any, p: int, L: int) -> np.ndarray | None:
    """How many states each variable has, or None."""
    drawn = np.array(draw(st.lists(st.integers(1, L), min_size=p, max_size=p)), np.int64)
    return drawn if draw(st.booleans()) else None


@st.composite
def trees(draw: Any, forbidden: bool = True, batched: bool = True) -> sp.TreeScores:
    """Forests of up to 5 nodes, or batches of them; fewer labels here and there."""
    p, L = draw(st.integers(0, 5)), draw(st.integers(1, 3))
    batch = draw(BATCHES) if batched else ()
    unary = draw(arrays((*batch, p, L), forbidden))
    pairwise = draw(arrays((L, L) if draw(st.booleans()) else (*batch, p, L, L), forbidden))
    parents = forest(np.random.default_rng(draw(st.integers(0, 2**32 - 1))), p)
    return sp.TreeScores(unary, pairwise, parents, counts(draw, p, L))


@st.composite
def graphs(draw: Any, forbidden: bool = True, batched: bool = True) -> sp.GraphScores:
    """Up to 5 variables: none, no edges, disconnected, edges twice and in either order, fewer states here and there."""
    p, L = draw(st.integers(0, 5)), draw(st.integers(1, 3))
    edges = draw(joined(p, 8))
    unary, pairwise = draw(arrays((p, L), forbidden)), draw(arrays((len(edges), L, L), forbidden))
    return sp.GraphScores(unary, pairwise, edges, counts(draw, p, L))


def joined(p: int, most: int, least: int = 0) -> st.SearchStrategy[np.ndarray]:
    """Edges (e, 2) between p variables in either order, some of them twice."""
    pairs = [(a, b) for a in range(p) for b in range(p) if a != b]
    drawn = st.lists(st.sampled_from(pairs), min_size=least, max_size=most) if pairs else st.just([])
    return drawn.map(lambda edges: np.array(edges, np.int64).reshape(-1, 2))


def supermodular(pairwise: np.ndarray) -> None:
    """Raise the first pair of equal labels of each edge until equal labels are ahead, in place."""
    least = pairwise[:, 0, 1] + pairwise[:, 1, 0] - pairwise[:, 1, 1]
    pairwise[:, 0, 0] = np.maximum(pairwise[:, 0, 0], least)


@st.composite
def cuts(
    draw: Any, forbidden: bool = True, batched: bool = True, integer: bool = False, huge: bool = True
) -> sp.CutScores:
    """Up to 5 binary variables and 7 edges, repeated ones too; scales mixed within an instance, forbidden labels and
    pairs.
    """
    p = draw(st.integers(0, 5))
    edges = draw(joined(p, 7))
    e = len(edges)
    unary, pairwise = draw(arrays((p, 2), forbidden=False)), draw(arrays((e, 2, 2), forbidden=False))
    if integer:
        unary, pairwise = np.round(np.clip(unary, -3, 3)), np.round(np.clip(pairwise, -3, 3))
        # sums stay exact; labels that hardly differ
        unary = unary * draw(st.sampled_from([1.0, 1.0, 2.0**40])) + draw(st.sampled_from([0.0, 0.0, 2.0**47]))
    elif draw(st.booleans()):
        powers = [-6.0, 0.0, 6.0] + ([300.0] if huge else [])
        unary = unary * 10.0 ** np.array(draw(st.lists(st.sampled_from(powers), min_size=p, max_size=p))).reshape(p, 1)
        pairwise = pairwise * 10.0 ** draw(st.sampled_from(powers))
        unary, pairwise = np.clip(unary, -1e300, 1e300), np.clip(pairwise, -1e300, 1e300)
    supermodular(pairwise)
    if forbidden and draw(st.booleans()):
        bans = np.array(draw(st.lists(st.integers(0, 4), min_size=2 * p + 2 * e, max_size=2 * p + 2 * e))) == 0
        unary[bans[: 2 * p].reshape(p, 2)] = -np.inf
        pairwise[:, [0, 1], [1, 0]] = np.where(bans[2 * p :].reshape(e, 2), -np.inf, pairwise[:, [0, 1], [1, 0]])
    return sp.CutScores(unary, pairwise, edges)


@st.composite
def matchings(draw: Any, forbidden: bool = True, batched: bool = True) -> sp.MatchingScores:
    """Up to 4 rows and columns, either may be none, or batches; some scores are far from 0."""
    batch, p, q = draw(BATCHES) if batched else (), draw(st.integers(0, 4)), draw(st.integers(0, 4))
    values = draw(arrays((*batch, p, q), forbidden)) + draw(st.sampled_from([0.0, 0.0, 0.0, 1e6]))
    rows, columns = ragged(draw, batch, p), ragged(draw, batch, q)
    if rows is None or columns is None:
        return sp.MatchingScores(values)
    return sp.MatchingScores(values, np.stack([rows, columns], axis=-1))


@st.composite
def dependencies(
    draw: Any, forbidden: bool = True, batched: bool = True, largest: int = 4, scales: Any = (1.0, 1.0, 30.0)
) -> sp.ArborescenceScores:
    """The heads of up to ``largest`` tokens, or batches of them, some scores hundreds of thousands apart."""
    batch, n = draw(BATCHES) if batched else (), draw(st.integers(0, largest))
    values = draw(arrays((*batch, n, n + 1), forbidden))
    return sp.ArborescenceScores(values * draw(st.sampled_from(scales)), ragged(draw, batch, n))


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
def boxes(
    draw: Any, forbidden: bool = True, batched: bool = True, scales: Any = (1.0,), largest: int = 4
) -> sp.BoxScores:
    """Images of up to ``largest`` by ``largest`` pixels, with a true box and the weight of its loss, or without."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    H, W = (draw(st.integers(1, largest)) for _ in range(2))
    scale = draw(st.sampled_from(scales))
    pixels = scale * PIXELS[draw(st.sampled_from(list(PIXELS)))](rng, (H, W))
    if forbidden and draw(st.booleans()):
        pixels[rng.random((H, W)) < draw(st.sampled_from([0.1, 0.5, 1.0]))] = -np.inf
    if draw(st.booleans()):
        return sp.BoxScores(pixels, np.array(0.0), None)
    top, left = rng.integers(0, H), rng.integers(0, W)
    truth = np.array([top, left, rng.integers(top + 1, H + 1), rng.integers(left + 1, W + 1)])
    return sp.BoxScores(pixels, np.array(draw(st.sampled_from([0.0, 1.0, 0.3, 100.0, -1.0])) * scale), truth)


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
    """Each chain, sentence or matrix (cut to its length), tree or table of a batch alone; a single instance itself."""
    if isinstance(instance, sp.TableScores):
        return [sp.TableScores(row) for row in instance.values.reshape(-1, instance.values.shape[-1])]
    if isinstance(instance, sp.ArborescenceScores | sp.MatchingScores):
        *batch, p, q = instance.values.shape
        sizes = np.full((*batch, 2), (p, q)) if instance.lengths is None else instance.lengths
        if isinstance(instance, sp.ArborescenceScores) and instance.lengths is not None:
            sizes = np.stack([sizes, sizes + 1], axis=-1)
        each = zip(instance.values.reshape(int(np.prod(batch)), p, q), sizes.reshape(-1, 2), strict=True)
        return [type(instance)(own[:rows, :columns].copy()) for own, (rows, columns) in each]
    if not isinstance(instance, sp.ChainScores | sp.TreeScores | sp.SegmentScores):
        return [instance]
    *batch, n, _ = instance.unary.shape if hasattr(instance, "unary") else instance.segments.shape[:-1]
    number, each = int(np.prod(batch)), instance.pairwise.shape[-3:]
    unary = instance[0].reshape(number, n, *instance[0].shape[len(batch) + 1 :])
    own = [instance.pairwise] * number if instance.pairwise.ndim == 2 else instance.pairwise.reshape(number, *each)
    if isinstance(instance, sp.TreeScores):
        return [instance._replace(unary=u, pairwise=w) for u, w in zip(unary, own, strict=True)]
    lengths = np.full(number, n) if instance.lengths is None else instance.lengths.reshape(-1)
    return [
        type(instance)(u[:m], w if w.ndim == 2 else w[: max(m - 1, 0)])
        for u, w, m in zip(unary, own, lengths, strict=True)
    ]


def alike(shape: Callable[..., np.ndarray], edges: Any, p: int = 4) -> sp.CutScores:
    """A cut whose neighbours prefer equal labels: supermodular with room to spare, or modular where scores are 0."""
    different = -np.abs(shape((len(edges), 2)))
    pairwise = np.zeros((len(edges), 2, 2))
    pairwise[:, 0, 1], pairwise[:, 1, 0] = different.T
    return sp.CutScores(shape((p, 2)), pairwise, np.array(edges))


def random_parents(rng: np.random.Generator, p: int, shape: str) -> np.ndarray:
    """Parents (p,) of a random tree, a path or a star, nodes in random order; a forest of a random tree's pieces."""
    parents, order = np.full(p, -1), rng.permutation(p)
    for i in range(1, p):
        above = {"tree": rng.integers(i), "forest": rng.integers(i), "path": i - 1, "star": 0}[shape]
        if shape != "forest" or rng.random() < 0.8:
            parents[order[i]] = order[above]
    return parents


def forest(rng: np.random.Generator, p: int) -> np.ndarray:
    """Parents (p,) of a forest of either shape, nodes in random order, or of nodes alone."""
    parents = random_parents(rng, p, rng.choice(["tree", "path", "star"]))
    return np.where(rng.random(p) < rng.choice([0.15, 0.15, 0.15, 1.0]), -1, parents)
