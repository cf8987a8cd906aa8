"""Learners with ``fit``, ``predict`` and ``score``. They work in scikit-learn's pipelines, searches and
cross-validation.

    labeler = SequenceLabeler()                               # panel="reference" selects the other panel
    GridSearchCV(labeler, {"lam": [0.1, 0.01]}, cv=3).fit(X, Y)

A learner combines a model, a loss and an optimiser of a panel: ``optimizer(objective, lam=lam, **options)`` minimises
``loss`` plus lam/2 ||w||^2. ``fit`` sets ``model_``, ``weights_`` (of the model) and ``result_`` (with history and
certificate). scikit-learn is optional; if it is installed, the learners use its parameter handling, cloning and input
checks.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from diptych.defaults import sequence_lam
from diptych.elastic_net import without_zeros
from diptych.estimators.examples import classes_of, dense_sequences, label_sequences, packed
from diptych.estimators.features import Named
from diptych.estimators.learner import Learner, check_options, rng_of
from diptych.estimators.protocol import ConvergenceWarning, check_fitted
from diptych.estimators.targets import HASHED, Classes, LabelSequences, Structured
from reference.arrays import number
from reference.example_errors import listed
from reference.kernels import Explicit, Kernel
from reference.models.kernel_names import named
from reference.models.tagging import TaggingModel

__all__ = ["DependencyParser", "KernelSequenceLabeler", "MulticlassClassifier", "SequenceLabeler"]

L = TypeVar("L")


@dataclass(repr=False, eq=False, kw_only=True)
class MulticlassClassifier(Classes, Learner):
    """A linear classifier: multinomial logistic regression or the multiclass SVM, optionally with a cost matrix.

    Parameters
    ----------
    loss : {"crf", "hinge", "softmax-margin"}
        The log loss, the hinge of Crammer and Singer, or the log loss of scores plus costs.
    lam : float >= 0, optional
        Weight of 1/2 ||w||^2; w includes the intercepts. C = 1/(lam n). Default: 0.01.
    optimizer : str or function, optional
        An optimiser, or its name in the panel. Default: L-BFGS for the log loss, block-coordinate Frank-Wolfe for the
        hinge.
    options : dict, optional
        Further arguments of the optimiser, such as ``{"epochs": 20, "tol": 1e-3}``.
    smoothing : optional
        Smoothing of the hinge, such as ``smoothings.Entropy()``. The optimiser's option ``mu`` sets its strength.
    cost : array (L, L), optional
        For the hinge and softmax-margin: entry (i, j) is the cost of predicting class j for class i, in the order of
        ``classes_``.
    fit_intercept : bool
    warm_start : bool
        Whether ``fit`` starts from the last fit's weights. Features and labels are matched by name; new ones start
        at 0.
    random_state : int, RandomState, Generator or None
    panel : {"accelerated", "reference"}
        The panel that computes.

    Attributes
    ----------
    classes_ : array (L,)
    coef_, intercept_ : array (L, n_features_in_), array (L,)
        For two classes one row, as in scikit-learn: the second class's less the first's.
    weights_ : array (d,)
        The weights of ``model_``: a matrix (n_features_in_ + 1, L) in C order. The last row holds the intercepts.
    result_ : Result
    model_ : MulticlassModel

    Examples
    --------
    >>> from diptych.estimators import MulticlassClassifier
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [0.0, 2.0], [2.0, 0.0]], ["up", "right", "up", "right"]
    >>> MulticlassClassifier(lam=0.1).fit(X, y).predict([[0.0, 3.0]]).tolist()
    ['up']
    """

    cost: Any = None
    fit_intercept: bool = True


def told_of_crfsuite(kind: type[L]) -> type[L]:
    """Let the constructor of a class say what crfsuite's c1 and c2 are in our units."""
    init: Any = kind.__init__

    @functools.wraps(init)
    def __init__(self: Any, *arguments: Any, **parameters: Any) -> None:
        theirs = {name: parameters.pop(name) for name in ("c1", "c2") if name in parameters}
        if theirs:
            given = ", ".join(f"{name}={value!r:.40}" for name, value in theirs.items())
            ours = {"c1": "l1={!r:.40} / n", "c2": "lam=2 * {!r:.40} / n"}
            same = ", ".join(ours[name].format(value) for name, value in theirs.items())
            why = f"{given} in crfsuite's units is {same} in ours, for n sequences"
            raise TypeError(f"{' and '.join(theirs)}: {why}; diptych.crfsuite.CRF takes c1 and c2")
        init(self, *arguments, **parameters)

    kind.__init__ = __init__  # type: ignore[method-assign]
    return kind


