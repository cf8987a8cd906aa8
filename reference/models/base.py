"""The interface of a model: inputs and weights to scores, and gradients of scores back to weights.

A model is independent of loss functions and optimisers. It packs examples once. From packed data, a batch of example
numbers and weights it computes the scores of a structure. It maps a gradient with respect to scores back to the
weights.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

from reference.arrays import Array, Place, Rows, floats, host, integer, refuse_nan_and_inf, seen, shown
from reference.example_errors import ExampleError, each_example, example_error, listed
from reference.models.bound import BoundModel
from reference.packed import Packed, check_range, lock
from reference.structures.answered import Oracle, answered_by
from reference.structures.base import InfeasibleError
from reference.structures.scores import Scores, inner, score_fields

__all__ = ["LinearModel", "integer"]

Kind = TypeVar("Kind")
Method = TypeVar("Method", bound=Callable[..., Any])
MOST_BYTES = 2**34  # of a matrix (L, L) over labels
MOST_LABELS = 2**24  # their names are kept in memory


class LinearModel:
    """A model whose scores are linear in the weights; subclass it for a new one.

    A subclass sets ``structure_type`` and ``size`` and defines ``pack``, ``scores``, ``pullback``, ``task_loss`` and
    ``gold``. Batches are processed one example at a time unless the subclass overrides ``chunks``. Packed data has a
    property ``n``, and a ``place`` unless the subclass defines ``zeros``.
    """

    structure_type: Any
    packed_type: type = object  # the class of packed data
    size: int
    nonnegative: slice | None = None  # the weights that must be >= 0; None: all are free
    oracle: Oracle | None = None  # a function that finds best outputs instead of the structure

    def __getstate__(self) -> dict[str, Any]:
        """Without what is computed from the rest, so that pickles are small."""
        kind, fields = type(self), self.__dict__.items()
        return {name: x for name, x in fields if not isinstance(getattr(kind, name, None), cached_property)}

    def __repr__(self) -> str:
        """Sizes, and no arrays: ``SequenceModel(n_features=128, n_labels=26, size=4056)``."""
        return sized(self)

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments except ``oracle``, as values for JSON, for model files."""
        each = ((name, getattr(self, name)) for name in inspect.signature(type(self)).parameters if name != "oracle")
        plain = ((name, x.tolist() if isinstance(x, np.ndarray) else x) for name, x in each)
        return {name: list(x) if isinstance(x, tuple) else x for name, x in plain}

    def pack(self, X: Any, Y: Any = None, *, like: Array | None = None) -> Any:
        """Examples in the form that the other methods take, checked."""
        raise TypeError(f"{type(self).__name__} must define pack(X, Y, *, like)")

    def check(self, data: Any) -> None:
        """Raise ValueError if ``data`` was packed by a model of other sizes, TypeError if it was not packed."""
        if not isinstance(data, self.packed_type) or not hasattr(data, "n"):
            raise not_packed(data)
        for what, theirs, ours in self._sizes(data):
            if theirs != ours:
                raise ValueError(f"data: packed by a different model, with {theirs} {what}; this one has {ours}")

    def _sizes(self, data: Any) -> Iterable[tuple[str, int, int]]:
        """What :meth:`check` compares: a name, the number in the data, and the model's."""
        return ()

    def _answer_by(self, oracle: Oracle | None) -> None:
        """Find best outputs by ``oracle``; None: by the structure. Raises TypeError if it is not callable."""
        if oracle is not None:
            self.structure_type, self.oracle = answered_by(self.structure_type, oracle), oracle

    def zeros(self, data: Any) -> Array:
        """Weights of zero (d,) in the data's place."""
        if not hasattr(data, "place"):
            raise TypeError(f"{type(self).__name__} must define zeros(data)")
        return data.place.zeros((self.size,))

    def chunks(self, data: Any, batch: np.ndarray) -> Iterator[np.ndarray]:
        """The example numbers ``batch`` (b,) in pieces that :meth:`scores` can hold at once."""
        return (batch[i : i + 1] for i in range(len(batch)))

    if TYPE_CHECKING:  # methods that a subclass defines

        def pullback(self, data: Any, batch: np.ndarray, w: Array, g: Scores) -> Array: ...

        def task_loss(self, data: Any, batch: np.ndarray) -> Scores: ...

        def gold(self, data: Any, batch: np.ndarray) -> Scores: ...

        def within(self, data: Any, batch: np.ndarray, scores: Scores) -> Scores: ...

    def scores(self, data: Any, batch: np.ndarray, w: Array) -> Scores:
        """The scores of a piece of a batch at weights w (d,)."""
        raise TypeError(f"{type(self).__name__} must define scores(data, batch, w)")

    def pushforward(self, data: Any, batch: np.ndarray, w: Array, dw: Array) -> Scores:
        """The Jacobian of the scores at w times dw (d,): for a linear model, the scores at dw."""
        return self.scores(data, batch, dw)

    def squared_diameters(self, data: Any) -> np.ndarray | None:
        """(n,) bounds on max_{y, y'} ||phi(x_i, y) - phi(x_i, y')||^2, or None if the model has no bound.

        ``StructuralHinge.smoothness`` uses these bounds.
        """
        return None

    def counts(self, data: Any) -> list[int]:
        """The number of outputs of each example, as Python ints."""
        w = self.zeros(data)
        each = (self.structure_type.unchecked(self.scores(data, np.array([i]), w)) for i in range(data.n))
        return [structure.first().count() for structure in each]

    def squared_norms(self, data: Any) -> np.ndarray | None:
        """(n,) bounds on ||A_i||_2^2, A_i (m, d) the features of example i's listed outputs; None where outputs are
        not listed.
        """
        return None

    def gold_scores(self, data: Any, batch: np.ndarray, w: Array) -> Array:
        """The scores (b,) of a piece's true outputs at weights w (d,), one for each example."""
        gold = self.gold
        scores = [inner(self.scores(data, one, w), gold(data, one)) for one in batch[:, None]]
        return Place.of(w).floats(scores)

    def predict(self, data: Any, batch: np.ndarray | None, w: Array) -> list[Any]:
        """The best output of each example of the batch (None: all), in the batch's order.

        Raises
        ------
        ValueError
            Weights of another size, nan or +inf among them, data of another model, scores that are nan or +inf.
        InfeasibleError
            Every output of an example is forbidden.
        """
        return self._predicted(data, batch, w)

    def _predicted(self, data: Any, batch: np.ndarray | None, w: Array, constrained: Any = None) -> list[Any]:
        """The best outputs; constrained: the data with the labels that are allowed, None: all are."""
        self.check(data)
        check_weights(self, w, self.zeros(data))
        refuse_nan_and_inf("w", w)
        batch = all_of(data.n, batch)

        def scores_at(piece: np.ndarray, w: Array) -> Scores:
            scores = self.scores(data, piece, w)
            return scores if constrained is None else self.within(constrained, piece, scores)

        outputs: list[Any] = [None] * data.n
        for piece in self.chunks(data, batch):
            scores = scores_at(piece, w)
            if _are_unsound(scores):
                raise ValueError("scores: expected numbers below inf, got nan or inf: weights times features overflow")
            try:
                _, best = self.structure_type.unchecked(scores).best()
            except InfeasibleError:
                if not seen(array_namespace(w).all(array_namespace(w).isfinite(w))):
                    raise
                self.structure_type.unchecked(scores_at(piece, 0 * w)).best()  # raises if all are forbidden
                raise ValueError("scores: every output has score -inf: weights times features overflow") from None
            for i, output in zip(piece, self._split(data, piece, best), strict=True):
                outputs[i] = output
        return [outputs[i] for i in batch]

    def bound(self, w: Array) -> BoundModel:
        """The model bound to weights w (d,), for predictions; see :class:`BoundModel`."""
        return BoundModel(self, w)

    def _split(self, data: Any, piece: np.ndarray, outputs: Any) -> Sequence[Any]:
        """The outputs of a piece, one for each example."""
        return [outputs]


