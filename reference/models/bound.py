"""A model bound to its weights, for prediction."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from reference.arrays import Array, floats, refuse_nan_and_inf

__all__ = ["BoundModel"]


class BoundModel:
    """Predicts the outputs of inputs. ``model.bound(w)`` makes one; it copies the weights and prepares them once.

    Parameters
    ----------
    model : a model with ``pack`` and ``predict``
    w : array (d,)
        Its weights; copied. Inputs are computed in their namespace, on their device.

    Raises
    ------
    ValueError, TypeError
        Weights of another size, nan or inf among them.

    Examples
    --------
    >>> import numpy as np
    >>> from reference import SequenceModel
    >>> model = SequenceModel(2, ["up", "down"])
    >>> tagger = model.bound([1.0, 0.0, 0.0, 1.0] + [0.0] * 8)  # feature 0 is for "up", feature 1 for "down"
    >>> [y.tolist() for y in tagger([np.eye(2)])]
    [[0, 1]]
    """

    def __init__(self, model: Any, w: Array) -> None:
        (w,) = floats(w=w)
        if tuple(w.shape) != (model.size,):
            raise ValueError(f"w: expected {model.size} weights, got shape {tuple(w.shape)}")
        refuse_nan_and_inf("w", w, forbidden=False)
        self.model, self.w = model, array_namespace(w).asarray(w, copy=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.model, self.w)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    def __call__(self, X: Any) -> list[Any]:
        """The best output of each input of X, which ``model.pack`` takes.

        Raises
        ------
        ValueError, TypeError
            The errors of ``model.pack``.
        InfeasibleError
            Every output of an input is forbidden.
        """
        outputs: list[Any] = self.model.predict(self.model.pack(X, like=self.w), None, self.w)
        return outputs
