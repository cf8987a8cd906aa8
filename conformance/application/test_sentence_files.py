"""Files of sentences: columns, treebanks, CoNLL-U; their layouts; many of them; attachment scores."""

from __future__ import annotations

import json
import zipfile
from ast import literal_eval
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.specimens.pages import entries
from diptych.commands import tag_files as many_files
from diptych.commands.tag_files import are_many, paths_of
from diptych.distributed import column_parts
from diptych.files import load_model, save_model
from diptych.files.columns import Layout, load_columns, load_tokens, read_columns
from diptych.files.conllu import STANDARD
from diptych.files.sources import Source, Sourced, named
from diptych.files.text import lines_of
from diptych.files.treebank import Sentence, load_treebank, read_sentences, write_conllu
from diptych.metrics import attachment_score
from reference.example_errors import ExampleError, ExampleTypeError

LETTERS = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1, max_size=5)


@pytest.mark.parametrize(("entry", "expected"), entries("columns.txt"))
def test_columns_by_hand(entry, expected):
    (content, names, *comment), expected = literal_eval(entry), literal_eval(expected)
    found = read_columns("a", content, names, **({"comment": comment[0]} if comment else {}))
    assert found == expected and [list(one) for one in found] == [list(one) for one in expected]


@given(
    sentences=st.lists(st.lists(st.tuples(LETTERS, LETTERS, LETTERS), min_size=1, max_size=4), max_size=4),
    blank=st.sampled_from(" \t"),
)
def test_columns_written_and_read_again(sentences, blank):
    content = "\n\n".join("\n".join(blank.join(token) for token in sentence) for sentence in sentences)
    found = read_columns("a", content.encode())
    assert [list(zip(*s.values(), strict=True)) for s in found] == sentences


def test_members_of_a_zip(tmp_path):
    path, bank = tmp_path / "shared.zip", tmp_path / "bank.zip"
    for file, content, names in (
        (path, "{} X\n", ("README", "task/train.txt", "task/test.txt", "other/test.txt")),
        (bank, "{}\tX\t0\n", ("bank/b.dp", "bank/c.dp", "bank/a.dp", "README")),
    ):
        with zipfile.ZipFile(file, "w") as archive:
            for name in names:
                archive.writestr(name, content.format(name))
    assert load_columns(f"{path}:train.txt")[0]["word"] == ("task/train.txt",)
    assert load_columns(f"{path}:other/test.txt")[0]["word"] == ("other/test.txt",)
    for part, words in (("", "abc"), (":2-3", "bc"), (":2", "b"), (":c.dp", "c"), (":bank/c.dp", "c")):
        assert [s.words for s in load_treebank(f"{bank}{part}")] == [(f"bank/{word}.dp",) for word in words]


CONLLU = resources.files("conformance.specimens").joinpath("sentences.conllu").read_text(encoding="utf-8")


def test_conllu_by_hand(tmp_path):
    """The words of a sentence are those with whole numbers; a word may have a blank, or be #."""
    first, second = read_columns("a", CONLLU.encode())
    assert first["word"] == ("Vamos", "nos", "al mar") and first["label"] == ("VERB", "PRON", "NOUN")
    assert first["xpos"] == ("_", "p", "n") and first["head"] == ("0", "1", "1") and first["feats"][2] == "A=B|C=D"
    names = ("id", "form", "lemma", "upos", "label", "feats", "head", "deprel", "deps", "misc")
    assert read_columns("a", CONLLU.encode(), names)[0]["label"] == ("_", "p", "n") and second["word"] == ("#",)
    first, second = read_sentences("a", CONLLU.replace("\n", "\r\n").encode())
    assert first.tags == ("VERB", "p", "n") and first.relations == ("root", "obj", "obl")
    assert first.heads.tolist() == [0, 1, 1] and first.fields()["lemma"] == ("ir", "nosotros", "mar")
    assert second.heads is None and second.block.comments == () and len(first.block.comments) == 2
    (tmp_path / "a").write_text(CONLLU, encoding="utf-8")
    layout, _, lines = load_tokens(str(tmp_path / "a"), Layout())
    assert layout.form == "conllu" and layout.columns[1] == "word" and lines == [(4, 5, 7), (9,)]
    (tmp_path / "b").write_text("a b\n")
    with pytest.raises(ValueError, match="b, line 1: expected the 10 columns of CoNLL-U, separated by tabs, got 1"):
        load_tokens(str(tmp_path / "b"), layout)
    (plain,) = read_sentences("a", b"The\tDT\t2\nduck\tNN\t3\nswims\tVBZ\t0\n")
    assert plain.words == ("The", "duck", "swims") and plain.heads.tolist() == [2, 3, 0]
    assert plain.fields()["lemma"] == ("the", "duck", "swims") and plain.fields()["coarse"] == ("DT", "NN", "VB")