@told_of_crfsuite
@dataclass(repr=False, eq=False, kw_only=True)
class SequenceLabeler(LabelSequences, Learner):
    """A linear-chain labeller: a conditional random field or a structural SVM.

    Parameters
    ----------
    loss : {"crf", "hinge", "softmax-margin"}
        The log loss, the structural hinge, or the log loss of scores plus costs, ``LogLoss(model, data, cost=True)``.
    lam : float >= 0, optional
        Weight of 1/2 ||w||^2; C = 1/(lam n), crfsuite's c2 = lam n / 2. Default: 2/n for n sequences, which is c2 = 1.
    l1 : float >= 0
        Weight of ||w||_1, for the log loss; crfsuite's c1 = l1 n. Most weights are then 0, and ``model_`` has only the
        others of named features. The default optimiser is then :func:`diptych.elastic_net.elastic_net`.
    optimizer, options, smoothing, warm_start, random_state, panel
        As in :class:`MulticlassClassifier`. For online_proximal, the option ``"regularizer"`` is a regularizer or a
        function that makes it from the model (default: ridge with lam).
    cost : array (L, L), optional
        For the hinge and softmax-margin: entry (i, j) is the cost of predicting label j for label i, in the order of
        ``classes_``. Default: Hamming.
    class_weight : "balanced" or mapping, optional
        For the hinge and softmax-margin: a number >= 0 for each label, by which the costs of positions with that label
        are multiplied; "balanced": N / (L N_i) for L labels, of which label i has N_i of N positions.
    transitions : {"bio", "iob1", "iobes", "bilou", "bmes", "bmewo"}, mapping or bool array (L, L), optional
        Named features only: forbid label sequences that are invalid in this scheme, or by rules of one's own as in
        :class:`reference.TaggingModel`; labels of a matrix are in the order of ``classes_``.
    pairs : {"observed", "all"}, optional
        Named features only: one weight for each pair of attribute and label in the training data (default), or for all
        pairs.
    bits : int, optional
        Named features only: hash features to 2^bits weights instead of keeping a vocabulary.
    least : int >= 1, optional
        Named features only, without bits: drop features that occur less often.

    Attributes
    ----------
    classes_ : array (L,)
        Labels in order.
    coef_, weights_ : array (d,)
        The weights of ``model_``.
    result_ : Result
    model_ : SequenceModel or TaggingModel

    Notes
    -----
    X is a sequence of n examples. Each is one of:

    - an array (n_i, d) or a CSR matrix;
    - named features as in sklearn-crfsuite: for each position a list of strings, or a dictionary from strings to
      numbers, strings (a string makes the attribute ``name:value``), lists of strings or dictionaries;
    - a data frame with a row for each position and a column for each feature.

    Y is a sequence of n label sequences (n_i,), strings or integers. For the log loss, labels may be partly known: a
    set of labels, or None where none is known (:mod:`reference.models.partial`).

    Examples
    --------
    >>> from diptych.estimators import SequenceLabeler
    >>> X = [[["w=the"], ["w=duck"], ["w=swims"]], [["w=a"], ["w=duck"]]]
    >>> labeler = SequenceLabeler(lam=0.1).fit(X, [["B", "I", "O"], ["B", "I"]])
    >>> labeler.predict([[["w=a"], ["w=duck"], ["w=swims"]]])
    [['B', 'I', 'O']]
    """

    cost: Any = None
    class_weight: Any = None
    l1: float = 0.0
    transitions: Any = None
    pairs: str | None = None
    bits: int | None = None
    least: int | None = None

    def _lam(self, n: float) -> float:
        return sequence_lam(n) if self.lam is None else self.lam

    def _keep(self, model: Any, result: Any) -> None:
        if self.l1 and isinstance(model, TaggingModel):
            model, w = without_zeros(model, result.x)
            result = replace(result, x=w)
        super()._keep(model, result)


