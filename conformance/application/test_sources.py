"""Errors about examples that were read from files name the file and the line, in all commands."""

from __future__ import annotations

import numpy as np
import pytest

import reference as sp
from conformance.application.test_app import run
from diptych.distributed import column_parts
from diptych.files import save_model
from diptych.files.columns import load_columns
from diptych.files.sources import Source, Sourced, named
from reference.example_errors import ExampleError, ExampleTypeError

TREE = "1\ta\ta\tN\tN\t_\t2\t_\t_\t_\n2\tb\tb\tV\tV\t_\t0\t_\t_\t_\n"
FILES = {
    "good.txt": "a B-X\nb I-X\n\nc O\n",
    "open.txt": "a B-X\n\n\nb O\nc O\nd I-X\n",
    "other.txt": "a B-X\n\nb O\nc Q\n",
    "good.conllu": f"{TREE}\n",
    "cycle.conllu": f"{TREE}\n# x\ty\n" + TREE.replace("_\t0", "_\t1"),
    "roots.conllu": f"{TREE}\n" + TREE.replace("_\t2", "_\t0"),
    "beyond.conllu": f"{TREE}\n" + TREE.replace("_\t2", "_\t3"),
    "headless.conllu": f"{TREE}\n\n" + TREE.replace("_\t2", "_\t_").replace("_\t0", "_\t_"),
    "alone.tsv": "a\ta\n\n# note\nz\tz\na\t\n\tc\n",
    "twice.json": '[{"left": ["a", "b"], "right": ["a"], "pairs": [[0, 0], [1, 0]]}]',
}
TAG, PARSE = ["tag", "train", "good.txt"], ["parse", "train"]
OVER = ["--partitions", 2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files with a defect, and models trained on the others."""
    path = tmp_path_factory.mktemp("files")
    for name, text in FILES.items():
        (path / name).write_text(text)
    fields = {"features": np.ones((6, 2)), "labels": [0, 1, 0, 1, 0, 1], "offsets": [0, 2, 6], "names": ["a", "b"]}
    np.savez(path / "good.npz", **fields)
    np.savez(path / "nan.npz", **fields | {"features": np.where(np.arange(12).reshape(6, 2) == 9, np.nan, 1.0)})
    np.savez(path / "new.npz", **fields | {"labels": [0, 1, 0, 1, 2, 1], "names": ["a", "b", "c"]})
    np.savez(path / "grey.npz", one=np.eye(3), two=np.eye(3) * 0.5)
    tagger = sp.TaggingModel.of([{"word": ["a", "b"]}], [["B-X", "O"]], ["word"])
    models = {"t.npz": tagger, "p.npz": sp.ParsingModel(bits=4, single_root=True), "m.npz": sp.SequenceModel(2, "ab")}
    for name, model in models.items():
        save_model(path / name, model, np.zeros(model.size), {"columns": ["word", "label"]})
    return path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*TAG, "open.txt", "--transitions", "bio"], "open.txt, line 6: I-X after O, at token 2, is not"),
        ([*TAG, "open.txt", "--transitions", "bio", *OVER], "open.txt, line 6: I-X after O, at token 2, is not"),
        ([*TAG, "open.txt", "other.txt", "--transitions", "bio", "--limit", 4], "open.txt, line 6: I-X after O"),
        ([*TAG, "open.txt", "--transitions", "bio", "--learner", "sparse-crf"], "open.txt, line 6: I-X after O"),
        ([*TAG, "other.txt", "--transitions", "bio"], "other.txt, line 4: transitions: expected labels O"),
        ([*TAG, "other.txt", "--transitions", "bio", *OVER], "other.txt, line 4: transitions: expected labels O"),
        ([*TAG, "other.txt", "--start", "t.npz"], "good.txt, line 2: unknown label 'I-X'"),
        (["grid", "--vary", "lam=1", "--kept", "kept", *TAG, "open.txt", "--transitions", "bio"], "open.txt, line 6: "),
        ([*PARSE, "cycle.conllu"], "cycle.conllu, line 5: expected a tree, got heads in a cycle"),
        ([*PARSE, "cycle.conllu", *OVER], "cycle.conllu, line 5: expected a tree, got heads in a cycle"),
        ([*PARSE, "good.conllu", "--test", "roots.conllu"], "roots.conllu, line 5: expected one token with head 0"),
        ([*PARSE, "roots.conllu", *OVER], "roots.conllu, line 5: expected one token with head 0"),
        (["parse", "evaluate", "p.npz", "roots.conllu"], "roots.conllu, line 5: expected one token with head 0"),
        ([*PARSE, "beyond.conllu"], "beyond.conllu, line 4: head: expected a token number in 0..2, got '3'"),
        ([*PARSE, "headless.conllu"], "headless.conllu, line 5: head: expected heads"),
        (["train", "nan.npz"], "nan.npz: features[4, 1]: expected a finite number, got nan"),
        (["train", "nan.npz", "--limit", 1, "--learner", "mkl"], "nan.npz: features[4, 1]: expected"),
        (["train", "nan.npz", *OVER], "nan.npz: features[4, 1]: expected a finite number, got nan"),
        (["evaluate", "m.npz", "new.npz"], "new.npz: labels[4]: expected a label of the model, a, b, got c"),
        (["train", "new.npz", "--start", "m.npz", *OVER], "new.npz: labels[4]: expected a label of the model"),
        (["align", "train", "alone.tsv", "--no-null"], "alone.tsv, line 5: the example leaves strings of both"),
        (["align", "train", "twice.json"], "twice.json: example 0: pairs: right string 0 has two partners"),
        (["segment", "train", "grey.npz"], "grey.npz: two: row 0, column 0: expected zeros and ones, got 0.5"),
    ],
)
def test_the_place_of_a_defect_is_named(backend, folder, monkeypatch, tmp_path, capsys, words, message):
    monkeypatch.chdir(folder)
    words = [tmp_path / "kept" if word == "kept" else word for word in words]
    status, _, err = run(backend.module, capsys, *words)
    assert status == 2 and message in err


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_sentences_know_their_lines_whatever_the_part(folder, parts):
    """By the words of the lines; an error beyond the last token is at the last token."""
    path = str(folder / "open.txt")
    lines = FILES["open.txt"].split("\n")
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
