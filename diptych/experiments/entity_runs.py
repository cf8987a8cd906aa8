"""Runs on named entities with the settings of Pillutla et al. (2018), section 7.2, and the curves of its figures.

The objective is the mean hinge of a chain over hashed features with Hamming loss, plus lam/2 ||w||^2, lam = c/n. A pass
is n oracle calls, without those of full gradients: an epoch of SGD or BCFW, or n steps of SVRG. The smoothing is
squared l2 by the K best outputs (section 7.3). K = 1 is the max, so a method that needs smoothing then runs on the
non-smooth problem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import accelerated
from diptych.chunks import chunk_scores
from diptych.commands.output import announce_compilation
from diptych.distributed import Runs
from diptych.experiments.casimir_runs import ADAPT, CONST, WARM_STARTS, Curve, described, last_objective, record_of
from diptych.files.columns import Columns, load_columns
from reference.models.token_templates import TOKEN_TEMPLATES
from reference.training.result import Row

TEMPLATES = [template for template in TOKEN_TEMPLATES["entities"] if template != "bias"]
K = 5  # outputs of the smoothing, section 7.3
FULL_GRADIENTS = {"svrg", CONST, ADAPT}  # methods with one full gradient per pass


class Sentences(NamedTuple):
    """A zip with esp.train and esp.testa, the maximum numbers of sentences, and bits: features have 2^bits weights."""

    archive: str
    training: int
    validation: int
    bits: int

    def load(self) -> tuple[list[Columns], list[Columns]]:
        """The sentences to train on and to validate on. ValueError for an unsuitable file."""
        if not self.archive.endswith(".zip"):
            raise ValueError(f"{self.archive}: expected a zip with esp.train and esp.testa, such as conll2002.zip")
        both = []
        for member in ("esp.train", "esp.testa"):
            path = f"{self.archive}:{member}"
            try:
                both.append(load_columns(path))
            except ValueError as problem:
                raise ValueError(f"{problem} (expected a zip with esp.train and esp.testa)") from None
            columns = list(both[-1][0]) if both[-1] else ["nothing"]
            if not {"tag", "label"} <= set(columns):
                raise ValueError(f"{path}: expected columns word, tag, label, got {', '.join(columns)}")
        training, validation = both
        if len(training) < self.training:
            raise ValueError(
                f"--sentences: expected at most the {len(training)} of {self.archive}:esp.train, got {self.training}"
            )
        return training[: self.training], validation[: self.validation]


class Run(NamedTuple):
    """Settings of a run: a method with its options, lam = c/n, the seed of orders, and the number of passes."""

    method: str
    c: float
    options: dict[str, Any]
    rng: int
    passes: int


class Problem:
    """The training sentences as objectives, and the validation sentences."""

    def __init__(self, training: list[Columns], validation: list[Columns], bits: int) -> None:
        Y = [sentence["label"] for sentence in training]
        self.model = accelerated.TaggingModel.of(training, Y, TEMPLATES, bits=bits, pairs="all")
        self.data = self.model.pack(training, Y)
        self.n = self.data.n
        self.hinge = accelerated.StructuralHinge(self.model, self.data)
        self.truth = [sentence["label"] for sentence in validation]
        self.validation = self.model.pack(validation)

    def smoothed(self, k: int = K) -> Any:
        """The hinge, smoothed by its k best outputs."""
        return accelerated.StructuralHinge(self.model, self.data, smoothing=accelerated.smoothings.TopK(k))

    def f1(self, w: np.ndarray) -> float:
        """Chunk F1 on the validation sentences, between 0 and 1."""
        labels = self.model.labels
        predicted = [[labels[i] for i in y] for y in self.model.predict(self.validation, None, w)]
        return chunk_scores(self.truth, predicted).f1


def perform(problem: Problem, run: Run) -> dict[str, Any]:
    """Run and return a record with a row for each pass."""

    def steps(row: Row) -> int:
        return row.oracle_calls - (row.epoch * problem.n if run.method in FULL_GRADIENTS else 0)

    return record_of(problem, run, run.passes, steps, lambda w: {"f1": problem.f1(w)}, ["f1"])


def runs_of(sentences: Sentences, kept: Path, executor: Any) -> Runs:
    """Runs on the sentences. ValueError for an unsuitable file."""
    announce_compilation(accelerated)
    _loaded(sentences)  # reports errors in the file before processes start

    return Runs(
        partial(_perform, sentences),
        kept,
        executor,
        key=lambda run: [*sentences[1:], run._asdict()],
        describe=lambda run, record: described(f"{run.method}, lam = {run.c:g}/n", run, record),
    )


@lru_cache(maxsize=1)
def _loaded(sentences: Sentences) -> Problem:
    return Problem(*sentences.load(), sentences.bits)


def _perform(sentences: Sentences, run: Run) -> dict[str, Any]:
    return perform(_loaded(sentences), run)


# the curves of Figures 2 and 5 (a) to (d), their grids and the tuning criterion (section 7.3) -------------------------

C = (0.01, 0.1, 1, 10)  # lam = c/n
MU = 2.0  # section 7.3.1 for named entities
CENTER = {"k": K, "warm_start": "center"}
SHORT = {CONST: "C-SVRG-const", ADAPT: "C-SVRG-adapt", "svrg": "SVRG", "sgd": "SGD", "bcfw": "BCFW"}


class Grids(NamedTuple):
    """Grids of step sizes (1/L for the constant variant), a factor of two apart; of SGD's gamma0, and t0 in passes; of
    levels of smoothing; of K.
    """

    steps: tuple[float, ...]
    gamma0: tuple[float, ...]
    t0: tuple[float, ...]
    mu: tuple[float, ...]
    k: tuple[int, ...]

    @classmethod
    def full(cls) -> Grids:
        """The grids of the figures."""
        return cls(_powers(-10, -4), _powers(-7, -2), (0.1, 1, 10), (0.2, 2.0, 20.0), (2, 5, 10))

    @classmethod
    def quick(cls) -> Grids:
        """Small grids for --quick."""
        return cls(_powers(-8, -7), _powers(-6, -5), (10,), (2.0, 20.0), (2, 5))

    def of(self, method: str) -> list[dict[str, float]]:
        """The grid of a method: the tuned options at each point."""
        if method == "sgd":
            return [{"gamma0": gamma, "t0": t0} for gamma in self.gamma0 for t0 in self.t0]
        if method == CONST:
            return [{"L": 1 / step} for step in self.steps]
        return [] if method == "bcfw" else [{"step_size": step} for step in self.steps]

    def with_mu(self, method: str) -> list[dict[str, float]]:
        """The grid of a method with levels of smoothing, for methods with constant smoothing."""
        return [{**point, "mu": mu} for point in self.of(method) for mu in self.mu]


def _powers(first: int, last: int) -> tuple[float, ...]:
    return tuple(2.0**j for j in range(first, last + 1))


def _curve(label: str, method: str, c: float, options: dict[str, Any], grid: Any, tuned_as: str | None = None) -> Curve:
    """A curve of a method in the method's column."""
    return Curve(label, method, options, grid, tuned_as, f"{SHORT[method]}, lam = {c:g}/n", c)


