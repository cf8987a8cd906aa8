"""Treebank files: forms, errors by line, CoNLL-U written and read again, and attachment scores."""

from __future__ import annotations

import itertools
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diptych.files.columns import read_columns
from diptych.files.conllu import STANDARD
from diptych.files.treebank import Sentence, load_treebank, read_sentences, write_conllu
from diptych.metrics import attachment_score

PLAIN = b"The\tDT\t2\nduck\tNN\t3\nswims\tVBZ\t0\n\n\n\tx\t"
CONLL_U = """# sent_id = 1
# text = vamonos al mar
1-2\tvamonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\t_\tMood=Imp\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_
2.1\tgone\tgo\tVERB\t_\t_\t_\t_\t1:dep\t_
3\t#\t#\tSYM\tX\t_\t1\tpunct\t_\t_

1\tsolo\t_\tADV\tRB\t_\t_\t_\t_\t_"""


def test_plain_lines():
    (sentence,) = read_sentences("a", PLAIN[: PLAIN.index(b"\n\n")])
    assert sentence.words == ("The", "duck", "swims") and sentence.tags == ("DT", "NN", "VBZ")
    assert sentence.heads.tolist() == [2, 3, 0] and sentence.heads.dtype == np.int64
    fields = sentence.fields()
    assert fields["lemma"] == ("the", "duck", "swims") and fields["coarse"] == ("DT", "NN", "VB")


def test_conllu_without_ranges_and_empty_nodes():
    first, second = read_sentences("a", CONLL_U.replace("\n", "\r\n").encode())
    assert first.words == ("vamos", "nos", "#") and first.heads.tolist() == [0, 1, 1]
    assert first.tags == ("VERB", "PRON", "X") and first.relations == ("root", "obj", "punct")
    assert first.feats == ("Mood=Imp", "_", "_") and len(first.block.comments) == 2
    assert first.fields()["lemma"] == ("ir", "nosotros", "#")
    assert second.heads is None and second.block.comments == () and second.tags == ("RB",)


@given(data=st.data())
def test_written_and_read_again(data):
    text = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1, max_size=5)
    sentences, comments = [], ("# one", "# two")
    for _ in range(data.draw(st.integers(0, 3))):
        n = data.draw(st.integers(1, 5))
        words, lemmas, coarse, tags, feats, relations = (
            tuple(data.draw(st.lists(text, min_size=n, max_size=n))) for _ in range(6)
        )
        heads = [data.draw(st.sampled_from([h for h in range(n + 1) if h != k])) for k in range(1, n + 1)]
        heads = data.draw(st.sampled_from([None, np.array(heads)]))
        sentences.append(Sentence(words, tags, heads, lemmas, coarse, feats, relations))
    again = read_sentences("a", "\n".join(write_conllu(sentences, [comments] * len(sentences))).encode())
    assert len(again) == len(sentences)
    for a, b in zip(again, sentences, strict=True):
        expected = b._replace(tags=tuple(c if t == "_" else t for t, c in zip(b.tags, b.coarse, strict=True)))
        assert a._replace(heads=None, block=None, source=None) == expected._replace(heads=None)
        assert a.block.comments == comments
        assert (a.heads is None) == (b.heads is None) and (a.heads is None or a.heads.tolist() == b.heads.tolist())


@given(data=st.data())
def test_tag_and_parse_read_the_same_sentences_and_all_else_stays(data):
    """Whatever the columns of CoNLL-U Plus; with comments, ranges, empty nodes and blank lines anywhere. All else: but
    for predicted heads, and for the relations, which belong to other heads.
    """
    draw, plus = data.draw, data.draw(st.booleans())
    names = draw(st.permutations(["ID", "FORM", "UPOS", "HEAD", "DEPREL", "x:y"])) if plus else STANDARD
    lines = [f"# global.columns = {' '.join(names)}"] if plus else []
    words, changed = [], {}
    for n in draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)):
        words.append(draw(st.lists(st.sampled_from(["a", "a b", "#", "1-2"]), min_size=n, max_size=n)))
        for k, word in enumerate(words[-1], 1):
            for other in draw(st.lists(st.sampled_from(["# text = a\tb", "#", "1-2", "0.1", "10.12"]), max_size=2)):
                lines.append(other if "#" in other else "\t".join({"ID": other}.get(name, "_") for name in names))
            cells = {"ID": str(k), "FORM": word, "UPOS": "N", "HEAD": str(k - 1), "DEPREL": "r"}
            lines.append("\t".join(cells.get(name, "_") for name in names))
            changed[len(lines) - 1] = "\t".join((cells | {"HEAD": "1", "DEPREL": "_"}).get(name, "_") for name in names)
        lines += draw(st.sampled_from([[""], ["", " ", ""]]))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    content = (draw(st.sampled_from(["", "\ufeff"])) + end.join(lines[: draw(st.sampled_from([-1, None]))])).encode()
    sentences, columns = read_sentences("a", content), read_columns("a", content)
    assert [[*s.words] for s in sentences] == [[*each["word"]] for each in columns] == words
    for s, each in zip(sentences, columns, strict=True):
        assert s.heads.tolist() == [*range(len(s.words))] and set(s.tags) == set(each["label"]) == {"N"}
        assert s.source == each.source and len(s.source.lines) == len(s.words)
    predicted = [s._replace(heads=np.ones(len(s.words), int), relations=("_",) * len(s.words)) for s in sentences]
    for results, expected in ((sentences, lines), (predicted, [changed.get(k, x) for k, x in enumerate(lines)])):
        written = [line.removesuffix("\r") for line in write_conllu(results)]
        assert written == expected or [*written, ""] == expected


