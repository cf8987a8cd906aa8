"""What the sparse CRFs of estimators and command line share: rules by name, beta by its share, and beta chosen along
a path by what is held out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
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

__all__ = [
    "LISTING",
    "RULES",
    "ChosenPath",
    "HeldOut",
    "beta_of",
    "choose",
    "follow",
    "held_out_losses",
    "rule_of",
    "sequences_of",
    "splits",
]

RULES = ("l1-gap", "l2-gap", "half-space", "count", "union", "none")
LISTING = ("l2-gap", "half-space")  # these list outputs


def rule_of(panel: ModuleType, rule: Any, rng: Any, *, listed: bool, alpha: float) -> Any:
    """The rule of that name, or the one given; rng draws the half-spaces of those named; listed: whether outputs can
    be listed.
    """
    if rule is None or rule == "none":
        return None
    if not isinstance(rule, str):
        check_rule(rule)
        return rule
    if rule not in RULES:
        raise ValueError(f"rule: expected one of {', '.join(RULES)}, or a rule, got {rule!r}")
    if rule in LISTING and not listed:
        raise ValueError(f"rule: {rule} lists all outputs, and sequences have too many; l1-gap and count do without")
    makes: dict[str, Callable[[], Any]] = {
        "l1-gap": panel.L1GapRule,
        "l2-gap": panel.L2GapRule,
        "half-space": lambda: panel.HalfSpaceRule(rng=rng),
        "count": panel.CountRule,
    }
    if rule == "union":
        half_space = ["half-space"] if listed and alpha > 0 else []
        return panel.UnionRule(*(makes[name]() for name in ("l1-gap", "count", *half_space)))
    if rule == "half-space" and alpha == 0:
        raise ValueError("rule: half-space needs alpha > 0, the dual has no gradient at 0")
    return makes[rule]()


def beta_of(beta: float | None, share: float | None, most: float) -> float:
    """beta as it is given, or by its share of beta_max = ``most`` (default: a tenth); 1 where that is 0, as all
    weights are 0 at any beta.
    """
    if beta is not None and share is not None:
        raise ValueError("beta, beta_share: expected one of them, got both")
    if beta is not None:
        return number("beta", beta, positive=True)
    return number("beta_share", 0.1 if share is None else share, positive=True) * most or 1.0


# what is held out -----------------------------------------------------------------------------------------------------


def splits(n: int, held_out: float, cv: Any, rng: np.random.Generator, classes: np.ndarray | None) -> list[Any]:
    """Pairs of arrays of examples, training and held out: one, by the share ``held_out``; or those of ``cv``, a number
    of folds or such pairs.

    Drawn, with at least one example on each side, and where classes (n,) are given as evenly over them as may be.
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
    found = [(_examples(training, n), _examples(held, n)) for training, held in cv]
    if not found or not all(len(training) and len(held) for training, held in found):
        raise ValueError("cv: expected pairs of training and held-out examples, none of them empty")
    return found


def _examples(some: Any, n: int) -> np.ndarray:
    """Numbers of examples, also of those that are True in a mask (n,)."""
    found = np.asarray(some)
    if found.dtype == bool and found.shape == (n,):
        return np.flatnonzero(found)
    return all_of(n, found, "cv")


def sequences_of(data: ChainData, examples: np.ndarray) -> ChainData:
    """A subset of packed sequences, packed."""
    lengths = data.lengths[examples]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    positions = np.repeat(data.offsets[:-1][examples] - offsets[:-1], lengths) + np.arange(offsets[-1])
    labels = None if data.labels is None else lock(data.labels[positions])
    return ChainData(data.rows.take(positions), lock(offsets), labels)


class HeldOut:
    """Mean losses of what is held out, as they come. folds: one list a fold, by value; weights (folds,): shares of the
    examples.

    unsolved: how many of them are at weights that have not converged.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.folds: list[list[float]] = [[] for _ in sizes]
        self.weights = np.array(sizes, np.float64) / max(sum(sizes), 1)
        self.unsolved = 0

    @property
    def losses(self) -> np.ndarray:
        """(k, folds): at the values that all folds have seen."""
        k = min((len(fold) for fold in self.folds), default=0)
        return np.array([fold[:k] for fold in self.folds], np.float64).reshape(len(self.folds), k).T

    @property
    def mean(self) -> np.ndarray:
        """(k,): over all examples."""
        return self.losses @ self.weights


@dataclass(frozen=True)
class ChosenPath:
    """A path, what was held out from paths at the same values, and which of its points was chosen."""

    path: SparsePath
    held_out: HeldOut = field(repr=False)
    chosen: int

    @property
    def loss(self) -> float:
        """Of what is held out, at the chosen point; inf where none is known."""
        return float(self.held_out.mean[self.chosen]) if self.chosen < len(self.held_out.mean) else np.inf


def choose(path: SparsePath, held_out: HeldOut) -> ChosenPath:
    """The point with the least loss of what is held out, of equals the one with the largest beta; where none is
    known, the last that was solved.
    """
    losses = held_out.mean[: len(path.points)]
    if len(losses):
        best = np.flatnonzero(losses == np.min(losses))
        return ChosenPath(path, held_out, int(best[np.argmax(path.betas[best])]))
    done = [k for k, point in enumerate(path.points) if point.success]
    return ChosenPath(path, held_out, done[-1] if done else len(path.points) - 1)


# paths ----------------------------------------------------------------------------------------------------------------


def follow(
    panel: ModuleType, objective: LogLoss, callback: Callable[[PathPoint], Any] | None = None, **options: Any
) -> SparsePath:
    """``sparse_path``, where a Ctrl-C between two values ends it with what is there, as one while a value is solved
    does.
    """
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


def held_out_losses(
    panel: ModuleType,
    parts: Sequence[tuple[Any, Any]],
    betas: np.ndarray,
    callback: Callable[[int, PathPoint, float], Any] | None = None,
    **options: Any,
) -> tuple[HeldOut, bool]:
    """Mean losses along a path of each training objective, of the objective held out from it; and whether Ctrl-C ended
    that.

    parts: pairs of log losses, training and held out. callback(fold, point, loss).
    """
    found = HeldOut([held.n for _, held in parts])
    for fold, (training, held) in enumerate(parts):

        def measure(point: PathPoint, fold: int = fold, held: Any = held) -> None:
            w = np.zeros(held.model.size)
            w[point.support] = host(point.values)
            loss = float(held.value_and_gradient(w)[0])
            found.folds[fold].append(loss)
            found.unsolved += not point.success
            if callback is not None:
                callback(fold, point, loss)

        try:
            if follow(panel, training, measure, betas=betas, **options).interrupted:
                return found, True
        except KeyboardInterrupt:
            return found, True
    return found, False
