"""Two-layer scores of candidate boxes: an epoch of SGD and a step of prox-linear beside the matrix product of all
features, on one core.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import accelerated
from accelerated.threads import set_num_threads
from benchmarks.boxes import SHAPE, candidates
from diptych.experiments.clock import best_of
from reference.linearized import LinearizedObjective, linearized
from reference.optimizers.prox_linear import regularised

IMAGES, HIDDEN = 100, 16
BUDGET = 5


def problem() -> tuple[accelerated.StructuralHinge, np.ndarray]:
    """Images of random candidates with float32 features and float32 weights, K = 10; and a starting point."""
    model = accelerated.TwoLayerModel(SHAPE, HIDDEN)
    data = candidates(model, IMAGES, like=np.zeros(0, np.float32))
    return accelerated.StructuralHinge(model, data, smoothing=accelerated.smoothings.TopK(10)), model.initial(data, 0)


def product(objective: accelerated.StructuralHinge, w: np.ndarray) -> float:
    """Seconds of all features times W1, image by image: the minimum work of any pass over hidden units."""
    first = objective.model.split(w)[0]
    tables = np.split(objective.data.features.reshape(-1, SHAPE[-1]), IMAGES)
    return best_of(lambda: [table @ first for table in tables], 5)


def sgd_epoch(objective: accelerated.StructuralHinge, w: np.ndarray) -> float:
    """Seconds of an epoch of SGD on the unsmoothed hinge, as measured by the history."""
    run = accelerated.sgd(objective, w, lam=0.01, mu=0.0, step_size=0.01, average="last", epochs=1, rng=0)
    return run.history[-1].seconds


def step(objective: accelerated.StructuralHinge, w: np.ndarray) -> tuple[float, int]:
    """Seconds and oracle calls of one step of prox-linear with five passes of Casimir-SVRG."""
    run = accelerated.prox_linear(objective, w, lam=0.01, mu=1.0, budget=BUDGET, iterations=1, rng=0)
    return run.history[-1].seconds, run.oracle_calls


def figures() -> Iterator[tuple[str, float, str, float | None]]:
    """Name, value, unit and target of each figure: the best of several runs."""
    set_num_threads(1)
    objective, w = problem()
    step(objective, w)
    base = product(objective, w)
    yield "two-layer scores: the hinge", best_of(lambda: regularised(objective, w, 0.01), 3) / base, "products", None
    yield (
        "two-layer scores: Jacobians written out",
        best_of(lambda: linearized(objective, w, w), 3) / base,
        "products",
        None,
    )
    written, implied = linearized(objective, w, w), LinearizedObjective(objective, w)
    for name, convex in (("written out", written), ("by products", implied)):
        took = best_of(lambda convex=convex: convex.value_and_gradient(convex.zeros(), None, 1.0), 3)
        yield f"linearised hinge, Jacobians {name}: full gradient", took / base, "products", None
    epoch = min(sgd_epoch(objective, w) for _ in range(3))
    yield "two-layer scores: epoch of SGD", epoch / base, "products", None
    took, calls = min(step(objective, w) for _ in range(3))
    yield f"prox-linear step, {BUDGET} passes, {calls} oracles", took / epoch, "epochs of SGD", None


class TwoLayers:
    """An epoch of SGD and a step of prox-linear over 100 images of 200 candidates, one core."""

    timeout = 300

    def setup(self) -> None:
        set_num_threads(1)
        self.objective, self.w = problem()
        step(self.objective, self.w)

    def track_sgd_epoch(self) -> float:
        """An epoch in units of the product of all features with W1."""
        return min(sgd_epoch(self.objective, self.w) for _ in range(3)) / product(self.objective, self.w)

    track_sgd_epoch.unit = "products"  # type: ignore[attr-defined]

    def track_step(self) -> float:
        """Seconds of a step of prox-linear."""
        return min(step(self.objective, self.w)[0] for _ in range(3))

    track_step.unit = "seconds"  # type: ignore[attr-defined]
