"""The command ``fuzz``: readers by name, and what is said without atheris; the fuzzer itself runs in a workflow."""

from __future__ import annotations

import importlib.util

import pytest

from conformance import fuzz
from conformance.readers import READERS


def test_readers_are_listed(capsys):
    assert fuzz.main(["--list"]) == 0
    assert capsys.readouterr().out.split("\n")[:-1] == list(READERS)


def test_what_lacks_is_said(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert fuzz.main([]) == 2 and "pip install 'diptych[fuzz]'" in capsys.readouterr().err


def test_an_unknown_reader_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    with pytest.raises(SystemExit) as stop:
        fuzz.main(["words.doc"])
    assert (
        stop.value.code == 2
        and "expected one of sequences.npz, " in (said := capsys.readouterr().err)
        and "words.doc" in said
    )


@pytest.mark.beyond("starts processes")
def test_a_reader_is_fuzzed(tmp_path, capsys):

    pytest.importorskip("atheris")
    assert fuzz.main(["words.txt", "--seconds", "2", "--findings", str(tmp_path / "found")]) == 0
    assert "ok" in capsys.readouterr().out
