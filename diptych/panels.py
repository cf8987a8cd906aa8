"""The two panels by name; commands and learners compute with one of them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

PANELS = ("reference", "accelerated")


def panel_of(panel: str | ModuleType) -> ModuleType:
    """The module of a name, ``"reference"`` or ``"accelerated"``; a module is returned unchanged.

    Raises
    ------
    ValueError
        Any other name or object.
    """
    if isinstance(panel, ModuleType):
        return panel
    if not isinstance(panel, str) or panel not in PANELS:
        raise ValueError(f"panel: expected 'reference' or 'accelerated', or one of these modules, got {panel!r:.80}")
    return importlib.import_module(panel)


def slow_path(panel: ModuleType, optimizer: str, objective: Any, options: Mapping[str, Any]) -> str:
    """Why a run of an optimiser of the compiled panel is not compiled, in a line; "" if it is."""
    return str(panel.uncompiled(objective, optimizer, options)) if hasattr(panel, "uncompiled") else ""
