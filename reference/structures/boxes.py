"""Boxes in images: rectangles of pixels, and how much two of them overlap.

A box is (top, left, bottom, right) in pixels, half-open: rows top..bottom-1, columns left..right-1. It has at least one pixel. Source:
Pillutla et al., section 7.1.2 (intersection over union, after Everingham et al., 2010).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from reference.arrays import host

__all__ = ["iou"]


def iou(a: Any, b: Any) -> np.ndarray:
    """Intersection over union of boxes: the number of pixels in both over the number of those in either.

    IoU(a, b) = |a and b| / |a or b|

    Parameters
    ----------
    a, b : int array (..., 4)
        Boxes (top, left, bottom, right), half-open; leading axes broadcast.

    Returns
    -------
    float64 array (...,)
        On the host, in [0, 1]: 1 for equal boxes alone.

    Raises
    ------
    ValueError, TypeError
        What is no box.

    Source
    ------
    Pillutla et al., section 7.1.2.

    Examples
    --------
    >>> float(iou([0, 0, 2, 2], [0, 1, 2, 3]))  # two pixels of six
    0.3333333333333333
    """
    a, b = checked_boxes("a", a), checked_boxes("b", b)
    both = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    common = np.prod(np.maximum(both, 0).astype(np.float64), axis=-1)
    of_a, of_b = (np.prod((box[..., 2:] - box[..., :2]).astype(np.float64), axis=-1) for box in (a, b))
    return common / (of_a + of_b - common)


def checked_boxes(name: str, boxes: Any, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Boxes (..., 4) as int64 on the host, of that shape if one is given. Raises ValueError, TypeError."""
    boxes = host(boxes) if is_array_api_obj(boxes) else np.asarray(boxes)
    if boxes.size and boxes.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected integers, pixels, got {boxes.dtype}")
    if boxes.ndim < 1 or boxes.shape[-1] != 4 or (shape is not None and boxes.shape != shape):
        wanted = "(..., 4)" if shape is None else shape
        raise ValueError(f"{name}: expected boxes (top, left, bottom, right) of shape {wanted}, got {boxes.shape}")
    boxes = boxes.astype(np.int64)
    flat = boxes.reshape(-1, 4)
    for k in np.flatnonzero((flat[:, 0] >= flat[:, 2]) | (flat[:, 1] >= flat[:, 3]))[:1]:
        raise ValueError(f"{name}: expected boxes with top < bottom and left < right, got {flat[k].tolist()}")
    return boxes
