"""scikit-learn's base classes and exceptions, or minimal substitutes if that package is not installed."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from diptych.panels import panel_of
from reference.arrays import unmasked
from reference.example_errors import ExampleError, ExampleTypeError, listed

try:
    from sklearn.base import BaseEstimator as BaseEstimator
    from sklearn.base import ClassifierMixin as ClassifierMixin
    from sklearn.exceptions import ConvergenceWarning as ConvergenceWarning
    from sklearn.exceptions import NotFittedError as NotFittedError
except ImportError:

    class NotFittedError(ValueError, AttributeError):  # type: ignore[no-redef]
        """A prediction before :meth:`fit`."""

    class ConvergenceWarning(UserWarning):  # type: ignore[no-redef]
        """A fit that stopped before it converged."""

    class BaseEstimator:  # type: ignore[no-redef]
        """The constructor's arguments by name."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """The constructor's arguments."""
            _, *names = inspect.signature(type(self).__init__).parameters
            return {name: getattr(self, name) for name in names}

        def set_params(self, **params: Any) -> Any:
            """Change some of the constructor's arguments."""
            names = self.get_params()
            for name, value in params.items():
                if name not in names:
                    raise ValueError(f"{name}: no parameter of {type(self).__name__}, which has {', '.join(names)}")
                setattr(self, name, value)
            return self

        def __repr__(self) -> str:
            arguments = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
            return f"{type(self).__name__}({arguments})"

    class ClassifierMixin:  # type: ignore[no-redef]
        """An empty substitute."""


class InPanel:
    """Estimators with a parameter ``panel``, the name of the panel that computes."""

    panel: str

    @property
    def _panel(self) -> ModuleType:
        return panel_of(self.panel)


def check_fitted(estimator: Any) -> None:
    """Raise NotFittedError before ``fit``."""
    if not hasattr(estimator, "weights_"):
        name = type(estimator).__name__
        raise NotFittedError(f"this {name} is not fitted yet: call fit before what needs its weights")


def generator_of(random_state: Any) -> np.random.Generator:
    """A generator from ``random_state``: None, an integer, a RandomState or a Generator."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    return np.random.default_rng(random_state)


def rows_of(estimator: Any, X: Any, y: Any = None, *, reset: bool = False) -> Any:
    """X (n, d), dense or CSR, finite float64; with y, the pair (X, y).

    If scikit-learn is installed, it checks both, and compares the columns with those of ``fit``.
    """
    # scikit-learn would use the values behind a mask
    X, y = unmasked("X", X), None if y is None else unmasked("y", listed("y", y))
    try:
        from sklearn.utils.validation import validate_data
    except ImportError:
        X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X, dtype=np.float64)
        if reset:
            estimator.n_features_in_ = int(X.shape[1])
        return X if y is None else (X, np.asarray(y))
    options: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "reset": reset}
    try:
        return validate_data(estimator, X, **options) if y is None else validate_data(estimator, X, y, **options)
    except (TypeError, ValueError):
        for argument, values in (("X", X), ("y", y)):
            for place in np.argwhere([] if values is None or hasattr(values, "tocsr") else _not_finite(values))[:1]:
                field = f"column {place[1]}: " if len(place) > 1 else ""
                problem = f"{field}expected a finite number, got {np.asarray(values)[tuple(place)]}"
                raise ExampleError(argument, int(place[0]), None, problem.replace("nan", "NaN")) from None
        for i, row in enumerate(X if isinstance(X, (list, tuple)) else ()):
            if not _are_numbers(row):
                hint = "; scikit-learn's DictVectorizer makes rows of dictionaries" if isinstance(row, Mapping) else ""
                raise ExampleTypeError("X", i, None, f"expected a row of numbers, got {row!r:.80}{hint}") from None
            if len(row) != len(X[0]):
                raise ExampleError("X", i, None, f"expected {len(X[0])} numbers as in X[0], got {len(row)}") from None
        raise


def _are_numbers(row: Any) -> bool:
    try:
        return np.asarray(row, np.float64).ndim == 1
    except (TypeError, ValueError):
        return False


def _not_finite(values: Any) -> np.ndarray:
    """Which of the values are None, nan or infinite; strings are not."""
    try:
        return ~np.isfinite(np.asarray(values, np.float64))
    except (TypeError, ValueError):
        given = np.asarray(values, object)
        return np.array([value is None for value in given.flat], bool).reshape(given.shape)
