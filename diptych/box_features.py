"""Features of boxes in a grey image: the strengths of edges and strokes, by direction and width, in each cell of a grid
over the box.

They replace the paper's convolutional features, which come from a network trained on a million photographs (Pillutla et
al., section 7.1.2). Fixed filters in NumPy give h x w x C numbers for each box.
"""

from __future__ import annotations

import functools
import math

import numpy as np


def filter_responses(image: np.ndarray, directions: int = 8, scales: int = 4) -> np.ndarray:
    """Edges and strokes in a grey image (H, W): (H, W, C), C = 2 directions scales, all >= 0.

    The filters are derivatives of a Gaussian of width sigma = 2^(s/2), s = 0, ..., scales - 1, with pixels of the
    border repeated beyond the border. For each sigma the channels are:

    - edges: sigma times the length of the gradient times max(0, cos)^2, cos of the angle between the gradient and
      direction k of ``directions`` around the full circle;
    - strokes that are darker than their sides: sigma^2 times the positive part of the second derivative along direction
      k of ``directions`` around half the circle.
    """
    image = np.asarray(image, dtype=np.float64)
    responses = np.empty((*image.shape, 2 * directions * scales))
    channels = iter(range(responses.shape[2]))
    for s in range(scales):
        sigma = 2.0 ** (s / 2)
        rows, columns = ([_derivative(n, sigma, order) for order in range(3)] for n in image.shape)

        def along(a: int, b: int, rows: list[np.ndarray] = rows, columns: list[np.ndarray] = columns) -> np.ndarray:
            response: np.ndarray = rows[a] @ image @ columns[b].T
            return response

        down, right = along(1, 0), along(0, 1)
        length = np.hypot(down, right)
        unit = np.where(length > 0, length, 1.0)
        for k in range(directions):
            angle = 2 * math.pi * k / directions
            cosine = (math.sin(angle) * down + math.cos(angle) * right) / unit
            responses[:, :, next(channels)] = length * np.maximum(cosine, 0.0) ** 2
        dd, dr, rr = along(2, 0), along(1, 1), along(0, 2)
        for k in range(directions):
            y, x = math.sin(math.pi * k / directions), math.cos(math.pi * k / directions)
            responses[:, :, next(channels)] = np.maximum(y * y * dd + 2 * x * y * dr + x * x * rr, 0.0)
    return responses


def box_features(responses: np.ndarray, boxes: np.ndarray, grid: tuple[int, int] = (3, 3)) -> np.ndarray:
    """(m, h, w, C) float32: the mean of each channel of responses (H, W, C) in each cell of a grid over each box.

    The features of a box are scaled to root mean square 1, or are all 0. boxes: (m, 4) of (top, left, bottom, right),
    rows top..bottom-1 and columns left..right-1. The cells of a box are of equal size; a pixel on their border counts
    by its share inside. O(H W C + m h w C).
    """
    boxes = np.asarray(boxes, dtype=np.float64)
    sums = np.zeros((responses.shape[0] + 1, responses.shape[1] + 1, responses.shape[2]))
    np.cumsum(np.cumsum(responses, axis=0), axis=1, out=sums[1:, 1:])
    (h, w), (top, left, bottom, right) = grid, boxes.T[:, :, None]
    y = top + (bottom - top) * np.arange(h + 1) / h
    x = left + (right - left) * np.arange(w + 1) / w
    corners = _interpolated(sums, y[:, :, None], x[:, None, :])
    cells = np.diff(np.diff(corners, axis=1), axis=2)
    means = np.maximum(cells, 0.0) / ((bottom - top) * (right - left) / (h * w))[:, :, None, None]
    size = np.sqrt(np.mean(means**2, axis=(1, 2, 3), keepdims=True))
    features: np.ndarray = (means / np.where(size > 0, size, 1.0)).astype(np.float32)
    return features


@functools.lru_cache(maxsize=64)
def _derivative(n: int, sigma: float, order: int) -> np.ndarray:
    """The matrix (n, n) of Gaussian smoothing and sigma^order times the order-th derivative, along n pixels; pixels at
    the ends are repeated.
    """
    radius = math.ceil(4 * sigma)
    t = np.arange(-radius, radius + 1)
    smooth = np.exp(-0.5 * (t / sigma) ** 2)
    smooth /= smooth.sum()
    weights = {0: smooth, 1: t / sigma * smooth, 2: ((t / sigma) ** 2 - 1) * smooth}[order]
    if order == 2:
        weights -= smooth * weights.sum()  # the response to a constant is 0
    matrix = np.zeros((n, n))
    for offset, weight in zip(t, weights, strict=True):
        matrix[np.arange(n), np.clip(np.arange(n) + offset, 0, n - 1)] += weight
    matrix.flags.writeable = False
    return matrix


def _interpolated(sums: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Sums (H + 1, W + 1, C) over the pixels above and left of the points (y, x), interpolated linearly."""
    y0, x0 = (np.minimum(np.floor(v).astype(np.int64), n - 2) for v, n in zip((y, x), sums.shape, strict=False))
    fy, fx = (y - y0)[..., None], (x - x0)[..., None]
    above = sums[y0, x0] * (1 - fx) + sums[y0, x0 + 1] * fx
    below = sums[y0 + 1, x0] * (1 - fx) + sums[y0 + 1, x0 + 1] * fx
    values: np.ndarray = above * (1 - fy) + below * fy
    return values
