"""The identity of a run: optimiser, options, objective and panel. A checkpoint resumes only a run of equal identity."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

from reference.arrays import Array, Place
from reference.optimizers.base import Examples, traits
from reference.prox.groups import Groups

__all__ = ["check_identity", "identity", "numbers_of", "of_another_panel", "path_of", "same_value"]


def identity(
    optimizer: str, objective: Examples, start: Array, options: Mapping[str, Any], rng: Any, form: str | None
) -> dict[str, Any]:
    """What a resumed run must have in common with the run of its checkpoint, by name."""
    start = numbers_of(start)
    place = Place.of(start)
    return {
        "objective": type(objective).__name__,
        "examples": int(objective.n),
        "partitions": getattr(objective, "partitions", None),
        "weights": [int(size) for size in start.shape],
        "smoothing": _described(traits(objective).smoothing),
        "optimizer": optimizer,
        **{name: _described(value) for name, value in options.items()},
        "rng": int(rng) if isinstance(rng, (int, np.integer)) else None,
        "arrays": " ".join(str(name).split(".")[-1] for name in (place.xp.__name__, place.dtype)),
        "form": form,
    }


def check_identity(theirs: Mapping[str, Any], ours: Mapping[str, Any], path: Any) -> None:
    """Raise ValueError that names the first difference; a random number generator object matches any."""
    for name, mine in ours.items():
        other = theirs.get(name)
        if mine == other or (name == "rng" and (mine is None or other is None)):
            continue
        if name == "partitions" and name not in theirs:  # older files have none
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


def numbers_of(weights: Any) -> Array:
    """The array that has the namespace, dtype and shape of weights: the first array if they are a NamedTuple."""
    return weights if is_array_api_obj(weights) else next(field for field in weights if is_array_api_obj(field))


def path_of(name: str, path: Any) -> Path | None:
    if path is None or isinstance(path, (str, os.PathLike)):
        return None if path is None else Path(path)
    raise TypeError(f"{name}: expected the path of a file, got {type(path).__name__}")


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
        return f"array {crc32(np.ascontiguousarray(option).tobytes()):08x} of {option.dtype} {option.shape}"
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
