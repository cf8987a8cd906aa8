"""Sparse conditional random fields with ``fit``, ``predict`` and ``score``: the elastic net with safe screening, at one
beta or along a path.

    SparseCRF(beta_share=0.1)                     # labels of sequences
    SparseClassifier(beta_share=0.1)              # classes of rows
    SparseCRFPath(count=50, held_out=0.2)         # 50 betas; keeps the one with the least held-out loss
    SparseClassifierPath(cv=5)                    # chosen by five folds

The objective is mean_i -log p(y_i | x_i; w) + beta (alpha/2 ||w||^2 + ||w||_1). Inputs, labels and predictions are
those of :class:`SequenceLabeler` and :class:`MulticlassClassifier`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from diptych.certificates import SCALE, advised, scaling
from diptych.elastic_net import elastic_net, has_dual_kernels
from diptych.estimators.examples import packed
from diptych.estimators.features import Linear
from diptych.estimators.protocol import BaseEstimator, ConvergenceWarning, InPanel, check_fitted, generator_of
from diptych.estimators.targets import Classes, LabelSequences
from diptych.sparse_fits import (
    ChosenPath,
    beta_of,
    one_label,
    rule_of,
    searched,
    sequences_of,
    splits,
)
from reference.arrays import host, number


@dataclass(repr=False, eq=False, kw_only=True)
class Sparse(Linear, InPanel, BaseEstimator):
    """The common part: the objective, the screening rule and the remaining weights."""

    loss = "crf"
    listed: ClassVar[bool]  # whether outputs can be enumerated
    alpha: Any = 1.0
    tol: float = 1e-6
    rule: Any = "l1-gap"
    solver: Any = None
    iterations: int = 10000
    random_state: Any = None
    panel: str = "accelerated"

    def _options(self, rng: np.random.Generator, alpha: float) -> dict[str, Any]:
        """The common arguments of ``solve_sparse`` and ``sparse_path``."""
        options = {"alpha": alpha, "tol": self.tol, "solver": self.solver, "iterations": self.iterations}
        rule = "l1-gap" if self._by_itself else self.rule
        return {**options, "rule": rule_of(self._panel, rule, rng, listed=self.listed, alpha=alpha)}

    @property
    def _by_itself(self) -> bool:
        return isinstance(self.rule, str) and self.rule == "auto"

    def _keep(self, model: Any, w: Any, iterations: int) -> None:
        self.model_, self.weights_, self.n_iter_ = model, w, max(iterations, 1)
        self.support_ = np.flatnonzero(host(w))

    def selected(self, top: int | None = None) -> dict[Any, list[tuple[Any, float]]]:
        """The features with a nonzero weight for each class or label, in decreasing order of absolute weight.

        top: the number of features of each label; default all. A feature is given by its name if it has one, else by
        its column. "intercept", "start" and "stop" are the features that the model adds.
        """
        check_fitted(self)
        rows = self.top_features(int(np.size(self.weights_))) if top is None else self.top_features(top)
        features: dict[Any, list[tuple[Any, float]]] = {label: [] for label in self.classes_.tolist()}
        for label, feature, weight in rows:
            features[label].append((feature, weight))
        return features


@dataclass(repr=False, eq=False, kw_only=True)
class SparseRows(Classes, Sparse):
    """A sparse model of one class per row."""

    listed = True
    fit_intercept: bool = True


@dataclass(repr=False, eq=False, kw_only=True)
class SparseLabels(LabelSequences, Sparse):
    """A sparse model of label sequences."""

    listed = False
    rule: Any = "auto"
    transitions: Any = None
    pairs: str | None = None
    bits: int | None = None
    least: int | None = None

    def selected_transitions(self) -> dict[tuple[Any, Any], float]:
        """The pairs of successive labels with a nonzero weight, and the weight, in decreasing order of weight."""
        check_fitted(self)
        transitions, labels = host(self.model_.split(self.weights_)[1]), self.classes_[self._labels()].tolist()
        weights = {(labels[a], labels[b]): float(transitions[a, b]) for a, b in np.argwhere(transitions).tolist()}
        return dict(sorted(weights.items(), key=lambda item: -item[1]))


@dataclass(repr=False, eq=False, kw_only=True)
class OneBeta(Sparse):
    """A fit at one beta."""

    beta: float | None = None
    beta_share: float | None = None
    warm_start: bool = False

    def fit(self, X: Any, y: Any) -> Any:
        """Learn from examples and their classes, or labels."""
        last = self._last(self.warm_start)
        model, X, Y = self._model_of(X, y)
        objective = self._panel.LogLoss(model, packed(model.pack, X, Y))
        self.beta_max_ = self._panel.beta_max(objective)
        self.beta_ = beta_of(self.beta, self.beta_share, self.beta_max_)
        options = self._options(generator_of(self.random_state), number("alpha", self.alpha))
        start = self._start_from(last, model)
        if self._by_itself and self.solver is None and has_dual_kernels(objective):
            same = {name: options[name] for name in ("tol", "iterations")}
            result = elastic_net(objective, l1=self.beta_, lam=options["alpha"] * self.beta_, **same, **start)
        else:
            result = self._panel.solve_sparse(objective, beta=self.beta_, **start, **options)
        self.result_ = advised(self._panel, result, objective, {})
        self._keep(model, self.result_.x, self.result_.nit)
        if not self.result_.success or SCALE in self.result_.message:
            warnings.warn(f"solve_sparse: {self.result_.message}", ConvergenceWarning, stacklevel=2)
        elif line := one_label(model, objective.data, self.weights_, self.beta_max_):
            warnings.warn(f"solve_sparse: {line}", stacklevel=2)
        return self


@dataclass(repr=False, eq=False, kw_only=True)
class ManyBetas(Sparse):
    """A fit along a path of beta. The loss on held-out examples chooses beta."""

    betas: Any = None
    count: int | None = None
    ratio: float | None = None
    held_out: float | None = None
    cv: Any = None

    def fit(self, X: Any, y: Any) -> Any:
        """Learn from examples and their classes or labels.

        There is one path over all examples, and one over the training part of each split to measure held-out losses.
        """
        for name, of in (("count", "betas"), ("ratio", "betas"), ("held_out", "cv")):
            if getattr(self, name) is not None and getattr(self, of) is not None:
                raise ValueError(f"{name}: has no effect with {of}, got {getattr(self, name)}")
        rng = generator_of(self.random_state)
        cv = self.cv.split(X, y) if hasattr(self.cv, "split") and not isinstance(self.cv, str) else self.cv
        model, X, Y = self._model_of(X, y)
        full = self._panel.LogLoss(model, packed(model.pack, X, Y))
        pairs = splits(full.n, _or(self.held_out, 0.2), cv, rng, Y if isinstance(Y, np.ndarray) else None)

        def objective(examples: np.ndarray) -> Any:
            some = model.pack(X[examples], Y[examples]) if self.listed else sequences_of(full.data, examples)
            return self._panel.LogLoss(model, some)

        values: dict[str, Any] = {"count": _or(self.count, 100), "ratio": _or(self.ratio, 0.1)}
        if self.betas is not None:
            values = {"betas": self.betas}
        elif self._panel.beta_max(full) == 0:
            values = {"betas": [1.0]}
        parts = [(objective(training), objective(held)) for training, held in pairs]
        tried: list[ChosenPath] = []
        deepen = self.ratio is None and self.betas is None
        for alpha in self._alphas():
            found, stopped = searched(self._panel, full, parts, values, deepen, **self._options(rng, alpha))
            tried.append(found)
            if stopped:
                break
        best = min(tried, key=lambda each: each.loss)
        path, self.searched_ = best.path, tuple(tried)
        self.path_, self.betas_, self.held_out_losses_ = path, path.betas, best.held_out.losses
        self.alpha_, self.beta_max_, self.beta_ = path.alpha, path.beta_max, float(path.betas[best.chosen])
        self._keep(model, path.weights(best.chosen), sum(point.iterations for point in path.points))
        problems = []
        if wrong := [point for point in path.points if not point.success]:
            problems.append(f"the duality gap is {wrong[0].gap} at beta = {wrong[0].beta}, and {len(wrong) - 1} more")
        if unsolved := sum(each.held_out.unsolved for each in tried):
            problems.append(f"{unsolved} of the solutions that beta is chosen by have not converged")
        if problems:
            warnings.warn(f"sparse_path: {'; '.join(problems)}{scaling(full.data)}", ConvergenceWarning, stacklevel=2)
        for line in () if problems else (best.at_end, one_label(model, full.data, self.weights_, self.beta_max_)):
            if line:
                warnings.warn(f"sparse_path: {line}", stacklevel=2)
        return self

    def _alphas(self) -> list[float]:
        if np.ndim(self.alpha) == 0:
            return [number("alpha", self.alpha)]
        alphas = [number(f"alpha[{i}]", alpha) for i, alpha in enumerate(self.alpha)]
        if not alphas:
            raise ValueError("alpha: expected at least one")
        return alphas

    @property
    def coefs_(self) -> np.ndarray:
        """(k, ...): ``coef_`` at each of ``betas_``, computed at each access."""
        check_fitted(self)
        return np.stack([host(self._coefficients(self.path_.weights(k))) for k in range(len(self.path_.points))])


def _or(value: Any, usual: Any) -> Any:
    return usual if value is None else value


@dataclass(repr=False, eq=False, kw_only=True)
class SparseClassifier(OneBeta, SparseRows):
    """A sparse linear classifier: multinomial logistic regression with the elastic net.

    argmin_w mean_i -log p(y_i | x_i; w) + beta (alpha/2 ||w||^2 + ||w||_1), where w includes the intercepts

    Parameters
    ----------
    beta : float > 0, optional
        Strength of the elastic net.
    beta_share : float > 0, optional
        beta as a share of ``beta_max_``, the beta at which all weights are 0. Default: 0.1, unless beta is given.
    alpha : float >= 0
        Weight of 1/2 ||w||^2 relative to ||w||_1; 0 is the lasso.
    tol : float >= 0
        Stop when the duality gap is at most tol times the objective.
    rule : {"l1-gap", "l2-gap", "half-space", "count", "union", "none"}, or a rule
        The screening rule; "union" is l1-gap, count and half-space. The rule does not change the solution.
    solver, iterations
        As in :func:`solve_sparse`.
    random_state : int, RandomState, Generator or None
        Draws the half-spaces.
    fit_intercept, warm_start, panel
        As in :class:`MulticlassClassifier`.

    Attributes
    ----------
    classes_, coef_, intercept_, weights_
        As in :class:`MulticlassClassifier`.
    support_ : int array (k,)
        Indices of the nonzero ``weights_``; ``selected()`` names them.
    beta_, beta_max_ : float
    result_ : SparseResult
        ``certificate`` is the duality gap.
    model_ : MulticlassModel

    Notes
    -----
    Sample weights are not supported.

    Examples
    --------
    >>> from diptych.estimators import SparseClassifier
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [0.0, 2.0], [2.0, 0.0]], ["up", "right", "up", "right"]
    >>> learner = SparseClassifier(beta_share=0.5).fit(X, y)
    >>> learner.predict([[0.0, 3.0]]).tolist(), len(learner.support_)
    (['up'], 4)
    >>> sorted(feature for feature, weight in learner.selected()["up"])
    [0, 1]

    Source
    ------
    Zhang and Qiu, equation (P).
    """


@dataclass(repr=False, eq=False, kw_only=True)
class SparseClassifierPath(ManyBetas, SparseRows):
    """:class:`SparseClassifier` along a path of beta. It keeps the beta with the least loss on held-out examples.

    Parameters
    ----------
    betas : sequence (k,) of floats > 0, optional
        Best in decreasing order. Default: ``count`` values from ``beta_max_`` to ``ratio`` times ``beta_max_``, equally
        spaced on the logarithmic scale.
    count : int >= 1, optional
        Number of default betas; 100.
    ratio : float in (0, 1), optional
        The smallest default beta as a share of ``beta_max_``. Default: 0.1, and then four betas a decade as long as the
        held-out loss of the first fold falls by at least 0.1 % of its value at w = 0, down to 1e-6.
    held_out : float in (0, 1), optional
        Share of the examples that is held out to choose beta, drawn at random and stratified by class. Default: 0.2.
    cv : int, pairs of arrays, or an object with ``split(X, y)``, optional
        Choose beta by several folds instead of ``held_out``: the number of folds, or the training and held-out examples
        of each fold.
    alpha : float >= 0, or a sequence of these
        Several: compute a path for each alpha and keep the one with the least held-out loss; of equals, the first.
    tol, rule, fit_intercept, solver, iterations, random_state, panel
        As in :class:`SparseClassifier`. ``random_state`` also draws the held-out examples.

    Attributes
    ----------
    path_ : SparsePath
        The path over all examples.
    betas_ : array (k,)
    coefs_, intercepts_ : array
        ``coef_`` and ``intercept_`` at each of ``betas_``. ``path_.weights(k)`` has the flat weights.
    held_out_losses_ : array (k, folds)
        Mean of -log p(y | x) over the held-out examples of each fold, with weights from the other examples.
    beta_ : float
        The one of ``betas_`` with the least mean loss over all held-out examples; of equals, the largest.
    alpha_ : float
    searched_ : tuple
        For each alpha its ``path``, its ``held_out`` losses (with ``losses`` and ``mean``) and the index ``chosen`` of
        its best point.
    coef_, intercept_, weights_, support_, classes_, beta_max_, model_
        As in :class:`SparseClassifier`, at ``beta_``.

    Examples
    --------
    >>> import numpy as np
    >>> from diptych.estimators import SparseClassifierPath
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> learner = SparseClassifierPath(count=5, cv=3, random_state=0).fit(X, X[:, 2] > 0)
    >>> len(learner.betas_), learner.coefs_.shape, learner.held_out_losses_.shape
    (12, (12, 1, 4), (12, 3))
    >>> learner.selected()[True][0][0]
    2
    """

    @property
    def intercepts_(self) -> np.ndarray:
        """(k, ...): ``intercept_`` at each of ``betas_``, computed at each access."""
        check_fitted(self)
        return np.stack([self._intercepts(self.path_.weights(k)) for k in range(len(self.path_.points))])


@dataclass(repr=False, eq=False, kw_only=True)
class SparseCRF(OneBeta, SparseLabels):
    """A sparse linear-chain conditional random field: the elastic net.

    argmin_w mean_i -log p(y_i | x_i; w) + beta (alpha/2 ||w||^2 + ||w||_1), over sequences i

    Parameters
    ----------
    beta : float > 0, optional
        Strength of the elastic net; crfsuite's c1 = beta n and c2 = alpha beta n / 2.
    beta_share : float > 0, optional
        beta as a share of ``beta_max_``, the beta at which all weights are 0. Default: 0.1, unless beta is given.
    alpha, tol, rule, solver, iterations, warm_start, random_state, panel
        As in :class:`SparseClassifier`. The rules for sequences are "l1-gap", "count" and "union" of these two. "auto",
        the default: exponentiated gradient on the dual where it has kernels (:func:`diptych.elastic_net.elastic_net`),
        else "l1-gap".
    transitions, pairs, bits, least
        Named features only, as in :class:`SequenceLabeler`.

    Attributes
    ----------
    classes_ : array (L,)
        Labels in order.
    coef_, weights_ : array (d,)
    support_ : int array (k,)
        Indices of the nonzero ``weights_``; ``selected()`` and ``selected_transitions()`` name them.
    beta_, beta_max_ : float
    result_ : SparseResult
    model_ : SequenceModel or TaggingModel

    Notes
    -----
    X and Y are as in :class:`SequenceLabeler`. Sample weights are not supported.

    Examples
    --------
    >>> from diptych.estimators import SparseCRF
    >>> X = [[["w=the"], ["w=duck"], ["w=swims"]], [["w=a"], ["w=duck"]]]
    >>> labeler = SparseCRF(beta_share=0.3).fit(X, [["B", "I", "O"], ["B", "I"]])
    >>> labeler.predict([[["w=a"], ["w=duck"], ["w=swims"]]])
    [['B', 'I', 'O']]
    >>> labeler.selected()["O"][0][0], len(labeler.support_) < labeler.model_.size
    ('w=swims', True)

    Source
    ------
    Zhang and Qiu, equation (P).
    """


@dataclass(repr=False, eq=False, kw_only=True)
class SparseCRFPath(ManyBetas, SparseLabels):
    """:class:`SparseCRF` along a path of beta. It keeps the beta with the least loss on held-out sequences.

    Parameters
    ----------
    betas, count, ratio, held_out, cv, alpha
        As in :class:`SparseClassifierPath`.
    tol, rule, transitions, pairs, bits, least, solver, iterations, random_state, panel
        As in :class:`SparseCRF`.

    Attributes
    ----------
    path_, betas_, held_out_losses_, beta_, alpha_, searched_
        As in :class:`SparseClassifierPath`.
    coefs_ : array (k, d)
        The weights at each of ``betas_``.
    coef_, weights_, support_, classes_, beta_max_, model_
        As in :class:`SparseCRF`, at ``beta_``.

    Examples
    --------
    >>> from diptych.estimators import SparseCRFPath
    >>> X, Y = [[["w=the"], ["w=duck"], ["w=swims"]], [["w=a"], ["w=duck"]]] * 2, [["B", "I", "O"], ["B", "I"]] * 2
    >>> labeler = SparseCRFPath(count=5, held_out=0.25, random_state=0).fit(X, Y)
    >>> len(labeler.betas_) == len(labeler.held_out_losses_) > 5  # the loss falls below a tenth of beta_max
    True
    """
