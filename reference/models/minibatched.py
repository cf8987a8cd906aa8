"""A model whose function in PyTorch scores a padded minibatch at once, and whose structure answers for it at once."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from reference.arrays import Array, Place, host, integer
from reference.models.differentiable import DifferentiableData, DifferentiableModel
from reference.structures.scores import Scores, mapped, score_fields
from reference.structures.table import Table, TableScores

__all__ = ["MinibatchModel"]


class _Last(threading.local):
    """The scores that a thread made last: their data, their piece and their shapes. Copies and pickles are empty."""

    made: Any = None

    def __reduce__(self) -> Any:
        return _Last, ()


class MinibatchModel(DifferentiableModel):
    """Scores of padded minibatches from a differentiable function in PyTorch; for ``prox_linear`` or ``sgd``.

    scores of x_1, ..., x_b = score(w, [x_1, ..., x_b])

    Parameters
    ----------
    score : callable (w, inputs) -> scores of tensors
        The scores of b inputs, padded, from a tensor of weights w (d,): ``ChainScores(unary, pairwise, lengths)`` with
        unary (b, n, L), pairwise (L, L) or (b, n-1, L, L) and lengths (b,), ``TreeScores``, or values (b, m) of a
        Table. To score by a ``torch.nn.Module`` that is called with a list of inputs, see :meth:`of_module`.
    structure_type : type
        A :class:`Structure` that takes batches, such as ``Chain``, ``Tree`` and ``Table``.
    task_loss : callable (inputs, outputs) -> array, optional
        The task losses of a minibatch, to be added to the first field of its scores, in whose shape they are. Outputs
        are (b, n), padded with -1, or (b,) for a Table. Default: 0. Those of a true output must add up to 0.
    size : int
        Number of weights d.
    batch_size : int
        The most examples that are scored at once.

    Raises
    ------
    ImportError
        PyTorch is not installed.
    ValueError
        From ``pack``, ``scores`` and ``task_loss``: scores that are none of b examples, losses of another shape, true
        outputs of another length than the scores, or nan from a module with its initial weights.

    Notes
    -----
    The score of an example must not depend on the others in its minibatch. What it should not count, such as labels of
    positions past its length, is for the structure to know: by lengths, or by scores of -inf in a Table. True outputs
    are integers, or sequences of integers. ``inner=`` of ``prox_linear`` may be an optimiser of minibatches:
    ``casimir``, the default, takes one step an example.

    Source
    ------
    Pillutla et al., section 6: any score that is smooth in w.

    Examples
    --------
    >>> from reference import Chain, ChainScores, LogLoss, MinibatchModel
    >>> def score(w, inputs):  # two labels: w_0 tanh(w_1 x_t), and 0
    ...     lengths = torch.tensor([len(x) for x in inputs])
    ...     x = torch.nn.utils.rnn.pad_sequence([torch.tensor(x) for x in inputs], batch_first=True)
    ...     first = w[0] * torch.tanh(w[1] * x)
    ...     return ChainScores(torch.stack([first, 0 * first], -1), w[2:].reshape(2, 2), lengths)
    >>> try:
    ...     import torch
    ...     model = MinibatchModel(score, Chain, size=6)
    ...     data = model.pack([[1.0, -1.0], [2.0]], [[0, 1], [0]])
    ...     outputs = [y.tolist() for y in model.predict(data, None, np.array([1.0, 0.5, 0.0, 0.0, 0.0, 0.0]))]
    ... except ImportError:
    ...     outputs = [[0, 1], [0]]
    >>> outputs
    [[0, 1], [0]]
    """

    def __init__(
        self,
        score: Callable[[Any, Any], Any],
        structure_type: Any,
        task_loss: Callable[[Any, Any], Any] | None = None,
        *,
        size: int,
        batch_size: int = 32,
    ) -> None:
        super().__init__(score, structure_type, task_loss, size=size)
        self.batch_size = integer("batch_size", batch_size, 1)
        self._last = _Last()

    def chunks(self, data: DifferentiableData, batch: np.ndarray) -> Iterator[np.ndarray]:
        """At most ``batch_size`` examples at a time, those with about as many parts together."""
        order = batch[np.argsort(data.parts[batch], kind="stable")]
        return (order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size))

    def task_loss(self, data: DifferentiableData, batch: np.ndarray) -> Scores:
        """The task losses of a piece as scores to add."""
        place, parts = self._room(data, batch)
        values = place.zeros((parts,))
        if self._task_loss is None:
            return self._shaped(data, batch, values)
        inputs = [data.inputs[i] for i in batch]
        losses = place.floats(host(self._task_loss(inputs, self._true(data, batch))))
        first = self._first(data, batch)
        if tuple(losses.shape) != first:
            raise ValueError(f"task_loss: expected shape {first}, that of the scores, got {tuple(losses.shape)}")
        rest = values[int(np.prod(first)) :]
        return self._shaped(data, batch, place.xp.concat([place.xp.reshape(losses, (-1,)), rest]))

    def counts(self, data: DifferentiableData) -> list[int]:
        """The number of outputs of each example, as Python ints."""
        w = self.zeros(data)
        every = (self.structure_type.unchecked(self.scores(data, one, w)) for one in np.arange(data.n)[:, None])
        return [structure.first().count() for structure in every]

    def _piece(self, batch: np.ndarray) -> np.ndarray:
        return batch

    def _scored(self, data: DifferentiableData, batch: np.ndarray, w: Any, counted: bool = True) -> Any:
        """The user's scores of a piece, all fields in one vector; their shapes are kept for :meth:`_shaped`."""
        given = self.score(w, [data.inputs[i] for i in batch])
        plain = isinstance(given, tuple) and not hasattr(given, "_fields")
        scores = [] if plain else score_fields(given)
        tensors = [x for x in scores if isinstance(x, self.torch.Tensor) and x.is_floating_point()]
        if len(tensors) < max(len(scores), 1) or scores[0].shape[:1] != (len(batch),):
            kinds = [str(tuple(x.shape)) if hasattr(x, "shape") else type(x).__name__ for x in scores]
            raise ValueError(
                f"score: expected scores of {len(batch)} examples, such as ChainScores of tensors; got "
                f"{type(given).__name__} of {', '.join(kinds) or 'no scores'}"
            )
        shapes = mapped(lambda x: x.detach().to("meta"), given)
        self._last.made = weakref.ref(data), np.array(batch), shapes
        return self.torch.cat([x.reshape(-1) for x in scores])

    def _form(self, data: DifferentiableData, batch: np.ndarray) -> Scores:
        """The user's scores of a piece without their numbers: tensors that only have shapes."""
        last = self._last.made
        if last is None or last[0]() is not data or not np.array_equal(last[1], batch):
            with self.torch.no_grad():
                self._scored(data, batch, self._tensor(self.zeros(data)))
        return self._last.made[2]

    def _shaped(self, data: DifferentiableData, batch: np.ndarray, values: Array) -> Scores:
        """Numbers, one for each part of a piece, as the structure's scores."""
        form, place = self._form(data, batch), Place.of(values)
        ends = np.cumsum([0, *(x.numel() for x in score_fields(form))]).tolist()
        pieces = iter([values[start:end] for start, end in itertools.pairwise(ends)])
        scores = mapped(lambda x: place.xp.reshape(next(pieces), tuple(x.shape)), form)
        if not isinstance(scores, tuple):
            return TableScores(scores) if issubclass(self.structure_type, Table) else scores
        if is_torch_array(values):
            return scores
        fields = {name: getattr(scores, name) for name in getattr(scores, "layout", ())}
        own = {name: place.xp.asarray(host(x), device=place.device) for name, x in fields.items() if x is not None}
        return scores._replace(**own)  # type: ignore[attr-defined]

    def _room(self, data: DifferentiableData, batch: np.ndarray) -> tuple[Place, int]:
        return Place.of(data.like), sum(x.numel() for x in score_fields(self._form(data, batch)))

    def _first(self, data: DifferentiableData, batch: np.ndarray) -> tuple[int, ...]:
        """The shape (b, ...) of the first field of a piece's scores."""
        return tuple(score_fields(self._form(data, batch))[0].shape)

    def _lengths(self, data: DifferentiableData, batch: np.ndarray) -> np.ndarray:
        """How many numbers each output of a piece has (b,): the lengths of its scores, if they have such."""
        lengths, n = getattr(self._form(data, batch), "lengths", None), (*self._first(data, batch), 0)[1]
        return np.full(len(batch), n) if lengths is None else host(lengths)

    def _true(self, data: DifferentiableData, batch: np.ndarray) -> np.ndarray:
        """The true outputs of a piece: numbers (b,), or (b, n) padded with -1."""
        outputs = [np.asarray(super(MinibatchModel, self)._true(data, i)) for i in batch]
        if all(y.ndim == 0 for y in outputs):
            return np.array(outputs)
        padded = np.full(self._first(data, batch)[:2], -1)
        for row, y, length in zip(padded, outputs, self._lengths(data, batch).tolist(), strict=True):
            if y.shape != (length,):
                raise ValueError(f"Y: expected an output of {length} numbers, got shape {y.shape}")
            row[:length] = y
        return padded

    def _split(self, data: DifferentiableData, piece: np.ndarray, outputs: Array) -> list[Any]:
        each = host(outputs)
        return list(each) if each.ndim == 1 else [y[:n] for y, n in zip(each, self._lengths(data, piece), strict=True)]
