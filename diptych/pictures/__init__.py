"""Figures: convergence curves, paths, structures, words, binary pictures, boxes.

:func:`plot` and :func:`show` return figures of results and structures; :func:`notebook` draws them in notebooks. They
are imported when they are used, because commands need none of them.
"""

import importlib
from typing import Any

__all__ = ["notebook", "plot", "show"]
_HOMES = {"notebook": "notebooks", "plot": "notebooks", "show": "structures"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
