"""Online multiple kernel learning: its run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Unpack

import numpy as np

from reference.arrays import host
from reference.declared import Ge, Gt, Said
from reference.kernels import Kernel, titled
from reference.models.kernel_sequence import KernelData, KernelSequenceModel, KernelWeights
from reference.online_mkl.rounds import MKL, KernelProblem, MKLState
from reference.prox.base import Regularizer
from reference.steps import Schedule, schedule_of
from reference.training.public import RunOptions, runs
from reference.training.result import Report, Result
from reference.training.solver import Solver, Terms, minimize

__all__ = ["MKLResult", "mkl"]


@dataclass(frozen=True, kw_only=True)
class MKLResult(Result):
    """A :class:`Result` whose x is a :class:`KernelWeights`.

    beta (p,): the kernels' weights at x; norms (nit, p): the groups' norms after each epoch, those of the last model
    even if the average is returned.
    """

    beta: np.ndarray = field(repr=False)
    norms: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class Rounds(Solver):
    """A run of :class:`MKL`."""

    name: ClassVar[str] = "mkl"
    terms: ClassVar[Terms] = Terms(
        evaluates_start=False,
        panel_state=True,
        uncertified="none: the online proximal algorithm keeps no dual point",
    )

    def start(self, problem: Any, w0: Any, rng: Any) -> KernelWeights:
        box = self.box
        _check_data(problem.model, problem.data)
        if not isinstance(box.penalty, Regularizer):
            raise TypeError(f"penalty: expected a Regularizer such as SquaredL1(0.1), got {box.penalty!r}")
        weights: KernelWeights = problem.model.zeros(problem.data)
        return weights

    def evaluate(self, problem: Any, state: MKLState) -> Report:
        model, data, weights = problem.model, problem.data, state.weights
        if self.box.average != "last":
            weights = state.mean._replace(squared_norms=model.squared_norms(data, state.mean))
        return Report(weights, objective(model, data, weights, self.box), calls=state.t)


@runs(epochs=20, rng=None)
def mkl(
    model: KernelSequenceModel,
    data: KernelData,
    *,
    lam: Annotated[float, Ge(0)] | None = None,
    step_size: float | Schedule,
    loss: Annotated[Literal["hinge", "crf"], Said("hinge or crf")] = "hinge",
    penalty: Regularizer | None = None,
    sigma: Annotated[float, Ge(0)] = 0.0,
    radius: Annotated[float, Gt(0)] | None = None,
    average: Literal["last", "uniform"] = "last",
    evaluate_every: Annotated[int, Ge(1)] = 1,
    **run: Unpack[RunOptions],
) -> MKLResult:
    """Learn sequences by several kernels at once, and the kernels' weights.

    theta_k <- (1 - eta sigma) theta_k - eta D_k,   b = prox_{eta penalty}(||theta_1||, ..., ||theta_p||),
    theta_k <- (b_k / ||theta_k||) theta_k

    Parameters
    ----------
    model : KernelSequenceModel
    data : KernelData
        Packed by it, with labels.
    lam : float >= 0
        Weight of (1/2) (sum_k ||theta_k||)^2; C = 1/(lam n). Required unless ``penalty`` is given.
    step_size : float or schedule
        A number is a constant step; ``steps.InverseSqrt(eta_0)`` is eta_0/sqrt(t), ``steps.Pegasos()`` is 1/(sigma t).
    loss : {"hinge", "crf"}
    penalty : Regularizer, optional
        Another function of the p norms, even in each, in place of ``SquaredL1(lam)``: ``HalfSquaredL2(lam)`` is the SVM
        with the sum of the kernels, ``L1(tau)`` the group lasso.
    sigma : float >= 0
        Weight of (sigma/2) sum_k ||theta_k||^2, taken by the gradient step.
    radius : float > 0, optional
        Scales all groups back to norm ``radius`` together; ``reference.bounds.optimum_radius`` is a radius whose ball
        contains the optimum.
    average : {"last", "uniform"}
        Which model is returned: the last, in which the penalty may have set groups to 0, or the average of the models
        at the start of each round.
    evaluate_every : int >= 1
        Epochs between rows of the history; the last epoch has one.
    callback : callable, optional
        Called as ``callback(row, weights)`` with each row and a copy of the weights, read-only with NumPy. Stops the
        run by returning True or raising StopIteration.

    Returns
    -------
    MKLResult

    Raises
    ------
    ValueError, TypeError
        Options out of range; data without labels.

    Notes
    -----
    A round costs O(n_i N L) a kernel for a sequence of n_i positions, if its Gram matrix is in memory.

    Source
    ------
    Martins et al., Algorithm 3, *corrected*: the prox is that of (eta lam/2) ||.||_1^2, a ratio 0/0 is 0, and the
    norms follow (17) with both lines corrected: ||theta - eta D||^2 = ||theta||^2 - 2 eta <theta, D> + eta^2
    ||D||^2.

    Examples
    --------
    >>> from reference import KernelSequenceModel, kernels, mkl, steps
    >>> model = KernelSequenceModel([kernels.Linear(), kernels.Gaussian(1.0)], labels=2)
    >>> X, Y = [[[0.0], [1.0]], [[2.0], [1.0]]], [[0, 1], [0, 1]]  # label 1 around 1, 0 on both sides
    >>> data = model.pack(X, Y)
    >>> result = mkl(model, data, lam=0.01, step_size=steps.InverseSqrt(1.0), epochs=20, rng=0)
    >>> [labels.tolist() for labels in model.predict(result.x, X)]
    [[0, 1], [0, 1]]
    """
    if penalty is None and lam is None:
        raise ValueError("lam: expected a number >= 0, or a penalty in its place")
    lam = 0.0 if lam is None else lam
    if isinstance(penalty, Regularizer) and lam > 0:
        raise ValueError(f"lam: has no effect with a penalty, which has its own weight; got {lam}")
    if not isinstance(model, KernelSequenceModel):
        raise TypeError(f"model: expected a KernelSequenceModel, got {type(model).__name__}")
    penalty = model.penalty(lam) if penalty is None else penalty
    box = MKL(penalty, schedule_of(step_size), loss, sigma, radius, average)
    resolved = {"lam": lam, "penalty": penalty, "step_size": box.step_size}
    resolved |= {"groups": ", ".join(map(titled, model.groups)), "transitions": model.transitions}
    problem = KernelProblem(model, data)
    how = {"every": evaluate_every, "resolved": resolved, **run}
    trained = minimize(problem, Rounds(box), **how)  # type: ignore[arg-type]
    result = trained.result
    norms = () if trained.state is None else trained.state.norms[: result.nit]
    return MKLResult(**vars(result), beta=result.x.beta, norms=np.array(norms).reshape(-1, model.n_groups))


def objective(model: KernelSequenceModel, data: KernelData, weights: KernelWeights, rules: MKL) -> float:
    """Mean loss + penalty of the norms + sigma/2 times the sum of their squares."""
    penalty = float(rules.penalty.value(np.sqrt(weights.squared_norms)))
    return model.mean_loss(data, weights, rules.loss) + penalty + 0.5 * rules.sigma * float(weights.squared_norms.sum())


def _check_data(model: Any, data: Any) -> None:
    if not isinstance(data, KernelData) or len(data.grams) != len(model.groups):
        raise TypeError(f"data: expected what model.pack returned, got {type(data).__name__}")
    if data.labels is None:
        raise ValueError("Y: this data was packed without labels; pack(X, Y) gives them")
    implicit = [isinstance(group, Kernel) for group in model.groups]
    if (
        implicit != [gram is not None for gram in data.grams]
        or int(np.max(host(data.labels), initial=0)) >= model.n_labels
    ):
        raise ValueError(
            f"data: packed for other groups, or with labels beyond the model's {model.n_labels}: it is another model's"
        )
