"""The speed of the fast panel, one table from one run: ``python -m benchmarks.figures [--json]``.

Minimum of several repetitions; one thread (BLAS included) unless the line says two. Time nothing else meanwhile.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy loads its BLAS

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from typing import Any

import accelerated
from accelerated.threads import set_num_threads
from benchmarks import baselines, problems
from benchmarks.start import first_train


def best_of(run: Callable[[], Any], repeat: int = 15) -> float:
    """The least of several wall-clock times, in seconds, after one call that does not count."""
    run()
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)


def measure() -> list[dict[str, Any]]:
    """One row for each figure: what, seconds (or a ratio), unit, target."""
    rows: list[dict[str, Any]] = []

    def add(what: str, value: float, unit: str, target: float | None = None, at_least: bool = False) -> None:
        met = None if target is None else (value >= target if at_least else value <= target)
        rows.append({"what": what, "value": value, "unit": unit, "target": target, "at_least": at_least, "met": met})
        print(f"  {what}: {value:.4g} {unit}", file=sys.stderr)

    set_num_threads(1)
    for (n, L), most in zip([(10, 26), (30, 50), (100, 26), (7, 9)], [1.4, 9.0, None, None], strict=True):
        scores = problems.scores(n, L, 1000)
        chain = accelerated.Chain(*scores)
        add(f"Viterbi, n={n}, L={L}", best_of(chain.best) * 1e3, "us a chain", most)
        add(
            f"Viterbi, n={n}, L={L}, vectorised NumPy",
            best_of(lambda s=scores: baselines.viterbi(*s), 3) * 1e3,
            "us a chain",
        )
        ours = best_of(chain.expectation)
        theirs = best_of(lambda s=scores: baselines.forward_backward(*s))
        add(f"forward-backward, n={n}, L={L}", ours * 1e3, "us a chain")
        add(f"forward-backward, n={n}, L={L}, scaled BLAS in NumPy", theirs * 1e3, "us a chain")
        add(f"forward-backward / scaled BLAS, n={n}, L={L}", ours / theirs, "ratio", 1.0 if L >= 20 else None)

    w = problems.weights()
    for loss, most in (("StructuralHinge", 0.04), ("LogLoss", 0.08)):
        objective = problems.objective("accelerated", loss)
        runs = [accelerated.sgd(objective, w, lam=0.001, epochs=1, rng=0).history[-1].seconds for _ in range(7)]
        add(f"SGD epoch over all letters, {loss}", min(runs), "s", most)
    objective = problems.objective("accelerated", "LogLoss")
    one = best_of(lambda: objective.value_and_gradient(w))
    add("full CRF gradient over all letters", one, "s", 0.06)
    set_num_threads(2)
    two = best_of(lambda: objective.value_and_gradient(w))
    set_num_threads(1)
    add("full CRF gradient, two threads", two, "s")
    add("full CRF gradient, speed-up by the second thread", one / two, "times", 1.5, at_least=True)
    add("tagging all letters", best_of(lambda: objective.model.predict(objective.data, None, w)), "s", 0.04)
    set_num_threads(None)
    add("first train (300 words) in a fresh process, warm kernel cache", first_train(cold=False), "s", 3.0)
    add("first train (300 words) in a fresh process, cold kernel cache", first_train(cold=True), "s", 45.0)
    return rows


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    rows = measure()
    if as_json:
        print(json.dumps({"machine": platform.machine(), "cores": os.cpu_count(), "figures": rows}, indent=2))
        return
    print("| figure | measured | target |\n|---|---|---|")
    for row in rows:
        bound = (
            ""
            if row["target"] is None
            else f"{'>=' if row['at_least'] else '<='} {row['target']:g}{'' if row['met'] else ' (missed)'}"
        )
        print(f"| {row['what']} | {row['value']:.3g} {row['unit']} | {bound} |")


if __name__ == "__main__":
    main()
