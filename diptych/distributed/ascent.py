"""CoCoA: dual ascent on all partitions at once, with one exchange of weights a round.

    max_alpha  D(alpha) = (1/n) sum_i value_i(alpha_i) - lam/2 ||w(alpha)||^2,   w(alpha) linear in alpha

is the dual of the structural hinge (value_i: the expected task loss) or of the log loss (value_i: the entropy). In a
round each partition k makes a pass of a dual method over its own examples, on

    sum_{i in k} value_i(alpha_i) / n - lam <w, u_k> - sigma lam/2 ||u_k||^2,   u_k the change of w by partition k

For sigma = 1 and one partition this is the dual itself. The pass is the usual pass of the dual method, on weights
w + sigma u_k and with lam/sigma in place of lam. Then alpha moves by a share gamma of the sum of all changes, and w by
gamma sum_k u_k.

With l1 ||w||_1 in the objective, w = soft(x, l1/lam) for the x that is linear in alpha, D is the same in w, u_k the
change of x, and the pass is the dual method's with l1/sigma.

For the hinge sigma = 1. D is a parabola on the segment (with l1 one in pieces), and gamma is its maximiser there. For
the log loss, alpha_i is stored as scores, and the segment is that between the old and the new scores. The full step is
taken if D rises by it. Otherwise an exact line search finds the maximiser of D on the segment. Each of its points takes
a pass over the partitions. Sigma follows the ratio ||sum_k u_k||^2 / sum_k ||u_k||^2 of the last round. The ratio is at
most the number of partitions, and D cannot fall by the full step if sigma equals that number: D is concave, and the
whole step is the mean of the steps sigma u_k. In both cases D never falls.

Source: Jaggi et al. (2014), "Communication-efficient distributed dual coordinate ascent", Algorithm 1; sigma from Ma et
al. (2015), "Adding vs. averaging in distributed primal-dual optimization", (9). The line search and the choice of sigma
are ours.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import threading
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Unpack

import numpy as np

from diptych.distributed.objective import Partitioned
from diptych.distributed.partitions import Job, objective_of
from reference.arrays import absolute_sum, squared_norm
from reference.declared import DualLam, Ge, Unrecorded
from reference.objectives import LogLoss
from reference.optimizers.base import Algorithm, value_of
from reference.optimizers.bcfw import BCFW
from reference.optimizers.exponentiated_gradient import ExponentiatedGradient
from reference.optimizers.nonnegative import best_step, shrunk
from reference.smoothings import Max
from reference.structures.base import UnsupportedError
from reference.training.counterparts import counterpart
from reference.training.public import RunOptions, runs
from reference.training.result import Report, Result
from reference.training.run import Ending, Run
from reference.training.solver import Solver, minimize, verdict


class Stand(NamedTuple):
    """Identifies the dual variables of all partitions.

    They are ``share`` times the variables that round ``number`` wrote, plus 1 - ``share`` times those before the round.
    number: 0 is the start. share: in (0, 1].
    """

    number: int
    share: float


_LATEST: dict[tuple[str, int], tuple[int, Any]] = {}  # the last content this process wrote for a partition
_LOCK = threading.Lock()


class Duals(NamedTuple):
    """The dual variables of partitions, in the files of a run in a folder, so that none are lost with a worker.

    A round reads the files of the round before and writes new ones. So each task can be repeated. All workers must see
    the folder. keep: whether a process also keeps its last content in memory.
    """

    folder: str
    keep: bool

    def path(self, k: int, number: int) -> Path:
        """The file of partition k and round ``number``."""
        return Path(self.folder) / f"{k}-{number}.dual"

    def read(self, k: int, number: int) -> Any:
        """The content that round ``number`` wrote for partition k. The caller may change it.

        Raises
        ------
        FileNotFoundError
            This process does not see the folder, or the file was removed.
        """
        with _LOCK:
            latest = _LATEST.pop((self.folder, k), None)
        if latest is not None and latest[0] == number:
            return latest[1]
        try:
            return pickle.loads(self.path(k, number).read_bytes())
        except FileNotFoundError:
            raise FileNotFoundError(
                f"folder: {self.folder} has no dual variables of partition {k} after round {number}; all workers must "
                "see this folder, and a run can be resumed while it has the files of the checkpoint"
            ) from None

    def write(self, k: int, number: int, content: Any, drop: tuple[int, ...]) -> None:
        """Write the content of round ``number`` for partition k, and remove the files of the rounds ``drop``."""
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        path = self.path(k, number)
        part = path.with_suffix(f".{uuid.uuid4().hex}.part")  # another worker may write the same file
        with part.open("wb") as file:
            pickle.dump(content, file, protocol=pickle.HIGHEST_PROTOCOL)
        os.replace(part, path)
        if self.keep:
            with _LOCK:
                _LATEST[self.folder, k] = number, content
        for old in drop:
            self.path(k, old).unlink(missing_ok=True)


SAFETY = 1.1  # sigma divided by the ratio of the last round
PROBES = 10  # the most points of a line search; files are numbered with gaps for them
NEAR = 0.05  # a line search ends if the next point is within this share of the best one
ROUNDING = 16  # in machine epsilons: a fall of D by at most this share of its terms counts as rounding


class CoCoAState(NamedTuple):
    """The state of a run.

    x = w(alpha) (d,), before soft thresholding. value = (1/n) sum_i value_i(alpha_i). stand: identifies alpha. sigma:
    for the next round. rounds: number so far, rejected ones included. calls: oracle calls. step: the last gamma; 0 if
    the round was rejected. files: numbers of the files that are kept. drop: numbers of the files that the next round
    removes. best: the weights (d,) of the lowest objective so far, and that objective.
    """

    x: np.ndarray
    value: float
    stand: Stand
    sigma: float
    rounds: int = 0
    calls: int = 0
    step: float = 0.0
    files: tuple[int, ...] = ()
    drop: tuple[int, ...] = ()
    best: Any = (None, np.inf)


class Change(NamedTuple):
    """The change by a pass over a partition: u (d,), ||u||^2, sum of value_i(alpha_i) after the pass, oracle calls."""

    u: np.ndarray
    square: float
    value: float
    calls: int

    def __add__(self, other: Any) -> Change:
        return Change(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class Round(NamedTuple):
    """The arguments that all tasks of a round share.

    local: the algorithm that is the local method. lam_n = lam n / sigma, l1_n = l1 n / sigma. seeds: one for each
    partition. stand: identifies alpha. number: of the files that are written. drop: numbers of the files that are
    removed.
    """

    local: Any
    lam_n: float
    l1_n: float
    sigma: float
    seeds: np.ndarray
    duals: Duals
    stand: Stand
    number: int
    drop: tuple[int, ...]

    def box(self, objective: Any) -> Any:
        """The local method on a partition."""
        n = objective.n
        return counterpart(replace(self.local, lam=self.lam_n / n, l1=self.l1_n / n), objective)


def passed(job: Job, w: np.ndarray, shared: Round, k: int) -> Change:
    """One pass of the local method over partition k, from x = w (d,)."""
    objective = objective_of(job, k).objective
    box = shared.box(objective)
    if shared.stand.number == 0:
        state = box.init(objective, objective.zeros())
    else:
        state, alpha, value = shared.duals.read(k, shared.stand.number)
        if shared.stand.share < 1.0:
            value += shared.stand.share * (state.loss - value)
            state = box.between(state, alpha, shared.stand.share)._replace(loss=value)
    if isinstance(box, BCFW):
        before, state = (box.alpha(state), state.loss), state._replace(x=w, mean=w)
        after = box.epoch(objective, state, np.random.default_rng(shared.seeds[k]))
        x, value, calls, after = after.x, objective.n * after.loss, objective.n, after._replace(x=None, mean=None)
    else:
        before, state = (None, 0.0), state._replace(x=w, calls=0)
        after = box.epoch(objective, state, np.random.default_rng(shared.seeds[k]))
        x, value, calls, after = after.x, float(np.sum(after.values)), after.calls, after._replace(x=None)
    shared.duals.write(k, shared.number, (after, *before), shared.drop)
    u = (x - w) / shared.sigma
    return Change(u, squared_norm(u), value, calls)


class Probe(NamedTuple):
    """The arguments that all tasks share at a point gamma of the line search after a round. number: of its files."""

    round: Round
    number: int
    gamma: float


def probed(job: Job, w: np.ndarray, probe: Probe, k: int) -> Change:
    """The result for partition k if its scores move by the share gamma; u is that beyond the full step's u."""
    objective, shared = objective_of(job, k).objective, probe.round
    box = shared.box(objective)
    state, *rest = shared.duals.read(k, shared.number)
    before, *_ = shared.duals.read(k, shared.stand.number)
    state = box.between(objective, state._replace(x=np.zeros_like(w), calls=0), before, probe.gamma)
    shared.duals.write(k, probe.number, (state._replace(x=None), *rest), ())
    return Change(state.x / shared.sigma, 0.0, float(np.sum(state.values)), state.calls)


