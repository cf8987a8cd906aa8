"""Shared by the sparse CRFs of estimators and command line: rules by name, beta as a share of beta_max, the depth of a
path, the choice of beta along it by held-out examples, and what to warn of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np

from reference.arrays import host, number
from reference.models.base import all_of
from reference.models.sequence import ChainData
from reference.objectives import LogLoss
from reference.packed import lock
from reference.screening.path import PathPoint, SparsePath
from reference.screening.rules import check_rule

RULES = ("l1-gap", "l2-gap", "half-space", "count", "union", "none")
QUARTER, DEEPEST = 0.25, 1e-6  # of a decade: steps below a path's default end; a path's least share of beta_max
GAINS, FITS = 1e-3, 2e-2  # shares of the loss at w = 0 by which a held-out, or else a training loss must fall a quarter
LISTING = ("l2-gap", "half-space")  # rules that enumerate all outputs


def rule_of(panel: ModuleType, rule: Any, rng: Any, *, listed: bool, alpha: float) -> Any:
    """The rule of that name, or the given rule. rng: draws half-spaces; listed: whether outputs can be enumerated."""
    if rule is None or rule == "none":
        return None
    if not isinstance(rule, str):
        check_rule(rule)
        return rule
    if rule not in RULES:
        raise ValueError(f"rule: expected one of {', '.join(RULES)}, or a rule, got {rule!r}")
    if rule in LISTING and not listed:
        raise ValueError(f"rule: {rule} lists all outputs, and sequences have too many; l1-gap and count do without")
    makes: dict[str, Callable[[], Any]] = {"l1-gap": panel.L1GapRule, "l2-gap": panel.L2GapRule}
    makes |= {"half-space": lambda: panel.HalfSpaceRule(rng=rng), "count": panel.CountRule}
    if rule == "union":
        half_space = ["half-space"] if listed and alpha > 0 else []
        return panel.UnionRule(*(makes[name]() for name in ("l1-gap", "count", *half_space)))
    if rule == "half-space" and alpha == 0:
        raise ValueError("rule: half-space needs alpha > 0, the dual has no gradient at 0")
    return makes[rule]()


def beta_of(beta: float | None, share: float | None, most: float) -> float:
    """beta, or share times ``most`` = beta_max; default share 0.1.

    If beta_max is 0, all weights are 0 at any beta, and the result is 1.
    """
    if beta is not None and share is not None:
        raise ValueError("beta, beta_share: expected one of them, got both")
    if beta is not None:
        return number("beta", beta, positive=True)
    return number("beta_share", 0.1 if share is None else share, positive=True) * most or 1.0


# held-out examples ----------------------------------------------------------------------------------------------------


def splits(n: int, held_out: float, cv: Any, rng: np.random.Generator, classes: np.ndarray | None) -> list[Any]:
    """Pairs of arrays of examples: training and held out.

    There is one pair with the share ``held_out``, or those of ``cv``, a number of folds or such pairs. Examples are
    drawn at random, at least one for each side, and stratified by ``classes`` (n,) if given.
    """
    if n < 2:
        raise ValueError(f"beta is chosen by examples that are held out: expected 2 or more, got n_samples = {n}")
    order = rng.permutation(n)
    if classes is not None:
        order = order[np.argsort(classes[order], kind="stable")]
    if cv is None:
        if not 0 < number("held_out", held_out) < 1:
            raise ValueError(f"held_out: expected a number in (0, 1), got {held_out}")
        k = min(max(round(held_out * n), 1), n - 1)
        held = np.zeros(n, dtype=bool)
        held[order[np.arange(k) * n // k]] = True
        return [(np.flatnonzero(~held), np.flatnonzero(held))]
    if isinstance(cv, int | np.integer):
        if not 2 <= cv <= n:
            raise ValueError(f"cv: expected 2..{n} folds, as there are n_samples = {n}, got {cv}")
        fold = np.empty(n, np.int64)
        fold[order] = np.arange(n) % cv
        return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(cv)]
    if isinstance(cv, str) or not isinstance(cv, Iterable):
        raise TypeError(f"cv: expected a number of folds, or pairs of training and held-out examples, got {cv!r}")
    pairs = [(_examples(training, n), _examples(held, n)) for training, held in cv]
    if not pairs or not all(len(training) and len(held) for training, held in pairs):
        raise ValueError("cv: expected pairs of training and held-out examples, none of them empty")
    return pairs


def _examples(some: Any, n: int) -> np.ndarray:
    """Indices of examples, from indices or from a mask (n,)."""
    indices = np.asarray(some)
    if indices.dtype == bool and indices.shape == (n,):
        return np.flatnonzero(indices)
    return all_of(n, indices, "cv")


def sequences_of(data: ChainData, examples: np.ndarray) -> ChainData:
    """A subset of packed sequences, packed."""
    lengths = data.lengths[examples]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    positions = np.repeat(data.offsets[:-1][examples] - offsets[:-1], lengths) + np.arange(offsets[-1])
    labels = None if data.labels is None else lock(data.labels[positions])
    edges = None if data.edges is None else data.edges.take(positions)
    allowed = None if data.allowed is None else lock(data.allowed[positions])
    return ChainData(data.rows.take(positions), lock(offsets), labels, edges, allowed)


class HeldOut:
    """Mean losses on held-out examples, collected during a run.

    folds: for each fold the losses at the values of beta so far. weights (folds,): the folds' shares of the held-out
    examples. unsolved: the number of losses at weights that have not converged.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.folds: list[list[float]] = [[] for _ in sizes]
        self.weights = np.array(sizes, np.float64) / max(sum(sizes), 1)
        self.unsolved = 0

    @property
    def losses(self) -> np.ndarray:
        """(k, folds): the losses at the values of beta that all folds have reached."""
        k = min((len(fold) for fold in self.folds), default=0)
        return np.array([fold[:k] for fold in self.folds], np.float64).reshape(len(self.folds), k).T

    @property
    def mean(self) -> np.ndarray:
        """(k,): the mean losses over all held-out examples."""
        return self.losses @ self.weights