@pytest.mark.parametrize("parts", range(1, 10))
def test_sentences_know_their_lines_whatever_the_part(tmp_path, parts):
    """An error is named by the line of its word, and one beyond the last token by the line of that."""
    path, layout = str(tmp_path / "a"), Layout(comment="# ")
    text = "-DOCSTART- O\n\n# x\nNew York\tA\n\t \n\nis\tB\ngreat\tA\n\n"
    (tmp_path / "a").write_text(text)
    whole, found = load_tokens(path, layout), [load_tokens(path, layout, k, parts) for k in range(parts)]
    assert whole.lines == [(4,), (7, 8)] and {each.layout.separator for each in found} == {"tab"}
    assert [x for each in found for x in each.sentences] == whole.sentences
    assert [x for each in found for x in each.lines] == whole.lines
    text = "a B-X\n\n\nb O\nc O\nd I-X\n"
    (tmp_path / "a").write_text(text)
    sentences = [x for loader in column_parts([path], parts) for x in loader()[0]]
    assert sentences == load_columns(path) and len(sentences) == 2
    for error in (ExampleError, ExampleTypeError):
        for i, x in enumerate(sentences):
            assert [text.split("\n")[k - 1].split()[0] for k in x.source.lines] == [*x["word"]]
            with pytest.raises(ValueError, match=rf"a, line {x.source.lines[-1]}: no$"), named(sentences):
                raise error("Y", i, len(x["word"]), "no")
    with pytest.raises(ExampleError, match=r"X\[1\]\[0\]: no"), named([Sourced({}, Source("a")), {}]):
        raise ExampleError("X", 1, 0, "no")  # there is no file


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
    mark = "a, line 1: expected iso8859-1, got the byte order mark of UTF-8 or UTF-16"
    wrong = dict.fromkeys(("latin-x", "base64", ""), "encoding: expected one such as utf-8, latin-1 or utf-16, got")
    for name, message in (wrong | {"latin-1": mark}).items():
        with pytest.raises(ValueError, match=message):
            lines_of("a", "é".encode("utf-8-sig"), name)


