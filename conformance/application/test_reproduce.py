"""The papers' experiments by name: each is listed, says its options, and names the data that it lacks."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import warnings
from contextlib import contextmanager

import pytest

from conformance.application.processes import finished
from conformance.specimens.pages import entries
from diptych.commands import reproduce
from diptych.commands.main import main
from diptych.experiments import shell, slopes
from diptych.experiments.registry import EXPERIMENTS, perform

WITH_DATA = [name for name, found in EXPERIMENTS.items() if found.data.endswith(".zip")]


def test_the_list_has_every_experiment(capsys):
    assert main(["reproduce", "--list"]) == 0
    text = capsys.readouterr().out
    assert all(f"{name} " in text and found.shows in text for name, found in EXPERIMENTS.items())
    assert main(["reproduce", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["experiments"]
    assert [each["name"] for each in listed] == list(EXPERIMENTS) and all(each["data"] for each in listed)


def stopped(capsys, name, *words):
    """What an experiment prints that ends before it starts, and its status."""
    with pytest.raises(SystemExit) as stop:
        perform(name, [*words])
    out, err = capsys.readouterr()
    return stop.value.code, out, err


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_help_is_one_screen_and_help_all_has_the_text_too(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    status, brief, _ = stopped(capsys, name, "--help")
    assert status == 0 and len(brief.splitlines()) <= 40 and all(len(line) <= 80 for line in brief.splitlines())
    assert brief.startswith(f"usage: diptych reproduce {name} ") and "--json" in brief
    assert "\noutput:\n" in brief and "--quiet" in brief and "--out" in brief and "--panel" not in brief
    assert ("--plot" in brief) == ("--draw" in brief or name == "multisample-gaps")
    status, whole, _ = stopped(capsys, name, "--help-all")
    text = importlib.import_module(f"diptych.experiments.{EXPERIMENTS[name].module}").__doc__
    family = [each for each, found in EXPERIMENTS.items() if found.module == EXPERIMENTS[name].module]
    assert any(f"diptych reproduce {each}" in text for each in family)
    assert status == 0 and whole.endswith(f"{inspect.cleandoc(text)}\n")


@pytest.mark.parametrize(("entry", "message"), entries("wrong_experiments.txt"))
def test_wrong_options_of_an_experiment_are_said_in_one_line(entry, message, capsys):
    name, *words = entry.split()
    status, out, err = stopped(capsys, name, *words)
    assert status == 2 and out == ""
    (line,) = err.splitlines()
    assert line.startswith(f"diptych reproduce {name}: ") and message in line


def test_out_has_what_would_be_printed(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(slopes, "figures", lambda: iter([("Proposition 29", [3, None], None)]))
    for words in ([], ["--json"]):
        assert perform("casimir-slopes", words) == 0
        printed = capsys.readouterr().out
        assert "Proposition 29" in printed
        assert perform("casimir-slopes", [*words, "--out", str(tmp_path / "slopes")]) == 0
        assert capsys.readouterr().out == "" and (tmp_path / "slopes").read_text() == printed
    assert perform("casimir-slopes", ["--out", str(tmp_path / "none" / "slopes")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_quiet_drops_progress_but_not_warnings_and_errors(capsys, monkeypatch):
    parser = shell.Parser("casimir-slopes", "A text.")

    def show(message, category, filename, lineno, file=None, line=None):  # as Python does; pytest keeps warnings
        print(message, file=sys.stderr if file is None else file)

    def command():
        print("halfway", file=sys.stderr)
        warnings.warn("the data are odd", stacklevel=1)
        print("the table")
        raise ValueError("the end is missing")

    for words, expected in ([], True), (["--quiet"], False):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            monkeypatch.setattr(warnings, "showwarning", show)
            assert shell.ended(parser, parser.parse_args(words), command) == 2
        out, err = capsys.readouterr()
        assert out == "the table\n" and ("halfway" in err) == expected
        assert "the data are odd" in err and err.endswith("diptych reproduce casimir-slopes: the end is missing\n")


def test_quiet_does_not_hide_that_a_scheduler_is_not_encrypted(capsys, monkeypatch):
    @contextmanager
    def executor(options):
        print("not encrypted", file=sys.stderr)
        yield None

    monkeypatch.setattr(shell, "executor_of", executor)
    parser = shell.Parser("letters-accuracy", "A text.")
    options = parser.parse_args(["--quiet"])

    def command():
        with shell.executor_of_one_thread(options):
            print("halfway", file=sys.stderr)

    assert shell.ended(parser, options, command) == 0 and capsys.readouterr().err == "not encrypted\n"


@pytest.mark.beyond("runs an experiment")
def test_a_picture_has_the_name_and_the_format_of_plot(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    words = ["syn1", "--quick", "--values", "2", "--rules", "l1 gap", "--out", str(tmp_path)]
    picture = tmp_path / "picture.svg"
    assert perform("screening-table-1", [*words, "--plot", str(picture), "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert "<svg" in picture.read_text() and not (tmp_path / "sparse-table.png").exists()
    report = str(tmp_path / "sparse-table.json")
    assert perform("screening-table-1", ["--draw", report, "--plot", str(tmp_path / "again.pdf")]) == 0
    assert (tmp_path / "again.pdf").read_bytes().startswith(b"%PDF")
    assert perform("screening-table-1", ["--draw", report, "--plot", str(tmp_path / "again.gif")]) == 2
    assert "expected a name that ends with .png, .pdf or .svg" in capsys.readouterr().err


def test_shared_options_may_stand_before_the_name(monkeypatch):
    given = []
    monkeypatch.setattr(reproduce, "_in_one_thread", lambda name, words: given.append((name, words)) or 0)
    with pytest.raises(SystemExit):
        main(["reproduce", "--quiet", "--json", "casimir-slopes", "--out", "x"])
    assert given == [("casimir-slopes", ["--json", "--quiet", "--out", "x"])]


@pytest.mark.parametrize("name", WITH_DATA)
def test_data_that_are_not_there_are_named(name, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    missing = str(tmp_path / "none.zip")
    assert perform(name, [missing]) == 2
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith("compiling")]
    assert not out and len(lines) == 1 and lines[0].startswith(f"diptych reproduce {name}: {missing}")


@pytest.mark.beyond("starts processes")
def test_a_whole_experiment(tmp_path):
    """In a process of its own, where a folder of the user's that is called as a panel is not taken for it."""
    pytest.importorskip("matplotlib")
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "__init__.py").write_text("raise SystemExit('the wrong reference')")
    words = ["reproduce", "screening-table-1", "syn1", "--quick", "--values", "2", "--rules", "l1 gap", "--json"]
    status, out, err = finished(tmp_path, "-P", "-m", "diptych", *words, "--out", "found")
    assert status == 0, err
    assert {row["rule"] for row in json.loads(out)} >= {"none", "l1 gap"}
    report = json.loads((tmp_path / "found" / "sparse-table.json").read_text())
    assert list(report["data"]) == ["syn1"]
    assert (tmp_path / "found" / "sparse-table.png").read_bytes().startswith(b"\x89PNG")
    redrawn = perform("screening-table-1", ["--draw", str(tmp_path / "found" / "sparse-table.json")])
    assert redrawn == 0
