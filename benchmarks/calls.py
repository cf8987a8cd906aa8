"""One call on one small structure, from plain arrays and of a structure made before, beside SciPy and PyMaxflow.

``python docs/figures.py calls`` prints microseconds: `figures`.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

import accelerated
from accelerated.threads import set_num_threads
from benchmarks import cuts

Call = Callable[[], Any]


def chain() -> dict[str, Call]:
    """Ten positions, 26 labels."""
    rng = np.random.default_rng(0)
    unary, pairwise = rng.normal(size=(10, 26)), rng.normal(size=(26, 26))
    made = accelerated.Chain(unary, pairwise)
    return {
        "Chain(u, A).best()": lambda: accelerated.Chain(unary, pairwise).best(),
        "chain.best()": made.best,
        "chain.expectation()": made.expectation,
        "chain.topk(5)": lambda: made.topk(5),
    }


def others() -> dict[str, Call]:
    """A tree of 12 nodes and 4 labels, a grid of 4 x 4 pixels, dependency trees of 12 tokens."""
    rng = np.random.default_rng(0)
    unary, pairwise, parents = rng.normal(size=(12, 4)), rng.normal(size=(4, 4)), np.arange(-1, 11) // 2
    parents[0] = -1
    arcs, grid = rng.normal(size=(12, 13)), cuts.grid(4, 0.5)
    return {
        "Tree(u, A, parents).best()": lambda: accelerated.Tree(unary, pairwise, parents).best(),
        "Cut(u, A, edges).best()": lambda: accelerated.Cut(*grid).best(),
        "Arborescence(v).best()": lambda: accelerated.Arborescence(arcs).best(),
    }


def least() -> dict[str, Call]:
    """The smallest structures, whose kernels have next to nothing to do: what a call takes above its kernel."""
    one = np.zeros((1, 1))
    none = np.zeros((0, 2, 2)), np.zeros((0, 2), np.int64)
    return {
        "Tree of one node": lambda: accelerated.Tree(one, one, np.array([-1])).best(),
        "Cut of one variable": lambda: accelerated.Cut(np.zeros((1, 2)), *none).best(),
        "Arborescence of one token": lambda: accelerated.Arborescence(np.zeros((1, 2))).best(),
        "Matching of one row": lambda: accelerated.Matching(one).best(),
    }


def matching(p: int) -> dict[str, Call]:
    """p rows and columns, uniform scores."""
    values = np.random.default_rng(0).random((p, p))
    return {
        f"Matching(v).best(), p={p}": lambda: accelerated.Matching(values).best(),
        f"SciPy, p={p}": lambda: linear_sum_assignment(values, maximize=True),
    }


def calls() -> dict[str, Call]:
    """All calls, by what a reader would type."""
    each = chain() | others() | least() | matching(5) | matching(20) | matching(50)
    grid = cuts.grid(4, 0.5)
    try:
        cuts.by_pymaxflow(*grid)
    except ImportError:
        print("  PyMaxflow is not installed: no time of it", file=sys.stderr)
        return each
    return each | {"PyMaxflow, the same grid": lambda: cuts.by_pymaxflow(*grid)}


def microseconds(call: Call) -> float:
    """The least time of a call, over 15 loops of about 10 ms."""
    call()
    once = timeit.Timer(call)
    number = max(1, int(0.01 / max(once.timeit(20) / 20, 1e-7)))
    return 1e6 * min(once.repeat(15, number)) / number


class OneCall:
    """Seconds of one call, one core."""

    params = [
        *chain(),
        *others(),
        *least(),
        *(name for p in (5, 20, 50) for name in matching(p)),
        "PyMaxflow, the same grid",
    ]
    param_names = ("call",)

    def setup(self, call: str) -> None:
        set_num_threads(1)
        self.run = calls().get(call)
        if self.run is None:
            raise NotImplementedError("PyMaxflow is not installed")  # tells asv to skip
        self.run()

    def time_call(self, call: str) -> None:
        self.run()


def figures() -> Iterator[tuple[str, float, str, float | None]]:
    """Name, value, unit and target of each figure."""
    targets = {
        "Chain(u, A).best()": 20.0,
        "chain.best()": 10.0,
        "chain.expectation()": 25.0,
        "chain.topk(5)": 25.0,
        **dict.fromkeys(least(), 15.0),
    }
    seconds = {}
    for name, call in calls().items():
        seconds[name] = microseconds(call)
        yield name, seconds[name], "us", targets.get(name)
    for p, most in ((5, None), (20, 1.0), (50, 1.0)):
        yield (
            f"Matching / SciPy, p={p}",
            seconds[f"Matching(v).best(), p={p}"] / seconds[f"SciPy, p={p}"],
            "ratio",
            most,
        )
