"""The papers' experiments by name: listed, refused, run in their quick form, and drawn again."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import warnings
import zipfile
from contextlib import contextmanager

import pytest

from conformance.application.conftest import outcome
from conformance.application.processes import finished
from conformance.application.test_app import PNG
from conformance.specimens.pages import entries
from conformance.specimens.requests import FILES
from diptych.commands import others
from diptych.experiments import parsing, parsing_templates, shell
from diptych.experiments.registry import EXPERIMENTS, perform

WITH_DATA = [name for name, found in EXPERIMENTS.items() if found.data.endswith(".zip")]


@pytest.fixture
def ended(capsys):
    """A function that runs an experiment: its status, output and errors."""
    return lambda name, *words: outcome(capsys, perform, name, [str(word) for word in words])


def test_the_list_has_every_experiment_and_shared_options_may_stand_before_the_name(reference_cli, monkeypatch):
    text, listed = reference_cli.printed("reproduce --list"), reference_cli.reported("reproduce --list")["experiments"]
    assert all(f"{name} " in text and found.shows in text for name, found in EXPERIMENTS.items())
    assert [each["name"] for each in listed] == list(EXPERIMENTS) and all(each["data"] for each in listed)
    given = []
    monkeypatch.setattr(others, "_in_one_thread", lambda name, words: given.append((name, words)) or 0)
    reference_cli.run("reproduce --quiet --json casimir-slopes --out x")
    assert given == [("casimir-slopes", ["--json", "--quiet", "--out", "x"])]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_help_is_one_screen_and_help_all_has_the_text_too(name, ended, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    status, brief, _ = ended(name, "--help")
    assert status == 0 and len(brief.splitlines()) <= 40 and all(len(line) <= 80 for line in brief.splitlines())
    assert brief.startswith(f"usage: diptych reproduce {name} ") and "--json" in brief
    assert "\noutput:\n" in brief and "--quiet" in brief and "--out" in brief and "--panel" not in brief
    drawn = "--draw" in brief and name != "casimir-table-2"  # a table alone
    assert ("--plot" in brief) == (drawn or name == "partial-labels")
    status, whole, _ = ended(name, "--help-all")
    text = importlib.import_module(f"diptych.experiments.{EXPERIMENTS[name].module}").__doc__
    family = [each for each, found in EXPERIMENTS.items() if found.module == EXPERIMENTS[name].module]
    assert any(f"diptych reproduce {each}" in text for each in family)
    assert status == 0 and whole.endswith(f"{inspect.cleandoc(text)}\n")


@pytest.mark.parametrize(
    ("entry", "message"), [*entries("wrong_experiments.txt"), *((f"{name} none.zip", "none.zip") for name in WITH_DATA)]
)
def test_wrong_options_and_missing_data_are_said_in_one_line(entry, message, ended):
    if "none.zip" in entry:
        pytest.importorskip("matplotlib")
    name, *words = entry.split()
    status, out, err = ended(name, *words)
    assert status == 2 and out == ""
    (line,) = err.splitlines()
    assert line.startswith(f"diptych reproduce {name}: ") and message in line


def test_out_has_what_would_be_printed(ended, monkeypatch, tmp_path):
    monkeypatch.setattr(parsing, "figures", lambda path: iter([("Chu-Liu", 3.0, "us")]))
    for words in (["trees.zip"], ["trees.zip", "--json"]):
        status, printed, _ = ended("parsing", *words)
        assert status == 0 and "Chu-Liu" in printed
        assert ended("parsing", *words, "--out", tmp_path / "parsing")[:2] == (0, "")
        assert (tmp_path / "parsing").read_text() == printed
    status, _, err = ended("parsing", "trees.zip", "--out", tmp_path / "none" / "parsing")
    assert status == 2 and "no such folder" in err


def test_quiet_drops_progress_but_not_warnings_and_errors(capsys, monkeypatch):
    """Nor that a scheduler is not encrypted."""
    parser = shell.Parser("casimir-slopes", "A text.")

    def show(message, category, filename, lineno, file=None, line=None):  # as Python does; pytest keeps warnings
        print(message, file=sys.stderr if file is None else file)

    @contextmanager
    def executor(options):
        print("not encrypted", file=sys.stderr)
        yield None

    def command():
        with shell.executor_of_one_thread(options):
            print("halfway", file=sys.stderr)
        warnings.warn("the data are odd", stacklevel=1)
        print("the table")
        raise ValueError("the end is missing")

    monkeypatch.setattr(shell, "executor_of", executor)
    for words, expected in ([], True), (["--quiet"], False):
        options = parser.parse_args(words)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            monkeypatch.setattr(warnings, "showwarning", show)
            assert shell.ended(parser, options, command) == 2
        out, err = capsys.readouterr()
        assert out == "the table\n" and ("halfway" in err) == expected and "not encrypted" in err
        assert "the data are odd" in err and err.endswith("diptych reproduce casimir-slopes: the end is missing\n")


@pytest.mark.beyond("starts processes")
def test_a_whole_experiment(tmp_path, ended):
    """In a process of its own, where a folder of the user's that is called as a panel is not taken for it."""
    pytest.importorskip("matplotlib")
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "__init__.py").write_text("raise SystemExit('the wrong reference')")
    words = ["reproduce", "screening-table-1", "syn1", "--quick", "--values", "2", "--rules", "l1 gap", "--json"]
    status, out, err = finished(tmp_path, "-P", "-m", "diptych", *words, "--out", "found", "--plot", "picture.svg")
    assert status == 0, err
    assert {row["rule"] for row in json.loads(out)} >= {"none", "l1 gap"}
    report = tmp_path / "found" / "sparse-table.json"
    assert list(json.loads(report.read_text())["data"]) == ["syn1"]
    assert "<svg" in (tmp_path / "picture.svg").read_text() and not report.with_suffix(".png").exists()
    assert ended("screening-table-1", "--draw", report, "--plot", tmp_path / "again.pdf")[0] == 0
    assert (tmp_path / "again.pdf").read_bytes().startswith(b"%PDF")
    status, _, err = ended("screening-table-1", "--draw", report, "--plot", tmp_path / "again.gif")
    assert status == 2 and "expected a name that ends with .png, .pdf or .svg" in err


