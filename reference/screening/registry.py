"""What screening knows of models, registered by their exact type: models themselves know nothing of screening.

A bound is of the scores that it was derived from, so a subclass, which may read the features in its own way, is another
type: nothing is known of it until it is registered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "FeatureTotals",
    "Known",
    "ListedSpread",
    "feature_range",
    "feature_totals",
    "known_of",
    "listed_spread",
    "register",
]


class ListedSpread(NamedTuple):
    """How far each feature's values phi_ij(y) over listed outputs are spread, over all examples: two norms (d,).

    centred: sqrt(sum_i sum_y (phi_ij(y) - mean_y phi_ij)^2)
    from_last: sqrt(sum_i sum_y (phi_ij(y) - phi_ij(last y))^2)
    """

    centred: np.ndarray
    from_last: np.ndarray


class FeatureTotals(NamedTuple):
    """Between what each feature's sum over the examples lies, whatever their outputs.

    least: sum_i min_y phi_ij(y) (d,), or less; most: sum_i max_y phi_ij(y) (d,), or more.
    """

    least: np.ndarray
    most: np.ndarray


class Known(NamedTuple):
    """What is known of the models of one type: functions, each None where nothing is.

    feature_range(model, data): bounds (d,) on sqrt(sum_i R_ij^2), R_ij half the range of feature j over the outputs of
    example i, for L1GapRule
    feature_totals(model, data): a :class:`FeatureTotals`, for CountRule
    listed_spread(model, data): a :class:`ListedSpread`, for L2GapRule and HalfSpaceRule
    restrict(model, columns): the model with the weights ``columns`` (k,) alone, in a better way than zeros at the
    others

    The first three may answer None: not of this model.
    """

    feature_range: Callable[[Any, Any], np.ndarray | None] | None = None
    feature_totals: Callable[[Any, Any], FeatureTotals | None] | None = None
    listed_spread: Callable[[Any, Any], ListedSpread | None] | None = None
    restrict: Callable[[Any, np.ndarray], Any] | None = None


_KNOWN: dict[type, Known] = {}


def register(model: type, known: Known) -> None:
    """Say what is known of the models of exactly this type; what was registered for it before is forgotten.

    Parameters
    ----------
    model : type
        Of models whose scores are linear in the weights.
    known : Known

    Examples
    --------
    >>> from reference import SequenceModel
    >>> from reference.screening.registry import known_of, register
    >>> class Mine(SequenceModel):
    ...     "A subclass that reads the features as SequenceModel does."
    >>> register(Mine, known_of(SequenceModel))
    """
    _KNOWN[model] = known


def known_of(model: type) -> Known:
    """What is registered for exactly this type of models."""
    return _KNOWN.get(model, Known())


def feature_range(model: Any, data: Any) -> np.ndarray | None:
    """Bounds (d,) on sqrt(sum_i R_ij^2), R_ij half the range of feature j over the outputs of example i; None: none are
    known.
    """
    ask = known_of(type(model)).feature_range
    return None if ask is None else ask(model, data)


def feature_totals(model: Any, data: Any) -> FeatureTotals | None:
    """Between what each feature's sum over the examples lies, whatever their outputs (d,); None: no bounds are
    known.
    """
    ask = known_of(type(model)).feature_totals
    return None if ask is None else ask(model, data)


def listed_spread(model: Any, data: Any) -> ListedSpread | None:
    """How far features are spread over the outputs; None where outputs are not listed."""
    ask = known_of(type(model)).listed_spread
    return None if ask is None else ask(model, data)
