"""Base classes by kind of output: a class for each row of a matrix, or a label for each position of a sequence.

Each base class makes a model from X and y and packs them. It translates the model's predictions into the user's classes
and labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from diptych.estimators.examples import (
    as_records,
    by_name,
    check_classes,
    checked_weights,
    classes_of,
    label_sequences,
    packed,
    share_right,
)
from diptych.estimators.features import Linear, Named
from diptych.estimators.protocol import BaseEstimator, ClassifierMixin, InPanel, check_fitted, rows_of
from reference.arrays import host
from reference.example_errors import ExampleError, ExampleTypeError, listed
from reference.models.base import label_cost
from reference.models.costs import with_class_weights
from reference.models.partial import members
from reference.models.tagging import TaggingModel
from reference.models.token_templates import attributes_of

HASHED = "names are not kept: features are hashed, and numbers are what they are hashed to"


class Classes(ClassifierMixin, Linear, InPanel):
    """Predictors of a class from a row; ``cost`` and ``fit_intercept`` are as in :class:`MulticlassClassifier`."""

    loss: str
    cost: Any = None
    fit_intercept: bool
    n_features_in_: int

    def _model_of(self, X: Any, y: Any, classes: Any = None) -> tuple[Any, Any, np.ndarray]:
        """A model for X (n, d) and y (n,), the rows and the class numbers that it packs.

        classes: default those of y.
        """
        if y is None:
            raise ValueError(f"y: {type(self).__name__} requires y to be passed, but the target y is None")
        X, y = rows_of(self, X, y, reset=True)
        if y.dtype.kind == "O" and None in (classes_given := y.tolist()):
            raise ExampleTypeError("y", classes_given.index(None), None, "expected a class, got None")
        check_classes(y)
        self.classes_ = np.unique(y if classes is None else np.asarray(classes))
        intercept, names = bool(self.fit_intercept), [str(c) for c in self.classes_.tolist()]
        columns = X.shape[1] + intercept
        model = self._panel.MulticlassModel(columns, names, cost=self.cost, intercept=intercept)
        return model, X, self._numbers_of(y)

    def _same_model_of(self, X: Any, y: Any, classes: Any) -> tuple[Any, Any, np.ndarray]:
        """The existing model, and the rows and class numbers of more examples."""
        same_classes(self.classes_, classes)
        X, y = rows_of(self, X, y)
        return self.model_, X, self._numbers_of(y)

    def _numbers_of(self, y: np.ndarray) -> np.ndarray:
        """(n,): the index of each class in ``classes_``."""
        for i in np.flatnonzero(~np.isin(y, self.classes_))[:1].tolist():
            problem = f"expected classes among {self.classes_.tolist()}, got {y[i : i + 1].tolist()[0]!r}"
            raise ExampleError("y", i, None, problem)
        return np.searchsorted(self.classes_, y)

    def _named(self, model: Any, w: Any) -> Named:
        names = [*getattr(self, "feature_names_in_", range(self.n_features_in_))]
        intercept = ["intercept"] if self.fit_intercept else []
        classes = self.classes_.tolist()
        return Named(self._matrix(w), None, [*names, *intercept], classes)

    def _coefficients(self, w: Any) -> np.ndarray:
        return self._rows(w)[:, : self.n_features_in_]

    @property
    def intercept_(self) -> np.ndarray:
        """(L,): the intercept of each row of ``coef_``; zeros without intercepts."""
        return self._intercepts(self.weights_)

    def _intercepts(self, w: Any) -> np.ndarray:
        rows = self._rows(w)
        return rows[:, -1] if self.fit_intercept else np.zeros(len(rows))

    def _rows(self, w: Any) -> np.ndarray:
        """A row for each class, the intercept last; for two classes one row, the second class's less the first's."""
        rows = self._matrix(w).T
        return rows[1:] - rows[:1] if len(rows) == 2 else rows

    def _matrix(self, w: Any) -> np.ndarray:
        """Weights (d,) as a matrix: a row for each feature, the intercepts last; a column for each class."""
        return np.asarray(host(w)).reshape(-1, len(self.classes_))

    def _scores(self, X: Any) -> np.ndarray:
        check_fitted(self)
        data = self.model_.pack(rows_of(self, X))
        return np.asarray(self.model_.scores(data, np.arange(data.n), self.weights_).values)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores (n, L). For two classes, (n,): the second class's score minus the first's."""
        scores = self._scores(X)
        return scores if scores.shape[1] > 2 else scores[:, -1] - scores[:, 0] if scores.shape[1] == 2 else scores[:, 0]

    def predict(self, X: Any) -> np.ndarray:
        """The best class (n,) of each row of X (n, d)."""
        best = np.argmax(self._scores(X), axis=1)
        classes: np.ndarray = self.classes_[best]
        return classes

    @property
    def predict_proba(self) -> Callable[[Any], np.ndarray]:
        """predict_proba(X): probabilities (n, L); only for the log loss."""
        if self.loss != "crf":
            raise AttributeError(f"predict_proba: the {self.loss} loss makes no probabilities; loss='crf' does")
        return lambda X: np.asarray(self._panel.Table(self._scores(X)).expectation()[1].values)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows with the right class."""
        best, y = self.predict(X), np.asarray(listed("y", y))
        if best.shape != y.shape:
            raise ValueError(f"y: expected shape {best.shape}, a class for each row of X, got {y.shape}")
        weights = None if sample_weight is None else checked_weights(sample_weight, len(y))
        return float(np.average(best == y, weights=weights))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def same_classes(first: np.ndarray, classes: Any) -> None:
    """Raise ValueError if a later call has other classes than the first."""
    if classes is not None and not np.array_equal(given := np.unique(np.asarray(classes)), first):
        raise ValueError(f"classes: expected those of the first call, {first.tolist()}, got {given.tolist()}")


class Structured(InPanel, BaseEstimator):
    """Estimators whose X and Y are sequences of examples, not arrays."""

    predict: Callable[[Any], list[list[Any]]]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of positions with the right label or head; each position counts with its sequence's weight."""
        return share_right(y, self.predict(X), sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.target_tags.required = False, True
        tags.no_validation = True  # each estimator validates its examples itself
        return tags


class LabelSequences(Linear, Structured):
    """Predictors of a label at each position.

    ``cost``, ``transitions``, ``pairs``, ``bits`` and ``least`` are as in :class:`SequenceLabeler`.
    """

    loss: str
    cost: Any = None
    class_weight: Any = None
    transitions: Any
    pairs: str | None
    bits: int | None
    least: int | None

    def _model_of(self, X: Any, y: Any, classes: Any = None) -> tuple[Any, Any, list[list[str]]]:
        """A model for sequences and their labels, and the X and Y that it packs.

        classes: default those of y.
        """
        X = as_records(X)
        each = label_sequences(X, y, partial=True)
        self.classes_, names = classes_of(each if classes is None else [classes])
        Y = self._names_of(each)
        if by_name(X):
            if self.bits is not None and self.least is not None:
                raise ValueError(f"least: has no effect with bits, which keep no vocabulary, got {self.least}")
            kept = {"pairs": self.pairs, "bits": self.bits, "least": self.least}
            kept = {name: value for name, value in kept.items() if value is not None}
            if classes is not None:
                return self._weighted(self._hashing(names), None), X, Y
            of, options = self._panel.TaggingModel.of, {"transitions": self.transitions, "cost": self._cost(names)}
            X = packed(attributes_of, X, None)
            model = packed(of, X, Y, None, **options, **kept)
        else:
            if self.transitions is not None or self.bits is not None:
                raise ValueError("transitions, bits: of features by name alone, got arrays")
            if self.pairs is not None or self.least is not None:
                raise ValueError("pairs, least: of features by name alone, got arrays")
            width = next((x.shape[1] for x in X if hasattr(x, "shape") and len(x.shape) == 2), 0)
            model = self._panel.SequenceModel(width, names, cost=self.cost)
        return self._weighted(model, Y if classes is None else None), X, Y

    def _weighted(self, model: Any, Y: list[list[str]] | None) -> Any:
        """The model with the class weights in its costs. Y: all labels, None if there will be more."""
        weights = self.class_weight
        if weights is None:
            return model
        if isinstance(weights, Mapping):
            weights = {str(label): weight for label, weight in weights.items()}
        counts = None
        if Y is not None:
            times = Counter(label for y in Y for label in y)
            counts = [times[label] for label in model.labels]
        return with_class_weights(model, weights, counts)

    def _hashing(self, names: list[str]) -> Any:
        """A model that hashes named features, so that later sequences may bring new ones."""
        if self.bits is None:
            raise ValueError("partial_fit: features by name need bits, as later sequences bring new ones")
        if self.pairs not in (None, "all"):
            raise ValueError(f"pairs: partial_fit has weights for all pairs, got {self.pairs!r}")
        kept = {"bits": self.bits, "transitions": self.transitions, "cost": self._cost(names)}
        return self._panel.TaggingModel(sorted(names), None, **kept)

    def _same_model_of(self, X: Any, y: Any, classes: Any) -> tuple[Any, Any, list[list[str]]]:
        """The existing model, and the X and Y that it packs for more sequences."""
        same_classes(self.classes_, classes)
        X = as_records(X)
        each = label_sequences(X, y, partial=True)
        return self.model_, X, self._names_of(each)

    def _names_of(self, each: list[Any], argument: str = "y") -> list[list[Any]]:
        """The labels of each sequence as strings, the model's names of labels; of sets, sets of them."""
        names = {c: str(c) for c in self.classes_.tolist()}
        for i, y in enumerate(each):
            for t, label in ((t, label) for t, several in enumerate(y) for label in members(several)):
                if label not in names:
                    problem = f"expected labels among {', '.join(names.values())}, got {label!r}"
                    raise ExampleError(argument, i, t, problem)
        named = {None: None, **names}
        return [
            [{names[a] for a in label} if isinstance(label, set | frozenset) else named[label] for label in y]
            for y in each
        ]

    def _cost(self, names: list[str]) -> Any:
        """The costs in the tagging model's order of labels, which is by name."""
        if self.cost is None:
            return None
        order = np.argsort(np.array(names))
        return label_cost(self.cost, len(names))[np.ix_(order, order)]

    def _packed(self, X: Any) -> Any:
        check_fitted(self)
        return self.model_.pack(as_records(X))

    def _labels(self, model: Any = None) -> np.ndarray:
        """The index in ``classes_`` of each label of the model."""
        place = {str(c): i for i, c in enumerate(self.classes_)}
        return np.array([place[name] for name in (model or self.model_).labels])

    def _named(self, model: Any, w: Any) -> Named:
        matrix, transitions = model.split(w)
        names = model.vocabulary if isinstance(model, TaggingModel) else None
        rows = names or [*range(model.width - 2 * model.start_stop), *(["start", "stop"] if model.start_stop else [])]
        note = HASHED if getattr(model, "bits", None) is not None else None
        return Named(host(matrix), host(transitions), rows, self.classes_[self._labels(model)].tolist(), note)

    def _flat(self, model: Any, named: Named) -> np.ndarray:
        full = np.concatenate([np.ravel(w) for w in (named.matrix, named.transitions) if w is not None])
        weights: np.ndarray = full[model.cells] if isinstance(model, TaggingModel) else full
        return weights

    def predict(self, X: Any, known: Any = None) -> list[list[Any]]:
        """The best labels (n_i,) of each sequence, as a list of str or int.

        known: partly known labels (n_i,) of each sequence, each a label, a set of labels or None: only these are
        predicted.
        """
        data, classes = self._packed(X), self.classes_[self._labels()].tolist()
        names = None if known is None else self._names_of(listed("known", known), "known")
        return [[classes[k] for k in y] for y in self.model_.predict(data, None, self.weights_, known=names)]

    def predict_marginals(self, X: Any, known: Any = None) -> list[np.ndarray]:
        """The probability (n_i, L) of each label at each position, in the order of ``classes_``; log loss only.

        known: as for :meth:`predict`; the probabilities are those given these labels.
        """
        if self.loss != "crf":
            raise AttributeError(f"predict_marginals: the {self.loss} loss makes no probabilities; loss='crf' does")
        data = self._packed(X)
        probabilities: list[Any] = [None] * data.n
        constrained = known
        if known is not None:
            constrained = self.model_.constrained(data, self._names_of(listed("known", known), "known"))
        for piece in self.model_.chunks(data, np.arange(data.n)):
            scores = self.model_.scores(data, piece, self.weights_)
            scores = scores if constrained is None else self.model_.within(constrained, piece, scores)
            structure = self.model_.structure_type.unchecked(scores)
            marginals = host(structure.expectation()[1].unary)
            for i, p in zip(piece.tolist(), marginals, strict=True):
                probabilities[i] = np.zeros((int(data.lengths[i]), len(self.classes_)))
                probabilities[i][:, self._labels()] = p[: int(data.lengths[i])]
        return probabilities
