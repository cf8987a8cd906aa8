"""Column files: forms, parts of a zip, lines of tokens, which errors about examples name."""

from __future__ import annotations

import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diptych.distributed import column_parts
from diptych.files.columns import Layout, load_columns, load_tokens, read_columns
from diptych.files.sources import Source, Sourced, named
from diptych.files.text import lines_of
from reference.example_errors import ExampleError, ExampleTypeError

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
        for name in ("README", "task/train.txt", "task/test.txt", "other/test.txt"):
            archive.writestr(name, f"{name} X\n")
    assert load_columns(f"{path}:train.txt")[0]["word"] == ("task/train.txt",)
    assert load_columns(f"{path}:other/test.txt")[0]["word"] == ("other/test.txt",)
    (tmp_path / "plain").write_text("a b\n")
    assert load_columns(str(tmp_path / "plain"))[0]["word"] == ("a",)


CONLLU = """# sent_id = 1
# text = Vámonos al mar
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\tv\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tp\t_\t1\tobj\t_\t_
2.1\tx\tx\tX\tx\t_\t_\t_\t1:x\t_
3\tal mar\tmar\tNOUN\tn\tA=B|C=D\t1\tobl\t_\tSpaceAfter=No

1\t#\t#\tSYM\t#\t_\t0\troot\t_\t_
"""


def test_conllu_without_ranges_empty_nodes_and_comments(tmp_path):
    """The words of a sentence are those with whole numbers; a word may have a blank, or be #."""
    first, second = read_columns("a", CONLLU.encode())
    assert first["word"] == ("Vamos", "nos", "al mar") and first["label"] == ("VERB", "PRON", "NOUN")
    assert first["xpos"] == ("v", "p", "n") and first["head"] == ("0", "1", "1") and first["feats"][2] == "A=B|C=D"
    assert second["word"] == ("#",)
    names = ("id", "form", "lemma", "upos", "label", "feats", "head", "deprel", "deps", "misc")
    assert read_columns("a", CONLLU.encode(), names)[0]["label"] == ("v", "p", "n")
    (tmp_path / "a").write_text(CONLLU, encoding="utf-8")
    layout, _, lines = load_tokens(str(tmp_path / "a"), Layout())
    assert lines == [(4, 5, 7), (9,)]
    assert layout.form == "conllu" and layout.columns[1] == "word" and layout.columns[3] == "label"
    (tmp_path / "b").write_text("a b\n")
    with pytest.raises(ValueError, match="b, line 1: expected the 10 columns of CoNLL-U, separated by tabs, got 1"):
        load_tokens(str(tmp_path / "b"), layout)


def test_the_lines_of_tokens_are_counted_in_the_whole_file(tmp_path):
    """Comments, documents and blank lines count; so they do for parts of a file, which together are the file."""
    text = "-DOCSTART- O\n\n# x\nNew York\tA\n\t \n\nis\tB\ngreat\tA\n\n"
    (tmp_path / "a").write_text(text)
    layout, sentences, lines = load_tokens(str(tmp_path / "a"), Layout(comment="# "))
    assert layout.separator == "tab" and lines == [(4,), (7, 8)]
    for parts in range(1, 10):
        found = [load_tokens(str(tmp_path / "a"), Layout(comment="# "), k, parts) for k in range(parts)]
        assert [x for each in found for x in each.sentences] == sentences
        assert [x for each in found for x in each.lines] == lines
        assert {each.layout.separator for each in found} == {"tab"}


def test_labels_anywhere_and_blanks_between_tabs():
    assert read_columns("a", b"B a\n", ("label", "word")) == [{"label": ("B",), "word": ("a",)}]
    assert read_columns("a", b"a\n", ("label", "word")) == [{"word": ("a",)}]
    cities = read_columns("a", b"New York\tLOC\nis\tO\n\n-DOCSTART- -X- O\n\nbig\tO\n")
    assert cities == [{"word": ("New York", "is"), "label": ("LOC", "O")}, {"word": ("big",), "label": ("O",)}]


ODD = "a\x0b b\x0c \x85 \u2028 c\u2029"  # characters at which str.splitlines splits


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16"])
@given(ends=st.lists(st.sampled_from(["\n", "\r", "\r\n"]), min_size=1, max_size=5))
def test_lines_end_at_three_ends_and_nowhere_else(codec, ends):
    """In one file at any of them; a byte order mark is no letter."""
    text = "".join(ODD + end for end in ends) + ODD
    assert lines_of("a", text.encode(codec)) == [ODD] * (len(ends) + 1)


def test_an_encoding_that_is_named():
    for mark, encoding in (("utf-8-sig", "utf-8"), ("utf-16", "UTF-16LE")):
        assert lines_of("a", "é".encode(mark), encoding) == ["é"]
    with pytest.raises(ValueError, match="a, line 1: expected iso8859-1, got the byte order mark of UTF-8 or UTF-16"):
        lines_of("a", "é".encode("utf-8-sig"), "latin-1")
    for name in ("latin-x", "base64", ""):
        with pytest.raises(ValueError, match="encoding: expected one such as utf-8, latin-1 or utf-16, got"):
            lines_of("a", b"x", name)


OPEN = "a B-X\n\n\nb O\nc O\nd I-X\n"


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_sentences_know_their_lines_whatever_the_part(tmp_path, parts):
    """By the words of the lines; an error beyond the last token is at the last token."""
    path, lines = str(tmp_path / "open.txt"), OPEN.split("\n")
    (tmp_path / "open.txt").write_text(OPEN)
    sentences = [x for loader in column_parts([path], parts) for x in loader()[0]]
    assert sentences == load_columns(path) and len(sentences) == 2
    for error in (ExampleError, ExampleTypeError):
        for i, x in enumerate(sentences):
            assert [lines[k - 1].split()[0] for k in x.source.lines] == [*x["word"]]
            with pytest.raises(ValueError, match=rf"open.txt, line {x.source.lines[-1]}: no$"), named(sentences):
                raise error("Y", i, len(x["word"]), "no")


def test_examples_without_a_file_keep_their_error():
    with pytest.raises(ExampleError, match=r"X\[1\]\[0\]: no"), named([Sourced({}, Source("a")), {}]):
        raise ExampleError("X", 1, 0, "no")
