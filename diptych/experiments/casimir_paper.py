"""Figures 2 and 5 (a) to (d) of Pillutla et al. (2018), by their protocol (sections 7.1 to 7.5), on CoNLL-2002 Spanish.

    diptych reproduce casimir-figure-2 PATH_TO_conll2002.zip [--quick] [--out FOLDER] [--json] [--workers 2]
    diptych reproduce casimir-figure-5a ...   level of smoothing; 5b: smooth or not, 5c: warm starts, 5d: K
    diptych reproduce casimir-figure-2 --draw figure-2.json  draw the picture again from the JSON file

Writes FIGURE.json and FIGURE.png into the current folder, or that of --out. The JSON file has every row of every run.
The picture shows the objective minus the best known objective, against oracle calls (without and with full gradients),
and F1 on the validation sentences. Curves are means with one standard deviation over random seeds. Prints the tuned
settings and the end of each curve. Finished runs are saved in runs.jsonl in that folder. They are not repeated, neither
for an interrupted figure nor for another figure; delete that file to measure again. The first run compiles kernels for
some minutes.

The paper has CoNLL-2003: English, about 20,000 sentences, words with tags and syntactic chunks, 7 labels. Here the data
are 8,323 Spanish sentences, words with tags only, 9 labels. Training uses the first 2,000 sentences of esp.train (see
--sentences), validation as many of esp.testa. So the numbers cannot be compared with the print, but the order of the
methods, their robustness and their divergence can. Attributes are those of ``entities`` without the bias, hashed to
2^16 weights. The paper's local context is a product over five positions, so a word would only be recognised among the
same neighbours.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diptych.distributed import Runs
from diptych.experiments import shell
from diptych.experiments.casimir_runs import (
    CERTIFICATE,
    LONGER,
    Curve,
    best_known,
    draw_entities,
    ends,
    last_objective,
    tuned_curves,
    without_rows,
)
from diptych.experiments.entity_runs import FIGURES, Grids, Run, Sentences, chosen, runs_of
from diptych.pictures.plots import require_matplotlib

QUICK = {"sentences": 16, "passes": 2, "repeats": 2, "bits": 12}


def measure(performed: Runs, curves: Sequence[Curve], passes: int, repeats: int) -> dict[str, Any]:
    """The best known objective and dual for each c, the runs over each grid, and the runs of each tuned curve."""
    cs = list(dict.fromkeys(curve.c for curve in curves))
    found = tuned_curves(performed, curves, repeats,
        run=lambda curve, options, rng: Run(curve.method, curve.c, options, rng, passes),
        certificates=[Run(CERTIFICATE, c, {}, 0, LONGER * passes) for c in cs],
        choose=chosen,
        chosen=lambda curve, best: {**curve.options, **{name: best[name] for name in curve.grid[0]}})  # fmt: skip
    shown = [
        {"column": curve.column, "label": curve.label, "method": curve.method, "c": curve.c, "options": options,
         "tuned": ends(curve.grid, options), "runs": records}
        for curve, options, records in found.drawn
    ]  # fmt: skip
    return {
        "best": {f"{c:g}": best_known(record for record in found.every if record["c"] == c) for c in cs},
        "curves": shown,
        "tuning": [each for each in found.tuning if len(each["runs"]) > 1],
        "certificates": found.every[: len(cs)],
    }


def table(report: dict[str, Any]) -> str:
    """The tuned settings, and the end of each curve; * marks an end of the grid."""
    lines = shell.header("column", "curve", "tuned", "objective", "less the best known", "F1, %")
    for curve in report["curves"]:
        best = report["best"][f"{curve['c']:g}"]["objective"]
        ends = [last_objective(record) for record in curve["runs"]]
        f1 = [
            100 * record["rows"][-1]["f1"]
            for record in curve["runs"]
            if record["rows"] and record["rows"][-1]["f1"] is not None
        ]
        tuned = ", ".join(
            f"{name} = {curve['options'][name]:g}{'*' if at_end else ''}" for name, at_end in curve["tuned"].items()
        )
        mean = statistics.fmean(ends)
        lines.append(
            f"| {curve['column']} | {curve['label']} | {tuned} | {_spread(ends)} | {mean - best:.3g} | {_spread(f1)} |"
        )
    lines.append("\n*: an end of the grid")
    for c, best in report["best"].items():
        lines.append(f"\nlam = {c}/n: best known objective {best['objective']:.6g}, dual {best['dual']:.6g}")
    return "\n".join(lines)


def _spread(numbers: list[float]) -> str:
    if not numbers or not all(map(math.isfinite, numbers)):
        return "diverged"
    return f"{statistics.fmean(numbers):.5g} ± {statistics.pstdev(numbers):.2g}"


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Run the experiment of one figure, or draw it again; return the exit status."""
    parser = shell.Parser(name, __doc__)
    parser.add_argument("data", metavar="DATA", nargs="?", help="path to conll2002.zip")
    parser.quick("small grids; defaults of 16 sentences, 2 passes, 2 repeats and 12 bits")
    parser.number("data", "--sentences", 2000, "number of training sentences", ", of 8323")
    parser.number("solver", "--passes", 20, "passes of each run")
    parser.number("solver", "--repeats", 5, "number of random seeds", "; the paper: 10")
    parser.number("model", "--bits", 16, "hash features to 2^N weights")
    shell.add_workers(parser)
    shell.add_report_options(parser, printed="JSON, without the rows of the runs", again="the picture")
    options = shell.parsed(parser, arguments, QUICK)
    figure = name.removeprefix("casimir-")
    return shell.run_or_draw(
        parser, options, lambda: _run(figure, options), _draw, "a figure", ("figure", "settings", "best", "curves")
    )


def _draw(options: argparse.Namespace, report: dict[str, Any], picture: Path) -> None:
    draw_entities(picture, report)
    shell.say_written(picture)


def _run(figure: str, options: argparse.Namespace) -> None:
    if options.data is None:
        raise ValueError("DATA: expected the path of conll2002.zip")
    require_matplotlib()  # fail before the runs, not after
    curves = FIGURES[figure](Grids.quick() if options.quick else Grids.full())
    sentences = Sentences(options.data, options.sentences, options.sentences, options.bits)
    folder = shell.output_folder(options)
    kept = folder / "runs.jsonl"
    with shell.executor_of_one_thread(options) as executor:
        results = measure(runs_of(sentences, kept, executor), curves, options.passes, options.repeats)
    settings = {name: getattr(options, name) for name in QUICK}
    report = {"figure": figure, "settings": settings, "versions": shell.versions(), **results}
    shown = shell.Shown(draw_entities, table, without_rows)
    shown.kept(options, report, folder / f"{figure}.json", kept)
