"""Networks with layers are trained: losses fall, rules are learnt, the experiments print what they measure."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from conformance.application.conftest import outcome  # noqa: E402
from diptych.chunks import chunk_scores  # noqa: E402
from diptych.experiments import lstm  # noqa: E402
from diptych.experiments.registry import perform  # noqa: E402

pytestmark = pytest.mark.beyond("trains networks")


def sentences(count, seed=0):
    """A chunk is an article and what follows up to the next verb; verbs hang on the first one, the rest on the word
    after, the last word on the one before.
    """
    rng = np.random.default_rng(seed)
    for _ in range(count):
        tags = rng.choice(["DT", "NN", "VB"], rng.integers(2, 7), p=[0.3, 0.4, 0.3]).tolist() + ["VB"]
        words = [f"{tag.lower()}{rng.integers(3)}" for tag in tags]
        labels, before, first = [], "O", tags.index("VB") + 1
        for tag in tags:
            before = "O" if tag == "VB" else "B-NP" if tag == "DT" else "I-NP" if before != "O" else "O"
            labels.append(before)
        heads = [0 if m == first else first if tag == "VB" else m + 1 for m, tag in enumerate(tags, 1)]
        yield words, tags, labels, heads


def examples(count, truth, seed=0):
    return [lstm.Example(words, tags, rest[truth]) for words, tags, *rest in sentences(count, seed)]


def mean_loss(model, some):
    """Of a padded minibatch, in which padding counts nothing."""
    with torch.no_grad():
        return float(model(some))


@pytest.mark.parametrize("kind", [lstm.Chunker, lstm.HeadFinder])
def test_layers_over_a_network_learn_chunks_and_heads(kind):
    truth = int(kind is lstm.HeadFinder)
    train, test = examples(96, truth), examples(40, truth, seed=1)
    model, untrained = (lstm.trained(kind, train, epochs) for epochs in (6, 0))
    assert mean_loss(model, train) < 0.2 * mean_loss(untrained, train)
    expected, predicted = [e.truth for e in test], lstm.predictions(model, test)
    assert np.mean(np.concatenate(expected) == np.concatenate(predicted)) > 0.9
    assert kind is lstm.HeadFinder or chunk_scores(expected, predicted, "bio").f1 > 0.9
    assert np.isclose(mean_loss(model, test), np.mean([mean_loss(model, [e]) for e in test]), rtol=1e-4)


def text_of(some, *columns):
    """A file with a line for each token."""
    tokens = [zip(*(sentence[c] for c in columns), strict=True) for sentence in some]
    return "\n\n".join("\n".join("\t".join(map(str, token)) for token in each) for each in tokens)


@pytest.mark.parametrize(("name", "score"), [("neural-chunks", "chunk F1"), ("neural-trees", "UAS")])
def test_the_experiments_compare_on_the_same_split(name, score, tmp_path, capsys):
    every = list(sentences(199))
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        for file, some in (("train.txt", every[:40]), ("test.txt", every[40:60])) if "chunks" in name else ():
            archive.writestr(file, text_of(some, 0, 1, 2))
        for number, sentence in enumerate(every if "trees" in name else ()):
            archive.writestr(f"{number:03}.dp", text_of([sentence], 0, 1, 3))
    words = [str(tmp_path / "data.zip"), "--sentences", "40", "--epochs", "4", "--json"]
    status, out, err = outcome(capsys, perform, name, words)
    assert status == 0 and err.count("epoch ") == 4
    found = {line["what"]: line["number"] for line in json.loads(out)}
    mine, linear = (value for what, value in found.items() if what.endswith(score))
    assert 60 < mine <= 100 and 60 < linear <= 100 and np.isclose(found["the gap"], mine - linear)
    assert all(value > 0 for what, value in found.items() if what.endswith("training"))
