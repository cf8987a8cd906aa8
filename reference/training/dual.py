"""Methods that have a dual value, and end when the duality gap is small: their runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Unpack

from reference.arrays import absolute_sum, squared_norm
from reference.declared import DualLam, Ge, Temperature
from reference.optimizers.base import Cornered, Linearized, Objective, is_hinge, regularised, traits, value_of
from reference.optimizers.bcfw import BCFW, BCFWState
from reference.optimizers.centre import Centred, default_kappa
from reference.optimizers.cutting_planes import CuttingPlanes, CuttingPlanesState
from reference.optimizers.multisample import Multisample, MultisampleState
from reference.optimizers.nonnegative import shrunk
from reference.structures.base import UnsupportedError, at_most
from reference.structures.proposals import Sampler
from reference.training.centred import CentredRun, with_centre
from reference.training.solver import Report, Result, RunOptions, Solver, Terms, minimize, runs

__all__ = ["bcfw", "cutting_planes", "multisample"]


@dataclass(frozen=True)
class FrankWolfe(Solver):
    """A run of :class:`BCFW`."""

    name: ClassVar[str] = "bcfw"
    terms: ClassVar[Terms] = Terms(("corners(w, batch)", "zeros"), constrained=True, unsmoothed=True, panel_state=True)

    def evaluate(self, objective: Objective, state: BCFWState) -> Report:
        lam, l1 = self.box.lam, self.box.l1
        w = shrunk(state.mean, l1 / lam, traits(objective).nonnegative)
        quadratic = 0.5 * lam * squared_norm(w)
        fun, dual = value_of(objective, w, None) + quadratic, state.mean_loss - quadratic
        if l1 > 0:
            fun += l1 * absolute_sum(w)
        return Report(w, fun, dual, fun - dual)


@dataclass(frozen=True)
class CentredFrankWolfe(CentredRun):
    """A run of :class:`Centred` around :class:`BCFW`."""

    name: ClassVar[str] = "bcfw"
    terms: ClassVar[Terms] = with_centre(FrankWolfe.terms)


@runs("epoch (a pass of oracles and its cached passes)", epochs=100, tol=1e-3, rng=None)
def bcfw(
    objective: Cornered,
    *,
    lam: DualLam,
    l1: Annotated[float, Ge(0)] = 0.0,
    kappa: Annotated[float, Ge(0)] | None = None,
    cached_passes: Annotated[int, Ge(0)] = 5,
    capacity: Annotated[int, Ge(1)] = 8,
    average: Literal["last", "weighted"] = "last",
    line_search: bool = True,
    **run: Unpack[RunOptions],
) -> Result:
    """Train a structural SVM by block-coordinate Frank-Wolfe, until the duality gap is small.

    A visit of example i finds s = argmax_y loss_i(y) + <v_i(y), w> and moves alpha_i towards it:

    alpha_i <- (1 - gamma) alpha_i + gamma e_s,
    gamma = clip( lam n [loss_i(s) - loss + <v_i(s) - v, w>] / ||v_i(s) - v||^2, 0, 1 ),

    v = sum_y alpha_i(y) v_i(y) and loss = sum_y alpha_i(y) loss_i(y). The outputs s form the working set of example i.
    With cached passes, pairwise steps then move weight from its worst to its best output. Cached passes take such steps
    alone, on the examples that had weight to move at their last visit.

    Parameters
    ----------
    objective : object with ``n``, ``zeros()``, ``value_and_gradient(w, batch, mu)`` and ``corners(w, batch)``
        An unsmoothed structural hinge. The weights in its slice ``nonnegative`` are kept >= 0.
    l1 : float >= 0
        Weight of the l1 norm: the regulariser is l1 ||w||_1 + lam/2 ||w||^2, which sets weights to 0. In crfsuite's
        convention c1 = l1 n.
    kappa : float >= 0, optional
        With l1, the weight of a proximal term kappa/2 ||w - y||^2 during epochs; after every third one y becomes w
        (:class:`reference.algorithms.Centred`). Default: 0 without line search or with an average, else as in
        :func:`exponentiated_gradient`. The optimum does not depend on it.
    epochs : int >= 0
        The most passes that call the oracle of each example.
    cached_passes : int >= 0
        Passes over the working sets after each pass of oracles. 0: plain block-coordinate Frank-Wolfe.
    capacity : int >= 1
        Outputs in a working set. A new output replaces the output of lowest score among those of weight 0. If all
        outputs have weight, the set grows beyond its capacity.
    average : {"last", "weighted"}
        Which iterate is returned: w_t, or 2/(t^2+t) sum_s s w_s over the t visits. With cached passes the last iterate
        is better; the average is for ``cached_passes=0``.
    line_search : bool
        Line search for gamma; without it, gamma = 2n/(2n + visits so far). The line search is the formula above; with
        l1 > 0, or weights kept >= 0, it maximises the dual of that problem along the step, a piecewise quadratic.

    Returns
    -------
    Result
        ``certificate`` is the duality gap of the returned weights. In ``history``, dual and gap belong to the iterate
        that would be returned; the dual point of the average is the average of the dual points. ``success`` is False if
        a ``tol`` > 0 was not reached or the objective is not finite.

    Raises
    ------
    ValueError, UnsupportedError, TypeError
        Options out of range; a hinge with a smoothing; an objective without corners, such as the log loss.

    Notes
    -----
    With line search the dual never decreases along the last iterates, up to rounding. A step is skipped if the squared
    length of its direction overflows. Memory: O(d) for each output kept.

    Source
    ------
    Lacoste-Julien et al. (2013), Algorithm 4; Pillutla et al., section 7.2 (bcfw-wavg). The dual with l1 is from
    Shalev-Shwartz and Zhang (2014), and its line search is ours.

    Examples
    --------
    >>> from reference import MulticlassModel, StructuralHinge, bcfw
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # active features and labels of three examples
    >>> result = bcfw(StructuralHinge(model, data), lam=0.1, tol=1e-3, rng=0)
    >>> result.success, result.certificate <= 1e-3 * result.fun
    (True, True)
    """
    box = BCFW(lam, capacity, average, line_search, cached_passes, l1)
    last = average == "last" and line_search
    if kappa and not (l1 > 0 and last):
        raise ValueError(f'kappa: expected 0 without l1, without line search, or with average="weighted", got {kappa}')
    kappa = (default_kappa(objective, l1) if l1 > 0 and last else 0.0) if kappa is None else float(kappa)
    solver = CentredFrankWolfe(Centred(lam, kappa, box)) if kappa > 0 else FrankWolfe(box)
    return minimize(objective, solver, resolved={"kappa": kappa or None}, **run).result


STILL = 10  # planes that leave the dual as it is end a run


@dataclass(frozen=True)
class Planes(Solver):
    """A run of :class:`CuttingPlanes`."""

    name: ClassVar[str] = "cutting_planes"
    terms: ClassVar[Terms] = Terms(("linearize(w, batch)", "zeros"), unsmoothed=True, still=STILL, iterate="best")

    def evaluate(self, objective: Objective, state: CuttingPlanesState) -> Report:
        return Report(state.best, state.fun, state.dual, state.fun - state.dual)

    def restored(self, objective: Objective, saved: CuttingPlanesState) -> CuttingPlanesState:
        return saved._replace(fun=regularised(objective, saved.best, self.box.lam, None))


@runs(epochs=1000, tol=1e-3)
def cutting_planes(
    objective: Linearized, *, lam: DualLam, capacity: Annotated[int, Ge(1)] = 200, **run: Unpack[RunOptions]
) -> Result:
    """Train a structural SVM by one-slack cutting planes, until the duality gap is small.

    w_{k+1} = argmin_w  lam/2 ||w||^2 + max_{j <= k} [b_j + <a_j, w>],
    b_j + <a_j, w> <= F(w) the tangent plane of the mean hinge F at w_j

    Parameters
    ----------
    objective : object with ``n``, ``zeros()``, ``value_and_gradient(w, batch, mu)``, ``linearize(w, batch, mu)``
        An unsmoothed structural hinge.
    epochs : int >= 0
        The most planes; each takes one pass over the examples.
    capacity : int >= 1
        Planes kept. Beyond, the oldest planes of weight 0 are dropped. If all planes have weight, the set grows beyond
        its capacity.

    Returns
    -------
    Result
        The iterate of lowest objective. ``certificate`` and the gaps in ``history`` are duality gaps: that objective
        minus the dual. ``success`` is False if a ``tol`` > 0 was not reached or the objective is not finite.

    Raises
    ------
    ValueError, TypeError, UnsupportedError
        Options out of range; a hinge with a smoothing; weights that must be >= 0; an objective without ``linearize``;
        the log loss, whose planes have no task loss.

    Notes
    -----
    The pass for a plane also gives the objective at w_k. The dual never decreases; the gap is at most eps after
    O(1/(lam eps)) planes (Joachims et al., Theorem 5; Teo et al., Theorem 5). The master problem over the simplex is
    solved to a thousandth of the gap. If the features have very different scales, rounding keeps it from that: a run
    with a ``tol`` ends when ten planes in succession have not changed the dual. Memory O(capacity d).

    Source
    ------
    Joachims et al. (2009), Algorithm 3; Teo et al. (2010), Algorithm 2 (BMRM).

    Examples
    --------
    >>> from reference import MulticlassModel, StructuralHinge, cutting_planes
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # active features and labels of three examples
    >>> result = cutting_planes(StructuralHinge(model, data), lam=0.1, tol=1e-3)
    >>> result.success, result.certificate <= 1e-3 * result.fun
    (True, True)
    """
    if hasattr(objective, "loss_augmented") and not is_hinge(objective):
        raise UnsupportedError(
            f"objective: cutting_planes needs planes with a task loss that the loss touches, which "
            f"{type(objective).__name__} has not; StructuralHinge has"
        )
    accuracy = 0.0 if run["tol"] is None else run["tol"]
    return minimize(objective, Planes(CuttingPlanes(lam, capacity, accuracy)), **run).result


@dataclass(frozen=True)
class DualUpdates(Solver):
    """A run of :class:`Multisample`."""

    name: ClassVar[str] = "multisample"
    terms: ClassVar[Terms] = Terms(("corners(w, batch)", "zeros"), unsmoothed=True)

    def evaluate(self, objective: Objective, state: MultisampleState) -> Report:
        x = state.x if self.box.average == "last" else state.mean
        fun = regularised(objective, x, self.box.lam, None)
        return Report(x, fun, state.best, fun - state.best)


@runs(epochs=100, tol=1e-3, rng=None)
def multisample(
    objective: Cornered,
    *,
    lam: DualLam,
    k: Annotated[int, Ge(1)] = 5,
    sampler: Literal["topk", "gibbs"] | Sampler = "topk",
    mu: Temperature = 1.0,
    update: Literal["moves", "exact"] = "moves",
    online: bool = False,
    average: Literal["last", "uniform"] = "last",
    **run: Unpack[RunOptions],
) -> Result:
    """Train a structural SVM by dual updates over several outputs of an example, until the duality gap is small.

    A visit of example i samples k outputs y_1, ..., y_k, where y_1 has the highest loss_i(y) + <v_i(y), w>, and raises
    the dual over their weights:

    max_alpha  sum_j alpha_j (loss_i(y_j) + <v_i(y_j), w>) - ||sum_j alpha_j v_i(y_j)||^2 / (2 lam t),
    alpha >= 0, sum alpha <= 1

    Then all weights of all blocks are multiplied by the number in [0, 1] that maximises the dual. This keeps
    lam ||w||^2 <= max_{i, y} loss_i(y).

    Parameters
    ----------
    objective : object with ``n``, ``zeros()``, ``value_and_gradient(w, batch, mu)``, ``corners(w, batch, k)``
        An unsmoothed structural hinge. ``sampler="gibbs"`` needs ``sampled_corners(w, batch, k, mu, rng)``, too.
    k : int >= 1
        Outputs sampled in a visit; fewer if an example has fewer.
    sampler : {"topk", "gibbs"} or callable
        The k best loss-augmented outputs; or the best and k - 1 drawn with probability proportional to
        exp((score + loss) / mu). A callable, ``sampler(i, space, size, rng)``, proposes at most size = k - 1 outputs
        for example i, in the form that ``space.parts`` takes; the best output is added. The best output and duplicates
        may be among the proposals. ``space`` is the example's structure at the current weights, without a batch axis,
        with the task loss added to the scores; ``rng`` is the run's numpy.random.Generator. The updates do not need the
        probabilities of the proposals.
    mu : float > 0
        Temperature of ``"gibbs"``.
    update : {"moves", "exact"}
        One round of expand and swap moves, or the maximum. The maximum has a closed form for a new block of a
        :class:`MulticlassModel`.
    online : bool
        Each visit of an example adds a new block to the dual (Algorithm 3 as printed: T blocks after T steps, O(d)
        memory). Otherwise an example keeps its block (n blocks: the dual rises to the optimum).
    average : {"last", "uniform"}
        Which iterate is returned: w^T, or the mean of w^0, ..., w^{T-1}, the iterate of Theorem 2.1.
    epochs : int >= 0
        The most passes over the examples.

    Returns
    -------
    Result
        ``certificate`` is the duality gap: the objective at the returned weights minus the highest dual after a pass.
        ``history`` has these highest duals, D_T / T; only after complete passes do they bound the optimum.

    Raises
    ------
    ValueError, UnsupportedError, TypeError
        Options out of range; a hinge with a smoothing; weights that must be >= 0; an objective without corners, such as
        the log loss; a structure without ``topk`` or ``sample`` for k > 1; a sampler that does not return a list of
        outputs, or that proposes more than k - 1 outputs, or an impossible one.

    Notes
    -----
    The best output is always among the samples. Therefore a step with a new block raises D_T by at least
    f(w; Z_t) - ||lam w + v_t(y_1)||^2 / (2 lam t), and no step lowers it. A visit makes one oracle call for any k, and
    takes O(k d + k^2) besides. Memory: O(k d), and O(n d) for the blocks unless ``online``. An update is skipped if
    products of its directions overflow.

    Source
    ------
    Branson et al. (2013), supplement: Algorithms 1 to 3, Lemmas 2.2 to 2.5, *corrected*; the radius sqrt(1/lam) of the
    print holds for losses up to 1.

    Examples
    --------
    >>> from reference import MulticlassModel, StructuralHinge, multisample
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # active features and labels of three examples
    >>> result = multisample(StructuralHinge(model, data), lam=0.1, k=2, tol=1e-3, rng=0)
    >>> result.success, result.certificate <= 1e-3 * result.fun
    (True, True)
    """
    at_most("k", k, k, "whose inner products take")
    return minimize(objective, DualUpdates(Multisample(lam, k, sampler, mu, update, online, average)), **run).result
