"""What a law asserts: a library's result equals that of enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.adapters import NotOffered
from conformance.adapters.instances import MORE, NOTHING, numbers
from conformance.specimens.outputs import Listing
from conformance.tolerances import RELATIVE

__all__ = ["Wrong", "check"]

TOLERANCE = RELATIVE["float64"]  # relative to the sum of an instance's magnitudes
ROUNDED = 1e-15  # of a sum whose terms may be of size 1 where the scores are tiny: logarithms of probabilities


class Wrong(Exception):
    """An answer that is not the enumeration's: theirs, and the truth."""


class Asked:
    """A structure and its true answers, one for each member of a batch; without a batch, one."""

    def __init__(self, structure: Any, instance: dict[str, Any], listings: list[Listing]) -> None:
        self.structure, self.instance, self.listings = structure, instance, listings
        self.batched = "lengths" in instance
        self.size = sum(float(np.abs(x[np.isfinite(x)]).sum()) for x in instance.values() if _is_score(x))

    def each(self, answer: Any) -> list[Any]:
        return list(answer) if self.batched else [answer]

    def near(self, found: Any, truth: Any, least: float = 0.0) -> bool:
        """Equality up to rounding of the scores. ``least``: the size of the terms that do not scale with them."""
        with np.errstate(invalid="ignore"):
            off = np.abs(np.asarray(found, np.float64) - truth)
        return bool(np.all((off <= TOLERANCE * max(least, self.size) + ROUNDED) | (np.asarray(found) == truth)))


def _is_score(field: Any) -> bool:
    return isinstance(field, np.ndarray) and field.dtype == np.float64


def check(method: str, kind: str, structure: Any, instance: dict[str, Any], listings: list[Listing], k: int) -> None:
    """Check one method of a structure. Raises Wrong, or the library's own error."""
    asked = Asked(structure, instance, listings)
    if kind == NOTHING:
        nothing(structure, method)
    elif method == "topk":
        counts = [int(np.sum(each.scores > -np.inf)) for each in listings]
        topk(asked, max(counts) + k if kind == MORE else min(k, *counts))
    else:
        CHECKS[method](asked)


def nothing(structure: Any, method: str) -> None:
    """If every output is forbidden, the result is an exception, or -inf, or no output."""
    try:
        answer = structure.topk(1) if method == "topk" else getattr(structure, method)()
    except NotOffered:
        raise
    except Exception:
        return
    value = answer if method == "log_partition" else answer[0]
    if value is None:
        raise Wrong(f"output {plain(answer[1])}, which is forbidden")
    if not np.all(np.asarray(value) == -np.inf):
        raise Wrong(f"{numbers(value)}; every output is forbidden")


def best(asked: Asked) -> None:
    value, outputs = asked.structure.best()
    values = [None] * len(asked.listings) if value is None else asked.each(value)
    for listing, y, v in zip(asked.listings, asked.each(outputs), values, strict=True):
        scored(asked, y, v, listing, listing.scores.max())


def topk(asked: Asked, k: int) -> None:
    """The k largest scores, from high to low, of distinct outputs; fewer where there are fewer."""
    found = asked.structure.topk(k)
    each = (asked.each(field) for field in (found.scores, found.labels, found.count))
    for listing, values, ys, count in zip(asked.listings, *each, strict=True):
        truth = np.sort(listing.scores[listing.scores > -np.inf])[::-1][:k]
        if count != len(truth):
            extra = f", then one of {numbers(values[len(truth)])}" if count > len(truth) else ""
            raise Wrong(f"k = {k}: {count} outputs; there are {len(truth)}{extra}")
        of = [scored(asked, y, v, listing, t) for y, v, t in zip(ys, values, truth, strict=False)]
        if len(set(of)) < len(of):
            raise Wrong(f"k = {k}: {', '.join(map(str, of))} are not distinct")


def scored(asked: Asked, y: Any, value: float | None, listing: Listing, truth: float) -> Any:
    """The output, after the checks that it is one, has the score ``truth``, and that its value says so."""
    y = plain(y)[: len(listing.outputs[0])]
    if y not in listing.outputs:
        raise Wrong(f"{y} is not an output")
    score = listing.scores[listing.outputs.index(y)]
    if not asked.near(score, truth):
        other = listing.outputs[int(np.argmin(np.abs(listing.scores - truth)))]
        raise Wrong(f"{y} of score {numbers(score)}; {other} has {numbers(truth)}")
    if value is not None and not asked.near(value, truth):
        raise Wrong(f"value {numbers(value)}; {y} has {numbers(truth)}")
    return y


def plain(y: Any) -> Any:
    """An output as tuples of Python's numbers."""
    return tuple(map(plain, y)) if np.ndim(y) else int(y)


def log_partition(asked: Asked) -> None:
    for value, listing in zip(asked.each(asked.structure.log_partition()), asked.listings, strict=True):
        truth, _ = listing.expectation(1.0)
        if not asked.near(value, truth, 1.0):
            raise Wrong(f"{numbers(value)}; by enumeration {numbers(truth)}")


def marginals(asked: Asked) -> None:
    """Those of the first field of each member; those of the others, which a batch shares, summed over it."""
    first, *shared = asked.structure.marginals()
    truth = [list(each.expectation(1.0)[1].values()) for each in asked.listings]
    for found, (expected, *_) in zip(asked.each(first), truth, strict=True):
        equal(asked, np.asarray(found)[: len(expected)], expected)
    for found, *expected in zip(shared, *(others for _, *others in truth), strict=False):
        if found is not None:
            equal(asked, found, sum(x.sum(axis=tuple(range(x.ndim - np.ndim(found)))) for x in expected))


def equal(asked: Asked, found: Any, truth: Any) -> None:
    """Probabilities: equal up to the rounding of sums of scores."""
    with np.errstate(invalid="ignore"):
        off = np.abs(np.asarray(found, np.float64) - truth)
    if not np.all(off <= TOLERANCE + 1e-14 * asked.size):
        raise Wrong(f"{numbers(found)}; by enumeration {numbers(truth)}")


def log_probability(asked: Asked) -> None:
    """Of a best output of each member, and of a worst one that is possible."""
    for sign in (1, -1):
        chosen = [int(np.argmax(np.where(x.scores > -np.inf, sign * x.scores, -np.inf))) for x in asked.listings]
        ys = [x.outputs[i] for x, i in zip(asked.listings, chosen, strict=True)]
        values = asked.each(_log_probability(asked, ys))
        for listing, i, y, value in zip(asked.listings, chosen, ys, values, strict=True):
            truth = listing.scores[i] - listing.expectation(1.0)[0]
            if not asked.near(value, truth, 1.0):
                raise Wrong(f"{numbers(value)} of {y}; by enumeration {numbers(truth)}")


def _log_probability(asked: Asked, ys: list[Any]) -> Any:
    structure, y = asked.structure, np.array(ys[0])
    if asked.batched:
        y = np.full(asked.instance["unary"].shape[:2], -1)
        for row, each in zip(y, ys, strict=True):
            row[: len(each)] = each
    if hasattr(structure, "score"):  # a panel
        return structure.score(y) - structure.log_partition()
    return structure.log_probability(y)


CHECKS = {"best": best, "log_partition": log_partition, "marginals": marginals, "log_probability": log_probability}
