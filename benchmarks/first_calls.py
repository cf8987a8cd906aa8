"""First calls of a fresh installation: a process each, with an empty cache of kernels; seconds of the call alone.

``python docs/figures.py first_calls`` prints them: `figures`. ``compiling`` prints how much a first call compiles, and
the share of LLVM: `compiled`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

CHAIN = """
import numpy as np
import accelerated as sp
rng = np.random.default_rng(0)
u, A = rng.normal(size=(10, 26)), rng.normal(size=(26, 26))
"""
SEQUENCES = """
import numpy as np
import accelerated as sp
rng = np.random.default_rng(0)
X = [rng.normal(size=(int(n), 8)) for n in rng.integers(3, 8, 12)]
Y = [rng.integers(0, 4, len(x)).tolist() for x in X]
model = sp.SequenceModel(8, 4)
data = model.pack(X, Y)
hinge, log = sp.StructuralHinge(model, data), sp.LogLoss(model, data)
top = sp.StructuralHinge(model, data, smoothing=sp.smoothings.TopK(5))
"""
KERNELS = """
import numpy as np
import accelerated as sp
rng = np.random.default_rng(0)
X = [rng.normal(size=(int(n), 8)) for n in rng.integers(3, 8, 12)]
Y = [rng.integers(0, 4, len(x)).tolist() for x in X]
model = sp.KernelSequenceModel([sp.kernels.Linear(), sp.kernels.Gaussian(2.0)], 4)
data = model.pack(X, Y)
"""
TIMED = """
import time
started = time.perf_counter()
{call}
print(time.perf_counter() - started)
"""
COUNTED = """
import collections, json, time
from llvmlite.binding import ffi
from numba.core import event
compiled, seconds, call = collections.Counter(), 0.0, ffi._lib_fn_wrapper.__call__
class Listener(event.Listener):
    def on_start(self, what):
        compiled[what.data["dispatcher"].py_func] += 1
    def on_end(self, what):
        pass
def timed(self, *given, **named):
    global seconds
    started = time.perf_counter()
    try:
        return call(self, *given, **named)
    finally:
        seconds += time.perf_counter() - started
event.register("numba:compile", Listener())
ffi._lib_fn_wrapper.__call__ = timed
started = time.perf_counter()
{call}
print(json.dumps([sum(compiled.values()), len(compiled), seconds / (time.perf_counter() - started)]))
"""
CALLS = {  # preparation, call, target in seconds
    "Chain(u, A).best()": (CHAIN, "sp.Chain(u, A).best()", 1.7),
    "Chain(u, A).topk(5)": (CHAIN, "sp.Chain(u, A).topk(5)", 3.5),
    "Chain(u, A).expectation()": (CHAIN, "sp.Chain(u, A).expectation()", 4.3),
    "sgd, hinge": (SEQUENCES, "sp.sgd(hinge, lam=0.1, epochs=2, rng=0)", 4.8),
    "sgd, log loss": (SEQUENCES, "sp.sgd(log, lam=0.1, epochs=2, rng=0)", 10.6),
    "bcfw": (SEQUENCES, "sp.bcfw(hinge, lam=0.1, epochs=2, rng=0)", 9.5),
    "lbfgs": (SEQUENCES, "sp.lbfgs(log, lam=0.1)", 8.3),
    "exponentiated_gradient": (SEQUENCES, "sp.exponentiated_gradient(log, lam=0.1, epochs=2, rng=0)", 12.6),
    "casimir, top-5": (SEQUENCES, "sp.casimir(top, lam=0.1, epochs=2, rng=0)", 17.0),
    "mkl": (KERNELS, "sp.mkl(model, data, lam=0.1, step_size=0.1, epochs=2, rng=0)", 11.7),
}


def first_call(name: str) -> float:
    """Seconds of a call in a process that finds no compiled kernel."""
    before, call, _ = CALLS[name]
    return float(_cold(before + TIMED.format(call=call)))


def compiled(name: str) -> tuple[int, int, float]:
    """Of a first call: how many compilations it makes, of how many functions, and the share of its time in LLVM."""
    before, call, _ = CALLS[name]
    times, functions, share = json.loads(_cold(before + COUNTED.replace("{call}", call)))
    return times, functions, share


def _cold(program: str) -> str:
    """What a program prints in a process that finds no compiled kernel."""
    with tempfile.TemporaryDirectory() as cache:
        environment = dict(os.environ, NUMBA_CACHE_DIR=cache)
        run = subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, env=environment, text=True
        )
    return run.stdout


class FirstCalls:
    """Seconds of first calls."""

    params = list(CALLS)
    param_names = ("call",)
    timeout = 300

    def track_seconds(self, call: str) -> float:
        return first_call(call)

    track_seconds.unit = "seconds"


def figures() -> Iterator[tuple[str, float, str, float | None]]:
    """Name, value, unit and target of each figure."""
    for name in CALLS:
        yield f"first call, {name}", first_call(name), "s", CALLS[name][2]


def compiling_figures() -> Iterator[tuple[str, float, str]]:
    """Name, value and unit of each figure."""
    for name in CALLS:
        times, functions, share = compiled(name)
        yield f"{name}: functions compiled", functions, "functions"
        yield f"{name}: compilations", times, "compilations"
        yield f"{name}: in LLVM", share, "of the time"
