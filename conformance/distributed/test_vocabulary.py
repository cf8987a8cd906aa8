"""The model of a tagger from partitions, against that from all sentences at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from conformance.tolerances import close
from diptych.distributed import Partitioned, tagging_model

TEMPLATES = ["bias", "word[-1..1]", "tag|word", "tag[-1]|tag[0]"]


@dataclass(frozen=True)
class Sentences:
    """Drawn sentences, one of them empty."""

    seed: int

    def __call__(self) -> tuple[list[Any], list[Any]]:
        rng = np.random.default_rng(self.seed)
        lengths = [0, *rng.integers(1, 6, size=4).tolist()]
        X = [{name: [f"{name}{i}" for i in rng.integers(0, 7, n)] for name in ("word", "tag")} for n in lengths]
        return X, [[f"L{i}" for i in rng.integers(0, 2 + self.seed, n)] for n in lengths]


LOADERS = [Sentences(seed) for seed in (2, 0, 1)]


def together():
    X, Y = [], []
    for load in LOADERS:
        x, y = load()
        X, Y = X + x, Y + y
    return X, Y


@pytest.mark.parametrize("least", [1, 2])
@pytest.mark.parametrize("pairs", ["observed", "all"])
def test_it_has_the_weights_of_all_sentences(sp, pairs, least):
    (X, Y) = together()
    one = sp.TaggingModel.of(X, Y, TEMPLATES, pairs=pairs, least=least)
    parts = tagging_model(sp, LOADERS, TEMPLATES, pairs=pairs, least=least)
    assert parts.labels == one.labels and parts.size == one.size and set(parts.vocabulary) == set(one.vocabulary)
    loss = Partitioned(LOADERS, parts, sp.LogLoss)
    best = sp.lbfgs(loss, lam=0.1, tol=1e-8)
    close(best.fun, sp.lbfgs(sp.LogLoss(one, one.pack(X, Y)), lam=0.1, tol=1e-8).fun)


@pytest.mark.parametrize("pairs", ["observed", "all"])
def test_hashed_attributes_have_the_weights_of_all_sentences(sp, pairs):
    (X, Y) = together()
    for bits in (4, 9):
        one = sp.TaggingModel.of(X, Y, TEMPLATES, pairs=pairs, bits=bits)
        parts = tagging_model(sp, LOADERS, TEMPLATES, pairs=pairs, bits=bits)
        assert parts.settings() == one.settings()


def test_threads_find_the_same_model(sp):
    once = tagging_model(sp, LOADERS, TEMPLATES).settings()
    with ThreadPoolExecutor(3) as pool:
        assert tagging_model(sp, LOADERS, TEMPLATES, pool).settings() == once


def test_wrong_arguments_are_named(sp):
    with pytest.raises(ValueError, match="^pairs: expected observed or all"):
        tagging_model(sp, LOADERS, TEMPLATES, pairs="some")
    with pytest.raises(ValueError, match="^least: "):
        tagging_model(sp, LOADERS, TEMPLATES, least=0)
    with pytest.raises(ValueError, match="^templates: "):
        tagging_model(sp, LOADERS, ["word["])
    with pytest.raises(ValueError, match="^Y: expected names of labels"):
        tagging_model(sp, [lambda: ([{"word": ["a"], "tag": ["b"]}], [[0]])], TEMPLATES)
    with pytest.raises(ValueError, match="^partition 0 .* 1 tokens have 2 labels"):
        tagging_model(sp, [lambda: ([{"word": ["a"], "tag": ["b"]}], [["X", "Y"]])], TEMPLATES)
