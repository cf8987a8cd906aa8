"""Boxes are boxes: short, and without knowledge of clocks, files, runs or the other panel; learners share the
options of a run.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

import reference
from reference import algorithms
from reference.training.counterparts import counterpart

ROOT = Path(reference.__file__).parent
BOXES = [*sorted((ROOT / "optimizers").glob("*.py")), ROOT / "online_mkl" / "rounds.py"]
LEARNERS = [
    name
    for name in reference.__all__
    if inspect.isfunction(f := getattr(reference, name)) and "checkpoint" in inspect.signature(f).parameters
]
SHARED = ("epochs", "tol", "rng", "callback", "checkpoint", "resume")
VAGUE = {"asked", "at", "now", "found", "known"}  # names that do not say what a value is
STORED = {("reference/training/checkpoints.py", "at")}  # a field that checkpoints hold by name
FOREIGN = {"time", "os", "pathlib", "logging", "json", "scipy", "numba", "networkx", "accelerated"}


def imported(path):
    """The modules that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


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


@pytest.mark.parametrize("path", BOXES, ids=lambda path: path.stem)
def test_boxes_know_no_clock_no_file_no_run_and_no_other_panel(path):
    for module in imported(path):
        assert module.split(".")[0] not in FOREIGN, module
        assert not module.startswith(("reference.training", "reference.files")), module


@pytest.mark.parametrize("path", BOXES, ids=lambda path: path.stem)
def test_methods_of_boxes_fit_one_screen(path):
    for kind in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for method in kind.body if isinstance(kind, ast.ClassDef) else ():
            if isinstance(method, ast.FunctionDef):
                assert method.end_lineno - method.lineno < 40, f"{kind.name}.{method.name}"


def test_counterparts_are_asked_for_at_one_place():
    asking = [
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "counterpart"
    ]
    assert sorted(set(asking)) == ["training/counterparts.py", "training/solver.py"]


def test_pieces_within_pieces_have_their_counterparts(other):
    """Whoever registers SVRG's gets it inside of Casimir too; the box around it stays, and an objective of another
    type has none.
    """
    model = other.SequenceModel(2, 2)
    hinge = other.StructuralHinge(model, model.pack([np.ones((2, 2))], [[0, 1]]), smoothing=other.smoothings.Entropy())
    box = algorithms.Casimir(algorithms.Corollary17(0.1, 0.1, 1.0), algorithms.OnePass(algorithms.SVRG(), 0.5))
    found, alone = counterpart(box, hinge), counterpart(algorithms.SVRG(), hinge)
    assert type(found) is algorithms.Casimir and type(found.inner.inner) is type(alone)
    assert (found is box) == (type(alone) is algorithms.SVRG)
    state = box.epoch(hinge, box.init(hinge, hinge.zeros()), np.random.default_rng(0))
    ours = found.epoch(hinge, found.init(hinge, hinge.zeros()), np.random.default_rng(0))
    np.testing.assert_allclose(ours.w, state.w, rtol=1e-9)

    class Mine(other.StructuralHinge):
        """A trivial subclass."""

    mine = Mine(model, hinge.data, smoothing=other.smoothings.Entropy())
    assert counterpart(box, mine) is box


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_share_the_options_of_a_run(backend, name):
    """Each in the signature and, once, in the docstring; an option that there is not is refused by name."""
    learner = getattr(backend, name)
    parameters = inspect.signature(learner).parameters
    assert {"callback", "checkpoint", "resume"} <= parameters.keys() and "run" not in parameters
    entries = [line.strip() for line in inspect.getdoc(learner).splitlines() if " : " in line]
    for option in parameters:
        naming = [line for line in entries if option in line.split(" : ")[0].replace(",", " ").split()]
        assert len(naming) == 1 or option in ("objective", "w0", "lam"), f"{option}: {naming}"
    for option in SHARED:
        if option in parameters:
            assert parameters[option].kind is inspect.Parameter.KEYWORD_ONLY
    with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'epoch'"):
        learner(None, epoch=3)
    with pytest.raises(TypeError, match=rf"{name}\(\) missing .*argument"):
        learner()


def test_lines_fit_120_columns():
    """Those with a mark for a checker too, which the linter passes over."""
    packages = ("reference", "accelerated", "diptych", "conformance", "benchmarks")  # the last is not installed
    for path in (path for name in packages for path in sorted((ROOT.parent / name).rglob("*.py"))):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert not [number for number, line in enumerate(lines, 1) if len(line) > 120], path


def test_names_say_what_a_value_is():
    paths = [path for package in ("reference", "accelerated") for path in sorted((ROOT.parent / package).rglob("*.py"))]
    vague = {
        (path.relative_to(ROOT.parent).as_posix(), name)
        for path in paths
        for name in VAGUE.intersection(defined(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert vague == STORED


def test_test_modules_are_short():
    assert not [
        path for path in (ROOT.parent / "conformance").rglob("test_*.py") if len(path.read_text().splitlines()) > 400
    ]
