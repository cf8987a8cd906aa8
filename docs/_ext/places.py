"""Where a name of the ledger stands: its lines in the reference, in the accelerated panel, in its kernels and its test.

Lines are found by import and by ast, so that none of them is kept anywhere. A name that is not there raises.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from conformance import modules

ROOT = Path(__file__).parents[2]
DEEP = 2  # calls followed from an accelerated function to its kernels


class Place(NamedTuple):
    """Some lines of a file: its path in the checkout, the first line's number, the lines."""

    name: str
    path: str
    first: int
    code: str

    @property
    def last(self) -> int:
        return self.first + self.code.count("\n")


def named(name: str) -> Any:
    """The object of a name in the ledger: in ``reference``, or in ``diptych`` where it begins with that."""
    module, _, attribute = name.rpartition(".")
    owner = module if module.startswith("diptych.") else f"reference.{module}"
    return getattr(importlib.import_module(owner), attribute)


def place(thing: Any) -> Place:
    """The lines of a class or function."""
    thing = inspect.unwrap(getattr(thing, "py_func", thing))
    lines, first = inspect.getsourcelines(thing)
    path = Path(inspect.getsourcefile(thing) or "").resolve().relative_to(ROOT).as_posix()
    code = textwrap.dedent("".join(lines)).rstrip("\n")
    return Place(f"{thing.__module__}.{thing.__qualname__}", path, first, code)


def counterpart(name: str) -> Any | None:
    """What the accelerated panel has for a name of the ledger; None where it runs the reference's lines."""
    module, _, attribute = name.rpartition(".")
    for each in (module, named(name).__module__.removeprefix("reference.")):
        with suppress(ModuleNotFoundError):
            other = getattr(importlib.import_module(f"accelerated.{each}"), attribute, None)
            if getattr(other, "__module__", "").startswith("accelerated."):
                return other
    return None


def kernels(thing: Any, deep: int = DEEP) -> list[Any]:
    """The compiled functions that an accelerated class or function calls."""
    module = importlib.import_module(thing.__module__)
    tree = ast.parse(place(thing).code)
    called: dict[str, Any] = {}
    for other in (_value(module, node) for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)):
        if hasattr(other, "py_func"):
            called[f"{other.py_func.__module__}.{other.py_func.__qualname__}"] = other
        elif deep > 1 and inspect.isfunction(other) and other.__module__ == thing.__module__ and other is not thing:
            called |= {place(each).name: each for each in kernels(other, deep - 1)}
    return list(called.values())


def _value(module: ModuleType, node: ast.expr) -> Any:
    """What ``name`` or ``module.name`` is there, else None."""
    if isinstance(node, ast.Name):
        return getattr(module, node.id, None)
    owner = _value(module, node.value) if isinstance(node, ast.Attribute) else None
    return getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None


def of_test(name: str) -> Place:
    """The lines of ``module::function``, with its decorators."""
    module, _, function = name.partition("::")
    path = modules.module_path(module)
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            lines = source.splitlines()[first - 1 : node.end_lineno]
            return Place(function, path.relative_to(ROOT).as_posix(), first, textwrap.dedent("\n".join(lines)))
    raise LookupError(f"{name}: no such test in {path}")


def python_files() -> Iterator[Path]:
    """The sources of the four packages."""
    for package in ("reference", "accelerated", "diptych", "conformance"):
        yield from sorted((ROOT / package).rglob("*.py"))


def write(path: Path, lines: list[str]) -> None:
    """Leave a file alone that has these lines: sphinx reads again what is newer than its pages."""
    text = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
