"""The laws of structures and regularizers, checked by enumeration, for structures of the package and of users.

Give it a small instance of a structure that answers ``enumerate``; whatever else the structure answers is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from conformance import brute
from conformance.tolerances import close
from reference.arrays import host
from reference.structures.scores import score_fields

__all__ = ["check_regularizer", "check_structure"]


def check_structure(structure: Any, mus: tuple[float, ...] = (0.1, 1.0, 7.0)) -> None:
    """Check every answer of a small structure (float64, one instance) against its list of outputs.

    AssertionError: it names the oracle and the law that failed.
    """
    kind = type(structure).__name__
    outputs = list(structure.enumerate())
    scores = np.array([float(structure.score(y)) for y in outputs])
    parts = np.array([_vector(structure.parts(y)) for y in outputs])
    own = _vector(structure.scores)

    with _law(kind, "score", "the score of an output is the sum of the scores of its parts"):
        for score, row in zip(scores, parts, strict=True):
            close(np.sum(np.where(row != 0, np.where(row != 0, own, 0.0) * row, 0.0)), score, scale=_size(own))
    with _law(kind, "parts", "different outputs have different parts"):
        assert len({tuple(row) for row in parts}) == len(outputs), "two outputs have the same parts"
    if structure.supports("count"):
        with _law(kind, "count", "it is the number of outputs"):
            assert structure.count() == len(outputs)
    if not outputs:
        return

    value, y = structure.best()
    with _law(kind, "best", "the value is the largest score"):
        close(value, scores.max())
    with _law(kind, "best", "the output has the largest score"):
        close(float(structure.score(y)), scores.max())

    for k in (1, 2, len(outputs) + 1) if structure.supports("topk") else ():
        best = structure.topk(k)
        count = int(best.count)
        with _law(kind, f"topk({k})", "count is k, or the number of outputs"):
            assert count == min(k, len(outputs))
        with _law(kind, f"topk({k})", "the scores are the k largest, then -inf"):
            close(host(best.scores)[:count], np.sort(scores)[::-1][:count])
            assert np.all(host(best.scores)[count:] == -np.inf)
        with _law(kind, f"topk({k})", "the outputs are distinct"):
            labels = [tuple(np.ravel(y)) for y in host(best.labels)[:count]]
            assert len(set(labels)) == count, "top-k outputs are not distinct"

    if structure.supports("max_marginals"):
        found = _vector(structure.max_marginals())
        if found.shape == own.shape:  # parts that share a score have one each, which parts() does not tell apart
            with _law(kind, "max_marginals", "each is the largest score of an output with the part"):
                close(found, np.where(parts > 0, scores[:, None], -np.inf).max(axis=0), scale=_size(own))

    for mu in mus if structure.supports("expectation") else ():
        value, marginals = structure.expectation(mu)
        expected, probabilities = brute.log_sum_exp(scores, mu)
        with _law(kind, f"expectation({mu:g})", "the value is mu log sum_y exp(score(y) / mu)"):
            close(value, expected)
        with _law(kind, f"expectation({mu:g})", "the marginals are the means of the parts"):
            close(_vector(marginals), probabilities @ parts, scale=max(1.0, _size(own) / mu))


@contextmanager
def _law(kind: str, oracle: str, law: str) -> Iterator[None]:
    """A failed assertion of the block says which law of which oracle failed."""
    try:
        yield
    except AssertionError as problem:
        raise AssertionError(f"{kind}.{oracle}: {law}: {str(problem).strip() or 'it is not'}") from None


def _vector(scores: Any) -> np.ndarray:
    return np.concatenate([host(field).ravel() for field in score_fields(scores)]).astype(np.float64)


def _size(scores: np.ndarray) -> float:
    return float(np.abs(scores[np.isfinite(scores)]).max(initial=1.0))


def check_regularizer(phi: Any, x: np.ndarray, steps: tuple[float, ...] = (0.3, 1.0, 4.0)) -> None:
    """Check value, prox, conjugate, prox of the conjugate and envelope of a regularizer at a point x (p,), against
    each other's definitions.
    """
    rng = np.random.default_rng(0)
    size = 1.0 + float(np.abs(x).max(initial=0.0))
    for step in steps:
        p, v = phi.prox(x, step), phi.prox_conjugate(x, step)
        at_p, at_v = float(phi.value(p)), float(phi.conjugate(v))
        assert np.isfinite(at_p) and np.isfinite(at_v), "a prox lies in the domain"
        least, least_v = at_p + np.sum((p - x) ** 2) / (2 * step), at_v + np.sum((v - x) ** 2) / (2 * step)
        close(float(phi.envelope(x, step)), least, scale=size**2)
        g = (x - p) / step  # a subgradient at p: Fenchel and Young meet there
        close(at_p + float(phi.conjugate(g)), float(p @ g), scale=size**2)
        close(p + step * phi.prox_conjugate(x / step, 1 / step), x, scale=size)
        for scale in (1e-3, 1.0):
            for u in np.concatenate([p + scale * rng.normal(size=(8, len(x))), scale * rng.normal(size=(8, len(x)))]):
                slack = 1e-9 * size**2
                assert float(phi.value(u)) + np.sum((u - x) ** 2) / (2 * step) >= least - slack, "the prox minimises"
                assert float(phi.conjugate(u)) + np.sum((u - x) ** 2) / (2 * step) >= least_v - slack
                assert float(phi.value(p)) + float(phi.conjugate(u)) >= float(p @ u) - slack, "Fenchel and Young"
