"""Exponentiated gradient on the dual, without l1 and with it: its runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Unpack

import numpy as np

from reference.arrays import squared_norm
from reference.declared import DualLam, Ge, Gt
from reference.objectives import StructuralHinge
from reference.optimizers.base import Objective, traits, value_of
from reference.optimizers.centre import Centred, default_kappa
from reference.optimizers.exponentiated_gradient import EGState, ExponentiatedGradient
from reference.optimizers.nonnegative import clipped
from reference.smoothings import Entropy
from reference.structures.base import check_offers
from reference.training.centred import CentredRun, with_centre
from reference.training.solver import Report, Result, RunOptions, Solver, Terms, check_needs, minimize, runs
from reference.weighted import Weighted

__all__ = ["exponentiated_gradient"]


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
class CentredGradient(CentredRun):
    """A run of :class:`Centred` around exponentiated gradient."""

    name: ClassVar[str] = "exponentiated_gradient"
    terms: ClassVar[Terms] = with_centre(Exponentiated.terms)


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

    With l1 > 0 the objective has l1 ||w||_1, too, and most weights are exactly 0. During epochs it also has a proximal
    term kappa/2 ||w - y||^2; after every third one y becomes w (:class:`reference.algorithms.Centred`).

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
        if kappa:
            raise ValueError(f"kappa: expected 0 without l1, got {kappa}")
        return minimize(objective, Exponentiated(box), every=evaluate_every, resolved=resolved, **run).result
    kappa = default_kappa(objective, l1) if kappa is None else float(kappa)
    solver, resolved = CentredGradient(Centred(lam, kappa, box)), {**resolved, "kappa": kappa}
    return minimize(objective, solver, every=evaluate_every, resolved=resolved, **run).result
