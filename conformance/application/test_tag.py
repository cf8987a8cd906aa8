"""The commands ``tag`` and ``parse``: train, evaluate, predict and show on small files; trees as text."""

from __future__ import annotations

import io
import itertools
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from conformance.specimens.requests import FILES
from conformance.tolerances import close
from diptych.chunks import chunk_scores
from diptych.commands.parse import drawn
from diptych.files import load_model
from diptych.files.columns import load_columns, read_columns
from diptych.files.text import _standard_input
from diptych.files.treebank import load_treebank
from reference.models import token_templates

SENTENCES = f"{FILES['bank.txt']}\nA DT B-NP\ndog NN I-NP\nsees VBZ B-VP\nthe DT B-NP\nduck NN I-NP\n. . O\n"


@pytest.fixture
def bank(tmp_path):
    path = tmp_path / "bank.txt"
    path.write_text(SENTENCES)
    return path


def test_standard_input_is_a_file(bank, tmp_path, reference_cli, monkeypatch):
    """``-`` is read once, and the labels are those of the file."""
    saved = tmp_path / "model.npz"
    reference_cli.printed("tag", "train", bank, "--quiet", "--save", saved)
    expected = reference_cli.run("tag", "predict", saved, bank)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(bank.read_bytes())))
    _standard_input.cache_clear()
    assert reference_cli.run("tag", "predict", saved, "-") == expected and expected[0] == 0 and expected[1]
    _standard_input.cache_clear()


@pytest.mark.parametrize("name", ["chunks", "entities"])
def test_sets_of_templates_do_without_tags(tmp_path, reference_cli, name):
    """Words and labels alone: the set's templates that look at the tag are left out, and this is said."""
    path, saved = tmp_path / "names.txt", tmp_path / "model.npz"
    path.write_text("EU B-ORG\nrejects O\n\nPeter B-PER\nBlackburn I-PER\n")
    status, _, err = reference_cli.run("tag", "train", path, "--templates", name, "--save", saved)
    assert status == 0 and f"templates {name} without tag" in err
    kept = [each for each in token_templates.TOKEN_TEMPLATES[name] if "tag" not in each]
    assert load_model(saved, "reference")[0].templates == token_templates.check_templates(kept)
    reference_cli.printed("tag", "evaluate", saved, path)


@pytest.mark.parametrize(
    "how",
    [
        [],
        ["--bits", 14, "--transitions", "bio", "--optimizer", "sgd", "--epochs", 40],
        ["--pairs", "all", "--loss", "hinge", "--optimizer", "bcfw", "--lam", 0.01],
        ["--loss", "hinge", "--templates", "words", "--columns", "word,tag,label", "--least", 2],
        ["--loss", "hinge", "--optimizer", "casimir", "--smoothing", "top-k", "--k", 3, "--epochs", 20, "--lam", 0.01],
        ["--loss", "hinge", "--optimizer", "casimir-svrg-adapt", "--epochs", 30, "--lam", 0.01],
    ],
)
def test_train_evaluate_predict_show(backend, bank, tmp_path, cli, how):
    """Scores, the best labellings and probabilities by enumeration; weights as show has them."""
    saved, unlabelled = tmp_path / "model.npz", tmp_path / "new.txt"
    report = cli.reported("tag", "train", bank, "--test", bank, "--save", saved, "--quiet", *how)
    assert report["train"] == report["test"] and report["labels"] == ["B-NP", "B-VP", "I-NP", "O"]
    assert report["job"]["lam"] == (0.01 if "--lam" in how else 2 / 3)
    assert report["test"]["accuracy"] == {"token": 1.0, "sentence": 1.0} and report["test"]["chunks"]["f1"] == 1.0
    assert len(report["history"]) >= 1 and report["saved"] == str(saved)
    out = cli.printed("tag", "evaluate", saved, bank)
    assert "tokens 100.00 %" in out and "F1 100.00 (7 found, 7 true)" in out and "  VP" in out

    unlabelled.write_text("a DT\nduck NN\n\nswim VBP\n")
    model, w, info = load_model(saved, backend.module)
    assert info["columns"] == ["word", "tag", "label"]
    command = ["tag", "predict", saved, unlabelled, "--top", 3, "--probabilities"]
    sentences = cli.reported(*command)["sentences"]
    data = model.pack(load_columns(str(unlabelled), ("word", "tag", "label")))
    for i, each in enumerate(sentences):
        scores, n = model.scores(data, np.array([i]), w), len(each["labels"])
        unary, moves = np.asarray(scores.unary)[0], np.asarray(scores.pairwise)
        outputs = [list(y) for y in itertools.product(range(4), repeat=n)]
        totals = np.array([unary[np.arange(n), y].sum() + moves[y[:-1], y[1:]].sum() for y in outputs])
        close([one["score"] for one in each["best"]], np.sort(totals)[::-1][:3])
        assert each["best"][0]["labels"] == each["labels"]
        for one in each["best"]:
            close(one["score"], totals[outputs.index([model.labels.index(label) for label in one["labels"]])])
        shares = np.exp(totals) / np.exp(totals).sum()
        for t, (label, p) in enumerate(zip(each["labels"], each["probabilities"], strict=True)):
            close(p, shares[[y[t] == model.labels.index(label) for y in outputs]].sum())
    out = cli.printed(*command)
    assert out.startswith("# ") and out.count("# ") == 6
    again = read_columns("out", out.encode(), ("word", "tag", "found", "p"), comment="# ")
    assert [s["word"] for s in again] == [("a", "duck"), ("swim",)]
    assert [list(s["found"]) for s in again] == [each["labels"] for each in sentences]

    report = cli.reported("tag", "show", saved, "--top", 2)
    weights, transitions = model.split(w)
    assert sorted(report["labels"]) == sorted(model.labels) and len(report["transitions"]) == len(model.label_pairs)
    for k, label in enumerate(model.labels):
        sizes = np.sort(np.abs(weights[:, k][weights[:, k] != 0]))[::-1]
        close([abs(x) for _, x in report["labels"][label]], sizes[:2])
        for name, x in report["labels"][label]:
            close(weights[int(name[4:]) if model.vocabulary is None else model.vocabulary.index(name), k], x)
    for a, b, x in report["transitions"]:
        close(transitions[model.labels.index(a), model.labels.index(b)], x)
    out = cli.printed("tag", "show", saved)
    assert "transitions" in out and " B-NP -> I-NP" in out


