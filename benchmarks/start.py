"""The cost of the first use in a fresh process: imports, and the first call with and without compiled kernels on
disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

TRAIN = ["-m", "diptych", "train", "letters", "--epochs", "1", "--limit", "300", "--quiet"]


def seconds(arguments: list[str], cache: str | None = None, folder: str | None = None) -> float:
    """Wall-clock seconds of a Python process in ``folder``, with its kernels cached in ``cache``."""
    environment = dict(os.environ, PYTHONPATH=str(Path(__file__).parents[1]))
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environment, cwd=folder)
    return time.perf_counter() - started


def first_train(cold: bool) -> float:
    """Seconds of ``train`` on 300 words in a fresh process, with an empty or a filled kernel cache."""
    with tempfile.TemporaryDirectory() as cache:
        once = seconds(TRAIN, cache)
        return once if cold else min(seconds(TRAIN, cache) for _ in range(3))


def figures() -> Iterator[tuple[str, float, str, float | None]]:
    """Name, value, unit and target of each figure: imports less an empty process, the first training, the demo."""
    empty = min(seconds(["-c", "pass"]) for _ in range(7))
    for modules, most in (
        ("accelerated", 0.5),
        ("numba", None),
        ("reference", 0.2),
        ("numpy, array_api_compat", None),
    ):
        imported = min(seconds(["-c", f"import {modules}"]) for _ in range(7))
        yield f"import {modules}", imported - empty, "s", most
    yield "first train (300 words) in a fresh process, warm kernel cache", first_train(cold=False), "s", 3.0
    yield "first train (300 words) in a fresh process, cold kernel cache", first_train(cold=True), "s", 45.0
    yield "diptych demo, cold kernel cache", demo(), "s", 45.0


def demo() -> float:
    """Seconds of ``diptych demo`` with an empty kernel cache."""
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as folder:
        return seconds(["-m", "diptych", "demo"], cache, folder)


class FirstCall:
    """Seconds in fresh processes."""

    timeout = 300

    def track_import(self, panel):
        return min(seconds(["-c", f"import {panel}"]) for _ in range(3))

    track_import.params = ["reference", "accelerated"]
    track_import.param_names = ("panel",)
    track_import.unit = "seconds"

    def track_first_train(self, cache):
        return first_train(cold=cache == "cold")

    track_first_train.params = ["cold", "warm"]
    track_first_train.param_names = ("cache",)
    track_first_train.unit = "seconds"