class LabelledModel(LinearModel):
    """A linear model of packed ``rows`` and ``labels``, with weights for each feature and label."""

    width: int  # number of columns of the rows

    def _label(self, labels: int | Sequence[str], cost: Any) -> None:
        """Set the labels and their costs."""
        self.labels = label_names(labels)
        self.n_labels = len(self.labels)
        self.cost = label_cost(cost, self.n_labels)

    def check(self, data: Any) -> None:
        """Raise ValueError if ``data`` was packed by a model with another number of features, or of labels; TypeError
        if it was not packed.
        """
        super().check(data)
        some = data.labels is not None and data.labels.shape[0]
        if some and int(array_namespace(data.labels).max(data.labels)) >= self.n_labels:
            raise ValueError(f"data: packed by a different model, with labels beyond the model's {self.n_labels}")

    def _sizes(self, data: Any) -> Iterable[tuple[str, int, int]]:
        return [("columns", data.rows.width, self.width)]

    def zeros(self, data: Any) -> Array:
        """Weights of zero (d,) in the data's place."""
        return data.rows.place.zeros((self.size,))

    def split(self, w: Array) -> tuple[Array, Array]:
        """Weights (d,) as the matrix of features and labels (width, L) and that of pairs of labels (L, L)."""
        cut, xp = self.width * self.n_labels, array_namespace(w)
        pairwise = xp.reshape(w[cut : cut + self.n_labels**2], (self.n_labels, self.n_labels))
        return xp.reshape(w[:cut], (self.width, self.n_labels)), pairwise

    def true_labels(self, data: Any) -> Array:
        """The labels (N,) of all positions; ValueError if the data were packed without labels."""
        return given(data.labels, "labels")


