"""``python -m conformance.plain_kernels lines|bytes``: what calls of kernels take, counted in kernels that are Python.

Kernels are plain loops over arrays: the lines that run in their modules count their work, and ``tracemalloc`` sees the
arrays that they make. So this process of its own makes the decorators of kernels do nothing, reads jobs as JSON, lists
[structure, p, L, k, oracle] of STRUCTURES and ORACLES, and prints for each the lines that ran in kernels, or the most
bytes that the call held.
"""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

__all__ = ["ORACLES", "STRUCTURES", "peak"]

ORACLES: dict[str, Callable[[Any, int], Any]] = {
    "max": lambda structure, k: structure.best(),
    "topk": lambda structure, k: structure.topk(k),
    "exp": lambda structure, k: structure.expectation(0.7),
    "max_marginals": lambda structure, k: structure.max_marginals(),
    "node_max_marginals": lambda structure, k: structure.node_max_marginals(),
}
PARENTS: dict[str, Callable[[int], Any]] = {
    "path": lambda p: np.arange(p) - 1,
    "binary": lambda p: (np.arange(p) - 1) // 2,
    "star": lambda p: np.where(np.arange(p) > 0, 0, -1),
}


def shared(p: int, L: int, put: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Scores of p nodes with L labels, and one matrix of pairwise scores."""
    rng = np.random.default_rng(p * L)
    return put(rng.normal(size=(p, L))), put(rng.normal(size=(L, L)))


def ring(sp: Any, p: int) -> Any:
    """A supermodular cycle."""
    rng = np.random.default_rng(p)
    unequal, pairwise = -rng.uniform(size=p), np.zeros((p, 2, 2))
    pairwise[:, 0, 1] = pairwise[:, 1, 0] = unequal
    return sp.Cut(rng.normal(size=(p, 2)), pairwise, [(v, (v + 1) % p) for v in range(p)])


def long_paths(sp: Any, p: int) -> Any:
    """A matching whose scores make each augmenting path long."""
    noise = np.random.default_rng(p).uniform(size=(p, p))
    return sp.Matching(1e-3 * noise - np.outer(np.arange(1.0, p + 1), np.arange(1.0, p + 1)))


STRUCTURES: dict[str, Callable[..., Any]] = {
    "chain": lambda sp, p, L, put=np.asarray: sp.Chain(*shared(p, L, put)),
    **{
        name: lambda sp, p, L, put=np.asarray, of=of: sp.Tree(*shared(p, L, put), of(p)) for name, of in PARENTS.items()
    },
    "ring": lambda sp, p, L=2: ring(sp, p),
    "matching": lambda sp, p, L=2: long_paths(sp, p),
}


def peak(run: Callable[[], Any]) -> tuple[Any, int]:
    """What a call returns, and the most bytes that it held."""
    tracemalloc.start()
    try:
        return run(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def lines(run: Callable[[], Any]) -> int:
    """The lines of kernels that run in a call."""
    count = 0

    def line(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def entered(frame: Any, event: str, argument: Any) -> Any:
        return line if "accelerated/compiled/" in frame.f_code.co_filename.replace("\\", "/") else None

    sys.settrace(entered)
    try:
        run()
    finally:
        sys.settrace(None)
    return count


def uncompiled() -> Any:
    """The accelerated panel, with plain functions for kernels."""
    compiler: Any = import_module("accelerated.kernel")
    compiler.kernel = compiler.inlined = _plain
    arithmetic: Any = import_module("accelerated.compiled.arithmetic")
    arithmetic.muladd = lambda x, y, z: x * y + z
    reductions: Any = import_module("accelerated.compiled.reductions")
    reductions.plus, reductions.maximum = (lambda x, y: x + y), max
    return import_module("accelerated")


def _plain(function: Any) -> Any:
    function.py_func = function
    return function


if __name__ == "__main__":
    panel, counts = uncompiled(), []
    for name, p, L, k, oracle in json.load(sys.stdin):
        structure, ask = STRUCTURES[name](panel, p, L), ORACLES[oracle]
        ask(STRUCTURES[name](panel, 4, 4), k)  # what is imported on first use
        run = lambda structure=structure, ask=ask, k=k: ask(structure, k)  # noqa: E731
        counts.append(lines(run) if sys.argv[1] == "lines" else peak(run)[1])
    print(json.dumps(counts))
