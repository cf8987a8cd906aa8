"""Candidate boxes of images with a tensor of features each, packed, for localisation models of any kind.

Boxes are (top, left, bottom, right) in pixels, half-open: rows top..bottom-1 and columns left..right-1. Features stay
on the host as they are given, possibly memory-mapped. They are copied to the device and dtype of the weights a piece at
a time. Source: Pillutla et al., section 7.1.2: candidates replace all boxes, and the best candidate replaces the true
box.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_array_api_obj

from reference.arrays import Array, Place, floats, host
from reference.example_errors import Example, ExampleError, each_example
from reference.models.base import Concatenated, given, not_packed, offsets_of, one_for_each
from reference.packed import check_indices, check_offsets, lock
from reference.structures.boxes import checked_boxes, iou

__all__ = ["CandidateData", "Candidates", "check_candidates", "pack_candidates", "pieces_of_equal_length"]

PIECE = 2**22  # numbers that are checked at a time


class Candidates(NamedTuple):
    """The candidates of n images, concatenated, as in a file. Packing it copies no features.

    boxes (N, 4) integers; features (N, ...) float32 or float64, in memory or memory-mapped; offsets (n + 1,) integers:
    image i has the candidates offsets[i]..offsets[i + 1] - 1.
    """

    boxes: Any
    features: Any
    offsets: Any


@dataclass(frozen=True, eq=False, repr=False)
class CandidateData(Concatenated):
    """Packed images: the fields of :class:`Candidates`, on the host, and the best candidate of each image.

    ``best`` (n,) int64: the candidate, numbered within its image, that replaces the true box; None without true boxes;
    ``losses`` (N,) float64: 1 - IoU of each candidate and the best of its image. ``like`` is an empty array on the
    weights' device, in their dtype.
    """

    boxes: np.ndarray
    features: np.ndarray
    offsets: np.ndarray
    best: np.ndarray | None
    losses: np.ndarray | None
    like: Array

    not_copied = ("features",)
    counted = "candidates"

    def validate(self) -> None:
        """Raise unless ``offsets`` divide boxes and finite features into images of at least one candidate each, and
        ``best`` are candidates.
        """
        x = self.features
        if not isinstance(x, np.ndarray) or x.dtype not in (np.float32, np.float64):
            raise TypeError(
                f"features: expected float32 or float64 of NumPy, got {getattr(x, 'dtype', type(x).__name__)}"
            )
        if x.ndim < 2 or not x.flags.c_contiguous:
            raise ValueError(f"features: expected an array (candidates, features, ...) in C order, got shape {x.shape}")
        check_offsets("offsets", self.offsets, len(x), "candidates", least=1)
        _refuse_non_finite(x, self.offsets)
        checked_boxes("boxes", self.boxes, (len(x), 4))
        if (self.best is None) != (self.losses is None):
            raise ValueError("best: expected it with losses, or neither of them")
        if self.best is None or self.losses is None:
            return
        check_indices("best", self.best, (self.n,))
        for i in np.flatnonzero((self.best < 0) | (self.best >= self.lengths))[:1]:
            raise ValueError(f"best: expected a candidate in 0..{self.lengths[i] - 1} of image {i}, got {self.best[i]}")
        if not isinstance(self.losses, np.ndarray) or self.losses.dtype != np.float64 or self.losses.shape != (len(x),):
            raise ValueError(
                f"losses: expected float64 of shape ({len(x)},), one for each candidate, got {np.shape(self.losses)}"
            )
        if not np.all(np.isfinite(self.losses)):
            raise ValueError(f"losses: expected finite numbers, got {self.losses[~np.isfinite(self.losses)][0]}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one candidate's features."""
        return tuple(self.features.shape[1:])

    @property
    def place(self) -> Place:
        """The place of weights and scores."""
        return Place.of(self.like)

    def candidates(self, piece: np.ndarray) -> np.ndarray:
        """The candidates (b, m) of the images ``piece`` (b,), which have m each, numbered within all candidates."""
        starts = self.offsets[piece]
        lengths = self.offsets[np.asarray(piece) + 1] - starts
        m = int(lengths[0]) if len(lengths) else 0
        if np.any(lengths != m):
            raise ValueError(f"batch: expected images of as many candidates each, got {sorted(set(lengths.tolist()))}")
        numbers: np.ndarray = starts[:, None] + np.arange(m)
        return numbers

    def tensors(self, candidates: np.ndarray) -> Array:
        """The features (..., *shape) of candidates (...) numbered within all of them, on the weights' device."""
        return self.place.floats(self.features[candidates])

    def truth(self) -> tuple[np.ndarray, np.ndarray]:
        """``best`` and ``losses``. Raises ValueError if there are none."""
        return given(self.best, "true boxes"), given(self.losses, "true boxes")

    def boxes_of(self, chosen: Any, batch: np.ndarray | None = None) -> np.ndarray:
        """The boxes (b, 4) of candidates ``chosen`` (b,), numbered within their images ``batch`` (None: all)."""
        images = np.arange(self.n) if batch is None else np.asarray(batch, np.int64)
        boxes: np.ndarray = self.boxes[self.offsets[images] + np.asarray(chosen, np.int64)]
        return boxes


