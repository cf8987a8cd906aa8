"""A library with the names of ``reference``, held to an instance of a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.export.spaces import SPACES
from reference.structures.scores import inner

__all__ = ["hold"]


def hold(backend: Any, instance: dict[str, Any], exactly: tuple[str, ...] = ()) -> int:
    """How many answers the backend gives as the instance has them; AssertionError at the first that differs.

    Answers are near by the instance's tolerance, and equal for those named in ``exactly``. Methods that a structure
    does not support are skipped.
    """
    asked = 0
    for name, got, expected in _answers(backend, instance):
        asked += 1
        where = f"{instance['id']} ({instance['what']}), {name}"
        if not (isinstance(expected, dict) and "tolerance" in expected):
            assert got == expected, f"{where}: expected {expected}, got {got}"
            continue
        found, numbers = np.asarray(got, dtype=np.float64), array(expected)
        assert found.shape == numbers.shape, f"{where}: expected shape {numbers.shape}, got {found.shape}"
        with np.errstate(invalid="ignore"):  # -inf less -inf
            tolerance = 0.0 if name.split(".")[0] in exactly else expected["tolerance"]
            near = (found == numbers) | (np.abs(found - numbers) <= tolerance)
        assert near.all(), f"{where}: expected {numbers}, got {found}"
    return asked


def array(given: dict[str, Any]) -> np.ndarray:
    """An array of a file, or a number as an array without axes."""
    values = given["int64"] if "int64" in given else given["float64"]
    return np.array(values, dtype=np.int64 if "int64" in given else np.float64).reshape(given.get("shape", []))


def inputs(instance: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name."""
    return {name: array(given) if isinstance(given, dict) else given for name, given in instance["inputs"].items()}


def _answers(backend: Any, instance: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Name, the backend's answer, the file's answer."""
    told, given, kind = instance["answers"], inputs(instance), getattr(backend, instance["kind"])
    if instance["kind"] in SPACES:
        yield from _structure(backend, kind(**given), instance)
    elif isinstance(kind, type):
        x, step_size = given.pop("x"), given.pop("step_size", 1.0)
        yield "prox", kind(**given).prox(x, step_size), told["prox"]
    else:
        yield "prox", kind(**given), told["prox"]


def _structure(backend: Any, structure: Any, instance: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    told = instance["answers"]
    if structure.supports("count"):
        yield "count", structure.count(), told["count"]
    if told["best"] is None:
        try:
            raise AssertionError(f"{instance['id']}: every output is forbidden, got {structure.best()}")
        except backend.InfeasibleError:
            pass
    else:
        value, y = structure.best()
        yield "best", value, told["best"]["value"]
        output = np.asarray(y).tolist()
        if instance["exact_sums"]:
            yield "best output", output in told["best"]["outputs"], True
        yield "score of the best output", structure.score(y), told["best"]["value"]
    found, scores = structure.topk(told["topk"]["k"]), told["topk"]["scores"]
    outputs = np.asarray(found.labels)[: int(found.count)].tolist()
    yield "topk count", int(found.count), scores["shape"][0]
    yield "topk", np.asarray(found.scores)[: int(found.count)], scores
    yield "topk, distinct outputs", len(set(map(str, outputs))), len(outputs)
    if "max_marginals" in told:
        yield from _fields("max_marginals", structure.max_marginals(), told["max_marginals"])
    for at in told.get("sums") or []:
        value, marginals = structure.expectation(at["mu"])
        yield "log_partition", value, at["log_partition"]
        yield "entropy", (value - inner(structure.scores, marginals)) / at["mu"], at["entropy"]
        yield from _fields("marginals", marginals, at["marginals"])
    for at in told.get("squared_l2") or []:
        everything = backend.smoothings.SquaredL2(max_k=told["count"])
        value, gradient = structure.smooth_max(everything, at["mu"])
        yield "squared l2", value, at["value"]
        yield from _fields("squared l2 gradient", gradient, at["gradient"])
        value, _ = structure.smooth_max(backend.smoothings.TopK(at["top_k"]["k"]), at["mu"])
        yield "top-K smoothing", value, at["top_k"]["value"]


def _fields(name: str, got: Any, told: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for field, expected in told.items():
        yield f"{name}.{field}", getattr(got, field), expected
