"""``Trainer``, the interface of python-crfsuite to training, over our solvers."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import accelerated
from diptych.crfsuite.items import items_of, label_of
from diptych.crfsuite.log import TrainingLog, iteration_lines, scores_of
from diptych.crfsuite.model_files import CrfsuiteModel, write_model
from diptych.crfsuite.objective import NO_BOUND, Features, Sequence, features_of, joined, minimised, model_of_weights
from diptych.estimators.protocol import ConvergenceWarning
from reference.arrays import Array, number
from reference.models.base import integer
from reference.models.tagging import TaggingModel

__all__ = ["Trainer"]

INSTEAD = {  # of algorithms that have no objective, or not a convex one
    "averaged-perceptron": "'lbfgs', or diptych.estimators.SequenceLabeler(loss='hinge', optimizer='sgd')",
    "passive-aggressive": "'lbfgs', or diptych.estimators.SequenceLabeler(loss='hinge')",
    "arow": "'lbfgs' with c2",
}
ALIASES = {"ap": "averaged-perceptron", "pa": "passive-aggressive"}


class _Parameter(NamedTuple):
    """kind: type of the value. of: the algorithms that have it. used: whether it has an effect here."""

    kind: type
    default: Any
    help: str
    of: tuple[str, ...] = ("lbfgs", "l2sgd")
    used: bool = True


def _steering(kind: type, default: Any, *of: str) -> _Parameter:
    return _Parameter(kind, default, "It steers crfsuite's own search, and has no effect here.", of, used=False)


PARAMETERS = {
    "feature.minfreq": _Parameter(float, 0.0, "Features are kept if they occur at least this often."),
    "feature.possible_states": _Parameter(bool, False, "Whether all attributes have a weight for each label."),
    "feature.possible_transitions": _Parameter(bool, False, "Whether all pairs of labels have a weight."),
    "c1": _Parameter(float, 0.0, "The weight of the L1 norm of the weights.", ("lbfgs",)),
    "c2": _Parameter(float, 1.0, "The weight of the squared L2 norm of the weights."),
    "max_iterations": _Parameter(int, NO_BOUND, "The most iterations."),
    "num_memories": _steering(int, 6, "lbfgs"),
    "epsilon": _Parameter(float, 1e-5, "A run ends when its duality gap is at most this share of the objective."),
    "period": _Parameter(int, 10, "Early stopping: the most iterations without a better score."),
    "delta": _steering(float, 1e-5, "lbfgs", "l2sgd"),
    "linesearch": _steering(str, "MoreThuente", "lbfgs"),
    "max_linesearch": _steering(int, 20, "lbfgs"),
    "calibration.eta": _steering(float, 0.1, "l2sgd"),
    "calibration.rate": _steering(float, 2.0, "l2sgd"),
    "calibration.samples": _steering(float, 1000.0, "l2sgd"),
    "calibration.candidates": _steering(int, 10, "l2sgd"),
    "calibration.max_trials": _steering(int, 20, "l2sgd"),
}


class Trainer:
    """Sequences with labels, and the model that they train.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd"}, optional
        Both name the same convex objective, "lbfgs" with L1 too; our solvers minimise it.
    params : dict, optional
        As for :meth:`set_params`.
    verbose : bool
        Whether to print what the run tells.

    Attributes
    ----------
    logparser : TrainingLog or None
        The log of the last run.
    model_ : CrfsuiteModel or None
        The model of the last run.

    Raises
    ------
    ValueError
        An algorithm or a parameter that is not here, with what to use instead.

    Examples
    --------
    >>> trainer = Trainer(params={"c2": 0.1}, verbose=False)
    >>> trainer.append([{"w": "a"}, {"w": "duck"}], ["B", "I"])
    >>> trainer.train("")  # a name would be that of the model file
    >>> trainer.model_.labels, trainer.logparser.last_iteration["loss"] < 1
    (('B', 'I'), True)
    """

    logparser: TrainingLog | None
    model_: CrfsuiteModel | None
    verbose: bool = True
    _lines: int  # of the current event, that are still to come

    def __new__(cls, *arguments: Any, **parameters: Any) -> Any:
        """A trainer without sequences, also where a subclass does not call ``__init__``."""
        made = super().__new__(cls)
        made.logparser = made.model_ = None
        made._lines, made._event = 0, ("", ())
        made.clear()
        made.select("lbfgs")
        return made

    def __init__(
        self, algorithm: str | None = None, params: dict[str, Any] | None = None, verbose: bool = True
    ) -> None:
        if algorithm is not None:
            self.select(algorithm)
        if params is not None:
            self.set_params(params)
        self.verbose = verbose

    # parameters -------------------------------------------------------------------------------------------------------

    def select(self, algorithm: str, type: str = "crf1d") -> None:
        """Choose the algorithm; parameters get their defaults."""
        name = ALIASES.get(str(algorithm).lower(), str(algorithm).lower())
        if name in INSTEAD:
            raise ValueError(f"algorithm: {algorithm!r} is not here; use {INSTEAD[name]}")
        if name not in ("lbfgs", "l2sgd"):
            raise ValueError(f"algorithm: expected 'lbfgs' or 'l2sgd', got {algorithm!r:.80}")
        if type != "crf1d":
            raise ValueError(f"type: expected 'crf1d', got {type!r:.80}")
        self._algorithm, self._set = name, dict[str, Any]()

    def params(self) -> list[str]:
        """The names of the algorithm's parameters."""
        return [name for name, parameter in PARAMETERS.items() if self._algorithm in parameter.of]

    def get_params(self) -> dict[str, Any]:
        """All parameters by name."""
        return {name: self.get(name) for name in self.params()}

    def set_params(self, params: dict[str, Any]) -> None:
        """Set parameters by name."""
        for name, value in params.items():
            self.set(name, value)

    def get(self, name: str) -> Any:
        """The value of a parameter."""
        return self._set.get(name, self._parameter(name).default)

    def set(self, name: str, value: Any) -> None:
        """Set a parameter, from a value or from its text."""
        kind = self._parameter(name).kind
        try:
            self._set[name] = kind(int(value)) if kind is bool else kind(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{name}: expected {kind.__name__}, got {value!r:.80}") from None

    def help(self, name: str) -> str:
        """What a parameter means."""
        return self._parameter(name).help

    def _parameter(self, name: str) -> _Parameter:
        if name not in self.params():
            raise ValueError(f"params: {self._algorithm} has no {name!r:.80}; it has {', '.join(self.params())}")
        return PARAMETERS[name]

    # sequences --------------------------------------------------------------------------------------------------------

    def append(self, xseq: Any, yseq: Any, group: int = 0) -> None:
        """Add a sequence of features, as for :class:`ItemSequence`, and its labels, in a group for held-out scores.

        Raises ValueError, naming the token: what is no feature, labels of another number.
        """
        items = items_of(xseq)
        labels = [label_of(label, "yseq", t) for t, label in enumerate(yseq)]
        if len(labels) != len(items):
            raise ValueError(f"yseq: expected {len(items)} labels, one for each token, got {len(labels)}")
        names, label_numbers = self._names, self._labels
        numbers = [names.setdefault(name, len(names)) for item in items for name, _ in item]
        sequence = Sequence(
            np.array(numbers, np.int64),
            np.array([value for item in items for _, value in item], np.float64),
            np.array([len(item) for item in items], np.int64),
            np.array([label_numbers.setdefault(label, len(label_numbers)) for label in labels], np.int64),
        )
        self._sequences.append((sequence, int(group)))

    def clear(self) -> None:
        """Remove all sequences."""
        self._names, self._labels = dict[str, int](), dict[str, int]()
        self._sequences: list[tuple[Sequence, int]] = []

    @property
    def classes(self) -> list[str]:
        """The labels so far, in the order in which they first occurred."""
        return list(self._labels)

    # training ---------------------------------------------------------------------------------------------------------

    def train(self, model: str | Path, holdout: int = -1, *, early_stopping: bool = False) -> None:
        """Train, and write a model file of crfsuite.

        Parameters
        ----------
        model : str or Path
            The file; "" writes none.
        holdout : int
            Sequences of this group are not trained on; each iteration is scored on them. -1: none.
        early_stopping : bool
            End after ``period`` iterations without a higher share of right labels in the held-out group, and keep the
            first weights with the highest.

        Raises
        ------
        ValueError
            Parameters out of range; early stopping without a held-out group.

        Warns
        -----
        ConvergenceWarning
            A run that ended before the gap was small enough.
        UserWarning
            Once, with the names of all parameters that are set and have no effect.
        """
        c1, c2 = (number(name, self.get(name)) if name in self.params() else 0.0 for name in ("c1", "c2"))
        epsilon = number("epsilon", self.get("epsilon"), positive=True)
        iterations = integer("max_iterations", self.get("max_iterations"), 0)
        period = integer("period", self.get("period"), 1)
        if idle := [name for name in self._set if not PARAMETERS[name].used]:
            warnings.warn(f"{', '.join(idle)}: without effect here, where runs end by epsilon", stacklevel=2)
        used = [each for each, group in self._sequences if holdout < 0 or group != holdout]
        held_out = [each for each, group in self._sequences if 0 <= holdout == group]
        if early_stopping and not held_out:
            raise ValueError("early_stopping: expected sequences in the held-out group, got none")
        self.logparser = log = TrainingLog()
        self._say("start", *([f"Holdout group: {holdout + 1}\n", "\n"] if held_out else []), "Feature generation\n")
        features = self._generated(used, log)
        settings = {"c1": f"{c1:f}", "c2": f"{c2:f}", "max_iterations": str(iterations), "epsilon": f"{epsilon:g}"}
        self._say("prepared", "Optimization\n", *(f"{name}: {value}\n" for name, value in settings.items()), "\n")
        begun = time.perf_counter()
        w, reached, message = np.zeros(sum(map(len, features))), True, "there is nothing to learn"
        if used and len(w):
            labels, names = list(self._labels), list(self._names)
            tagger = accelerated.TaggingModel(labels, None, vocabulary=names, **features._asdict())
            data = tagger.pack(joined(used, names), [each.labels for each in used])
            watch = _Watch(self, tagger, held_out, names, period if early_stopping else None)
            objective = accelerated.LogLoss(tagger, data)
            w, reached, message = minimised(objective, c1, c2, epsilon, iterations, watch)
            w = w if watch.best is None else watch.best
        if not reached:
            warnings.warn(f"{self._algorithm}: {message}", ConvergenceWarning, stacklevel=2)
        log.training_seconds = time.perf_counter() - begun
        total = f"Total seconds required for training: {log.training_seconds:.3f}\n"
        self._say("optimization_end", f"{message}\n", total, "\n")
        self._store(str(model), features, w, log)

    def _generated(self, used: list[Sequence], log: TrainingLog) -> Features:
        """The features of the sequences."""
        begun, (least, states, moves) = time.perf_counter(), [self.get(name) for name in list(PARAMETERS)[:3]]
        features = features_of(used, len(self._labels), least, states=states, moves=moves)
        log.featgen_num_features = sum(map(len, features))
        log.featgen_seconds = time.perf_counter() - begun
        lines = ["type: CRF1d\n", f"feature.minfreq: {least:f}\n", f"feature.possible_states: {int(states)}\n"]
        lines += [f"feature.possible_transitions: {int(moves)}\n", f"Number of features: {log.featgen_num_features}\n"]
        self._say("featgen_end", *lines, f"Seconds required: {log.featgen_seconds:.3f}\n", "\n")
        return features

    def _store(self, file: str, features: Features, w: np.ndarray, log: TrainingLog) -> None:
        """Keep the model, and write it to a file unless its name is empty."""
        begun = time.perf_counter()
        self.model_ = model = model_of_weights(list(self._labels), list(self._names), features, w)
        if file:
            write_model(file, model)
        log.storing_seconds = time.perf_counter() - begun
        lines = [f"Number of active features: {len(model.states) + len(model.transitions)} ({len(w)})\n"]
        lines += [f"Number of active attributes: {len(model.attributes)} ({len(self._names)})\n"]
        self._say("end", "Storing the model\n", *lines, f"Seconds required: {log.storing_seconds:.3f}\n", "\n")

    # messages ---------------------------------------------------------------------------------------------------------

    def message(self, message: str) -> None:
        """Receive a line of the run; after the last line of an event, if ``verbose``, its method ``on_...`` is called.

        Subclasses may override this method, or those.
        """
        self._lines -= 1
        if self.verbose and self._lines == 0 and self.logparser is not None:
            event, details = self._event
            getattr(self, f"on_{event}")(self.logparser.last_log, *details)

    def _say(self, event: str, *lines: str, details: tuple[Any, ...] = ()) -> None:
        log = self.logparser
        if log is not None:
            log.log += lines
            log.last_log = "".join(lines)
        self._lines, self._event = len(lines), (event, details)
        for line in lines:
            self.message(line)

    def on_iteration(self, log: str, info: dict[str, Any]) -> None:
        """After each iteration; ``info`` is that of :class:`TrainingLog`."""
        print(log, end="")

    def on_start(self, log: str) -> None:
        """Before anything else; the other methods are called after the event of their name."""
        print(log, end="")

    on_featgen_end = on_prepared = on_optimization_end = on_end = on_start


class _Watch:
    """Logs each iteration and scores it on held-out sequences; with a period, keeps the best weights, ends the run."""

    def __init__(
        self, trainer: Trainer, tagger: TaggingModel, held_out: list[Sequence], names: list[str], period: int | None
    ) -> None:
        self.trainer, self.tagger, self.held_out, self.period = trainer, tagger, held_out, period
        self.data = tagger.pack(joined(held_out, names)) if held_out else None
        self.best: np.ndarray | None = None
        self.last = time.perf_counter()

    def __call__(self, k: int, fun: float, gap: float | None, w: Array) -> bool:
        log, now = self.trainer.logparser, time.perf_counter()
        assert log is not None
        info: dict[str, Any] = {"num": k, "loss": fun, "gap": gap, "feature_norm": float(np.linalg.norm(w))}
        info |= {"active_features": int(np.count_nonzero(w)), "time": now - self.last, "scores": {}}
        if self.data is not None:
            guess = self.tagger.predict(self.data, None, w)
            info |= scores_of(self.tagger.labels, [each.labels for each in self.held_out], guess)
        log.iterations.append(info)
        self.last = time.perf_counter()
        self.trainer._say("iteration", *iteration_lines(info), details=(info,))
        if self.period is None:
            return False
        best = log.best_iteration
        if best is info:
            self.best = np.array(w)
        return best is not None and k - best["num"] >= self.period
