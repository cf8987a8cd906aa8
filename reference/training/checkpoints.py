"""Checkpoints: the states of older files, and the identity of a run.

A checkpoint resumes only a run of equal identity: optimiser, options, objective and panel.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from reference.arrays import Array, Place, epsilon
from reference.optimizers.base import Evaluation
from reference.optimizers.prox_linear import ProxLinearState
from reference.prox.groups import Groups
from reference.records import of_another_panel, read_records
from reference.training.casimir_schedules import Plan
from reference.training.result import Counts, RunState, StepLength
from reference.training.smoothness import Spent

__all__ = ["check_identity", "identity", "read_checkpoint", "same_value"]

NEW_OPTIONS = (("l1", 0.0), ("kappa", None), ("cost", None))  # with the values that older files stand for

# states of older files, by their names there: from the fields that they had to what they are
FORMER: dict[str, Callable[..., Any]] = {
    "reference.training.sgd.Descending": lambda state, offset, calls: RunState(state, offset, Counts(calls=calls)),
    "reference.training.svrg.Tried": lambda at, guess, taken_back, done, later: RunState(
        at, guess, Counts(epochs=done, rejected=taken_back), later=later
    ),
    "reference.training.casimir.Standing": lambda plan, at, mu, best, kept, taken_back, calls: RunState(
        at, plan, Counts(kept=kept, rejected=taken_back, calls=calls), best and best._replace(mu=mu)
    ),
    "reference.training.prox_linear.Standing": lambda w, fun, eta, k, bound, refused, first, step, **counts: RunState(
        ProxLinearState(w, fun, k), StepLength(eta, bound), Counts(rejected=refused, **counts)
    ),
    "reference.training.casimir_schedules.Plan": lambda schedule, smoothed, **_: Plan(schedule, smoothed),
    **{f"reference.training.state.{kind.__name__}": kind for kind in (Counts, RunState, StepLength)},
    **{f"reference.training.{module}.Evaluation": Evaluation for module in ("evaluation", "result")},
    "reference.training.inner.Spent": Spent,
}


def read_checkpoint(path: str | Path, place: Place) -> dict[str, Any]:
    """See :func:`reference.records.read_records`; states of older files become what they are now."""
    return read_records(path, place, FORMER)


def identity(solver: Any, objective: Any, start: Array, options: Mapping[str, Any], rng: Any) -> dict[str, Any]:
    """What a resumed run must have in common with the run of its checkpoint, by name."""
    start = numbers_of(start)
    place = Place.of(start)
    return {
        "objective": type(objective).__name__,
        "examples": int(objective.n),
        "partitions": getattr(objective, "partitions", None),
        "weights": [int(size) for size in start.shape],
        "smoothing": _described(getattr(objective, "smoothing", None)),
        "cost": True if getattr(objective, "loss_augmented", False) and getattr(objective, "mu", 0.0) else None,
        "optimizer": solver.name,
        **{name: _described(value) for name, value in options.items()},
        "rng": int(rng) if isinstance(rng, (int, np.integer)) else None,
        "arrays": " ".join(str(name).split(".")[-1] for name in (place.xp.__name__, place.dtype)),
        "form": solver.form,
    }


def numbers_of(weights: Any) -> Array:
    """The array that has the namespace, dtype and shape of weights: the first array if they are a NamedTuple."""
    return weights if is_array_api_obj(weights) else next(field for field in weights if is_array_api_obj(field))


def check_identity(theirs: Mapping[str, Any], ours: Mapping[str, Any], path: Any) -> None:
    """Raise ValueError that names the first difference; a random number generator object matches any."""
    for name, mine in ours.items():
        other = theirs.get(name)
        if mine == other or (name == "rng" and (mine is None or other is None)):
            continue
        if name not in theirs and (name == "partitions" or _is_new(name, mine)):  # of an older file
            continue
        if name == "form":
            if other is None:  # a state that every panel reads
                continue
            raise ValueError(of_another_panel(path, other))
        raise ValueError(f"resume: {path} is of a run with {name} = {other}, this one has {mine}")


def _is_new(name: str, value: Any) -> bool:
    """Whether an option has the value that older files, without that option, stand for."""
    return isinstance(value, float | None) and (name, value) in NEW_OPTIONS


def _described(option: Any) -> Any:
    """The JSON form of an option: numbers, strings and None unchanged; the fields of a dataclass; the checksum of an
    array; the name of any other object or function.
    """
    if isinstance(option, (np.generic, np.ndarray)) and option.ndim == 0:
        option = option.item()
    if option is None or isinstance(option, (bool, int, float, str)):
        return option
    if isinstance(option, (tuple, list)):
        return f"({', '.join(str(_described(each)) for each in option)})"
    if isinstance(option, Groups):
        return f"{option!r}, {_described(option.label(option.width))}"
    if isinstance(option, np.ndarray):
        return f"array {zlib.crc32(np.ascontiguousarray(option).tobytes()):08x} of {option.dtype} {option.shape}"
    if is_dataclass(option):
        values = [(field.name, getattr(option, field.name)) for field in fields(option)]
        described = [f"{name}={_described(value)}" for name, value in values if not _is_new(name, value)]
        return f"{type(option).__name__}({', '.join(described)})"
    return f"{type(option).__module__}.{getattr(option, '__qualname__', type(option).__qualname__)}"


def same_value(fun: float, recorded: float, x: Any) -> bool:
    """Whether two evaluations at x are of the same objective, up to the rounding of other panels and machines."""
    if not np.isfinite(fun) or not np.isfinite(recorded):
        return bool(np.isfinite(fun) == np.isfinite(recorded))
    eps = epsilon(numbers_of(x))
    close: bool = abs(fun - recorded) <= eps**0.5 * abs(recorded) + eps
    return close
