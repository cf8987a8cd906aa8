"""Minibatches of every structure of the layers: padded by lengths or by masks with holes; and each row alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from conformance.specimens.outputs import Listing, listing

__all__ = ["CASES", "Minibatch", "drawn"]

FIELDS = {"Chain": ("unary", "pairwise"), "Tree": ("unary", "pairwise")}  # of chains, scores of both ends follow
PARENTS = np.array([2, -1, 1, -1])
CASES: dict[str, tuple[str, dict[str, Any]]] = {  # the structure, and what is its own
    "chains with lengths": ("Chain", {}),
    "chains with holes": ("Chain", {"holes": True}),
    "chains with holes and a table for each edge": ("Chain", {"holes": True, "tables": True}),
    "trees": ("Tree", {}),
    "trees with a table for each node": ("Tree", {"tables": True}),
    "arborescences with lengths": ("Arborescence", {"single_root": False}),
    "arborescences with holes, one root": ("Arborescence", {"holes": True, "single_root": True}),
    "wide matchings": ("Matching", {"shape": (2, 3)}),
    "tall matchings": ("Matching", {"shape": (3, 2)}),
}


class Minibatch(NamedTuple):
    """fields: scores, of B rows or shared; where: the other arguments; labels (B, n): drawn outputs, and what is no
    label off the mask; kept: the positions of each row; places: of each row, where its scores lie in each field.
    """

    kind: str
    fields: list[np.ndarray]
    where: dict[str, Any]
    labels: np.ndarray
    kept: list[Any]
    places: list[list[Any]]

    def row(self, b: int) -> Minibatch:
        """A row alone, cut to its positions, without an axis of the batch."""
        fields = [x[place] for x, place in zip(self.fields, self.places[b], strict=True)]
        where = {name: x for name, x in self.where.items() if name not in ("lengths", "mask")}
        return Minibatch(self.kind, fields, where, self.alone(b, self.labels[b]), [], [])

    def alone(self, b: int, y: np.ndarray) -> np.ndarray:
        """The labels of a row's positions, as the row alone counts them: heads are positions themselves."""
        at = self.kept[b]
        return np.searchsorted([0, *(at + 1)], y[at]) if self.kind == "Arborescence" else y[at]

    def listing(self, factor: float = 1.0) -> Listing:
        """The possible outputs of a row alone, of scores times a factor, but for those of ends."""
        first, *rest = (factor * x for x in self.fields[:2])
        if self.kind == "Chain" and len(first):
            first[0] += self.fields[2]
            first[-1] += self.fields[3]
        named = zip(FIELDS.get(self.kind, ("values",)), (first, *rest), strict=True)
        return listing(self.kind, {**dict(named), **self.where}).possible()


def drawn(case: str, seed: int, scale: float, forbidden: bool, dtype: str, B: int = 4, n: int = 3) -> Minibatch:
    (kind, options), rng = CASES[case], np.random.default_rng(seed)
    own, where = options.get("tables"), {}
    kept: list[Any] = [...] * B
    mask = rng.random((B, n)) < 0.6 if "holes" in options else np.arange(n) < rng.integers(0, n + 1, (B, 1))
    padded = {"mask": mask} if "holes" in options else {"lengths": mask.sum(1)}
    if kind == "Chain":
        sizes = (B, n, 2), (B, n - 1, 2, 2) if own else (2, 2), (2,), (2,)
        fields = [rng.normal(size=size) for size in sizes]
        where, kept = padded, list(map(np.flatnonzero, mask))
        places = [[(b, at), (b, at[1:] - 1) if own else ..., ..., ...] for b, at in enumerate(kept)]
        fields[0][~mask] = np.nan
    elif kind == "Tree":
        p, where = len(PARENTS), {"parents": PARENTS}
        fields = [rng.normal(size=(B, p, 2)), rng.normal(size=(B, p, 2, 2) if own else (2, 2))]
        places = [[b, b if own else ...] for b in range(B)]
    elif kind == "Arborescence":
        where, kept = {**padded, "single_root": options["single_root"]}, list(map(np.flatnonzero, mask))
        places = [[(b, at[:, None], [0, *(at + 1)])] for b, at in enumerate(kept)]
        fields = [np.full((B, n, n + 1), np.nan)]
        for (place,) in places:
            fields[0][place] = rng.normal(size=fields[0][place].shape)
    else:
        fields, places = [rng.normal(size=(B, *options["shape"]))], [[b] for b in range(B)]
    fields = [(scale * x).astype(dtype).astype(np.float64) for x in fields]
    if forbidden:
        pairs = fields[:2][-1]
        pairs[..., 0, 1] = np.where(np.isnan(pairs[..., 0, 1]), np.nan, -np.inf)
    labels = np.where(rng.random((B, fields[0].shape[1])) < 0.5, -100, 10**9)
    batch = Minibatch(kind, fields, where, labels, kept, places)
    for b, at in enumerate(kept):
        possible = batch.row(b).listing().outputs
        y = np.array(possible[rng.integers(len(possible))], np.int64)
        labels[b, at] = np.array([0, *(at + 1)])[y] if kind == "Arborescence" else y
    return batch
