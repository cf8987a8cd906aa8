"""Weights as loops take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["ALL", "Weights", "zeros_like"]

ALL = slice(None)  # rows


class Weights(NamedTuple):
    """rows (F, Lp): W, of which an example touches few; dense (1, p, q): A, of which it may touch all. They change in
    place.
    """

    rows: np.ndarray
    dense: np.ndarray


def zeros_like(w: Weights, *, any: bool = True) -> Weights:
    """Zeros of the same shapes; empty arrays if ``any`` is false."""
    return Weights(np.zeros_like(w.rows), np.zeros_like(w.dense)) if any else Weights(w.rows[:0], w.dense[:0])
