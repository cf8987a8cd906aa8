"""First calls of a fresh installation: a process each, with an empty cache of kernels; seconds of the call alone.

``python docs/figures.py first_calls`` prints them: `figures`.
"""

from __future__ import annotations

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
    with tempfile.TemporaryDirectory() as cache:
        environment = dict(os.environ, NUMBA_CACHE_DIR=cache)
        program = before + TIMED.format(call=call)
        run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, env=environment)
    return float(run.stdout)


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
