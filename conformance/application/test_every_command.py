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

from conformance.application.test_interrupts import installed
from conformance.specimens.commands import COMMANDS, STARTS
from conformance.specimens.requests import prepare
from conformance.tolerances import close
from diptych.commands.main import main
from diptych.files import load_log, load_model
from diptych.files.logs import LogWriter
from diptych.panels import PANELS

__all__ = ["installed"]  # a fixture
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
def said(panel, tmp_path, monkeypatch, capsys):
    """A function that runs a command in a folder with all files, and gives its status, output and errors."""
    prepare(import_module(panel), tmp_path)
    monkeypatch.chdir(tmp_path)

    def run(*words, model="m.npz"):
        status = main([*(model if word == "MODEL" else str(word) for word in words), "--panel", panel])
        out, err = capsys.readouterr()
        return status, out, "\n".join(line for line in err.splitlines() if "compiling" not in line)

    return run


def reported(said, *words):
    status, out, err = said(*words, "--json", "--quiet")
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


@every
def test_a_model_scores_as_its_training_said_and_answers_the_same_again(said, name):
    """By evaluate, on the training data; what predict prints is what --out holds, as text and as JSON."""
    command = COMMANDS[name]
    report = reported(said, *command.train("--save", "m.npz"), "--epochs", command.epochs[1])
    assert report["command"] == " ".join([*command.task, "train"])
    ours, theirs = command.agree(report, reported(said, *command.evaluate))
    assert {key: theirs[key] for key in ours} == ours if isinstance(ours, dict) else theirs == ours
    for form in ([], ["--json"]):
        status, printed, _ = said(*command.predict, *form)
        again = said(*command.predict, *form)[1]
        assert status == 0 and timeless(printed) == timeless(again) != ""
        if name != "segment":  # it writes a picture, and prints what there is to say of it
            assert said(*command.predict, *form, "--out", "out.txt")[:2] == (0, "")
            with open("out.txt", newline="", encoding="utf-8") as file:
                assert file.read() == printed
    assert said(*command.evaluate)[0] == 0


@every
def test_show_says_what_a_model_has_learned(said, name):
    """The number of weights that are not 0, and the names that the command has for them; other tasks refuse it."""
    command = COMMANDS[name]
    reported(said, *command.train("--save", "m.npz"), "--epochs", command.epochs[0])
    shown = reported(said, *command.task, "show", "m.npz")
    w, (key, found), words = load_model("m.npz", "reference")[1], command.shown, " ".join([*command.task, "show"])
    assert shown["command"] == words and found in shown[key]
    assert not isinstance(w, np.ndarray) or shown["nonzeros"] == np.count_nonzero(w)
    status, printed, _ = said(*command.task, "show", "m.npz")
    assert status == 0 and len(printed) > 20
    for other in {"", "tag", "segment", "align", "localize", "parse"} - {" ".join(command.task)}:
        status, out, err = said(*other.split(), "show", "m.npz")
        assert status == 2 and out == "" and "expected a model of" in err and err.endswith(f"diptych {words} reads it")


@pytest.mark.beyond("a training through every command")
@every
def test_a_run_cut_in_two_is_that_of_one_run(said, name):
    """But for the time: reports, weights to the bit, and logs, of which the second part goes on in one file."""
    command = COMMANDS[name]
    few, many = command.epochs
    uncut = reported(said, *command.train("--epochs", many, "--log", "uncut.jsonl", "--save", "uncut.npz"))
    first = ["--checkpoint", "run.npz"] if command.checkpoint else []
    second = ["--resume", "run.npz"] if command.checkpoint else []
    if first:
        reported(said, *command.train("--epochs", few, "--log", "cut.jsonl", *first))
    found = reported(said, *command.train("--epochs", many, "--log", "cut.jsonl", "--save", "cut.npz", *second))
    assert untimed(found) == untimed(uncut)
    (one, w, _), (two, v, _) = load_model("uncut.npz", "reference"), load_model("cut.npz", "reference")
    assert one.settings() == two.settings()
    for a, b in zip(leaves(w), leaves(v), strict=True):
        assert np.array_equal(a, b)
    if command.checkpoint:  # else lines are values of beta, or as many as are needed
        logs = [load_log(each) for each in ("uncut.jsonl", "cut.jsonl")]
        plain = [[{**row.as_dict(), "seconds": None} for row in each.rows] for each in logs]
        assert plain[0] == plain[1] and len(plain[0]) == many and untimed(logs[0].outcome) == untimed(logs[1].outcome)


@on_panels("first, second", STARTS)
def test_a_run_starts_from_a_saved_model(said, first, second):
    """Without an epoch its objective, settings and weights are those of the model, whatever optimiser wrote it."""
    before = reported(said, *first.split(), "--save", "m.npz", "--epochs", 3)
    again = reported(said, *second.split(), "--save", "n.npz", "--epochs", 0, "--start", "m.npz")
    assert again.get("start", "m.npz") == "m.npz"
    for one, other in zip(before.get("classes", [before]), again.get("classes", [again]), strict=True):
        close(other["objective"], one["objective"])
    (model, w, _), (same, v, _) = load_model("m.npz", "reference"), load_model("n.npz", "reference")
    assert same.settings() == model.settings() and np.array_equal(v, w)


def leaves(w):
    """The arrays of weights."""
    if isinstance(w, np.ndarray):
        yield w
    else:
        for each in w:
            yield from leaves(each)


@pytest.mark.beyond("a picture of every command")
@every
def test_pictures_are_drawn_and_a_full_disk_is_said(said, name, tmp_path):
    """--limit, where the command has it, is the number of examples."""
    pytest.importorskip("matplotlib")
    command = COMMANDS[name]
    report = reported(said, *command.train("--epochs", command.epochs[0], "--plot", "p.png"))
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG") and report["plot"] == "p.png"
    limit = [] if "--limit" in command.options or "--partitions" in command.options else ["--limit", 2]
    few = reported(said, *command.train(*limit, "--epochs", command.epochs[0]))
    counts = [each[what] for each in (few, *few.get("classes", []))
              for what in ("sequences", "sentences", "examples", "images") if what in each]  # fmt: skip
    assert not limit or counts == [2]
    status, _, err = said(*command.train("--epochs", command.epochs[0], "--save", "/dev/full", "--quiet"))
    assert status == 1 and err == f"diptych {' '.join([*command.task, 'train'])}: /dev/full: no space left on device"


@pytest.mark.beyond("a training through every command")
@every
def test_sigterm_keeps_the_weights(said, name, monkeypatch, installed):
    """It comes after the first epoch; a second one, as timeout(1) sends it, changes nothing."""

    def terminated(self, row):
        write(self, row)
        if {"epoch", "value"} & set(row):
            signal.raise_signal(signal.SIGTERM)

    write = LogWriter.write
    monkeypatch.setattr(LogWriter, "write", terminated)
    status, out, _ = said(*COMMANDS[name].train("--quiet", "--save", "m.npz", "--log", "log.jsonl"))
    assert status == 143 and "not converged: " in out and load_log("log.jsonl").outcome["interrupted"]
    for each in leaves(load_model("m.npz", "reference")[1]):
        assert np.all(np.isfinite(each))
