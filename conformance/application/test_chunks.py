"""Chunks: their schemes, by hand and over all sets of chunks, and scores as the shared tasks' scorer counts."""

from __future__ import annotations

import itertools
from ast import literal_eval
from functools import partial
from types import SimpleNamespace

import pytest

from conformance.specimens.pages import entries
from conformance.specimens.requests import FILES
from conformance.tolerances import close
from diptych.chunks import Chunk, chunk_scores, chunks, convert, is_chunk_label, mark_chunks
from diptych.commands.scores import counted
from diptych.metrics import chunk_f1, chunk_f1_scorer
from reference.models.schemes import allowed

# the prefixes of a chunk's first token, of tokens inside, of the last, and of a single token
PREFIXES = {"bio": "BIIB", "iob1": "BIIB", "iobes": "BIES", "bilou": "BILU", "bmes": "BMES", "bmewo": "BMEW"}


@pytest.mark.parametrize(("labels", "expected"), entries("chunks.txt"))
def test_chunks_by_hand(labels, expected):
    assert chunks(labels.split()) == [Chunk(*chunk) for chunk in literal_eval(expected)]


def written(n, found, scheme):
    """Chunks as labels (n,) of a scheme."""
    labels, before = ["O"] * n, Chunk("", -1, -1)
    begin, inside, end, single = PREFIXES[scheme]
    for kind, first, last in found:
        labels[first : last + 1] = [single] if first == last else [begin, *(last - first - 1) * inside, end]
        if scheme == "iob1" and not (before.last == first - 1 and before.type == kind):
            labels[first] = "I"
        labels[first : last + 1] = [f"{prefix}-{kind}" if kind else prefix for prefix in labels[first : last + 1]]
        before = Chunk(kind, first, last)
    return labels


def sets_of_chunks(n, first=0):
    """All sets of chunks of types X and Y in n tokens that begin at ``first`` or later, from left to right."""
    yield []
    for a in range(first, n):
        for b, kind in itertools.product(range(a, n), "XY"):
            yield from ([Chunk(kind, a, b), *rest] for rest in sets_of_chunks(n, b + 1))


@pytest.mark.parametrize("scheme", PREFIXES)
def test_valid_sequences_are_sets_of_chunks(scheme):
    """Of up to four tokens: what a scheme allows is how sets of chunks are written, read and converted."""
    labels = ["O", *(f"{prefix}-{kind}" for prefix in sorted(set(PREFIXES[scheme])) for kind in "XY")]
    follows, begins, ends = allowed(labels, scheme)
    for n in range(5):
        every = list(sets_of_chunks(n))
        valid = {
            tuple(labels[i] for i in y)
            for y in itertools.product(range(len(labels)), repeat=n)
            if n == 0 or (begins[y[0]] and ends[y[-1]] and all(follows[a, b] for a, b in itertools.pairwise(y)))
        }
        assert valid == {tuple(written(n, found, scheme)) for found in every} and len(valid) == len(every)
        for found in every:
            mine = written(n, found, scheme)
            assert chunks(mine) == chunks(mine, scheme) == found
            for other in PREFIXES:
                theirs = convert(mine, scheme, other)
                assert theirs == written(n, found, other) and convert(theirs, other, scheme) == mine


def test_conversion_of_other_labels():
    """Prefixes keep their case, labels without a type stay so, and what is invalid becomes valid."""
    assert convert(["o", "b-x", "i-x", "O", "B"], "IOB2", "BIOUL") == ["o", "b-x", "l-x", "O", "U"]
    assert convert(["I-X", "E-X", "L-X"], None, "iob1") == ["I-X", "I-X", "B-X"]
    for words, message in (
        ((["O", "E-X"], "bio", "bmes"), r"labels\[1\]: expected O, or B or I with a type, such as B-NP, got 'E-X'"),
        (([], "bio", "io"), "target: expected one of bio, iob1, .*, got 'io'"),
        (([], 3, "bio"), "source: expected one of bio, iob1, .*, got 3"),
    ):
        with pytest.raises(ValueError, match=message):
            convert(*words)


@pytest.mark.parametrize(("labels", "expected"), entries("chunk_labels.txt"))
def test_labels_that_mark_chunks(labels, expected):
    assert mark_chunks(labels.split()) == literal_eval(expected)


def test_scores_by_hand():
    """Of five true chunks and four found two are right; a wrong boundary and a wrong type count on both sides."""
    truth = ["B-X I-X O B-Y", "B-X O", "I-X B-X"]
    guess = ["B-X I-X O B-X", "B-X I-X", "I-X O"]
    scores = chunk_scores([y.split() for y in truth], [z.split() for z in guess])
    assert (scores.correct, scores.found, scores.expected) == (2, 4, 5)
    close([scores.precision, scores.recall, scores.f1], [2 / 4, 2 / 5, 2 * 0.5 * 0.4 / 0.9])
    assert list(scores.types) == ["X", "Y"]
    assert scores.types["X"][3:6] == (2, 4, 4) and scores.types["Y"][:6] == (0.0, 0.0, 0.0, 0, 0, 1)