class SomeWeights(LabelledModel):
    """A base to stand before a larger model's, with weights in some places of its matrices, and 0 in the others.

    A subclass defines ``cells`` (d,), the place of each weight among those of the larger model, and ``whole_size``, the
    number of those.
    """

    cells: Any
    whole_size: Any

    def pullback(self, data: Any, batch: np.ndarray, w: Array, g: Any) -> Array:
        """The adjoint of :meth:`pushforward`: a gradient with respect to the scores of a piece, as one (d,) in the
        weights.
        """
        whole = super().pullback(data, batch, w, g)
        return array_namespace(whole).take(whole, data.rows.place.integers(self.cells), axis=0)

    def split(self, w: Array) -> tuple[Array, Array]:
        """Weights (d,) as the matrix (width, L) of features and labels and that of transitions (L, L), 0 for pairs
        without a weight.
        """
        return super().split(self._whole(w))

    def _whole(self, w: Array) -> Array:
        """Weights (d,) as those of the larger model, 0 for those without a weight."""
        place = Place.of(w)
        longer = place.xp.concat([w, place.zeros((1,))])
        return place.xp.take(longer, place.integers(self._places), axis=0)

    @cached_property
    def _places(self) -> np.ndarray:
        """The inverse of ``cells``: the number of the weight at each place, or d."""
        places = np.full(self.whole_size, self.size)
        places[self.cells] = np.arange(self.size)
        return places


