"""A run of one optimiser on one class of scenes, with the settings of Pillutla et al. (2018), section 7.2.

The objective is the mean hinge over candidate boxes with loss 1 - IoU, plus lam/2 ||w||^2, lam = c/n. The smoothing is
squared l2 by the K best candidates (section 7.3).
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import accelerated
from diptych.commands.localize import find, judged, packed
from diptych.distributed import Runs
from diptych.experiments.casimir_runs import described, record_of
from diptych.experiments.localization_plan import K, Sizes
from diptych.files.localization import load_localization, save_localization
from diptych.scenes import make_scenes
from reference.training.result import Row


class Run(NamedTuple):
    """Settings of a run: a method with its options, a class, lam = c/n, the seed of orders and starts, and sizes."""

    method: str
    name: str
    c: float
    options: dict[str, Any]
    rng: int
    sizes: Sizes


class Problem:
    """The training and test images of one class, and the objective over them for scores of one or two layers."""

    def __init__(self, folder: Path, name: str, sizes: Sizes, layers: int) -> None:
        both = [_scenes(folder, name, sizes, test) for test in (False, True)]
        shape = both[0].features.shape[1:]
        self.model = accelerated.CandidateModel(shape) if layers == 1 else accelerated.TwoLayerModel(shape)
        self.data, self.test = (packed(self.model, data, np.arange(data.n), truth=True) for data in both)
        self.truth, self.n = both[1].required("truth"), self.data.n
        self.hinge = accelerated.StructuralHinge(self.model, self.data)

    def smoothed(self, k: int = K) -> Any:
        """The hinge, smoothed by its k best candidates."""
        return accelerated.StructuralHinge(self.model, self.data, smoothing=accelerated.smoothings.TopK(k))

    def scores(self, w: np.ndarray) -> dict[str, float]:
        """CorLoc and average precision on the test images."""
        return judged(self.truth, find(self.model, self.test, w))


def _scenes(folder: Path, name: str, sizes: Sizes, test: bool) -> Any:
    """The scenes of a class, made if the file does not exist."""
    n = sizes.test_images if test else sizes.images
    settings: dict[str, Any] = {"classes": name, "candidates": sizes.candidates, "test": test, "rng": 0}
    path = folder / f"scenes-{name}-{n}-{sizes.candidates}{'-test' if test else ''}.boxes"
    if not path.exists():
        print(f"  {path}: {n} scenes", file=sys.stderr, flush=True)
        save_localization(path, make_scenes(n, **settings), [name], {"scenes": settings})
    return load_localization(path)


def perform(problem: Problem, run: Run) -> dict[str, Any]:
    """Run and return a record with a row for each pass (of prox-linear: for each step)."""

    def steps(row: Row) -> int:
        return row.epoch * int(run.options.get("budget", 1)) * int(problem.n)

    record = record_of(problem, run, run.sizes.passes, steps, problem.scores, ["corloc", "average_precision"])
    return record | {"sizes": run.sizes._asdict()}


class Source(NamedTuple):
    """The folder of the scenes, and the number of layers of the scores."""

    folder: Path
    layers: int


def runs_of(folder: Path, layers: int) -> Runs:
    """Runs in this process, one at a time, because seconds are compared."""
    kept = folder / "localization-runs.jsonl"
    source = Source(folder, layers)

    return Runs(
        functools.partial(_perform, source),
        kept,
        key=lambda run: [layers, run._asdict()],
        describe=lambda run, record: described(f"{run.name}, {run.method}", run, record),
    )


def _perform(source: Source, run: Run) -> dict[str, Any]:
    return perform(_problem(source, run.name, run.sizes._replace(passes=0, repeats=0)), run)


@functools.lru_cache(maxsize=1)
def _problem(source: Source, name: str, sizes: Sizes) -> Problem:
    """The problem of a class. sizes: with 0 passes and repeats, so that all runs of the class share the problem."""
    return Problem(source.folder, name, sizes, source.layers)
