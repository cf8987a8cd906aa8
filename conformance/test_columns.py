"""Column files: forms, parts of a zip, what is wrong by file and line."""

from __future__ import annotations

import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diptych.files.columns import load_columns, read_columns

CHUNKS = b"The DT B-NP\ncat  NN\tI-NP\n\n\n-DOCSTART- -X- O\nsat VBD B-VP"


def test_columns_by_hand():
    first, second = read_columns("a", CHUNKS.replace(b"\n", b"\r\n"))
    assert first == {"word": ("The", "cat"), "tag": ("DT", "NN"), "label": ("B-NP", "I-NP")}
    assert second == {"word": ("sat",), "tag": ("VBD",), "label": ("B-VP",)}
    assert read_columns("a", b"") == read_columns("a", b"\n -DOCSTART- x\n\n") == []
    assert read_columns("a", b"x y\n") == [{"word": ("x",), "label": ("y",)}]
    assert list(read_columns("a", b"a b c d\n")[0]) == ["word", "tag", "chunk", "label"]


def test_names_and_comments():
    content = b"# a comment\n# B\nx A\n"
    assert read_columns("a", content, ("form", "label"), comment="# a") == [{"form": ("#", "x"), "label": ("B", "A")}]
    assert read_columns("a", b"x A\n", ("word", "tag", "label")) == [{"word": ("x",), "tag": ("A",)}]  # no labels
    blank = "New\u00a0York LOC\n".encode()  # a blank of a word, not between columns
    assert read_columns("a", blank) == [{"word": ("New\u00a0York",), "label": ("LOC",)}]


word = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1, max_size=4)


@given(sentences=st.lists(st.lists(st.tuples(word, word, word), min_size=1, max_size=4), max_size=4), tab=st.booleans())
def test_written_and_read_again(sentences, tab):
    blank = "\t" if tab else " "
    content = "\n\n".join("\n".join(blank.join(token) for token in sentence) for sentence in sentences)
    found = read_columns("a", content.encode())
    assert [list(zip(*s.values(), strict=True)) for s in found] == sentences


def test_members_of_a_zip(tmp_path):
    path = tmp_path / "shared.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("task/train.txt", "task/test.txt", "other/test.txt"):
            archive.writestr(name, f"{name} X\n")
    assert load_columns(f"{path}:train.txt")[0]["word"] == ("task/train.txt",)
    assert load_columns(f"{path}:other/test.txt")[0]["word"] == ("other/test.txt",)
    (tmp_path / "plain").write_text("a b\n")
    assert load_columns(str(tmp_path / "plain"))[0]["word"] == ("a",)
    for name, message in (
        (f"{path}:test.txt", "expected one of task/train.txt, task/test.txt, other/test.txt, got 'test.txt'"),
        (f"{path}:rain.txt", "expected one of"),
        (str(path), "expected a member, such as .*shared.zip:task/train.txt"),
        (f"{tmp_path}/none.zip:a", "none.zip: no such file"),
        (f"{tmp_path}/none", "none: no such file"),
    ):
        with pytest.raises(ValueError, match=message):
            load_columns(name)
    path.write_bytes(b"PK not")
    with pytest.raises(ValueError, match=r"shared.zip: not a zip"):
        load_columns(f"{path}:a")


@pytest.mark.parametrize(
    ("content", "names", "message"),
    [
        (b"a b\nc", None, "a: line 2: expected 2 columns, as above, got 1: 'c'"),
        (b"a b\n\n\nc d e", None, r"a: line 4: expected 2 columns \(word, label\), as above, got 3: 'c d e'"),
        (b"\na b c d e", None, "a: line 2: got 5 columns; say what they are called"),
        (b"a b", ("word", "tag", "chunk"), r"a: line 1: expected 3 columns \(word, tag, chunk\), got 2"),
        (
            b"a\n",
            ("word", "tag", "label"),
            r"a: line 1: expected 3 columns \(word, tag, label\), or 2 without labels \(word, tag\), got 1$",
        ),
        (b"a b", ("word", "word"), "names: expected different ones, got word, word"),
        (b"\xff\xfea b", None, "a: not a text file in UTF-8"),
    ],
)
def test_what_is_wrong_is_named(content, names, message):
    with pytest.raises(ValueError, match=message):
        read_columns("a", content, names)
