"""A backend has every public name; the panels are mirrors: the same names, signatures and docstrings. The application
knows the panels by name, and the panels do not know the application."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import pickle
import pkgutil
import runpy
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import get_origin

import numpy as np
import pytest

import accelerated
import diptych
import reference
from accelerated.counterparts import TABLE
from conformance.application.conftest import data_file
from conformance.project.test_source import imported
from diptych.commands.main import main
from diptych.files import load_model, save_model
from diptych.panels import PANELS, panel_of

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


# panels by name -------------------------------------------------------------------------------------------------------

__all__ = ["data_file"]  # a fixture
FILES = [path for panel in (reference, accelerated) for path in sorted(Path(panel.__file__).parent.rglob("*.py"))]


def said(*words):
    """Status, output and errors of Python on some words."""
    root = Path(diptych.__file__).parent.parent
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=root)
    return done.returncode, done.stdout, done.stderr


def test_no_file_of_a_panel_imports_the_application():
    for path in FILES:
        assert "diptych" not in {module.split(".")[0] for module in imported(path)}, path


@pytest.mark.beyond("starts processes")
@pytest.mark.parametrize(
    ("panel", "absent"),
    [("reference", "diptych numba networkx scipy matplotlib tqdm"), ("accelerated", "diptych numba scipy networkx")],
)
def test_import_of_a_panel_is_light(panel, absent):
    code = f"import sys, {panel}; print([name for name in '{absent}'.split() if name in sys.modules])"
    assert said("-c", code) == (0, "[]\n", "")


@pytest.mark.beyond("starts processes")
def test_an_objective_that_is_unpickled_before_all_else_has_its_kernels(tmp_path):
    model = accelerated.SequenceModel(2, 2)
    objective = accelerated.LogLoss(model, model.pack([np.ones((2, 2))], [[0, 1]]))
    (tmp_path / "loss").write_bytes(pickle.dumps(objective))
    code = f"""
import pathlib, pickle
objective = pickle.loads(pathlib.Path({str(tmp_path / "loss")!r}).read_bytes())
from reference.algorithms import SVRG
from reference.training.counterparts import counterpart
print(type(counterpart(SVRG(), objective)).__module__)
"""
    assert said("-c", code) == (0, "accelerated.optimizers.svrg\n", "")


def test_a_panel_by_name_or_as_it_is():
    assert panel_of("reference") is reference and panel_of("accelerated") is accelerated
    assert panel_of(accelerated) is accelerated
    for wrong in ("numpy", "os", "", None, 3):
        with pytest.raises(ValueError, match="^panel: expected 'reference' or 'accelerated', or one of these modules"):
            panel_of(wrong)


def test_models_load_into_a_panel_by_name(tmp_path):
    model = reference.SequenceModel(2, 2)
    save_model(tmp_path / "m.npz", model, np.zeros(model.size))
    for panel in (reference, accelerated):
        assert type(load_model(tmp_path / "m.npz", panel.__name__)[0]) is panel.SequenceModel
        assert type(load_model(tmp_path / "m.npz", panel)[0]) is panel.SequenceModel
    assert type(load_model(tmp_path / "m.npz")[0]) is accelerated.SequenceModel


@pytest.mark.parametrize("panel", PANELS)
def test_the_panel_is_told_before_or_after_the_command(data_file, capsys, panel):
    train = ["train", str(data_file), "--epochs", "1", "--json"]
    told = ["--panel", panel, *train], [*train, "--panel", panel], ["train", f"--panel={panel}", *train[1:]]
    for words in (*told, *([train] if panel == "accelerated" else [])):  # the fast one is the default
        assert main(words) == 0
        assert json.loads(capsys.readouterr().out)["panel"] == panel
    nested = ["tag", "train", "none.txt"]
    for words in (["--panel", panel, *nested], ["tag", "--panel", panel, *nested[1:]], [*nested, "--panel", panel]):
        assert main(words) == 2 and capsys.readouterr().err.startswith("diptych tag train: none.txt: no such file")
    with pytest.raises(SystemExit):
        main([*train, "--panel", "numpy"])
    assert "argument --panel: expected one of reference, accelerated, got 'numpy'" in capsys.readouterr().err


@pytest.mark.beyond("starts processes")
def test_the_package_is_a_command():
    assert said("-m", "diptych", "--version") == (0, f"diptych {reference.__version__}\n", "")


@pytest.mark.parametrize("panel", PANELS)
def test_old_commands_name_the_new_one(panel, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [panel, "tag", "train", "my file.txt"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(panel, run_name="__main__")
    line = f"the command is now: diptych --panel {panel} tag train 'my file.txt'\n"
    assert ended.value.code == 2 and capsys.readouterr() == ("", line)
