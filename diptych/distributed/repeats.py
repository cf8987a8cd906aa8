"""A count, on the Dask scheduler, of the tasks that ran again because their worker was lost."""

from __future__ import annotations

from typing import Any

from distributed import SchedulerPlugin

__all__ = ["NAME", "Repeats", "count"]

NAME = "diptych-repeats"


class Repeats(SchedulerPlugin):  # type: ignore[misc, unused-ignore]
    """A scheduler plugin that counts these tasks."""

    name = NAME

    def __init__(self) -> None:
        self.count = 0

    def transition(self, key: Any, start: str, finish: str, *args: Any, **options: Any) -> None:
        """A task that leaves its worker without a result runs again."""
        self.count += start == "processing" and finish in ("released", "waiting")


def count(dask_scheduler: Any) -> int | None:
    """The count so far; None if the plugin is not installed."""
    plugin = dask_scheduler.plugins.get(NAME)
    return None if plugin is None else plugin.count
