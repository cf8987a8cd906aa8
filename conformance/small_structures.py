"""One small instance of each structure, of scores that a given function draws: tests of all structures run on these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["STRUCTURES"]

PATH, RING, CROSS = [[0, 1], [1, 2]], [[0, 1], [1, 2], [2, 3], [3, 0]], [[0, 1], [2, 1], [1, 3]]


def _cut(backend: Any, draw: Callable[..., np.ndarray], p: int = 4, edges: list[list[int]] = RING) -> Any:
    """Neighbours that prefer equal labels: supermodular with room to spare, or exactly modular where scores are 0."""
    different = -np.abs(draw((len(edges), 2)))
    pairwise = np.zeros((len(edges), 2, 2))
    pairwise[:, 0, 1], pairwise[:, 1, 0] = different.T
    return backend.Cut(draw((p, 2)), pairwise, edges)


STRUCTURES: dict[str, Callable[..., Any]] = {  # by name, and what tells it from others of the type
    "Table": lambda backend, draw: backend.Table(draw((6,))),
    "Chain": lambda backend, draw: backend.Chain(draw((3, 3)), draw((2, 3, 3))),
    "Chain, shared": lambda backend, draw: backend.Chain(draw((4, 2)), draw((2, 2))),
    "Graph, ring": lambda backend, draw: backend.Graph(draw((4, 2)), draw((4, 2, 2)), RING),
    "Graph, counts": lambda backend, draw: backend.Graph(draw((3, 3)), draw((2, 3, 3)), PATH, [3, 1, 2]),
    "Tree": lambda backend, draw: backend.Tree(draw((4, 2)), draw((4, 2, 2)), [1, -1, 1, 1]),
    "Tree, shared": lambda backend, draw: backend.Tree(draw((4, 3)), draw((3, 3)), [-1, 0, 0, -1], [3, 2, 3, 1]),
    "Cut": _cut,
    "Cut, tree": lambda backend, draw: _cut(backend, draw, 4, CROSS),
    "Arborescence": lambda backend, draw: backend.Arborescence(draw((3, 4))),
    "Arborescence, one root": lambda backend, draw: backend.Arborescence(draw((3, 4)), single_root=True),
    "Matching": lambda backend, draw: backend.Matching(draw((3, 3))),
    "Matching, wide": lambda backend, draw: backend.Matching(draw((2, 4))),
    "Matching, tall": lambda backend, draw: backend.Matching(draw((4, 2))),
}
