"""The two panels by name; commands and learners compute with one of them."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["PANELS", "panel_of"]

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