@given(data=st.data())
def test_trees_written_and_read_again(data):
    sentences, comments = [], ("# one", "# two")
    for _ in range(data.draw(st.integers(0, 3))):
        n = data.draw(st.integers(1, 5))
        words, lemmas, coarse, tags, feats, relations = (
            tuple(data.draw(st.lists(LETTERS, min_size=n, max_size=n))) for _ in range(6)
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
    """Whatever the columns of CoNLL-U Plus; but for predicted heads and the relations, which belong to heads."""
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


def test_attachment_scores_by_hand():
    truth, guess = [np.array([2, 0, 2]), np.array([0])], [np.array([2, 0, 1]), np.array([0])]
    assert attachment_score(truth, guess) == 3 / 4
    assert attachment_score(truth, guess, [["DT", "VB", "."], ["NN"]]) == 1.0
    assert np.isnan(attachment_score(truth, guess, [["``", "''", ","], [":"]]))
    assert np.isnan(attachment_score([], [], []))
    for wrong in ([["DT"], ["NN"]], [["DT"] * 3]):
        with pytest.raises(ValueError, match="as many sequences"):
            attachment_score(truth, guess, wrong)


def test_the_sentences_of_the_package_are_trees():
    sentences = load_treebank("sentences")
    assert len(sentences) == 40 and all(s.heads is None for s in load_treebank("sentences", heads=False))
    for s in sentences:
        assert list(s.heads).count(0) == 1
        reached = np.array([0])
        for _ in s.words:  # from the root, as many steps down as there are tokens
            reached = np.union1d(reached, 1 + np.flatnonzero(np.isin(s.heads, reached)))
        assert len(reached) == len(s.words) + 1


CITIES = "Bonn\tNNP\tB-LOC\nis\tVBZ\tO\n\nbig\tJJ\tO\n"
WORDS = "The DT B-NP\nduck NN I-NP\n\n# # O\n5 CD B-NP\n"


@pytest.fixture
def train(write, reference_cli):
    """A function that trains a model on a text."""

    def train(text, options="", codec="utf-8"):
        write(text, "train.txt", codec)
        reference_cli.printed(f"tag train train.txt --save m.npz --quiet {options}")

    return train


@pytest.mark.parametrize("cities", [CITIES, CITIES.replace("Bonn", "New York")])
def test_the_separator_belongs_to_the_model(train, write, reference_cli, cities):
    """Whether or not a word of the training file has a blank; each part of each file is read by it."""
    cli, predict = reference_cli, "tag predict m.npz new.txt"
    train(cities), write("New York\tNNP\n")
    (sentence,) = cli.reported(predict)["sentences"]
    assert sentence["columns"] == {"word": ["New York"], "tag": ["NNP"]}
    assert cli.printed(predict).startswith("New York\tNNP\t")
    for text in ("a DT\n", "a DT B-LOC\n"):
        write(text)
        assert "new.txt, line 1: expected 3 columns" in cli.refused("tag evaluate m.npz new.txt")
    write("New York\tNNP\tB-LOC\n\n" * 3)
    for more in ("--test new.txt", "new.txt", "new.txt --partitions 4", "--start m.npz"):
        cli.printed(f"tag train train.txt {more} --epochs 2 --quiet")
    train(WORDS), write("a DT\nNew York\tNNP\n")
    assert "new.txt, line 2: expected columns separated by blanks, got a tab (--separator any" in cli.refused(predict)
    write("a\tDT\n")
    cli.printed(f"{predict} --separator tab")
    model, w, _ = load_model("m.npz", cli.panel)
    save_model("m.npz", model, w, {"columns": ["word", "tag", "label"]})  # as files were written before
    cli.printed("tag evaluate m.npz train.txt")


LINES = " |-DOCSTART- -X- O||Köln\tNNP|is\tVBZ |\t||big\tJJ\t|% x|is\tVBZ||-DOCSTART-"


@pytest.mark.parametrize(("end", "codec"), [("\n", "utf-8-sig"), ("\r", "utf-16"), ("\r\n", "latin-1")])
@pytest.mark.parametrize("last", [[], [""], ["", "", ""]])
def test_predict_keeps_the_lines_of_its_input(train, write, reference_cli, end, codec, last):
    """But for a label behind each token: separators, ends, encoding, byte order mark, empty lines, comments."""
    train(CITIES, "--comment %")
    lines, named = [*LINES.split("|"), *last], f"--encoding {codec}" if codec == "latin-1" else ""

    def predicted(text, more=""):
        write(text, codec=codec)
        return reference_cli.printed(f"tag predict m.npz new.txt {named} {more}")

    given = end.join(lines)
    labels = iter(x for each in json.loads(predicted(given, "--json"))["sentences"] for x in each["labels"])
    tokens = [line.endswith(("NNP", "VBZ", "VBZ ", "JJ\t")) for line in lines]
    assert sum(tokens) == 4
    wanted = [f"{line.rstrip()}\t{next(labels)}" if token else line for line, token in zip(lines, tokens, strict=True)]
    text = end.join(wanted) + ("" if last else end)
    assert predicted(given) == text and next(labels, None) is None
    assert predicted(given, "--out out.txt") == "" and Path("out.txt").read_bytes() == text.encode(codec)
    first, second = predicted(given, "--limit 1"), predicted(given, "--top 1")
    assert text.startswith(first) and first == end.join([*wanted[:7], ""]) and predicted(end.join(wanted)) != ""
    assert end.join(line for line in second.split(end) if not line.startswith("# ")) == text and second.count("# ") == 2
    train(WORDS)
    named, codec = "", "utf-8"
    assert [line.rsplit(" ", 1)[0] for line in predicted(WORDS).splitlines()] == WORDS.splitlines()
    first, second = predicted("The  DT\nduck \tNN\n", "--separator any").splitlines()
    assert first.startswith("The  DT ") and second.startswith("duck \tNN\t")


def test_the_encoding_belongs_to_the_model(train, write, reference_cli):
    train("né A\nu B\n", "--encoding latin-1", codec="latin-1"), write("u\nné\n", codec="latin-1")
    for more in ("", "--tokens"):
        assert "né A" in reference_cli.printed(f"tag predict m.npz new.txt {more}")
    for encoding, message in (
        ("utf-8", "new.txt, line 2: not UTF-8: byte 0xe9; --encoding names another"),
        ("unknown", "encoding: expected one such as utf-8"),
    ):
        assert message in reference_cli.refused(f"tag predict m.npz new.txt --encoding {encoding}")


def test_hashtags_and_the_sign_are_tokens_and_comments_are_not(train, write, reference_cli):
    """``# doc 7`` is not learned as a token, wherever it comes from; its label may be known of other files."""
    cli = reference_cli
    train("#sunday HT\nwe PRP\n# #\nrun V\n\n#fun HT\n"), write("#sunday\nwe\n#rain\n")
    for words in ("evaluate m.npz train.txt", "train train.txt --test train.txt"):
        assert "tokens 100.00 %" in cli.printed(f"tag {words}")
    assert "#sunday HT\nwe PRP\n#rain " in cli.printed("tag predict m.npz new.txt")
    train(WORDS), write(WORDS)
    for sign in ("#", "%", "//"):
        write(f"{sign} doc 7\n{WORDS}", "doc.txt")
        for words in ("evaluate m.npz", "predict m.npz", "train --partitions 2 new.txt", "train new.txt --test"):
            status, _, err = cli.run(f"tag {words} doc.txt")
            assert status == 2 and f"doc.txt, line 1: '{sign} doc 7' looks like a comment: --comment '{sign} '" in err
    for line in ("# doc 7", "# doc", "# a long note"):
        write(f"{line}\nThe DT\n", "doc.txt")
        assert "--comment '# ' leaves out" in cli.refused("tag predict m.npz doc.txt")
        assert cli.printed("tag predict m.npz doc.txt", "--comment", "# ").startswith(f"{line}\nThe DT ")
    write("# # I-NP\n5 CD B-NP\n")
    cli.printed("tag evaluate m.npz new.txt")  # its label is the model's


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
    for name in ("deeper/d.txt", "[e].txt"):
        (folder / name).touch()
    assert paths_of(["*.txt"]) == ["[e].txt", "a.txt", "b.txt", "c.txt"]
    assert paths_of(["[bc].txt", "a.txt"]) == ["b.txt", "c.txt", "a.txt"]
    assert paths_of(["**/d.txt", "none.txt", "a.zip:*.txt"]) == ["deeper/d.txt", "none.txt", "a.zip:*.txt"]
    assert paths_of(["[e].txt"]) == ["[e].txt"] and not are_many(["[e].txt"])  # a file of this name
    assert are_many(["a.txt", "b.txt"]) and are_many(["d*.txt"]) and not are_many(["a.zip:*.txt"])
    for wrong, message in ("none*", r"^none\*: no file matches$"), ("*.txt", r"^a\.txt: named twice$"):
        with pytest.raises(ValueError, match=message):
            paths_of(["a.txt", wrong])


def test_each_file_has_the_result_that_it_would_have_alone(train, folder, reference_cli):
    train(WORDS)
    words = "tag predict m.npz --probabilities"
    for pattern, names in (("*.txt", sorted(NEW)), ("c*.txt", ["c.txt"])):
        files = reference_cli.reported(f"{words} new/{pattern} --out out{len(names)}")["files"]
        assert [each["file"] for each in files] == [f"new/{name}" for name in names]
        assert [each["sentences"] for each in files] == [NEW[name].count("\n\n") + 1 for name in names]
        assert sorted(path.name for path in Path(f"out{len(names)}").iterdir()) == names
        for name in names:
            assert Path(f"out{len(names)}", name).read_text() == reference_cli.printed(f"{words} new/{name}")


def test_a_cut_run_goes_on(train, write, folder, reference_cli, monkeypatch):
    """What is there stays as it is; an interrupt and an error in a file leave complete files alone."""
    train(WORDS)
    words, save, saved = "tag predict m.npz new/a.txt new/b.txt new/c.txt --out", many_files.save_bytes, []

    def save_once(path, content):
        if saved:
            raise KeyboardInterrupt
        saved.append(path)
        save(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(many_files, "save_bytes", save_once)
        assert reference_cli.run(f"{words} out")[0] == 130
    assert [path.name for path in Path("out").iterdir()] == ["a.txt"]
    write("mine", "out/a.txt")
    assert reference_cli.printed(f"{words} out") == "2 files tagged into out, 1 were there already\n"
    assert [path.read_text() == "mine" for path in sorted(Path("out").iterdir())] == [True, False, False]
    files = reference_cli.reported(f"{words} out")["files"]
    assert [(each["skipped"], each["sentences"]) for each in files] == 3 * [(True, None)]
    write("a\n", "new/b.txt")
    assert "b.txt, line 1" in reference_cli.refused(f"{words} other")
    assert [path.name for path in Path("other").iterdir()] == ["a.txt"]
