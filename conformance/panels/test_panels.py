"""The application knows the panels by name, and the panels do not know the application."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import accelerated
import diptych
import reference
from conformance.application.conftest import data_file
from conformance.project.test_source import imported
from diptych.commands.main import main
from diptych.files import load_model, save_model
from diptych.panels import PANELS, panel_of

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
    [("reference", "diptych numba networkx scipy matplotlib tqdm"), ("accelerated", "diptych")],
)
def test_import_of_a_panel_is_light(panel, absent):
    code = f"import sys, {panel}; print([name for name in '{absent}'.split() if name in sys.modules])"
    assert said("-c", code) == (0, "[]\n", "")


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
def test_the_package_is_a_command_and_the_old_ones_name_it():
    assert said("-m", "diptych", "--version") == (0, f"diptych {reference.__version__}\n", "")
    for panel in PANELS:
        line = f"the command is now: diptych --panel {panel} tag train 'my file.txt'\n"
        assert said("-m", panel, "tag", "train", "my file.txt") == (2, "", line)
