"""The base of learners with one loss and one optimiser: ``_learn`` for fit, ``_learn_more`` for partial_fit."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import reference
from diptych.certificates import SCALE, advised
from diptych.defaults import LBFGS_ITERATIONS
from diptych.elastic_net import elastic_net
from diptych.estimators.examples import checked_weights, of_positions, packed
from diptych.estimators.features import Linear
from diptych.estimators.protocol import BaseEstimator, ConvergenceWarning, InPanel, generator_of
from diptych.panels import slow_path
from reference.models.costs import WeightedPositions
from reference.models.sequence import SequenceModel
from reference.prox.base import Regularizer
from reference.training.result import Result

LOSSES = {"crf": "lbfgs", "hinge": "bcfw", "softmax-margin": "lbfgs"}  # with the default optimiser of each
OPTIMIZERS = (
    *("bcfw", "casimir", "casimir_svrg_adapt", "casimir_svrg_const", "cutting_planes", "exponentiated_gradient"),
    *("lbfgs", "multisample", "online_proximal", "sgd", "svrg"),
)
NO_COST = "the log loss has none, loss='hinge' and loss='softmax-margin' have"
PRESETS = ("casimir_svrg_adapt", "casimir_svrg_const")


def rng_of(random_state: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """{"rng": the generator of ``random_state``}, or {} if the options have one. Raises ValueError for both."""
    if "rng" not in options:
        return {"rng": generator_of(random_state)}
    if random_state is not None:
        raise ValueError(f"random_state: has no effect with the option rng, got {random_state!r}")
    return {}


def check_options(run: Callable[..., Any], options: Mapping[str, Any]) -> Mapping[str, inspect.Parameter]:
    """The parameters of an optimiser. Raises ValueError for an option that it lacks."""
    parameters: Mapping[str, inspect.Parameter] = inspect.signature(run).parameters
    if run.__name__ in PRESETS:  # they pass other options to casimir
        parameters = {**inspect.signature(reference.casimir).parameters, **parameters}
        del parameters["options"]
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    for name in () if takes_any else options:
        if name not in parameters:
            known = ", ".join(each for each in parameters if each not in ("objective", "model", "data", "lam"))
            raise ValueError(f"options: {run.__name__} has no option {name!r}; it has {known}")
    return parameters


@dataclass(repr=False, eq=False, kw_only=True)
class Learner(Linear, InPanel, BaseEstimator):
    """An estimator that makes an objective from ``loss`` and ``smoothing`` and minimises it by ``optimizer``."""

    loss: str = "crf"
    lam: float | None = None
    optimizer: str | Callable[..., Result] | None = None
    options: Mapping[str, Any] | None = None
    smoothing: Any = None
    warm_start: bool = False
    random_state: Any = None
    panel: str = "accelerated"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Learn from examples X and y, in the forms that the class describes.

        sample_weight: (n,), >= 0, one for each example (a sequence, not a token). Of label sequences, n arrays (n_i,)
        may scale the costs of their positions instead, for a loss that has them.
        """
        last = self._last(self.warm_start)
        model, X, Y = self._model_of(X, y)
        self._learn(model, packed(model.pack, X, Y), sample_weight, last)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Learn from more examples: one pass of SGD over them, starting from the current weights.

        classes: all classes or labels. Required at the first call, unless ``fit`` was called before. Without ``fit``,
        named features need ``bits``, as later sequences bring new features, and all pairs have weights. After ``fit``,
        named features that it has not seen are ignored. The default lam is that of the first call's examples.
        """
        if self._begun():
            model, X, Y = self._same_model_of(X, y, classes)
        elif classes is None:
            raise ValueError("classes: expected all labels that may occur, at the first call of partial_fit, got None")
        else:
            model, X, Y = self._model_of(X, y, classes)
        self._learn_more(model, packed(model.pack, X, Y), sample_weight)
        return self

    def _model_of(self, X: Any, y: Any, classes: Any = None) -> tuple[Any, Any, Any]:
        """A new model for X and y, and both in the form that it packs. classes: default those of y."""
        raise NotImplementedError

    def _same_model_of(self, X: Any, y: Any, classes: Any) -> tuple[Any, Any, Any]:
        """The existing model, and more X and y in the form that it packs."""
        raise NotImplementedError

    def _lam(self, n: float) -> float | None:
        """The weight of 1/2 ||w||^2 for n examples; n is the sum of the sample weights, if any."""
        return 0.01 if self.lam is None else self.lam

    def _refuse(self, run: Callable[..., Any], parameters: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        """Raise ValueError for parameters and options that would have no effect."""
        strength = options.get("mu", getattr(parameters.get("mu"), "default", None))
        needed = "mu" in parameters and run.__name__ not in ("casimir", *PRESETS)
        if self.smoothing is not None and needed and not strength:
            raise ValueError(f"smoothing: has no effect without the option mu > 0, its strength, got {self.smoothing}")
        if "lam" in options:
            raise ValueError("options: lam: a parameter of the estimator decides that")
        if self.lam is not None and "regularizer" in options:
            raise ValueError(f"lam: has no effect with the option regularizer, got {self.lam}")
        if self.lam is not None and not {"lam", "regularizer"} & set(parameters):
            raise ValueError(f"lam: has no effect, as {run.__name__} has no parameter lam, got {self.lam}")
        if l1 := getattr(self, "l1", 0.0):
            if self.loss == "hinge":
                raise ValueError(f"l1: only the log loss has it, loss='crf', got {l1!r:.80} with loss={self.loss!r}")
            if "l1" not in parameters:
                raise ValueError(f"l1: has no effect, as {run.__name__} has no parameter l1, got {l1!r:.80}")
        if "l1" in options:
            raise ValueError("options: l1: a parameter of the estimator decides that")
        if self.warm_start and "w0" in options:
            raise ValueError("warm_start: has no effect with the option w0")
        if run.__name__ == "multisample" and "mu" in options and options.get("sampler") != "gibbs":
            raise ValueError(f"options: mu has no effect without the sampler 'gibbs', got {options['mu']}")

    def _learn(self, model: Any, data: Any, sample_weight: Any, last: Any = None) -> None:
        """Fit the model's weights by the optimiser, from the weights ``last`` if given."""
        if sample_weight is not None and getattr(self, "l1", None):
            raise ValueError("sample_weight: expected None, a fit with l1 has none")
        objective, lam = self._objective(model, data, sample_weight)
        run, options = self._optimizer(), dict(self.options or {})
        parameters = check_options(run, options)
        self._refuse(run, parameters, options)
        if last is not None:
            if "w0" not in parameters:
                name = run.__name__
                raise ValueError(f"warm_start: {name} starts from a point of its own, which weights do not give")
            options = self._start_from(last, model) | options
        if run.__name__ == "lbfgs":
            options.setdefault("iterations", LBFGS_ITERATIONS)
        if "rng" in parameters:
            options |= rng_of(self.random_state, options)
        if "l1" in parameters:
            options["l1"] = getattr(self, "l1", 0.0)
        if "lam" in parameters:
            options["lam"] = lam
        elif "regularizer" in parameters and not isinstance(options.get("regularizer"), Regularizer | Sequence):
            make = options.get("regularizer", lambda model: self._panel.HalfSquaredL2(lam))
            if not callable(make):
                raise TypeError(f"regularizer: expected one, or a function of the model that makes it, got {make!r}")
            options["regularizer"] = make(model)
        if run.__name__ == "online_proximal" and "step_size" not in options:
            example = f'options={{"step_size": {self._panel.__name__}.steps.InverseSqrt(1.0)}}'
            hint = f"such as {example}; a regularizer is optional"
            raise ValueError(f"options: online_proximal needs a step size, {hint}")
        if slow := slow_path(self._panel, run.__name__, objective, options):
            warnings.warn(slow, stacklevel=3)
        self._keep(model, advised(self._panel, run(objective, **options), objective, options))
        self._passes = {"lam": lam, "t": objective.n * self.n_iter_, "rng": generator_of(self.random_state)}
        if not self.result_.success or SCALE in self.result_.message:
            warnings.warn(f"{run.__name__}: {self.result_.message}", ConvergenceWarning, stacklevel=3)

    def _learn_more(self, model: Any, data: Any, sample_weight: Any) -> None:
        """One pass of SGD from the current weights.

        The step count continues from the last call. After ``fit``, each iteration of ``fit`` counts as one pass.
        """
        if getattr(self, "l1", 0.0):
            raise ValueError(f"l1: partial_fit has none, its passes of SGD leave no weight at 0; got {self.l1!r:.80}")
        objective, lam = self._objective(model, data, sample_weight)
        strength = {name: value for name, value in dict(self.options or {}).items() if name == "mu"}
        self._refuse(self._panel.sgd, check_options(self._panel.sgd, strength), strength)
        new = {"lam": lam, "t": 0, "rng": generator_of(self.random_state)}
        passes = self._passes if self._begun() else new
        lam, t = passes["lam"], passes["t"]
        if not lam > 0:
            raise ValueError(f"lam: partial_fit needs lam > 0, its steps are 1/(lam (t + 1/lam)), got {lam}")
        step_size = self._panel.steps.Pegasos(offset=t + 1.0 / lam)
        options = {"lam": lam, "step_size": step_size, "average": "last", "epochs": 1, "rng": passes["rng"]}
        w0 = self.weights_ if self._begun() else None
        self._keep(model, self._panel.sgd(objective, w0, **strength, **options))
        self._passes = passes | {"t": t + objective.n}

    def _keep(self, model: Any, result: Result) -> None:
        self.result_, self.model_, self.weights_, self.n_iter_ = result, model, result.x, max(result.nit, 1)

    def _begun(self) -> bool:
        """Whether there are weights to continue from."""
        return hasattr(self, "weights_")

    def _objective(self, model: Any, data: Any, sample_weight: Any) -> tuple[Any, Any]:
        """The objective and lam."""
        if self.loss not in LOSSES:
            raise ValueError(f"loss: expected one of {', '.join(LOSSES)}, got {self.loss!r}")
        several = isinstance(model, SequenceModel) and of_positions(sample_weight)
        for name in ("cost", "class_weight") if self.loss == "crf" else ():
            if (given := getattr(self, name, None)) is not None:
                raise ValueError(f"{name}: {NO_COST}; got {given!r:.80}")
        if several:
            if self.loss == "crf":
                raise ValueError(
                    f"sample_weight: those of positions scale the cost: {NO_COST}; got {len(sample_weight)} arrays"
                )
            model, sample_weight = WeightedPositions(model, data, sample_weight, "sample_weight"), None
        if self.loss != "hinge":
            if self.smoothing is not None:
                raise ValueError(f"smoothing: the log loss has none, got {self.smoothing!r}")
            objective = self._panel.LogLoss(model, data, cost=self.loss != "crf")
        else:
            objective = self._panel.StructuralHinge(model, data, smoothing=self.smoothing)
        if sample_weight is None:
            return objective, self._lam(objective.n)
        weights = checked_weights(sample_weight, objective.n)
        return self._panel.Weighted(objective, weights), self._lam(float(np.sum(weights)))

    def _optimizer(self) -> Callable[..., Result]:
        """The optimiser: the given function, or the panel's function of that name."""
        name: Any = LOSSES[self.loss] if self.optimizer is None else self.optimizer
        if self.optimizer is None and getattr(self, "l1", None):
            name = elastic_net
        if callable(name):
            given: Callable[..., Result] = name
            return given
        if name not in (each.replace("_", "-") for each in OPTIMIZERS) and name not in OPTIMIZERS:
            raise ValueError(f"optimizer: expected one of {', '.join(OPTIMIZERS)}, or a function, got {name!r}")
        optimizer: Callable[..., Result] = getattr(self._panel, name.replace("-", "_"))
        return optimizer
