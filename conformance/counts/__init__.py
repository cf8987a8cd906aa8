"""Counts of work, compared with recorded values. Unlike times, they do not depend on the machine's load.

``python -m conformance.counts`` prints each count beside its kept value, ``record`` keeps the new ones. The suite fails
where they differ, in either direction. ``within`` is how much rounding may move a count on another processor: 0 for
operations and bytes, some epochs for runs that end at a gap. Seconds are in ``benchmarks/`` and fail nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import accelerated
import reference
from conformance.counting import Counted, counted
from diptych.distributed.partitions import nbytes_of
from reference.datasets import load_letters

__all__ = ["COUNTS", "KEPT", "Count", "compared", "kept"]

KEPT = Path(__file__).parent / "kept.json"


class Count(NamedTuple):
    """measure: counts the work; unit: the unit of the count; within: the relative change that rounding may cause; warm:
    whether a process that has compiled its kernels can measure it quickly.
    """

    measure: Callable[[], float]
    unit: str
    within: float = 0.0
    warm: bool = True


def kept() -> dict[str, float]:
    """The values in the repository."""
    values: dict[str, float] = json.loads(KEPT.read_text(encoding="utf-8"))
    return values


def compared(found: dict[str, float]) -> list[dict[str, object]]:
    """The counts beside their kept values, and whether each is as kept."""
    old = kept()
    return [
        {
            "count": name,
            "unit": COUNTS[name].unit,
            "value": value,
            "kept": old.get(name),
            "same": name in old and abs(value - old[name]) <= COUNTS[name].within * old[name],
        }
        for name, value in found.items()
    ]


def _calls(within: float, learner: str, loss: Callable[..., object], **options: object) -> Count:
    """Calls of the oracle by a learner, on 200 handwritten words."""

    def measure() -> float:
        words = load_letters().take(np.arange(200))
        model = accelerated.SequenceModel(words.X[0].shape[1], words.labels)
        objective = loss(model, model.pack(words.X, words.Y))
        return float(getattr(accelerated, learner)(objective, lam=0.01, **options).oracle_calls)

    return Count(measure, "oracle calls", within)


def _work(oracle: Callable[[reference.Structure], object], tree: bool = False) -> Callable[[], float]:
    """Entries that an oracle of the reference works on: 30 positions, 10 labels."""

    def measure() -> float:
        rng = np.random.default_rng(0)
        unary, pairwise = counted(rng.normal(size=(30, 10))), counted(rng.normal(size=(10, 10)))
        parents = (np.arange(30) - 1) // 2
        structure = reference.Tree(unary, pairwise, parents) if tree else reference.Chain(unary, pairwise)
        return Counted.during(lambda: oracle(structure))

    return measure


def _tagger() -> tuple[accelerated.TaggingModel, object]:
    """Of 300 sentences of 12 words with the frequencies of Zipf's law, from 2,000 words."""
    rng = np.random.default_rng(0)
    share = 1.0 / np.arange(1, 2001)
    rows = rng.choice(2000, size=(300, 12), p=share / share.sum())
    X, Y = [{"word": [f"w{i}" for i in row]} for row in rows], [[f"t{i % 9}" for i in row] for row in rows]
    model = accelerated.TaggingModel.of(X, Y, ["bias", "word[-1..1]", "word[0]|word[1]"])
    return model, model.pack(X, Y)


def _screened() -> float:
    """Active weights summed over iterations, over those without screening: 60 words, 5 values of beta."""
    words = load_letters().take(np.arange(60))
    model = accelerated.SequenceModel(words.X[0].shape[1], words.labels)
    loss = accelerated.LogLoss(model, model.pack(words.X, words.Y))
    options = {"count": 5, "ratio": 0.2, "tol": 1e-4}
    work = [
        sum(point.work for point in accelerated.sparse_path(loss, rule=rule, **options).points)
        for rule in (accelerated.L1GapRule(), None)
    ]
    return work[0] / work[1]


COMPILED = """
import numpy as np
from numba.core import event
import accelerated, reference

event.register("numba:compile", recorder := event.RecordingListener())
rng = np.random.default_rng(0)
{calls}
print(len(recorder.buffer) // 2)  # begun and ended
"""
SGD = """
model = accelerated.SequenceModel(3, 2)
data = model.pack([rng.normal(size=(4, 3)) for _ in range(5)], [[0, 1, 1, 0]] * 5)
accelerated.sgd(accelerated.StructuralHinge(model, data), lam=0.1, step_size=0.1, epochs=1, rng=0)
"""


def _compiled(calls: str) -> Callable[[], float]:
    """Specialisations that these calls compile in a fresh process with no cache."""

    def measure() -> float:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", COMPILED.format(calls=calls)]
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        return float(done.stdout)

    return measure


CHAIN = "accelerated.Chain(rng.normal(size=(4, 3)), rng.normal(size=(3, 3)))"
HINGE, LOG = accelerated.StructuralHinge, accelerated.LogLoss
TOP_5 = partial(HINGE, smoothing=accelerated.smoothings.TopK(5))
COUNTS: dict[str, Count] = {
    "bcfw to a gap of 0.05": _calls(0.05, "bcfw", HINGE, tol=0.05, epochs=300, rng=0),
    "exponentiated_gradient to a gap of 0.01": _calls(0.05, "exponentiated_gradient", LOG, tol=0.01, epochs=300, rng=0),
    "lbfgs to a gradient of 1e-4": _calls(0.1, "lbfgs", LOG, tol=1e-4, iterations=500),
    "casimir with top-5 to a gap of 0.5": _calls(0.1, "casimir", TOP_5, tol=0.5, epochs=200, rng=0),
    "max-product on a chain": Count(_work(lambda structure: structure.best()), "entries"),
    "sum-product on a chain": Count(_work(lambda structure: structure.expectation()), "entries"),
    "5 best of a chain": Count(_work(lambda structure: structure.topk(5)), "entries"),
    "max-product on a tree": Count(_work(lambda structure: structure.best(), tree=True), "entries"),
    "a packed token": Count(lambda: nbytes_of(_tagger()[1]) / 3600, "bytes"),
    "weights of a tagger": Count(lambda: float(_tagger()[0].size), "weights"),
    "screening on a path": Count(_screened, "of no screening", 0.05),
    **{
        name: Count(_compiled(calls), "specialisations", warm=False)
        for name, calls in {
            "Chain.best": f"{CHAIN}.best()",
            "Chain.expectation": f"{CHAIN}.expectation()",
            "sgd with the hinge": SGD,
        }.items()
    },
}
