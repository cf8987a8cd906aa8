"""Inputs of the benchmarks, made once: batches of random chains, and the OCR letters."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from diptych.experiments.sparse_data import handwritten_words

PANELS = ["reference", "accelerated"]
SIZES = [(10, 26), (30, 50)]  # positions, labels
CHAINS = {"reference": 100, "accelerated": 1000, "numpy": 1000}


@functools.cache
def scores(n: int, L: int, chains: int) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian unary (chains, n, L) and pairwise (L, L)."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(chains, n, L)), rng.normal(size=(L, L))


def chain_batch(panel: str, size: tuple[int, int]) -> Any:
    """A batch of chains as the panel's structure."""
    return importlib.import_module(panel).Chain(*scores(*size, CHAINS[panel]))


def objective(panel: str, loss: str, words: int | None = None) -> Any:
    """``LogLoss`` or ``StructuralHinge`` of a packed sequence model over the letters."""
    module, data = importlib.import_module(panel), handwritten_words(words)
    model = module.SequenceModel(128, data.labels)
    return getattr(module, loss)(model, model.pack(data.X, data.Y))


@functools.cache
def weights(words: int | None = None) -> np.ndarray:
    """Weights of a trained model: two epochs of SGD on the log loss."""
    return (
        importlib.import_module("accelerated")
        .sgd(objective("accelerated", "LogLoss", words), lam=0.001, epochs=2, rng=0)
        .x
    )
