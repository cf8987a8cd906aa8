"""Laws of every command that trains: its model is scored as its report says, a run that was cut goes on, files hold
what would be printed, pictures are drawn, and signals keep the best weights.
"""

from __future__ import annotations

import json
import re
import signal
from importlib import import_module

import numpy as np
import pytest

from conformance.application.conftest import Command
from conformance.application.test_app import PNG
from conformance.specimens.commands import COMMANDS, STARTS
from conformance.specimens.requests import prepare
from conformance.tolerances import close
from diptych.files import load_log, load_model
from diptych.files.logs import LogWriter
from diptych.panels import PANELS

UNSEEN = {"job", "saved", "log", "checkpoint", "resume"}  # the words themselves


def on_panels(names, cases):
    """Each case on both panels; in the first tier on one of them, in turn."""
    other = pytest.mark.beyond("the other panel")
    return pytest.mark.parametrize(
        f"{names}, panel",
        [
            pytest.param(*case, panel, marks=[] if (i + k) % 2 == 0 else other)
            for i, case in enumerate(cases)
            for k, panel in enumerate(PANELS)
        ],
    )


every = on_panels("name", [(name,) for name in COMMANDS])


@pytest.fixture
def cli(panel, tmp_path, monkeypatch, capsys):
    """The command in a panel, in a folder with all files."""
    prepare(import_module(panel), tmp_path)
    monkeypatch.chdir(tmp_path)
    return Command(import_module(panel), capsys)


def reported(cli, *words):
    """A report, where all goes well and nothing is said."""
    status, out, err = cli.run(*words, "--json", "--quiet")
    assert status == 0 and err == "", err
    return json.loads(out)


def of(command, words):
    """Words for the saved model."""
    return ["m.npz" if word == "MODEL" else word for word in getattr(command, words)]


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
def test_a_model_scores_as_its_training_said_and_answers_the_same_again(cli, name):
    """By evaluate, on the training data; what predict prints is what --out holds, as text and as JSON. show has the
    number of weights that are not 0, and the names that the command has for them; other tasks refuse the model.
    """
    command = COMMANDS[name]
    report = reported(cli, *command.train("--save", "m.npz"), "--epochs", command.epochs[1])
    assert report["command"] == " ".join([*command.task, "train"])
    ours, theirs = command.agree(report, reported(cli, *of(command, "evaluate")))
    assert {key: theirs[key] for key in ours} == ours if isinstance(ours, dict) else theirs == ours
    assert cli.printed(*of(command, "evaluate"))
    for form in ([], ["--json"]):
        words = [*of(command, "predict"), *form]
        printed = cli.printed(*words)
        assert timeless(printed) == timeless(cli.printed(*words)) != ""
        if name != "segment":  # it writes a picture, and prints what there is to say of it
            assert cli.printed(*words, "--out", "out.txt") == ""
            with open("out.txt", newline="", encoding="utf-8") as file:
                assert file.read() == printed
    shown, words, (key, found) = (
        reported(cli, *command.task, "show", "m.npz"), " ".join([*command.task, "show"]), command.shown)  # fmt: skip
    w = load_model("m.npz", "reference")[1]
    assert shown["command"] == words and found in shown[key]
    assert not isinstance(w, np.ndarray) or shown["nonzeros"] == np.count_nonzero(w)
    assert len(cli.printed(*command.task, "show", "m.npz")) > 20
    for other in {"", "tag", "segment", "align", "localize", "parse"} - {" ".join(command.task)}:
        err = cli.refused(*other.split(), "show", "m.npz")
        assert "expected a model of" in err and err.endswith(f"diptych {words} reads it\n")


@pytest.mark.beyond("a training through every command")
@every
def test_a_run_cut_in_two_is_that_of_one_run(cli, name):
    """But for the time: reports, weights to the bit, and logs, of which the second part goes on in one file."""
    command = COMMANDS[name]
    few, many = command.epochs
    uncut = reported(cli, *command.train("--epochs", many, "--log", "uncut.jsonl", "--save", "uncut.npz"))
    second = []
    if command.checkpoint:
        reported(cli, *command.train("--epochs", few, "--log", "cut.jsonl", "--checkpoint", "run.npz"))
        second = ["--resume", "run.npz"]
    found = reported(cli, *command.train("--epochs", many, "--log", "cut.jsonl", "--save", "cut.npz", *second))
    assert untimed(found) == untimed(uncut)
    (settings, w), (same, v) = leaves("uncut.npz"), leaves("cut.npz")
    assert settings == same and len(w) == len(v) and all(map(np.array_equal, w, v))
    if command.checkpoint:  # else lines are values of beta, or as many as are needed
        logs = [load_log(each) for each in ("uncut.jsonl", "cut.jsonl")]
        plain = [[{**row.as_dict(), "seconds": None} for row in each.rows] for each in logs]
        assert plain[0] == plain[1] and len(plain[0]) == many and untimed(logs[0].outcome) == untimed(logs[1].outcome)


@on_panels("first, second", STARTS)
def test_a_run_starts_from_a_saved_model(cli, first, second):
    """Without an epoch its objective, settings and weights are those of the model, whatever optimiser wrote it."""
    before = reported(cli, *first.split(), "--save", "m.npz", "--epochs", 3)
    again = reported(cli, *second.split(), "--save", "n.npz", "--epochs", 0, "--start", "m.npz")
    assert again.get("start", "m.npz") == "m.npz"
    for one, other in zip(before.get("classes", [before]), again.get("classes", [again]), strict=True):
        close(other["objective"], one["objective"])
    (settings, (w,)), (same, (v,)) = leaves("m.npz"), leaves("n.npz")
    assert settings == same and np.array_equal(v, w)


@pytest.mark.beyond("a picture of every command")
@every
def test_pictures_are_drawn_and_a_full_disk_is_said(cli, name, tmp_path):
    """--limit, where the command has it, is the number of examples."""
    pytest.importorskip("matplotlib")
    command = COMMANDS[name]
    report = reported(cli, *command.train("--epochs", command.epochs[0], "--plot", "p.png"))
    assert (tmp_path / "p.png").read_bytes().startswith(PNG) and report["plot"] == "p.png"
    if not {"--limit", "--partitions"} & {*command.options}:
        few = reported(cli, *command.train("--limit", 2, "--epochs", command.epochs[0]))
        every = [few, *few.get("classes", [])]
        assert [x[key] for x in every for key in ("sequences", "sentences", "examples", "images") if key in x] == [2]
    status, _, err = cli.run(*command.train("--epochs", command.epochs[0], "--save", "/dev/full", "--quiet"))
    assert status == 1 and err == f"diptych {' '.join([*command.task, 'train'])}: /dev/full: no space left on device\n"


@pytest.mark.beyond("a training through every command")
@every
def test_sigterm_keeps_the_weights(cli, name, monkeypatch, installed):
    """It comes after the first epoch; a second one, as timeout(1) sends it, changes nothing."""

    def terminated(self, row):
        write(self, row)
        if {"epoch", "value"} & set(row):
            signal.raise_signal(signal.SIGTERM)

    write = LogWriter.write
    monkeypatch.setattr(LogWriter, "write", terminated)
    status, out, _ = cli.run(*COMMANDS[name].train("--quiet", "--save", "m.npz", "--log", "log.jsonl"))
    assert status == 143 and "not converged: " in out and load_log("log.jsonl").outcome["interrupted"]
    assert all(np.all(np.isfinite(each)) for each in leaves("m.npz")[1])