@dataclass(frozen=True)
class ChosenPath:
    """A path, the held-out losses at its values of beta, and the index of the chosen point."""

    path: SparsePath
    held_out: HeldOut = field(repr=False)
    chosen: int

    @property
    def at_end(self) -> str:
        """A line if the last point is chosen, and the held-out loss was still falling there; else ""."""
        last = self.chosen == len(self.path.points) - 1
        if last and falls(self.path.betas, self.held_out.mean, GAINS):
            share = self.path.betas[-1] / self.path.beta_max
            return f"the last beta of the path, {share:.3g} of beta_max, is the best: a smaller one may be better"
        return ""

    @property
    def loss(self) -> float:
        """The held-out loss at the chosen point, or inf without held-out losses."""
        return float(self.held_out.mean[self.chosen]) if self.chosen < len(self.held_out.mean) else np.inf


def choose(path: SparsePath, held_out: HeldOut) -> ChosenPath:
    """Choose the point with the least held-out loss, of equals the one with the largest beta.

    Without held-out losses, choose the last point that has converged.
    """
    losses = held_out.mean[: len(path.points)]
    if len(losses):
        best = np.flatnonzero(losses == np.min(losses))
        return ChosenPath(path, held_out, int(best[np.argmax(path.betas[best])]))
    solved = [k for k, point in enumerate(path.points) if point.success]
    return ChosenPath(path, held_out, solved[-1] if solved else len(path.points) - 1)


# paths ----------------------------------------------------------------------------------------------------------------


Solved = Callable[[PathPoint], Any] | None  # called at each point of a path
Told = Callable[[int, PathPoint, float], Any] | None  # called with the fold, its point and the held-out loss
Parts = Sequence[tuple[Any, Any]]  # log losses, training and held out


def follow(panel: ModuleType, objective: LogLoss, callback: Solved = None, **options: Any) -> SparsePath:
    """``sparse_path``, except that Ctrl-C between two values of beta also returns the path so far."""
    points: list[PathPoint] = []

    def keep(point: PathPoint) -> Any:
        points.append(point)
        return None if callback is None else callback(point)

    try:
        path: SparsePath = panel.sparse_path(objective, callback=keep, **options)
        return path
    except KeyboardInterrupt:
        if not points:
            raise
        alpha = float(options.get("alpha", 1.0))
        return SparsePath(alpha, panel.beta_max(objective), objective.model.size, tuple(points), interrupted=True)


def searched(
    panel: ModuleType,
    full: LogLoss,
    parts: Parts,
    values: dict[str, Any],
    deepen: bool,
    callback: Solved = None,
    told: Told = None,
    **options: Any,
) -> tuple[ChosenPath, bool]:
    """A path with its chosen point, and whether Ctrl-C interrupted the computation.

    parts, callback, told: as in :func:`held_out_losses` and :func:`follow`. values: what says the values of beta.
    deepen: whether the path goes on as long as it gains.
    """
    path = follow(panel, full, callback, **values, **options)
    held, stopped = held_out_losses(panel, [] if path.interrupted else parts, path.betas, told, **options)
    found, stopped = choose(path, held), path.interrupted or stopped
    if stopped or not deepen:
        return found, stopped
    return deepened(panel, full, parts, found, callback, told, **options)


