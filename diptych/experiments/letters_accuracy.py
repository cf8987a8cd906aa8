"""Accuracy on the OCR letters by the folds' protocol:

    diptych reproduce letters-accuracy [--quick] [--out FOLDER] [--json] [--workers 2]

Ten folds: train on nine and test on the tenth, and the reverse. The models are a linear-chain CRF and a structural SVM
on raw pixels, trained by SGD with default steps. Nothing is tuned on the test folds. Prints means and standard
deviations over the folds. Finished folds are kept in letters-accuracy.jsonl, in the current folder or that of --out;
they are not trained again.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import accelerated
from diptych.commands.jobs import Job, accuracy, load, objective_of, train
from diptych.commands.output import announce_compilation, whole
from diptych.distributed import Runs
from diptych.experiments import shell

FOLDS = 10


class Run(NamedTuple):
    """One loss on one fold; reverse: trained on that fold and tested on the others."""

    loss: str
    lam: float
    epochs: int
    reverse: bool
    fold: int

    @property
    def job(self) -> Job:
        """The training."""
        return Job(**{name: getattr(self, name) for name in ("loss", "lam", "epochs")})


def perform(run: Run) -> dict[str, float]:
    """The shares of right letters and words of the test part."""
    training, test = load("letters").split(run.fold, reverse=run.reverse)
    objective = objective_of(accelerated, run.job, training)
    return accuracy(objective.model, whole(train(accelerated, run.job, objective)).x, test)


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table or JSON, and return the exit status."""
    parser = shell.Parser(name, __doc__)
    parser.quick("1 epoch, unless --epochs is given")
    parser.option("output", "--json", action="store_true", help="print the table as JSON")
    shell.add_folder(parser)
    parser.number("solver", "--lam", 0.0016, "weight of lam/2 ||w||^2")
    parser.number("solver", "--epochs", 20, "epochs of each run")
    shell.add_workers(parser)
    options = shell.parsed(parser, arguments, {"epochs": 1})
    return shell.ended(parser, options, lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    kinds = itertools.product((False, True), ("crf", "hinge"))
    runs = [[Run(loss, options.lam, options.epochs, reverse, k) for k in range(FOLDS)] for reverse, loss in kinds]
    kept = shell.output_folder(options) / "letters-accuracy.jsonl"
    announce_compilation(accelerated)
    with shell.executor_of_one_thread(options) as executor:
        performed = Runs(perform, kept, executor, key=Run._asdict, describe=_described)
        performed.perform(run for several in runs for run in several)
    rows = [_row(several, performed.perform(several)) for several in runs]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print("\n".join(shell.header("model", "trained on", "letters right, %", "words right, %")))
    for row in rows:
        cells = (f"{100 * row[kind]['mean']:.1f} ± {100 * row[kind]['deviation']:.1f}" for kind in ("letter", "word"))
        print(shell.row("CRF" if row["loss"] == "crf" else "structural SVM", row["train"], *cells))


def _described(run: Run, scores: dict[str, float]) -> str:
    where = f"{'on' if run.reverse else 'without'} fold {run.fold}"
    return f"{run.loss}, {where}: {100 * scores['letter']:.1f} % of letters"


def _row(runs: list[Run], scores: list[dict[str, float]]) -> dict[str, Any]:
    """The means and deviations over the folds."""
    by = {kind: [score[kind] for score in scores] for kind in ("letter", "word")}
    row = {"loss": runs[0].loss, "train": "one fold" if runs[0].reverse else "nine folds", "job": runs[0].job.as_dict()}
    for kind, x in by.items():
        row[kind] = {"mean": float(np.mean(x)), "deviation": float(np.std(x, ddof=1)), "folds": x}
    return row
