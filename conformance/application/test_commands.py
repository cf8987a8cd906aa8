"""What the commands share: options, help, what they refuse, and laws of every command that trains."""

from __future__ import annotations

import argparse
import inspect
import json
import re
import shlex
import signal
import sys
import types
from functools import cache
from importlib import import_module

import numpy as np
import pytest

import reference
from conformance.application.conftest import Command
from conformance.application.test_app import PNG
from conformance.damage import spoil
from conformance.specimens.commands import COMMANDS, STARTS
from conformance.specimens.pages import entries
from conformance.specimens.requests import NOTICED, REQUESTS, prepare
from conformance.tolerances import close
from diptych.commands import localize
from diptych.commands.jobs import HINGE_ONLY, OPTIMIZERS
from diptych.commands.main import main, parser
from diptych.commands.options import FLAGS, Parser
from diptych.commands.solvers import RENAMED, epochs_of, own, takes
from diptych.defaults import LBFGS_ITERATIONS
from diptych.files import load_log, load_model, load_sequences
from diptych.files.logs import LogWriter
from diptych.panels import PANELS
from reference.declared import members, options_of

TASKS = ("", "tag", "parse", "segment", "align", "localize")
TRAINING = ("limit", "checkpoint", "resume", "save", "plot", "log", "lam", "epochs", "tol", "rng")
SOLVERS = tuple(dict.fromkeys((*OPTIMIZERS, *localize.OPTIMIZERS)))


def commands(at: Parser | None = None, name: str = "") -> dict[str, Parser]:
    """Every command by its words."""
    at = parser() if at is None else at
    found = {name: at}
    for action in at._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, sub in action.choices.items():
                found |= commands(sub, f"{name} {word}".strip())
    return found


def test_shared_options_mean_one_thing_and_are_wherever_they_make_sense():
    """Type, action and the first words of the help of an option are the same wherever it is."""
    expected = {"train": {*TRAINING}, "predict": {"out", "limit", "most_bytes"}}
    expected |= {"evaluate": {"most_bytes"}, "show": {"most_bytes"}}
    assert {f"{task} {action}".strip() for task in TASKS for action in expected} <= commands().keys()
    for words, sub in commands().items():
        has = {name: sub._option_string_actions.get(f"--{name.replace('_', '-')}") for name in FLAGS}
        has = {name: action for name, action in has.items() if action is not None}
        for name, action in has.items():
            if (words, name) != ("localize make", "test"):  # which letters the scenes are of
                flag = FLAGS[name]
                assert action.help.startswith(flag.help) and action.type == flag.how.get("type"), (words, name)
        if isinstance(sub._defaults.get("command"), types.FunctionType):  # it is no task
            assert {"json", "quiet"} | expected.get(words.split(" ")[-1], set()) <= has.keys(), words


@pytest.mark.parametrize("solver", SOLVERS)
def test_options_of_a_solver_are_its_parameters(solver):
    """Each is a parameter of the public function, with its default; none of plain type is left out."""
    function = getattr(reference, solver.replace("-", "_"))
    parameters, hints = inspect.signature(function).parameters, options_of(function)
    if "options" in parameters:  # a preset of casimir
        parameters = {**inspect.signature(reference.casimir).parameters, **parameters}
        hints = options_of(reference.casimir) | hints
    shared = {"lam", "epochs", "iterations", "rng"}
    options = {old: new for (name, old), new in RENAMED.items() if name == solver}
    names = {new: old for old, new in options.items()}
    for name, option in own(solver).items():
        assert option.default == parameters[names.get(name, name)].default or name == "step_size"
    plain = {
        options.get(name, name)
        for name in parameters
        if {float, int, bool} & {kind for kind, _ in members(hints[name])} and name not in shared | {"accuracy"}
    }
    assert plain <= set(own(solver)) and not shared & set(own(solver))
    if solver == "lbfgs":  # which commands run to convergence
        assert epochs_of(solver) == LBFGS_ITERATIONS > parameters["iterations"].default
    else:
        assert epochs_of(solver) == parameters["epochs" if "epochs" in parameters else "iterations"].default
    assert takes(solver, "w0") == ("w0" in parameters) and takes(solver, "checkpoint") == ("checkpoint" in parameters)


