"""Tests of the tests: backends with one known mistake each, and the proof that the suite catches it.

``conformance.meta.NAME`` is a backend for each class NAME of :mod:`conformance.meta.mistakes`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import accelerated
import reference

MISTAKES: dict[str, ModuleType] = {}


def _backend(mistake: type) -> ModuleType:
    """The names of the panel that the mistake is made in, but for those that it replaces."""
    module = ModuleType(f"{__name__}.{mistake.__name__}", mistake.__doc__)
    module.__file__ = sys.modules[mistake.__module__].__file__
    base = getattr(mistake, "base", accelerated)
    names = {name: getattr(base, name) for name in reference.__all__ if hasattr(base, name)}
    own = {name: value for name, value in vars(mistake).items() if name in names or name.startswith("__conformance_")}
    vars(module).update(names | own)
    return module


_MODULE = importlib.import_module(f"{__name__}.mistakes")
for _name, _mistake in vars(_MODULE).items():
    if isinstance(_mistake, type) and _mistake.__module__ == _MODULE.__name__ and _name.islower():
        MISTAKES[_name] = sys.modules[f"{__name__}.{_name}"] = _backend(_mistake)
