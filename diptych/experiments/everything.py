"""Every experiment of the papers: ``diptych reproduce all [DATA] [--quick] [--out FOLDER] [--json]``.

DATA is a folder with conll2002.zip, conll2000.zip and dependency_treebank.zip. The experiments run one after another,
with the options of the published results. Each writes NAME.json.gz into the folder of --out, and the rest into a folder
in it, which experiments that share runs have in common. The command can be interrupted: called again, it leaves out
what has its NAME.json.gz, and goes on from the finished runs of the others. An experiment that fails is named, and the
others are run.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from diptych.experiments import shell
from diptych.experiments.registry import EXPERIMENTS, Experiment, perform

INTERRUPTED = (130, 143)


def words_of(experiment: Experiment, data: Path, quick: bool) -> list[str]:
    """The data of an experiment, and its options as published or --quick."""
    named = experiment.data.partition(",")[0]
    source = {"letters": ["letters"]}.get(named, [str(data / named)] if named.endswith(".zip") else [])
    return [*source, *(["--quick"] if quick else experiment.published)]


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Run what is missing; return the exit status: that of an interruption, or the largest."""
    parser = shell.Parser(name, __doc__)
    parser.add_argument("data", metavar="DATA", nargs="?", type=Path, default=Path("."),
        help="folder of the zips (default: the current one)")  # fmt: skip
    parser.quick("test runs: each experiment with --quick")
    parser.option("output", "--json", action="store_true", help="print each table as JSON")
    shell.add_folder(parser)
    options = parser.parse_args(arguments)
    return shell.ended(parser, options, lambda: _run(options)) or options.status


def _run(options: argparse.Namespace) -> None:
    folder, options.status = shell.output_folder(options), 0
    flags = [f"--{flag}" for flag in ("json", "quiet") if getattr(options, flag)]
    for name, experiment in EXPERIMENTS.items():
        result = folder / f"{name}.json.gz"
        if not experiment.paper:
            continue
        if result.exists():
            shell.say(f"{name}: {result} exists")
            continue
        shell.say(name)
        words = [*words_of(experiment, options.data, options.quick), *flags]
        status = perform(name, [*words, "--out", str(folder / experiment.module), "--results", str(result)])
        if status in INTERRUPTED:
            options.status = status
            return
        options.status = max(options.status, status)
