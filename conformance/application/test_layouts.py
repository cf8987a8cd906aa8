"""The layout of column files belongs to the model, ``predict`` keeps the lines of its input, and guesses end no run."""

from __future__ import annotations

import json

import pytest

import reference
from conformance.application.test_app import run

CITIES = "Bonn\tNNP\tB-LOC\nis\tVBZ\tO\n\nbig\tJJ\tO\n"
WORDS = "The DT B-NP\nduck NN I-NP\n\n# # O\n5 CD B-NP\n"


def command(*words, reference_cli):
    return reference_cli.run("tag", *words)


@pytest.fixture
def trained(tmp_path, capsys):
    """A function that trains a model on a text, and one that writes a file."""

    def write(text, name="new.txt", codec="utf-8"):
        (tmp_path / name).write_bytes(text.encode(codec))
        return tmp_path / name

    def train(text, *options, codec="utf-8"):
        saved = tmp_path / "m.npz"
        status, _, err = command(capsys, "train", write(text, "train.txt", codec), "--save", saved, "--quiet", *options)
        assert status == 0, err
        return saved

    return train, write


@pytest.mark.parametrize("cities", [CITIES, CITIES.replace("Bonn", "New York")])
def test_the_separator_belongs_to_the_model(trained, tmp_path, capsys, cities):
    """Whether or not a word of the training file has a blank; each part of each file is read by it."""
    train, write = trained
    saved, new = train(cities), write("New York\tNNP\n")
    status, out, _ = command(capsys, "predict", saved, new, "--json")
    assert status == 0 and json.loads(out)["sentences"][0]["columns"] == {"word": ["New York"], "tag": ["NNP"]}
    assert command(capsys, "predict", saved, new)[1].startswith("New York\tNNP\t")
    for text in ("a DT\n", "a DT B-LOC\n"):
        status, _, err = command(capsys, "evaluate", saved, write(text))
        assert status == 2 and "new.txt, line 1: expected 3 columns" in err
    places = write("New York\tNNP\tB-LOC\n\n" * 3)
    for more in (["--test", places], [places], [places, "--partitions", 4]):
        status, _, err = command(capsys, "train", tmp_path / "train.txt", *more, "--epochs", 2, "--quiet")
        assert status == 0, err
    assert command(capsys, "train", places, "--start", saved, "--epochs", 2)[0] == 0
    saved = train(WORDS)
    status, _, err = command(capsys, "predict", saved, write("a DT\nNew York\tNNP\n"))
    assert status == 2 and "new.txt, line 2: expected columns separated by blanks, got a tab (--separator any" in err
    assert command(capsys, "predict", saved, write("a\tDT\n"), "--separator", "tab")[0] == 0


LINES = " |-DOCSTART- -X- O||Köln\tNNP|is\tVBZ |\t||big\tJJ\t|% x|is\tVBZ||-DOCSTART-"


@pytest.mark.parametrize(("end", "codec"), [("\n", "utf-8-sig"), ("\r", "utf-16"), ("\r\n", "latin-1")])
@pytest.mark.parametrize("last", [[], [""], ["", "", ""]])
def test_predict_keeps_the_lines_of_its_input(trained, capsys, tmp_path, end, codec, last):
    """But for a label behind each token: separators, ends, encoding, byte order mark, empty lines, comments."""
    train, write = trained
    saved, lines, out = train(CITIES, "--comment", "%"), [*LINES.split("|"), *last], tmp_path / "out.txt"
    named = ["--encoding", codec] if codec == "latin-1" else []
    words = ["predict", saved, write(end.join(lines), codec=codec), *named]
    sentences = json.loads(command(capsys, *words, "--json")[1])["sentences"]
    labels = iter(label for each in sentences for label in each["labels"])
    tokens = [line.endswith(("NNP", "VBZ", "VBZ ", "JJ\t")) for line in lines]
    assert sum(tokens) == 4
    wanted = [f"{line.rstrip()}\t{next(labels)}" if token else line for line, token in zip(lines, tokens, strict=True)]
    text = end.join(wanted) + ("" if last else end)
    assert command(capsys, *words)[1] == text and next(labels, None) is None
    assert command(capsys, *words, "--out", out)[0] == 0 and out.read_bytes() == text.encode(codec)
    first, second = (command(capsys, *words, "--limit", 1)[1], command(capsys, *words, "--top", 1)[1])
    assert text.startswith(first) and first == end.join([*wanted[:7], ""])
    assert end.join(line for line in second.split(end) if not line.startswith("# ")) == text and second.count("# ") == 2
    assert command(capsys, "predict", saved, write(end.join(wanted), codec=codec), *words[3:])[0] == 0
    saved = train(WORDS)
    out = command(capsys, "predict", saved, write(WORDS))[1]
    assert [line.rsplit(" ", 1)[0] for line in out.splitlines()] == WORDS.splitlines()
    mixed = write("The  DT\nduck \tNN\n")
    first, second = command(capsys, "predict", saved, mixed, "--separator", "any")[1].splitlines()
    assert first.startswith("The  DT ") and second.startswith("duck \tNN\t")


def test_the_encoding_belongs_to_the_model(trained, capsys):
    train, write = trained
    saved = train("né A\nu B\n", "--encoding", "latin-1", codec="latin-1")
    new = write("u\nné\n", codec="latin-1")
    for more in ([], ["--tokens"]):
        assert "né A" in command(capsys, "predict", saved, new, *more)[1]
    status, _, err = command(capsys, "predict", saved, new, "--encoding", "utf-8")
    assert status == 2 and "new.txt, line 2: not UTF-8: byte 0xe9; --encoding names another" in err
    status, _, err = command(capsys, "predict", saved, new, "--encoding", "unknown")
    assert status == 2 and "encoding: expected one such as utf-8" in err


def test_hashtags_and_the_sign_are_tokens_and_comments_are_not(trained, capsys):
    """``# doc 7`` is not learned as a token, wherever it comes from; its label may be known of other files."""
    train, write = trained
    tags = "#sunday HT\nwe PRP\n# #\nrun V\n\n#fun HT\n"
    saved = train(tags)
    new = write("#sunday\nwe\n#rain\n")
    for words in (["evaluate", saved, write(tags, "t")], ["train", write(tags, "t"), "--test", write(tags, "u")]):
        status, out, _ = command(capsys, *words)
        assert status == 0 and "tokens 100.00 %" in out
    assert "#sunday HT\nwe PRP\n#rain " in command(capsys, "predict", saved, new)[1]
    saved = train(WORDS)
    for sign in ("#", "%", "//"):
        doc = write(f"{sign} doc 7\n{WORDS}", "doc.txt")
        others = ["train", "--partitions", 2, write(WORDS, "words.txt")]
        for words in (["evaluate", saved], ["predict", saved], ["train"], ["train", write(WORDS), "--test"], others):
            status, _, err = command(capsys, *words, doc)
            assert status == 2 and f"doc.txt, line 1: '{sign} doc 7' looks like a comment: --comment '{sign} '" in err
    for line in ("# doc 7", "# doc", "# a long note"):
        doc = write(f"{line}\nThe DT\n", "doc.txt")
        status, _, err = command(capsys, "predict", saved, doc)
        assert status == 2 and "--comment '# ' leaves out" in err
        assert command(capsys, "predict", saved, doc, "--comment", "# ")[1].startswith(f"{line}\nThe DT ")
    assert command(capsys, "evaluate", saved, write("# # I-NP\n5 CD B-NP\n"))[0] == 0  # its label is the model's
