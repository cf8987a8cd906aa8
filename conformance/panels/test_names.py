"""A backend has every public name; the panels are mirrors: the same names, signatures and docstrings."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
from types import FunctionType
from typing import get_origin

import pytest

import accelerated
import reference
from accelerated.counterparts import TABLE

OTHERS = {"by_networkx", "by_scipy"}  # answers of other libraries, in accelerated alone
SPACES = ("algorithms", "kernels", "smoothings", "steps")  # of names that mislead alone


def modules():
    """(name, module) of all of accelerated but the kernels."""
    for info in pkgutil.walk_packages(accelerated.__path__, "accelerated."):
        name = info.name.removeprefix("accelerated.")
        if name != "__main__" and name.split(".")[0] != "compiled":
            yield name, importlib.import_module(info.name)


def pairs():
    """(accelerated module, its reference twin) for every module that has one."""
    for name, module in modules():
        if importlib.util.find_spec(f"reference.{name}"):
            yield module, importlib.import_module(f"reference.{name}")


def names(module):
    return getattr(module, "__all__", [])


@pytest.mark.parametrize("name", reference.__all__)
def test_name_is_there(backend, name):
    """What is missing is said, one line each."""
    assert hasattr(backend.module, name), f"{backend.__name__} lacks {name}"


def test_public_names_are_equal():
    """And no name of the reference is exported where a module of accelerated has its own."""
    assert sorted(accelerated.__all__) == sorted(reference.__all__)  # their order is the linter's
    for ours, theirs in pairs():
        assert sorted(set(names(ours)) - OTHERS) == sorted(names(theirs)), ours.__name__
        assert all(hasattr(ours, name) for name in names(ours)), ours.__name__
        for name in set(names(theirs)) & set(accelerated.__all__):
            if getattr(ours, name) is not getattr(theirs, name):
                assert getattr(accelerated, name) is getattr(ours, name), f"{ours.__name__}.{name}"


def test_names_of_a_space_stand_there_alone():
    for space in SPACES:
        ours, theirs = getattr(accelerated, space), getattr(reference, space)
        assert space in reference.__all__
        assert not set(theirs.__all__) & set(reference.__all__)
        assert all(getattr(ours, name) is getattr(theirs, name) for name in theirs.__all__)


def test_what_has_no_twin_has_no_name_of_the_reference():
    """But for counterparts, which are registered: see test_registry."""
    twins, known = {ours for ours, _ in pairs()}, [known for row in TABLE.values() for known in row]
    theirs = (name for _, module in pairs() for name in names(module))
    public = {*reference.__all__, *reference.algorithms.__all__, *theirs}
    for _, module in modules():
        if module not in twins:
            own = {name for name in names(module) if getattr(module, name) not in known}
            assert not own & public, module.__name__


def test_signatures_and_docstrings_are_equal():
    for ours, theirs in [*pairs(), (accelerated, reference)]:
        for name in names(theirs):
            a, b = getattr(ours, name), getattr(theirs, name)
            assert inspect.getdoc(a) == inspect.getdoc(b), f"{ours.__name__}.{name}"
            if isinstance(b, FunctionType):
                assert inspect.signature(a) == inspect.signature(b), name
            if inspect.isclass(b):
                assert a.__doc__ or theirs is not reference, name  # its own: help does not inherit those of classes
                for method, function in inspect.getmembers(b, inspect.isfunction):
                    assert inspect.signature(getattr(a, method)) == inspect.signature(function), f"{name}.{method}"
                    if not method.startswith("_"):
                        assert inspect.getdoc(getattr(a, method)) == inspect.getdoc(function), f"{name}.{method}"


def test_every_public_thing_is_documented():
    spaces = [getattr(reference, name) for name in SPACES]
    for module in [m for pair in pairs() for m in pair] + [reference, *spaces]:
        for name in names(module):
            thing = getattr(module, name)
            assert inspect.getdoc(thing) or get_origin(thing), f"{module.__name__}.{name}"  # an alias has no docstring
