"""Exponentiated gradient on the dual, without l1 and with it: its runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Unpack

import numpy as np

from reference.arrays import Array, absolute_sum, squared_norm
from reference.declared import DualLam, Ge, Gt
from reference.objectives import StructuralHinge
from reference.optimizers.base import Objective, traits, value_of
from reference.optimizers.centre import Centred, CentredState, default_kappa
from reference.optimizers.exponentiated_gradient import EGState, ExponentiatedGradient
from reference.optimizers.nonnegative import clipped
from reference.smoothings import Entropy
from reference.structures.base import check_offers
from reference.training.run import Ending, Run
from reference.training.solver import Report, Result, RunOptions, Solver, Terms, check_needs, minimize, runs, verdict
from reference.weighted import Weighted

__all__ = ["exponentiated_gradient"]

STILL = 60  # evaluations with l1 that do not raise the highest dual end a run: the rest is rounding


@dataclass(frozen=True)
class Exponentiated(Solver):
    """A run of :class:`ExponentiatedGradient`."""

    name: ClassVar[str] = "exponentiated_gradient"
    terms: ClassVar[Terms] = Terms(("zeros", "model", "data", "loss_augmented"), constrained=True, panel_state=True)

    def evaluate(self, objective: Objective, state: EGState) -> Report:
        w = clipped(state.x, traits(objective).nonnegative)
        quadratic = 0.5 * self.box.lam * squared_norm(w)
        fun = value_of(objective, w, self.box.mu) + quadratic
        dual = float(np.mean(state.values)) - quadratic
        return Report(w, fun, dual, fun - dual, calls=state.calls)


@dataclass(frozen=True)
class CentredRun(Solver):
    """A run of :class:`Centred`. It returns the weights of lowest objective, with the highest dual."""

    box: Centred

    name: ClassVar[str] = "exponentiated_gradient"
    terms: ClassVar[Terms] = Terms(
        ("zeros", "model", "data", "loss_augmented"),
        constrained=True,
        panel_state=True,
        still=STILL,
        iterate="of lowest objective",
    )

    @property
    def form(self) -> str | None:
        """That of the dual method, whose state it is."""
        kind = type(self.box.dual)
        return f"{kind.__module__}.{kind.__qualname__}"

    def value(self, objective: Objective, w: Array) -> float:
        """The objective with its regulariser."""
        box = self.box.dual
        loss = value_of(objective, w, box.mu)
        return loss + box.l1 * absolute_sum(w) + 0.5 * self.box.lam * squared_norm(w)

    def evaluate(self, objective: Objective, state: CentredState) -> Report:
        box, (x, fun, dual) = self.box, state.best
        w = box.weights(objective, state)
        last = self.value(objective, w)
        if not last >= fun:
            x, fun = w, last
        dual = max(dual, box.bound(state))
        return Report(x, fun, dual, fun - dual, calls=state.dual.calls, detail=(x, fun, dual))

    def accept(
        self, objective: Objective, before: Any, after: CentredState, report: Report, rng: np.random.Generator
    ) -> tuple[CentredState, Report]:
        return after._replace(best=report.detail), report

    def restored(self, objective: Objective, saved: CentredState) -> CentredState:
        x, _, dual = saved.best
        return saved._replace(best=(x, self.value(objective, x), dual))

    def ending(self, run: Run, state: Any) -> Ending:
        return Ending(verdict(run), "of lowest objective", run.gap)


@runs("evaluation", epochs=100, tol=1e-3, rng=None)
def exponentiated_gradient(
    objective: StructuralHinge,
    *,
    lam: DualLam,
    l1: Annotated[float, Ge(0)] = 0.0,
    kappa: Annotated[float, Ge(0)] | None = None,
    mu: float | None = None,
    step_size: Annotated[float, Gt(0)] | None = None,
    sampling: Literal["gains", "permutation"] = "gains",
    evaluate_every: Annotated[int, Ge(1)] = 1,
    **run: Unpack[RunOptions],
) -> Result:
    """Train a CRF, or a structural SVM, by online exponentiated gradient on its dual, until the duality gap is small.

    A visit of example i multiplies its probabilities by exponentials of the dual's gradient, which is a step of its
    local scores:

    alpha_i(y) <- alpha_i(y)^(1 - eta) exp(eta [loss_i(y) + score_i(y; w)] / mu) / norm,
    theta_i <- (1 - eta) theta_i + eta [loss_i + scores_i(w)] / mu,

    and for mu = 0, theta_i <- theta_i + eta [loss_i + scores_i(w)]. A step that would decrease the dual is rejected,
    and eta is halved for the next visit; otherwise eta grows by a tenth, to at most 1 if mu > 0.

    Parameters
    ----------
    objective : LogLoss or StructuralHinge
        The structure of its model needs ``expectation``. The weights in its slice ``nonnegative`` are kept >= 0.
    l1 : float >= 0
        Weight of the sum of the absolute weights; crfsuite's c1 = n l1.
    kappa : float >= 0, optional
        Weight of the proximal term, for l1 > 0; default sqrt(l1/n)/2 for binary features, and in their unit for others.
        0: none. The optimum does not depend on it.
    mu : float >= 0, optional
        Temperature; default the objective's own: 1 for the log loss, 0 for an unsmoothed hinge. A hinge with mu > 0
        needs ``smoothing=smoothings.Entropy()``.
    step_size : float > 0, optional
        The first eta of each example. For mu > 0 at most 1, default 0.3; for mu = 0 in units of 1/score, default 3.
    epochs : int >= 0
        The most epochs of n visits.
    sampling : {"gains", "permutation"}
        Which examples are visited, from the third epoch on: four in five visits are drawn in proportion to the gain of
        an example's last step divided by its size; or each example once.
    evaluate_every : int >= 1
        Epochs from one evaluation of the objective to the next. Each evaluation adds a row, calls the callback and
        compares the gap with ``tol``. It costs about half an epoch.

    Returns
    -------
    Result
        ``certificate`` is the duality gap of the weights. ``success`` is False if a ``tol`` > 0 was not reached. With
        l1 the weights are those of lowest objective so far.

    Raises
    ------
    ValueError, UnsupportedError, IntractableError, TypeError
        Options out of range; kappa without l1; a smoothing other than the entropy at mu > 0; a structure without
        ``expectation``, or for which it is intractable; an objective other than these two, as its dual is unknown.

    Notes
    -----
    The dual never decreases, up to rounding, unless outputs other than the truth have task loss 0. A visit makes one
    call of the exp oracle. The first visit of an example makes up to twelve, as it tries distributions that are more
    and more concentrated on the truth. Memory: local scores and marginals of each example. For an unsmoothed hinge the
    gap decreases like 1/epochs, and ``bcfw`` is the better choice.

    Source
    ------
    Collins et al. (2008), sections 3 to 6 (the online updates); the step sizes and the sampling are not from there. The
    dual with l1: Shalev-Shwartz and Zhang (2014). The proximal term: Rockafellar (1976).

    Examples
    --------
    >>> from reference import LogLoss, MulticlassModel, exponentiated_gradient
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # active features and labels of three examples
    >>> result = exponentiated_gradient(LogLoss(model, data), lam=0.1, tol=1e-6, rng=0)
    >>> result.success, result.certificate <= 1e-6 * result.fun
    (True, True)
    """
    if isinstance(objective, Weighted):
        raise TypeError(
            "objective: exponentiated_gradient does not support weights of examples, got Weighted; use lbfgs, svrg or "
            "bcfw"
        )
    check_needs(Exponentiated, objective, traits(objective))
    mu = objective._mu(mu)
    check_offers(objective.model.structure_type, "expectation", "exponentiated_gradient")
    if mu > 0 and not isinstance(objective.smoothing, Entropy):
        raise ValueError(
            f"objective: the dual at mu = {mu:g} is that of smoothing=Entropy(), got smoothing={objective.smoothing}"
        )
    eta = (0.3 if mu > 0 else 3.0) if step_size is None else float(step_size)
    if mu > 0 and eta > 1:
        raise ValueError(f"step_size: expected at most 1 for mu > 0, got {eta}")
    box, resolved = ExponentiatedGradient(lam, mu, eta, sampling, l1), {"mu": mu, "step_size": eta}
    if l1 == 0:
        if kappa is not None:
            raise ValueError(f"kappa: expected None without l1, got {kappa}")
        return minimize(objective, Exponentiated(box), every=evaluate_every, resolved=resolved, **run).result
    kappa = default_kappa(objective, l1) if kappa is None else float(kappa)
    solver, resolved = CentredRun(Centred(lam, kappa, box)), {**resolved, "kappa": kappa}
    return minimize(objective, solver, every=evaluate_every, resolved=resolved, **run).result