class Concatenated(Packed):
    """Packed examples one after another: example i owns offsets[i]:offsets[i + 1]."""

    offsets: np.ndarray

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Length of each example (n,)."""
        return np.diff(self.offsets)


class RowsOfEach(Packed):
    """Packed examples with sparse rows of their own."""

    features: tuple[Rows, ...]

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(self.features)

    @property
    def place(self) -> Place:
        """The place of weights and scores."""
        return self.features[0].place if self.features else Place.of(None)


def zero_at_truth(task_loss: Method) -> Method:
    """Marks a method ``task_loss`` that is 0 for every true output, whatever the data; objectives check others."""
    task_loss.zero_at_truth = True  # type: ignore[attr-defined]
    return task_loss


def given(truth: Kind | None, what: str) -> Kind:
    """The true outputs of packed data; ValueError if the data have none."""
    if truth is None:
        raise ValueError(f"Y: this data was packed without {what}; pack(X, Y) gives them")
    return truth


def one_for_each(Y: Any, n: int, what: str, each: str = "of X", argument: str = "Y") -> Any:
    """Y as a list, one true output for each of n inputs."""
    Y = listed(argument, Y)
    if len(Y) != n:
        raise ValueError(f"{argument}: expected {n} {what}, one for each {each}, got {len(Y)}")
    return Y


def only(batch: np.ndarray, data: Any = None) -> int:
    """The only example of a piece; with ``data``, checked to be one of its examples."""
    (i,) = batch if data is None else all_of(data.n, batch)
    return int(i)


def sound(scores: Kind, w: Array) -> Kind:
    """The scores. Raises ValueError if they are nan or +inf because weights of w (d,) are -inf.

    A diverging run has such scores from other weights; it has its own error.
    """
    if _are_unsound(scores):
        xp = array_namespace(w)
        if seen(xp.any(w == -xp.inf)) and not seen(xp.any(~(w < xp.inf))):
            raise ValueError(
                "scores: expected numbers below inf, got nan or inf: a weight of -inf forbids outputs with a "
                "positive feature; times a negative feature it is inf, times 0 or added to inf it is nan"
            )
    return scores


def _are_unsound(scores: Scores) -> bool:
    """Whether scores are nan or +inf."""
    fields = [x for x in score_fields(scores) if is_array_api_obj(x)]
    return any(seen(array_namespace(x).any(~(x < array_namespace(x).inf))) for x in fields)


def cell_sums(rows: Rows, group: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums of the entries ``values`` (nnz,) that have the same group (nnz,) and column: groups, columns and sums
    (m,).
    """
    cell = group * max(rows.width, 1) + host(rows.indices)
    if np.all(cell[1:] > cell[:-1]):  # sorted, without duplicates
        return group, host(rows.indices), values
    cell, place = np.unique(cell, return_inverse=True)
    return *np.divmod(cell, max(rows.width, 1)), np.bincount(place.reshape(-1), values, len(cell))


def squared_sums(rows: Rows, offsets: np.ndarray) -> np.ndarray:
    """||sum_t |x_t| ||^2 (n,) over the rows t of each example, offsets[i]:offsets[i + 1].

    Two labellings of an example differ by sum_t x_t (e_{y_t} - e_{y'_t})^T, whose squared norm is a sum over pairs of
    rows of <x_s, x_t> times an inner product within [-2, 2]: at most twice this.
    """
    n = len(offsets) - 1
    example = np.repeat(np.arange(n), np.diff(rows.indptr[offsets]))
    example, _, sums = cell_sums(rows, example, np.abs(host(rows.data).astype(np.float64)))
    return np.bincount(example, sums**2, n)


def offsets_of(each: Iterable[Any]) -> np.ndarray:
    """Where each of the concatenated sequences begins, and the end (n + 1,)."""
    return np.cumsum([0, *map(len, each)], dtype=np.int64)


def stacked(each: Sequence[Rows], width: int) -> Rows:
    """Rows on the host, concatenated."""
    counts = np.concatenate([np.zeros(0, np.int64), *(np.diff(rows.indptr) for rows in each)])
    return Rows.unchecked(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.concatenate([np.zeros(0, np.int64), *(rows.indices for rows in each)]),
        np.concatenate([np.zeros(0), *(rows.data for rows in each)]),
        width,
    )