@pytest.fixture
def made_up(tmp_path):
    """Zips of labelled sentences, as both shared tasks name their files, and of trees."""
    names = [f"conll2002/{language}.{part}" for language in ("esp", "ned") for part in ("train", "testa")]
    names += ["conll2000/train.txt", "conll2000/test.txt"]
    trees = {f"bank/{number}.dp": FILES["bank.dp"] for number in range(5)}
    for name, members in (("SENTENCES", dict.fromkeys(names, 3 * FILES["part0.txt"])), ("TREES", trees)):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as archive:
            for member, text in members.items():
                archive.writestr(member, text)
    return tmp_path


def test_dutch_sentences_are_asked_for(tmp_path, ended):
    pytest.importorskip("matplotlib", reason="draws pictures: pip install 'diptych[app]'")
    with zipfile.ZipFile(tmp_path / "spanish.zip", "w") as archive:
        for part in ("train", "testa"):
            archive.writestr(f"esp.{part}", 3 * FILES["part0.txt"])
    status, _, err = ended("casimir-reasons-dutch", tmp_path / "spanish.zip", "--quick", "--out", tmp_path)
    assert status == 2 and "a zip with ned.train and ned.testa" in err


def test_the_templates_of_the_paper_are_as_many_and_different():
    templates = parsing_templates.Treebank("", 1, 0, 0, "507", 1).checked_templates()
    assert len(set(map(frozenset, templates))) == 507


@pytest.mark.beyond("runs every experiment of the papers")
@pytest.mark.parametrize(("words", "rest"), entries("experiments.txt"))
def test_every_experiment_runs_and_is_drawn_again(made_up, ended, monkeypatch, words, rest):
    """The picture is made again from the report alone; a report of another experiment is rejected, as is a text."""
    pytest.importorskip("matplotlib", reason="draws pictures: pip install 'diptych[app]'")
    monkeypatch.chdir(made_up)
    (name, *data), (report, *wrong) = words.split(), rest.split()
    report, picture = made_up / f"{report}.json", made_up / f"{report}.png"
    assert ended(name, *data, "--quick", "--out", ".")[0] == 0
    found = json.loads(report.read_text(encoding="utf-8"))
    assert found.get("curves", found.get("runs", True))
    picture.unlink()
    assert ended(name, "--draw", report)[0] == 0 and picture.read_bytes().startswith(PNG)
    other = "mkl-table-1" if name.startswith(("casimir", "ssvm", "screening")) else "screening-chains"
    assert ended(other, "--draw", report)[0] == 2
    assert not wrong or ended(name, *wrong, *([] if "--draw" in wrong else ["--quick", "--out", "."]))[0] == 2


@pytest.mark.beyond("runs every experiment of the papers")
def test_out_of_core(made_up, ended):
    words = ["--quick", "--json", "--quiet", "--memory", "1MB"]
    status, out, _ = ended("out-of-core", made_up / "SENTENCES.zip", *words)
    report = json.loads(out)
    assert status == 0 and report["copies"] == 2 and [run["method"] for run in report["runs"]] == ["lbfgs", "cocoa"]
    for run in report["runs"]:
        assert run["sentences"] == 2 * 24 and len(run["rows"]) == 2 and run["bytes"] > 2**20
        assert all(gap >= 0 for _, gap in run["rows"])
    assert ended("out-of-core", made_up / "none.zip", "--quick")[0] == 2