@dataclass(repr=False, eq=False, kw_only=True)
class KernelSequenceLabeler(Structured):
    """A linear-chain labeller over several kernels of the positions' features. It learns the weights of the kernels.

    Parameters
    ----------
    kernels : str or sequence of Kernel or Explicit
        Kernels, or their names in the syntax of ``train --kernels``, such as "linear,quadratic,gaussian"; "a+b" is the
        average of a and b.
    C : float > 0, optional
        lam = 1/(C n). Default: 100, unless ``options`` have a penalty.
    step_size : float > 0
        eta0 of the steps eta0/sqrt(t).
    epochs : int
    loss : {"hinge", "crf"}
        The structural hinge, or the log loss.
    transitions : {"own", "each", "free"}
        As in :class:`KernelSequenceModel`.
    average : {"last", "uniform"}
        Keep the last iterate, or the average of all iterates.
    single : bool
        Whether Gram matrices are held in float32.
    options : dict, optional
        Further arguments of ``mkl``, such as ``{"sigma": 0.1}``.
    random_state, panel
        As in :class:`MulticlassClassifier`.

    Attributes
    ----------
    classes_ : array (L,)
        Labels in order.
    beta_ : array (p,)
        The kernels' weights. If the transitions are a group of their own, their weight comes last.
    coef_, weights_ : KernelWeights
    result_ : MKLResult
    model_ : KernelSequenceModel

    Notes
    -----
    X is a sequence of n arrays (n_i, d) or CSR matrices, which are made dense. Y is a sequence of n label sequences
    (n_i,), strings or integers.

    Examples
    --------
    >>> from diptych.estimators import KernelSequenceLabeler
    >>> X, Y = [[[0.0], [1.0]], [[2.0], [1.0]]], [["out", "in"], ["out", "in"]]  # "in" is around 1
    >>> labeler = KernelSequenceLabeler(kernels="linear,gaussian:1", random_state=0).fit(X, Y)
    >>> labeler.predict([[[1.9], [1.1]]])
    [['out', 'in']]
    """

    kernels: str | Sequence[Any] = "linear,quadratic,gaussian"
    C: float | None = None
    step_size: float = 1.0
    epochs: int = 20
    loss: str = "hinge"
    transitions: str = "own"
    average: str = "last"
    single: bool = True
    options: Mapping[str, Any] | None = None
    random_state: Any = None
    panel: str = "accelerated"

    def fit(self, X: Any, y: Any) -> Any:
        """Learn from sequences and their labels."""
        C = number("C", 100.0 if self.C is None else self.C, positive=True)
        X = dense_sequences(X)
        y = label_sequences(X, y)
        self.classes_, names = classes_of(y)
        groups = self._groups(X)
        model = self._panel.KernelSequenceModel(groups, names, transitions=self.transitions)
        Y = [np.searchsorted(self.classes_, np.asarray(labels)) for labels in y]
        data = packed(model.pack, X, Y, like=np.zeros(0, np.float32 if self.single else np.float64))
        arguments = {"lam": 1.0 / (C * data.n), "step_size": self._panel.steps.InverseSqrt(self.step_size)}
        arguments |= {"epochs": self.epochs, "loss": self.loss, "average": self.average}
        arguments |= {"evaluate_every": max(self.epochs, 1)}
        if twice := [name for name in dict(self.options or {}) if name in arguments]:
            raise ValueError(f"options: {', '.join(twice)}: a parameter of the estimator decides that (lam = 1/(C n))")
        arguments |= rng_of(self.random_state, self.options or {}) | dict(self.options or {})
        check_options(self._panel.mkl, arguments)
        if "penalty" in arguments:
            del arguments["lam"]  # the penalty has its own
            if self.C is not None:
                raise ValueError(f"C: has no effect with the option penalty, got {self.C}")
        self.result_ = self._panel.mkl(model, data, **arguments)
        self.model_, self.weights_, self.beta_ = model, model.support(self.result_.x), self.result_.beta
        self.coef_ = self.weights_
        self.n_iter_ = max(self.result_.nit, 1)
        if not self.result_.success:
            warnings.warn(f"mkl: {self.result_.message}", ConvergenceWarning, stacklevel=2)
        return self

    def predict(self, X: Any) -> list[list[Any]]:
        """The best labels (n_i,) of each sequence, as a list of str or int."""
        check_fitted(self)
        return [self.classes_[y].tolist() for y in self.model_.predict(self.weights_, dense_sequences(X))]

    def _groups(self, X: list[np.ndarray]) -> Sequence[Any]:
        """The kernels, from names or kernel objects."""
        if not isinstance(self.kernels, str):
            groups = list(self.kernels) if isinstance(self.kernels, Iterable) else []
            if not groups or not all(isinstance(group, (Kernel, Explicit)) for group in groups):
                expected = "names, or a list of kernels such as Gaussian(5.0) and Function(f)"
                raise TypeError(f"kernels: expected {expected}, got {self.kernels!r:.80}")
            return groups
        try:
            return named(self.kernels, X)
        except ValueError as problem:
            raise ValueError(str(problem).replace("--kernels", "kernels")) from None