@pytest.mark.parametrize("solver", OPTIMIZERS)
def test_an_option_of_another_solver_is_refused_by_name(data_file, reference_cli, solver):
    loss = ["--loss", "hinge"] if solver in (*HINGE_ONLY, "casimir-svrg-adapt") else []
    for name in {name for each in OPTIMIZERS for name in own(each)} - set(own(solver)) - {"mu", "k"}:
        having = [each for each in OPTIMIZERS if name in own(each)]
        option = own(having[0])[name]
        flag = f"--{'no-' if option.default is True else ''}{name.replace('_', '-')}"
        value = [] if option.kind is bool else [option.choices[0] if option.choices else "1"]
        err = reference_cli.refused("train", data_file, "--optimizer", solver, *loss, flag, *value)
        assert f"{flag} has no effect with --optimizer {solver}; these have it: {', '.join(having)}" in err
        assert err.count("\n") == 1


def test_options_reach_the_solver(backend, data_file, cli):
    """The weights are those of the public function, bit for bit. Counts have 31 bits, seeds and bytes 63."""
    shared = {"lam": 0.1, "epochs": 3, "rng": 2**63 - 1, "tol": 1e-9}
    options = {"cached_passes": 0, "capacity": 1, "line_search": False, "average": "weighted"}
    words = f"--lam 0.1 --epochs 3 --rng {2**63 - 1} --tol 1e-9 --limit {2**31 - 1} --most-bytes {2**63 - 1}"
    words += " --cached-passes 0 --capacity 1 --no-line-search --average weighted"
    cli.printed(f"train toy.npz --loss hinge --optimizer bcfw {words} --save m.npz")
    (model, w, info), data = load_model("m.npz", backend.module), load_sequences(data_file)
    objective = backend.StructuralHinge(model, model.pack(data.X, data.Y))
    assert np.array_equal(w, backend.bcfw(objective, **shared, **options).x) and options.items() <= info.items()
    assert not np.array_equal(w, backend.bcfw(objective, **shared).x)


@pytest.mark.parametrize("words", sorted(commands()))
def test_help_is_one_screen_and_help_all_has_everything(reference_cli, monkeypatch, words):
    """It is a word too, and what a command of commands shows."""
    monkeypatch.setenv("COLUMNS", "80")
    run, sub = reference_cli.run, commands()[words]
    status, brief, _ = run(*words.split(), "--help")
    assert status == 0 and brief.startswith(f"usage: diptych {words}".strip()) and len(brief.splitlines()) <= 40
    assert all(len(line) <= 80 for line in brief.splitlines())
    assert brief.count("(") == brief.count(")")  # what is left out leaves no parenthesis open
    whole = run(*words.split(), "--help-all")[1]
    shown = [action for action in sub._actions if action.help != argparse.SUPPRESS]
    assert all(option in whole for action in shown for option in action.option_strings)
    hidden = len([a for a in shown if a.option_strings and not any(o in brief for o in a.option_strings)])
    assert (f"{hidden} more option{'s' if hidden > 1 else ''}: --help-all" in brief) == (hidden > 0)
    assert "--panel" not in whole or words not in ("check", "compare", "demo")
    if words in ("", "tag", "localize"):
        assert run("help", *words.split()) == (0, brief, "")
        with pytest.raises(SystemExit):
            main(words.split())
        assert reference_cli.capsys.readouterr().out == brief


def test_completion_and_the_version(reference_cli, monkeypatch):
    run = reference_cli.run
    assert run("--version") == (0, f"diptych {reference.__version__}\n", "")
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "shtab", None)
        status, _, err = run("--print-completion bash")
        assert status == 2 and "pip install 'diptych[completion]'" in err
    pytest.importorskip("shtab")
    status, out, _ = run("--print-completion bash")
    assert status == 0 and "exponentiated-gradient" in out and "--print-completion" in out
    assert "expected one of bash" in run("--print-completion none")[2]