def figure_2(grids: Grids) -> list[Curve]:
    """The optimisers, each tuned."""
    methods: dict[str, tuple[dict[str, Any], Any]] = {
        "sgd": ({}, grids.of("sgd")),
        "bcfw": ({}, [{}]),
        "svrg": ({"k": K}, grids.with_mu("svrg")),
        CONST: (CENTER, grids.with_mu(CONST)),
        ADAPT: ({**CENTER, "mu": MU}, grids.of(ADAPT)),
    }
    each = [(c, method) for c in C for method in methods]
    return [Curve(SHORT[m], m, *methods[m], column=f"lam = {c:g}/n", c=c) for c, m in each]


def figure_5a(grids: Grids) -> list[Curve]:
    """Levels of smoothing, each tuned."""
    return [
        _curve(f"mu = {mu:g}", method, 0.01, {**CENTER, "mu": mu}, grids.of(method))
        for method in (CONST, ADAPT)
        for mu in grids.mu
    ]


def figure_5b(grids: Grids) -> list[Curve]:
    """Methods on the smoothed problem, and on the non-smooth problem as if it were smooth; each tuned."""
    return [
        _curve(label, method, 0.01, {**options, "k": k, "mu": MU}, grids.of(method))
        for method, options in (("svrg", {}), (CONST, {"warm_start": "center"}), (ADAPT, {"warm_start": "center"}))
        for label, k in (("smooth", K), ("non-smooth", 1))
    ]


def figure_5c(grids: Grids) -> list[Curve]:
    """Starts of the subproblems, with settings tuned for the prox-center."""
    center, each = WARM_STARTS["center"], [(c, method) for c in (0.01, 1) for method in (CONST, ADAPT)]
    fixed = {"k": K, "mu": MU}
    return [
        _curve(label, m, c, {**fixed, "warm_start": start}, grids.of(m), None if start == "center" else center)
        for c, m in each
        for start, label in WARM_STARTS.items()
    ]


def figure_5d(grids: Grids) -> list[Curve]:
    """Numbers K of outputs in the smoothed max, with settings tuned for K = 5."""
    fixed = {"mu": MU, "warm_start": "center"}
    return [
        _curve(f"K = {k}", method, 0.01, {"k": k, **fixed}, grids.of(method), None if k == K else f"K = {K}")
        for method in (CONST, ADAPT)
        for k in grids.k
    ]


FIGURES: dict[str, Callable[[Grids], list[Curve]]] = {
    each.__name__.replace("_", "-"): each for each in (figure_2, figure_5a, figure_5b, figure_5c, figure_5d)
}


def chosen(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The record with the lowest last objective among those whose best validation F1 is at least 99 % of the best of
    all.

    Source: Pillutla et al., section 7.3, "Tuning Criteria".
    """
    f1 = [max((row["f1"] or 0.0 for row in record["rows"]), default=0.0) for record in records]
    near = [record for record, score in zip(records, f1, strict=True) if score >= 0.99 * max(f1)]
    return min(near, key=last_objective)
