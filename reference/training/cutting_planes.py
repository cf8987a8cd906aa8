"""One-slack cutting planes: their run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Unpack

from reference.declared import DualLam, Ge
from reference.optimizers.base import Linearized, Objective, regularised
from reference.optimizers.cutting_planes import CuttingPlanes, CuttingPlanesState
from reference.structures.base import UnsupportedError
from reference.training.solver import Loop, Needs, Report, Result, RunOptions, Solver, minimize, runs

__all__ = ["cutting_planes"]

STILL = 10  # planes that leave the dual as it is end a run


@dataclass(frozen=True)
class Planes(Solver):
    """A run of :class:`CuttingPlanes`."""

    name: ClassVar[str] = "cutting_planes"
    needs: ClassVar[Needs | None] = Needs(("linearize(w, batch)", "zeros"), unsmoothed=True)
    loop: ClassVar[Loop] = Loop(still=STILL, iterate="best")

    def start(self, objective: Objective, w0: Any, rng: Any) -> Any:
        if not getattr(objective, "loss_augmented", True):
            raise UnsupportedError(
                f"objective: cutting_planes needs planes with a task loss, which {type(objective).__name__} has not; "
                f"StructuralHinge has"
            )
        return super().start(objective, w0, rng)

    def evaluate(self, objective: Objective, state: CuttingPlanesState) -> Report:
        return Report(state.best, state.fun, state.dual, state.fun - state.dual)

    def restored(self, objective: Objective, saved: CuttingPlanesState) -> CuttingPlanesState:
        """The state with the objective evaluated again, so that a resumed run on other data is detected."""
        return saved._replace(fun=regularised(objective, saved.best, self.box.lam, None))


@runs(epochs=1000, tol=1e-3)
def cutting_planes(
    objective: Linearized,
    *,
    lam: DualLam,
    capacity: Annotated[int, Ge(1)] = 200,
    **run: Unpack[RunOptions],
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
    ValueError
        Options out of range; a hinge with a smoothing; weights that must be >= 0.
    TypeError
        An objective without ``linearize``.
    UnsupportedError
        The log loss, whose planes have no task loss.

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
    accuracy = 0.0 if run["tol"] is None else run["tol"]
    return minimize(objective, Planes(CuttingPlanes(lam, capacity, accuracy)), **run)
