"""All outputs of a small instance and their parts, by enumeration: nothing clever, and no code of a panel.

The arguments are those of a structure's constructor by name: arrays of any kind with ``shape`` and ``tolist``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

__all__ = ["OUTPUTS", "Exact", "Listing", "Outputs", "exact", "listed", "listing", "log_sum_exp", "projected"]

Arguments = Mapping[str, Any]
Part = tuple[str, tuple[int, ...], Fraction | int]  # a field, an index, and how often the output has it


class Outputs(NamedTuple):
    """all: every output, forbidden or not; parts: what the score of one adds up; shapes: of the fields with an entry
    for each part, where a field that positions share has one for each position.
    """

    all: Callable[[Arguments], Iterator[Any]]
    parts: Callable[[Arguments, Any], list[Part]]
    shapes: Callable[[Arguments], dict[str, tuple[int, ...]]]


def _labelled(
    ends: Callable[[Arguments], Iterable[tuple[int, int, int]]], pairwise: Callable[[int, Arguments], int]
) -> Outputs:
    """Labellings of variables, of which pairs are joined. ends: the index of each matrix of pairwise scores, and the
    two variables; pairwise: how many matrices there are, of p variables.
    """

    def labellings(given: Arguments) -> Iterator[tuple[int, ...]]:
        p, L = given["unary"].shape
        counts = given.get("counts")
        return itertools.product(*map(range, [L] * p if counts is None else counts.tolist()))

    def parts(given: Arguments, y: tuple[int, ...]) -> list[Part]:
        labels: list[Part] = [("unary", (t, label), 1) for t, label in enumerate(y)]
        return labels + [("pairwise", (e, y[a], y[b]), 1) for e, a, b in ends(given)]

    def shapes(given: Arguments) -> dict[str, tuple[int, ...]]:
        p, L = given["unary"].shape
        return {"unary": (p, L), "pairwise": (pairwise(p, given), L, L)}

    return Outputs(labellings, parts, shapes)


def _edges(given: Arguments) -> Iterable[tuple[int, int, int]]:
    return ((e, a, b) for e, (a, b) in enumerate(given["edges"].tolist()))


def _matchings(given: Arguments) -> Iterator[tuple[int, ...]]:
    p, q = given["values"].shape
    if p <= q:
        yield from itertools.permutations(range(q), p)
    else:
        for rows in itertools.permutations(range(p), q):
            yield tuple(rows.index(v) if v in rows else -1 for v in range(p))


def _arborescences(given: Arguments) -> Iterator[tuple[int, ...]]:
    """Heads from which every token reaches the root."""
    n = given["values"].shape[0]
    for heads in itertools.product(range(n + 1), repeat=n):
        reached = {0}
        for _ in range(n):
            reached |= {m + 1 for m in range(n) if heads[m] in reached}
        if len(reached) == n + 1 and not (given.get("single_root") and n and heads.count(0) != 1):
            yield heads


def crosses(heads: Iterable[int]) -> bool:
    """Whether arcs cross, where tokens stand in a row with the root at its left end."""
    arcs = [sorted((h, m)) for m, h in enumerate(heads, 1)]
    return any(a < c < b < d for (a, b), (c, d) in itertools.permutations(arcs, 2))


def _span_trees(given: Arguments) -> Iterator[tuple[tuple[int, int], ...]]:
    """Each binary tree over n positions as its sorted spans (i, j), both ends included."""

    def spans(first: int, last: int) -> Iterator[tuple[tuple[int, int], ...]]:
        if first == last:
            yield ((first, first),)
        for split in range(first, last):
            for left, right in itertools.product(spans(first, split), spans(split + 1, last)):
                yield ((first, last), *left, *right)

    return (tuple(sorted(tree)) for tree in spans(0, len(given["values"]) - 1))


def _segments(given: Arguments) -> Iterator[tuple[tuple[int, int, int], ...]]:
    """Rows (start, w, label) of segments that cover n tokens, then rows of -1: n in all."""
    n, W, L = given["segments"].shape

    def tails(start: int) -> Iterator[tuple[tuple[int, int, int], ...]]:
        if start == n:
            yield ()
        for w, label in itertools.product(range(min(W, n - start)), range(L)):
            yield from (((start, w, label), *rest) for rest in tails(start + w + 1))

    return (y + ((-1, -1, -1),) * (n - len(y)) for y in tails(0))


def _segment_parts(given: Arguments, y: tuple[tuple[int, int, int], ...]) -> list[Part]:
    rows = [row for row in y if row != (-1, -1, -1)]
    pairs = [(b[0] - 1, a[2], b[2]) for a, b in itertools.pairwise(rows)]
    return [("segments", row, 1) for row in rows] + [("pairwise", pair, 1) for pair in pairs]


def _boxes(given: Arguments) -> Iterator[tuple[int, ...]]:
    H, W = given["pixels"].shape
    ends = itertools.product(range(H), range(W), range(H + 1), range(W + 1))
    return (y for y in ends if y[0] < y[2] and y[1] < y[3])


def _box_parts(given: Arguments, y: tuple[int, ...]) -> list[Part]:
    def pixels(box: Any) -> set[tuple[int, int]]:
        return set(itertools.product(range(box[0], box[2]), range(box[1], box[3])))

    parts: list[Part] = [("pixels", pixel, 1) for pixel in sorted(pixels(y))]
    if given.get("truth") is not None:
        ours, true = pixels(y), pixels(given["truth"].tolist())
        parts.append(("loss", (), 1 - Fraction(len(ours & true), len(ours | true))))
    return parts


def _values(given: Arguments) -> dict[str, tuple[int, ...]]:
    return {"values": given["values"].shape}


def _each_value(given: Arguments, y: tuple[int, ...]) -> list[Part]:
    return [("values", (v, j), 1) for v, j in enumerate(y) if j >= 0]


PROJECTIVE = Outputs(lambda given: itertools.filterfalse(crosses, _arborescences(given)), _each_value, _values)
OUTPUTS = {
    "Table": Outputs(
        lambda given: iter(range(given["values"].shape[0])), lambda given, y: [("values", (y,), 1)], _values
    ),
    "Chain": _labelled(
        lambda given: ((t, t, t + 1) for t in range(given["unary"].shape[0] - 1)), lambda p, given: max(p - 1, 0)
    ),
    "Tree": _labelled(
        lambda given: ((v, u, v) for v, u in enumerate(given["parents"].tolist()) if u >= 0), lambda p, given: p
    ),
    "Graph": _labelled(_edges, lambda p, given: given["edges"].shape[0]),
    "Cut": _labelled(_edges, lambda p, given: given["edges"].shape[0]),
    "Matching": Outputs(_matchings, _each_value, _values),
    "Arborescence": Outputs(_arborescences, _each_value, _values),
    **dict.fromkeys(("Projective", "ProjectiveTree"), PROJECTIVE),
    "SpanTree": Outputs(_span_trees, lambda given, y: [("values", span, 1) for span in y], _values),
    "Segments": Outputs(
        _segments,
        _segment_parts,
        lambda given: {"segments": (s := given["segments"].shape), "pairwise": (max(s[0] - 1, 0), s[2], s[2])},
    ),
    "Boxes": Outputs(_boxes, _box_parts, lambda given: {"pixels": given["pixels"].shape, "loss": ()}),
}


class Exact(NamedTuple):
    """An output that is not forbidden: its score, the sum of the magnitudes that it adds up, and its parts."""

    output: Any
    score: Fraction
    size: Fraction
    parts: list[Part]


def exact(enumeration: Outputs, given: Arguments) -> Iterator[Exact]:
    """Every output of an instance that is not forbidden, in rational arithmetic."""
    for output in enumeration.all(given):
        parts = enumeration.parts(given, output)
        terms = [(_entry(given[field], index), weight) for field, index, weight in parts]
        if all(value > -np.inf for value, _ in terms):
            values = [Fraction(value) * weight for value, weight in terms]
            yield Exact(output, sum(values, Fraction(0)), sum(map(abs, values), Fraction(0)), parts)


def _entry(given: Any, index: tuple[int, ...]) -> float:
    """An entry; of an index that is longer than the shape, the last axes count: a matrix that positions share."""
    shape = getattr(given, "shape", ())
    return float(given[index[len(index) - len(shape) :]] if shape else given)


class Listing(NamedTuple):
    """outputs: m of them; scores (m,); parts: for each field an array (m, ...) of how often each output has them."""

    outputs: list[Any]
    scores: np.ndarray
    parts: dict[str, np.ndarray]

    def possible(self) -> Listing:
        """Those that are not forbidden."""
        some = self.scores > -np.inf
        outputs = [y for y, one in zip(self.outputs, some, strict=True) if one]
        return Listing(outputs, self.scores[some], {name: part[some] for name, part in self.parts.items()})

    def expectation(self, mu: float) -> tuple[float, dict[str, np.ndarray]]:
        """mu log sum_y exp(score(y) / mu), and the means of the parts."""
        value, probabilities = log_sum_exp(self.scores, mu)
        return value, {name: np.tensordot(probabilities, part, 1) for name, part in self.parts.items()}


def listed(y: Any) -> Any:
    """An output in an array on the host as enumeration lists it: an integer, a tuple, or a tuple of rows."""
    return tuple(map(listed, y)) if np.ndim(y) else int(y)


def log_sum_exp(scores: np.ndarray, mu: float) -> tuple[float, np.ndarray]:
    """mu log sum exp(scores / mu) and the probabilities; (-inf, zeros) if all are -inf."""
    top = scores.max(initial=-np.inf)
    if top == -np.inf:
        return -np.inf, np.zeros(len(scores))
    weights = np.exp((scores - top) / mu)
    return float(top + mu * np.log(weights.sum())), weights / weights.sum()


def listing(kind: str, given: Arguments) -> Listing:
    """Every output of an instance with floats as NumPy arrays, forbidden ones too."""
    given = {name: value for name, value in given.items() if value is not None}
    floats = {name: np.asarray(x, np.float64) for name, x in given.items() if np.asarray(x).dtype.kind == "f"}
    others = {name: np.asarray(x) for name, x in given.items() if name not in floats}
    key = tuple((name, x.shape) for name, x in floats.items())
    rest = tuple((name, x.shape, str(x.dtype), x.tobytes()) for name, x in others.items())
    outputs, parts = _parts(kind, key, rest)
    scores = np.zeros(len(outputs))
    for name, part in parts.items():  # a forbidden part that is not used counts 0
        scores += np.sum(np.where(part > 0, floats[name], 0.0) * part, axis=tuple(range(1, part.ndim)))
    return Listing(outputs, scores, parts)


@lru_cache(maxsize=4096)
def _parts(kind: str, floats: tuple[Any, ...], others: tuple[Any, ...]) -> tuple[list[Any], dict[str, np.ndarray]]:
    """The outputs and their parts, which depend on the shapes and on what is no score."""
    given: dict[str, Any] = {name: np.zeros(shape) for name, shape in floats}
    given |= {name: np.frombuffer(x, dtype).reshape(shape) for name, shape, dtype, x in others}
    enumeration = OUTPUTS[kind]
    outputs = list(enumeration.all(given))
    parts = {name: np.zeros((len(outputs), *shape)) for name, shape in enumeration.shapes(given).items()}
    for i, y in enumerate(outputs):
        for name, index, count in enumeration.parts(given, y):
            parts[name][(i, *index)] += float(count)
    return outputs, {name: part for name, part in parts.items() if name in given}


def projected(rows: np.ndarray, scores: np.ndarray, mu: float) -> float:
    """max_w w scores - mu/2 ||w rows||^2 over weights of outputs, whose parts are rows (m, d): the point of their hull
    that is nearest to scores of the parts over mu, as least squares with weights >= 0 (Lawson and Hanson 1974).
    """
    from scipy.optimize import nnls

    apart = rows - np.linalg.lstsq(rows, scores, rcond=None)[0] / mu
    size = 1.0 + np.max(np.abs(apart), initial=0.0)
    weights, _ = nnls(
        np.concatenate([apart.T, np.full((1, len(rows)), size)]), np.append(np.zeros(rows.shape[1]), size)
    )
    p = (weights / weights.sum()) @ rows
    return float(weights @ scores / weights.sum() - 0.5 * mu * p @ p)
