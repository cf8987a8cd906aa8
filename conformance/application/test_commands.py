"""What the commands share: options of one meaning, solvers' own options, help of one screen, "did you mean"; and what
they refuse: one line that says why and status 2, nothing is printed, and no file is written.
"""

from __future__ import annotations

import argparse
import inspect
import shlex
import sys
import types

import numpy as np
import pytest

import reference
from conformance.damage import spoil
from conformance.specimens.pages import entries
from conformance.specimens.requests import NOTICED, REQUESTS, prepare
from diptych.commands import localize_jobs
from diptych.commands.jobs import HINGE_ONLY, OPTIMIZERS
from diptych.commands.main import main, parser
from diptych.commands.options import FLAGS
from diptych.commands.parser import Parser
from diptych.commands.solvers import RENAMED, epochs_of, own, takes
from diptych.defaults import LBFGS_ITERATIONS
from diptych.files import load_model, load_sequences
from reference.declared import members, options_of

TASKS = ("", "tag", "parse", "segment", "align", "localize")
TRAINING = ("limit", "checkpoint", "resume", "save", "plot", "log", "lam", "epochs", "tol", "rng")
SOLVERS = tuple(dict.fromkeys((*OPTIMIZERS, *localize_jobs.OPTIMIZERS)))


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
        value = [] if option.kind == "bool" else [option.choices[0] if option.choices else "1"]
        err = reference_cli.refused("train", data_file, "--optimizer", solver, *loss, flag, *value)
        assert f"{flag} has no effect with --optimizer {solver}; these have it: {', '.join(having)}" in err
        assert err.count("\n") == 1


def test_options_reach_the_solver(backend, data_file, tmp_path, cli):
    """The command's weights are those of the public function with the same options, bit for bit."""
    saved, shared = tmp_path / "m.npz", {"lam": 0.1, "epochs": 3, "rng": 5, "tol": 1e-9}
    options = {"cached_passes": 0, "capacity": 1, "line_search": False, "average": "weighted"}
    words = ["--cached-passes", 0, "--capacity", 1, "--no-line-search", "--average", "weighted"]
    words += [word for name, value in shared.items() for word in (f"--{name}", value)]
    cli.printed("train", data_file, "--loss", "hinge", "--optimizer", "bcfw", *words, "--save", saved)
    model, w, info = load_model(saved, backend.module)
    data = load_sequences(data_file)
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


def test_completion_knows_commands_and_options(reference_cli, monkeypatch):
    run = reference_cli.run
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "shtab", None)
        status, _, err = run("--print-completion", "bash")
        assert status == 2 and "pip install 'diptych[completion]'" in err
    pytest.importorskip("shtab")
    status, out, _ = run("--print-completion", "bash")
    assert status == 0 and "exponentiated-gradient" in out and "--print-completion" in out
    status, _, err = run("--print-completion", "none")
    assert status == 2 and "expected one of bash" in err


def listed(folder):
    """Every file, its size and when it was written; but for the runs that a grid keeps."""
    files = (path for path in folder.rglob("*") if path.name != "kept.jsonl")
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A function of a panel: its folder with all that requests name."""
    made = {}

    def of(sp):
        if sp.__name__ not in made:
            made[sp.__name__] = tmp_path_factory.mktemp(sp.__name__)
            prepare(sp, made[sp.__name__])
        return made[sp.__name__]

    return of


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


def test_the_largest_numbers(data_file, reference_cli):
    """Counts have 31 bits, seeds and bytes 63, degrees 31."""
    largest = ["--limit", 2**31 - 1, "--rng", 2**63 - 1, "--most-bytes", 2**63 - 1]
    reference_cli.printed("train", data_file, "--epochs", 1, *largest)
    assert reference.kernels.Polynomial(2**31 - 1, 0.0)(np.eye(2), np.eye(2))[0, 0] == 1