def next_share(tried: list[tuple[float, float]]) -> float | None:
    """The next point of a line search, from pairs of share and rise, in order of shares; None at the maximiser.

    The first pair is (0, 0), and the last has a negative rise. The next point is where the parabola through the best
    pair and its neighbours is highest; if no pair has a positive rise, half of the least share.
    """
    k = max(range(len(tried)), key=lambda k: tried[k][1])
    if k == 0:
        return 0.5 * tried[1][0]
    (a, low), (b, best), (c, high) = tried[k - 1 : k + 2]
    left, right = (b - a) * (best - high), (c - b) * (best - low)
    share = b - 0.5 * ((b - a) * left - (c - b) * right) / (left + right)
    return share if abs(share - b) > NEAR * b else None


def moved(state: CoCoAState, gamma: float, u: np.ndarray, value: float, stand: Stand) -> CoCoAState:
    """The state after a step gamma, which changed w by u."""
    return state._replace(x=state.x + u, value=value, stand=stand, step=gamma, files=(*state.files, stand.number))


@dataclass(frozen=True)
class CoCoA(Algorithm):
    """CoCoA; local: the algorithm BCFW or ExponentiatedGradient. :func:`cocoa` returns the weights in ``best``."""

    lam: float
    local: BCFW | ExponentiatedGradient
    duals: Duals
    l1: float = 0.0

    def weights(self, x: np.ndarray) -> np.ndarray:
        """w = soft(x, l1/lam) (d,)."""
        found: np.ndarray = shrunk(x, self.l1 / self.lam)
        return found

    def risen(self, x: np.ndarray, u: np.ndarray, rise: float) -> float:
        """How far D rises where x changes by u and the values by ``rise``."""
        if self.l1 == 0:
            return rise - self.lam * float(x @ u) - 0.5 * self.lam * squared_norm(u)
        before, after = self.weights(x), self.weights(x + u)
        return rise - 0.5 * self.lam * float((after - before) @ (after + before))

    def init(self, objective: Partitioned, w0: Any = None) -> CoCoAState:
        """The start: all mass is on the true outputs, which have value 0."""
        sigma = 1.0 if isinstance(self.local, BCFW) else float(len(objective.sizes))
        return CoCoAState(objective.zeros(), 0.0, Stand(0, 1.0), sigma)

    def epoch(self, objective: Partitioned, state: CoCoAState, rng: np.random.Generator) -> CoCoAState:
        """One round."""
        x, lam_n, sigma, most = state.x, self.lam * objective.n, state.sigma, len(objective.sizes)
        number = (state.rounds + 1) * (PROBES + 1)
        seeds = rng.integers(2**63, size=most)
        local = self.local, lam_n / sigma, self.l1 * objective.n / sigma
        shared = Round(*local, sigma, seeds, self.duals, state.stand, number, state.drop)
        total: Change = objective.sum_of(passed, x, shared)
        u, rise, square = total.u, total.value / objective.n - state.value, squared_norm(total.u)
        after = state._replace(rounds=state.rounds + 1, calls=state.calls + total.calls, step=0.0, drop=())
        if isinstance(self.local, BCFW):
            gamma = self.share(x, u, rise, lam_n)
            if gamma == 0.0:
                return after._replace(drop=(number,))
            return moved(after, gamma, gamma * u, state.value + gamma * rise, Stand(number, gamma))
        lost = ROUNDING * np.finfo(np.float64).eps * (abs(state.value) + self.lam * squared_norm(self.weights(x)))
        rises = self.risen(x, u, rise) >= -lost or sigma == most
        ratio = square / total.square if total.square > 0 else 1.0
        after = after._replace(sigma=min(max(SAFETY * ratio, 1.0 if rises else 2.0 * sigma), most))
        if rises:
            return moved(after, 1.0, u, state.value + rise, Stand(number, 1.0))
        return self.search(objective, after, shared, total)

    def share(self, x: np.ndarray, u: np.ndarray, rise: float, lam_n: float) -> float:
        """The gamma in [0, 1] with the highest D at x + gamma u, if values are linear in gamma.

        Without l1, D(alpha + gamma change) - D(alpha) = gamma slope - gamma^2 lam/2 ||u||^2.
        """
        slope, square = rise - self.lam * float(self.weights(x) @ u), squared_norm(u)
        if square > 0 and self.l1 > 0:
            n = lam_n / self.lam
            return best_step(x, -lam_n * u, n * slope, 1.0, lam_n, None, self.l1 / self.lam)
        return min(max(slope / (self.lam * square), 0.0), 1.0) if square > 0 else float(slope > 0)

    def search(self, objective: Partitioned, state: CoCoAState, shared: Round, full: Change) -> CoCoAState:
        """The state after the step to the maximiser of D on the segment of scores, where the full step lowers D."""
        x, number = state.x, shared.number

        def rise(u: np.ndarray, value: float) -> float:
            return self.risen(x, u, value - state.value)

        best, tried = state, [(0.0, 0.0), (1.0, rise(full.u, full.value / objective.n))]
        while number < shared.number + PROBES and (gamma := next_share(tried)) is not None:
            number += 1
            change: Change = objective.sum_of(probed, x, Probe(shared, number, gamma))
            state = state._replace(calls=state.calls + change.calls)
            u, value = full.u + change.u, change.value / objective.n
            point = gamma, rise(u, value)
            if point[1] > max(risen for _, risen in tried):
                best = moved(state, gamma, u, value, Stand(number, 1.0))
            tried = sorted([*tried, point])
        drop = tuple(k for k in range(shared.number, number + 1) if k != best.stand.number)
        return best._replace(calls=state.calls, drop=drop)