def test_heads_are_a_new_column_of_conllu_plus_without_it():
    content = b"# global.columns = FORM UPOS\n# a\tb\tc\nthe\tD\n#\tN\n\nduck\tN\n\n"
    sentences = read_sentences("a", content, heads=False)
    assert [s.words for s in sentences] == [("the", "#"), ("duck",)]
    parsed = [s._replace(heads=np.arange(len(s.words))) for s in sentences]
    written = "# global.columns = FORM UPOS HEAD\n# a\tb\tc\nthe\tD\t0\n#\tN\t1\n\nduck\tN\t0\n\n"
    assert "".join(f"{line}\n" for line in write_conllu(parsed)) == written


def test_a_zip_and_a_part_of_it(tmp_path):
    path = tmp_path / "bank.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("README", "no sentences")
        for name in ("b", "c", "a"):
            archive.writestr(f"bank/{name}.dp", f"{name}\tX\t0\n")
    assert [s.words for s in load_treebank(str(path))] == [("a",), ("b",), ("c",)]
    assert [s.words for s in load_treebank(f"{path}:2-3")] == [("b",), ("c",)]
    assert [s.words for s in load_treebank(f"{path}:2")] == [("b",)]
    for name in ("c.dp", "bank/c.dp"):
        assert [s.words for s in load_treebank(f"{path}:{name}")] == [("c",)]


def test_heads_that_are_not_looked_at():
    """Two columns, heads that are open in part or none at all; what else is wrong is still said."""
    for content in (b"a\tX\nb\tY\n", b"a\tX\t0\nb\tY\t_", b"a\tX\t9\nb\tY\tx"):
        (sentence,) = read_sentences("a", content, heads=False)
        assert sentence.words == ("a", "b") and sentence.tags == ("X", "Y") and sentence.heads is None
        with pytest.raises(ValueError, match="a, line [12]: "):
            read_sentences("a", content)
    assert all(s.heads is None for s in load_treebank("sentences", heads=False))


def test_attachment_scores_by_hand():
    truth, guess = [np.array([2, 0, 2]), np.array([0])], [np.array([2, 0, 1]), np.array([0])]
    assert attachment_score(truth, guess) == 3 / 4
    tags = [["DT", "VB", "."], ["NN"]]
    assert attachment_score(truth, guess, tags) == 1.0
    assert attachment_score(truth, guess, [["``", "''", ","], [":"]]) != attachment_score(truth, truth)  # nan
    assert np.isnan(attachment_score([], [], []))
    for wrong in ([["DT"], ["NN"]], [["DT"] * 3]):
        with pytest.raises(ValueError, match="as many sequences"):
            attachment_score(truth, guess, wrong)


def crosses(heads):
    """Whether two arcs of a tree cross."""
    arcs = [tuple(sorted((h, m))) for m, h in enumerate(heads.tolist(), 1)]
    return any(a < c < b < d for (a, b), (c, d) in itertools.permutations(arcs, 2))


def test_the_sentences_of_the_package_are_trees():
    sentences = load_treebank("sentences")
    assert len(sentences) == 40 and sum(crosses(s.heads) for s in sentences) == 4
    for s in sentences:
        assert list(s.heads).count(0) == 1
        reached = np.array([0])
        for _ in s.words:  # from the root, as many steps down as there are tokens
            reached = np.union1d(reached, 1 + np.flatnonzero(np.isin(s.heads, reached)))
        assert len(reached) == len(s.words) + 1
