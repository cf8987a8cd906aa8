"""Callbacks of golden runs: they stop a run, and record their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

__all__ = ["stopped", "watched"]

HOW = ("true", "stop iteration", "interrupt")


class Watch:
    """Writes down each row's epoch and its weights; stops the run from row number ``last`` on, in a way of HOW."""

    def __init__(self, last: int | None = None, how: str = "true") -> None:
        self.last, self.how = last, how
        self.epochs: list[int] = []
        self.weights: list[Any] = []

    def __call__(self, row: Any, w: Any) -> bool | None:
        self.epochs.append(row.epoch)
        self.weights.append(np.array(w) if isinstance(w, np.ndarray) else w)
        if self.last is None or len(self.epochs) < self.last:
            return None
        if self.how == "stop iteration":
            raise StopIteration
        if self.how == "interrupt":
            raise KeyboardInterrupt
        return True


def stopped(name: str, run: partial[Any], last: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The run, stopped by its callback after a number of rows, in each way."""
    for how in HOW:
        yield f"{name}/callback={how}", partial(run, callback=Watch(last, how))


def watched(run: partial[Any]) -> Callable[[], Any]:
    """The run, with the arguments of its callback."""

    def both() -> dict[str, Any]:
        watch = Watch()
        return {"result": run(callback=watch), "epochs": watch.epochs, "weights": watch.weights}

    return both
