"""What the commands share: options of one meaning, solvers' own options, help of one screen, "did you mean", show."""

from __future__ import annotations

import argparse
import inspect
import sys
import types

import numpy as np
import pytest

import reference
from conformance.application.test_app import data_file, reported, run
from diptych.commands import localize
from diptych.commands.jobs import HINGE_ONLY, OPTIMIZERS
from diptych.commands.main import main, parser
from diptych.commands.options import FLAGS
from diptych.commands.parser import Parser
from diptych.commands.solvers import RENAMED, epochs_of, own, takes
from diptych.defaults import LBFGS_ITERATIONS
from diptych.files import load_model, load_sequences
from reference.declared import members, options_of

__all__ = ["data_file"]  # a fixture
TASKS = ("", "tag", "parse", "segment", "align", "localize")
TRAINING = ("limit", "checkpoint", "resume", "save", "plot", "log")  # of every command that trains
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


def said(capsys, *words):
    """What a command that ends by itself prints, and its status."""
    with pytest.raises(SystemExit) as stop:
        main([*map(str, words)])
    out, err = capsys.readouterr()
    return stop.value.code, out, err


# options -------------------------------------------------------------------------------------------------------------


def test_every_task_has_the_four_actions():
    have = commands()
    for task in TASKS:
        for action in ("train", "evaluate", "predict", "show"):
            assert f"{task} {action}".strip() in have


def test_shared_options_mean_one_thing():
    """Type, action and the first words of the help of an option are the same wherever it is."""
    other = {("localize make", "--test")}  # which letters the scenes are of
    for words, sub in commands().items():
        for name, flag in FLAGS.items():
            option = f"--{name.replace('_', '-')}"
            action = sub._option_string_actions.get(option)
            if action is not None and (words, option) not in other:
                assert action.help.startswith(flag.help) and action.type == flag.how.get("type"), (words, option)


def test_shared_options_are_wherever_they_make_sense():
    for words, sub in commands().items():
        has = {name for name in FLAGS if f"--{name.replace('_', '-')}" in sub._option_string_actions}
        action = words.split(" ")[-1]
        if not isinstance(sub._defaults.get("command"), types.FunctionType):
            continue  # a task
        assert {"json", "quiet"} <= has, words
        if action == "train":
            assert {*TRAINING, "lam", "epochs", "tol", "rng"} <= has, words
        if action in ("evaluate", "show"):
            assert "most_bytes" in has, words
        if action == "predict":
            assert {"out", "limit", "most_bytes"} <= has, words


# solvers -------------------------------------------------------------------------------------------------------------


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
def test_an_option_of_another_solver_is_refused_by_name(data_file, capsys, solver):
    loss = ["--loss", "hinge"] if solver in (*HINGE_ONLY, "casimir-svrg-adapt") else []
    for name in {name for each in OPTIMIZERS for name in own(each)} - set(own(solver)) - {"mu", "k"}:
        option = own(next(each for each in OPTIMIZERS if name in own(each)))[name]
        flag = f"--{'no-' if option.default is True else ''}{name.replace('_', '-')}"
        value = [] if option.kind is bool else [option.choices[0] if option.choices else "1"]
        status, out, err = run(reference, capsys, "train", data_file, "--optimizer", solver, *loss, flag, *value)
        having = [each for each in OPTIMIZERS if name in own(each)]
        assert status == 2 and out == "" and err.count("\n") == 1
        assert f"{flag} has no effect with --optimizer {solver}; these have it: {', '.join(having)}" in err


def test_options_reach_the_solver(backend, data_file, tmp_path, capsys):
    """The command's weights are those of the public function with the same options, bit for bit."""
    saved = tmp_path / "m.npz"
    how = ["--loss", "hinge", "--optimizer", "bcfw", "--lam", 0.1, "--epochs", 3, "--rng", 5, "--save", saved]
    own_options = ["--cached-passes", 0, "--capacity", 1, "--no-line-search", "--average", "weighted", "--tol", 1e-9]
    status, _, err = run(backend, capsys, "train", data_file, *how, *own_options)
    assert status == 0, err
    model, w, info = load_model(saved, backend.module)
    data = load_sequences(data_file)
    objective = backend.StructuralHinge(model, model.pack(data.X, data.Y))
    expected = backend.bcfw(
        objective,
        lam=0.1,
        epochs=3,
        rng=5,
        cached_passes=0,
        capacity=1,
        line_search=False,
        average="weighted",
        tol=1e-9,
    )
    assert np.array_equal(w, expected.x) and info["cached_passes"] == 0 and info["line_search"] is False
    plain = backend.bcfw(objective, lam=0.1, epochs=3, rng=5, tol=1e-9)
    assert not np.array_equal(w, plain.x)


