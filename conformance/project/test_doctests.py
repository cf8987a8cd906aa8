"""Examples in docstrings run as they stand."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import diptych
import reference
from conformance.project.test_rooms import LEARNERS

MODULES = [
    info.name
    for package in (reference, diptych)
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not info.name.endswith("__main__")
]
MODULES += [f"accelerated.structures.{name}" for name in ("arborescence", "cut", "matching")]  # oracles have no twins


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    assert sum(len(test.examples) for name in MODULES for test in finder.find(importlib.import_module(name))) >= 5


@pytest.mark.parametrize("optimiser", ["lbfgs", *LEARNERS])
def test_every_optimiser_has_an_example(optimiser):
    function = getattr(reference, optimiser)
    module = importlib.import_module(function.__module__)
    (example,) = doctest.DocTestFinder(recurse=False).find(function, module=module)
    assert any(f"result = {optimiser}(" in line.source for line in example.examples)
    assert doctest.DocTestRunner().run(example).failed == 0  # decorated: not found in its module
