"""The command ``parse``: train, evaluate and predict on a small treebank; trees as text."""

from __future__ import annotations

import re

import numpy as np
import pytest

from conformance.specimens.requests import FILES
from conformance.tolerances import close
from diptych.commands.parse import drawn
from diptych.files import load_model
from diptych.files.treebank import load_treebank

SENTENCES = f"{FILES['bank.dp']}\nA\tDT\t2\ndog\tNN\t3\nsees\tVBZ\t0\nthe\tDT\t5\nduck\tNN\t3\n.\t.\t3\n"


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
def test_train_evaluate_predict(backend, bank, tmp_path, cli, how):
    saved = tmp_path / "model.npz"
    command = ["parse", "train", bank, "--test", bank, "--bits", 12, "--lam", 0.01, "--save", saved, "--quiet", *how]
    report = cli.reported(*command)
    assert report["train"] == report["test"] == {"uas": 1.0, "uas_without_punctuation": 1.0}
    assert "right heads 100.00 %" in cli.printed("parse", "evaluate", saved, bank)
    options = ["--top", 2, "--probabilities", "--draw"]
    out = cli.printed("parse", "predict", saved, bank, *options)
    (tmp_path / "out.conllu").write_text(out)
    again = load_treebank(str(tmp_path / "out.conllu"))
    for a, b in zip(again, load_treebank(str(bank)), strict=True):
        assert a.words == b.words and a.tags == b.tags and a.heads.tolist() == b.heads.tolist()
        assert sum(c.startswith("# tree = ") for c in a.block.comments) == 2
        assert sum("└─" in c or "├─" in c for c in a.block.comments) == len(a.words)
    for name, heads in (("without", ""), ("some", "\t_")):  # what heads there are makes no difference
        (tmp_path / name).write_text(re.sub(r"\t2$" if heads else r"\t\d$", heads, SENTENCES, flags=re.MULTILINE))
        assert cli.printed("parse", "predict", saved, tmp_path / name, *options) == out
        assert f"{name}, line 1: " in cli.refused("parse", "evaluate", saved, tmp_path / name)
    sentences = cli.reported("parse", "predict", saved, bank, *options)["sentences"]
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
def test_templates_are_weighed(backend, bank, tmp_path, cli, how, alive):
    """By online-proximal: train and show give the norms of the saved weights, largest first, and their shares; a
    strong penalty leaves no template, and shares of a sum of 0 are 0.
    """
    saved = tmp_path / "model.npz"
    command = ["parse", "train", bank, "--bits", 8, "--optimizer", "online-proximal", "--save", saved, "--quiet", *how]
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
