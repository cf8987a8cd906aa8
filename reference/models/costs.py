"""Costs of classes and of positions: the task loss of a labeller, scaled by weights.

The task loss of a labelling is a sum over positions of cost[true label, label]. The weight of a class scales the row of
its true label (:func:`with_class_weights`), the weight of a position what stands there (:class:`WeightedPositions`).
Both have an effect in losses that add the task loss to scores, the hinge and softmax-margin, and not in the log loss.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from reference.arrays import Array, floats, host, number
from reference.example_errors import ExampleError, listed
from reference.models.base import LabelledModel, label_cost
from reference.models.nonlinear import Delegating
from reference.models.sequence import SequenceModel
from reference.models.tree import TreeModel
from reference.structures.scores import Scores

__all__ = ["WeightedPositions", "with_class_weights"]

M = TypeVar("M", bound=LabelledModel)


def with_class_weights(model: M, class_weight: Any, counts: Any = None) -> M:
    """The model with the costs of each true label times its weight.

    Parameters
    ----------
    model : model with ``labels`` and ``cost``
    class_weight : "balanced" or mapping
        From each label of the model to a number >= 0. "balanced": N / (L counts), for N positions and L labels, so that
        each label has the same weight in all.
    counts : array (L,), optional
        The number of positions with each label, for "balanced".

    Raises
    ------
    TypeError, ValueError
        Neither; an unknown label, or one without a weight; a weight that is negative or not finite; no counts, or a
        count of 0, for "balanced".
    """
    L = model.n_labels
    if isinstance(class_weight, str) and class_weight == "balanced":
        if counts is None:
            raise ValueError("class_weight: 'balanced' needs all labels of the data at once; expected a mapping")
        many = np.asarray(counts, np.float64)
        for k in np.flatnonzero(many == 0)[:1].tolist():
            raise ValueError(f"class_weight: 'balanced' needs positions of each label, got none of {model.labels[k]!r}")
        weights = many.sum() / (L * many)
    elif isinstance(class_weight, Mapping):
        for name in class_weight:
            if name not in model.labels:
                raise ValueError(f"class_weight: expected labels among {', '.join(model.labels)}, got {name!r}")
        for name in model.labels:
            if name not in class_weight:
                raise ValueError(f"class_weight: expected a weight for each label, got none for {name!r}")
        weights = np.array([number(f"class_weight[{name!r}]", class_weight[name]) for name in model.labels])
    else:
        raise TypeError(f"class_weight: expected 'balanced' or a mapping from labels, got {class_weight!r:.80}")
    weighted = copy.copy(model)
    weighted.cost = label_cost(weights[:, None] * model.cost, L)
    return weighted


class WeightedPositions(Delegating):
    """A labeller of sequences or trees whose task loss at each position of some data is times a weight.

    Parameters
    ----------
    model : SequenceModel, TaggingModel or TreeModel
    data : packed data
        The data that it will be trained on.
    weights : sequence of n arrays (n_i,)
        A finite number >= 0 for each position of each example.
    argument : str
        The name of the weights in messages.

    Raises
    ------
    TypeError, ValueError
        Another model; weights of other shapes, negative or not finite: the example and the position are named.

    Notes
    -----
    Weights (d,) are those of the model, with which one predicts. There are no kernels: oracles of many examples at once
    take about as long as the model's, passes over single examples run in Python.
    """

    def __init__(self, model: Any, data: Any, weights: Any, argument: str = "weights") -> None:
        if not isinstance(model, SequenceModel | TreeModel):
            raise TypeError(f"model: expected a labeller such as SequenceModel, got {type(model).__name__}")
        model.check(data)
        super().__init__(model)
        self.offsets, given = data.offsets, listed(argument, weights)
        if len(given) != data.n:
            raise ValueError(f"{argument}: expected {data.n} arrays, one for each example, got {len(given)}")
        self.weights = [
            _numbers(argument, i, x, length) for i, (x, length) in enumerate(zip(given, data.lengths, strict=True))
        ]

    def check(self, data: Any) -> None:
        """As the model's; and the data have the lengths of those with the weights."""
        super().check(data)
        if not np.array_equal(data.offsets, self.offsets):
            raise ValueError(f"data: expected {len(self.weights)} examples of the lengths of the weights, got others")

    def task_loss(self, data: Any, batch: np.ndarray) -> Any:
        """The model's, times the weights of the positions."""
        loss: Any = self.model.task_loss(data, batch)
        scale = np.zeros((len(batch), loss.unary.shape[-2]))
        for row, i in zip(scale, batch.tolist(), strict=True):
            row[: len(self.weights[i])] = self.weights[i]
        factors = data.rows.place.floats(scale.reshape((*loss.unary.shape[:-1], 1)))
        return loss._replace(unary=loss.unary * factors)

    def scores(self, data: Any, batch: np.ndarray, w: Array) -> Scores:
        """The model's."""
        return self.model.scores(data, batch, w)

    def pullback(self, data: Any, batch: np.ndarray, w: Array, g: Scores) -> Array:
        """The model's."""
        return self.model.pullback(data, batch, w, g)

    def squared_diameters(self, data: Any) -> np.ndarray | None:
        """The model's."""
        return self.model.squared_diameters(data)


def _numbers(argument: str, i: int, x: Any, length: int) -> np.ndarray:
    """The weights (length,) of an example's positions, checked."""
    (given,) = floats(**{f"{argument}[{i}]": x})
    numbers: np.ndarray = host(given).astype(np.float64)
    if numbers.shape != (length,):
        raise ExampleError(argument, i, None, f"expected shape ({length},), one for each position, got {numbers.shape}")
    for t in np.flatnonzero(~((numbers >= 0) & (numbers < np.inf)))[:1].tolist():
        raise ExampleError(argument, i, t, f"expected finite numbers >= 0, got {numbers[t]}")
    return numbers
