"""Multi-sample dual updates: their run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Unpack

from reference.declared import DualLam, Ge, Temperature
from reference.optimizers.base import Cornered, Objective, regularised
from reference.optimizers.multisample import Multisample, MultisampleState
from reference.structures.base import at_most
from reference.structures.proposals import Sampler
from reference.training.solver import Needs, Report, Result, RunOptions, Solver, minimize, runs

__all__ = ["multisample"]


@dataclass(frozen=True)
class DualUpdates(Solver):
    """A run of :class:`Multisample`."""

    name: ClassVar[str] = "multisample"
    needs: ClassVar[Needs | None] = Needs(("corners(w, batch)", "zeros"), unsmoothed=True)

    def start(self, objective: Objective, w0: Any, rng: Any) -> Any:
        at_most("k", self.box.k, self.box.k, "whose inner products take")
        return super().start(objective, w0, rng)

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
    rng : int, numpy.random.Generator or None
        Draws the orders (one permutation a pass) and the samples, on the host.

    Returns
    -------
    Result
        ``certificate`` is the duality gap: the objective at the returned weights minus the highest dual after a pass.
        ``history`` has these highest duals, D_T / T; only after complete passes do they bound the optimum.

    Raises
    ------
    ValueError
        Options out of range; a hinge with a smoothing; weights that must be >= 0; a sampler that proposes more than
        k - 1 outputs, or an impossible output.
    UnsupportedError, TypeError
        An objective without corners, such as the log loss; a structure without ``topk`` or ``sample`` for k > 1; a
        sampler that does not return a list of outputs.

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
    return minimize(objective, DualUpdates(Multisample(lam, k, sampler, mu, update, online, average)), **run)