def falls(betas: Sequence[float] | np.ndarray, losses: Sequence[float] | np.ndarray, least: float) -> bool:
    """Whether the last of the losses at these betas falls by the share ``least`` of the first, that of w = 0, if beta
    falls by a quarter of a decade.
    """
    if not 2 <= len(losses) == len(betas):
        return False
    quarters = np.log10(betas[-2] / betas[-1]) / QUARTER
    return bool(losses[-2] - losses[-1] >= least * losses[0] * quarters > 0)


def deepened(
    panel: ModuleType, full: LogLoss, parts: Parts, so_far: ChosenPath, callback: Solved, told: Told, **options: Any
) -> tuple[ChosenPath, bool]:
    """The path, continued if its loss still falls at its end, and whether Ctrl-C interrupted the computation.

    Four values a decade follow until the held-out loss of the first fold, or without folds the training loss, falls no
    more. callback, told: as in :func:`follow` and :func:`held_out_losses`, for the new values.
    """
    path, held, alpha = so_far.path, so_far.held_out, so_far.path.alpha

    def training_loss(point: PathPoint) -> float:
        values = host(point.values)
        return point.fun - point.beta * float(0.5 * alpha * values @ values + np.sum(np.abs(values)))

    reached = path.betas.tolist()
    losses = list(held.folds[0]) if parts else [training_loss(point) for point in path.points]
    if not (so_far.at_end if parts else falls(reached, losses, FITS)):
        return so_far, False
    last, least = reached[-1], DEEPEST * path.beta_max
    steps = int(max(np.log10(last / least), 0.0) / QUARTER + 1e-9)
    betas = last * 10.0 ** (-QUARTER * np.arange(steps + 1))  # from the last, for its solution

    def ends(point: PathPoint, loss: float, share: float) -> bool:
        reached.append(point.beta)
        losses.append(loss)
        return not falls(reached, losses, share)

    def measured(fold: int, point: PathPoint, loss: float) -> bool:
        if point.beta != last and told is not None:
            told(fold, point, loss)
        return point.beta != last and fold == 0 and ends(point, loss, GAINS)

    def solved(point: PathPoint) -> bool:
        if point.beta != last and callback is not None:
            callback(point)
        return point.beta != last and not parts and ends(point, training_loss(point), FITS)

    if parts:
        new, stopped = held_out_losses(panel, parts[:1], betas, measured, **options)
        betas = betas[: len(new.folds[0])]
        others = [] if stopped else parts[1:]
        rest, broken = held_out_losses(panel, others, betas, lambda k, *more: measured(k + 1, *more), **options)
        for fold, more in zip(held.folds, [*new.folds, *rest.folds], strict=False):
            fold.extend(more[1:])
        held.unsolved += new.unsolved + rest.unsolved
        if stopped or broken:
            return choose(path, held), True
    longer = follow(panel, full, solved, betas=betas, **options)
    path = replace(path, points=path.points + longer.points[1:], interrupted=longer.interrupted)
    found = choose(path, held)
    if path.interrupted or len(longer.points) == 1:
        return found, path.interrupted
    return deepened(panel, full, parts, found, callback, told, **options)  # other folds may still gain


def one_label(model: Any, data: Any, w: Any, most: float) -> str:
    """A line if a model predicts one label everywhere in training data that have several; else "". most: beta_max."""
    true = np.unique(host(model.true_labels(data) if hasattr(model, "true_labels") else data.labels))
    predicted = np.unique(np.concatenate([np.zeros(0, np.int64), *map(np.atleast_1d, model.predict(data, None, w))]))
    if len(true) < 2 or len(predicted) != 1 or most == 0:  # 0: at no beta do features tell them apart
        return ""
    return f"{model.labels[int(predicted[0])]} is predicted everywhere in the training data: a smaller beta fits better"


def held_out_losses(
    panel: ModuleType, parts: Parts, betas: np.ndarray, callback: Told = None, **options: Any
) -> tuple[HeldOut, bool]:
    """Held-out losses along the path of each training objective, and whether Ctrl-C interrupted the computation.

    parts: pairs of log losses, training and held out. callback: called as callback(fold, point, loss); the fold's path
    ends if it returns True.
    """
    losses = HeldOut([held.n for _, held in parts])
    for fold, (training, held) in enumerate(parts):

        def measure(point: PathPoint, fold: int = fold, held: Any = held) -> Any:
            w = np.zeros(held.model.size)
            w[point.support] = host(point.values)
            loss = float(held.value_and_gradient(w)[0])
            losses.folds[fold].append(loss)
            losses.unsolved += not point.success
            return None if callback is None else callback(fold, point, loss)

        try:
            if follow(panel, training, measure, betas=betas, **options).interrupted:
                return losses, True
        except KeyboardInterrupt:
            return losses, True
    return losses, False
