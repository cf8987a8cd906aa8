"""The OCR letters that come with the package, as lists of sequences."""

from __future__ import annotations

import string
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

__all__ = ["Sequences", "load_letters"]


@dataclass(frozen=True, repr=False)
class Sequences:
    """Labelled sequences: X[i] (n_i, F) float64 features, Y[i] (n_i,) int64 labels, names of labels, fold of each or
    None.
    """

    name: str
    X: list[np.ndarray]
    Y: list[np.ndarray]
    labels: tuple[str, ...]
    fold: np.ndarray | None = None

    def __repr__(self) -> str:
        positions, features = sum(len(y) for y in self.Y), self.X[0].shape[1] if self.X else 0
        return (
            f"Sequences({self.name}: {len(self.X)} sequences, {positions} positions, {features} features, "
            f"{len(self.labels)} labels)"
        )

    def take(self, index: Any) -> Sequences:
        """The sequences at ``index``."""
        index = np.asarray(index)
        fold = None if self.fold is None else self.fold[index]
        return Sequences(self.name, [self.X[i] for i in index], [self.Y[i] for i in index], self.labels, fold)

    def split(self, fold: int, *, reverse: bool = False) -> tuple[Sequences, Sequences]:
        """(train, test): test on ``fold`` and train on the others, or the reverse."""
        if self.fold is None:
            raise ValueError(f"fold: {self.name} has no folds")
        held_out = self.fold == fold
        if held_out.all() and held_out.size:
            raise ValueError(f"fold: every sequence is in fold {fold}: nothing is left on the other side")
        if not held_out.any():
            raise ValueError(f"fold: expected one of {', '.join(map(str, np.unique(self.fold)))}, got {fold}")
        rest, one = self.take(np.flatnonzero(~held_out)), self.take(np.flatnonzero(held_out))
        return (one, rest) if reverse else (rest, one)


def load_letters() -> Sequences:
    """The OCR letters: 6,877 handwritten words, 52,152 characters of 16 x 8 binary pixels, labels a to z, folds 0 to 9.

    X[i] (n_i, 128) is 0 or 1, row-major 16 x 8; first letters of words were dropped by the collectors (capitals).
    Collected by Rob Kassel (MIT), cleaned and distributed by Ben Taskar; see data/LETTERS.md beside this module.
    """
    with resources.as_file(resources.files("reference") / "data" / "letters.npz") as path, np.load(path) as fields:
        pixels, labels, offsets, fold = (fields[name] for name in ("pixels", "labels", "offsets", "fold"))
    features, bounds = np.unpackbits(pixels, axis=1).astype(np.float64), offsets[1:-1]
    X, Y = np.split(features, bounds), np.split(labels.astype(np.int64), bounds)
    return Sequences("letters", X, Y, tuple(string.ascii_lowercase), fold.astype(np.int64))
