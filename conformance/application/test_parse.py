"""The command ``parse``: train, evaluate and predict on a small treebank; trees as text."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from conformance.tolerances import close
from diptych.commands.parse import drawn
from diptych.files import load_model
from diptych.files.treebank import load_treebank

SENTENCES = """The\tDT\t2
duck\tNN\t3
swims\tVBZ\t0
.\t.\t3

A\tDT\t2
dog\tNN\t3
sees\tVBZ\t0
the\tDT\t5
duck\tNN\t3
.\t.\t3

Dogs\tNN\t2
swim\tVBZ\t0
"""


@pytest.fixture
def bank(tmp_path):
    path = tmp_path / "bank.dp"
    path.write_text(SENTENCES)
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
def test_train_evaluate_predict(backend, bank, tmp_path, how, cli):
    saved = tmp_path / "model.npz"
    command = ["parse", "train", bank, "--test", bank, "--bits", 12, "--lam", 0.01, "--save", saved, "--quiet", *how]
    report = cli.reported(*command)
    assert report["train"] == report["test"] == {"uas": 1.0, "uas_without_punctuation": 1.0}
    assert "right heads 100.00 %" in cli.printed("parse", "evaluate", saved, bank)
    command = ["parse", "predict", saved, bank, "--top", 2, "--probabilities", "--draw"]
    out = cli.printed(*command)
    (tmp_path / "out.conllu").write_text(out)
    again = load_treebank(str(tmp_path / "out.conllu"))
    for a, b in zip(again, load_treebank(str(bank)), strict=True):
        assert a.words == b.words and a.tags == b.tags and a.heads.tolist() == b.heads.tolist()
        assert sum(c.startswith("# tree = ") for c in a.block.comments) == 2
        assert sum("└─" in c or "├─" in c for c in a.block.comments) == len(a.words)
    for name, heads in (("without", ""), ("some", "\t_")):  # what heads there are makes no difference
        (tmp_path / name).write_text(re.sub(r"\t2$" if heads else r"\t\d$", heads, SENTENCES, flags=re.MULTILINE))
        assert cli.run(*command[:3], tmp_path / name, *command[4:])[1] == out
        assert f"{name}, line 1: " in cli.refused("parse", "evaluate", saved, tmp_path / name)
    sentences = json.loads(cli.run(*command, "--json")[1])["sentences"]
    model, w, _ = load_model(saved, backend.module)
    data = model.pack([s.fields() for s in again])
    for i, each in enumerate(sentences):
        scores = model.scores(data, np.array([i]), w).values
        for tree in each["trees"]:
            close(tree["score"], scores[np.arange(len(scores)), tree["heads"]].sum())
        assert each["trees"][0]["heads"] == each["heads"] and all(0 < p <= 1 for p in each["probabilities"])


@pytest.mark.parametrize(
    "how", [[], ["--loss", "crf", "--vocabulary", 1], ["--regularizer", "l21", "--lam", 0.01], ["--regularizer", "l2"]]
)
def test_templates_are_weighed(backend, bank, tmp_path, how, cli):
    """By online-proximal: train and show give the norms of the saved weights, largest first, and their shares; one
    of all templates is 1.
    """
    saved = tmp_path / "model.npz"
    command = ["parse", "train", bank, "--bits", 8, "--optimizer", "online-proximal", "--save", saved, "--quiet", *how]
    report = cli.reported(*command)
    assert report["train"]["uas"] > 0.8 and report["job"]["regularizer"] == (
        how[1] if "--regularizer" in how else "squared-l21"
    )
    model, w, _ = load_model(saved, backend.module)
    assert model.blocks and (model.keys is None) == ("--vocabulary" not in how)
    found = report["template_weights"]
    expected = {template: np.linalg.norm(w[model.groups == t]) for t, template in enumerate(model.templates)}
    assert len(found) == len(expected)
    close([e["norm"] for e in found], [expected[tuple(e["template"])] for e in found])
    assert np.all(np.diff([e["norm"] for e in found]) <= 0)
    close([e["beta"] for e in found], np.array([e["norm"] for e in found]) / sum(expected.values()))
    assert cli.reported("parse", "show", saved)["template_weights"] == found
    status, out, _ = cli.run("parse", "show", saved)
    alive = sum(norm > 0 for norm in expected.values())
    lines = out.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(f"{alive} of 20 templates have weights"))
    assert "ParsingModel" in lines[0] and len(lines[first:]) == 21
    status, out, _ = cli.run(*command)
    assert status == 0 and f"{alive} of 20 templates have weights" in out and "parse show lists them" in out


def test_a_strong_penalty_leaves_no_template(bank, cli):
    """All norms, and shares of a sum of 0, are 0."""
    command = ["parse", "train", bank, "--bits", 8, "--optimizer", "online-proximal", "--regularizer", "l21", "--quiet"]
    for lam, expected in ((1e-4, 20), (1e3, 0)):
        status, out, _ = cli.run(*command, "--lam", lam, "--json")
        found = json.loads(out)["template_weights"]
        assert status == 0 and sum(e["norm"] > 0 for e in found) == sum(e["beta"] > 0 for e in found) == expected
    assert "0 of 20 templates have weights" in cli.run(*command, "--lam", 1e3)[1]
