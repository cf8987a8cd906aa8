"""The data of several experiments: words and characters of the letters, synthetic classes of Zhang and Qiu (2019)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import accelerated
from reference.datasets import Sequences, load_letters

SIZES = {"syn1": (10000, 1000), "syn2": (10000, 10000), "syn3": (1000, 10000)}  # examples, features
QUICK_SIZES = {"syn1": (200, 500), "syn2": (200, 1000), "syn3": (100, 1000)}
QUICK_WORDS = 40
NAMES = (*SIZES, "letters")

# Table 1: seconds of the solver without screening, of screening, and of the solver with screening
PAPER = {
    "syn1": {"solver alone": 443.0, "screening": 12.0, "solver": 138.0, "speedup": 2.95},
    "syn2": {"solver alone": 1652.0, "screening": 16.0, "solver": 366.0, "speedup": 4.30},
    "syn3": {"solver alone": 3110.0, "screening": 30.0, "solver": 568.0, "speedup": 5.20},
    "letters": {"solver alone": 6723.0, "screening": 55.0, "solver": 1195.0, "speedup": 5.4},
}


def synthetic(n: int, d: int, rng: Any, classes: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Examples (n, d) and their classes (n,), by section 4.1 of the paper.

    The first 0.02 d features form one block for each class. In an example of class k, block k is drawn from
    N(1.5, 0.75) and the other blocks from N(0, 1). Each of the other 0.98 d features is drawn from N(0, 1) with
    probability 0.2, else it is 0. There are n/classes examples of each class, in order. 0.75 is the variance, as
    printed. The paper does not mention centring, scaling or a bias; there is none here.
    """
    rng = np.random.default_rng(rng)
    block, each = d // 50 // classes, n // classes
    if block < 1 or n % classes:
        raise ValueError(f"synthetic: expected n a multiple of {classes}, d >= {50 * classes}, got {n}, {d}")
    inside = classes * block
    X = np.empty((n, d))
    for k in range(classes):
        rows = X[k * each : (k + 1) * each]
        rows[:, :inside] = rng.normal(size=(each, inside))
        rows[:, k * block : (k + 1) * block] = rng.normal(1.5, np.sqrt(0.75), size=(each, block))
        kept = rng.random((each, d - inside)) < 0.2
        rows[:, inside:] = np.where(kept, rng.normal(size=kept.shape), 0.0)
    Y = np.repeat(np.arange(classes), each)
    return X, Y


@functools.cache
def handwritten_words(words: int | None = None) -> Sequences:
    """All words, or the first ``words`` of them."""
    data = load_letters()
    return data if words is None else data.take(np.arange(words))


def characters(words: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The pixels (N, 128) and the letters (N,) of all words, or of the first ``words`` of them."""
    data = handwritten_words(words)
    return np.concatenate(data.X), np.concatenate(data.Y)


def classes(X: np.ndarray, Y: np.ndarray, labels: int) -> Any:
    """The log loss of a model of classes, with a weight for each feature and class."""
    model = accelerated.MulticlassModel(X.shape[1], labels)
    return accelerated.LogLoss(model, model.pack(X, Y))


def named(name: str, *, quick: bool = False, rng: Any = 0) -> Any:
    """The log loss for one of the four data sets of Table 1.

    The paper does not say whether its letters are words or characters. Here they are characters, as classes.
    """
    if name == "letters":
        return classes(*characters(QUICK_WORDS if quick else None), 26)
    return classes(*synthetic(*(QUICK_SIZES if quick else SIZES)[name], rng), 10)
