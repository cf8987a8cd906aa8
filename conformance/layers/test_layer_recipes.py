"""The recipes of the page about layers run, and do what they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from conformance.recipes.span_confidence import judged, loss, threshold

NAMES = ["O", "B-PER", "I-PER", "B-LOC"]
WORDS = {"anna": 1, "boris": 1, "curie": 2, "dirac": 2, "paris": 3, "rome": 3, "met": 0, "in": 0, "saw": 0}
PIECES = ["an", "##na", "bo", "##ris", "cu", "##rie", "dirac", "pa", "rome", "met", "in", "saw"]


def sentences(size, rng):
    """Words and labels: people with a first name, some with another, and places."""
    people = [[first, *last] for first in ("anna", "boris") for last in ([], ["curie"], ["dirac"])]
    for _ in range(size):
        a, b = (people[i] for i in rng.integers(0, len(people), 2))
        place = ["in", str(rng.choice(["paris", "rome"]))][: rng.integers(0, 3)]
        words = [*a, str(rng.choice(["met", "saw"])), *b, *place]
        yield words, [WORDS[word] for word in words]


@pytest.mark.beyond("trains networks")
def test_a_token_classifier_learns_from_the_first_pieces_alone(rng):
    torch, _ = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from conformance.recipes.token_classifier import TokenClassifier, align, first_pieces, small, train

    torch.manual_seed(0)
    tokenizer, encoder = small(PIECES)
    model, (words, gold) = TokenClassifier(encoder, NAMES).eval(), zip(*sentences(40, rng), strict=True)
    batch = tokenizer(list(words), is_split_into_words=True, padding=True, return_tensors="pt")
    first = first_pieces(batch)
    assert first.sum(1).tolist() == [len(row) for row in gold] and not bool(first[:, 0].any())  # [CLS]
    inside = batch["attention_mask"] == 1
    assert torch.all(inside[first]) and int(inside.sum()) > int(first.sum()) + 2 * len(gold)  # words have more pieces
    labels, x = align(first, gold), model.logits(batch)
    each = [model.crf(x[b, here][None], torch.tensor([gold[b]])) for b, here in enumerate(first)]
    torch.testing.assert_close(model(batch, labels), -sum(each) / len(gold))
    train(model, batch, labels)
    assert float(model(batch, labels).detach()) * len(gold) < math.log(2)  # so each has P > 1/2, and is the best
    assert model.predict(batch, first) == list(gold)
    words, gold = zip(*sentences(30, rng), strict=True)
    batch = tokenizer(list(words), is_split_into_words=True, padding=True, return_tensors="pt")
    found = model.predict(batch, first_pieces(batch))
    assert np.mean(np.concatenate(found) == np.concatenate(gold)) > 0.9


def drawn(size, rng, most):
    """Sentences of up to ``most`` spans, each right with the cube of its probability: a model too sure of itself."""
    for m in rng.integers(1 if most == 1 else 0, most + 1, size):
        p = rng.random(m)
        yield p, rng.random(m) >= p**3


@pytest.mark.parametrize(("n", "most"), [(3, 1), (10, 1), (40, 1), (20, 4)])
def test_the_promised_risk_is_kept_in_expectation_and_used_up(n, most, rng):
    """Over draws of the held-out set, with the risk of a new sentence in closed form, within five standard errors."""
    alpha, draws = 0.2, 1500
    t = np.array([threshold(list(drawn(n, rng, most)), alpha) for _ in range(draws)])
    risks = ((1 - t) - (1 - t**4) / 4) * (1.0 if most == 1 else most / (most + 1))  # of p > t, wrong: int 1 - p^3
    error = 5 * np.std(risks) / math.sqrt(draws) + 1e-12
    assert np.mean(risks) <= alpha + error
    if most == 1:  # a loss of 0 or 1: by ranks
        assert abs(np.mean(risks) - math.floor(alpha * (n + 1) + 1e-9) / (n + 1)) <= error
    assert np.mean(risks) >= alpha - 2 / (n + 1) - error  # Theorem 2


def test_thresholds_of_decoded_spans_are_the_least_that_hold(rng):
    found = [judged(3 * rng.normal(size=(6, 4)), NAMES, [(0, 1, "PER"), (2, 3, "LOC")]) for _ in range(40)]
    assert all(len(p) == len(wrong) and np.all((p >= 0) & (p <= 1)) for p, wrong in found)
    for alpha in (0.03, 0.2, 0.5, 0.99):
        t = threshold(found, alpha)
        below = [p for p in np.concatenate([p[wrong] for p, wrong in found]) if p < t]
        assert (sum(loss(each, t) for each in found) + 1) / 41 <= alpha
        assert not below or (sum(loss(each, max(below)) for each in found) + 1) / 41 > alpha
    assert threshold(found, 0.01) == 1.0 and threshold([], 0.9) == 1.0  # too few sentences: nothing is reported
    x = np.array([[0.0, 9, 0, 0], [0, 0, 9, 0], [9, 0, 0, 0], [0, 0, 0, 9]])
    assert judged(x, NAMES, [(0, 2, "PER")])[1].tolist() == [False, True]
    ties = [(np.full(2, 0.5), np.array([True, True]))] * 5
    assert threshold(ties, 0.2) == 0.5 and loss(ties[0], 0.5) == 0
    with pytest.raises(ValueError, match=r"alpha: expected a number in \(0, 1\), got 0"):
        threshold(found, 0)