def listed(folder):
    """Every file, its size and when it was written; but for the runs that a grid keeps."""
    files = (path for path in folder.rglob("*") if path.name != "kept.jsonl")
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A function of a panel: its folder with all that requests name."""

    @cache
    def prepared(sp):
        prepare(sp, folder := tmp_path_factory.mktemp(sp.__name__))
        return folder

    return prepared


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: shlex.join(each.words)[:100])
def test_a_wrong_request_is_one_line_and_status_2(backend, folders, monkeypatch, cli, request_):
    folder = folders(backend.module)
    monkeypatch.chdir(folder)
    before = listed(folder)
    status, out, err = cli.run(*request_.words)
    *notes, line = err.splitlines()
    assert status == 2 and line.startswith("diptych") and request_.said, err
    assert not notes or {"tag", "grid"} & {*request_.words}  # how files are read, and which run failed
    assert not out or "grid" in request_.words  # its table without scores
    assert all(message in line for message in request_.said), line
    assert listed(folder) == before


@pytest.mark.parametrize("request_", NOTICED, ids=lambda each: shlex.join(each.words)[:100])
def test_what_a_file_looks_like_is_said_and_ends_no_run(folders, monkeypatch, reference_cli, request_):
    monkeypatch.chdir(folders(reference))
    status, out, err = reference_cli.run(*request_.words)
    assert status == 0 and out and all(message in err for message in request_.said), err
    assert "train" not in request_.words or len(err.splitlines()) == 1


@pytest.mark.parametrize(("entry", "message"), entries("wrong_infos.txt"))
def test_a_model_file_that_does_not_say_what_a_command_needs_is_named(
    tmp_path, monkeypatch, reference_cli, entry, message
):
    prepare(reference, tmp_path)
    monkeypatch.chdir(tmp_path)
    words, _, change = entry.partition(": ")
    spoil(tmp_path / next(word for word in words.split() if word.endswith(".npz")), change)
    assert message in reference_cli.refused(*words.split())


ODD = ("", "--", "nan", "inf", "-inf", "1e400", "-1", "x", "9" * 400, "9" * 5000)
NUMBERS = ("lam", "mu", "tol", "step-size", "tau", "C", "beta", "alpha", "kappa", "sigma")
COUNTS = ("k", "rng", "epochs", "fold", "limit", "path", "most-bytes")


@pytest.mark.parametrize("option", [*NUMBERS, *COUNTS])
def test_odd_values_are_one_line_and_status_2(reference_cli, option):
    for value in ODD:
        err = reference_cli.refused("train", "letters", f"--{option}={value}")
        assert len(err.splitlines()) == 1 and f"argument --{option}: expected" in err and len(err) < 300


UNSEEN = {"job", "saved", "log", "checkpoint", "resume"}  # the words themselves


def on_panels(names, cases):
    """Each case on both panels; in the first tier on the reference, and every fourth on kernels instead."""
    other = pytest.mark.beyond("the other panel")
    return pytest.mark.parametrize(
        f"{names}, panel",
        [
            pytest.param(*case, panel, marks=[] if k == (i % 4 == 3) else other)
            for i, case in enumerate(cases)
            for k, panel in enumerate(PANELS)
        ],
    )


every = on_panels("name", [(name,) for name in COMMANDS])


@pytest.fixture
def prepared_cli(panel, tmp_path, monkeypatch, capsys):
    """The command in a panel, in a folder with all files."""
    prepare(import_module(panel), tmp_path)
    monkeypatch.chdir(tmp_path)
    return Command(import_module(panel), capsys)


def reported(cli, *words):
    """A report, where all goes well and nothing is said."""
    status, out, err = cli.run(*words, "--json", "--quiet")
    assert status == 0 and err == "", err
    return json.loads(out)


def untimed(found):
    """A report without times and without the words that it repeats."""
    if isinstance(found, dict):
        return {key: untimed(value) for key, value in found.items() if key not in UNSEEN and "seconds" not in key}
    return [untimed(each) for each in found] if isinstance(found, list) else found


def timeless(printed):
    """What is printed, without how long it took."""
    return re.sub(r"in \S+ seconds|\"seconds\": [^,]+,", "", printed)


def leaves(path):
    """The settings of a saved model, and the arrays of its weights."""
    model, w, _ = load_model(path, "reference")
    flat = [w] if isinstance(w, np.ndarray) else [x for each in w for x in ([each] if hasattr(each, "shape") else each)]
    return model.settings(), flat


@every
def test_a_model_scores_as_its_training_said_and_answers_the_same_again(prepared_cli, name):
    """By evaluate; --out holds what predict prints; show has its weights and names, and other tasks refuse it."""
    command = COMMANDS[name]
    report = reported(prepared_cli, *command.train("--save", "MODEL"), "--epochs", command.epochs[1])
    assert report["command"] == " ".join([*command.task, "train"])
    ours, theirs = command.agree(report, reported(prepared_cli, *command.evaluate))
    assert {key: theirs[key] for key in ours} == ours if isinstance(ours, dict) else theirs == ours
    assert prepared_cli.printed(*command.evaluate)
    for form in ([], ["--json"]):
        words = [*command.predict, *form]
        printed = prepared_cli.printed(*words)
        assert timeless(printed) == timeless(prepared_cli.printed(*words)) != ""
        if name != "segment":  # it writes a picture, and prints what there is to say of it
            assert prepared_cli.printed(*words, "--out", "out.txt") == ""
            with open("out.txt", newline="", encoding="utf-8") as file:
                assert file.read() == printed
    shown, words = reported(prepared_cli, *command.task, "show", "MODEL"), " ".join([*command.task, "show"])
    (key, found), w = command.shown, load_model("MODEL", "reference")[1]
    assert shown["command"] == words and found in shown[key]
    assert not isinstance(w, np.ndarray) or shown["nonzeros"] == np.count_nonzero(w)
    assert len(prepared_cli.printed(*command.task, "show", "MODEL")) > 20
    for other in {"", "tag", "segment", "align", "localize", "parse"} - {" ".join(command.task)}:
        err = prepared_cli.refused(*other.split(), "show", "MODEL")
        assert "expected a model of" in err and err.endswith(f"diptych {words} reads it\n")


@pytest.mark.beyond("a training through every command")
@every
def test_a_run_cut_in_two_is_that_of_one_run(prepared_cli, name):
    """But for the time: reports, weights to the bit, and logs, of which the second part goes on in one file."""
    command = COMMANDS[name]
    few, many = command.epochs
    uncut = reported(prepared_cli, *command.train("--epochs", many, "--log", "uncut.jsonl", "--save", "uncut.npz"))
    second = []
    if command.checkpoint:
        reported(prepared_cli, *command.train("--epochs", few, "--log", "cut.jsonl", "--checkpoint", "run.npz"))
        second = ["--resume", "run.npz"]
    found = reported(prepared_cli, *command.train("--epochs", many, "--log", "cut.jsonl", "--save", "cut.npz", *second))
    assert untimed(found) == untimed(uncut)
    (settings, w), (same, v) = leaves("uncut.npz"), leaves("cut.npz")
    assert settings == same and len(w) == len(v) and all(map(np.array_equal, w, v))
    if command.checkpoint:  # else lines are values of beta, or as many as are needed
        logs = [load_log(each) for each in ("uncut.jsonl", "cut.jsonl")]
        plain = [[{**row.as_dict(), "seconds": None} for row in each.rows] for each in logs]
        assert plain[0] == plain[1] and plain[0][-1]["epoch"] == many
        assert untimed(logs[0].outcome) == untimed(logs[1].outcome)


@on_panels("first, second", STARTS)
def test_a_run_starts_from_a_saved_model(prepared_cli, first, second):
    """Without an epoch its objective, settings and weights are those of the model, whatever optimiser wrote it."""
    before = reported(prepared_cli, *first.split(), "--save", "m.npz", "--epochs", 3)
    again = reported(prepared_cli, *second.split(), "--save", "n.npz", "--epochs", 0, "--start", "m.npz")
    assert again.get("start", "m.npz") == "m.npz"
    for one, other in zip(before.get("classes", [before]), again.get("classes", [again]), strict=True):
        close(other["objective"], one["objective"])
    (settings, (w,)), (same, (v,)) = leaves("m.npz"), leaves("n.npz")
    assert settings == same and np.array_equal(v, w)


@pytest.mark.beyond("a picture of every command")
@every
def test_pictures_are_drawn_and_a_full_disk_is_said(prepared_cli, name, tmp_path):
    """--limit, where the command has it, is the number of examples."""
    pytest.importorskip("matplotlib")
    command = COMMANDS[name]
    report = reported(prepared_cli, *command.train("--epochs", command.epochs[0], "--plot", "p.png"))
    assert (tmp_path / "p.png").read_bytes().startswith(PNG) and report["plot"] == "p.png"
    if not {"--limit", "--partitions"} & {*command.options}:
        few = reported(prepared_cli, *command.train("--limit", 2, "--epochs", command.epochs[0]))
        every = [few, *few.get("classes", [])]
        assert [x[key] for x in every for key in ("sequences", "sentences", "examples", "images") if key in x] == [2]
    status, _, err = prepared_cli.run(*command.train("--epochs", command.epochs[0], "--save", "/dev/full", "--quiet"))
    assert status == 1 and err == f"diptych {' '.join([*command.task, 'train'])}: /dev/full: no space left on device\n"


@pytest.mark.beyond("a training through every command")
@every
def test_sigterm_keeps_the_weights(prepared_cli, name, monkeypatch, installed):
    """It comes after the first epoch; a second one, as timeout(1) sends it, changes nothing."""

    def terminated(self, row):
        write(self, row)
        if {"epoch", "value"} & set(row):
            signal.raise_signal(signal.SIGTERM)

    write = LogWriter.write
    monkeypatch.setattr(LogWriter, "write", terminated)
    status, out, _ = prepared_cli.run(*COMMANDS[name].train("--quiet", "--save", "m.npz", "--log", "log.jsonl"))
    assert status == 143 and "not converged: " in out and load_log("log.jsonl").outcome["interrupted"]
    assert all(np.all(np.isfinite(each)) for each in leaves("m.npz")[1])