def pack_candidates(X: Any, Y: Any = None, *, like: Array | None = None) -> CandidateData:
    """Images and their true boxes, checked.

    Parameters
    ----------
    X : Candidates, or sequence of n pairs (boxes, features)
        Boxes (m, 4) of integers with top < bottom and left < right, m >= 1; features (m, ...) float32 or float64, of
        one dtype and of one shape for all candidates, finite. Pairs are concatenated in memory. The features of
        ``Candidates`` are not copied.
    Y : sequence of n boxes (4,), optional
        True boxes. The candidate with the highest intersection over union replaces it (the first of several).
    like : array, optional
        Namespace, device and dtype to compute in; default NumPy float64, also for other features.

    Returns
    -------
    CandidateData

    Raises
    ------
    ValueError, TypeError
        Naming the image: shapes that do not fit, boxes without pixels, a true box that no candidate touches, features
        that are not finite.
    """
    boxes, features, offsets = _given(X) if isinstance(X, Candidates) else _together(X)
    empty = Place.of(like).zeros((0,))
    if Y is None:
        return CandidateData(lock(boxes), features, lock(offsets), None, None, empty)
    n = len(offsets) - 1
    Y = one_for_each(Y, n, "boxes", "image of X")
    true = each_example("Y", Y, lambda name, box: checked_boxes(name, box, (4,)))
    best, losses = np.zeros(n, np.int64), np.zeros(len(boxes))
    for i in range(n):
        candidates = slice(offsets[i], offsets[i + 1])
        overlap = iou(boxes[candidates], true[i])
        best[i] = np.argmax(overlap)
        if overlap[best[i]] == 0:
            raise ExampleError("Y", i, None, f"no candidate of X[{i}] touches the true box {true[i].tolist()}")
        losses[candidates] = 1.0 - iou(boxes[candidates], boxes[candidates][best[i]])
    return CandidateData(lock(boxes), features, lock(offsets), lock(best), lock(losses), empty)


def check_candidates(data: Any, shape: tuple[int, ...]) -> None:
    """Raise unless this is packed data whose candidates have features of this shape."""
    if not isinstance(data, CandidateData):
        raise not_packed(data)
    if data.n and data.shape != shape:
        raise ValueError(
            f"data: packed by a different model, with features of shape {data.shape}; this one has {shape}"
        )


def pieces_of_equal_length(data: CandidateData, batch: np.ndarray, max_candidates: int) -> Iterator[np.ndarray]:
    """The images ``batch`` in pieces whose images have equally many candidates, with at most ``max_candidates`` in a
    piece of several images.
    """
    lengths = data.lengths[batch]
    order = np.argsort(lengths, kind="stable")
    for run in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        most = max(1, max_candidates // int(lengths[run[0]])) if len(run) else 1
        yield from (batch[run[i : i + most]] for i in range(0, len(run), most))


def _given(X: Candidates) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Concatenated candidates, checked."""
    features, offsets = _features("X features", X.features), host(X.offsets, "X offsets")
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) == 0 or offsets[0] != 0:
        raise ValueError(f"X offsets: expected integers (n + 1,) that start at 0, got {offsets.dtype} {offsets.shape}")
    offsets = offsets.astype(np.int64)
    for i in np.flatnonzero(np.diff(offsets) < 1)[:1]:
        raise ExampleError("X", int(i), None, f"expected at least one candidate, got {offsets[i + 1] - offsets[i]}")
    if offsets[-1] != len(features):
        raise ValueError(f"X offsets: expected {len(features)} at the end, the number of candidates, got {offsets[-1]}")
    return checked_boxes("X boxes", X.boxes, (len(features), 4)), features, offsets


def _together(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs, checked and concatenated."""
    boxes: list[np.ndarray] = [np.zeros((0, 4), np.int64)]
    features: list[np.ndarray] = []

    def read(name: Example, pair: Any) -> None:
        if isinstance(pair, (str, dict)) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise TypeError(f"expected a pair (boxes, features), got {type(pair).__name__}")
        x = _features(f"{name} features", pair[1])
        if len(x) == 0:
            raise ValueError("expected at least one candidate, got 0")
        if features and (x.shape[1:], x.dtype) != (features[0].shape[1:], features[0].dtype):
            first = features[0]
            raise ValueError(
                f"{name} features: expected {first.dtype} of shape (m, {', '.join(map(str, first.shape[1:]))}), as "
                f"in X[0], "
                f"got {x.dtype} of shape {x.shape}"
            )
        boxes.append(checked_boxes(f"{name} boxes", pair[0], (len(x), 4)))
        features.append(x)

    each_example("X", X, read)
    offsets = offsets_of(features)
    together = np.concatenate(features) if features else np.zeros((0, 0))
    together.flags.writeable = False
    return np.concatenate(boxes), together, offsets


def _features(name: str, x: Any) -> np.ndarray:
    """Features (m, ...) on the host, not copied; read-only."""
    if not (is_array_api_obj(x) and str(x.dtype).endswith(("float32", "float64"))):
        (x,) = floats(**{name: x})
    given = host(x, name)
    if given.ndim < 2:
        raise ValueError(f"{name}: expected an array (candidates, features, ...), got shape {given.shape}")
    features = given.view() if given.flags.c_contiguous else np.ascontiguousarray(given)
    features.flags.writeable = False
    return features


def _refuse_non_finite(features: np.ndarray, offsets: np.ndarray) -> None:
    """Raise ValueError that names the image of the first features that are not finite; a piece at a time."""
    rows = max(1, PIECE // max(1, int(np.prod(features.shape[1:]))))
    for start in range(0, len(features), rows):
        wrong = ~np.isfinite(features[start : start + rows]).reshape(len(features[start : start + rows]), -1).all(
            axis=1
        )
        for k in np.flatnonzero(wrong)[:1] + start:
            i = int(np.searchsorted(offsets, k, side="right")) - 1
            raise ExampleError("X", i, int(k - offsets[i]), "features: expected finite numbers, got others")