def with_ones(rows: Rows, row: np.ndarray, columns: Any, width: int) -> Rows:
    """Rows on the host with ``width`` columns and a 1 more at the end of each of ``row`` (k,), sorted, in new
    ``columns``.
    """
    behind = rows.indptr[row + 1]  # each row's own entries
    return Rows.unchecked(
        rows.indptr + np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows.n))]),
        np.insert(rows.indices, behind, columns),
        np.insert(rows.data, behind, 1.0),
        width,
    )


def squared_spread(x: np.ndarray) -> float:
    """4 max_y ||x_y - mean x||^2 of rows x (m, d): at least the squared distance of any two."""
    return float(4 * np.max(np.sum((x - x.mean(axis=0)) ** 2, axis=1), initial=0.0))


def not_packed(data: Any) -> TypeError:
    """The error for data that the model's ``pack`` did not return."""
    return TypeError(f"data: expected what model.pack returned, got {type(data).__name__}")


def checked(name: str, value: Any, kind: type) -> Any:
    """A field of packed data if it is of its type; TypeError otherwise."""
    if not isinstance(value, kind):
        raise TypeError(f"{name}: expected {kind.__name__}, got {type(value).__name__}")
    return value


def check_labels(labels: Any, n: int, xp: Any) -> None:
    """Raise unless labels are None, or int64 (n,) >= 0 in the namespace. ``check`` tests the upper bound."""
    if labels is None:
        return
    if not is_array_api_obj(labels) or array_namespace(labels) is not xp or labels.dtype != xp.int64:
        dtype = getattr(labels, "dtype", type(labels).__name__)
        raise TypeError(f"labels: expected int64 in the namespace of the features, got {dtype}")
    if tuple(labels.shape) != (n,):
        raise ValueError(f"labels: expected shape ({n},), one for each position, got {tuple(labels.shape)}")
    check_range("labels", host(labels), 0, 2**62)


def check_weights(model: Any, w: Array, like: Array) -> None:
    """Raise unless w (d,) has the model's size, and the namespace and dtype of ``like``, zeros of the packed data."""
    if not is_array_api_obj(w) or tuple(w.shape) != (model.size,):
        raise ValueError(
            f"w: expected {model.size} weights, got "
            f"{f'shape {tuple(w.shape)}' if hasattr(w, 'shape') else type(w).__name__}"
        )
    if not isinstance(w, type(like)) or isinstance(w, np.ma.MaskedArray) or w.dtype != like.dtype:
        raise TypeError(f"w: expected {like.dtype} in {type(like)}, as the packed data, got {w.dtype} in {type(w)}")


def all_of(n: int, batch: Any, name: str = "batch") -> np.ndarray:
    """Example numbers as host int64: None means all n; others raise an error that names ``name``."""
    if batch is None:
        return np.arange(n)
    given = host(batch, name)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise TypeError(f"{name}: expected example numbers of shape (b,), got {given.dtype} of shape {given.shape}")
    if given.size and not 0 <= given.min() <= given.max() < n:
        raise ValueError(f"{name}: expected example numbers in 0..{n - 1}, got {given.min()}..{given.max()}")
    return given.astype(np.int64)


def sized(model: Any) -> str:
    """A model's repr: its numbers of features, of labels, ..., and of weights."""
    sizes = {name: size for name, size in vars(model).items() if name.startswith("n_")}
    if hasattr(model, "size"):
        sizes["size"] = model.size
    return f"{type(model).__name__}({', '.join(f'{name}={size}' for name, size in sizes.items())})"


def label_names(labels: int | Sequence[str]) -> tuple[str, ...]:
    """The names of L labels: as given, or "0", "1", ... for a number."""
    if isinstance(labels, (int, np.integer)) and not isinstance(labels, bool):
        if labels > MOST_LABELS:
            raise ValueError(f"labels: expected at most 2^24 labels, got {shown(int(labels))}")
        names = tuple(str(i) for i in range(int(labels)))
    else:
        names = tuple(labels)  # type: ignore[arg-type]
        if not all(isinstance(name, str) for name in names):
            raise TypeError(f"labels: expected a number of labels or their names as strings, got {labels!r}")
        if len(set(names)) < len(names):
            raise ValueError("labels: names must differ")
    if not names:
        raise ValueError("labels: expected at least one label")
    return names


