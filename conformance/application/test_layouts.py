"""The layout of column files belongs to the model, ``predict`` keeps the lines of its input, guesses end no run; and
many files at once: patterns, and a result for each file, written once.
"""

from __future__ import annotations

import json

import pytest

from diptych.commands import many_files
from diptych.commands.many_files import are_many, paths_of
from diptych.files import load_model, save_model

CITIES = "Bonn\tNNP\tB-LOC\nis\tVBZ\tO\n\nbig\tJJ\tO\n"
WORDS = "The DT B-NP\nduck NN I-NP\n\n# # O\n5 CD B-NP\n"


@pytest.fixture
def write(tmp_path):
    """A function that writes a file."""

    def write(text, name="new.txt", codec="utf-8"):
        (tmp_path / name).write_bytes(text.encode(codec))
        return tmp_path / name

    return write


@pytest.fixture
def train(write, reference_cli, tmp_path):
    """A function that trains a model on a text."""

    def train(text, *options, codec="utf-8"):
        words = [write(text, "train.txt", codec), "--save", tmp_path / "m.npz", "--quiet", *options]
        reference_cli.printed("tag", "train", *words)
        return tmp_path / "m.npz"

    return train


@pytest.mark.parametrize("cities", [CITIES, CITIES.replace("Bonn", "New York")])
def test_the_separator_belongs_to_the_model(train, write, tmp_path, reference_cli, cities):
    """Whether or not a word of the training file has a blank; each part of each file is read by it."""
    cli, saved, new = reference_cli, train(cities), write("New York\tNNP\n")
    (sentence,) = cli.reported("tag", "predict", saved, new)["sentences"]
    assert sentence["columns"] == {"word": ["New York"], "tag": ["NNP"]}
    assert cli.printed("tag", "predict", saved, new).startswith("New York\tNNP\t")
    for text in ("a DT\n", "a DT B-LOC\n"):
        assert "new.txt, line 1: expected 3 columns" in cli.refused("tag", "evaluate", saved, write(text))
    places = write("New York\tNNP\tB-LOC\n\n" * 3)
    for more in (["--test", places], [places], [places, "--partitions", 4]):
        cli.printed("tag", "train", tmp_path / "train.txt", *more, "--epochs", 2, "--quiet")
    cli.printed("tag", "train", places, "--start", saved, "--epochs", 2)
    saved = train(WORDS)
    err = cli.refused("tag", "predict", saved, write("a DT\nNew York\tNNP\n"))
    assert "new.txt, line 2: expected columns separated by blanks, got a tab (--separator any" in err
    cli.printed("tag", "predict", saved, write("a\tDT\n"), "--separator", "tab")
    model, w, _ = load_model(saved, cli.panel)
    save_model(saved, model, w, {"columns": ["word", "tag", "label"]})  # as files were written before
    cli.printed("tag", "evaluate", saved, write(WORDS))


LINES = " |-DOCSTART- -X- O||Köln\tNNP|is\tVBZ |\t||big\tJJ\t|% x|is\tVBZ||-DOCSTART-"


@pytest.mark.parametrize(("end", "codec"), [("\n", "utf-8-sig"), ("\r", "utf-16"), ("\r\n", "latin-1")])
@pytest.mark.parametrize("last", [[], [""], ["", "", ""]])
def test_predict_keeps_the_lines_of_its_input(train, write, reference_cli, tmp_path, end, codec, last):
    """But for a label behind each token: separators, ends, encoding, byte order mark, empty lines, comments."""
    saved, lines, out = train(CITIES, "--comment", "%"), [*LINES.split("|"), *last], tmp_path / "out.txt"
    named = ["--encoding", codec] if codec == "latin-1" else []

    def predicted(text, *more):
        return reference_cli.printed("tag", "predict", saved, write(text, codec=codec), *named, *more)

    given = end.join(lines)
    labels = iter(x for each in json.loads(predicted(given, "--json"))["sentences"] for x in each["labels"])
    tokens = [line.endswith(("NNP", "VBZ", "VBZ ", "JJ\t")) for line in lines]
    assert sum(tokens) == 4
    wanted = [f"{line.rstrip()}\t{next(labels)}" if token else line for line, token in zip(lines, tokens, strict=True)]
    text = end.join(wanted) + ("" if last else end)
    assert predicted(given) == text and next(labels, None) is None
    assert predicted(given, "--out", out) == "" and out.read_bytes() == text.encode(codec)
    first, second = predicted(given, "--limit", 1), predicted(given, "--top", 1)
    assert text.startswith(first) and first == end.join([*wanted[:7], ""])
    assert end.join(line for line in second.split(end) if not line.startswith("# ")) == text and second.count("# ") == 2
    assert predicted(end.join(wanted)) != ""
    saved, named, codec = train(WORDS), [], "utf-8"
    assert [line.rsplit(" ", 1)[0] for line in predicted(WORDS).splitlines()] == WORDS.splitlines()
    first, second = predicted("The  DT\nduck \tNN\n", "--separator", "any").splitlines()
    assert first.startswith("The  DT ") and second.startswith("duck \tNN\t")


