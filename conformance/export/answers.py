"""Exact answers by enumeration: every output listed, scores as rationals, sums of exponentials at 90 digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from conformance.export.numbers import (
    RELATIVE,
    WORKING,
    Array,
    array,
    indices,
    log1p,
    negative_exp,
    number,
    quotient,
)
from conformance.export.proxes import simplex
from conformance.export.spaces import Inputs, Space
from conformance.specimens.outputs import Exact, exact

__all__ = ["answers"]

NOTHING = -math.inf


def answers(space: Space, inputs: Inputs, mus: Sequence[float], k: int) -> dict[str, Any]:
    """All answers of a file for an instance; null for those that do not exist because every output is forbidden."""
    outputs = list(exact(space.outputs, inputs))
    size = _size(inputs)
    told: dict[str, Any] = {"count": len(outputs), "best": None}
    if outputs:
        highest = max(each.score for each in outputs)
        best = [_written(each.output) for each in outputs if each.score == highest]
        told["best"] = {"value": number(highest, RELATIVE * size), "outputs": best}
    scores = sorted((each.score for each in outputs), reverse=True)[:k]
    told["topk"] = {"k": k, "scores": array((len(scores),), scores, RELATIVE * size)}
    if "max_marginals" in space.answers:
        told["max_marginals"] = _max_marginals(space, inputs, outputs, RELATIVE * size)
    for name, at in (("sums", _sums), ("squared_l2", _squared_l2)):
        if name in space.answers:
            told[name] = [at(space, inputs, outputs, mu, size, k) for mu in mus] if outputs else None
    return told


def _max_marginals(space: Space, inputs: Inputs, outputs: list[Exact], tolerance: float) -> dict[str, Any]:
    """The highest score of an output that has each part; one entry for each position, shared scores or not."""
    best: dict[Any, Fraction] = {}
    for _, score, _, parts in outputs:
        for field, index, _ in parts:
            best[field, index] = max(score, best.get((field, index), score))
    return {
        field: array(shape, [best.get((field, index), NOTHING) for index in indices(shape)], tolerance)
        for field, shape in space.outputs.shapes(inputs).items()
    }


def _sums(space: Space, inputs: Inputs, outputs: list[Exact], mu: float, size: float, k: int) -> dict[str, Any]:
    """mu log sum_y exp(score(y) / mu), the probabilities of parts and the entropy, at 90 digits."""
    top = max(each.score for each in outputs)
    gaps = [(top - each.score) / Fraction(mu) for each in outputs]
    weights = [negative_exp(gap) for gap in gaps]
    first = gaps.index(0)
    rest = _total(weights[:first] + weights[first + 1 :])
    total, log_total = WORKING.add(1, rest), log1p(rest)
    p = [WORKING.divide(weight, total) for weight in weights]
    loss = _total([WORKING.multiply(prob, quotient(gap)) if prob else prob for prob, gap in zip(p, gaps, strict=True)])
    near, spread = RELATIVE * max(1.0, size / mu), len(outputs).bit_length()  # at least the log of the count
    value = WORKING.add(quotient(top), WORKING.multiply(quotient(Fraction(mu)), log_total))
    return {
        "mu": mu,
        "log_partition": number(value, RELATIVE * (size + mu * spread)),
        "entropy": number(WORKING.add(log_total, loss), near),
        "marginals": _expected(space, inputs, outputs, p, Decimal(0), near),
    }


def _squared_l2(space: Space, inputs: Inputs, outputs: list[Exact], mu: float, size: float, k: int) -> dict[str, Any]:
    """The max of <scores, u> + (mu/2)(1 - ||u||^2) over the simplex, of all outputs and of the k best."""
    scores = [each.score for each in outputs]
    u, value = _smoothed(scores, Fraction(mu))
    near, tolerance = RELATIVE * max(1.0, size / mu), RELATIVE * (size + mu)
    return {
        "mu": mu,
        "value": number(value, tolerance),
        "gradient": _expected(space, inputs, outputs, u, Fraction(0), near),
        "top_k": {"k": k, "value": number(_smoothed(sorted(scores, reverse=True)[:k], Fraction(mu))[1], tolerance)},
    }


def _smoothed(scores: list[Fraction], mu: Fraction) -> tuple[list[Fraction], Fraction]:
    """The weights, which are the projection of scores / mu onto the simplex, and the value."""
    u = simplex([s / mu for s in scores], Fraction(1))
    half = (1 - sum(v * v for v in u)) / 2
    return u, sum((v * s for v, s in zip(u, scores, strict=True)), Fraction(0)) + mu * half


def _expected(
    space: Space, inputs: Inputs, outputs: list[Exact], p: Sequence[Any], zero: Any, tolerance: float
) -> dict[str, Any]:
    """The expected parts in the shapes of the scores, summed over positions that share scores."""
    shapes = {field: inputs[field].shape for field in space.outputs.shapes(inputs)}
    add: Callable[[Any, Any], Any] = WORKING.add if isinstance(zero, Decimal) else lambda a, b: a + b
    sums = {(field, index): zero for field, shape in shapes.items() for index in indices(shape)}
    for weight, each in zip(p, outputs, strict=True):
        for field, index, _ in each.parts:
            place = field, index[len(index) - len(shapes[field]) :]
            sums[place] = add(sums[place], weight)
    kind = "digits" if isinstance(zero, Decimal) else "rational"
    return {
        field: array(shape, [sums[field, index] for index in indices(shape)], tolerance, kind)
        for field, shape in shapes.items()
    }


def _total(values: Sequence[Decimal]) -> Decimal:
    total = Decimal(0)
    for value in values:
        total = WORKING.add(total, value)
    return total


def _size(inputs: Inputs) -> float:
    """The sum of the magnitudes of all finite scores, to which rounding is relative."""
    floats = [v for given in inputs.values() for v in (given.values if isinstance(given, Array) else [given])]
    return math.fsum(abs(v) for v in floats if type(v) is float and v > NOTHING)


def _written(output: Any) -> Any:
    return list(output) if isinstance(output, tuple) else output