@dataclass(frozen=True)
class Ascent(Solver):
    """A run of :class:`CoCoA`.

    needed: the round whose files the newest checkpoint needs, in a list; None without checkpoints.
    """

    needed: list[int] | None = None

    name: ClassVar[str] = "cocoa"

    def evaluate(self, objective: Any, state: CoCoAState) -> Report:
        """The report of the best weights so far, because the objective may rise although the dual does not fall."""
        w, (x, fun) = self.box.weights(state.x), state.best
        quadratic = 0.5 * self.box.lam * squared_norm(w)
        dual = state.value - quadratic
        last = value_of(objective, w, None) + quadratic
        if self.box.l1 > 0:
            last += self.box.l1 * absolute_sum(w)
        if not last >= fun:
            x, fun = w, last
        return Report(x, fun, dual, fun - dual, calls=state.calls)

    def restored(self, objective: Any, saved: CoCoAState) -> CoCoAState:
        """The files of the checkpoint stay, so that it can be resumed again."""
        return saved._replace(files=(), drop=())

    def accept(self, objective: Any, before: Any, after: CoCoAState, report: Report, rng: Any) -> Any:
        """The next round removes the files that neither it nor the newest checkpoint needs."""
        least = after.stand.number if self.needed is None else self.needed[0]
        drop = (*after.drop, *(number for number in after.files if number < least))
        files = tuple(number for number in after.files if number >= least)
        return after._replace(best=(report.x, report.fun), files=files, drop=drop), report

    def ending(self, run: Run, state: Any) -> Ending:
        return Ending(verdict(run), "of lowest objective", run.gap)


