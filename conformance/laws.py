"""The laws of structures and regularizers, checked by enumeration, for structures of the package and of users.

Give it a small instance of a structure that answers ``enumerate``; :func:`check_structure` says what is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from conformance.specimens.outputs import Listing
from conformance.tolerances import RELATIVE, close
from reference.arrays import host
from reference.structures.base import InfeasibleError
from reference.structures.scores import score_fields

__all__ = [
    "check_best",
    "check_expectation",
    "check_infeasible",
    "check_max_marginals",
    "check_regularizer",
    "check_scores",
    "check_structure",
    "check_top_k",
]


def check_structure(structure: Any, mus: tuple[float, ...] = (0.1, 1.0, 7.0)) -> None:
    """Check the answers of a small structure (one instance) against its list of outputs.

    These are ``score``, ``parts`` and ``best``, and where the structure has them ``count``, ``topk``,
    ``expected_parts``, ``max_marginals`` and ``expectation``, but not ``sample``. Without any output, ``best`` and
    ``expectation`` must raise InfeasibleError, and ``topk`` finds none.

    AssertionError: it names the oracle and the law that failed.
    """
    outputs = list(structure.enumerate())
    parts = [_fields(structure.parts(y)) for y in outputs]
    scores = np.array([float(structure.score(y)) for y in outputs])
    own = _fields(structure.scores)
    listing = Listing(outputs, scores, {name: np.array([each[name] for each in parts]) for name in own})
    check_scores(structure, listing)
    if outputs:
        check_best(structure, listing)
    else:
        check_infeasible(structure)
    for k in (1, 2, len(outputs) + 1) if structure.supports("topk") else ():
        check_top_k(structure, listing, k)
    if structure.supports("max_marginals"):
        check_max_marginals(structure, listing)
    for mu in mus if outputs and structure.supports("expectation") else ():
        check_expectation(structure, listing, mu)


def check_scores(structure: Any, listing: Listing) -> None:
    """The outputs that are not forbidden: how many, their scores and their parts."""
    own = _fields(structure.scores)
    with _law(structure, "score", "the score of an output is the sum of the scores of its parts"):
        for i, y in enumerate(listing.outputs):
            rows = {name: _shared(part[i], own[name]) for name, part in listing.parts.items()}
            total = sum(np.sum(np.where(row != 0, own[name], 0.0) * row) for name, row in rows.items())
            near(structure, float(structure.score(y)), total)
            near(structure, listing.scores[i], total)
    with _law(structure, "parts", "they are those of the output"):
        for i, y in enumerate(listing.outputs):
            found = _fields(structure.parts(y), structure)
            for name, part in listing.parts.items():
                np.testing.assert_allclose(found[name], _shared(part[i], own[name]), rtol=1e-6)
    with _law(structure, "parts", "different outputs have different parts"):
        rows = [
            np.concatenate([part[i].ravel() for part in listing.parts.values()]) for i in range(len(listing.outputs))
        ]
        assert len({tuple(row) for row in rows}) == len(rows), "two outputs have the same parts"
    if structure.supports("count") and "count" not in structure.intractable:
        with _law(structure, "count", "it is the number of outputs"):
            assert structure.count() == len(listing.outputs) and type(structure.count()) is int


def check_best(structure: Any, listing: Listing) -> None:
    """The max oracle: the highest score, and an output that has it."""
    value, y = structure.best()
    with _law(structure, "best", "the value is the largest score"):
        near(structure, _placed(value, structure), listing.scores.max())
    with _law(structure, "best", "the output has the largest score"):
        near(structure, _placed(structure.score(y), structure), listing.scores.max())


def check_infeasible(structure: Any) -> None:
    """The max and exp oracles of a structure without outputs: each says so."""
    for oracle in ("best", *(["expectation"] if structure.supports("expectation") else [])):
        with _law(structure, oracle, "InfeasibleError, as enumerate lists no output"):
            try:
                answer = getattr(structure, oracle)()
            except InfeasibleError:
                continue
            raise AssertionError(f"got {answer!r:.200}")


def check_top_k(structure: Any, listing: Listing, k: int) -> None:
    """The top-K oracle: the k highest scores, and different outputs that have them."""
    oracle, best = f"topk({k})", structure.topk(k)
    count, scores, labels = int(best.count), _placed(best.scores, structure), host(best.labels)
    with _law(structure, oracle, "count is k, or the number of outputs"):
        assert count == min(k, len(listing.outputs))
    with _law(structure, oracle, "the scores are the k largest, then -inf"):
        near(structure, scores[:count], np.sort(listing.scores)[::-1][:count])
        assert np.all(scores[count:] == -np.inf) and len(scores) == k and np.all(np.diff(scores[:count]) <= 0)
    with _law(structure, oracle, "the outputs are distinct"):
        keys = [_key(y) for y in labels[:count]]
        assert len(set(keys)) == count, "top-k outputs are not distinct"
    with _law(structure, oracle, "the outputs have the scores, then come labels of -1"):
        of = {_key(y): score for y, score in zip(listing.outputs, listing.scores, strict=True)}
        near(structure, np.array([of.get(key, np.nan) for key in keys]), scores[:count])
        assert labels.dtype == np.int64 and len(labels) == k and np.all(labels[count:] == -1)
    with _law(structure, "expected_parts", "they are the weighted sum of the parts"):
        if not count:
            return
        weights = array_namespace(best.scores).exp(best.scores - best.scores[0])  # 0 beside no output
        found, order = _fields(structure.expected_parts(best.labels, weights), structure), list(of)
        places = [order.index(key) for key in keys]
        for name, own in _fields(structure.scores).items():
            total = np.tensordot(host(weights)[:count].astype(np.float64), listing.parts[name][places], 1)
            close(found[name], _shared(total, own), _dtype(structure))


def check_max_marginals(structure: Any, listing: Listing) -> None:
    """The highest score of an output with each part; -inf where there is none."""
    found = _fields(structure.max_marginals(), structure)
    with _law(structure, "max_marginals", "each is the largest score of an output with the part"):
        for name, parts in listing.parts.items():
            if found[name].shape == parts.shape[1:]:  # parts() does not tell apart what shares a score
                scores = listing.scores.reshape(-1, *(1,) * (parts.ndim - 1))
                near(structure, found[name], np.where(parts > 0, scores, -np.inf).max(axis=0, initial=-np.inf))


def check_expectation(structure: Any, listing: Listing, mu: float) -> None:
    """The exp oracle: log-partition and marginals."""
    oracle, (value, marginals) = f"expectation({mu:g})", structure.expectation(mu)
    expected, means = listing.expectation(mu)
    with _law(structure, oracle, "the value is mu log sum_y exp(score(y) / mu)"):
        near(structure, _placed(value, structure), expected, mu)
    with _law(structure, oracle, "the marginals are the means of the parts"):
        found = _fields(marginals, structure)
        for name, own in _fields(structure.scores).items():
            mean = _shared(means[name], own)
            assert found[name].shape == mean.shape
            close(found[name], mean, _dtype(structure), max(1.0, mean.max(initial=0.0), _slack(structure) / mu))


def near(structure: Any, found: Any, expected: Any, mu: float = 0.0) -> None:
    """Scores are equal, up to the rounding of the structure's scores."""
    expected = np.asarray(expected)
    largest = float(np.abs(expected[np.isfinite(expected)]).max(initial=mu))
    close(found, expected, _dtype(structure), max(1.0, largest, _slack(structure)))


