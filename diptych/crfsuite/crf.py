"""``CRF``, the interface of sklearn-crfsuite, over our solvers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diptych.crfsuite.tagging import ParsedDump, Tagger
from diptych.crfsuite.training import Trainer
from diptych.estimators.examples import share_right
from diptych.estimators.protocol import BaseEstimator, NotFittedError
from reference.example_errors import Example, ExampleError, ExampleTypeError, listed

__all__ = ["CRF"]

PARAMETERS = {  # those of the trainer
    "min_freq": "feature.minfreq",
    "all_possible_states": "feature.possible_states",
    "all_possible_transitions": "feature.possible_transitions",
    **{name: name for name in ("c1", "c2", "max_iterations", "num_memories", "epsilon", "period", "delta")},
    **{name: name for name in ("linesearch", "max_linesearch")},
    **{f"calibration_{name}": f"calibration.{name}" for name in ("eta", "rate", "samples", "candidates", "max_trials")},
}
OTHERS = ("pa_type", "c", "error_sensitive", "averaging", "variance", "gamma")  # of algorithms that are not here


class LinePerIteration(Trainer):
    """A trainer that prints a line for each iteration."""

    def on_iteration(self, log: str, info: dict[str, Any]) -> None:
        parts = [f"Iter {info['num']:<3} time={info['time']:<5.2f} loss={info['loss']:<8.2f}"]
        parts += [] if info["gap"] is None else [f"gap={info['gap']:<8.2g}"]
        parts += [f"active={info['active_features']:<5}"]
        if info["scores"]:
            parts += [f"precision={info['avg_precision']:0.3f}  recall={info['avg_recall']:0.3f}"]
            parts += [f"F1={info['avg_f1']:0.3f}"]
            parts += [f"Acc(item/seq)={info['item_accuracy_float']:0.3f} {info['instance_accuracy_float']:0.3f}"]
        print("  ".join([*parts, f"feature_norm={info['feature_norm']:.2f}"]))


@dataclass(repr=False, eq=False)
class CRF(BaseEstimator):  # type: ignore[misc]
    """A linear-chain CRF with the parameters, the features and the objective of sklearn-crfsuite.

    min_w  sum_i -log p(y_i | x_i; w) + c1 ||w||_1 + c2 ||w||^2

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd"}, optional
        Both name this objective, "lbfgs" (default) with c1 too. Our solvers minimise it, by its duality gap.
    min_freq : float, optional
        Drop features whose values sum to less than this. Default: 0.
    all_possible_states, all_possible_transitions : bool, optional
        Weights for all pairs of attributes and labels, for all pairs of labels; default: for those that occur.
    c1, c2 : float >= 0, optional
        Defaults: 0 and 1.
    max_iterations : int, optional
        A fit that ends at this number warns. Default: no bound that ends an ordinary fit.
    epsilon : float > 0, optional
        A fit ends when its duality gap is at most this share of the objective. Default: 1e-5.
    period : int, optional
        For early stopping: the most iterations without a better score. Default: 10.
    num_memories, delta, linesearch, max_linesearch, calibration_eta, calibration_rate, calibration_samples,
    calibration_candidates, calibration_max_trials
        They steer crfsuite's own search. Accepted, without effect; one warning names those that are given.
    pa_type, c, error_sensitive, averaging, variance, gamma
        Of algorithms that are not here; refused.
    verbose : bool
        Whether to print a line for each iteration.
    model_filename : str, optional
        A model file of crfsuite: ``fit`` writes it, and a CRF that is not fitted reads it.
    keep_tempfiles : bool
        Without effect, as there are no temporary files.
    trainer_cls : type, optional
        A subclass of :class:`Trainer`, for messages of one's own.
    early_stopping : bool
        With X_dev: end after ``period`` iterations without a higher share of right labels in X_dev, and keep the first
        weights with the highest.

    Attributes
    ----------
    tagger_ : Tagger
    classes_ : list of str
        Labels in the order in which they first occur.
    attributes_ : list of str
        Those that have a weight; ``num_attributes_`` of them.
    state_features_, transition_features_ : dict
        {(attribute, label): weight} and {(label, next label): weight} of the weights that are not 0.
    size_ : int
        Bytes of the model file.
    training_log_ : TrainingLog
        ``training_log_.iterations`` has a dictionary for each iteration, with the scores of X_dev.

    All are None before ``fit``.

    Notes
    -----
    X is a list of sequences of dictionaries or lists, as :class:`ItemSequence` takes them, and y a list of sequences of
    strings. A CRF pickles as its parameters, its log and its weights that are not 0.

    Examples
    --------
    >>> X = [[{"w": "the"}, {"w": "duck"}, {"w": "swims"}], [{"w": "a"}, {"w": "duck"}]]
    >>> crf = CRF(c1=0.01, c2=0.01).fit(X, [["B", "I", "O"], ["B", "I"]])
    >>> crf.predict_single([{"w": "a"}, {"w": "duck"}, {"w": "swims"}])
    ['B', 'I', 'O']
    """

    algorithm: str | None = None
    min_freq: float | None = None
    all_possible_states: bool | None = None
    all_possible_transitions: bool | None = None
    c1: float | None = None
    c2: float | None = None
    max_iterations: int | None = None
    num_memories: int | None = None
    epsilon: float | None = None
    period: int | None = None
    delta: float | None = None
    linesearch: str | None = None
    max_linesearch: int | None = None
    calibration_eta: float | None = None
    calibration_rate: float | None = None
    calibration_samples: float | None = None
    calibration_candidates: int | None = None
    calibration_max_trials: int | None = None
    pa_type: int | None = None
    c: float | None = None
    error_sensitive: bool | None = None
    averaging: bool | None = None
    variance: float | None = None
    gamma: float | None = None
    verbose: bool = False
    model_filename: str | None = None
    keep_tempfiles: bool = False
    trainer_cls: type[Trainer] | None = None
    early_stopping: bool = False

    training_log_ = None  # before fit
    _tagger = None
    _dump = None

    def fit(self, X: Any, y: Any, X_dev: Any = None, y_dev: Any = None) -> Any:
        """Learn from sequences and their labels; each iteration is scored on X_dev.

        Raises
        ------
        ValueError, TypeError
            Naming the argument, the sequence and the token; a parameter out of range or of another algorithm.

        Warns
        -----
        ConvergenceWarning
            A fit that ended before its gap was small enough.
        """
        if (X_dev is None) != (y_dev is None):
            raise ValueError("X_dev, y_dev: expected both or neither")
        if self.early_stopping and X_dev is None:
            raise ValueError("early_stopping: expected X_dev and y_dev, on which it looks")
        kind = LinePerIteration if self.trainer_cls is None else self.trainer_cls
        if not (isinstance(kind, type) and issubclass(kind, Trainer)):
            raise TypeError(f"trainer_cls: expected a subclass of diptych.crfsuite.Trainer, got {kind!r:.80}")
        given = {theirs: getattr(self, name) for name, theirs in PARAMETERS.items() if getattr(self, name) is not None}
        if other := [name for name in OTHERS if getattr(self, name) is not None]:
            raise ValueError(f"{', '.join(other)}: of the algorithms 'pa' and 'arow', which are not here")
        trainer = kind(algorithm=self.algorithm, params=given, verbose=bool(self.verbose))
        _append(trainer, "X", X, "y", y, 0)
        if not trainer.classes:
            raise ValueError("X: expected at least one sequence with a token")
        if X_dev is not None:
            _append(trainer, "X_dev", X_dev, "y_dev", y_dev, 1)
        options = {"early_stopping": True} if self.early_stopping else {}
        trainer.train(self.model_filename or "", holdout=-1 if X_dev is None else 1, **options)
        self.training_log_, self._dump, self._tagger = trainer.logparser, None, Tagger(trainer.model_)
        return self

    def predict(self, X: Any) -> list[list[str]]:
        """The best labels of each sequence."""
        tagger = self._fitted
        return tagger.tagged(listed("X", X), lambda i: Example("X", i))

    def predict_single(self, xseq: Any) -> list[str]:
        """The best labels of one sequence."""
        return self._fitted.tagged([xseq], lambda i: "xseq")[0]

    def predict_marginals(self, X: Any) -> list[list[dict[str, float]]]:
        """For each token of each sequence the probability of each label."""
        return [self._marginals(x, Example("X", i)) for i, x in enumerate(listed("X", X))]

    def predict_marginals_single(self, xseq: Any) -> list[dict[str, float]]:
        """For each token of one sequence the probability of each label."""
        return self._marginals(xseq, "xseq")

    def score(self, X: Any, y: Any) -> float:
        """The share of right labels over all tokens."""
        return share_right(y, self.predict(X), None)

    def _marginals(self, xseq: Any, name: str) -> list[dict[str, float]]:
        tagger = self._fitted
        labels, rows = tagger.labels(), tagger.probabilities(tagger.chain(xseq, name)).tolist()
        return [dict(zip(labels, row, strict=True)) for row in rows]

    @property
    def tagger_(self) -> Tagger | None:
        """The tagger of the fitted model, or of the file ``model_filename`` if there is one."""
        if self._tagger is None and self.model_filename is not None and Path(self.model_filename).exists():
            tagger = Tagger()
            tagger.open(self.model_filename)
            self._tagger = tagger
        return self._tagger

    @property
    def _fitted(self) -> Tagger:
        tagger = self.tagger_
        if tagger is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit, or name a model_filename")
        return tagger

    def __sklearn_is_fitted__(self) -> bool:
        return self.tagger_ is not None

    @property
    def _info(self) -> ParsedDump | None:
        if self._dump is None and self.tagger_ is not None:
            self._dump = self.tagger_.info()
        return self._dump

    @property
    def classes_(self) -> list[str] | None:
        """The labels."""
        return None if self.tagger_ is None else self.tagger_.labels()

    @property
    def size_(self) -> int | None:
        """Bytes of the model file."""
        return None if self._info is None else int(self._info.header["size"])

    @property
    def num_attributes_(self) -> int | None:
        """How many attributes have a weight."""
        return None if self._info is None else len(self._info.attributes)

    @property
    def attributes_(self) -> list[str] | None:
        """The attributes that have a weight."""
        return None if self._info is None else list(self._info.attributes)

    @property
    def state_features_(self) -> dict[tuple[str, str], float] | None:
        """{(attribute, label): weight}."""
        return None if self._info is None else self._info.state_features

    @property
    def transition_features_(self) -> dict[tuple[str, str], float] | None:
        """{(label, next label): weight}."""
        return None if self._info is None else self._info.transitions

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), "_tagger": self.tagger_, "_dump": None}


def _append(trainer: Trainer, X_name: str, X: Any, y_name: str, y: Any, group: int) -> None:
    """Give sequences to a trainer; errors name the arguments and the sequence."""
    X, y = listed(X_name, X), listed(y_name, y)
    if len(X) != len(y):
        raise ValueError(f"{y_name}: expected {len(X)} label sequences, one for each of {X_name}, got {len(y)}")
    for i, (xseq, yseq) in enumerate(zip(X, y, strict=True)):
        try:
            trainer.append(xseq, yseq, group)
        except (TypeError, ValueError) as error:
            of_labels = str(error).startswith("yseq") or getattr(error, "argument", "") == "yseq"
            name = y_name if of_labels else X_name
            kind = ExampleTypeError if isinstance(error, TypeError) else ExampleError
            if isinstance(error, ExampleError):
                raise kind(name, i, error.example, error.problem) from None
            raise kind(name, i, None, str(error).removeprefix("xseq: ").removeprefix("yseq: ")) from None
