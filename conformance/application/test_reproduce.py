"""The papers' experiments by name: each is listed, says its options, and names the data that it lacks."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import diptych
from diptych.commands.main import main
from diptych.experiments.registry import EXPERIMENTS, perform

WITH_DATA = [name for name, found in EXPERIMENTS.items() if found.data.endswith(".zip")]


def test_the_list_has_every_experiment(capsys):
    assert main(["reproduce", "--list"]) == 0
    text = capsys.readouterr().out
    assert all(f"{name} " in text and found.shows in text for name, found in EXPERIMENTS.items())
    assert main(["reproduce", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["experiments"]
    assert [each["name"] for each in listed] == list(EXPERIMENTS) and all(each["data"] for each in listed)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_says_its_options_under_its_name(name, capsys):
    with pytest.raises(SystemExit) as stop:
        perform(name, ["--help"])
    text = capsys.readouterr().out
    assert stop.value.code == 0 and text.startswith(f"usage: diptych reproduce {name} ") and "--json" in text
    module = importlib.import_module(f"diptych.experiments.{EXPERIMENTS[name].module}")
    family = [each for each, found in EXPERIMENTS.items() if found.module == EXPERIMENTS[name].module]
    assert any(f"diptych reproduce {each}" in module.__doc__ for each in family)


@pytest.mark.parametrize("name", WITH_DATA)
def test_data_that_are_not_there_are_named(name, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    missing = str(tmp_path / "none.zip")
    assert perform(name, [missing]) == 2
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith("compiling")]
    assert not out and len(lines) == 1 and lines[0].startswith(f"diptych reproduce {name}: {missing}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reproduce"], "NAME: expected one of casimir-figure-2"),
        (["reproduce", "figure-2"], "got 'figure-2'; did you mean casimir-figure-2?"),
        (["reproduce", "table-1"], "got 'table-1'; did you mean "),
        (["reproduce", "mkl-figure-2"], "got 'mkl-figure-2'; did you mean mkl-figure-1?"),
        (["reproduce", "xyz"], "got 'xyz'"),
        (["--panel", "reference", "reproduce", "casimir-slopes"], "--panel reference: experiments run in"),
    ],
)
def test_a_wrong_name_or_panel_is_said(words, message, capsys):
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("diptych reproduce: ") and message in line


@pytest.mark.beyond("starts processes")
def test_a_whole_experiment(tmp_path):
    """In a process of its own, where a folder of the user's that is called as a panel is not taken for it."""
    pytest.importorskip("matplotlib")
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "__init__.py").write_text("raise SystemExit('the wrong reference')")
    place = os.pathsep.join(filter(None, [str(Path(diptych.__file__).parent.parent), os.environ.get("PYTHONPATH")]))
    words = ["reproduce", "screening-table-1", "syn1", "--quick", "--values", "2", "--rules", "l1 gap", "--json"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "diptych", *words, "--out", "found"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=place),
    )
    assert done.returncode == 0, done.stderr
    assert {row["rule"] for row in json.loads(done.stdout)} >= {"none", "l1 gap"}
    report = json.loads((tmp_path / "found" / "sparse-table.json").read_text())
    assert list(report["data"]) == ["syn1"]
    assert (tmp_path / "found" / "sparse-table.png").read_bytes().startswith(b"\x89PNG")
    redrawn = perform("screening-table-1", ["--draw", str(tmp_path / "found" / "sparse-table.json")])
    assert redrawn == 0
