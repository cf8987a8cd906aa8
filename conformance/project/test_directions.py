"""One direction of knowledge: a module of the readable panel imports from its left alone, and none in a cycle."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import reference

ROOT = Path(reference.__file__).parent
SHELVES = (  # modules and packages; those of one line know nothing of each other
    ("example_errors", "packed", "files"),
    ("arrays",),
    ("archives", "bounds", "declared", "kernels"),
    ("datasets",),
    ("gram", "identities", "prox", "smoothings", "steps"),
    ("structures",),
    ("models",),
    ("objectives",),
    ("weighted",),
    ("linearized",),
    ("optimizers",),
    ("training",),
    ("online_mkl", "screening"),
    ("algorithms",),
)
PLACE = {name: place for place, names in enumerate(SHELVES) for name in names}
FILES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(ROOT.rglob("*.py"))}
FILES = {name.removesuffix("__init__").removesuffix("."): path for name, path in FILES.items()}  # "": the panel itself
LIBRARIES = ("accelerated", "benchmarks", "conformance", "diptych")


def imports(text):
    """(package, module below it, line) of each import of Python code, in functions too and for types alone; what is
    no module goes by its module's name.
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            named = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: expected the module's whole name"
            named = [f"{node.module}.{name.name}" for name in node.names]
        else:
            continue
        for each in named:
            package, _, module = each.partition(".")
            if package == "reference" and module not in FILES:
                module = module.rpartition(".")[0]
            yield package, module, node.lineno


def slips(name, text):
    """What a module (``structures.chain``) imports that is not on its shelf and not to the left of it."""
    shelf = name.split(".")[0]
    for package, module, line in imports(text):
        other = module.split(".")[0]
        if package in LIBRARIES:
            yield f"line {line}: {package}"
        elif package == "reference" and other != shelf and PLACE.get(other, len(SHELVES)) >= PLACE[shelf]:
            yield f"line {line}: reference.{module}"


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("", "__main__")])
def test_modules_import_from_their_left(name):
    shelf = name.split(".")[0]
    assert shelf in PLACE, f"reference/{shelf} has no place in SHELVES"
    assert not list(slips(name, FILES[name].read_text(encoding="utf-8")))


def test_no_module_knows_itself_by_way_of_others():
    known = {
        name: {module for package, module, _ in imports(path.read_text(encoding="utf-8")) if package == "reference"}
        for name, path in FILES.items()
    }
    try:
        TopologicalSorter({name: modules - {name} for name, modules in known.items()}).prepare()
    except CycleError as circle:
        pytest.fail(" <- ".join(circle.args[1]))


def test_a_slip_would_be_seen():
    late = "def f():\n    from reference.screening.scored import by_scores"
    assert list(slips("objectives", late)) == ["line 2: reference.screening.scored"]
    assert list(slips("online_mkl.rounds", "import reference.screening.rules"))
    assert list(slips("models.base", "if TYPE_CHECKING:\n    from reference import objectives"))
    assert list(slips("models.base", "from reference import SequenceModel"))
    assert list(slips("prox.base", "import accelerated.prox"))
    assert not list(slips("screening.rules", "import numpy\nfrom reference.models.base import LinearModel"))
