"""Projections and proxes by selection into an existing array, one core, beside NumPy's sort, Michelot's
algorithm and a copy.

``python docs/figures.py selection`` prints ns per element for a million elements, the worst of three inputs:
`figures`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import accelerated
from accelerated.threads import set_num_threads
from diptych.experiments.clock import best_of

SIZES = [10**3, 10**6, 10**7]
INPUTS: dict[str, Callable[[int], np.ndarray]] = {
    "gaussian": lambda p: np.random.default_rng(0).normal(size=p),
    "constant": lambda p: np.full(p, 0.3),
    "one spike": lambda p: np.where(np.arange(p) == p // 3, 1e3, 0.0),
}


def simplex_by_sort(x: np.ndarray, out: np.ndarray, radius: float = 1.0) -> np.ndarray:
    """The projection by sorting, as usually written with NumPy."""
    y = np.sort(x)[::-1]
    theta = (np.cumsum(y) - radius) / np.arange(1, len(x) + 1)
    np.subtract(x, theta[np.flatnonzero(y > theta)[-1]], out=out)
    return np.maximum(out, 0.0, out=out)


def simplex_by_michelot(x: np.ndarray, out: np.ndarray, radius: float = 1.0) -> np.ndarray:
    """The projection by Michelot's algorithm (1986): drop what is below the threshold of the rest, until nothing is."""
    kept, theta = x, (x.sum() - radius) / len(x)
    while (above := kept > theta).sum() < len(kept):
        kept = kept[above]
        theta = (kept.sum() - radius) / len(kept)
    np.subtract(x, theta, out=out)
    return np.maximum(out, 0.0, out=out)


def functions(x: np.ndarray, out: np.ndarray) -> dict[str, Callable[[], Any]]:
    """The timed functions: name to a call that writes ``out``."""
    p, total = len(x), float(np.abs(x).sum())
    d = np.random.default_rng(1).random(p) + 0.1
    return {
        "copy": lambda: np.copyto(out, x),
        "sort": lambda: simplex_by_sort(x, out),
        "Michelot": lambda: simplex_by_michelot(x, out),
        "soft threshold": lambda: accelerated.soft_threshold(x, 0.5, out=out),
        "simplex": lambda: accelerated.project_simplex(x, 1.0, out=out),
        "simplex, 1 % of l1": lambda: accelerated.project_simplex(x, total / 100, out=out),
        "l1 ball": lambda: accelerated.project_l1_ball(x, 1.0, out=out),
        "l1 ball, 1 % of l1": lambda: accelerated.project_l1_ball(x, total / 100, out=out),
        "squared l1, lam = 1": lambda: accelerated.prox_squared_l1(x, 1.0, out=out),
        "squared l1, lam = 1/p": lambda: accelerated.prox_squared_l1(x, 1.0 / p, out=out),
        "weighted squared l1, lam = 1": lambda: accelerated.prox_weighted_squared_l1(x, d, 1.0, out=out),
        "weighted squared l1, lam = 1/p": lambda: accelerated.prox_weighted_squared_l1(x, d, 1.0 / p, out=out),
    }


NAMES = list(functions(np.ones(1), np.ones(1)))
TARGETS = {
    name: most
    for start, most in (("simplex", 4.0), ("l1 ball", 4.0), ("squared l1", 6.0), ("weighted", 12.0))
    for name in NAMES
    if name.startswith(start)
}


class Selections:
    """Seconds for one row."""

    params = (NAMES, list(INPUTS), SIZES)
    param_names = ("function", "input", "size")

    def setup(self, name, kind, p):
        set_num_threads(1)
        self.run = functions(INPUTS[kind](p), np.zeros(p))[name]
        self.run()

    def time_into_an_existing_array(self, name, kind, p):
        self.run()


def figures(p: int = 10**6, repeat: int = 30) -> dict[str, float]:
    """ns per element: the least of several repetitions, the worst of the three inputs."""
    set_num_threads(1)
    out, worst = np.zeros(p), dict.fromkeys(NAMES, 0.0)
    for make in INPUTS.values():
        for name, run in functions(make(p), out).items():
            worst[name] = max(worst[name], 1e9 * best_of(run, repeat) / p)
    set_num_threads(None)
    return worst
