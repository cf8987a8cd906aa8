"""Block-coordinate Frank-Wolfe: its run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Unpack

from reference.arrays import squared_norm
from reference.declared import DualLam, Ge
from reference.optimizers.base import Cornered, Objective, value_of
from reference.optimizers.bcfw import BCFW, BCFWState
from reference.optimizers.nonnegative import clipped, constraint
from reference.training.solver import Loop, Needs, Report, Result, RunOptions, Solver, minimize, runs

__all__ = ["bcfw"]


@dataclass(frozen=True)
class FrankWolfe(Solver):
    """A run of :class:`BCFW`."""

    name: ClassVar[str] = "bcfw"
    needs: ClassVar[Needs | None] = Needs(("corners(w, batch)", "zeros"), constrained=True, unsmoothed=True)
    loop: ClassVar[Loop] = Loop(panel_state=True)

    def evaluate(self, objective: Objective, state: BCFWState) -> Report:
        w = clipped(state.mean, constraint(objective))
        quadratic = 0.5 * self.box.lam * squared_norm(w)
        fun, dual = value_of(objective, w, None) + quadratic, state.mean_loss - quadratic
        return Report(w, fun, dual, fun - dual)


@runs("epoch (a pass of oracles and its cached passes)", epochs=100, tol=1e-3, rng=None)
def bcfw(
    objective: Cornered,
    *,
    lam: DualLam,
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
        weights kept >= 0, it maximises the dual of that problem.
    rng : int, numpy.random.Generator or None
        Orders are drawn with NumPy on the host, one permutation for each pass, including cached passes.

    Returns
    -------
    Result
        ``certificate`` is the duality gap of the returned weights. In ``history``, dual and gap belong to the iterate
        that would be returned; the dual point of the average is the average of the dual points. ``success`` is False if
        a ``tol`` > 0 was not reached or the objective is not finite.

    Raises
    ------
    ValueError
        Options out of range; a hinge with a smoothing.
    UnsupportedError, TypeError
        An objective without corners, such as the log loss.

    Notes
    -----
    With line search the dual never decreases along the last iterates, up to rounding. A step is skipped if the squared
    length of its direction overflows. Memory: O(d) for each output kept.

    Source
    ------
    Lacoste-Julien et al. (2013), Algorithm 4; Pillutla et al., section 7.2 (bcfw-wavg).

    Examples
    --------
    >>> from reference import MulticlassModel, StructuralHinge, bcfw
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # active features and labels of three examples
    >>> result = bcfw(StructuralHinge(model, data), lam=0.1, tol=1e-3, rng=0)
    >>> result.success, result.certificate <= 1e-3 * result.fun
    (True, True)
    >>> [model.labels[y] for y in model.predict(data, None, result.x)]
    ['a', 'b', 'b']
    """
    return minimize(objective, FrankWolfe(BCFW(lam, capacity, average, line_search, cached_passes)), **run)
