"""Table 2 of Pillutla et al., measured: ``diptych reproduce casimir-table-2 [--page FILE] [--out FOLDER]``.

Each cell has the algorithm, its complexity, the counted operations, and the time in the accelerated panel on one core.
Writes table-2.json into the current folder, or that of --out.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import accelerated
from diptych.experiments import shell
from diptych.experiments.clock import best_of
from diptych.experiments.results import timed
from reference.structures.box_sets import BoxSets
from reference.structures.clique_tree import clique_tree
from reference.structures.search import branch_and_bound

INTRACTABLE = "#P-complete (Proposition 14)"
NO_SUM = "none: search has no sums (section 4.2.2)"
K, REPEAT = 5, 15  # outputs of the top-K oracles; calls, of which the fastest counts


# an instance of each kind of graph, and the calls that Best Max-Marginal First makes for its K best ------------------


def grid(side: int) -> np.ndarray:
    """The edges (e, 2) of a 4-connected grid of side x side variables, row by row."""
    number = np.arange(side * side).reshape(side, side)
    right = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    return np.concatenate([right, np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)])


def graph(side: int = 8) -> Any:
    """A binary grid with Gaussian scores."""
    rng, edges = np.random.default_rng(0), grid(side)
    return accelerated.Graph(rng.normal(size=(side * side, 2)), rng.normal(size=(len(edges), 2, 2)), edges)


def cut(side: int = 16) -> Any:
    """A binary grid whose neighbours prefer equal labels."""
    rng, edges = np.random.default_rng(0), grid(side)
    pairwise = -np.abs(rng.normal(size=(len(edges), 1, 1))) * (1.0 - np.eye(2))
    return accelerated.Cut(rng.normal(size=(side * side, 2)), pairwise, edges)


def matching(p: int = 100) -> Any:
    """An assignment with uniform scores."""
    return accelerated.Matching(np.random.default_rng(0).random((p, p)))


STRUCTURES = {"Graph": graph, "Cut": cut, "Matching": matching}


def counted(structure: Any, k: int = K) -> Counter[str]:
    """The numbers of calls of ``best`` and of ``node_max_marginals`` for the k best by Best Max-Marginal First."""
    calls: Counter[str] = Counter()

    class Counting(type(structure)):  # type: ignore[misc]
        def best(self) -> Any:
            calls["best"] += 1
            return super().best()

        def node_max_marginals(self) -> Any:
            calls["sets of max-marginals"] += 1
            return super().node_max_marginals()

    accelerated.bmmf(Counting.unchecked(structure.scores), k)
    return calls


# the cells -----------------------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """One oracle of one structure; ``run`` is None if there is no such oracle."""

    algorithm: str
    complexity: str
    operations: str
    run: Callable[[], Any] | None


class Line(NamedTuple):
    """One structure: its name, its size, and its max, top-K and exp oracles."""

    structure: str
    size: str
    cells: tuple[Cell, Cell, Cell]


def _chain() -> Line:
    p, L = 100, 26
    rng = np.random.default_rng(0)
    chain = accelerated.Chain(rng.normal(size=(p, L)), rng.normal(size=(p - 1, L, L)))
    return Line("`Chain`", f"p = {p}, L = {L}", _products(chain, "Viterbi", "K Viterbi", (p - 1) * L * L))


def _tree() -> Line:
    p, L = 1000, 10
    rng = np.random.default_rng(0)
    parents = [-1, *(int(rng.integers(0, v)) for v in range(1, p))]
    tree = accelerated.Tree(rng.normal(size=(p, L)), rng.normal(size=(p, L, L)), parents)
    return Line("`Tree`", f"p = {p}, L = {L}", _products(tree, "max-product", "K max-product", (p - 1) * L * L))


def _products(structure: Any, best: str, k_best: str, pairs: int) -> tuple[Cell, Cell, Cell]:
    """The oracles of chains and trees, which pass messages between neighbours over ``pairs`` pairs of states."""
    return (
        Cell(best, "p L^2", f"{pairs:,} pairs of states", structure.best),
        Cell(k_best, "p K log K L^2", f"{pairs:,} pairs of lists of {K}", lambda: structure.topk(K)),
        Cell("sum-product", "p L^2", f"{2 * pairs:,} pairs of states", structure.expectation),
    )


def _graph() -> Line:
    one = graph()
    p, L = one.scores.unary.shape
    tree = clique_tree(p, tuple((a, b) for a, b in one.scores.edges.tolist()))
    entries = sum(L ** len(clique) for clique in tree.cliques)
    passes = "p L^(w+1)"
    cells = (
        Cell("max-product on a clique tree", passes, f"{entries:,} entries of tables", one.best),
        _bmmf(one, f"K {passes}"),
        Cell("sum-product on a clique tree", passes, f"{2 * entries:,} entries of tables", one.expectation),
    )
    side = math.isqrt(p)
    return Line("`Graph`, small treewidth w", f"{side} x {side} grid, L = {L}, w = {tree.width}", cells)


def _cut() -> Line:
    one = cut()
    p = len(one.scores.unary)
    cells = (Cell("minimum cut", "T", "1 minimum cut", one.best), _bmmf(one, "p K T"), Cell(INTRACTABLE, "", "", None))
    return Line("`Cut`", f"{math.isqrt(p)} x {math.isqrt(p)} grid", cells)


def _matching() -> Line:
    one = matching()
    p = len(one.scores.values)
    best = Cell("assignment by augmenting paths", "p^3", f"at most {p} shortest paths", one.best)
    cells = best, _bmmf(one, "K p^3"), Cell(INTRACTABLE, "", "", None)
    return Line("`Matching`", f"p = {p}", cells)


def _boxes() -> Line:
    side = 200
    pixels = np.full((side, side), -1.0)
    pixels[side // 4 : side // 2, side // 3 : side // 2] = 1.0  # an object
    boxes = accelerated.Boxes(pixels + 0.5 * np.random.default_rng(0).normal(size=pixels.shape))
    cells = (_search(boxes, 1, boxes.best), _search(boxes, K, lambda: boxes.topk(K)), Cell(NO_SUM, "", "", None))
    return Line("`Boxes`, an image with an object", f"{side} x {side} pixels", cells)


def _search(boxes: Any, k: int, run: Callable[[], Any]) -> Cell:
    """Best-first branch and bound, with the operations counted on this image."""
    splits = 0

    class Counting(BoxSets):
        def split(self, boxes: Any) -> Any:
            nonlocal splits
            splits += 1
            return super().split(boxes)

    sets = Counting(boxes.scores.pixels, 0.0, None)
    branch_and_bound(sets, k, tolerance=sets.rounding)
    return Cell("branch and bound, at worst", "H^2 W^2", f"{splits:,} sets split of {boxes.count():,} boxes", run)


def _bmmf(structure: Any, complexity: str) -> Cell:
    calls = counted(structure)
    operations = f"{calls['best']} outputs, {calls['sets of max-marginals']} sets of max-marginals"
    return Cell("BMMF", complexity, operations, lambda: structure.topk(K))


LINES = {"Chain": _chain, "Tree": _tree, "Graph": _graph, "Cut": _cut, "Matching": _matching, "Boxes": _boxes}


def measure(repeat: int) -> Iterator[dict[str, Any]]:
    """Yield a record for each oracle of each structure. repeat: calls of each, of which the fastest counts."""
    for make in LINES.values():
        structure, size, cells = make()
        for oracle, cell in zip(("max", f"top-{K}", "exp"), cells, strict=True):
            seconds = None if cell.run is None else best_of(cell.run, repeat)
            yield {"structure": structure, "size": size, "oracle": oracle, **cell._asdict(), "run": seconds}


def table(report: dict[str, Any]) -> str:
    """The records as a Markdown table, one line for each structure. Times that do not count are left out."""
    lines = shell.header("structure", "max oracle", f"top-K oracle, K = {K}", "exp oracle")
    records = report["records"]
    for first in range(0, len(records), 3):
        name = f"{records[first]['structure']}; {records[first]['size']}"
        lines.append(shell.row(name, *(_text(record, timed(report)) for record in records[first : first + 3])))
    return "\n".join(lines)


def _text(record: dict[str, Any], timed: bool) -> str:
    if record["run"] is None:
        return str(record["algorithm"])
    time, unit = (record["run"] * 1e6, "us") if record["run"] < 1e-4 else (record["run"] * 1e3, "ms")
    digits = 0 if time >= 9.5 else 1 if time >= 0.95 else 2
    what = f"{record['algorithm']}, O({record['complexity']}): {record['operations']}"
    return f"{what}, **{time:.{digits}f} {unit}**" if timed else what


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Measure, write and print; return the exit status."""
    parser = shell.Parser(name, __doc__)
    parser.quick("time a single call of each oracle")
    shell.add_report_options(parser, printed="records as JSON instead of a table", picture=False)
    options = parser.parse_args(arguments)
    return shell.run_or_draw(parser, options, lambda: _run(options), SHOWN, "table 2", ("records",), picture=False)


def _run(options: argparse.Namespace) -> None:
    path = shell.output_folder(options) / "table-2.json"
    with shell.one_thread():
        records = list(measure(1 if options.quick else REPEAT))
    SHOWN.kept(options, {"versions": shell.versions(), "records": records}, path)


SHOWN = shell.Shown(None, table, lambda report: report["records"])
