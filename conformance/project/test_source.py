"""The source: imports go one way, algorithms know no run, names say what a value is, files are short."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import pytest

import reference
from conformance.finite_sums import Parabolas
from reference import algorithms
from reference.training.counterparts import counterpart

ROOT = Path(reference.__file__).parent
SHELVES = (  # modules and packages of the readable panel; those of one line know nothing of each other
    ("example_errors", "packed", "files"),
    ("arrays",),
    ("archives", "bounds", "declared", "kernels"),
    ("datasets", "records"),
    ("gram", "identities", "prox", "smoothings", "steps"),
    ("structures",),
    ("models", "decisions", "sparsemap"),
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
BOXES = [*sorted((ROOT / "optimizers").glob("*.py")), ROOT / "online_mkl" / "rounds.py"]
FOREIGN = {"time", "os", "pathlib", "logging", "json", "scipy", "numba", "networkx", "accelerated"}
SECTIONS = {"Attributes", "Examples", "Notes", "Parameters", "Raises", "Returns", "Source", "Warns", "Yields"}
VAGUE = {"asked", "at", "now", "found", "known"}  # names that do not say what a value is
DEFINED = rf"\b({'|'.join(VAGUE)})\b(?=\s*([^\s\w]|in\b|if\b|$))"  # a name that code defines, and some that it reads
STORED = {("reference/training/checkpoints.py", "at")}  # a field that checkpoints hold by name
STORED |= {("reference/models/partial.py", "known")}  # the argument of predict: a partly known labelling
STORED |= {(f"accelerated/models/{name}.py", "known") for name in ("sequence", "tagging")}


def tree_of(source):
    """Of Python code, or of a file."""
    return ast.parse(source if isinstance(source, str) else source.read_text(encoding="utf-8"))


def python_files(*packages):
    """With their paths in the checkout."""
    for path in (path for name in packages for path in sorted((ROOT.parent / name).rglob("*.py"))):
        yield path.relative_to(ROOT.parent).as_posix(), path


def statements(tree):
    """The module and all statements in it, without the expressions, which are nine nodes of ten."""
    nodes = [tree]
    while nodes:
        yield (node := nodes.pop())
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            nodes += getattr(node, name, ())


@cache
def imported(source):
    """The whole name of each import, in functions too and for types alone."""
    found = []
    for node in statements(tree_of(source)):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: expected the module's whole name"
            found += [f"{node.module}.{name.name}" for name in node.names]
    return tuple(found)


def slips(name, source):
    """What a module (``structures.chain``) imports that is not on its shelf and not to the left of it."""
    shelf = name.split(".")[0]
    for each in imported(source):
        package, *inside = each.split(".")
        other = inside[0] if inside else ""
        right = other != shelf and PLACE.get(other, len(SHELVES)) >= PLACE[shelf]
        if package in LIBRARIES or (package == "reference" and right):
            yield each


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("", "__main__")])
def test_modules_import_from_their_left(name):
    assert name.split(".")[0] in PLACE, f"{name} has no place in SHELVES"
    assert not list(slips(name, FILES[name]))


def test_a_slip_would_be_seen():
    late = "def f():\n    from reference.screening.scored import by_scores"
    assert list(slips("objectives", late)) == ["reference.screening.scored.by_scores"]
    assert list(slips("models.base", "from reference import SequenceModel"))
    assert list(slips("prox.base", "import accelerated.prox"))
    assert not list(slips("screening.rules", "import numpy\nfrom reference.models.base import LinearModel"))


def test_sections_of_docstrings_have_their_headings_on_lines_of_their_own():
    for name, path in python_files("reference", "accelerated", "diptych", "conformance"):
        text = path.read_text(encoding="utf-8")
        for node in statements(tree_of(text)) if "----" in text else ():
            told = ast.get_docstring(node) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) else None
            assert not re.search(r"\S -{4,}", told or ""), f"{name}: {told}"
            for above, heading, line in triples(("", *(told or "").splitlines())):
                if re.fullmatch("-{4,}", line):
                    assert heading in SECTIONS and len(heading) == len(line) and not above, f"{name}: {heading}"


def triples(lines):
    return zip(lines, lines[1:], lines[2:], strict=False)


def test_no_module_imports_itself_by_way_of_others():
    known = {}
    for name, path in FILES.items():
        inside = {each.partition(".")[2] for each in imported(path) if each.split(".")[0] == "reference"}
        known[name] = {each if each in FILES else each.rpartition(".")[0] for each in inside} - {name}
    TopologicalSorter(known).prepare()  # its error has the cycle


@pytest.mark.parametrize("path", BOXES, ids=lambda path: path.stem)
def test_boxes_know_no_clock_no_file_no_run_and_no_other_panel_and_fit_one_screen(path):
    for module in imported(path):
        assert module.split(".")[0] not in FOREIGN, module
        assert not module.startswith(("reference.training", "reference.files")), module
    for kind in ast.walk(tree_of(path)):
        for method in kind.body if isinstance(kind, ast.ClassDef) else ():
            if isinstance(method, ast.FunctionDef):
                assert method.end_lineno - method.lineno < 40, f"{kind.name}.{method.name}"


def test_counterparts_are_asked_for_at_one_place():
    asking = {
        name
        for name, path in python_files("reference")
        if "counterpart(" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(tree_of(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "counterpart"
    }
    assert len(asking - {"reference/training/counterparts.py"}) == 1


@pytest.mark.parametrize("step_size", [None, 0.1])
def test_an_objective_passes_through_few_places(step_size):
    """Call sites at which it is an argument, from ``sgd`` to the first pass of its algorithm."""
    objective, places, passes = Parabolas([1.0, 2.0], [0.0, 1.0]), [], []

    def watch(frame, event, argument):
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 2]  # those of * and ** too
        values = [frame.f_locals.get(name) for name in names if name != "self"] if event == "call" else []
        if not passes and any(each is objective for value in values for each in (value, *_items(value))):
            places.append((frame.f_back.f_code.co_qualname, frame.f_back.f_lineno))
            passes.extend([code] if code is algorithms.SGD.sweep.__code__ else [])

    sys.setprofile(watch)
    try:
        reference.sgd(objective, lam=0.1, step_size=step_size, epochs=1, rng=0)
    finally:
        sys.setprofile(None)
    assert passes and 10 < len(set(places[1:])) == len(places[1:]) <= 14  # the first is this test's


def _items(value):
    return list(value) if type(value) is tuple else list(value.values()) if type(value) is dict else []


def test_algorithms_within_algorithms_have_their_counterparts(other):
    """Whoever registers SVRG's gets it inside of Casimir too; the box around it stays, and an objective of another
    type has none. A counterpart that does not say what it fits is used for every objective of its type.
    """
    model = other.SequenceModel(2, 2)
    hinge = other.StructuralHinge(model, model.pack([np.ones((2, 2))], [[0, 1]]), smoothing=other.smoothings.Entropy())
    box = algorithms.Casimir(algorithms.Corollary17(0.1, 0.1, 1.0), algorithms.OnePass(algorithms.SVRG(), 0.5))
    found, alone = counterpart(box, hinge), counterpart(algorithms.SVRG(), hinge)
    assert type(found) is algorithms.Casimir and type(found.inner.inner) is type(alone)
    assert (found is box) == (type(alone) is algorithms.SVRG)
    if other.__name__ == "accelerated":
        assert type(alone).__module__.startswith("accelerated") and not hasattr(type(alone), "fits")
    state = box.epoch(hinge, box.init(hinge, hinge.zeros()), np.random.default_rng(0))
    ours = found.epoch(hinge, found.init(hinge, hinge.zeros()), np.random.default_rng(0))
    np.testing.assert_allclose(ours.w, state.w, rtol=1e-9)

    class Mine(other.StructuralHinge):
        """A trivial subclass."""

    mine = Mine(model, hinge.data, smoothing=other.smoothings.Entropy())
    assert counterpart(box, mine) is box


def defined(tree):
    """The names of the variables, parameters, fields and functions that a module defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname


def test_names_say_what_a_value_is():
    found = set()
    for name, path in python_files("reference", "accelerated"):
        if re.search(DEFINED, text := path.read_text(encoding="utf-8")):
            found |= {(name, each) for each in VAGUE.intersection(defined(tree_of(text)))}
    assert found == STORED


def test_lines_and_test_modules_are_short():
    """Lines with a mark for a checker too, which the linter passes over."""
    for name, path in python_files("reference", "accelerated", "diptych", "conformance", "benchmarks"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert not [number for number, line in enumerate(lines, 1) if len(line) > 120], name
        assert len(lines) <= 400 or not path.name.startswith("test_"), name
