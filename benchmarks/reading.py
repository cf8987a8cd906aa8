"""The calls and files of ``reference`` that a debugger steps through before the first SVRG step of Casimir."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import reference
from reference import algorithms

ROOT = Path(reference.__file__).parent


class FirstStep(Exception):
    """Raised when the pass begins."""


def walked(run: Callable[[], Any]) -> list[str]:
    """The file of each call of a Python function of ``reference`` until SVRG's pass begins."""
    files: list[str] = []

    def seen(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event != "call" or ROOT not in path.parents:
            return
        if frame.f_code.co_qualname == "SVRG.sweep":
            raise FirstStep
        files.append(path.relative_to(ROOT).as_posix())

    sys.setprofile(seen)
    try:
        run()
    except FirstStep:
        return files
    finally:
        sys.setprofile(None)
    raise RuntimeError("no pass of SVRG was made")


class Reading:
    """Two sequences of two labels, entropy smoothing."""

    def setup(self) -> None:
        rng = np.random.default_rng(0)
        model = reference.SequenceModel(2, 2)
        data = model.pack([rng.normal(size=(3, 2)), rng.normal(size=(2, 2))], [[0, 1, 0], [1, 1]])
        self.hinge = reference.StructuralHinge(model, data, smoothing=reference.smoothings.Entropy())

    def by_hand(self) -> list[str]:
        w0, rng = self.hinge.zeros(), np.random.default_rng(0)

        def run() -> None:
            schedule, inner = algorithms.Corollary17(0.1, 0.1, 1.0), algorithms.OnePass(algorithms.SVRG(), 0.1)
            box = algorithms.Casimir(schedule, inner)
            box.epoch(self.hinge, box.init(self.hinge, w0), rng)

        return walked(run)

    def track_calls_in_optimizers_and_bounds(self) -> int:
        return sum(file.startswith(("optimizers/", "bounds/")) for file in self.by_hand())

    def track_calls(self) -> int:
        return len(self.by_hand())

    def track_files(self) -> int:
        return len(set(self.by_hand()))

    def track_calls_of_the_function(self) -> int:
        options = {"lam": 0.1, "mu": 1.0, "kappa": 0.1, "step_size": 0.1, "rng": 0}
        return len(walked(lambda: reference.casimir(self.hinge, **options)))
