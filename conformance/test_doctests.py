"""Examples in docstrings and in README run as they stand."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import diptych
import reference
from conformance.test_rooms import LEARNERS

MODULES = [
    info.name
    for package in (reference, diptych)
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not info.name.endswith("__main__")
]
MODULES += [f"accelerated.structures.{name}" for name in ("arborescence", "cut", "matching")]  # oracles have no twins
README = Path(__file__).parent.parent / "README.md"


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


def test_readme_examples(capsys, monkeypatch, tmp_path):
    """In a checkout: the Python blocks of README, one after another, in the panel that they name. (An installed
    suite has no README.)
    """
    if README.exists():
        blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
        assert len(blocks) >= 2
        monkeypatch.chdir(tmp_path)
        exec("\n".join(blocks), {})
        *words, fun, gap, calls = capsys.readouterr().out.split()
        assert len(words) == 3 and all(word.isalpha() for word in words)
        assert 0 <= float(gap) <= 0.1 * float(fun) and int(calls) >= 500
