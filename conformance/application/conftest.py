"""What tests of the application share: the command in a panel, learners in a panel, a file of sequences, signals."""

from __future__ import annotations

import json
import signal
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import diptych.estimators
import reference
from diptych import interrupts
from diptych.commands.main import main
from diptych.panels import PANELS

BOTH = {"check", "compare", "demo", "help", "reproduce", "--panel", "--pannel"}  # they choose no panel


def outcome(capsys, call, *given):
    """The status, output and errors of a call, without the line that says that kernels are compiled."""
    try:
        status = call(*given)
    except SystemExit as stop:  # the parser's
        status = stop.code
    out, err = capsys.readouterr()
    return status, out, "".join(f"{line}\n" for line in err.splitlines() if not line.startswith("compiling"))


class Command:
    """The command ``diptych`` in a panel."""

    def __init__(self, panel, capsys):
        if panel.__name__ not in PANELS:  # --panel names these
            pytest.skip("commands know the two panels alone")
        self.panel, self.capsys = panel.__name__, capsys

    def run(self, *words):
        """The outcome of words, of which the first may be several."""
        words = [*(words[0].split() if words else []), *map(str, words[1:])]
        return outcome(self.capsys, main, [*words, *([] if BOTH & {*words} else ["--panel", self.panel])])

    def printed(self, *words):
        """The output, where all goes well; ``reported`` has it as JSON."""
        status, out, err = self.run(*words)
        assert status == 0, err
        return out

    def reported(self, *words):
        return json.loads(self.printed(*words, "--json"))

    def refused(self, *words):
        """The error, where words are refused; nothing is printed."""
        status, out, err = self.run(*words)
        assert status == 2 and out == "", err
        return err


@pytest.fixture
def cli(backend, capsys, tmp_path, monkeypatch):
    """The command in each panel, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return Command(backend, capsys)


@pytest.fixture
def reference_cli(capsys, tmp_path, monkeypatch):
    """The command in the readable panel, where nothing depends on it, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return Command(reference, capsys)


@pytest.fixture(params=PANELS)
def estimators(request):
    """The learners, in a panel."""
    names = diptych.estimators.__all__
    return SimpleNamespace(**{name: partial(getattr(diptych.estimators, name), panel=request.param) for name in names})


@pytest.fixture
def write(tmp_path):
    """A function that writes a file into that folder."""

    def write(text, name="new.txt", codec="utf-8"):
        (tmp_path / name).write_bytes(text.encode(codec))
        return tmp_path / name

    return write


@pytest.fixture
def data_file(tmp_path, rng):
    """Six sequences over three features, in two folds; labels follow the features, so that they can be learned."""
    labels, path = rng.integers(0, 3, 15), tmp_path / "toy.npz"
    data = {"labels": labels, "offsets": [0, 3, 5, 9, 10, 13, 15], "fold": np.arange(6) % 2}
    np.savez(path, features=np.eye(3)[labels], names=np.array(["a", "b", "c"]), **data)
    return path


@pytest.fixture
def installed(monkeypatch):
    """The command's handlers of Ctrl-C and SIGTERM."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    then = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    monkeypatch.setattr(interrupts, "is_command", lambda package: True)
    interrupts.handle()
    yield
    signal.signal(signal.SIGINT, before)
    signal.signal(signal.SIGTERM, then)


@pytest.fixture
def files(tmp_path):
    """Four files of fifty sentences each, for clusters, whose labels follow from the words."""
    pytest.importorskip("distributed")
    for k in range(4):
        sentences = [[(k + i * j) % 7 for j in range(2 + i % 5)] for i in range(50)]
        text = "\n".join("".join(f"w{word} L{word % 3}\n" for word in words) for words in sentences)
        (tmp_path / f"part{k}.txt").write_text(text)
    return tmp_path
