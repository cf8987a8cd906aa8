"""Feature bounds and restrictions of models, registered by exact type; the models do not depend on screening.

A bound is valid only for the scores that it was derived from. A subclass may read the features in another way, so it
inherits no bounds: register them for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "FeatureTotals",
    "Known",
    "ListedSpread",
    "bound_of",
    "feature_range",
    "feature_totals",
    "known_of",
    "listed_spread",
    "register",
]


class ListedSpread(NamedTuple):
    """The spread of each feature's values phi_ij(y) over listed outputs, over all examples: two norms (d,).

    centred: sqrt(sum_i sum_y (phi_ij(y) - mean_y phi_ij)^2)
    from_last: sqrt(sum_i sum_y (phi_ij(y) - phi_ij(last y))^2)
    """

    centred: np.ndarray
    from_last: np.ndarray


class FeatureTotals(NamedTuple):
    """Bounds on each feature's sum over the examples, for any outputs.

    least: at most sum_i min_y phi_ij(y) (d,); most: at least sum_i max_y phi_ij(y) (d,).
    """

    least: np.ndarray
    most: np.ndarray


class Known(NamedTuple):
    """The bounds and the restriction of the models of one type; a field is None if there is no such function.

    feature_range(model, data): bounds (d,) on sqrt(sum_i R_ij^2), R_ij half the range of feature j over the outputs of
    example i, for L1GapRule
    feature_totals(model, data): a :class:`FeatureTotals`, for CountRule
    listed_spread(model, data): a :class:`ListedSpread`, for L2GapRule and HalfSpaceRule
    restrict(model, columns): the model with only the weights ``columns`` (k,), more efficient than zeros for the others

    The first three may return None for a model without such bounds.
    """

    feature_range: Callable[[Any, Any], np.ndarray | None] | None = None
    feature_totals: Callable[[Any, Any], FeatureTotals | None] | None = None
    listed_spread: Callable[[Any, Any], ListedSpread | None] | None = None
    restrict: Callable[[Any, np.ndarray], Any] | None = None


_KNOWN: dict[type, Known] = {}


def register(model: type, bounds: Known) -> None:
    """Register the bounds and the restriction of the models of exactly this type, in place of earlier ones.

    Parameters
    ----------
    model : type
        A type of models whose scores are linear in the weights.
    bounds : Known

    Examples
    --------
    >>> from reference import SequenceModel
    >>> from reference.screening.registry import known_of, register
    >>> class Mine(SequenceModel):
    ...     "A subclass that reads the features as SequenceModel does."
    >>> register(Mine, known_of(SequenceModel))
    """
    _KNOWN[model] = bounds


def known_of(model: type) -> Known:
    """The :class:`Known` registered for exactly this type of models; an empty one if there is none."""
    return _KNOWN.get(model, Known())


@singledispatch
def bound_of(objective: Any, name: str) -> Any:
    """The bound ``name``, a field of :class:`Known`, on the features of an objective's examples; None if there is none.

    Register another function for objectives without ``data``.
    """
    function = getattr(known_of(type(objective.model)), name)
    return None if function is None else function(objective.model, objective.data)


def feature_range(model: Any, data: Any) -> np.ndarray | None:
    """Bounds (d,) on sqrt(sum_i R_ij^2), R_ij half the range of feature j over the outputs of example i; or None."""
    function = known_of(type(model)).feature_range
    return None if function is None else function(model, data)


def feature_totals(model: Any, data: Any) -> FeatureTotals | None:
    """Bounds (d,) on each feature's sum over the examples, for any outputs; None if there are no bounds."""
    function = known_of(type(model)).feature_totals
    return None if function is None else function(model, data)


def listed_spread(model: Any, data: Any) -> ListedSpread | None:
    """The spread of the features over the outputs; None if outputs are not listed."""
    function = known_of(type(model)).listed_spread
    return None if function is None else function(model, data)
