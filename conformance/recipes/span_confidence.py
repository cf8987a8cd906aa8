"""Recipe: spans with a confidence that holds, by conformal risk control (Angelopoulos et al. 2022, Theorem 1).

A span of :func:`diptych.layers.spans.decode_spans` has a probability, which is as good as the model. A threshold t that
is found on held-out sentences makes a promise that does not depend on the model: of the spans of a new sentence, the
share that is reported (probability > t) and wrong is at most alpha in expectation, if the sentences are exchangeable.

The loss L_i(t) of a sentence, its wrong reported spans over all its spans, is at most 1, falls with t, and is 0 at 1.
The threshold is the least t with (sum_i L_i(t) + 1) / (n + 1) <= alpha, or 1.
"""

import numpy as np

from diptych.layers.spans import decode_spans


def judged(logits, labels, gold, **options):
    """The probabilities (m,) of the spans found in a sentence, and whether each is wrong; gold: (start, end, type)."""
    spans = decode_spans(logits, labels, **options).spans
    return np.array([s.probability for s in spans]), np.array([tuple(s[:3]) not in gold for s in spans], bool)


def loss(sentence, t):
    """The share of a sentence's spans that are reported and wrong, for each threshold of an array t."""
    probabilities, wrong = sentence
    return np.sum(wrong & (probabilities > np.asarray(t)[..., None]), axis=-1) / max(len(wrong), 1)


def threshold(sentences, alpha):
    """The t of held-out sentences, each as :func:`judged` returns it; report spans with a probability above it."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha: expected a number in (0, 1), got {alpha!r}")
    steps = np.unique(np.concatenate([[0.0, 1.0], *(p[wrong] for p, wrong in sentences)]))  # where losses fall
    enough = (sum(loss(each, steps) for each in sentences) + 1) / (len(sentences) + 1) <= alpha
    return float(steps[np.argmax(enough)]) if np.any(enough) else 1.0
