"""Outputs of one example for a multi-sample update: the best output, and others that are sampled or proposed by a
user's sampler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from reference.arrays import Place, host
from reference.arrays import integers as checked_integers
from reference.structures.arborescence import Arborescence
from reference.structures.chain import Chain
from reference.structures.graph import Graph
from reference.structures.scores import score_fields
from reference.structures.table import Table
from reference.structures.tree import Tree

__all__ = ["Sampler", "best_and_drawn", "best_and_proposed"]

# (example, its structure, number of outputs, random generator) -> outputs
Sampler = Callable[[int, Any, int, np.random.Generator], Iterable[Any]]

# Structures whose outputs have one state for each variable, and the field of the parts with these states.
VARIABLES = {Chain: "unary", Tree: "unary", Graph: "unary", Arborescence: "values", Table: "values"}


def best_and_drawn(space: Any, k: int, mu: float, rng: np.random.Generator) -> Iterator[Any]:
    """The best output of a single example, or of a batch of one, then the new outputs among k - 1 samples."""
    value, best = space.best()
    yield best
    if k == 1:
        return
    batch = (slice(None),) * getattr(value, "ndim", 0)
    samples, keys = space.sample(k - 1, mu, rng), {host(best).tobytes()}
    for j in range(k - 1):
        y = samples[(*batch, j, ...)]
        if (key := host(y).tobytes()) not in keys:
            keys.add(key)
            yield y


def best_and_proposed(space: Any, i: int, k: int, sampler: Sampler, rng: np.random.Generator) -> Iterator[Any]:
    """The best output of example i, then the new outputs among at most k - 1 that a sampler proposes.

    Raises
    ------
    TypeError, ValueError
        The sampler does not return a list or returns more than k - 1 outputs; an output is invalid or forbidden or
        leaves a variable without a state.
    """
    value, best = space.best()
    yield best
    if k == 1:
        return
    example, batched = space.first(), getattr(value, "ndim", 0) > 0
    answer, keys = sampler(int(i), example, k - 1, rng), {_key(best)}
    try:
        proposed = list(host(answer) if is_array_api_obj(answer) else answer)
    except TypeError:
        raise TypeError(f"sampler: expected a list of outputs of example {i}, got {type(answer).__name__}") from None
    if len(proposed) > k - 1:
        raise ValueError(f"sampler: expected at most {k - 1} outputs of example {i}, got {len(proposed)}")
    for j, y in enumerate(proposed):
        y = _possible(example, y, f"sampler: output {j} of example {i}")
        if (key := _key(y)) not in keys:
            keys.add(key)
            yield y[None, ...] if batched else y


def _key(y: Any) -> str:
    return str(np.asarray(host(y)).reshape(-1).tolist())


def _possible(space: Any, y: Any, name: str) -> Any:
    """The validated output, with a score above -inf; an integer array for the structures in VARIABLES."""
    field = next((field for kind, field in VARIABLES.items() if isinstance(space, kind)), None)
    try:
        if field is not None:
            y = checked_integers("y", y, Place.of(score_fields(space.scores)[0]))
        parts, score = space.parts(y), float(space.score(y))
    except (TypeError, ValueError) as problem:
        raise type(problem)(f"{name}: {problem}") from None
    if field is not None and not np.all(host(getattr(parts, field)).sum(axis=-1) == 1):
        raise ValueError(f"{name}: expected a state of each variable, got {host(y).tolist()}")
    if score == -np.inf:
        raise ValueError(f"{name}: expected an output that is not forbidden, got {np.asarray(host(y)).tolist()}")
    return y
