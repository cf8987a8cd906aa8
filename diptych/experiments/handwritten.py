"""The words of the OCR letters, read once and cached."""

from __future__ import annotations

import functools

import numpy as np

from reference.datasets import Sequences, load_letters


@functools.cache
def handwritten_words(words: int | None = None) -> Sequences:
    """All words, or the first ``words`` of them."""
    data = load_letters()
    return data if words is None else data.take(np.arange(words))
