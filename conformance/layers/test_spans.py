"""Valid spans of token classifiers: best labellings and probabilities by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from conformance.specimens.pages import check_refusals
from diptych.chunks import chunks
from diptych.layers.spans import SCHEMES, allowed_transitions, decode_spans
from reference.models.schemes import allowed

LABELS = {
    "BIO": ["O", "B-A", "I-A", "B-B", "I-B"],
    "IOBES": ["O", "B-A", "I-A", "E-A", "S-A", "S-B", "B-B", "E-B"],
    "BILOU": ["U-A", "L-A", "I-A", "B-A", "O"],
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_spans_are_the_best_valid_ones_and_probabilities_are_sums(scheme):
    """Rules and spans of a labelling are those of schemes of chunks."""
    rng, labels, L = np.random.default_rng(0), LABELS[scheme], len(LABELS[scheme])
    pairs, starts, ends = rule = allowed(labels, scheme.lower())
    assert all(map(np.array_equal, allowed_transitions(labels, scheme), rule))
    for n in (1, 2, 4):
        logits, biases = 2 * rng.normal(size=(n, L)), rng.normal(size=(L, L))
        scores, spans = {}, {}
        for y in itertools.product(range(L), repeat=n):
            if starts[y[0]] and ends[y[-1]] and all(pairs[a, b] for a, b in itertools.pairwise(y)):
                scores[y] = logits[range(n), y].sum() + sum(biases[a, b] for a, b in itertools.pairwise(y))
                spans[y] = [(first, last + 1, kind) for kind, first, last in chunks([labels[i] for i in y])]
        total = np.logaddexp.reduce(list(scores.values()))
        order = sorted(scores, key=scores.get, reverse=True)
        found = decode_spans(logits, labels, biases=biases, k=3, scheme=scheme)
        assert len(found) == min(3, len(order))
        for each, y in zip(found, order, strict=False):
            assert each.labels == [labels[i] for i in y]
            assert [span[:3] for span in each.spans] == spans[y]
            np.testing.assert_allclose(each.log_probability, scores[y] - total, rtol=1e-9)
            for span in each.spans:
                mass = [scores[z] for z in scores if span[:3] in spans[z]]
                np.testing.assert_allclose(span.probability, np.exp(np.logaddexp.reduce(mass) - total), rtol=1e-9)


def test_positions_off_the_mask_have_no_label_and_spans_cover_them():
    labels, logits = LABELS["BIO"], np.full((5, 5), -3.0)
    logits[0, 1] = logits[2, 2] = logits[4, 0] = 3.0
    logits[1, 3] = logits[3, 3] = 99.0
    found = decode_spans(logits, labels, np.array([True, False, True, False, True]))
    assert found.labels == ["B-A", None, "I-A", None, "O"] and [span[:3] for span in found.spans] == [(0, 3, "A")]
    both = decode_spans(np.stack([logits, logits]), labels, np.array([[True, False, True, False, True], [False] * 5]))
    assert both[0] == found and both[1].spans == [] and both[1].log_probability == 0.0


def test_tensors_are_taken_as_arrays_are():
    torch = pytest.importorskip("torch")
    logits = torch.randn(2, 4, 5, requires_grad=True)
    assert decode_spans(logits, LABELS["BIO"]) == decode_spans(logits.detach().numpy(), LABELS["BIO"])


def test_wrong_arguments_are_named():
    functions = {"decode_spans": decode_spans, "allowed_transitions": allowed_transitions}
    check_refusals("wrong_spans.txt", {**functions, "np": np, "logits": np.zeros((4, 5)), "BIO": LABELS["BIO"]})
