"""Masked chains for the laws of layers, each beside the reference's chains of its kept positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import reference

__all__ = ["CASES", "Chains", "drawn"]


class Chains(NamedTuple):
    """unary (B, n, L), pairwise (L, L) or (B, n-1, L, L), mask (B, n) or None, starts and ends (L,), labels (B, n)."""

    unary: np.ndarray
    pairwise: np.ndarray
    mask: np.ndarray | None
    starts: np.ndarray
    ends: np.ndarray
    labels: np.ndarray

    @property
    def kept(self) -> np.ndarray:
        return np.ones(self.labels.shape, bool) if self.mask is None else self.mask

    def rows(self) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
        """The chain of each row's kept positions (as a table of its own for each edge), these, and their labels."""
        for u, here, y, b in zip(self.unary, self.kept, self.labels, range(len(self.unary)), strict=True):
            at = np.flatnonzero(here)
            edges = np.broadcast_to(self.pairwise, (len(at[1:]), *self.pairwise.shape))
            edges = edges if self.pairwise.ndim == 2 else self.pairwise[b][at[1:] - 1]
            chosen = u[at].astype(np.float64)
            if len(at):
                chosen[0] += self.starts
                chosen[-1] += self.ends
            yield reference.Chain(chosen, edges.astype(np.float64)), at, y[at]


CASES = {
    "plain": {},
    "holes": {"mask": True},
    "a table for each edge": {"edges": True, "mask": True},
    "forbidden": {"forbidden": True, "mask": True},
    "huge": {"scale": 1e4, "mask": True},
    "one label": {"L": 1},
    "one position": {"n": 1},
    "no position": {"n": 0},
    "no chain": {"B": 0},
}


def drawn(
    B: int = 3, n: int = 4, L: int = 3, scale: float = 1.0, mask: bool = False, edges: bool = False,
    forbidden: bool = False, seed: int = 0,
) -> Chains:  # fmt: skip
    """Scores of a normal distribution; a row of the mask without positions, one with a hole, one that begins late."""
    rng = np.random.default_rng(seed)
    pairwise = scale * rng.normal(size=(B, max(n - 1, 0), L, L) if edges else (L, L))
    labels = rng.integers(0, L, (B, n))
    unary, (starts, ends) = scale * rng.normal(size=(B, n, L)), scale * rng.normal(size=(2, L))
    if forbidden:
        pairwise[..., 0, 1], unary[:, n // 2, 2], starts[1] = -np.inf, -np.inf, -np.inf
        labels[:] = 2 * (np.arange(n) % 2)
        labels[:, n // 2] = 0
    kept = rng.random((B, n)) < 0.7
    for row, positions in enumerate((slice(0, 0), slice(1, None), slice(0, None, 2))[:B]):
        kept[row] = False
        kept[row, positions] = True
    return Chains(unary, pairwise, kept if mask else None, starts, ends, labels)
