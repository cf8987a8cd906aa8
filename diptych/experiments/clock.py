"""Times of calls, by the clock and of the processor, which other processes hardly change; lines of measurements."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

Line = tuple[str, float, str]  # what is measured, its number, its unit


def best_of(run: Callable[[], Any], repeat: int = 15) -> float:
    """The least of several wall-clock times in seconds, after one call that is not timed."""
    run()
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of a call, and its result."""
    started = time.process_time()
    result = run()
    return time.process_time() - started, result


def least_seconds(run: Callable[[], Any], repeat: int = 5) -> float:
    """The least of several processor times in seconds, after one call that is not timed."""
    run()
    return min(timed(run)[0] for _ in range(repeat))
