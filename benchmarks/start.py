"""The cost of the first use in a fresh process: imports, and the first call with and without compiled kernels on
disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

TRAIN = ["-m", "diptych", "train", "letters", "--epochs", "1", "--limit", "300", "--quiet"]


def seconds(arguments: list[str], cache: str | None = None) -> float:
    """Wall-clock seconds of a Python process, with its kernels cached in ``cache``."""
    environment = dict(os.environ) if cache is None else dict(os.environ, NUMBA_CACHE_DIR=cache)
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environment)
    return time.perf_counter() - started


def first_train(cold: bool) -> float:
    """Seconds of ``train`` on 300 words in a fresh process, with an empty or a filled kernel cache."""
    with tempfile.TemporaryDirectory() as cache:
        once = seconds(TRAIN, cache)
        return once if cold else min(seconds(TRAIN, cache) for _ in range(3))


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
