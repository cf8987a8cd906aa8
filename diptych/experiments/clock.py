"""Wall-clock times of calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def best_of(run: Callable[[], Any], repeat: int = 15) -> float:
    """The least of several wall-clock times in seconds, after one call that is not timed."""
    run()
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)
