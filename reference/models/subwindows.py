"""Localisation over all boxes of an image: the score of a box is the sum of its pixels' scores.

    score(y; w) = sum over the pixels p of y of <w, x_p>,   loss(y) = 1 - IoU(y, y_true)

The best boxes are found by efficient subwindow search. Source: Pillutla et al., section 4.2.2, after Lampert et al.
(2008): a pixel has the visual word of its local feature, or none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from array_api_compat import array_namespace

import reference.arrays
from reference.arrays import Array, Place, Rows, floats, host, integer
from reference.example_errors import each_example
from reference.models.base import LinearModel, RowsOfEach, checked, given, one_for_each, only, sound, zero_at_truth
from reference.packed import check_indices
from reference.structures.answered import Oracle
from reference.structures.boxes import Boxes, BoxScores, checked_boxes, within

__all__ = ["SubwindowData", "SubwindowModel"]


@dataclass(frozen=True, eq=False, repr=False)
class SubwindowData(RowsOfEach):
    """Packed images: features of the pixels (H W, F), row by row, and sides (H, W) of each image; the true boxes (n, 4)
    on the host, or None.
    """

    features: tuple[Rows, ...]
    sides: tuple[tuple[int, int], ...]
    truth: np.ndarray | None

    def validate(self) -> None:
        """Raise unless each image has a row for each pixel, and contains its true box."""
        if len(self.sides) != len(self.features):
            raise ValueError(f"sides: expected {len(self.features)} pairs, one for each image, got {len(self.sides)}")
        for i, (rows, (H, W)) in enumerate(zip(self.features, self.sides, strict=True)):
            integer(f"sides[{i}]", H, 1), integer(f"sides[{i}]", W, 1)
            if checked(f"features[{i}]", rows, Rows).n != H * W:
                raise ValueError(
                    f"features[{i}]: expected {H * W} rows, one for each of {H} x {W} pixels, got {rows.n}"
                )
        if self.truth is not None:
            check_indices("truth", self.truth, (len(self.features), 4))
            for i, box in enumerate(self.truth):
                within(f"truth[{i}]", checked_boxes(f"truth[{i}]", box, (4,)), self.sides[i])


class SubwindowModel(LinearModel):
    """Finds the best of all boxes of an image by a linear score of its pixels' features.

    score(y; w) = sum over the pixels p of y of <w, x_p>

    Outputs are boxes (top, left, bottom, right), half-open; the task loss is 1 - IoU with the true box.

    Parameters
    ----------
    n_features : int
        Number of features F of a pixel, or of visual words.
    oracle : callable, optional
        Used instead of ``Boxes.best`` in training and prediction: from BoxScores to (value, box), with value -inf if
        every output is forbidden. Model files do not store it.

    Attributes
    ----------
    size : int
        Number of weights F.

    Examples
    --------
    >>> import numpy as np
    >>> from reference import SubwindowModel
    >>> model = SubwindowModel(2)
    >>> data = model.pack([np.array([[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 0, 0]])])  # visual words
    >>> model.predict(data, None, np.array([-1.0, 2.0]))[0].tolist()
    [1, 1, 3, 3]

    Source
    ------
    Pillutla et al., sections 4.2.2 and 7.1.2.
    """

    structure_type: Any = Boxes
    packed_type = SubwindowData
    arrays: ModuleType = reference.arrays

    def __init__(self, n_features: int, *, oracle: Oracle | None = None) -> None:
        self.size = self.n_features = integer("n_features", n_features, 1)
        self._answer_by(oracle)

    def pack(self, X: Any, Y: Any = None, *, like: Array | None = None) -> SubwindowData:
        """Images and their true boxes, checked.

        Parameters
        ----------
        X : sequence of n arrays
            Features (H, W, F) of each pixel, floats; or visual words (H, W), integers in 0..F-1, or -1 for none.
        Y : sequence of n boxes (4,), optional
            Integers, within the image.
        like : array, optional
            Namespace, device and dtype to compute in; default NumPy float64.

        Returns
        -------
        SubwindowData

        Raises
        ------
        ValueError, TypeError
            Naming the image.
        """
        images = each_example("X", X, lambda name, x: self._image(name, x, like))
        sides = tuple(shape for _, shape in images)
        if Y is None:
            return SubwindowData(tuple(rows for rows, _ in images), sides, None)
        Y = one_for_each(Y, len(images), "boxes", "image of X")
        truth = each_example("Y", Y, lambda name, y: within(name, checked_boxes(name, y, (4,)), sides[name.example]))
        return SubwindowData(tuple(rows for rows, _ in images), sides, np.array(truth, dtype=np.int64).reshape(-1, 4))

    def _sizes(self, data: SubwindowData) -> Iterable[tuple[str, int, int]]:
        return [("features", rows.width, self.size) for rows in data.features]

    def scores(self, data: SubwindowData, batch: np.ndarray, w: Array) -> BoxScores:
        """The scores of one image (batch of one) at weights w (d,): pixels (H, W), no loss."""
        i = only(batch)
        pixels = self.arrays.gather_sum(data.features[i], w[:, None])
        truth = None if data.truth is None else data.truth[i]
        pixels = array_namespace(w).reshape(pixels, data.sides[i])
        return sound(BoxScores(pixels, data.place.floats(0.0), truth), w)

    def pullback(self, data: SubwindowData, batch: np.ndarray, w: Array, g: BoxScores) -> Array:
        """The adjoint of :meth:`scores`: a gradient with respect to the scores of one image, as one (d,) in the
        weights.
        """
        pixels = array_namespace(w).reshape(g.pixels, (-1, 1))
        return self.arrays.scatter_sum(data.features[only(batch)], pixels)[:, 0]

    @zero_at_truth
    def task_loss(self, data: SubwindowData, batch: np.ndarray) -> BoxScores:
        """1 - IoU with the true box, as scores to add: no pixels, and the weight 1."""
        i, place = only(batch), data.place
        return BoxScores(place.zeros(data.sides[i]), place.floats(1.0), self._true(data, i))

    def gold(self, data: SubwindowData, batch: np.ndarray) -> BoxScores:
        """The indicator of the true box's pixels, shaped like the scores."""
        loss = self.task_loss(data, batch)
        return Boxes.unchecked(loss).parts(Place.of(loss.pixels).integers(loss.truth))

    def counts(self, data: SubwindowData) -> list[int]:
        """H (H + 1) W (W + 1) / 4 for each image."""
        return [H * (H + 1) // 2 * (W * (W + 1) // 2) for H, W in data.sides]

    def squared_diameters(self, data: SubwindowData) -> np.ndarray:
        """(sum_p ||x_p||)^2 for each image: two boxes differ by the pixels that only one of them contains."""
        squares = [np.bincount(host(rows.row_ids()), host(rows.data).astype(np.float64) ** 2) for rows in data.features]
        return np.array([np.sum(np.sqrt(each)) ** 2 for each in squares])

    def _image(self, name: str, x: Any, like: Array | None) -> tuple[Rows, tuple[int, int]]:
        """The rows of an image's pixels, and its sides."""
        x = host(x, name)
        words = x.dtype.kind in "iu" and x.ndim == 2
        if x.ndim != (2 if words else 3) or 0 in x.shape[:2]:
            raise ValueError(
                f"{name}: expected features (H, W, {self.size}) or integers, visual words, (H, W), with H, W >= 1, "
                f"got {x.dtype} of shape {x.shape}"
            )
        H, W = x.shape[:2]
        if not words:
            (x,) = floats(**{name: x})
            return Rows.of(x.reshape(H * W, -1), width=self.size, like=like, name=name), (H, W)
        if x.min() < -1 or x.max() >= self.size:
            raise ValueError(
                f"{name}: expected visual words in 0..{self.size - 1}, or -1 for none, got {x.min()}..{x.max()}"
            )
        return Rows.of([[word] if word >= 0 else [] for word in x.ravel().tolist()], width=self.size, like=like), (H, W)

    def _true(self, data: SubwindowData, i: int) -> np.ndarray:
        box: np.ndarray = given(data.truth, "true boxes")[i]
        return box

    def _split(self, data: SubwindowData, piece: np.ndarray, outputs: Array) -> list[np.ndarray]:
        return [host(outputs)]
