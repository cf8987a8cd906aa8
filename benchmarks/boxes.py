"""Subwindow search beside scoring all boxes, and epochs over candidate boxes beside their matrix products, one core.

``python docs/figures.py candidates`` prints milliseconds and ratios: `figures`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import accelerated
from accelerated.threads import set_num_threads
from diptych.experiments.clock import best_of
from reference.algorithms import SGD, counterpart

NOISES = (0.0, 0.5, 1.0)  # standard deviation of the noise, beside scores of -1 and +1
IMAGES, CANDIDATES, SHAPE = 500, 200, (3, 3, 64)  # of the localisation task
MODEL = accelerated.CandidateModel(SHAPE)
SMOOTHINGS: dict[str, tuple[Any, float | None]] = {
    "max": (accelerated.smoothings.Max(), None),
    "10 best": (accelerated.smoothings.TopK(10), 1.0),
    "entropy": (accelerated.smoothings.Entropy(), 1.0),
}


def image(side: int, noise: float) -> np.ndarray:
    """Pixels of -1 with a region of +1, plus noise; the same in every run."""
    pixels = np.full((side, side), -1.0)
    pixels[side // 4 : side // 2, side // 3 : side // 2] = 1.0
    return pixels + noise * np.random.default_rng(0).normal(size=pixels.shape)


def every_box(pixels: np.ndarray) -> float:
    """The highest score of a box, by scoring all of them: differences of sums of columns, one pair of rows at a
    time.
    """
    H, W = pixels.shape
    sums = np.zeros((H + 1, W + 1))
    sums[1:, 1:] = pixels.cumsum(axis=0).cumsum(axis=1)
    left, right = np.triu_indices(W + 1, 1)
    return max(
        float(np.max((row := sums[bottom] - sums[top])[right] - row[left]))
        for top in range(H)
        for bottom in range(top + 1, H + 1)
    )


def boxes_of(side: int) -> int:
    """The number of boxes of an image."""
    return (side * (side + 1) // 2) ** 2


def candidates(model: Any = MODEL, images: int = IMAGES, **options: Any) -> Any:
    """Packed images of candidates with random features; the first candidate of each is the true one."""
    rng = np.random.default_rng(0)
    n = images * CANDIDATES
    corner = rng.integers(0, 80, (n, 2))
    boxes = np.concatenate([corner, corner + rng.integers(8, 48, (n, 2))], axis=1)
    features = rng.standard_normal((n, *SHAPE), dtype=np.float32)
    offsets = CANDIDATES * np.arange(images + 1)
    return model.pack(accelerated.Candidates(boxes, features, offsets), boxes[offsets[:-1]], **options)


def products(data: Any) -> Callable[[], None]:
    """The product of each image's features with weights, by NumPy in float32: the minimum work of an epoch."""
    features = np.array(data.features).reshape(IMAGES, CANDIDATES, -1)
    w = np.random.default_rng(1).standard_normal(features.shape[2], dtype=np.float32)

    def run() -> None:
        for i in range(IMAGES):
            features[i] @ w

    return run


def epoch(data: Any, smoothing: str) -> Callable[[], Any]:
    """One epoch of SGD from small weights."""
    kind, mu = SMOOTHINGS[smoothing]
    objective = accelerated.StructuralHinge(MODEL, data, smoothing=kind)
    box = counterpart(SGD(0.01, accelerated.steps.Constant(1e-4), mu), objective)
    state = box.init(objective, 0.01 * np.random.default_rng(3).normal(size=objective.model.size))
    order = np.random.default_rng(2).permutation(IMAGES)
    return lambda: box.sweep(objective, state, order)


class Search:
    """Seconds for the k best boxes."""

    params = ([60, 500], list(NOISES), [1, 10])
    param_names = ("side", "noise", "k")

    def setup(self, side: int, noise: float, k: int) -> None:
        self.boxes = accelerated.Boxes(image(side, noise))
        self.boxes.topk(k)

    def time_k_best(self, side: int, noise: float, k: int) -> None:
        self.boxes.topk(k)


class Epoch:
    """An epoch of SGD over 500 images of 200 candidates with 576 features."""

    params = (list(SMOOTHINGS),)
    param_names = ("smoothing",)
    timeout = 300

    def setup(self, smoothing: str) -> None:
        set_num_threads(1)
        data = candidates()
        self.run, self.base = epoch(data, smoothing), products(data)
        self.run()

    def time_epoch(self, smoothing: str) -> None:
        self.run()

    def track_ratio_to_products(self, smoothing: str) -> float:
        """An epoch in units of the products of the features with weights."""
        return best_of(self.run, 5) / best_of(self.base, 5)

    track_ratio_to_products.unit = "products"  # type: ignore[attr-defined]


def figures() -> Iterator[tuple[str, float, str, float | None]]:
    """Name, value, unit and target of each figure."""
    set_num_threads(1)
    small = best_of(lambda: every_box(image(60, 0.0)), 5)
    all_boxes = small * boxes_of(500) / boxes_of(60)
    yield "scoring all boxes, 60 x 60", 1e3 * small, "ms", None
    for noise in NOISES:
        boxes = accelerated.Boxes(image(500, noise))
        one, ten = best_of(boxes.best), best_of(lambda b=boxes: b.topk(10))
        yield f"best box, 500 x 500, noise {noise:g}", 1e3 * one, "ms", None
        yield f"best box / all boxes, 500 x 500, noise {noise:g}", one / all_boxes, "ratio", 1 / 50
        yield f"10 best boxes / best, 500 x 500, noise {noise:g}", ten / one, "ratio", 5.0
    data = candidates()
    base = products(data)
    for smoothing in SMOOTHINGS:
        run = epoch(data, smoothing)
        pairs = [(best_of(run, 3), best_of(base, 3)) for _ in range(5)]
        took, least = (min(each) for each in zip(*pairs, strict=True))
        products_due = 2 if smoothing == "entropy" else 1  # the gradient of the entropy is a product too
        yield f"epoch of SGD over candidates, {smoothing}", 1e3 * took, "ms", None
        yield f"epoch of SGD over candidates / its products, {smoothing}", took / (products_due * least), "ratio", 1.5
