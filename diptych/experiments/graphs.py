"""An instance of each kind of graph, and the calls that Best Max-Marginal First makes for its K = 5 best."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

import accelerated

K = 5


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
