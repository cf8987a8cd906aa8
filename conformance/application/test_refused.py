"""What the command line refuses is one line that says why and status 2; nothing is printed, and no file is written."""

from __future__ import annotations

import shlex

import pytest

import reference
from conformance.specimens.requests import NOTICED, REQUESTS, prepare
from diptych.commands.main import main
from diptych.panels import PANELS

BOTH = {"compare", "demo", "reproduce", "--panel", "--pannel"}  # no panel is chosen there, or by the request itself


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
def test_a_wrong_request_is_one_line_and_status_2(backend, folders, monkeypatch, capsys, request_):
    if backend.__name__ not in PANELS:  # --panel names these, and a third backend has no command
        pytest.skip("commands know the two panels alone")
    folder = folders(backend.module)
    monkeypatch.chdir(folder)
    before = listed(folder)
    panel = [] if BOTH & {*request_.words} else ["--panel", backend.__name__]
    try:
        status = main([*request_.words, *panel])
    except SystemExit as stop:  # the parser's
        status = stop.code
    out, err = capsys.readouterr()
    *notes, line = [line for line in err.splitlines() if not line.startswith("compiling")]
    assert status == 2 and line.startswith("diptych") and request_.said, err
    assert not notes or {"tag", "grid"} & {*request_.words}  # how files are read, and which run failed
    assert not out or "grid" in request_.words  # its table without scores
    for message in request_.said:
        assert message in line
    assert listed(folder) == before


@pytest.mark.parametrize("request_", NOTICED, ids=lambda each: shlex.join(each.words)[:100])
def test_what_a_file_looks_like_is_said_and_ends_no_run(folders, monkeypatch, capsys, request_):
    monkeypatch.chdir(folders(reference))
    assert main([*request_.words, "--panel", "reference"]) == 0
    out, err = capsys.readouterr()
    assert out and all(message in err for message in request_.said), err
    assert "train" not in request_.words or len(err.splitlines()) == 1
