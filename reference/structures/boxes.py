"""All boxes of an image, scored by sums of pixels: efficient subwindow search, and the overlap of two boxes.

    score(y) = sum of pixels[i, j] over the pixels of y, + loss (1 - IoU(y, truth))

A box is (top, left, bottom, right) in pixels, half-open: rows top..bottom-1, columns left..right-1. A box has at least
one pixel; the empty box is not an output. The best boxes are found by best-first branch and bound over sets of boxes,
with an interval for each side. Source: Pillutla et al., sections 4.2.2 and 7.1.2, Algorithm 13 and Proposition 15,
after Lampert et al. (2008).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference import arrays
from reference.arrays import Array, Place, host
from reference.structures.base import KBest, Structure, feasible, k_best, positive_k
from reference.structures.box_sets import BoxSets
from reference.structures.search import branch_and_bound
from reference.structures.table import Table

__all__ = ["BoxScores", "Boxes", "best_boxes", "iou", "listed_scores"]


class BoxScores(NamedTuple):
    """The scores of the boxes of an image; a gradient has the same shapes.

    pixels (H, W), -inf forbids the boxes with this pixel; loss (), the weight of 1 - IoU with ``truth``; truth, a box
    (4,), int64 on the host, or None without a loss.
    """

    pixels: Array
    loss: Array
    truth: np.ndarray | None


BoxScores.layout = ("truth",)  # type: ignore[attr-defined]  # not a score: every oracle returns it unchanged


def best_boxes(scores: BoxScores, k: int = 1) -> np.ndarray:
    """The j <= k best boxes (j, 4), int64 on the host, from high to low score.

    Notes
    -----
    Best-first branch and bound over intervals [top, top'] x [left, left'] x ... The bound of a set is the sum of the
    positive pixels of the largest box, the negative pixels of the smallest box, each from an integral image, and the
    loss at the least overlap. The search is exhaustive in the worst case, such as large images of noise without a
    region. Scores that differ by less than the rounding of sums over the image count as equal; for ties see
    ``branch_and_bound``.

    Source
    ------
    Pillutla et al., Algorithm 13, *corrected*; the bound after Lampert et al. (2008).
    """
    sets = BoxSets(host(scores.pixels).astype(np.float64), float(scores.loss), scores.truth)
    best = branch_and_bound(sets, k, tolerance=sets.rounding)
    return np.array([y for _, y in best], dtype=np.int64).reshape(-1, 4)


def listed_scores(scores: BoxScores, boxes: np.ndarray) -> Array:
    """The scores (m,) of boxes (m, 4), on the device of ``scores``; -inf for a box with a forbidden pixel."""
    sets = BoxSets(host(scores.pixels).astype(np.float64), float(scores.loss), scores.truth)
    return Place.of(scores.pixels).floats(sets.scores(boxes))


def iou(a: Any, b: Any) -> np.ndarray:
    """Intersection over union of boxes: the pixels in both boxes over the pixels in at least one.

    IoU(a, b) = |a and b| / |a or b|

    Parameters
    ----------
    a, b : int array (..., 4)
        Boxes (top, left, bottom, right), half-open; leading axes broadcast.

    Returns
    -------
    float64 array (...,)
        On the host, in [0, 1]; 1 only for equal boxes.

    Raises
    ------
    ValueError, TypeError
        Wrong shapes or dtypes, or boxes without pixels.

    Source
    ------
    Pillutla et al., section 7.1.2.

    Examples
    --------
    >>> float(iou([0, 0, 2, 2], [0, 1, 2, 3]))  # two pixels of six
    0.3333333333333333
    """
    return overlap(checked_boxes("a", a), checked_boxes("b", b))


class Boxes(Structure):
    """All boxes of an image, scored by the sum of their pixels.

    The max and top-K oracles use branch and bound. The exp oracle would visit every box; :meth:`among` provides it for
    a list of boxes.

    Parameters
    ----------
    pixels : array (H, W)
        Score of each pixel; -inf forbids every box with this pixel.
    loss : float
        Weight of the loss 1 - IoU with ``truth``; positive in training.
    truth : int array (4,), optional
        A box (top, left, bottom, right), half-open, within the image; required if loss is not 0.

    Raises
    ------
    ValueError, TypeError
        An image without pixels, an empty box or one outside the image, a loss without a truth, nan or +inf.

    Examples
    --------
    >>> boxes = Boxes([[-1.0, -1.0, -1.0], [-1.0, 2.0, 3.0], [-1.0, -1.0, 2.0]])
    >>> value, y = boxes.best()
    >>> float(value), y.tolist()
    (6.0, [1, 1, 3, 3])
    >>> boxes.topk(3).labels.tolist()
    [[1, 1, 3, 3], [1, 1, 2, 3], [1, 2, 3, 3]]
    """

    ops = sys.modules[__name__]
    scores: BoxScores
    axes = ("height", "width")

    def __init__(self, pixels: Any, loss: float = 0.0, truth: Any = None) -> None:
        (pixels,) = arrays.floats(pixels=pixels)
        if pixels.ndim != 2 or 0 in pixels.shape:
            raise ValueError(f"pixels: expected shape (H, W) with H, W >= 1, got {tuple(pixels.shape)}")
        arrays.refuse_nan_and_inf("pixels", pixels)
        weight = arrays.real("loss", loss)
        if not np.isfinite(weight):
            raise ValueError(f"loss: expected a finite number, got {weight}")
        if truth is not None:
            truth = within("truth", checked_boxes("truth", truth, (4,)), tuple(pixels.shape))
        elif weight != 0:
            raise ValueError("truth: expected a box, as loss is not 0")
        super().__init__(BoxScores(pixels, Place.of(pixels).floats(weight), truth))

    def best(self) -> tuple[Array, Array]:
        """Highest score () and a best box (4,); see :func:`best_boxes`. Raises InfeasibleError."""
        result = self.topk(1)
        return feasible(result.scores[0], "best"), result.labels[0, ...]

    def topk(self, k: int) -> KBest:
        """The k best boxes, labels (k, 4), padded (:class:`KBest`) if fewer are possible; see :func:`best_boxes`.

        Does not raise InfeasibleError: the count is 0 if every box is forbidden.
        """
        boxes, place = self.ops.best_boxes(self.scores, positive_k(k, 4)), Place.of(self.scores.pixels)
        values = np.array([float(self.score(y)) for y in boxes], dtype=np.float64)
        order = np.argsort(-values, kind="stable")
        return k_best(place.floats(values[order]), place.integers(boxes[order]), k)

    def among(self, boxes: Any) -> Table:
        """A :class:`Table` whose outputs 0..m-1 are these boxes (m, 4); it has every oracle, without a search.

        Raises ValueError, TypeError.
        """
        listed = within("boxes", checked_boxes("boxes", boxes), tuple(self.scores.pixels.shape))
        if listed.ndim != 2 or len(listed) == 0:
            raise ValueError(f"boxes: expected shape (m, 4) with m >= 1, got {listed.shape}")
        return Table(self.ops.listed_scores(self.scores, listed))

    def score(self, y: Any) -> Array:
        """Score () of a box (4,)."""
        top, left, bottom, right = (int(side) for side in self._checked(y))
        pixels = self.scores.pixels
        total = array_namespace(pixels).sum(pixels[top:bottom, left:right])
        return total if self.scores.truth is None else total + self.scores.loss * self._loss([top, left, bottom, right])

    def parts(self, y: Any) -> BoxScores:
        """Indicator of the pixels of a box (4,), and its 1 - IoU with the truth.

        Four times -1 means no box and has no parts. Raises ValueError.
        """
        place = Place.of(self.scores.pixels)
        sides = host(arrays.integers("y", y, place))
        inside = np.zeros(self.scores.pixels.shape)
        if sides.shape == (4,) and np.all(sides == -1):
            return BoxScores(place.floats(inside), place.floats(0.0), self.scores.truth)
        top, left, bottom, right = self._checked(sides)
        inside[top:bottom, left:right] = 1.0
        loss = 0.0 if self.scores.truth is None else self._loss(sides)
        return BoxScores(place.floats(inside), place.floats(loss), self.scores.truth)

    def augment(self, loss: BoxScores) -> Structure:
        """As :meth:`Structure.augment`; the truth of ``loss`` is used if these scores have none.

        Raises ValueError for another truth, and as the constructor does.
        """
        pixels, weight, truth = super().augment(loss).scores
        if truth is None:
            truth = loss.truth
        elif loss.truth is not None and not np.array_equal(loss.truth, truth):
            raise ValueError(f"loss: expected the truth {truth.tolist()}, got {loss.truth.tolist()}")
        return type(self)(pixels, weight, truth)

    def count(self) -> int:
        """The number of boxes that are not forbidden, as a Python int."""
        free = host(self.scores.pixels) > -np.inf
        total = 0
        for top in range(len(free)):
            columns = np.ones(free.shape[1], dtype=bool)
            for row in free[top:]:
                columns &= row
                ends = np.flatnonzero(np.diff(np.concatenate([[0], columns.astype(np.int8), [0]])))
                total += sum(n * (n + 1) // 2 for n in (ends[1::2] - ends[::2]).tolist())
        return total

    def enumerate(self) -> Iterator[tuple[int, int, int, int]]:
        """Every box that is not forbidden, in lexicographic order, as tuples."""
        free = host(self.scores.pixels) > -np.inf
        H, W = free.shape
        for top in range(H):
            for left in range(W):
                for bottom in range(top + 1, H + 1):
                    for right in range(left + 1, W + 1):
                        if free[top:bottom, left:right].all():
                            yield top, left, bottom, right

    def _loss(self, sides: Any) -> float:
        return 1.0 - float(overlap(np.asarray(sides, dtype=np.int64), self.scores.truth))

    def _checked(self, y: Any) -> np.ndarray:
        place = Place.of(self.scores.pixels)
        sides = checked_boxes("y", host(arrays.integers("y", y, place)), (4,))
        return within("y", sides, tuple(self.scores.pixels.shape))


def overlap(a: np.ndarray, b: Any) -> np.ndarray:
    """Intersection over union (...,) of boxes (..., 4)."""
    sides = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    common = np.prod(np.maximum(sides, 0).astype(np.float64), axis=-1)
    area_a, area_b = (np.prod((box[..., 2:] - box[..., :2]).astype(np.float64), axis=-1) for box in (a, b))
    ratio: np.ndarray = common / (area_a + area_b - common)
    return ratio


def checked_boxes(name: str, boxes: Any, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Validated boxes (..., 4), or of ``shape``, as int64 on the host. Raises ValueError, TypeError."""
    values = host(boxes, name)
    if values.size and values.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected integers, pixels, got {values.dtype}")
    if values.ndim < 1 or values.shape[-1] != 4 or (shape is not None and values.shape != shape):
        wanted = "(..., 4)" if shape is None else shape
        raise ValueError(f"{name}: expected boxes (top, left, bottom, right) of shape {wanted}, got {values.shape}")
    result = values.astype(np.int64)
    flat = result.reshape(-1, 4)
    for k in np.flatnonzero((flat[:, 0] >= flat[:, 2]) | (flat[:, 1] >= flat[:, 3]))[:1]:
        raise ValueError(f"{name}: expected boxes with top < bottom and left < right, got {flat[k].tolist()}")
    return result


def within(name: str, boxes: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The boxes (..., 4). Raises ValueError if one is not within an image of this shape."""
    flat = boxes.reshape(-1, 4)
    for k in np.flatnonzero((flat[:, :2] < 0).any(axis=1) | (flat[:, 2:] > np.array(shape)).any(axis=1))[:1]:
        raise ValueError(
            f"{name}: expected boxes within an image of {shape[0]} x {shape[1]} pixels, got {flat[k].tolist()}"
        )
    return boxes
