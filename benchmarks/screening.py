"""Sparse classifiers on the OCR letters as characters: a path of solutions and its pieces. Work counts do not depend on
the machine's load.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np

import accelerated
from accelerated.threads import set_num_threads
from diptych.experiments.sparse_data import SIZES, synthetic

WORDS, COUNT, TOLERANCE = 1500, 10, 1e-5
TARGETS = {8e-4: 10.0, 1e-6: 25.0}  # seconds of the path over all letters to these gaps
SOLVERS = ("newton", "gradient")
RULES = ("none", "l1 gap")


def objective(words: int | None = WORDS) -> Any:
    """The log loss of the characters of some words, or of all, with 128 pixels and 26 classes."""
    data = accelerated.load_letters()
    data = data if words is None else data.take(np.arange(words))
    model = accelerated.MulticlassModel(128, data.labels)
    return accelerated.LogLoss(model, model.pack(np.concatenate(list(data.X)), np.concatenate(list(data.Y))))


def path(loss: Any, solver: str, rule: str) -> Any:
    """Ten values to a relative gap of 1e-5, with solver and rule given by their names here."""
    algorithm = accelerated.ProximalNewton() if solver == "newton" else accelerated.AcceleratedProximalGradient()
    screening = accelerated.L1GapRule() if rule == "l1 gap" else None
    return accelerated.sparse_path(loss, count=COUNT, tol=TOLERANCE, solver=algorithm, rule=screening)


def figures() -> Iterator[tuple[str, float, str, float | None]]:
    """Name, value, unit and target of each figure: all letters as characters, 100 values of beta, the lasso."""
    set_num_threads(1)
    path(objective(20), "newton", "l1 gap")  # compiles the kernels
    whole = objective(None)
    for tol, target in TARGETS.items():
        curve = accelerated.sparse_path(whole, alpha=0.0, tol=tol)
        yield f"sparse path, 52,152 letters, 100 values, alpha = 0, to a gap of {tol:g}", curve.seconds, "s", target


class SparsePath:
    """A path over the characters of 1,500 words."""

    params = (SOLVERS, RULES)
    param_names = ("solver", "rule")

    def setup(self, solver: str, rule: str) -> None:
        set_num_threads(1)
        self.objective = objective()
        self.path = path(self.objective, solver, rule)

    def time_path(self, solver: str, rule: str) -> None:
        path(self.objective, solver, rule)

    def track_iterations(self, solver: str, rule: str) -> int:
        return sum(point.iterations for point in self.path.points)

    def track_oracle_calls(self, solver: str, rule: str) -> float:
        return sum(point.oracle_calls for point in self.path.points) / self.objective.n

    def track_work(self, solver: str, rule: str) -> float:
        """The share of active weights, over all iterations."""
        work, iterations = (sum(getattr(p, name) for p in self.path.points) for name in ("work", "iterations"))
        return work / (self.path.size * iterations)

    def track_screening_share(self, solver: str, rule: str) -> float:
        """The share of screening in the seconds."""
        return sum(point.screening_seconds for point in self.path.points) / self.path.seconds

    track_iterations.unit = "iterations"  # type: ignore[attr-defined]
    track_oracle_calls.unit = "calls an example"  # type: ignore[attr-defined]
    track_work.unit = track_screening_share.unit = "share"  # type: ignore[attr-defined]


class Memory:
    """A solve at a tenth of beta_max, on the synthetic classes of Zhang and Qiu (2019)."""

    params = (("syn1", "syn3"), RULES)
    param_names = ("data", "rule")

    def setup(self, data: str, rule: str) -> None:
        X, Y = synthetic(*SIZES[data], rng=0)
        model = accelerated.MulticlassModel(X.shape[1], 10)
        self.objective = accelerated.LogLoss(model, model.pack(X, Y))
        self.beta = 0.1 * accelerated.beta_max(self.objective)

    def track_peak(self, data: str, rule: str) -> float:
        """What the arrays take at most beside the data, which are 80 MB."""
        screening = accelerated.L1GapRule() if rule == "l1 gap" else None
        solver = accelerated.AcceleratedProximalGradient()
        tracemalloc.start()
        accelerated.solve_sparse(self.objective, beta=self.beta, rule=screening, solver=solver)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak / 1e6

    track_peak.unit = "MB"  # type: ignore[attr-defined]


class Products:
    """One call each of the product, the product back and inference, at weights of which a tenth, a third or all are
    active.
    """

    params = (0.1, 0.33, 1.0)
    param_names = ("active",)

    def setup(self, active: float) -> None:
        whole = accelerated.ElasticNetCRF(objective(), alpha=1.0, beta=1.0)
        rng = np.random.default_rng(0)
        self.scored = whole.reduced(np.flatnonzero(rng.random(whole.size) < active)).scored
        self.w = rng.normal(size=len(self.scored.row))
        self.Z = self.scored.forward(self.w)
        self.moment = self.scored.loss_and_gradient(self.Z).moment

    def time_forward(self, active: float) -> None:
        self.scored.forward(self.w)

    def time_back(self, active: float) -> None:
        self.scored.back(self.moment)

    def time_loss(self, active: float) -> None:
        self.scored.loss(self.Z)