@dataclass(repr=False, eq=False, kw_only=True)
class DependencyParser(Structured, Learner):
    """An arc-factored dependency parser.

    Parameters
    ----------
    templates : str or sequence of tuples of str
        The set "20" or "100", or templates in the form of :class:`ParsingModel`.
    bits : int, optional
        Hash features to 2^bits weights. None: use a vocabulary of the features on the true arcs of the training data.
    single_root : bool
        Whether exactly one token has the root as its head.
    loss : {"hinge", "crf", "softmax-margin"}
        The structural hinge, the log loss, or the log loss of scores plus wrong heads.
    lam, optimizer, options, smoothing, warm_start, random_state, panel
        As in :class:`MulticlassClassifier`.

    Attributes
    ----------
    coef_, weights_ : array (d,)
        The weights of ``model_``.
    result_ : Result
    model_ : ParsingModel

    Notes
    -----
    X is a sequence of n sentences: mappings such as ``{"word": [...], "tag": [...]}``, lists of a dictionary for each
    token, or data frames. Y is a sequence of n sequences (n_i,) of heads; head 0 is the root.

    Examples
    --------
    >>> from diptych.estimators import DependencyParser
    >>> parser = DependencyParser(templates=[("h.tag", "m.tag", "direction")], bits=8, lam=0.1, random_state=0)
    >>> X = [{"tag": ["D", "N", "V"]}, {"tag": ["N", "V", "D", "N"]}]
    >>> parser.fit(X, [[2, 3, 0], [2, 0, 4, 2]]).score(X, [[2, 3, 0], [2, 0, 4, 2]])
    1.0
    """

    templates: str | Sequence[Sequence[str]] = "20"
    bits: int | None = 20
    single_root: bool = False
    loss: str = "hinge"

    def _model_of(self, X: Any, y: Any, classes: Any = None) -> tuple[Any, Any, Any]:
        if y is None:
            raise ValueError("y: expected the heads of each sentence, got None")
        X, y = listed("X", X), listed("y", y)
        model = self._panel.ParsingModel(self.templates, bits=self.bits or 1, single_root=self.single_root)
        if self.bits is None:
            vocabulary = model.vocabulary(packed(model.pack, X, y))
            model = self._panel.ParsingModel(self.templates, vocabulary=vocabulary, single_root=self.single_root)
        if self.warm_start and self._begun() and model.templates != self.model_.templates:
            raise ValueError("warm_start: expected the templates of the last fit")
        return model, X, y

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # type: ignore[override]
        """Learn from more sentences: one pass of SGD over them, starting from the current weights.

        The first call needs ``bits``, unless ``fit`` was called before.
        """
        if self.bits is None and not self._begun():
            raise ValueError("partial_fit: needs bits, as later sentences bring new features")
        if y is None:
            raise ValueError("y: expected the heads of each sentence, got None")
        new = self._panel.ParsingModel(self.templates, bits=self.bits, single_root=self.single_root)
        model = self.model_ if self._begun() else new
        self._learn_more(model, packed(model.pack, X, y), sample_weight)
        return self

    def _named(self, model: Any, w: Any) -> Named:
        names = range(model.size) if model.keys is None else model.keys.tolist()
        return Named(np.reshape(w, (-1, 1)), None, names, [None], HASHED)

    def predict(self, X: Any) -> list[list[int]]:
        """The heads (n_i,) of each sentence's best tree, as a list of int."""
        check_fitted(self)
        return [heads.tolist() for heads in self.model_.predict(self.model_.pack(X), None, self.weights_)]
