"""Fixed problems of models: normal features and different costs, so that outputs rarely tie. Recorded runs are of them.

Numbers are those of NumPy's ``RandomState``, whose draws no version changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import reference
from conformance.specimens import models
from conformance.specimens.models import Problem

__all__ = ["FIXED", "LABELS", "boxes", "numbers"]

LABELS = [[0, 1, 2], [], [2, 2, 0, 1], [1, 0], [2]]
BIO = [["B-X", "I-X", "O"], [], ["O", "B-X", "I-X", "I-X"], ["B-X", "B-X"], ["O"]]
PARENTS = [np.array(parents, np.int64) for parents in ([-1, 0, 0, 1], [], [-1, -1, 0], [1, -1])]
NODES = [[0, 1, 1, 0], [], [1, 0, 0], [1, 1]]
SENTENCES = [{"word": sentence.split()} for sentence in ("the dog barked", "", "a cat saw mice", "fish swim")]
HEADS = [[2, 3, 0], [], [2, 3, 0, 3], [2, 0]]
CORNERS = [[0, 0, 4, 4], [1, 2, 6, 6], [3, 3, 8, 9], [0, 2, 5, 9]]


def numbers(seed: int, *shape: int) -> np.ndarray:
    """Standard normal draws."""
    return np.random.RandomState(seed).standard_normal(shape)


def cost(L: int) -> np.ndarray:
    """Task losses (L, L), all different."""
    return (1.0 - np.eye(L)) * (0.7 + 0.1 * np.arange(L * L).reshape(L, L) % 0.87)


def _columns() -> Problem:
    """Sequences of active columns, without start and stop weights."""
    X = [[[(i + t) % 4, 3] if (i + t) % 4 < 3 else [0] for t in range(len(y))] for i, y in enumerate(LABELS)]
    dense = [np.array([np.isin(np.arange(4), row) for row in x], np.float64).reshape(-1, 4) for x in X]
    Y = [[label % 2 for label in y] for y in LABELS]
    return replace(models.labellings(dense, Y, 4, 2, start_stop=False, cost=cost(2)), X=X)


def _tags(**options: Any) -> Problem:
    """Sentences of weighted attributes."""
    values = [np.abs(numbers(20 + i, len(y), 2)) for i, y in enumerate(BIO)]
    X = [[{f"a{t % 3}": float(v[0]), f"b{len(v) % 2}": float(v[1])} for t, v in enumerate(each)] for each in values]
    return models.tags(X, BIO, None, cost=cost(3), **options)


def _parsing(**options: Any) -> Problem:
    return models.arcs(SENTENCES, HEADS, [("h.word", "m.word"), ("m.word", "distance")], 5, **options)


def boxes(*shape: int) -> Problem:
    """Images of four candidate boxes."""
    return models.candidates([(CORNERS, numbers(50 + i, 4, *shape)) for i in range(5)], [*CORNERS, CORNERS[0]], shape)


def _cuts() -> Problem:
    """Images of 2 x 3 nodes; the weight of edges must be >= 0."""
    edges = reference.grid_edges(2, 3)
    X = [(numbers(70 + i, 6, 2), edges, np.abs(numbers(80 + i, len(edges), 1))) for i in range(4)]
    return models.images(X, [[0, 0, 1, 0, 1, 1], [1, 1, 0, 0, 0, 0], [1, 0, 1, 1, 0, 1], [0, 1, 1, 0, 1, 1]], 2, 1)


def _alignment() -> Problem:
    X = [numbers(90 + i, *shape, 2) for i, shape in enumerate([(2, 3), (3, 2), (1, 2), (2, 2)])]
    return models.aligned(X, [[2, -1], [-1, 0, 1], [1], [1, 0]], 2, True)


FIXED: dict[str, Callable[[], Problem]] = {
    "chain": lambda: models.labellings(
        [numbers(i, len(y), 2) for i, y in enumerate(LABELS)], LABELS, 2, 3, cost=cost(3)
    ),
    "sparse": _columns,
    "tags": partial(_tags, pairs="observed", transitions="bio"),
    "tags-all": partial(_tags, pairs="all"),
    "classes": lambda: models.classes(numbers(30, 8, 4), [0, 1, 2, 1, 0, 2, 2, 1], 3, cost=cost(3)),
    "trees": lambda: models.trees(
        [(numbers(40 + i, len(p), 2), p) for i, p in enumerate(PARENTS)], NODES, 2, 2, cost(2)
    ),
    "parsing": _parsing,
    "parsing-root": partial(_parsing, single_root=True),
    "parsing-blocks": partial(_parsing, blocks=True),
    "boxes": partial(boxes, 3),
    "windows": lambda: models.windows(
        [numbers(60 + i, 3, 4, 2) for i in range(3)], [[0, 0, 1, 2], [1, 1, 2, 3], [0, 2, 2, 3]], 2
    ),
    "cuts": _cuts,
    "alignment": _alignment,
    "listed": lambda: models.lists([numbers(100 + i, 4, 5) for i in range(6)], [0, 1, 2, 3, 1, 0], 5),
}
