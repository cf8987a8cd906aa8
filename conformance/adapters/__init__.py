"""Our laws on other libraries: ``python -m conformance.adapters`` makes docs/OTHER_LIBRARIES.md.

An adapter is one file here. It maps scores to a library's own and the answers back, under the names of our structures,
and does nothing else. It has

- ``PACKAGE``, as pip knows the library, and ``MODULE``, as Python imports it;
- a class for each structure that it offers: ``Chain(unary, pairwise, lengths=None)``, ``Arborescence(values,
  single_root=False)``, ``ProjectiveTree(values, single_root=False)``, ``Cut(unary, pairwise, edges)``,
  ``Matching(values)``, of NumPy arrays in float64, with those of the methods ``best()``, ``topk(k)``,
  ``log_partition()``, ``marginals()`` and ``log_probability(y)`` that the library can answer. A value that the library
  does not return is None;
- ``MAPPING``, for each structure: what of the library is asked, and how scores become its own;
- ``KNOWN``: for the laws that fail, by patterns of their names (``|`` between several), what was seen when the smallest
  instance was checked by hand, in a sentence. The first pattern that fits a law counts.

``NotOffered`` says that an instance has no counterpart in the library.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import warnings
from types import ModuleType

__all__ = ["ADAPTERS", "LIBRARIES", "PANELS", "NotOffered", "adapter", "library", "missing", "version"]

PANELS = ("reference", "accelerated")
ADAPTERS = ("torch_struct", "pytorch_crf", "python_crfsuite", "hmmlearn", "pymaxflow", "scipy")
ADAPTERS += ("ufal_chu_liu_edmonds", "networkx")
LIBRARIES = PANELS + ADAPTERS


class NotOffered(Exception):
    """An instance without a counterpart in the library, and the reason."""


def adapter(name: str) -> ModuleType:
    """The module of an adapter, whose library may be missing: adapters import it when a structure is made."""
    return importlib.import_module(f"{__name__}.{name}")


def missing(name: str) -> str | None:
    """How to install the library of an adapter, if it is not; None if it is."""
    if name in PANELS:
        return None
    try:
        version(name)
    except importlib.metadata.PackageNotFoundError:
        return f"{adapter(name).PACKAGE}: not installed; pip install {adapter(name).PACKAGE}"
    return None


def library(name: str) -> ModuleType:
    """The module that has the structures: a panel, or an adapter whose library is imported without its warnings."""
    if name in PANELS:
        return importlib.import_module(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(adapter(name).MODULE)
    return adapter(name)


def version(name: str) -> str:
    """Of the library that is installed."""
    return importlib.metadata.version("diptych" if name in PANELS else adapter(name).PACKAGE)
