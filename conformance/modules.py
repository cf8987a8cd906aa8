"""The test modules of the suite by name, and the tests in them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["HERE", "beyond", "module_path", "tests"]

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


def tests() -> frozenset[str]:
    """``module::function`` of every test of the suite, by its sources."""
    return _tests()[0]


def beyond() -> frozenset[str]:
    """Those that the first tier leaves out."""
    return _tests()[1]


@cache
def _tests() -> tuple[frozenset[str], frozenset[str]]:
    """Both, each file read once."""
    every, left_out = set(), set()
    for path in HERE.rglob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        whole = any(_is_pytestmark(node) and _marked(node) for node in tree.body)
        for node in _functions(tree):
            if node.name.startswith("test_"):
                every.add(f"{path.stem}::{node.name}")
                if whole or any(map(_marked, node.decorator_list)):
                    left_out.add(f"{path.stem}::{node.name}")
    return frozenset(every), frozenset(left_out)


def _is_pytestmark(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and [ast.unparse(each) for each in node.targets] == ["pytestmark"]


def _marked(node: ast.AST) -> bool:
    """Whether a decorator or the right-hand side of ``pytestmark`` is the marker ``beyond``."""
    return any(isinstance(each, ast.Attribute) and each.attr == "beyond" for each in ast.walk(node))


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The functions of a module, and the methods of its classes with the class's decorators."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    method.decorator_list += node.decorator_list
                    yield method


@cache
def _paths() -> dict[str, list[Path]]:
    paths: dict[str, list[Path]] = {}
    for path in sorted(HERE.rglob("test_*.py")):
        paths.setdefault(path.stem, []).append(path)
    return paths
