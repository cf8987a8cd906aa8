"""The variants of Casimir-SVRG that its paper names. Source: Pillutla et al., sections 7.2 and 7.3.1."""

from __future__ import annotations

from typing import Annotated, Any

from reference.arrays import Array
from reference.declared import Gt, Lam, Temperature
from reference.optimizers.base import Objective
from reference.training.casimir import casimir
from reference.training.result import Result

__all__ = ["casimir_svrg_adapt", "casimir_svrg_const"]


def casimir_svrg_const(
    objective: Objective,
    w0: Array | None = None,
    *,
    lam: Lam,
    mu: Temperature | None = None,
    kappa: Annotated[float, Gt(0)] | None = None,
    **options: Any,
) -> Result:
    """Minimise F(w) + lam/2 ||w||^2 by Casimir with constant smoothing, each subproblem by one pass of SVRG.

    mu_k = mu,  kappa_k = kappa = L/n - lam if that is > 3 lam, else lam  (for lam = 0: L/(n+1))

    This is ``casimir(objective, lam=lam, schedule="const")``, which describes the result and the errors. Momentum is
    that of Corollary 17, of 19 for lam = 0.

    Parameters
    ----------
    objective, w0, lam
        As for :func:`casimir`.
    mu : float > 0, optional
        Strength of the smoothing, to be tuned: the run ends up to mu D above the optimum, D the width of the smoothing.
        Default 1; the log loss has its own.
    kappa : float > 0, optional
        Weight of the proximal term. Default as above, with L the smoothness of the examples' losses at mu, found by
        backtracking at the start.
    **options
        Others of :func:`casimir`: ``step_size`` (default: found), ``warm_start``, ``epochs``, ``tol``, ``rng``,
        ``callback``, ...

    Source
    ------
    Pillutla et al., section 7.2 (Casimir-SVRG-const), Propositions 29 and 31; the paper tunes L on a grid instead.
    """
    return casimir(objective, w0, lam=lam, mu=mu, kappa=kappa, schedule="const", **options)


def casimir_svrg_adapt(
    objective: Objective,
    w0: Array | None = None,
    *,
    lam: Lam,
    mu: Temperature | None = None,
    kappa: Annotated[float, Gt(0)] | None = None,
    **options: Any,
) -> Result:
    """Minimise F(w) + lam/2 ||w||^2 by Casimir with decreasing smoothing, each subproblem by one pass of SVRG.

    lam > 0:  mu_k = mu (1 - sqrt(q)/2)^{k/2}, q = lam/(lam + kappa),  kappa_k = kappa = lam
    lam = 0:  mu_k = mu/k,  kappa_k = kappa k,  kappa = L/(n+1), L the smoothness of the examples' losses at mu

    This is ``casimir(objective, lam=lam, schedule="adapt")``, which describes the result and the errors. Momentum is
    that of Corollary 18, of 20 for lam = 0.

    Parameters
    ----------
    objective, w0, lam
        As for :func:`casimir`; the objective must have a smoothing.
    mu : float > 0, optional
        First value of the smoothing; default 2. Its choice matters little.
    kappa : float > 0, optional
        Weight of the proximal term. Default as above.
    **options
        Others of :func:`casimir`: ``step_size`` (default: found, shorter as the smoothing decreases), ``warm_start``,
        ``epochs``, ``tol``, ``rng``, ``callback``, ...

    Source
    ------
    Pillutla et al., section 7.2 (Casimir-SVRG-adapt), Propositions 30 and 32; the paper tunes a constant step size on a
    grid instead.

    Examples
    --------
    >>> from reference import MulticlassModel, StructuralHinge, casimir_svrg_adapt, smoothings
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # active features and labels of three examples
    >>> hinge = StructuralHinge(model, data, smoothing=smoothings.Entropy())
    >>> casimir_svrg_adapt(hinge, lam=0.1, tol=0.1, rng=0).success  # within a tenth of the unsmoothed optimum
    True
    """
    return casimir(objective, w0, lam=lam, mu=mu, kappa=kappa, schedule="adapt", **options)