def test_predictions_are_what_the_scorer_reads(bank, tmp_path, cli):
    """Columns, then the label found: the last two columns give the chunk scores of evaluate."""
    saved = tmp_path / "model.npz"
    cli.printed("tag", "train", bank, "--save", saved, "--quiet")
    bank.write_text(SENTENCES.replace("dog NN I-NP", "dog NN B-NP").replace(". . O", ". . B-NP", 1))
    out = cli.printed("tag", "predict", saved, bank)
    again = read_columns("out", out.encode(), ("word", "tag", "label", "found"))
    expected = chunk_scores([s["label"] for s in again], [s["found"] for s in again])
    chunks = cli.reported("tag", "evaluate", saved, bank)["chunks"]
    assert 0 < chunks["f1"] < 1
    assert all(chunks[name] == getattr(expected, name) for name in ("correct", "found", "expected", "f1"))


def test_templates_of_a_file_and_labels_that_are_no_chunks(tmp_path, cli):
    (tmp_path / "t.toml").write_text('templates = ["bias", "form", "form.suffix1"]\n', "utf-8-sig")
    (tmp_path / "tags.txt").write_text("# x\na D\ndog N\n\nruns V\n")
    files = [tmp_path / "tags.txt", "--comment", "#", "--test", tmp_path / "tags.txt"]
    command = ["tag", "train", *files, "--columns", "form,label", "--templates", tmp_path / "t.toml", "--quiet"]
    assert cli.reported(*command)["test"] == {"accuracy": {"token": 1.0, "sentence": 1.0}, "chunks": None}
    assert "test  tokens 100.00 %, sentences 100.00 %\n" in cli.printed(*command)


def test_schemes_by_their_other_names(bank, tmp_path, reference_cli):
    for name in ("iob2", "bio2", "bio"):
        reference_cli.printed("tag", "train", bank, "--transitions", name, "--save", tmp_path / "m.npz")
        assert load_model(tmp_path / "m.npz", "reference")[0].transitions == "bio"


TWO = "The D\nduck N\nswims V\n\nA D\ndog N\nsees V\nthe D\nduck N\n"
CONLLU = """# text = Vámonos
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\tv\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tp\t_\t1\tobj\t_\t_
"""


@pytest.mark.parametrize(
    ("content", "said", "columns", "templates"),
    [
        (TWO, "2 sentences, columns word, label (", ["word", "label"], "words"),
        (SENTENCES, "3 sentences, columns word, tag, label (", ["word", "tag", "label"], "chunks"),
        ("a D x O\nb N y B-X\n", "columns word, tag, chunk, label (", ["word", "tag", "chunk", "label"], "chunks"),
        (CONLLU, "one sentence (an empty line ends a sentence), CoNLL-U, label = UPOS (", None, "words"),
    ],
)
def test_files_are_read_without_options(tmp_path, reference_cli, content, said, columns, templates):
    """What was inferred is said, and kept: files are read in the same way later."""
    path, saved = tmp_path / "a.txt", tmp_path / "m.npz"
    path.write_text(content, encoding="utf-8")
    status, out, err = reference_cli.run("tag", "train", path, "--test", path, "--save", saved)
    assert status == 0 and out.count("tokens 100.00 %") == 2
    (line,) = err.splitlines()
    assert line.startswith(f"{path}: ") and said in line and line.endswith(f"templates {templates} (--templates)")
    assert columns is None or load_model(saved, "reference")[2]["columns"] == columns
    assert "100.00 %" in reference_cli.printed("tag", "evaluate", saved, path)
    status, _, err = reference_cli.run("tag", "train", path, "--quiet")
    assert status == 0 and "sentences" not in err


