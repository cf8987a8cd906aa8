"""Outputs of one example for an update over several: the best, and others that are drawn, or proposed by a sampler of
the user's own."""

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

Sampler = Callable[[int, Any, int, np.random.Generator], Iterable[Any]]  # example, its space, how many, random numbers

# In these an output has one state of each variable; the field of the parts that shows it.
VARIABLES = {Chain: "unary", Tree: "unary", Graph: "unary", Arborescence: "values", Table: "values"}


def best_and_drawn(space: Any, k: int, mu: float, rng: np.random.Generator) -> Iterator[Any]:
    """The best output of the one example of a batch (or of no batch), then those of k - 1 draws that are new."""
    value, best = space.best()
    yield best
    if k == 1:
        return
    batch = (slice(None),) * getattr(value, "ndim", 0)
    drawn, known = space.sample(k - 1, mu, rng), {host(best).tobytes()}
    for j in range(k - 1):
        y = drawn[(*batch, j, ...)]
        if (key := host(y).tobytes()) not in known:
            known.add(key)
            yield y


def best_and_proposed(space: Any, i: int, k: int, sampler: Sampler, rng: np.random.Generator) -> Iterator[Any]:
    """The best output of example i, then those of at most k - 1 that a sampler proposes that are new and possible.

    Raises
    ------
    TypeError, ValueError
        No list of outputs; more than k - 1; an output that the structure refuses, that is forbidden, or that leaves
        variables without a state.
    """
    value, best = space.best()
    yield best
    if k == 1:
        return
    one, batched = space.first(), getattr(value, "ndim", 0) > 0
    answer, known = sampler(int(i), one, k - 1, rng), {_key(best)}
    try:
        proposed = list(host(answer) if is_array_api_obj(answer) else answer)
    except TypeError:
        raise TypeError(f"sampler: expected a list of outputs of example {i}, got {type(answer).__name__}") from None
    if len(proposed) > k - 1:
        raise ValueError(f"sampler: expected at most {k - 1} outputs of example {i}, got {len(proposed)}")
    for j, y in enumerate(proposed):
        y = _possible(one, y, f"sampler: output {j} of example {i}")
        if (key := _key(y)) not in known:
            known.add(key)
            yield y[None, ...] if batched else y


def _key(y: Any) -> str:
    return str(np.asarray(host(y)).reshape(-1).tolist())


def _possible(space: Any, y: Any, name: str) -> Any:
    """An output that is one, with a score above -inf; of the package's labelled structures as an integer array."""
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
