"""The test modules of the suite, by name."""

from __future__ import annotations

from functools import cache
from pathlib import Path

__all__ = ["HERE", "module_path"]

HERE = Path(__file__).parent


def module_path(name: str) -> Path:
    """The file of a test module, whatever folder it is in: names are unique over the suite.

    Raises
    ------
    LookupError
        No module has the name, or several have it.
    """
    paths = _paths().get(name, [])
    if len(paths) != 1:
        raise LookupError(f"{name}: expected one test module of this name in {HERE}, found {[str(p) for p in paths]}")
    return paths[0]


@cache
def _paths() -> dict[str, list[Path]]:
    paths: dict[str, list[Path]] = {}
    for path in sorted(HERE.rglob("test_*.py")):
        paths.setdefault(path.stem, []).append(path)
    return paths
