"""What the commands share: progress, where to write, one report as text or JSON."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from reference.app import plots
from reference.optimizers.result import Row

__all__ = ["Progress", "announce_compilation", "print_report", "writable"]


class Progress:
    """The callback of a run: a tqdm bar on a terminal, nothing elsewhere."""

    def __init__(self, epochs: int | None, quiet: bool, what: str = "train") -> None:
        self.bar = None
        if not quiet and sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=epochs, desc=what, unit="epoch", leave=False)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.bar is not None:
            self.bar.close()

    def __call__(self, row: Row, w: Any) -> None:
        if self.bar is not None:
            self.bar.update(row.epoch - self.bar.n)
            self.bar.set_postfix(objective=f"{row.objective:.4f}")


def writable(*paths: str | None) -> None:
    """Refuse before a long run what could not be written after it."""
    for path in paths:
        if path is not None and not Path(path).absolute().parent.is_dir():
            raise ValueError(f"{path}: no such folder: {Path(path).absolute().parent}")
        if path is not None and Path(path).is_dir():
            raise ValueError(f"{path}: is a folder")
    if paths and paths[-1] is not None:
        plots.require_matplotlib()


def announce_compilation(panel: ModuleType) -> None:
    """Say on stderr that kernels are about to be compiled, where a panel has some that are not."""
    cold = getattr(panel, "kernels_are_cold", None)
    if cold is not None and cold():
        print("compiling kernels, once for this version of diptych (up to a minute) ...", file=sys.stderr)


def print_report(options: argparse.Namespace, report: dict[str, Any], lines: list[str]) -> None:
    """The report as one JSON object with ``--json``, else the lines."""
    if options.json:
        print(json.dumps(_jsonable(report), allow_nan=False))
    else:
        print("\n".join(lines))


def _jsonable(x: Any) -> Any:
    """nan and infinities as null: JSON has no word for them."""
    if isinstance(x, dict):
        return {key: _jsonable(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return [_jsonable(value) for value in x]
    return None if isinstance(x, float) and not math.isfinite(x) else x