# help ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", sorted(commands()))
def test_help_is_one_screen_and_help_all_has_everything(capsys, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "80")
    status, brief, _ = said(capsys, *words.split(), "--help")
    assert status == 0 and brief.startswith(f"usage: diptych {words}".strip()) and len(brief.splitlines()) <= 40
    assert all(len(line) <= 80 for line in brief.splitlines())
    _, whole, _ = said(capsys, *words.split(), "--help-all")
    sub = commands()[words]
    shown = [action for action in sub._actions if action.help != argparse.SUPPRESS]
    for action in shown:
        for option in action.option_strings:
            assert option in whole
    hidden = len([a for a in shown if a.option_strings and not any(o in brief for o in a.option_strings)])
    assert (f"{hidden} more option{'s' if hidden > 1 else ''}: --help-all" in brief) == (hidden > 0)


@pytest.mark.parametrize("command", ["check", "compare", "demo"])
@pytest.mark.parametrize("panel", ["reference", "accelerated"])
def test_commands_of_both_panels_reject_panel(capsys, command, panel):
    words = [command, *(["letters"] if command == "compare" else [])]
    for given in (["--panel", panel, *words], [*words, "--panel", panel]):
        assert main(given) == 2
        out, err = capsys.readouterr()
        assert out == "" and err == f"diptych {command}: --panel {panel}: {command} runs both panels\n"
    assert "--panel" not in said(capsys, command, "--help-all")[1]


def test_help_is_a_word_too(capsys):
    for words in ([], ["tag"], ["tag", "train"]):
        shown = []
        for asked in (["help", *words], [*words, "--help"]):
            with pytest.raises(SystemExit) as stop:
                main(asked)
            assert stop.value.code == 0
            shown.append(capsys.readouterr().out)
        assert shown[0] == shown[1] != ""


@pytest.mark.parametrize("words", [[], ["tag"], ["localize"]])
def test_a_command_of_commands_alone_shows_its_help(capsys, words):
    assert said(capsys, *words) == said(capsys, *words, "--help")


def test_what_follows_reproduce_is_of_the_experiment(capsys):
    assert run(reference, capsys, "reproduce", "none", "--mine")[0] == 2


def test_completion_needs_shtab(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    status, _, err = said(capsys, "--print-completion", "bash")
    assert status == 2 and "pip install 'diptych[completion]'" in err


def test_completion_knows_commands_and_options(capsys):
    pytest.importorskip("shtab")
    status, out, _ = said(capsys, "--print-completion", "bash")
    assert status == 0 and "exponentiated-gradient" in out and "--print-completion" in out
    status, _, err = said(capsys, "--print-completion", "none")
    assert status == 2 and "expected one of bash" in err


# show, out, limit ----------------------------------------------------------------------------------------------------


def test_show_says_what_a_file_holds(backend, data_file, tmp_path, capsys):
    saved = tmp_path / "m.npz"
    run(backend, capsys, "train", data_file, "--epochs", 20, "--lam", 0.125, "--save", saved)
    model, w, _ = load_model(saved, backend.module)
    report = reported(backend, capsys, "show", saved, "--top", 1)
    assert report["kind"] == "SequenceModel" and report["weights"] == len(w) == 24
    assert report["nonzeros"] == np.count_nonzero(w) and report["trained"]["lam"] == 0.125
    W, T = model.split(w)
    for k, label in enumerate("abc"):  # label k follows feature k
        ((name, weight),) = report["labels"][label]
        assert abs(weight) == abs(W[:, k]).max() and (name != f"feature {k}" or weight == W[k, k])
    assert sorted(move[2] for move in report["transitions"]) == sorted(T.reshape(-1).tolist())
    status, out, _ = run(backend, capsys, "show", saved)
    assert status == 0 and "SequenceModel" in out and "optimizer sgd" in out and "transitions" in out