NOTED = """# newdoc
# text = Vámonos ya
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
1\tVamos\tir\tNOUN\tv\tMood=Imp\t0\troot\t0:root\t_
2\tnos\tnosotros\tNOUN\tp\t_\t1\tobj\t_\tA b=c
2.1\tx\tx\tX\tx\t_\t_\t_\t1:x\t_

1\tya mismo\t#\t_\tb\t_\t_\t_\t_\t_

"""


@pytest.mark.parametrize("columns", [None, "id,word,lemma,upos,label,feats,head,deprel,deps,misc"])
def test_conllu_is_tagged_in_place(tmp_path, cli, columns):
    """All but the labels of words stays, and the other commands read it: evaluate finds each label right."""
    path, new, saved, out = (tmp_path / name for name in ("a.conllu", "new.conllu", "m.npz", "out.conllu"))
    path.write_text(CONLLU, encoding="utf-8")
    new.write_text(NOTED, encoding="utf-8")
    named = [] if columns is None else ["--columns", columns]
    cli.printed("tag", "train", path, *named, "--save", saved, "--quiet")
    command = ["tag", "predict", saved, new]
    sentences = cli.reported(*command)["sentences"]
    labels = iter(label for each in sentences for label in each["labels"])
    expected = [line.split("\t") for line in NOTED.splitlines()]
    for cells in expected:
        if cells[0].isdecimal():
            cells[3 if columns is None else 4] = next(labels)
    text = "".join("\t".join(cells) + "\n" for cells in expected)
    assert next(labels, None) is None and text != NOTED
    assert cli.printed(*command) == text
    assert cli.printed(*command, "--out", out) == "" and out.read_text(encoding="utf-8") == text
    assert "tokens 100.00 %, sentences 100.00 %" in cli.printed("tag", "evaluate", saved, out)
    assert cli.printed(*command, "--limit", 1) == text.partition("\n\n")[0] + "\n\n"
    noted = cli.printed(*command, "--top", 2, "--probabilities").splitlines()
    assert noted[:2] == text.splitlines()[:2] and noted[2].endswith(f": {' '.join(sentences[0]['labels'])}")
    added = [line for line in noted if line.startswith(("# labels = ", "# probabilities = "))]
    assert len(added) == 6 and [line for line in noted if line not in added] == text.splitlines()


def test_tagging_a_sentence_a_line(tmp_path, cli):
    """The same labels as from columns."""
    two, saved, lines = tmp_path / "two.txt", tmp_path / "m.npz", tmp_path / "new.txt"
    two.write_text(TWO)
    cli.printed("tag", "train", two, "--save", saved, "--quiet")
    lines.write_text("the dog swims\nduck\n")
    by_line = cli.printed("tag", "predict", saved, lines, "--tokens")
    lines.write_text("the\ndog\nswims\n\nduck\n")
    assert by_line == cli.printed("tag", "predict", saved, lines) + "\n" != "\n"
    assert [line.split(" ")[0] for line in by_line.splitlines()] == ["the", "dog", "swims", "", "duck", ""]
    lines.write_text("duck _\nswims _\n")  # a label that is not known
    cli.printed("tag", "predict", saved, lines)


@pytest.mark.parametrize("how", [[], ["--learner", "sparse-crf", "--path", 3, "--held-out", 0.4]])
def test_attributes_are_looked_up_once(bank, cli, monkeypatch, how):
    """Once for the sentences to train on, which are tagged too, and once for those to test on."""
    seen, whole = [], token_templates._Window

    def window(X, offsets):
        seen.append(len(X))
        return whole(X, offsets)

    monkeypatch.setattr(token_templates, "_Window", window)
    cli.printed("tag", "train", bank, "--test", bank, "--quiet", *how)
    assert seen == [3, 3]


TREES = f"{FILES['bank.dp']}\nA\tDT\t2\ndog\tNN\t3\nsees\tVBZ\t0\nthe\tDT\t5\nduck\tNN\t3\n.\t.\t3\n"


@pytest.fixture
def treebank(tmp_path):
    path = tmp_path / "bank.dp"
    path.write_text(TREES)
    return path


