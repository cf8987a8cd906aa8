"""The registry: CONTRIBUTING's table is what is registered, and fits where it stands; where kernels are defined."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

import accelerated
from accelerated.counterparts import TABLE
from accelerated.problems import MAKERS
from reference.optimizers.base import Algorithm

ROOT = Path(accelerated.__file__).parents[1]
ENTRIES = [(objective, model, known) for (objective, model), row in TABLE.items() for known in row]


def printed():
    """The rows of the table: a model, what its data are packed as, and the boxes that have loops over that."""
    models = {model: [] for _, model in TABLE}
    for _, model, known in ENTRIES:
        if known not in models[model]:
            models[model].append(known)
    for model, boxes in models.items():
        packed = MAKERS[model].__annotations__["return"] if model in MAKERS else "its own"
        packed = ", ".join(name for name in packed.split(" | ") if name != "None")
        yield f"| `{model.__name__}` | {packed} | {', '.join(box.__mro__[1].__name__ for box in boxes)} |"


def test_the_table_in_contributing_is_what_is_registered():
    page = ROOT / "CONTRIBUTING.md"
    if not page.is_file():
        pytest.skip("the installed package has no CONTRIBUTING.md")
    text = page.read_text(encoding="utf-8")
    for row in printed():
        assert row in text, row
    assert text.count("| `") >= len(list(printed()))


@pytest.mark.parametrize(
    ("objective", "model", "known"), ENTRIES, ids=[f"{o.__name__}-{m.__name__}-{k.__name__}" for o, m, k in ENTRIES]
)
def test_a_counterpart_is_the_box_with_one_thing_compiled(objective, model, known):
    """A subclass with the same options, that overrides what the box has and adds ``fits`` at most; over a model of
    this panel."""
    box = known.__mro__[1]
    assert issubclass(box, Algorithm) and box.__module__.startswith("reference.")
    assert [field.name for field in fields(known)] == [field.name for field in fields(box)]
    own = {name for name, value in vars(known).items() if callable(value) or isinstance(value, classmethod)}
    assert own - {"fits"} and all(hasattr(box, name) for name in own - {"fits"})
    assert model.__module__.startswith("accelerated.") and known.__module__.startswith("accelerated.")
    assert known.__module__.removeprefix("accelerated.").startswith(box.__module__.removeprefix("reference."))


SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "accelerated").rglob("*.py"))}
FUNCTIONS = [  # of the fast panel: file, function, the names of its decorators
    (path, node, {getattr(mark.func if isinstance(mark, ast.Call) else mark, "id", "") for mark in node.decorator_list})
    for path, text in SOURCES.items()
    for node in ast.walk(ast.parse(text))
    if isinstance(node, ast.FunctionDef)
]


def test_a_kernel_takes_at_most_ten_arguments():
    for path, node, marks in FUNCTIONS:
        assert not marks & {"kernel", "inlined"} or len(node.args.args) <= 10, f"{path}: {node.name}"


def test_no_kernel_that_python_calls_makes_a_named_tuple():
    """Numba makes one by running Python on its way out of the kernel, and a Ctrl-C there ends the process."""
    makers, callers = set(), []
    for path, node, marks in FUNCTIONS:
        values = [part.value for part in ast.walk(node) if isinstance(part, ast.Return)]
        classes = [getattr(value.func, "id", "") for value in values if isinstance(value, ast.Call)]
        if "kernel" in marks and any(name[:1].isupper() for name in classes):
            makers.add(node.name)
        if not marks & {"kernel", "inlined", "answers"}:
            calls = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
            callers += [(f"{path.name}: {node.name}", getattr(call, "id", "")) for call in calls]
    assert len(makers) > 3
    assert not [caller for caller in callers if caller[1] in makers]


def test_one_module_has_all_private_names_of_numba():
    public = {"numba", "numba.extending", "llvmlite", "llvmlite.binding"}
    for path, text in SOURCES.items():
        private = {name for name in imports(text) if name.split(".")[0] in ("numba", "llvmlite")} - public
        assert not private or path.name == "numba_inside.py", f"{path}: {private}"


def test_kernels_are_made_of_the_files_that_their_cache_is_named_by():
    """Kernels are in ``compiled``, which imports from the panel nothing else but how they are compiled."""
    for path, text in SOURCES.items():
        if path.is_relative_to(ROOT / "accelerated" / "compiled"):
            ours = {name for name in imports(text) if name.split(".")[0] == "accelerated"}
            assert all(name.startswith(("accelerated.compiled", "accelerated.kernel")) for name in ours), path
        elif path.name != "kernel.py":
            assert not re.search(r"^\s*@(kernel|inlined|answers|overload|intrinsic|njit)\b", text, re.MULTILINE), path


def imports(text):
    return re.findall(r"^(?:from|import) (\w+[.\w]*)", text, re.MULTILINE)
