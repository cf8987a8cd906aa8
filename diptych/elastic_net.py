"""L1 and the elastic net of taggers and sequence learners: F(w) + l1 ||w||_1 + lam/2 ||w||^2, F the mean log loss.

Commands and learners call :func:`elastic_net`, which chooses the solver: exponentiated gradient on the dual where it
has kernels (sequences and taggers of the accelerated panel), else proximal Newton steps with screening.

crfsuite's objective is n times ours for n sequences, sum of log losses + c1 ||w||_1 + c2 ||w||^2, so that l1 = c1/n and
lam = 2 c2/n.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from diptych.working_sets import EVERY, STEP, Carried, before_all, next_value, renumbered_rows
from reference.arrays import Array, Place, host, number, squared_norm
from reference.declared import Ge, Gt, Lam, checked
from reference.files import NotWritten
from reference.objectives import LogLoss
from reference.optimizers.centre import Centred, default_kappa
from reference.optimizers.exponentiated_gradient import ExponentiatedGradient
from reference.records import write_records
from reference.screening.path import PathPoint, SparsePath
from reference.screening.problem import beta_max
from reference.screening.solvers import SparseResult, solve_sparse
from reference.training.checkpoints import check_identity, read_checkpoint, same_value
from reference.training.counterparts import counterpart
from reference.training.exponentiated_gradient import CentredGradient
from reference.training.result import Row
from reference.training.solver import minimize

TOL = 1e-5


@checked
def elastic_net(
    objective: LogLoss,
    w0: Array | None = None,
    *,
    l1: Annotated[float, Gt(0)],
    lam: Lam,
    iterations: Annotated[int, Ge(0)] = 10000,
    tol: Annotated[float, Ge(0)] = TOL,
    callback: Callable[[Row, Array], Any] | None = None,
    checkpoint: str | Path | None = None,
    resume: str | Path | None = None,
) -> SparseResult:
    """Minimise F(w) + l1 ||w||_1 + lam/2 ||w||^2 until the duality gap is small.

    Parameters
    ----------
    objective : LogLoss or Partitioned
        A log loss, perhaps over partitions, of either panel.
    w0 : array (d,), optional
        Start; default ``objective.zeros()``. The dual starts at its marginals.
    l1 : float > 0
        Weight of the sum of the absolute weights; crfsuite's c1 = n l1.
    lam : float >= 0
        Weight of half the squared norm; crfsuite's c2 = n lam / 2. 0: the lasso.
    iterations : int >= 0
        The most iterations; epochs of exponentiated gradient.
    tol : float >= 0
        Stop when the duality gap is at most tol times the objective, or is only rounding.
    callback, checkpoint, resume
        As in :func:`reference.solve_sparse`; rows of exponentiated gradient are three epochs apart.

    Returns
    -------
    SparseResult
        ``certificate`` is the duality gap, a bound on ``fun`` minus the optimum. Most weights of x are exactly 0;
        ``support`` numbers the others. ``screenings`` is empty after exponentiated gradient.

    Raises
    ------
    TypeError, ValueError
        Options out of range; an objective that is not a LogLoss.

    Examples
    --------
    >>> from diptych.elastic_net import elastic_net
    >>> from reference import LogLoss, TaggingModel
    >>> X, Y = [[["w=the"], ["w=duck"], ["w=swims"]], [["w=a"], ["w=duck"]]], [["B", "I", "O"], ["B", "I"]]
    >>> model = TaggingModel.of(X, Y, None)
    >>> result = elastic_net(LogLoss(model, model.pack(X, Y)), l1=0.25, lam=0.1)  # c1 = 0.5, c2 = 0.1
    >>> result.success, len(result.support) < model.size
    (True, True)
    """
    if not np.isfinite(lam / l1):
        raise ValueError(f"l1: expected at least lam/1.8e308, got l1 = {l1} with lam = {lam}; without l1 it is lbfgs")
    options: dict[str, Any] = {"callback": callback, "checkpoint": checkpoint, "resume": resume}
    if not has_dual_kernels(objective):
        return solve_sparse(objective, w0, alpha=lam / l1, beta=l1, tol=tol, iterations=iterations, **options)
    solver = CentredGradient(Centred(lam, default_kappa(objective, l1), ExponentiatedGradient(lam, 1.0, STEP, l1=l1)))
    options |= {"every": EVERY, "epochs": iterations, "tol": tol, "same": {"l1": l1, "lam": lam, "rng": 0}}
    run = minimize(objective, solver, w0, rng=0, **options)
    result = run.result
    return SparseResult(**vars(result), support=np.flatnonzero(host(result.x)), solver_seconds=run.seconds)


def has_dual_kernels(objective: Any) -> bool:
    """Whether exponentiated gradient on this objective runs in kernels."""
    box = ExponentiatedGradient(1.0, 1.0, STEP)
    return counterpart(box, objective) is not box


@checked
def elastic_net_path(
    objective: LogLoss,
    l1s: Sequence[float] | np.ndarray,
    *,
    lam: Lam,
    iterations: Annotated[int, Ge(0)] = 10000,
    tol: Annotated[float, Ge(0)] = TOL,
    callback: Callable[[PathPoint], Any] | None = None,
    checkpoint: str | Path | None = None,
    resume: str | Path | None = None,
) -> SparsePath:
    """:func:`elastic_net` at each of several values of l1, from the solution at the last one.

    A tagger's values are solved on working sets of weights, and certified over all (:mod:`diptych.working_sets`).

    Parameters
    ----------
    l1s : sequence (k,) of floats > 0
        Preferably in decreasing order, from ``beta_max(objective)``, the least at which all weights are 0.
    callback : callable, optional
        Called as ``callback(point)`` after each value, those of a resumed path among them.
    checkpoint, resume : path, optional
        A file to write the solutions so far to, after each value; and such a file to continue from, with the same
        options.
    objective, lam, iterations, tol
        As in :func:`elastic_net`.

    Returns
    -------
    SparsePath
        ``beta`` of its points is l1, and ``alpha`` is nan, as lam is the same for all. ``interrupted``: Ctrl-C ended
        it, after its last point.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C before the first point.
    TypeError, ValueError
        As :func:`elastic_net`; a checkpoint of another path, of a single run, or of other data.
    """
    values = [number(f"l1s[{i}]", l1, positive=True) for i, l1 in enumerate(l1s)]
    same = {"l1s": values, "lam": lam, "tol": tol, "iterations": iterations, "examples": objective.n}
    same |= {"weights": objective.model.size, "partitions": getattr(objective, "partitions", None)}
    path = SparsePath(np.nan, beta_max(objective), objective.model.size, ())
    carried = before_all(objective) if has_dual_kernels(objective) else None
    if resume is not None:
        path, carried = _resumed(resume, same, objective, path, carried)
    settings: dict[str, Any] = {"lam": lam, "iterations": iterations, "tol": tol}
    try:
        for k, l1 in enumerate(values):
            if k == len(path.points):
                w0 = path.weights(-1) if k else None
                if carried is None:
                    result = elastic_net(objective, w0, l1=l1, **settings)
                else:
                    w0 = objective.zeros() if w0 is None else w0
                    result, carried = next_value(objective, w0, carried, l1=l1, **settings)
                if result.interrupted:
                    raise KeyboardInterrupt
                path = replace(path, points=(*path.points, _point(l1, result)))
                if checkpoint is not None:
                    _write(checkpoint, {"path": same, "points": path.points, "carried": carried})
            if callback is not None:
                callback(path.points[k])
    except KeyboardInterrupt:
        if not path.points:
            raise
        return replace(path, interrupted=True)
    return path


def _point(l1: float, result: SparseResult) -> PathPoint:
    names = ("support", "fun", "oracle_calls", "work", "solver_seconds", "screening_seconds", "screenings", "success")
    values = Place.of(result.x).floats(host(result.x)[result.support])
    gap, found = float(result.certificate), {name: getattr(result, name) for name in names}
    return PathPoint(beta=l1, values=values, gap=gap, iterations=result.nit, **found)


def _write(file: str | Path, content: dict[str, Any]) -> None:
    try:
        write_records(file, content)
    except OSError as problem:
        why = (problem.strerror or str(problem)).lower()
        warnings.warn(f"{file}: {why}: the checkpoint is not written; the path goes on", NotWritten, stacklevel=3)


def _resumed(
    file: str | Path, same: dict[str, Any], objective: Any, path: SparsePath, carried: Carried | None
) -> tuple[SparsePath, Carried | None]:
    """The path with the points in a checkpoint, and what the last one hands on. ValueError if that is of another path,
    or of other data.
    """
    content = read_checkpoint(file, Place.of(objective.zeros()))
    if "path" not in content:
        raise ValueError(f"resume: {file} is of a single run, not of a path")
    check_identity(content["path"], same, file)
    path = replace(path, points=tuple(content["points"]))
    point, w = path.points[-1], path.weights(-1)
    absolute = float(np.sum(np.abs(host(point.values))))
    fun = float(objective.value_and_gradient(w)[0]) + point.beta * absolute + 0.5 * same["lam"] * squared_norm(w)
    if not same_value(fun, point.fun, w):
        values = f"the objective at its last weights is {point.fun}, here {fun}"
        raise ValueError(f"resume: {file} is of other data: {values}")
    return path, content["carried"] if carried is not None else None


def without_zeros(model: Any, w: Array) -> tuple[Any, np.ndarray]:
    """A tagger with the same scores, and its weights: those of w (d,) that are not 0. It has only their attributes."""
    weights = host(w)
    L, kept = model.n_labels, np.flatnonzero(weights)
    ends = np.array([model.width * L, (model.width + L) * L])
    pairs, label_pairs, edge_pairs = np.split(model.cells[kept], np.searchsorted(model.cells[kept], ends))
    settings = model.settings()
    settings["pairs"] = _kept(settings, "vocabulary", pairs, L)
    settings["label_pairs"] = label_pairs - ends[0]
    if model.n_edge_features:
        settings["edge_pairs"] = _kept(settings, "edge_vocabulary", edge_pairs - ends[1], L**2)
    return type(model)(**settings), weights[kept]


def _kept(settings: dict[str, Any], name: str, cells: np.ndarray, many: int) -> np.ndarray:
    """The cells of rows of ``many`` weights, where the vocabulary ``name`` keeps only the attributes of these rows."""
    if settings[name] is None:
        return cells
    rows, renumbered = renumbered_rows(cells, many)
    settings[name] = [settings[name][i] for i in rows.tolist()]
    return renumbered
