"""Checks of the arguments that all optimisers share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

from reference.arrays import Array, floats, host
from reference.optimizers.base import Traits
from reference.smoothings import Max
from reference.structures.sampling import generator
from reference.weighted import Weighted

__all__ = ["check_needs", "check_provable", "generator", "numbers_of", "path_of", "start_of"]


def check_needs(solver: Any, objective: Any, properties: Traits) -> None:
    """Raise unless the objective, of these traits, is a finite sum, and meets the requirements of a solver's terms."""
    name, terms = solver.name, solver.terms
    for method in (each for each in terms.needs if "(" in each):
        if not hasattr(objective, method.partition("(")[0]):
            raise TypeError(f"objective: {name} needs {method}, which {type(objective).__name__} lacks")
    for attribute in ("n", "value_and_gradient", *(each for each in terms.needs if "(" not in each)):
        if not hasattr(objective, attribute):
            raise TypeError(
                "objective: expected an object with n and value_and_gradient(w, batch, mu), such as LogLoss(model, "
                f"data); {type(objective).__name__} has no {attribute}"
            )
    if terms.convex and not properties.linear:
        raise ValueError(
            f"objective: its scores are not linear in the weights, and {name} needs a convex objective: prox_linear "
            f"and sgd do not"
        )
    constrained = properties.nonnegative
    if constrained is not None and not terms.constrained:
        raise ValueError(
            f"objective: its weights {constrained.start}..{constrained.stop - 1} must be >= 0, which {name} does not "
            f"support; use bcfw or sgd"
        )
    if terms.unsmoothed and properties.hinge and not isinstance(properties.smoothing, Max | None):
        raise ValueError(
            f"objective: {name} solves the unsmoothed hinge, expected StructuralHinge(model, data), got "
            f"smoothing={properties.smoothing}"
        )


def check_provable(lam: float, tol: float | None) -> None:
    """Raise ValueError unless there is lam > 0 to prove a gap of ``tol`` by."""
    if tol is not None and not lam > 0:
        raise ValueError(f"tol: expected a number >= 0, and lam > 0 to prove it by, got {tol} with lam = {lam}")


def start_of(objective: Any, properties: Traits, w0: Any, rng: Any = None, *, initial: bool = False) -> Array:
    """A copy of w0 (d,) as floats; if it is None, the objective's zeros, or with ``initial`` the initial weights of its
    model, drawn by ``rng``, if it has some. ValueError if a weight is negative and must be >= 0.
    """
    unweighted = objective.objective if isinstance(objective, Weighted) else objective
    if initial and w0 is None and hasattr(getattr(unweighted, "model", None), "initial"):
        w0 = unweighted.model.initial(unweighted.data, rng)
    zeros = objective.zeros() if hasattr(objective, "zeros") else None
    if w0 is None and zeros is None:
        raise ValueError("w0: give one, the objective has no zeros()")
    (start,) = floats(w0=zeros if w0 is None else w0)
    if zeros is not None and start.shape != zeros.shape:
        raise ValueError(f"w0: expected shape {tuple(zeros.shape)}, as objective.zeros() has, got {tuple(start.shape)}")
    if (constrained := properties.nonnegative) is not None:
        negative = np.flatnonzero(host(start[constrained]) < 0)
        if len(negative) > 0:
            first, last, k = constrained.start, constrained.stop - 1, constrained.start + int(negative[0])
            raise ValueError(f"w0: weights {first}..{last} must be >= 0, got {float(start[k])} for weight {k}")
    return start if start is not w0 else array_namespace(start).asarray(start, copy=True)


def numbers_of(weights: Any) -> Array:
    """The array that has the namespace, dtype and shape of weights: the first array if they are a NamedTuple."""
    return weights if is_array_api_obj(weights) else next(field for field in weights if is_array_api_obj(field))


def path_of(name: str, path: Any) -> Path | None:
    """A path, or None; TypeError names the argument."""
    if path is None or isinstance(path, (str, os.PathLike)):
        return None if path is None else Path(path)
    raise TypeError(f"{name}: expected the path of a file, got {type(path).__name__}")