def test_the_encoding_belongs_to_the_model(train, write, reference_cli):
    saved = train("né A\nu B\n", "--encoding", "latin-1", codec="latin-1")
    words = ["tag", "predict", saved, write("u\nné\n", codec="latin-1")]
    for more in ([], ["--tokens"]):
        assert "né A" in reference_cli.printed(*words, *more)
    err = reference_cli.refused(*words, "--encoding", "utf-8")
    assert "new.txt, line 2: not UTF-8: byte 0xe9; --encoding names another" in err
    assert "encoding: expected one such as utf-8" in reference_cli.refused(*words, "--encoding", "unknown")


def test_hashtags_and_the_sign_are_tokens_and_comments_are_not(train, write, reference_cli):
    """``# doc 7`` is not learned as a token, wherever it comes from; its label may be known of other files."""
    cli, tags = reference_cli, "#sunday HT\nwe PRP\n# #\nrun V\n\n#fun HT\n"
    saved = train(tags)
    for words in (["evaluate", saved, write(tags, "t")], ["train", write(tags, "t"), "--test", write(tags, "u")]):
        assert "tokens 100.00 %" in cli.printed("tag", *words)
    new = write("#sunday\nwe\n#rain\n")
    assert "#sunday HT\nwe PRP\n#rain " in cli.printed("tag", "predict", saved, new)
    saved = train(WORDS)
    for sign in ("#", "%", "//"):
        doc = write(f"{sign} doc 7\n{WORDS}", "doc.txt")
        others = ["train", "--partitions", 2, write(WORDS, "words.txt")]
        for words in (["evaluate", saved], ["predict", saved], ["train"], ["train", write(WORDS), "--test"], others):
            status, _, err = cli.run("tag", *words, doc)
            assert status == 2 and f"doc.txt, line 1: '{sign} doc 7' looks like a comment: --comment '{sign} '" in err
    for line in ("# doc 7", "# doc", "# a long note"):
        words = ["tag", "predict", saved, write(f"{line}\nThe DT\n", "doc.txt")]
        assert "--comment '# ' leaves out" in cli.refused(*words)
        assert cli.printed(*words, "--comment", "# ").startswith(f"{line}\nThe DT ")
    cli.printed("tag", "evaluate", saved, write("# # I-NP\n5 CD B-NP\n"))  # its label is the model's


NEW = {"c.txt": "A DT\nduck NN\n", "a.txt": "dogs NNS\nswim VBP\n\nducks NNS\n", "b.txt": "swim VBP\n"}


@pytest.fixture
def folder(tmp_path, write):
    """New files in a folder."""
    (tmp_path / "new").mkdir()
    for name, content in NEW.items():
        write(content, f"new/{name}")
    return tmp_path / "new"


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


def test_each_file_has_the_result_that_it_would_have_alone(cli, train, folder, tmp_path):
    words = ["tag", "predict", train(WORDS), "--probabilities"]
    for pattern, names in (("*.txt", sorted(NEW)), ("c*.txt", ["c.txt"])):
        out = tmp_path / f"out{len(names)}"
        files = cli.reported(*words, folder / pattern, "--out", out)["files"]
        assert [each["file"] for each in files] == [str(folder / name) for name in names]
        assert [each["sentences"] for each in files] == [NEW[name].count("\n\n") + 1 for name in names]
        assert sorted(path.name for path in out.iterdir()) == names
        for name in names:
            assert (out / name).read_text() == cli.printed(*words, folder / name)


def test_a_cut_run_goes_on(cli, train, folder, tmp_path, monkeypatch):
    """What is there stays as it is; an interrupt and an error in a file leave complete files alone."""
    out = tmp_path / "out"
    words = ["tag", "predict", train(WORDS), *(folder / name for name in sorted(NEW)), "--out", out]
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
    assert cli.printed(*words) == f"2 files tagged into {out}, 1 were there already\n"
    assert (out / "a.txt").read_text() == "mine" and (out / "b.txt").read_text() and (out / "c.txt").read_text()
    files = cli.reported(*words)["files"]
    assert [(each["skipped"], each["sentences"]) for each in files] == 3 * [(True, None)]
    (folder / "b.txt").write_text("a\n")
    assert "b.txt, line 1" in cli.refused(*words[:-1], tmp_path / "other")
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["a.txt"]
