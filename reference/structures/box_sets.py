"""Sets of boxes, given by an interval for each side, with a bound on their scores: the space of subwindow search.

Source: Pillutla et al., section 4.2.2, after Lampert et al. (2008): the bound is the sum of the positive pixels of the
largest box and the negative pixels of the smallest. Two bounds are added here. If no pixel is positive and the boxes
have no pixel in common, the bound is the highest pixel, as a box has at least one. The loss 1 - IoU is bounded by the
least intersection over the union with the largest box.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

__all__ = ["BoxSet", "BoxSets"]


class BoxSet(NamedTuple):
    """The boxes with each side in a closed interval. Each end of an interval is a side of some box in the set."""

    top: tuple[int, int]
    left: tuple[int, int]
    bottom: tuple[int, int]
    right: tuple[int, int]


class BoxSets:
    """The sets of boxes of an image, for ``branch_and_bound``.

    Parameters
    ----------
    pixels : float64 array (H, W)
        Scores; -inf forbids every box with this pixel.
    loss : float
        Weight of 1 - IoU with ``truth``, of any sign.
    truth : int64 array (4,) or None
    """

    def __init__(self, pixels: np.ndarray, loss: float, truth: np.ndarray | None) -> None:
        self.shape, self.loss, self.truth = pixels.shape, loss, truth
        free = pixels > -np.inf
        finite = np.where(free, pixels, 0.0)
        self.positive, self.negative = integral(np.maximum(finite, 0.0)), integral(np.minimum(finite, 0.0))
        self.forbidden = integral(1.0 - free)
        self.row_peaks, self.column_peaks = pixels.max(axis=1), pixels.max(axis=0)
        size = float(np.sum(np.abs(finite))) + 2 * abs(loss)
        self.rounding = 8 * (pixels.shape[0] + pixels.shape[1]) * float(np.finfo(np.float64).eps) * size

    def everything(self) -> BoxSet | None:
        """All boxes."""
        H, W = self.shape
        return BoxSet((0, H - 1), (0, W - 1), (1, H), (1, W))

    def bound(self, boxes: BoxSet) -> float:
        """An upper bound on the scores of the set; for a single box its score, up to rounding."""
        (t1, t2), (l1, l2), (b1, b2), (r1, r2) = boxes
        largest, smallest = (t1, l1, b2, r2), (t2, l2, b1, r1)
        has_core = t2 < b1 and l2 < r1  # whether all boxes contain the smallest
        if has_core and inside(self.forbidden, smallest) > 0:
            return -np.inf
        peak = 0.0 if has_core else min(np.max(self.row_peaks[t1:b2]), np.max(self.column_peaks[l1:r2]))
        if peak == -np.inf:
            return -np.inf
        if peak < 0:
            bound = float(peak)
        else:
            bound = inside(self.positive, largest) + (inside(self.negative, smallest) if has_core else 0.0)
        if self.truth is None:
            return bound
        most_common, least_common = common(largest, self.truth), common(smallest, self.truth)
        if most_common == area(largest):  # all boxes lie within the truth
            least_common = max(1, b1 - t2) * max(1, r1 - l2)
        truth_area, smallest_area = area(tuple(self.truth.tolist())), area(smallest) if has_core else 0
        if self.loss >= 0:
            return bound + self.loss * (1.0 - least_common / (area(largest) + truth_area - most_common))
        return bound + self.loss * (1.0 - min(1.0, most_common / (smallest_area + truth_area - least_common)))

    def split(self, boxes: BoxSet) -> Iterator[BoxSet]:
        """The two halves of the set by the longest interval, the first of several."""
        side = int(np.argmax([last - first for first, last in boxes]))
        first, last = boxes[side]
        middle = (first + last) // 2
        for half in ((first, middle), (middle + 1, last)):
            part = tightened(boxes._replace(**{BoxSet._fields[side]: half}))
            if part is not None:
                yield part

    def single(self, boxes: BoxSet) -> tuple[int, ...] | None:
        """The box of a set of one, None for a set of several boxes."""
        return None if any(first < last for first, last in boxes) else tuple(first for first, _ in boxes)

    def scores(self, boxes: np.ndarray) -> np.ndarray:
        """The scores (m,) of boxes (m, 4)."""
        singles = (BoxSet((t, t), (l, l), (b, b), (r, r)) for t, l, b, r in boxes.tolist())
        return np.array([self.bound(box) for box in singles], dtype=np.float64)


def integral(pixels: np.ndarray) -> np.ndarray:
    """Sums (H + 1, W + 1) of the pixels above and to the left of each corner."""
    sums = np.zeros((pixels.shape[0] + 1, pixels.shape[1] + 1))
    sums[1:, 1:] = np.cumsum(np.cumsum(pixels, axis=0), axis=1)
    return sums


def inside(sums: np.ndarray, box: tuple[int, int, int, int]) -> float:
    """The sum of the pixels of a box, from an integral image."""
    top, left, bottom, right = box
    return float((sums[bottom, right] - sums[top, right]) - (sums[bottom, left] - sums[top, left]))


def area(box: tuple[int, ...]) -> int:
    """Number of pixels."""
    return (box[2] - box[0]) * (box[3] - box[1])


def common(a: tuple[int, ...], b: np.ndarray) -> int:
    """Number of pixels in both boxes; 0 if a box ends before it starts."""
    height, width = min(a[2], int(b[2])) - max(a[0], int(b[0])), min(a[3], int(b[3])) - max(a[1], int(b[1]))
    return max(0, height) * max(0, width)


def tightened(boxes: BoxSet) -> BoxSet | None:
    """The same set with the smallest intervals; None if no box has top < bottom and left < right."""
    (t1, t2), (l1, l2), (b1, b2), (r1, r2) = boxes
    t2, l2, b1, r1 = min(t2, b2 - 1), min(l2, r2 - 1), max(b1, t1 + 1), max(r1, l1 + 1)
    return None if t1 > t2 or l1 > l2 or b1 > b2 or r1 > r2 else BoxSet((t1, t2), (l1, l2), (b1, b2), (r1, r2))