@runs(epochs=100, tol=1e-3, rng=None)
def cocoa(
    objective: Partitioned,
    *,
    lam: DualLam,
    l1: Annotated[float, Ge(0)] = 0.0,
    local: BCFW | ExponentiatedGradient | None = None,
    evaluate_every: Annotated[int, Ge(1), Unrecorded()] = 1,
    folder: Annotated[str | Path | None, Unrecorded()] = None,
    **run: Unpack[RunOptions],
) -> Result:
    """Train a structural SVM or a CRF over partitions by CoCoA, until the duality gap is small.

    In each round every partition makes a pass of a dual method over its own examples. One vector of weights is sent
    each way. CoCoA is for data over which a pass is cheap compared with the transfers. It then needs fewer rounds than
    L-BFGS needs full gradients.

    Parameters
    ----------
    objective : Partitioned
        Its loss is an unsmoothed StructuralHinge or a LogLoss.
    lam : float > 0
        Weight of the squared norm; C = 1/(lam n).
    l1 : float >= 0
        Weight of the sum of the absolute weights.
    local : algorithm, optional
        The local method with its options: ``algorithms.BCFW`` for the hinge, ``algorithms.ExponentiatedGradient`` for
        the log loss. Its lam and l1 are not used. Default: these with the defaults of ``bcfw`` and
        ``exponentiated_gradient``.
    epochs : int >= 0
        The maximum number of rounds, rejected ones included.
    evaluate_every : int >= 1
        The number of rounds between two evaluations of the objective. Each evaluation adds a row to the history.
    folder : path, optional
        The folder of the dual variables: some numbers for each part of each example, for the last two rounds and for
        those since the newest checkpoint. All workers must see it. Default: with a checkpoint, the name of that file
        with ``.duals`` appended; otherwise a folder of this machine, which is removed at the end.
    rng : int, numpy.random.Generator or None
        Draws the orders of examples.
    callback : callable, optional
        Called as ``callback(row, w)`` after each evaluation, with a read-only copy of the weights. The run stops if it
        returns True or raises StopIteration.

    Returns
    -------
    Result
        ``certificate`` is the duality gap of the weights. ``success`` is False if a ``tol`` > 0 was not reached. The
        bits depend on the partitions, but not on the number of workers.

    Raises
    ------
    UnsupportedError, TypeError
        The objective is not in partitions; the hinge is smoothed; some weights must be >= 0.
    ValueError
        Options are out of range.
    FileNotFoundError
        A worker does not see the folder.

    Notes
    -----
    The dual never falls, up to rounding. For the hinge, an exact line search finds the joint step. For the log loss,
    the full step is taken if the dual rises by it. Otherwise an exact line search on the segment of the examples'
    scores finds the step. Each point of this search takes a pass over the partitions.

    Source
    ------
    Jaggi et al. (2014), Algorithm 1. The scaled local problem is from Ma et al. (2015), (9). The line search, the
    rejected rounds and the choice of sigma are ours.

    Examples
    --------
    >>> import numpy as np, reference as sp
    >>> from diptych.distributed import Partitioned, cocoa
    >>> def words(): return [np.eye(2), np.eye(2)[:1]], [[0, 1], [0]]
    >>> objective = Partitioned([words, words], sp.SequenceModel(2, 2), sp.StructuralHinge)
    >>> result = cocoa(objective, lam=0.1, tol=1e-6, rng=0)
    >>> result.success, result.certificate <= 1e-6 * result.fun
    (True, True)
    """
    if not isinstance(objective, Partitioned):
        raise TypeError(f"objective: expected a Partitioned objective, got {type(objective).__name__}; use bcfw")
    box = _local(objective, lam, local)
    if folder is None and run["checkpoint"] is not None:
        folder = f"{run['checkpoint']}.duals"
    if folder is None and run["resume"] is not None:
        folder = f"{run['resume']}.duals"
    own = tempfile.mkdtemp(prefix="diptych-") if folder is None else None
    try:
        duals = Duals(str(own or Path(folder or "").absolute()), objective.memory is None)
        needed = None if run["checkpoint"] is None else [0]
        solver = Ascent(CoCoA(lam, box, duals, l1), needed)

        def written(state: CoCoAState) -> None:
            if needed is not None:
                needed[:] = [state.stand.number]

        resolved = {"local": box}
        return minimize(objective, solver, every=evaluate_every, resolved=resolved, written=written, **run).result
    finally:
        if own is not None:
            shutil.rmtree(own, ignore_errors=True)


def _local(objective: Partitioned, lam: float, local: Any) -> BCFW | ExponentiatedGradient:
    """The local method; raises unless it fits the loss."""
    log_loss = isinstance(objective.kind, type) and issubclass(objective.kind, LogLoss)
    if not log_loss and not (objective.loss_augmented and isinstance(objective.smoothing, Max | None)):
        raise UnsupportedError(
            f"objective: cocoa needs LogLoss or an unsmoothed StructuralHinge, got smoothing={objective.smoothing}"
        )
    kind: Any = ExponentiatedGradient if log_loss else BCFW
    if local is None:
        return ExponentiatedGradient(lam, 1.0, 0.3) if log_loss else BCFW(lam)
    if not isinstance(local, kind):
        raise TypeError(f"local: expected the algorithm {kind.__name__} for this loss, got {local!r}")
    box: BCFW | ExponentiatedGradient = local
    if isinstance(box, BCFW) and (box.average != "last" or not box.line_search):
        raise ValueError(f"local: expected BCFW with line search and without averages, got {box}")
    return box