def test_trees_as_text():
    lines = drawn(("a", "b", "c", "d"), ("A", "B", "C", "D"), np.array([2, 0, 1, 2]))
    assert lines == ["└─ b (B, 2)", "   ├─ a (A, 1)", "   │  └─ c (C, 3)", "   └─ d (D, 4)"]
    assert drawn((), (), np.zeros(0, np.int64)) == []


@pytest.mark.parametrize(
    "how",
    [
        [],
        ["--vocabulary", 1, "--many-roots"],
        ["--loss", "crf", "--epochs", 30, "--step-size", 0.1],
        ["--loss", "crf", "--optimizer", "lbfgs", "--epochs", 20],
    ],
)
def test_train_evaluate_predict(backend, treebank, tmp_path, cli, how):
    saved = tmp_path / "model.npz"
    command = [
        "parse",
        "train",
        treebank,
        "--test",
        treebank,
        "--bits",
        12,
        "--lam",
        0.01,
        "--save",
        saved,
        "--quiet",
        *how,
    ]
    report = cli.reported(*command)
    assert report["train"] == report["test"] == {"uas": 1.0, "uas_without_punctuation": 1.0}
    assert "right heads 100.00 %" in cli.printed("parse", "evaluate", saved, treebank)
    options = ["--top", 2, "--probabilities", "--draw"]
    out = cli.printed("parse", "predict", saved, treebank, *options)
    (tmp_path / "out.conllu").write_text(out)
    again = load_treebank(str(tmp_path / "out.conllu"))
    for a, b in zip(again, load_treebank(str(treebank)), strict=True):
        assert a.words == b.words and a.tags == b.tags and a.heads.tolist() == b.heads.tolist()
        assert sum(c.startswith("# tree = ") for c in a.block.comments) == 2
        assert sum("└─" in c or "├─" in c for c in a.block.comments) == len(a.words)
    for name, heads in (("without", ""), ("some", "\t_")):  # what heads there are makes no difference
        (tmp_path / name).write_text(re.sub(r"\t2$" if heads else r"\t\d$", heads, TREES, flags=re.MULTILINE))
        assert cli.printed("parse", "predict", saved, tmp_path / name, *options) == out
        assert f"{name}, line 1: " in cli.refused("parse", "evaluate", saved, tmp_path / name)
    sentences = cli.reported("parse", "predict", saved, treebank, *options)["sentences"]
    model, w, _ = load_model(saved, backend.module)
    data = model.pack([s.fields() for s in again])
    for i, each in enumerate(sentences):
        scores = model.scores(data, np.array([i]), w).values
        for tree in each["trees"]:
            close(tree["score"], scores[np.arange(len(scores)), tree["heads"]].sum())
        assert each["trees"][0]["heads"] == each["heads"] and all(0 < p <= 1 for p in each["probabilities"])


@pytest.mark.parametrize(
    ("how", "alive"),
    [
        ([], None),
        (["--loss", "crf", "--vocabulary", 1], None),
        (["--regularizer", "l2"], None),
        (["--regularizer", "l21", "--lam", 1e-4], 20),
        (["--regularizer", "l21", "--lam", 1e3], 0),
    ],
)
def test_templates_are_weighed(backend, treebank, tmp_path, cli, how, alive):
    """By online-proximal: train and show give the norms of the saved weights, largest first, and their shares; a
    strong penalty leaves no template, and shares of a sum of 0 are 0.
    """
    saved = tmp_path / "model.npz"
    command = [
        "parse",
        "train",
        treebank,
        "--bits",
        8,
        "--optimizer",
        "online-proximal",
        "--save",
        saved,
        "--quiet",
        *how,
    ]
    report = cli.reported(*command)
    model, w, _ = load_model(saved, backend.module)
    assert model.blocks and (model.keys is None) == ("--vocabulary" not in how)
    norms = {template: np.linalg.norm(w[model.groups == t]) for t, template in enumerate(model.templates)}
    found, total = report["template_weights"], sum(norms.values())
    assert len(found) == len(norms) == 20
    close([e["norm"] for e in found], [norms[tuple(e["template"])] for e in found])
    assert np.all(np.diff([e["norm"] for e in found]) <= 0)
    close([e["beta"] for e in found], np.array([e["norm"] for e in found]) / (total or 1.0))
    count = sum(norm > 0 for norm in norms.values())
    assert (alive is None and report["train"]["uas"] > 0.8) or count == alive
    assert cli.reported("parse", "show", saved)["template_weights"] == found
    lines, said = cli.printed("parse", "show", saved).splitlines(), f"{count} of 20 templates have weights"
    first = next(i for i, line in enumerate(lines) if line.startswith(said))
    assert "ParsingModel" in lines[0] and len(lines[first:]) == 21
    out = cli.printed(*command)
    assert said in out and ("parse show lists them" in out) == (count > 0)
