"""Pictures of scored output spaces: marginals as shades, a best output in red.

A chain is its trellis; a dependency tree is its arcs; a matching its lines; a cut lies on its picture.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diptych.pictures.plots import outline, require_matplotlib
from reference.arrays import host
from reference.sparsemap import sparsemap
from reference.structures.scores import score_fields

__all__ = ["show"]

BEST, SHADE, VISIBLE = "crimson", "Greys", 0.01  # parts with less probability are not drawn
MOST = {"labels": 60, **dict.fromkeys(("n", "nodes", "variables"), 200)}
MOST |= dict.fromkeys(("tokens", "rows", "columns", "outputs"), 100)
Names = Sequence[Any] | None


def show(structure: Any, *, mu: float = 1.0, items: Any = None, labels: Names = None, shape: Any = None) -> Any:
    """Draw one output space with its marginals at temperature ``mu`` and a best output.

    Parameters
    ----------
    structure : Chain, Segments, Tree, Graph, Cut, Matching, Arborescence, Projective, Boxes or Table
        Of either panel; not a batch. Matchings, whose marginals are #P-complete, have those of :func:`sparsemap`.
    mu : float > 0
        Temperature.
    items : sequence, optional
        Names of positions, tokens, nodes or entries; of a Matching, a pair of sequences: names of rows and of columns.
    labels : sequence, optional
        Names of the labels.
    shape : (int, int), optional
        Height and width of a picture whose pixels, row by row, are the variables of a Cut or Graph.

    Returns
    -------
    matplotlib.figure.Figure
        ``figure.savefig(path)`` writes it.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    TypeError
        Another structure.
    ValueError
        A batch; more positions or labels than a picture can hold; names of another number, or another shape.
    """
    draw = next((DRAWN[kind.__name__] for kind in type(structure).__mro__ if kind.__name__ in DRAWN), None)
    if draw is None:
        raise TypeError(f"structure: expected one of {', '.join(DRAWN)}, got {type(structure).__name__}")
    sizes = score_fields(structure.scores)[0].shape
    if len(sizes) != len(structure.axes):
        raise ValueError(f"structure: expected one space, got a batch of shape {tuple(sizes[: -len(structure.axes)])}")
    for name, size in zip(structure.axes, sizes, strict=True):
        if size > MOST.get(name, size) and (shape is None or name == "labels"):
            raise ValueError(f"structure: expected at most {MOST[name]} {name} in a picture, got {size}")
    figure = require_matplotlib()(layout="constrained")
    draw(figure.subplots(), structure, mu, items, labels, shape)
    return figure


def _names(what: str, given: Names, size: int) -> list[str]:
    """Checked names, or numbers; matplotlib would read a formula between two ``$``."""
    if given is not None and len(given) != size:
        raise ValueError(f"{what}: expected {size} names, got {len(given)}")
    return [str(name).replace("$", r"\$") for name in (range(size) if given is None else given)]


def _about(axes: Any, title: str, width: float, height: float) -> None:
    axes.figure.set_size_inches(max(width, 3.5), height + 0.3)
    axes.set_title(title, fontsize=9)


def _ticks(axes: Any, across: list[str], up: list[str]) -> None:
    turned = 90 if max(map(len, across), default=0) > 3 else 0
    axes.set_xticks(range(len(across)), across, rotation=turned)
    axes.set_yticks(range(len(up)), up)


def _chain(axes: Any, chain: Any, mu: float, items: Names, labels: Names, shape: Any) -> None:
    unary, shared = host(chain.scores.unary), host(chain.scores.pairwise)
    n, L = unary.shape
    each = np.broadcast_to(shared, (max(n - 1, 0), L, L))  # so that each edge has marginals of its own
    states, pairs, *_ = type(chain)(unary, each, chain.scores.lengths, chain.scores.mask).marginals(mu)
    y = host(chain.best()[1])
    kept = np.flatnonzero(y >= 0)
    _about(axes, f"marginals, mu = {mu:g}; a best labelling in red", 1.5 + 0.6 * n, 1.0 + 0.4 * L)
    for s, t in itertools.pairwise(kept):
        for a, b in np.argwhere(pairs[t - 1] > VISIBLE):
            shade = min(float(pairs[t - 1, a, b]), 1.0)
            axes.plot([s, t], [a, b], color="black", alpha=shade, linewidth=1.5, zorder=1)
    axes.plot(kept, y[kept], color=BEST, linewidth=1.5, zorder=2)
    position, label = np.divmod(np.arange(states.size), L)
    axes.scatter(position, label, c=states.ravel(), cmap=SHADE, vmin=0, vmax=1, s=150, edgecolors="grey", zorder=3)
    _ticks(axes, _names("items", items, n), _names("labels", labels, L))
    axes.set(xlabel="position", ylabel="label")
    axes.margins(0.5 / max(n, 2), 0.5 / max(L, 2))


def _segments(axes: Any, space: Any, mu: float, items: Names, labels: Names, _: Any) -> None:
    marginals = host(space.marginals(mu).segments)
    n, W, L = marginals.shape
    covered = np.zeros((L, n))
    for s, w in np.ndindex(n, W):
        covered[:, s : s + w + 1] += marginals[s, w][:, None]
    _about(axes, f"marginals, mu = {mu:g}; best segments in red", 1.5 + 0.5 * n, 1.2 + 0.4 * L)
    axes.imshow(covered, cmap=SHADE, vmin=0, vmax=1, aspect="auto")
    for start, w, label in host(space.best()[1]).tolist():
        if start >= 0:
            outline(axes, np.array([label, start, label + 1, start + w + 1]), BEST, 1.8)
    _ticks(axes, _names("items", items, n), _names("labels", labels, L))
    axes.set(xlabel="position", ylabel="label")


def _arcs(axes: Any, space: Any, mu: float, items: Names, labels: Names, _: Any) -> None:
    arcs, heads = host(space.marginals(mu).values), host(space.best()[1])
    n = len(heads)
    _about(axes, f"marginals, mu = {mu:g}; a best tree in red", 1.5 + 0.8 * n, 1.5 + 0.25 * n)
    top = 0.6 * (n + 1)

    def arc(head: int, m: int, **style: Any) -> None:
        if head == 0:
            axes.plot([m, m], [0, top], **style)
            return
        half = np.linspace(0, np.pi, 30)
        start = head - 1 + 0.2 * np.sign(m - head + 1)  # beside the head, so that its own arrow stands alone
        middle, radius = (start + m) / 2, abs(start - m) / 2
        axes.plot(middle + radius * np.cos(half), radius * np.sin(half), **style)

    for m, head in np.argwhere(arcs > VISIBLE).tolist():
        arc(head, m, color="black", alpha=min(float(arcs[m, head]), 1.0), linewidth=3, zorder=1)
    for m, head in enumerate(heads.tolist()):
        if head >= 0:
            arc(head, m, color=BEST, linewidth=1, zorder=2)
            axes.plot([m], [0], marker="v", color=BEST, markersize=5)
    _ticks(axes, _names("items", items, n), [])
    axes.set(ylim=(-0.2, top), xlim=(-0.5, n - 0.5))


def _matching(axes: Any, space: Any, mu: float, items: Any, labels: Names, _: Any) -> None:
    values, columns = host(space.scores.values), host(space.best()[1])
    p, q = values.shape
    rows, others = (None, None) if items is None else items
    shares = host(sparsemap(space, mu).marginals.values)
    _about(axes, f"SparseMAP, mu = {mu:g}; a best matching in red", 5.0, 1.2 + 0.3 * max(p, q, 1))
    for i, j in np.argwhere(shares > VISIBLE):
        axes.plot([0, 1], [i, j], color="black", alpha=min(float(shares[i, j]), 1.0), linewidth=3, zorder=1)
    for i in np.flatnonzero(columns >= 0):
        axes.plot([0, 1], [i, columns[i]], color=BEST, linewidth=1, zorder=2)
    for i, name in enumerate(_names("items[0]", rows, p)):
        axes.text(-0.03, i, name, ha="right", va="center")
    for j, name in enumerate(_names("items[1]", others, q)):
        axes.text(1.03, j, name, ha="left", va="center")
    axes.set(xlim=(-0.3, 1.3), ylim=(max(p, q, 1) - 0.5, -0.5))
    axes.axis("off")


def _tree(axes: Any, tree: Any, mu: float, items: Names, labels: Names, _: Any) -> None:
    parents = host(tree.scores.parents)
    depth, column = np.zeros(len(parents), int), np.zeros(len(parents))
    children = [np.flatnonzero(parents == v) for v in range(len(parents))]
    stack, leaves, order = [(v, 0) for v in np.flatnonzero(parents < 0)[::-1]], 0, []
    while stack:
        v, depth[v] = stack.pop()
        order.append(v)
        stack += [(child, depth[v] + 1) for child in children[v][::-1]]
        if not len(children[v]):
            column[v], leaves = leaves, leaves + 1
    for v in reversed(order):
        if len(children[v]):
            column[v] = np.mean(column[children[v]])
    edges = np.array([(parent, v) for v, parent in enumerate(parents) if parent >= 0]).reshape(-1, 2)
    places = np.stack([column, -depth], axis=1).astype(float)
    _network(axes, tree, mu, items, labels, places, edges)


def _graph(axes: Any, graph: Any, mu: float, items: Names, labels: Names, shape: Any) -> None:
    edges, p = host(graph.scores.edges), graph.scores.unary.shape[0]
    if shape is None:
        turn = 2 * np.pi * np.arange(p) / max(p, 1)
        _network(axes, graph, mu, items, labels, np.stack([np.sin(turn), np.cos(turn)], axis=1), edges)
        return
    height, width = shape
    if height * width != p:
        raise ValueError(f"shape: expected height times width {p}, the number of variables, got {height} x {width}")
    y = host(graph.best()[1])
    _about(axes, "best labels; edges between unlike ones in red", *np.clip(np.array([width, height]) * 0.2, 2.5, 12.0))
    axes.imshow(y.reshape(height, width), cmap="Greys", vmin=0, vmax=graph.scores.unary.shape[1] - 1)
    down, across = np.divmod(np.arange(p), width)
    for u, v in edges[y[edges[:, 0]] != y[edges[:, 1]]]:
        axes.plot(across[[u, v]], down[[u, v]], color=BEST, linewidth=1)
    axes.set(xticks=[], yticks=[])


def _network(axes: Any, space: Any, mu: float, items: Names, labels: Names, xy: np.ndarray, edges: np.ndarray) -> None:
    """Nodes with the states of a best output, shaded by their probability where sums are not intractable."""
    y, (p, L), sums = host(space.best()[1]), space.scores.unary.shape, "expectation" not in space.intractable
    sure = host(space.marginals(mu).unary)[np.arange(p), y] if sums else np.ones(p)
    names, states = _names("items", items, p), _names("labels", labels, L)
    side = 2.0 + np.sqrt(p)
    shaded, plain = f"a best labelling, shaded by marginals, mu = {mu:g}", "best labels; edges between unlike in red"
    _about(axes, shaded if sums else plain, side, side)
    for u, v in edges:
        axes.plot(*xy[[u, v]].T, color="grey" if sums or y[u] == y[v] else BEST, linewidth=1, zorder=1)
    style = {"cmap": "Reds", "vmin": 0, "vmax": 1, "s": 350, "edgecolors": "grey", "zorder": 2}
    axes.scatter(*xy.T, c=0.6 * sure, **style)
    for v in range(p):
        name = f"{names[v]}: {states[y[v]]}" if items is not None else states[y[v]]
        axes.text(*xy[v], name, ha="center", va="center", fontsize=8, zorder=3)
    axes.margins(0.15)
    axes.axis("off")


def _boxes(axes: Any, space: Any, mu: float, items: Names, labels: Names, _: Any) -> None:
    pixels = host(space.scores.pixels)
    height, width = pixels.shape
    _about(axes, "a best box in red", *np.clip(np.array([width, height]) * 0.2 + 1.0, 2.5, 10.0))
    finite = np.where(np.isfinite(pixels), pixels, np.nan)
    most = float(np.nanmax(np.abs(finite), initial=1e-300))
    axes.figure.colorbar(axes.imshow(finite, cmap="RdBu", vmin=-most, vmax=most), label="score of a pixel", shrink=0.7)
    outline(axes, host(space.best()[1]), BEST, 2.0)
    axes.set(xticks=[], yticks=[])


def _table(axes: Any, space: Any, mu: float, items: Names, labels: Names, _: Any) -> None:
    chances, y = host(space.marginals(mu).values).ravel(), int(space.best()[1])
    _about(axes, f"probabilities, mu = {mu:g}; a best output in red", 2.0 + 0.3 * len(chances), 3.0)
    axes.bar(range(len(chances)), chances, color=["grey" if j != y else BEST for j in range(len(chances))])
    axes.set_xticks(range(len(chances)), _names("items", items, len(chances)))
    axes.set(ylim=(0, 1))


DRAWN: dict[str, Callable[..., None]] = {"Chain": _chain, "Segments": _segments, "Tree": _tree, "Graph": _graph}
DRAWN |= {"Cut": _graph, "Matching": _matching, "Arborescence": _arcs, "Projective": _arcs, "Boxes": _boxes}
DRAWN |= {"Table": _table}
