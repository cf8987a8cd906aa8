"""Spans in labels of tokens: which transitions a scheme allows, and the best valid spans of a token classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import accelerated
from reference.arrays import host
from reference.models import schemes

__all__ = ["Allowed", "Span", "Spans", "allowed_transitions", "decode_spans"]

SCHEMES = ("BIO", "IOBES", "BILOU")


class Allowed(NamedTuple):
    """Booleans: pairs (L, L), of (label, next label); starts and ends (L,), at the first and last position."""

    pairs: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


class Span(NamedTuple):
    """Positions start..end - 1 of a type, and the probability that exactly this span is there."""

    start: int
    end: int
    type: str
    probability: float


class Spans(NamedTuple):
    """A labelling: its labels at the positions on the mask, None elsewhere, its spans, and its log-probability."""

    labels: list[str | None]
    spans: list[Span]
    log_probability: float


def allowed_transitions(labels: Sequence[str], scheme: str) -> Allowed:
    """The transitions and ends that a scheme allows.

    Parameters
    ----------
    labels : sequence of str
        ``O``, and a prefix and a type such as ``B-PER``: of BIO B, I; of IOBES B, I, E, S; of BILOU B, I, L, U.
    scheme : {"BIO", "IOBES", "BILOU"}

    Raises
    ------
    ValueError
        A label that is none of the scheme.
    """
    return Allowed(*schemes.followers(_parsed(labels, scheme), scheme.lower()))


def decode_spans(
    logits: Any,
    labels: Sequence[str],
    mask: Any = None,
    biases: Any = None,
    k: int = 1,
    *,
    scheme: str = "BIO",
) -> Any:
    """The best valid spans of a token classifier, without training.

    Labellings have probabilities proportional to exp of the sum of their logits and biases, and 0 where the scheme
    forbids them.

    Parameters
    ----------
    logits : array or tensor (n, L), or (B, n, L) for a batch
        Of NumPy, PyTorch or another library; log-probabilities do as well.
    labels : sequence of L str
        As :func:`allowed_transitions` takes them.
    mask : bool array (n,) or (B, n), optional
        The positions that have a label, such as the first piece of each word; others are left out.
    biases : array (L, L), optional
        Added to the scores of transitions, such as -1 for each that begins a span.
    k : int >= 1
        Number of labellings.
    scheme : {"BIO", "IOBES", "BILOU"}

    Returns
    -------
    Spans, or list of k Spans if k > 1 (fewer if there are fewer); of a batch, a list of these.

    Raises
    ------
    ValueError, TypeError
        They name the argument; :class:`reference.InfeasibleError` if no labelling is valid.

    Notes
    -----
    Probabilities of spans are exact: those that all labellings with the span have together, by the marginals of pairs.
    """
    rule = allowed_transitions(labels, scheme)
    x = host(logits.detach() if hasattr(logits, "detach") else logits, "logits")
    if x.ndim not in (2, 3) or x.shape[-1] != len(labels):
        raise ValueError(f"logits: expected shape (n, {len(labels)}) or (B, n, {len(labels)}), got {x.shape}")
    kept = np.ones(x.shape[:-1], bool) if mask is None else host(mask, "mask")
    if kept.dtype != bool:
        raise TypeError(f"mask: expected booleans, got {kept.dtype}")
    if kept.shape != x.shape[:-1]:
        raise ValueError(f"mask: expected shape {x.shape[:-1]}, got {kept.shape}")
    pairwise = np.zeros((len(labels),) * 2) if biases is None else host(biases, "biases").astype(np.float64)
    if pairwise.shape != rule.pairs.shape:
        raise ValueError(f"biases: expected shape {rule.pairs.shape}, got {pairwise.shape}")
    pairwise = np.where(rule.pairs, pairwise, -np.inf)
    starts, stops = (np.where(each, 0.0, -np.inf) for each in (rule.starts, rule.ends))
    parsed, names, L = _parsed(labels, scheme), list(map(str, labels)), len(labels)

    def decoded(row: np.ndarray, here: np.ndarray) -> Any:
        places = np.flatnonzero(here)
        each = np.broadcast_to(pairwise, (max(len(places) - 1, 0), L, L))
        chain = accelerated.Chain(row[places].astype(np.float64), each, starts=starts, ends=stops)
        value, parts = chain.expectation()
        found, best = [], chain.topk(k)
        for y, score in zip(best.labels[: int(best.count)], best.scores, strict=False):
            spans = [
                Span(int(places[a]), int(places[b]) + 1, kind, _probability(parts, y, a, b + 1, parsed, scheme))
                for kind, a, b in schemes.chunks_of([names[i] for i in y], scheme.lower(), "labels", None)
            ]
            named: list[str | None] = [None] * len(row)
            for place, label in zip(places, y, strict=True):
                named[place] = names[label]
            found.append(Spans(named, spans, float(score - value)))
        return found[0] if k == 1 else found

    return decoded(x, kept) if x.ndim == 2 else [decoded(*both) for both in zip(x, kept, strict=True)]


def _probability(parts: Any, y: np.ndarray, a: int, b: int, parsed: list[tuple[str, str]], scheme: str) -> float:
    """Of the span of positions a..b - 1, labelled as in y: the chain is a Markov chain of these marginals of pairs."""
    p = float(parts.unary[a, y[a]])
    for t in range(a, b - 1):
        p *= _share(parts.pairwise[t, y[t], y[t + 1]], parts.unary[t, y[t]])
    if scheme == "BIO" and b < len(y):  # the span ends where the next label does not go on with it
        goes_on = [label == ("I", parsed[y[a]][1]) for label in parsed]
        p *= 1.0 - _share(float(np.sum(parts.pairwise[b - 1, y[b - 1], goes_on])), parts.unary[b - 1, y[b - 1]])
    return min(max(p, 0.0), 1.0)


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else 0.0


def _parsed(labels: Sequence[str], scheme: str) -> list[tuple[str, str]]:
    """What the prefix of each label means, and its type."""
    if scheme not in SCHEMES:
        raise ValueError(f"scheme: expected one of {', '.join(SCHEMES)}, got {scheme!r}")
    found = []
    for label in map(str, labels):
        read = schemes.parts(label, scheme.lower())
        if read is None or label[0].islower() or (label != "O" and not read[1]):
            wanted = ", ".join(f"{prefix}-TYPE" for prefix in schemes.SCHEMES[scheme.lower()])
            raise ValueError(f"labels: expected O, {wanted}, got {label!r}")
        found.append(read)
    return found
