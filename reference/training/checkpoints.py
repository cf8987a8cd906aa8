"""Checkpoint files: the state of a run, as an ``.npz`` of arrays and one JSON header; and the identity of a run.

No pickle, and reading imports no module. Each optimiser has its own form of state, so the content cannot be validated;
a checksum over the header and all arrays detects damage. A checkpoint resumes only a run of equal identity: optimiser,
options, objective and panel.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

from reference.archives import parse_json, read_npz
from reference.arrays import Array, Place, host
from reference.files import replacing
from reference.optimizers.prox_linear import ProxLinearState
from reference.prox.groups import Groups
from reference.training.casimir_schedules import Plan
from reference.training.result import Counts, Evaluation, RunState, StepLength
from reference.training.smoothness import Spent

__all__ = ["check_identity", "identity", "read_checkpoint", "same_value", "write_checkpoint"]

FORMAT = 3
WHAT = "checkpoint of diptych"
NEW_OPTIONS = (("l1", 0.0), ("kappa", None))  # with the values that older files stand for


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
    "reference.training.evaluation.Evaluation": Evaluation,
    "reference.training.inner.Spent": Spent,
}


def write_checkpoint(path: str | Path, content: dict[str, Any]) -> None:
    """Write a dictionary of values that :func:`encode` accepts; an older file at ``path`` is replaced atomically."""
    arrays: list[np.ndarray] = []
    numbers: dict[int, tuple[int, Any]] = {}
    header = json.dumps(
        {"checkpoint": FORMAT, **{name: encode(value, arrays, numbers) for name, value in content.items()}}
    )
    members: dict[str, Any] = {str(number): array for number, array in enumerate(arrays)}
    with replacing(path) as file:
        np.savez(file, header=np.array(header), check=np.array(_checksum(header, members)), **members)


def read_checkpoint(path: str | Path, place: Place) -> dict[str, Any]:
    """The dictionary that was written; arrays that were not on the host are put in ``place``.

    Raises
    ------
    ValueError
        Naming the file: not a checkpoint, of another format, damaged, or with a state of an unknown type.
    """
    members = read_npz(path, WHAT)
    try:
        text = str(members["header"])
        header = parse_json("header", text)
        version = header.pop("checkpoint")
    except (KeyError, ValueError, AttributeError, TypeError):
        raise ValueError(f"{path}: not a {WHAT}; found {', '.join(sorted(members)) or 'nothing'}") from None
    if version != FORMAT:
        raise ValueError(f"{path}: checkpoint of format {version!r}, this version of diptych reads format {FORMAT}")
    try:
        content = {name: decode(value, members, place) for name, value in header.items()}
    except _OtherPanel as problem:
        raise ValueError(of_another_panel(path, str(problem))) from None
    except Exception as problem:  # a record of any type is built from the file's content
        raise ValueError(f"{path}: damaged checkpoint: {type(problem).__name__}: {problem}") from None
    check = members.get("check")
    if check is None or check.shape or check != _checksum(text, members):
        raise ValueError(f"{path}: damaged checkpoint: wrong checksum")
    return content


def _checksum(header: str, members: dict[str, np.ndarray]) -> int:
    """The CRC-32 of the header and of every array with its dtype and shape, in the order of their names."""
    check = zlib.crc32(header.encode())
    for name in sorted(set(members) - {"header", "check"}):
        check = zlib.crc32(f"{name} {members[name].dtype} {members[name].shape}".encode(), check)
        check = zlib.crc32(np.ascontiguousarray(members[name]).tobytes(), check)
    return check


def encode(x: Any, arrays: list[np.ndarray], numbers: dict[int, tuple[int, Any]]) -> Any:
    """The JSON form of numbers, strings, None, arrays, and lists, mappings, NamedTuples and dataclasses of these.

    Each array is appended to ``arrays`` once. numbers: maps the id of an array to its number and to the array itself,
    which keeps the id from being reused.
    """
    if isinstance(x, np.generic):
        x = x.item()
    if x is None or isinstance(x, (bool, int, float, str)):
        return x
    if is_array_api_obj(x):
        if id(x) not in numbers:
            numbers[id(x)] = len(arrays), x
            arrays.append(host(x))
        return {"array": numbers[id(x)][0], "host": isinstance(x, np.ndarray)}
    if isinstance(x, Mapping):
        return {"dict": [[encode(key, arrays, numbers), encode(value, arrays, numbers)] for key, value in x.items()]}
    if _is_record(type(x)):
        names = getattr(x, "_fields", None) or [field.name for field in fields(x)]
        record = {name: encode(getattr(x, name), arrays, numbers) for name in names}
        return {"type": f"{type(x).__module__}.{type(x).__qualname__}", "fields": record}
    if isinstance(x, (tuple, list)):
        return {"tuple" if isinstance(x, tuple) else "list": [encode(value, arrays, numbers) for value in x]}
    raise TypeError(f"checkpoint: no file form for {type(x).__name__}, part of the state")


def decode(x: Any, arrays: dict[str, np.ndarray], place: Place) -> Any:
    """The value that was encoded, bit for bit; arrays that were not on the host are copied to ``place``."""
    if not isinstance(x, dict):
        return x
    if "array" in x:
        array, xp = arrays[str(x["array"])], place.xp
        if x["host"]:
            return array
        return xp.asarray(array.copy(), dtype=getattr(xp, array.dtype.name), device=place.device)
    if "dict" in x:
        return {decode(key, arrays, place): decode(value, arrays, place) for key, value in x["dict"]}
    if "type" in x:
        kind = FORMER.get(x["type"]) or _record(x["type"])
        return kind(**{name: decode(value, arrays, place) for name, value in x["fields"].items()})
    (name,) = x
    return {"tuple": tuple, "list": list}[name](decode(value, arrays, place) for value in x[name])


class _OtherPanel(Exception):
    """A state of a panel that has not been imported."""


def _record(name: str) -> Any:
    """The NamedTuple or dataclass of this dotted name, if its module has been imported."""
    module, _, kind = name.rpartition(".")
    if module.startswith("accelerated.") and "accelerated" not in sys.modules:
        raise _OtherPanel(name)
    record = getattr(sys.modules.get(module), kind, None)
    if not isinstance(record, type) or not _is_record(record):
        raise ValueError(f"no such kind of state here: {name}")
    return record


def _is_record(kind: type) -> bool:
    return is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


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
        if name not in theirs and (name == "partitions" or (name, mine) in NEW_OPTIONS):  # of an older file
            continue
        if name == "form":
            if other is None:  # a state that every panel reads
                continue
            raise ValueError(of_another_panel(path, other))
        raise ValueError(f"resume: {path} is of a run with {name} = {other}, this one has {mine}")


def of_another_panel(path: Any, kind: str) -> str:
    """The message for a checkpoint whose state, of this type, only its panel can read."""
    panel = kind.partition(".")[0]
    return f"resume: {path} is of the panel {panel} in its own form: resume it there, or start a run from its weights"


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
        described = (f"{field.name}={_described(getattr(option, field.name))}" for field in fields(option))
        return f"{type(option).__name__}({', '.join(described)})"
    return f"{type(option).__module__}.{getattr(option, '__qualname__', type(option).__qualname__)}"


def same_value(fun: float, recorded: float, x: Any) -> bool:
    """Whether two evaluations at x are of the same objective, up to the rounding of other panels and machines."""
    if not np.isfinite(fun) or not np.isfinite(recorded):
        return bool(np.isfinite(fun) == np.isfinite(recorded))
    x = numbers_of(x)
    eps = float(array_namespace(x).finfo(x.dtype).eps)
    close: bool = abs(fun - recorded) <= eps**0.5 * abs(recorded) + eps
    return close
