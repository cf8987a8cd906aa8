"""Losses of decisions: what is learned from the best output alone, of structures with any ``best``.

A decision y is made at predicted scores and pays at the true ones: a matching of riders and drivers at predicted costs,
a shortest path in a predicted graph. Costs are scores with the sign reversed. Each function returns a value and its
gradient in the predicted scores, shaped like them; a model's ``pullback`` leads to its weights.

Sources: Berthet, Blondel, Teboul, Cuturi, Vert and Bach (2020), Learning with differentiable perturbed optimizers;
Elmachtoub and Grigas (2022), Smart "predict, then optimize".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, Place
from reference.declared import Ge, Gt, checked
from reference.structures.base import without_scores
from reference.structures.sampling import generator
from reference.structures.scores import Scores, add, finite, mapped, score_fields

__all__ = ["perturbed", "regret", "spo_plus"]


@checked
def perturbed(
    structure: Any,
    noise: Literal["additive", "multiplicative"] = "additive",
    *,
    scale: Annotated[float, Gt(0)] = 1.0,
    samples: Annotated[int, Ge(1)] = 100,
    rng: int | np.random.Generator | None = None,
) -> tuple[Any, Scores]:
    """The mean over samples of the highest score at perturbed scores, and its gradient.

    additive:        F(s) = E max_y <s + scale Z, a_y>,    gradient E a_y
    multiplicative:  F(s) = E max_y <s * W, a_y>,          gradient E W * a_y,  W = exp(scale Z - scale^2/2)

    with Z standard normal, a_y the parts of y. F is convex in s. The Fenchel-Young loss of a true output is F(s) less
    its score; its gradient is this one less its parts, and with multiplicative noise, whose W is 1 in the mean, too.

    Parameters
    ----------
    structure : Structure
        With ``best``, ``parts`` and ``augment``; may be a batch.
    noise : {"additive", "multiplicative"}
        Multiplicative noise keeps the sign of each score: costs stay costs, and a Cut stays one where pairs of equal
        labels score at least 0 and others at most 0.
    scale : float > 0
        Of the noise.
    samples : int >= 1
        Calls of ``best``.
    rng : int, numpy.random.Generator or None
        An int draws the same noise in every call: F is then one function of s.

    Returns
    -------
    value : array
        Shape as the value of ``best``.
    gradient : scores
        Shaped like the scores; scores that are shared have sums.

    Raises
    ------
    InfeasibleError
        Every output is forbidden.
    ValueError, TypeError
        Options out of range; noise with which the scores are none of the structure.

    Source
    ------
    Berthet et al. (2020), section 2; multiplicative noise, with which the gradient is weighted: Dalle et al. (2022),
    Learning with combinatorial optimization layers.

    Examples
    --------
    >>> from reference import Matching, perturbed
    >>> value, gradient = perturbed(Matching([[0.5, 0.0], [0.0, 0.5]]), samples=1000, rng=0)
    >>> bool(value > 1.0), bool(0.5 < gradient.values[0, 0] < 1.0)
    (True, True)
    """
    random, place = generator(rng), Place.of(score_fields(structure.scores)[0])
    values, gradient = [], None
    for _ in range(samples):
        z = mapped(lambda x: place.floats(scale * random.standard_normal(tuple(x.shape))), structure.scores)
        if noise == "additive":
            value, y = structure.augment(z).best()
            drawn = structure.parts(y)
        else:
            weights = mapped(lambda x: array_namespace(x).exp(x - scale**2 / 2), z)
            value, y = _at(structure, mapped(_product, structure.scores, weights)).best()
            drawn = mapped(_product, structure.parts(y), weights)
        values.append(value)
        gradient = drawn if gradient is None else add(gradient, drawn)
    return sum(values) / samples, mapped(lambda x: x / samples, gradient)


def spo_plus(predicted: Any, true: Any) -> tuple[Any, Scores]:
    """The SPO+ loss of predicted scores and its subgradient.

    max_y <2 p - s, a_y> - 2 <p, a_z> + <s, a_z>,   z a best output at the true scores s, p the predicted ones

    It is convex in p, 0 at p = s, and at least the regret of every output that is best at p. It is the structural hinge
    at the scores 2 p with the regret <s, a_z - a_y> as the cost of y.

    Parameters
    ----------
    predicted, true : Structure
        One space with two scores, or batches of these. A part that is forbidden (-inf) in ``predicted`` is forbidden;
        in ``true`` no other part is.

    Returns
    -------
    value : array
        Shape as the value of ``best``.
    gradient : scores
        2 (a_y - a_z) for a maximising y, shaped like the scores of ``predicted``.

    Raises
    ------
    ValueError, TypeError
        Scores of other shapes; a part forbidden in ``true`` alone.
    InfeasibleError
        Every output is forbidden.

    Source
    ------
    Elmachtoub and Grigas (2022), the SPO+ loss, with scores to maximise.
    """
    space_of_truth = _true_space(predicted, true)
    z = space_of_truth.best()[1]
    space = _at(predicted, mapped(lambda p, s: 2 * _finite(p) - _finite(s), predicted.scores, space_of_truth.scores))
    value, y = space.best()
    difference = add(predicted.parts(y), predicted.parts(z), -1.0)
    return value - space.score(z), mapped(lambda x: 2 * x, difference)


def regret(predicted: Any, true: Any) -> Any:
    """What the best output at the predicted scores loses at the true scores: max_y <s, a_y> - <s, a_{y(p)}> >= 0.

    Parameters and errors as for :func:`spo_plus`. The shape is that of the value of ``best``.

    Source
    ------
    Elmachtoub and Grigas (2022), the SPO loss, with scores to maximise.
    """
    space = _true_space(predicted, true)
    return space.best()[0] - space.score(predicted.best()[1])


def _true_space(predicted: Any, true: Any) -> Any:
    """The space of ``predicted`` at the true scores."""
    if type(predicted) is not type(true):
        raise TypeError(f"true: expected a {type(predicted).__name__}, as predicted is, got {type(true).__name__}")
    add(predicted.scores, true.scores)  # raises if the shapes differ
    for p, s in zip(score_fields(predicted.scores), score_fields(true.scores), strict=True):
        xp = array_namespace(p, s)
        if bool(xp.any((s == -xp.inf) & (p > -xp.inf))):
            raise ValueError("true: forbids a part (-inf) that predicted does not; forbid it in predicted, too")
    return _at(predicted, mapped(_finite, true.scores))


def _at(structure: Any, scores: Scores) -> Any:
    """The space of the structure at other scores. What it forbids stays forbidden."""
    return without_scores(structure).augment(mapped(_finite, scores))


def _finite(x: Array) -> Array:
    return finite(array_namespace(x), x)


def _product(x: Array, weight: Array) -> Array:
    return _finite(x) * weight
