"""A run of one optimiser on named entities, with the settings of Pillutla et al. (2018), section 7.2.

The objective is the mean hinge of a chain over hashed features with Hamming loss, plus lam/2 ||w||^2, lam = c/n. A pass
is n oracle calls, without those of full gradients: an epoch of SGD or BCFW, or n steps of SVRG. The smoothing is
squared l2 by the K best outputs (section 7.3). K = 1 is the max, so a method that needs smoothing then runs on the
non-smooth problem.
"""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import accelerated
from diptych.chunks import chunk_scores
from diptych.commands.output import announce_compilation
from diptych.distributed import Runs
from diptych.experiments.casimir_runs import ADAPT, CONST, described, rows_of
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
    """Run and return a record: settings, a row for each pass, and the final message."""

    def steps(row: Row) -> int:
        return row.oracle_calls - (row.epoch * problem.n if run.method in FULL_GRADIENTS else 0)

    rows, message = rows_of(problem, run, run.passes, steps, lambda w: {"f1": problem.f1(w)}, ["f1"])
    return {**run._asdict(), "n": problem.n, "rows": rows, "message": message}


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
