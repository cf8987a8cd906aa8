"""A run of one optimiser on named entities, with the settings of Pillutla et al. (2018), section 7.2.

The objective is the mean hinge of a chain over hashed features with Hamming loss, plus lam/2 ||w||^2, lam = c/n. A pass
is n oracle calls, without those of full gradients: an epoch of SGD or BCFW, or n steps of SVRG. The smoothing is
squared l2 by the K best outputs (section 7.3). K = 1 is the max, so a method that needs smoothing then runs on the
non-smooth problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import accelerated
from diptych.chunks import chunk_scores
from diptych.commands.output import announce_compilation
from diptych.distributed import Runs
from diptych.experiments.shell import whole
from diptych.files.columns import Columns, load_columns
from reference.models.token_templates import TOKEN_TEMPLATES
from reference.training.result import Result, Row

__all__ = ["CERTIFICATE", "METHODS", "Problem", "Run", "Sentences", "perform", "runs_of"]

TEMPLATES = [template for template in TOKEN_TEMPLATES["entities"] if template != "bias"]
FULL_GRADIENTS = {"svrg", "casimir-svrg-const", "casimir-svrg-adapt"}  # methods with one full gradient per pass
CERTIFICATE = "certificate"  # the method that finds the best known objective and dual


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

    def smoothed(self, k: int) -> Any:
        """The hinge, smoothed by its k best outputs."""
        return accelerated.StructuralHinge(self.model, self.data, smoothing=accelerated.smoothings.TopK(k))

    def objective(self, w: np.ndarray, lam: float) -> float:
        """F(w) + lam/2 ||w||^2 without smoothing."""
        return self.hinge.value_and_gradient(w)[0] + 0.5 * lam * float(w @ w)

    def f1(self, w: np.ndarray) -> float:
        """Chunk F1 on the validation sentences, between 0 and 1."""
        labels = self.model.labels
        predicted = [[labels[i] for i in y] for y in self.model.predict(self.validation, None, w)]
        return chunk_scores(self.truth, predicted).f1


# the methods of section 7.2: (problem, lam, options, common arguments) -> result --------------------------------------


def _sgd(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """gamma_t = gamma0 / (1 + floor(t / t0)), t0 in passes."""
    steps = accelerated.steps.Steps(options["gamma0"], options["t0"] * problem.n)
    return accelerated.sgd(problem.hinge, lam=lam, step_size=steps, average="last", **common)


def _bcfw(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """bcfw-wavg: line search, weighted average."""
    return accelerated.bcfw(problem.hinge, lam=lam, cached_passes=0, average="weighted", tol=None, **common)


def _certificate(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """BCFW with cached passes, to a relative gap of 1e-4."""
    return accelerated.bcfw(problem.hinge, lam=lam, tol=1e-4, **common)


def _svrg(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """SVRG; a pass starts from the average of the last pass."""
    smoothing = {"mu": options["mu"], "step_size": options["step_size"]}
    return accelerated.svrg(problem.smoothed(options["k"]), lam=lam, average="uniform", **smoothing, **common)


def _casimir_const(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """Proposition 29 with the tuned L = A/mu: kappa = L/n - lam, or lam; gamma = 1/(L + lam + kappa)."""
    L = options["L"]
    kappa = L / problem.n - lam if L / problem.n > 4 * lam else lam
    chosen = {"mu": options["mu"], "kappa": kappa, "step_size": 1 / (L + lam + kappa)}
    return accelerated.casimir_svrg_const(
        problem.smoothed(options["k"]), lam=lam, warm_start=options["warm_start"], **chosen, **common
    )


def _casimir_adapt(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """Proposition 30: mu_k decreases geometrically, kappa = lam (section 7.3.1)."""
    chosen = {"mu": options["mu"], "step_size": options["step_size"]}
    return accelerated.casimir_svrg_adapt(
        problem.smoothed(options["k"]), lam=lam, warm_start=options["warm_start"], **chosen, **common
    )


METHODS: dict[str, Callable[[Problem, float, dict[str, Any], dict[str, Any]], Result]] = {
    "sgd": _sgd,
    "bcfw": _bcfw,
    "svrg": _svrg,
    "casimir-svrg-const": _casimir_const,
    "casimir-svrg-adapt": _casimir_adapt,
    CERTIFICATE: _certificate,
}


def perform(problem: Problem, run: Run) -> dict[str, Any]:
    """Run and return a record: settings, a row for each pass, and the final message.

    Objectives are unsmoothed. Values that are missing or not finite are None.
    """
    lam, rows = run.c / problem.n, []

    def note(row: Row, w: np.ndarray) -> bool:
        value = problem.objective(w, lam) if run.method == "svrg" else row.objective
        full = row.epoch * problem.n if run.method in FULL_GRADIENTS else 0
        finite = math.isfinite(value)
        dual = row.dual if run.method in ("bcfw", CERTIFICATE) else None
        rows.append(
            {
                "passes": row.epoch,
                "oracle_calls": row.oracle_calls,
                "without_full_gradients": row.oracle_calls - full,
                "seconds": row.seconds,
                "objective": value if finite else None,
                "dual": dual if dual is not None and math.isfinite(dual) else None,
                "f1": problem.f1(w) if finite and run.method != CERTIFICATE else None,
            }
        )
        return not finite

    with np.errstate(over="ignore", invalid="ignore"):  # the grids contain steps that diverge
        common = {"epochs": run.passes, "rng": run.rng, "callback": note}
        result = whole(METHODS[run.method](problem, lam, run.options, common))
    return {**run._asdict(), "n": problem.n, "rows": rows, "message": result.message}


def runs_of(sentences: Sentences, kept: Path, executor: Any) -> Runs:
    """Runs on the sentences. ValueError for an unsuitable file."""
    announce_compilation(accelerated)
    _loaded(sentences)  # reports errors in the file before processes start

    def describe(run: Run, record: dict[str, Any]) -> str:
        last = record["rows"][-1]["objective"] if record["rows"] else None
        return f"{run.method}, lam = {run.c:g}/n, {run.options}, rng {run.rng}: {last}"

    def key(run: Run) -> list[Any]:
        return [*sentences[1:], run._asdict()]

    return Runs(partial(_perform, sentences), kept, executor, key=key, describe=describe)


@lru_cache(maxsize=1)
def _loaded(sentences: Sentences) -> Problem:
    return Problem(*sentences.load(), sentences.bits)


def _perform(sentences: Sentences, run: Run) -> dict[str, Any]:
    return perform(_loaded(sentences), run)
