"""Counts, on the Dask scheduler, of the workers that were lost, and of the tasks that ran again because of it."""

from __future__ import annotations

from typing import Any

from distributed import SchedulerPlugin

NAME = "diptych-repeats"


class Repeats(SchedulerPlugin):  # type: ignore[misc, unused-ignore]
    """A scheduler plugin that counts these tasks and workers."""

    name = NAME

    def __init__(self) -> None:
        self.count = self.lost = 0

    async def start(self, scheduler: Any) -> None:
        """The plugin has been registered."""
        self.scheduler = scheduler

    def remove_worker(self, *args: Any, **options: Any) -> None:
        """A worker has ended."""
        self.lost += 1

    def transition(self, key: Any, start: str, finish: str, *args: Any, **options: Any) -> None:
        """A task that leaves its worker without a result runs again, unless its result is no longer needed."""
        if start == "processing" and finish in ("released", "waiting"):
            task = self.scheduler.tasks.get(key)
            self.count += task is not None and bool(task.who_wants or task.waiters)


def count(dask_scheduler: Any) -> int | None:
    """The count so far; None if the plugin is not installed."""
    plugin = dask_scheduler.plugins.get(NAME)
    return None if plugin is None else plugin.count


def lost(dask_scheduler: Any) -> int:
    """The number of workers that ended so far."""
    return int(dask_scheduler.plugins[NAME].lost)
