"""More data than memory: ``diptych reproduce out-of-core PATH_TO_conll2000.zip [--copies N] [--quick]``.

CoNLL-2000 is written ``--copies`` times as column files (50 copies are 10.6 million tokens); in all but the first, one
word in ten is another one. ``diptych tag train`` then trains a tagger with 2^20 hashed weights over these files, by
L-BFGS and by CoCoA, each in a process of its own that keeps at most ``--memory`` bytes of packed partitions. Prints the
objective and the certified gap after ``--epochs`` iterations or rounds, the seconds, and the peak memory of the largest
process of each training.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diptych.commands.options import count
from diptych.experiments.shell import Parser, add_print_options, ended, parsed
from diptych.files.columns import load_columns

METHODS = ("lbfgs", "cocoa")
RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes


def written(sentences: Sequence[Mapping[str, Any]], folder: str | Path, copies: int) -> list[str]:
    """Column files with the sentences, one for each copy. In copies but the first, one word in ten is another one."""
    paths = []
    for copy in range(copies):
        lines, rng = [], np.random.default_rng(copy)
        for x in sentences:
            other = rng.random(len(x["word"])) < (0.1 if copy else 0.0)
            words = [f"{word}{copy}" if differs else word for word, differs in zip(x["word"], other, strict=True)]
            lines.append("\n".join(map(" ".join, zip(words, x["tag"], x["label"], strict=True))))
        paths.append(str(Path(folder) / f"{copy:03}.txt"))
        Path(paths[-1]).write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    return paths


def trained(files: str, method: str, options: argparse.Namespace) -> dict[str, Any]:
    """The report of one training by the command, with the peak memory of its largest process in bytes."""
    words = ["tag", "train", files, "--optimizer", method, "--epochs", str(options.epochs), "--tol", "0"]
    words += ["--bits", str(options.bits), "--pairs", "all", "--json", "--workers", str(options.workers)]
    words += ["--memory", options.memory, *(["--quiet"] if options.quiet else [])]
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen([sys.executable, "-P", "-m", "diptych", *words], stdout=printed)
        _, status, usage = os.wait4(process.pid, 0)  # of the process, and of those that it waited for
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise ValueError(f"diptych tag train --optimizer {method} ended with status {process.returncode}")
        printed.seek(0)
        report = json.load(printed)
    rows = [[row["objective"], row["gap"]] for row in report["history"]]
    found = {name: report[name] for name in ("weights", "sentences")}
    return {"method": method, **found, "rows": rows, "seconds": report["seconds"], "bytes": usage.ru_maxrss * RSS_UNIT}


def figures(options: argparse.Namespace) -> dict[str, Any]:
    """Write the files, and train over them by each method."""
    training = load_columns(f"{options.source}:train.txt")
    tokens = options.copies * sum(len(x["word"]) for x in training)
    with tempfile.TemporaryDirectory() as folder:
        written(training, folder, options.copies)
        runs = [trained(f"{folder}/*.txt", method, options) for method in METHODS]
    return {"tokens": tokens, "copies": options.copies, "memory": options.memory, "runs": runs}


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The report in words."""
    one = report["runs"][0]
    yield f"{report['tokens']:,} tokens, {one['sentences']:,} sentences, {one['weights']:,} weights"
    for run in report["runs"]:
        objective, gap = run["rows"][-1]
        yield (
            f"{run['method']}: {len(run['rows'])} epochs, objective {objective:.6f}, gap {gap:.3g}, "
            f"{run['seconds']:.0f} s, largest process {run['bytes'] / 2**20:,.0f} MiB"
        )


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit status."""
    parser = Parser(name, __doc__)
    parser.add_argument("source", help="conll2000.zip")
    parser.number("data", "--copies", 50, "of the training data")
    parser.quick("2 copies, 2 epochs, 2^12 weights")
    parser.option("model", "--bits", type=count, default=20, help="2^bits weights (default: 20)")
    parser.option("solver", "--epochs", type=count, default=10, help="iterations, rounds (default: 10)")
    parser.option("workers", "--workers", type=count, default=0, help="processes; 0: this one alone (default: 0)")
    parser.option("workers", "--memory", metavar="BYTES", default="500MB", help="of packed partitions a process keeps")
    add_print_options(parser, "the report as JSON")
    options = parsed(parser, arguments, {"copies": 2, "epochs": 2, "bits": 12})
    return ended(parser, options, lambda: _run(options), options.out)


def _run(options: argparse.Namespace) -> None:
    report = figures(options)
    print(json.dumps(report, indent=2) if options.json else "\n".join(lines(report)))