@contextmanager
def _law(structure: Any, oracle: str, law: str) -> Iterator[None]:
    """A failed assertion of the block says which law of which oracle failed."""
    try:
        yield
    except AssertionError as problem:
        said = str(problem).strip() or "it is not"
        raise AssertionError(f"{type(structure).__name__}.{oracle}: {law}: {said}") from None


def _dtype(structure: Any) -> str:
    return str(host(score_fields(structure.scores)[0]).dtype.name)


def _slack(structure: Any) -> float:
    """What rounding of all finite scores may add up to, in units of the tolerance."""
    dtype, fields = _dtype(structure), _fields(structure.scores).values()
    size = sum(float(np.abs(x[np.isfinite(x)]).sum()) for x in fields)
    return 64 * float(np.finfo(dtype).eps) * size / RELATIVE[dtype]


def _placed(answer: Any, structure: Any) -> np.ndarray:
    """An answer on the host, after the check that it is where the scores are, of their dtype."""
    field = score_fields(structure.scores)[0]
    if not np.isscalar(answer):
        assert type(answer) is type(field) or isinstance(answer, np.generic), f"{type(answer)}, not {type(field)}"
        assert getattr(answer, "device", None) == getattr(field, "device", None) and answer.dtype == field.dtype
    return host(answer)


def _fields(scores: Any, structure: Any = None) -> dict[str, np.ndarray]:
    """The fields of scores by name, as float64 on the host; those of a structure's answer are where its scores are."""
    names = [name for name in getattr(scores, "_fields", ("",)) if name not in getattr(scores, "layout", ())]
    fields = zip(names, score_fields(scores), strict=True)
    return {name: np.asarray(host(x) if structure is None else _placed(x, structure), np.float64) for name, x in fields}


def _shared(parts: np.ndarray, field: np.ndarray) -> np.ndarray:
    """Parts in the shape of the field: summed over the positions that share its scores."""
    return parts.sum(axis=tuple(range(parts.ndim - field.ndim)))


def _key(y: Any) -> tuple[int, ...]:
    return tuple(np.ravel(y).tolist())


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
