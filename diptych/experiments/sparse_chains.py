"""Sparse linear-chain CRFs: ``diptych reproduce screening-chains letters|PATH_TO_conll2000.zip [--quick]``, one core.

Screens sequences by the l1-gap rule, which needs only marginals and counts. The rule of Zhang and Qiu (2019) enumerates
outputs, so it does not apply to sequences. alpha = 1.

letters: all words of the OCR letters, 128 x 26 weights of pixels and 26^2 of transitions, 20 values of beta from
beta_max to beta_max/10. The curve shows the share of the optimum's zeros that are removed, against the gap divided by
the objective during the run. The target is 80 % at a gap of 1e-4 for beta >= beta_max/2, and at 1e-6 for all beta. The
zeros are those of a solution with a gap of 1e-7. The solver is accelerated proximal gradient.

conll2000.zip: chunks, with the templates and the observed pairs of ``tag``, down to beta_max/10^4. CountRule removes
features that are too rare for the last beta before training; they are listed separately from those that the gap
removes. Prints support, objective, gap and seconds for each value of beta, and F1 on the test sentences.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import accelerated
from diptych.chunks import chunk_scores
from diptych.commands.options import above_zero, positive, share
from diptych.commands.output import announce_compilation
from diptych.experiments import shell
from diptych.experiments.results import timed
from diptych.experiments.sparse_data import handwritten_words
from diptych.files.columns import load_columns
from diptych.pictures.plots import logarithmic, require_matplotlib, save_figure

ALPHA = 1.0
GAMMA = 0.8  # screen whenever the gap has decreased by a fifth, for a finer curve
TARGETS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
ASKED = 0.8
FIELDS = ("kind", "rows", "weights")
QUICK = {"examples": 40, "values": 5}


Keep = Callable[[dict[str, Any]], None]


def letters(words: int | None, values: int, ratio: float, tol: float, keep: Keep) -> dict[str, Any]:
    """The path over the words, with the share removed at each gap. keep: called with the report after each value."""
    data = handwritten_words(words)
    model = accelerated.SequenceModel(128, data.labels, start_stop=False)
    solver = accelerated.AcceleratedProximalGradient()
    _compile(model, data.X, data.Y, solver)
    objective = accelerated.LogLoss(model, model.pack(data.X, data.Y))
    betas = _betas(objective, values, ratio)
    report = _report("letters", objective, betas)

    def note(point: Any) -> dict[str, Any]:
        curve = [[s.gap / point.fun, s.rejection(model.size - point.nonzeros)] for s in point.screenings]
        return {"curve": curve, "removed": {f"{t:g}": removed_by(curve, t) for t in TARGETS}}

    _walk(objective, betas, tol, accelerated.L1GapRule(), solver, report, note, keep)
    return report


def removed_by(curve: Sequence[Sequence[float]], gap: float) -> float | None:
    """The share removed when the relative gap was first at most ``gap``, or None if it never was."""
    return next((share for current, share in curve if current <= gap), None)


def chunks(source: str, sentences: int | None, values: int, ratio: float, tol: float, keep: Keep) -> dict[str, Any]:
    """The path over the chunks, screened by counts, then by the gap. keep: called with the report after each value."""
    training, test = (load_columns(f"{source}:{part}.txt")[:sentences] for part in ("train", "test"))
    Y = [sentence["label"] for sentence in training]
    model = accelerated.TaggingModel.of(training, Y, "chunks")
    _compile(model, training, Y, None)
    data, held_out = model.pack(training, Y), model.pack(test)
    objective = accelerated.LogLoss(model, data)
    betas = _betas(objective, values, ratio)
    report = _report("chunks", objective, betas)
    problem = accelerated.ElasticNetCRF(objective, alpha=ALPHA, beta=betas[-1])
    state = problem.evaluate(np.zeros(model.size))
    bounds, seconds = _timed(lambda: accelerated.CountRule().bounds(state))
    kept = np.flatnonzero(bounds > betas[-1])
    shell.say(f"  counts: {model.size - len(kept)} of {model.size} weights leave before training, in {seconds:.2f} s")
    smaller, narrowing = _timed(lambda: problem.reduced(kept).objective)
    report["before training"] = {"removed": model.size - len(kept), "seconds": seconds + narrowing}

    def note(point: Any) -> dict[str, Any]:
        w = np.zeros(model.size)
        w[kept[point.support]] = point.values
        predicted = [[model.labels[i] for i in y] for y in model.predict(held_out, None, w)]
        rare, left = int(np.sum(bounds <= point.beta)), point.screenings[-1].kept
        f1 = chunk_scores([s["label"] for s in test], predicted).f1
        return {"by counts": rare, "by gap": model.size - rare - left, "left": left, "F1": 100 * f1}

    rule = accelerated.UnionRule(accelerated.CountRule(), accelerated.L1GapRule())
    _walk(smaller, betas, tol, rule, None, report, note, keep)
    return report


def _compile(model: Any, X: Sequence[Any], Y: Sequence[Any], solver: Any) -> None:
    """Train on a few examples, so that no kernel is compiled during measurements."""
    few = accelerated.LogLoss(model, model.pack(X[:5], Y[:5]))
    kept = np.arange(0, model.size, 2)
    for objective in (few, accelerated.ElasticNetCRF(few, alpha=ALPHA, beta=1.0).reduced(kept).objective):
        if accelerated.beta_max(objective) > 0:
            accelerated.sparse_path(objective, _betas(objective, 3, 0.1), alpha=ALPHA, solver=solver)


def _betas(objective: Any, values: int, ratio: float) -> np.ndarray:
    return accelerated.beta_max(objective) * ratio ** (np.arange(values) / max(values - 1, 1))


def _report(kind: str, objective: Any, betas: np.ndarray) -> dict[str, Any]:
    sizes = {"examples": objective.n, "weights": objective.model.size, "beta_max": float(betas[0])}
    head = {"settings": {"alpha": ALPHA, "gamma": GAMMA}, "versions": shell.versions(), "kind": kind}
    return {**head, **sizes, "rows": []}


def _walk(
    objective: Any, betas: np.ndarray, tol: float, rule: Any, solver: Any, report: Any, note: Any, keep: Keep
) -> None:
    """Follow the path; each value adds a row to the report and prints a line."""

    def each(point: Any) -> None:
        row = {"beta": point.beta / betas[0], "nonzeros": point.nonzeros, "objective": point.fun}
        row |= {"gap": point.gap / point.fun, "converged": point.success, "iterations": point.iterations}
        row |= {"work": point.work, "solver s": point.solver_seconds, "screening s": point.screening_seconds}
        row |= note(point)
        report["rows"].append(row)
        keep(report)
        shell.say(
            f"  beta {row['beta']:.4g} of the largest: {point.nonzeros} weights, {point.screenings[-1].kept} not "
            f"removed, {point.iterations} iterations, "
            f"{point.solver_seconds + point.screening_seconds:.1f} s, gap {row['gap']:.1e} of the objective"
        )

    options = {"alpha": ALPHA, "tol": tol, "rule": rule, "gamma": GAMMA, "solver": solver}
    path = accelerated.sparse_path(objective, betas, callback=each, **options)
    if path.interrupted:
        raise KeyboardInterrupt


def table(report: dict[str, Any]) -> str:
    """A line for each beta in Markdown, and a summary."""
    head = ["beta / beta_max", "not 0"]
    head += [f"removed by {t}, %" for t in report["rows"][0]["removed"]] if report["kind"] == "letters" else []
    head += ["by counts", "by gap", "left", "F1"] if report["kind"] == "chunks" else []
    seconds = ("solver s", "screening s") if timed(report) else ()
    head += ["objective", "gap", "iterations", *seconds]
    text = shell.header(*head)
    for row in report["rows"]:
        cells = [f"{row['beta']:.3g}", str(row["nonzeros"])]
        if report["kind"] == "letters":
            cells += ["" if share is None else f"{100 * share:.1f}" for share in row["removed"].values()]
        else:
            cells += [*(str(row[name]) for name in ("by counts", "by gap", "left")), f"{row['F1']:.2f}"]
        cells += [f"{row['objective']:.6g}", f"{row['gap']:.1e}", str(row["iterations"])]
        cells += [f"{row[name]:.2f}" for name in seconds]
        text.append(shell.row(*cells))
    return "\n".join([*text, "", *_claims(report)])


def _claims(report: dict[str, Any]) -> Iterator[str]:
    """A summary of the table in a line or two."""
    seconds = [sum(row[f"{what} s"] for row in report["rows"]) for what in ("solver", "screening")]
    spent = f"; {seconds[0]:.1f} s in the solver, {seconds[1]:.1f} s in screening" if timed(report) else ""
    yield f"{report['examples']} examples, {report['weights']} weights{spent}"
    if report["kind"] == "chunks":
        before = report["before training"]
        yield f"by counts, before training at any beta: {before['removed']} weights, in {before['seconds']:.2f} s"
        return
    for target, lowest, where in ((1e-4, 0.5, "beta >= beta_max/2"), (1e-6, 0.0, "all beta")):
        removed = [row["removed"][f"{target:g}"] for row in report["rows"] if row["beta"] >= lowest * (1 - 1e-9)]
        reached = [x for x in removed if x is not None]
        least = f"{100 * min(reached):.1f} %" if reached else "nothing"
        yield (
            f"removed of the zeros by a gap of {target:g}, {where}: at least {least} (asked: {100 * ASKED:.0f} %; "
            f"reached at {len(reached)} of {len(removed)} values)"
        )


def draw_gaps(path: Path, report: dict[str, Any]) -> None:
    """The share of the optimum's zeros that are removed, against the gap divided by the objective, for up to eight
    betas.
    """
    figure = require_matplotlib()(figsize=(8, 5), layout="constrained")
    axis = figure.subplots()
    rows = [row for row in report["rows"] if row["iterations"] > 0]
    step = max(1, -(-len(rows) // 8))
    for color, row in enumerate(rows[::-step][::-1]):
        gaps, shares = zip(*row["curve"], strict=True)
        axis.plot(gaps, shares, marker=".", linewidth=1.3, color=f"C{color}", label=f"{row['beta']:.2f}")
    axis.axhline(0.8, color="grey", linewidth=0.8, linestyle=":")
    for gap in (1e-4, 1e-6):
        axis.axvline(gap, color="grey", linewidth=0.8, linestyle=":")
    axis.set(xscale="log", xlabel="duality gap / objective")
    axis.set(ylabel="removed, of the optimum's zeros", ylim=(-0.03, 1.03))
    axis.invert_xaxis()
    axis.legend(title="beta / beta_max", fontsize=8, title_fontsize=8)
    axis.set_title(f"chains: {report['examples']} words, {report['weights']} weights, by the gap in l1", fontsize=10)
    save_figure(figure, path)


def draw_counts(path: Path, report: dict[str, Any]) -> None:
    """The numbers of removed, remaining and nonzero weights, and F1, against beta."""
    figure = require_matplotlib()(figsize=(8, 5), layout="constrained")
    axis = figure.subplots()
    betas = [row["beta"] for row in report["rows"]]
    labels = {"by counts": "removed by counts", "by gap": "removed by the gap", "left": "not removed"}
    for name, label in (labels | {"nonzeros": "not 0"}).items():
        axis.plot(betas, [row[name] for row in report["rows"]], marker=".", label=label)
    axis.set(xlabel="beta / beta_max", ylabel="weights")
    logarithmic(axis)
    axis.set_yscale("symlog", linthresh=1)
    axis.set_ylim(bottom=0)
    axis.invert_xaxis()
    other = axis.twinx()
    other.plot(betas, [row["F1"] for row in report["rows"]], color="black", linestyle="--", label="F1")
    other.set(ylabel="F1 of the test sentences, %", ylim=(0, 100))
    figure.legend(loc="outside upper center", ncols=5, fontsize=8)
    axis.set_title(f"{report['examples']} sentences, {report['weights']} weights", fontsize=10)
    save_figure(figure, path)


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; return the exit status."""
    parser = shell.Parser(name, __doc__)
    parser.add_argument("source", metavar="SOURCE", nargs="?", help="letters, or the path of conll2000.zip")
    parser.quick("defaults of 40 examples and 5 values")
    parser.option("data", "--examples", type=positive, help="use only the first N (default: all)")
    parser.number("solver", "--values", 20, "number of values of beta")
    parser.option("solver", "--ratio", type=share,
        help="the last beta over beta_max (default: letters 0.1, chunks 1e-4)")  # fmt: skip
    parser.option("solver", "--tol", type=above_zero,
        help="stop at this gap relative to the objective (default: letters 1e-7, chunks 1e-4)")  # fmt: skip
    shell.add_report_options(parser, printed="the report as JSON")
    options = shell.parsed(parser, arguments, QUICK)
    return shell.run_or_draw(parser, options, lambda: _run(options), SHOWN, "sparse_chains", FIELDS)


def _run(options: argparse.Namespace) -> None:
    if options.source is None:
        raise ValueError("SOURCE: expected letters or the path of conll2000.zip")
    path = shell.output_folder(options) / f"sparse-{'letters' if options.source == 'letters' else 'chunks'}.json"
    announce_compilation(accelerated)

    def keep(report: dict[str, Any]) -> None:
        path.write_text(json.dumps(report), encoding="utf-8")

    with shell.one_thread():
        if options.source == "letters":
            report = letters(options.examples, options.values, options.ratio or 0.1, options.tol or 1e-7, keep)
        else:
            how = options.examples, options.values, options.ratio or 1e-4, options.tol or 1e-4
            report = chunks(options.source, *how, keep)
    SHOWN.kept(options, report, path)


def draw(path: Path, report: dict[str, Any]) -> None:
    """The picture of the report's kind."""
    (draw_gaps if report["kind"] == "letters" else draw_counts)(path, report)


def _timed(run: Any) -> tuple[Any, float]:
    started = time.perf_counter()
    return run(), time.perf_counter() - started


SHOWN = shell.Shown(draw, table, lambda report: report)
