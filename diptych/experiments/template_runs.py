"""One learner of Martins et al. (2010), section 4, on a treebank: a plain SVM or multiple kernel learning over
templates, by the same algorithm.

The objective is R(w) + (1/m) (sum of hinges over m sentences), lam = 1/(C m). R = lam/2 ||w||^2 for the SVM, R = lam/2
(sum of the templates' norms)^2 for MKL. Algorithm 3 with explicit features and eta_t = eta0/sqrt(t) returns the last
model. Each template has 2^bits weights of its own; exactly one token has the root as its head.
"""

from __future__ import annotations

import time
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import accelerated
from accelerated import algorithms
from diptych.commands.output import announce_compilation
from diptych.distributed import Runs
from diptych.files.treebank import Sentence, load_treebank
from diptych.metrics import attachment_score
from reference.models.templates import check_templates, named_templates
from reference.training.counterparts import counterpart


class Treebank(NamedTuple):
    """A zip of files: the first ``training`` files are for training, the next ``test`` files for testing.

    The last ``held_out`` of the training files are held out to choose C and eta0.
    """

    archive: str
    training: int
    held_out: int
    test: int
    templates: str
    bits: int

    def sentences(self, part: str) -> tuple[list[Sentence], list[Sentence]]:
        """The sentences to train on and to score, for the part "tuning" or "whole"."""
        last = self.training - self.held_out if part == "tuning" else self.training
        scored = (last + 1, self.training) if part == "tuning" else (last + 1, last + self.test)
        return load_treebank(f"{self.archive}:1-{last}"), load_treebank(f"{self.archive}:{scored[0]}-{scored[1]}")

    def checked_templates(self) -> tuple[tuple[str, ...], ...]:
        """All templates, in the order of their blocks."""
        return check_templates(named_templates(self.templates))


class Run(NamedTuple):
    """Settings of a run. learner: "svm" or "mkl"; templates: indices; part: "tuning" or "whole"."""

    learner: str
    C: float
    eta0: float
    templates: tuple[int, ...]
    epochs: int
    part: str
    rng: int = 0


def perform(treebank: Treebank, run: Run) -> dict[str, Any]:
    """Train and return a record: settings, a row for each epoch with the templates' norms, and the shares of right
    heads with and without punctuation.
    """
    scored = _read(treebank, run.part)[2]
    every = treebank.checked_templates()
    model, data = _packed(treebank, run.part, tuple(every[t] for t in run.templates))
    hinge, lam, rows = accelerated.StructuralHinge(model, data), 1 / (run.C * data.n), []
    R = accelerated.HalfSquaredL2(lam) if run.learner == "svm" else accelerated.SquaredL21(lam, model.groups)
    box = counterpart(algorithms.OnlineProximal(R, accelerated.steps.InverseSqrt(run.eta0)), hinge)
    state, rng, seconds = box.init(hinge, hinge.zeros()), np.random.default_rng(run.rng), 0.0
    for epoch in range(1, run.epochs + 1):  # without the objective after each epoch, which takes as long as the epoch
        began = time.perf_counter()
        state = box.epoch(hinge, state, rng)
        seconds += time.perf_counter() - began
        if not np.all(np.isfinite(state.x)):
            break
        rows.append({"epoch": epoch, "seconds": seconds, "norms": _norms(model, state.x)})
    shares = {"objective": None, "uas": None, "uas_with_punctuation": None}
    record = {**run._asdict(), "n": data.n, "rows": rows, **shares}
    w = state.x
    if not np.all(np.isfinite(w)):
        return record
    record["objective"] = hinge.value_and_gradient(w)[0] + float(R.value(w))
    predicted = model.predict(model.pack([s.fields() for s in scored]), None, w)
    truth, tags = [np.asarray(s.heads) for s in scored], [s.tags for s in scored]
    record["uas"] = attachment_score(truth, predicted, tags)
    record["uas_with_punctuation"] = attachment_score(truth, predicted)
    return record


def _norms(model: Any, w: np.ndarray) -> list[float]:
    return [float(norm) for norm in model.template_norms(w)]


@lru_cache(maxsize=2)
def _read(treebank: Treebank, part: str) -> tuple[list[Any], list[Any], list[Sentence]]:
    training, scored = treebank.sentences(part)
    return [s.fields() for s in training], [s.heads for s in training], scored


@lru_cache(maxsize=1)
def _packed(treebank: Treebank, part: str, templates: tuple[tuple[str, ...], ...]) -> tuple[Any, Any]:
    X, Y, _ = _read(treebank, part)
    model = accelerated.ParsingModel(templates, bits=treebank.bits, single_root=True, blocks=True)
    return model, model.pack(X, Y)


def runs_of(treebank: Treebank, kept: Path, executor: Any) -> Runs:
    """Runs on a treebank. ValueError if a part of it has no sentences."""
    for part in ("tuning", "whole"):
        if not all(treebank.sentences(part)):
            raise ValueError(f"{treebank.archive}: expected sentences in all parts, got none in one of {part}")
    announce_compilation(accelerated)

    def describe(run: Run, record: dict[str, Any]) -> str:
        share, name = record["uas"], f"{run.learner}, {run.part}, {len(run.templates)} templates"
        score = "diverged" if share is None else f"UAS {100 * share:.2f} %"
        return f"{name}, C = {run.C:g}, eta0 = {run.eta0:g}, {run.epochs} epochs: {score}"

    return Runs(
        partial(perform, treebank), kept, executor, key=lambda run: [*treebank[1:], run._asdict()], describe=describe
    )
