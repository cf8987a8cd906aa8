"""Diptych's fast panel: the names of ``reference``, with compiled kernels where they matter."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import reference as _reference
from accelerated.mirror import inherit_docstrings

__version__ = "0.1.0"

if getattr(_reference, "__version__", None) != __version__ or not hasattr(_reference, "StructuralHinge"):
    raise ImportError(
        f"accelerated {__version__} needs the package 'reference' of diptych {__version__}, but found "
        f"{getattr(_reference, '__version__', 'a package without version')} at {getattr(_reference, '__file__', None)}"
    )

__all__ = _reference.__all__

# each is a module of its own
_STRUCTURES = ("Arborescence", "Boxes", "Chain", "Cut", "Graph", "Matching", "Segments", "Tree")

if TYPE_CHECKING:
    from accelerated.panel import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        """A public name's value, imported when it is first used: numba takes longer to import than all the rest."""
        if name in _STRUCTURES:
            values = {name: getattr(import_module(f"accelerated.structures.{name.lower()}"), name)}
        elif name in (names := (*__all__, "kernels_are_cold", "uncompiled")):
            panel = import_module("accelerated.panel")
            values = {each: getattr(panel, each) for each in names}
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        inherit_docstrings(values)
        globals().update(values)
        return values[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# ties and digits of projections and proxes, at any scale; no index or nan of unchecked scores leads out of an array
__conformance_promises__ = ("exact selections", "checked kernels")
__conformance_devices__ = ("cpu",)  # arrays on other devices are rejected, not copied