def test_nothing_to_divide_by():
    assert chunk_scores([], []) == chunk_scores([["O"]], [["O"]]) == (0.0, 0.0, 0.0, 0, 0, 0, {})
    assert chunk_scores([["B-X"]], [["O"]])[:6] == (0.0, 0.0, 0.0, 0, 0, 1)
    assert chunk_scores([["B-X"], ["I-X"]], [["B-X"], ["B-X"]]).f1 == 1.0  # sentences end chunks
    assert chunk_scores([["B-X", "I-X"]], [["B-X", "B-X"]]).correct == 0


def test_f1_of_learners_and_of_a_scheme():
    truth, guess = [["B-X", "I-X", "O"], ["B-Y"]], [["B-X", "L-X", "O"], ["I-X"]]
    assert chunk_f1(truth, guess) == 0.5
    learner = SimpleNamespace(predict=lambda X: guess)
    assert chunk_f1_scorer(learner, [1, 2], truth) == 0.5
    with pytest.raises(ValueError, match=r"guess\[0\]\[1\]: expected O, or B or I with a type, .*, got 'L-X'"):
        partial(chunk_f1_scorer, scheme="bio2")(learner, [1, 2], truth)


def test_what_is_wrong_is_named():
    for label in ("NP", "X-NP", "O-NP", "", "-NP", "BI-X", "PER-B", 3):
        assert label == 3 or not is_chunk_label(label)
        with pytest.raises(ValueError, match=rf"labels\[1\]: expected O, or B, I, .* such as B-NP, got {label!r}"):
            chunks(["O", label])
    with pytest.raises(ValueError, match="guess: expected the labels of 1 sentences, got 0"):
        chunk_scores([["O"]], [])
    with pytest.raises(ValueError, match=r"guess\[1\]: expected 1 labels, got 2"):
        chunk_scores([["O"], ["O"]], [["O"], ["O", "O"]])


@pytest.mark.beyond("long runs")
def test_a_label_that_is_none_of_a_chunk_is_named(tmp_path, cli):
    saved, good, bank = (tmp_path / name for name in ("m.npz", "good.txt", "bad.txt"))
    good.write_text(FILES["bank.txt"])
    bank.write_text(FILES["bank.txt"].replace(" O", " 0"))
    for more in ([], ["--partitions", 3, "--epochs", 9], ["--learner", "sparse-crf", "--scheme", "IOB2"]):
        report = cli.reported("tag", "train", bank, "--quiet", *more)["train"]
        assert report["chunks"] is None and "label '0' in " in report["no_chunk_scores"], more
        said = cli.printed("tag", "train", bank, "--quiet", *more)
        assert f"train no chunk scores: {report['no_chunk_scores']}" in said
    cli.printed("tag", "train", good, "--quiet", "--save", saved)
    for scheme, told in (("bioes", "F1 100.00 (4 found"), ("bmes", "no chunk scores: label 'I-NP'")):
        assert told in cli.printed("tag", "evaluate", saved, good, "--scheme", scheme)


def test_a_label_is_named_by_its_line():
    sentences = [SimpleNamespace(), SimpleNamespace(source=SimpleNamespace(file="a.txt", lines=[7, 9]))]
    truth, wrong = [["B-X"], ["I-X", "O"]], [["B-X"], ["I-X", "0"]]
    assert "label '0' in line 9 of a.txt; " in counted(wrong, truth, examples=lambda: sentences).no_chunks
    assert "label '0', predicted in line 9 of a.txt" in counted(truth, wrong, examples=lambda: sentences).no_chunks
    assert "label '0' in sentence 2, token 2; expected O" in counted(wrong, truth).no_chunks
    assert counted([["0"], ["N"]], [["0"], ["N"]]).no_chunks is None  # no labels of chunks


def test_the_command_reads_templates_of_segments(write, cli):
    """S lines, and TOML: the type depends on both words of a chunk, which the tokens' own templates cannot tell."""
    text = "".join(f"{a} B-{k}\n{b} I-{k}\n. O\n\n" for a in "xy" for b in "xy" for k in [("NE", "EQ")[a == b]]) * 3
    write(text, "both.txt")
    write("U:%x[0,0]\nS7:%s[0]\nB\n", "s.template")
    write('templates = ["word"]\nsegments = ["%b[0,word]+%e[0,word]"]\n', "s.toml")
    write("U:%x[0,0]\n", "none.template")  # beside the templates of segments that come with the package
    names = {"s.template": "S7:%s[word]=S7:x y", "s.toml": "%b[0,word]+%e[0,word]=y+x", "none.template": ""}
    for file, name in names.items():
        words = f"tag train both.txt --templates {file} --segments 2 --lam 0.001 --quiet --save m.npz"
        assert cli.reported(words)["train"]["accuracy"]["sentence"] == 1.0
        scores = cli.reported("tag evaluate m.npz both.txt")
        assert scores["accuracy"]["sentence"] == 1.0 and scores["chunks"]["f1"] == 1.0
        assert cli.printed("tag errors m.npz both.txt").startswith("0 of 36 tokens wrong")
        shown = {each for each, _ in cli.reported("tag show m.npz")["labels"]["NE"]}
        assert not name or {name, "2 tokens"} <= shown
    (best,) = cli.reported("tag predict m.npz both.txt --limit 1 --top 2 --probabilities")["sentences"]
    assert best["labels"] == ["B-EQ", "I-EQ", "O"] == best["best"][0]["labels"]
    first, second = (each["score"] for each in best["best"])
    assert first > second and best["probabilities"][0] == best["probabilities"][1] > 0.5