def label_indices(name: str, y: Any, names: tuple[str, ...]) -> np.ndarray:
    """Labels (n,) given as indices 0..L-1 or as names, as int64 indices on the host."""
    expected = "expected label names or integer indices"
    given: Any = host(y, name) if is_array_api_obj(y) else y if isinstance(y, (str, list, tuple)) else None
    if given is None:
        if not hasattr(y, "__iter__"):
            raise example_error(name, None, f"{expected}, got {y!r:.80}", TypeError)
        given = list(y)
    if isinstance(given, np.ndarray):
        if given.ndim != 1:
            raise example_error(name, None, f"{expected} of shape (n,), got shape {given.shape}", TypeError)
        if given.dtype.kind in "iu" and not (given.size and (given.min() < 0 or given.max() >= len(names))):
            return given.astype(np.int64)
        given = given.tolist()
    index = {label: i for i, label in enumerate(names)} if any(isinstance(label, str) for label in given) else None
    for t, label in enumerate(given):
        if index is not None and isinstance(label, str):
            if label not in index:
                raise example_error(name, t, f"unknown label {label!r}; the model knows {', '.join(names)}")
        elif index is not None or isinstance(label, (bool, np.bool_)) or not isinstance(label, (int, np.integer)):
            raise example_error(name, t, f"{expected}, got {label!r:.80}", TypeError)
        elif not 0 <= label < len(names):
            raise example_error(name, t, f"expected label indices in 0..{len(names) - 1}, got {shown(label)}")
    return np.array(list(given) if index is None else [index[label] for label in given], np.int64)


def packed_labels(
    Y: Any, names: tuple[str, ...], offsets: np.ndarray, place: Place, of: str = "position"
) -> Array | None:
    """The labels of all examples as read-only indices (N,), one for each of an example's positions offsets[i]:offsets[i
    + 1]; None without Y.
    """
    if Y is None:
        return None
    lengths = np.diff(offsets)
    Y = one_for_each(Y, len(lengths), "label sequences")
    each = each_example("Y", Y, lambda name, y: label_indices(name, y, names))
    check_lengths("Y", each, lengths, of)
    return lock(place.integers(np.concatenate([np.zeros(0, np.int64), *each])))


def check_lengths(argument: str, each: Sequence[Any], lengths: np.ndarray, of: str) -> None:
    """Raise an ExampleError unless each label sequence has its example's length."""
    for i, (y, length) in enumerate(zip(each, lengths, strict=True)):
        if len(y) != length:
            raise ExampleError(
                argument, i, None, f"expected {length} labels, one for each {of} of X[{i}], got {len(y)}"
            )


def label_cost(cost: Any, n_labels: int) -> np.ndarray:
    """The task loss of one label as an (L, L) matrix (true, predicted): given, or 1 where the two differ."""
    if 8 * n_labels**2 > MOST_BYTES:
        many = f"the costs of {n_labels} labels take {8 * n_labels**2 / 2**30:.3g} GiB"
        raise ValueError(f"labels: expected at most {int((MOST_BYTES // 8) ** 0.5)}, {many}")
    if cost is None:
        return 1.0 - np.eye(n_labels)
    (given,) = floats(cost=cost)
    matrix = host(given).astype(np.float64)
    if matrix.shape != (n_labels, n_labels):
        raise ValueError(f"cost: expected shape ({n_labels}, {n_labels}), got {matrix.shape}")
    if not (np.all(np.isfinite(matrix)) and np.all(matrix >= 0) and np.all(np.diag(matrix) == 0)):
        raise ValueError("cost: expected finite numbers >= 0 with zeros on the diagonal")
    return matrix
