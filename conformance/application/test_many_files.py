"""Commands over many files: patterns, and a result for each file, written once."""

from __future__ import annotations

import json

import pytest

from conformance.application.test_app import run
from diptych.commands import many_files
from diptych.commands.many_files import are_many, paths_of

SENTENCES = "The DT B-NP\nduck NN I-NP\nswims VBZ B-VP\n\nDogs NNS B-NP\nswim VBP B-VP\n"
NEW = {"c.txt": "A DT\nduck NN\n", "a.txt": "dogs NNS\nswim VBP\n\nducks NNS\n", "b.txt": "swim VBP\n"}


@pytest.fixture
def folder(tmp_path):
    """New files in a folder."""
    place = tmp_path / "new"
    place.mkdir()
    for name, content in NEW.items():
        (place / name).write_text(content)
    return place


@pytest.fixture
def model(tmp_path, cli):
    (tmp_path / "bank.txt").write_text(SENTENCES)
    saved = tmp_path / "model.npz"
    status, _, err = cli.run("tag", "train", tmp_path / "bank.txt", "--quiet", "--save", saved)
    assert status == 0, err
    return saved


def test_a_pattern_is_the_sorted_files_that_match(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "deeper").mkdir()
    (folder / "deeper" / "d.txt").touch()
    (folder / "[e].txt").touch()
    assert paths_of(["*.txt"]) == ["[e].txt", "a.txt", "b.txt", "c.txt"]
    assert paths_of(["[bc].txt", "a.txt"]) == ["b.txt", "c.txt", "a.txt"]
    assert paths_of(["**/d.txt", "none.txt", "a.zip:*.txt"]) == ["deeper/d.txt", "none.txt", "a.zip:*.txt"]
    assert paths_of(["[e].txt"]) == ["[e].txt"] and not are_many(["[e].txt"])  # a file of this name
    assert are_many(["a.txt", "b.txt"]) and are_many(["d*.txt"]) and not are_many(["a.zip:*.txt"])
    with pytest.raises(ValueError, match=r"^none\*: no file matches$"):
        paths_of(["a.txt", "none*"])
    with pytest.raises(ValueError, match=r"^a\.txt: named twice$"):
        paths_of(["a.txt", "*.txt"])


def test_each_file_has_the_result_that_it_would_have_alone(model, folder, tmp_path, cli):
    words = ["tag", "predict", model, "--probabilities"]
    for pattern, names in (("*.txt", sorted(NEW)), ("c*.txt", ["c.txt"])):
        out = tmp_path / f"out{len(names)}"
        status, printed, err = cli.run(*words, folder / pattern, "--out", out, "--json")
        assert status == 0, err
        files = json.loads(printed)["files"]
        assert [each["file"] for each in files] == [str(folder / name) for name in names]
        assert [each["sentences"] for each in files] == [NEW[name].count("\n\n") + 1 for name in names]
        assert sorted(path.name for path in out.iterdir()) == names
        for name in names:
            assert (out / name).read_text() == cli.run(*words, folder / name)[1]


def test_a_cut_run_goes_on(model, folder, tmp_path, monkeypatch, cli):
    """What is there stays as it is, and an interrupt leaves complete files alone."""
    out = tmp_path / "out"
    words = ["tag", "predict", model, *(folder / name for name in sorted(NEW)), "--out", out]
    save, saved = many_files.save_bytes, []

    def save_once(path, content):
        if saved:
            raise KeyboardInterrupt
        saved.append(path)
        save(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(many_files, "save_bytes", save_once)
        assert cli.run(*words)[0] == 130
    assert [path.name for path in out.iterdir()] == ["a.txt"]
    (out / "a.txt").write_text("mine")
    status, printed, _ = cli.run(*words)
    assert status == 0 and printed == f"2 files tagged into {out}, 1 were there already\n"
    assert (out / "a.txt").read_text() == "mine" and (out / "b.txt").read_text() and (out / "c.txt").read_text()
    files = json.loads(cli.run(*words, "--json")[1])["files"]
    assert [(each["skipped"], each["sentences"]) for each in files] == 3 * [(True, None)]


def test_an_error_in_a_file_keeps_the_others(model, folder, tmp_path, cli):
    (folder / "b.txt").write_text("a\n")
    words = ["tag", "predict", model, folder / "*.txt", "--out", tmp_path / "out"]
    status, printed, err = cli.run(*words)
    assert status == 2 and printed == "" and "b.txt, line 1" in err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.txt"]
