"""Accuracy on the OCR letters by the folds' protocol: ``diptych reproduce letters-accuracy [--quick] [--json]``.

Ten folds: train on nine and test on the tenth, and the reverse. The models are a linear-chain CRF and a structural SVM
on raw pixels, trained by SGD with default steps. Nothing is tuned on the test folds. Prints means and standard
deviations over the folds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import accelerated
from diptych.commands.jobs import Job, accuracy, load, objective_of, train
from diptych.experiments.shell import Parser, at_least_one, ended, parsed, positive


def measure(job: Job, reverse: bool) -> dict[str, Any]:
    """Letter and word accuracy of one job over the ten folds."""
    data, scores = load("letters"), []
    for fold in range(10):
        training, test = data.split(fold, reverse=reverse)
        objective = objective_of(accelerated, job, training)
        result = train(accelerated, job, objective)
        scores.append(accuracy(objective.model, result.x, test))
        print(f"  {job.loss}, fold {fold}: {scores[-1]}", file=sys.stderr)
    by = {kind: [score[kind] for score in scores] for kind in ("letter", "word")}
    return {
        "loss": job.loss,
        "train": "one fold" if reverse else "nine folds",
        "job": job.as_dict(),
        **{
            kind: {"mean": float(np.mean(x)), "deviation": float(np.std(x, ddof=1)), "folds": x}
            for kind, x in by.items()
        },
    }


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table or JSON, and return the exit status."""
    parser = Parser(name, __doc__)
    parser.add_argument("--quick", action="store_true", help="1 epoch, unless --epochs is given")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.add_argument("--lam", type=positive, default=0.0016, help="weight of lam/2 ||w||^2 (default: 0.0016)")
    parser.add_argument("--epochs", type=at_least_one, default=20, help="epochs of each run (default: 20)")
    options = parsed(parser, arguments, {"epochs": 1})
    return ended(parser, lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    rows = [
        measure(Job(loss=loss, lam=options.lam, epochs=options.epochs), reverse)
        for reverse in (False, True)
        for loss in ("crf", "hinge")
    ]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print("| model | trained on | letters right, % | words right, % |\n|---|---|---|---|")
    for row in rows:
        cells = (f"{100 * row[kind]['mean']:.1f} ± {100 * row[kind]['deviation']:.1f}" for kind in ("letter", "word"))
        print(f"| {'CRF' if row['loss'] == 'crf' else 'structural SVM'} | {row['train']} | {' | '.join(cells)} |")
