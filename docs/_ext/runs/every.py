"""All that can be stepped through."""

from __future__ import annotations

from collections.abc import Callable

from runs import Run, chains, plane, spaces, sparse

RUNS: dict[str, Callable[[], Run]] = {**chains.RUNS, **plane.RUNS, **spaces.RUNS, **sparse.RUNS}  # by its statement
