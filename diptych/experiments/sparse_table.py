"""Table 1 of Zhang and Qiu (2019) with every rule: ``diptych reproduce screening-table-1 [syn1 syn2 syn3 letters]
[--quick]``.

Each path has 100 values of beta from beta_max to beta_max/10, with alpha = 1. Each value starts from the solution of
the last and stops at a duality gap of 1e-6 of the objective. The solver is accelerated proximal gradient on one core;
all runs take turns in one process.

Prints for each rule: seconds in the solver and in screening, the speedup over no screening and over a solver without
screening that skips the zeros of w, iterations, and the work (active weights, summed over iterations). Every run is
checked against the run without screening: objectives up to the gaps, weights up to 2 sqrt(2 gap/(alpha beta)). As in
the paper's figures, the picture shows the share of the optimum's zeros that are removed and the share of all weights
that are left, against iterations. The paper does not say whether its letters are characters or words; here they are
characters. Finished data sets are kept in sparse-table.jsonl and are not measured again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import accelerated
from diptych.commands.options import above_zero
from diptych.commands.output import announce_compilation
from diptych.distributed import Runs
from diptych.experiments import shell, sparse_data
from diptych.experiments.results import load, timed
from diptych.pictures.plots import require_matplotlib, save_figure

RULES: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "paper, modulus 1": lambda: accelerated.HalfSpaceRule(1, rng=0),
    "paper, modulus 2": lambda: accelerated.HalfSpaceRule(2, rng=0),
    "l2 gap": accelerated.L2GapRule,
    "l1 gap": accelerated.L1GapRule,
    "union": lambda: accelerated.UnionRule(
        accelerated.CountRule(), accelerated.L1GapRule(), accelerated.HalfSpaceRule(2, rng=0)
    ),
}
SKIPS = {"dense": False, "skips zeros": True}  # whether a solver skips the zeros of w
ALPHA = 1.0
RATIO = 0.1
SHARES = (0.75, 0.5, 0.25, 0.1)  # the betas of the drawn curves, as shares of beta_max
FIELDS = ("settings", "paper", "data")
QUICK = {"values": 6}


class Walk:
    """One rule and one solver along the path; the fastest of the repeats counts."""

    def __init__(self, rule: str, solver: str) -> None:
        self.rule, self.solver = rule, solver
        self.path: Any = None

    def run(self, objective: Any, betas: np.ndarray, tol: float) -> None:
        """Run once and keep the fastest path."""
        solver = accelerated.AcceleratedProximalGradient(skip_zeros=SKIPS[self.solver])
        path = accelerated.sparse_path(objective, betas, alpha=ALPHA, tol=tol, rule=RULES[self.rule](), solver=solver)
        if path.interrupted:
            raise KeyboardInterrupt
        if self.path is None or path.seconds < self.path.seconds:
            self.path = path

    def report(self, plain: Any) -> dict[str, Any]:
        """The numbers of the table, and the curves. plain: the path without screening."""
        points = self.path.points
        solving, screening = (sum(getattr(x, f"{what}_seconds") for x in points) for what in ("solver", "screening"))
        report = {"rule": self.rule, "solver": self.solver, "solver seconds": solving, "screening seconds": screening}
        for what in ("iterations", "oracle_calls", "work"):
            report[what.replace("_", " ")] = sum(getattr(point, what) for point in points)
        report["converged"] = all(point.success for point in points)
        report |= {"largest relative gap": max(point.gap / point.fun for point in points)}
        return report | agreement(self.path, plain) | {"curves": [curve(self.path, share) for share in SHARES]}


def agreement(path: Any, plain: Any) -> dict[str, float]:
    """The largest differences from the path without screening: of objectives divided by the larger gap, and of weights
    divided by the sum of both bounds. Each is at most 1.
    """
    objectives = weights = 0.0
    for k, (mine, other) in enumerate(zip(path.points, plain.points, strict=True)):
        gap, rounding = max(mine.gap, other.gap), 1e-12 * other.fun
        objectives = max(objectives, abs(mine.fun - other.fun) / (gap + rounding))
        reach = sum(np.sqrt(2 * (point.gap + rounding) / (path.alpha * point.beta)) for point in (mine, other))
        weights = max(weights, float(np.linalg.norm(path.weights(k) - plain.weights(k))) / reach)
    return {"objectives apart over gap": objectives, "weights apart over bound": weights}


def curve(path: Any, share: float) -> dict[str, Any]:
    """The weights left after each screening, for the beta nearest to that share of beta_max."""
    point = min(path.points, key=lambda p: abs(np.log(p.beta / (share * path.beta_max))))
    screenings = [[s.iteration, s.gap / point.fun, s.kept] for s in point.screenings]
    found = {"beta": point.beta / path.beta_max, "zeros": path.size - point.nonzeros, "size": path.size}
    return found | {"iterations": point.iterations, "screenings": screenings}


def measure(
    name: str, objective: Any, runs: Sequence[tuple[str, str]], values: int, tol: float, repeats: int
) -> dict[str, Any]:
    """Repeat all runs on one problem; the runs take turns."""
    most = accelerated.beta_max(objective)
    betas = most * RATIO ** (np.arange(values) / max(values - 1, 1))
    paths = [Walk(*run) for run in runs]
    for repeat in range(repeats):
        for path in paths:
            path.run(objective, betas, tol)
            seconds, iterations = path.path.seconds, sum(point.iterations for point in path.path.points)
            which = f"{name}, {path.rule}, {path.solver}, run {repeat + 1} of {repeats}"
            shell.say(f"  {which}: {seconds:.2f} s, {iterations} iterations")
    rows = [path.report(paths[0].path) for path in paths]
    model = objective.model
    sizes = {"examples": objective.n, "features": model.n_features, "weights": model.size, "beta_max": most}
    nonzeros = [point.nonzeros for point in paths[0].path.points]
    return sizes | {"nonzeros": nonzeros, "rows": rows, "load": load()}


def lines(report: dict[str, Any]) -> list[dict[str, Any]]:
    """A line for each rule and data set, below the paper's lines for the data set."""
    rows = []
    for name, data in report["data"].items():
        paper = report["paper"][name]
        alone, theirs = paper["solver alone"], {"data": name, "solver": "the paper's"}
        rows.append({**theirs, "rule": "none", "solver s": alone, "screening s": 0.0, "speedup": 1.0})
        share = 100 * paper["screening"] / (paper["solver"] + paper["screening"])
        printed = {"solver s": paper["solver"], "screening s": paper["screening"], "speedup": paper["speedup"]}
        rows.append({**theirs, "rule": "the paper's", **printed, "screening %": share})
        plain = _seconds(data["rows"][0])
        skip = [_seconds(row) for row in data["rows"] if (row["rule"], row["solver"]) == ("none", "skips zeros")]
        for row in data["rows"]:
            seconds, work = _seconds(row), data["rows"][0]["work"]
            line = {"data": name, "rule": row["rule"], "solver": row["solver"], "solver s": row["solver seconds"]}
            line |= {"screening s": row["screening seconds"], "speedup": plain / seconds}
            line |= {"against skipping": skip[0] / seconds if skip else None}
            line |= {"screening %": 100 * row["screening seconds"] / seconds}
            rows.append(line | {"work": row["work"] / work if work else None, "iterations": row["iterations"]})
    return rows


def _seconds(row: dict[str, Any]) -> float:
    return float(row["solver seconds"] + row["screening seconds"])


HEAD = (
    *("data", "rule", "solver", "solver s", "screening s", "speedup", "against skipping", "screening %", "work"),
    "iterations",
)


def table(report: dict[str, Any]) -> str:
    """The lines in Markdown. The work is relative to that of the first run on the data. Seconds, and what they give, as
    all of the paper's lines, are left out if they do not count.
    """
    head = HEAD if timed(report) else ("data", "rule", "solver", "work", "iterations")
    shown = (line for line in lines(report) if timed(report) or "work" in line)
    rows = (shell.row(*(_cell(line.get(name)) for name in head)) for line in shown)
    return "\n".join([*shell.header(*head), *rows])


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def draw_ratios(path: Path, report: dict[str, Any]) -> None:
    """Rejection and reservation ratios against iterations: a line for each beta, a column for each rule, two rows for
    each data set.
    """
    names = list(report["data"])
    first = [row for row in report["data"][names[0]]["rows"] if row["solver"] == "dense"]
    rules = [row["rule"] for row in first if row["rule"] != "none"]
    figure = require_matplotlib()(figsize=(0.6 + 3.0 * len(rules), 0.8 + 4.4 * len(names)), layout="constrained")
    grid = figure.subplots(2 * len(names), len(rules), squeeze=False, sharey=True)
    for number, name in enumerate(names):
        rows = {row["rule"]: row for row in report["data"][name]["rows"] if row["solver"] == "dense"}
        for column, rule in enumerate(rules):
            above, below = grid[2 * number][column], grid[2 * number + 1][column]
            for color, curve in enumerate(rows[rule]["curves"]):
                _line(above, below, curve, f"C{color}")
            above.set_title(f"{name}: {rule}", fontsize=9)
            below.set_xlabel("iterations at this beta")
            for axis in (above, below):
                axis.set_ylim(-0.03, 1.03)
                axis.grid(alpha=0.25)
        grid[2 * number][0].set_ylabel("rejection ratio")
        grid[2 * number + 1][0].set_ylabel("reservation ratio")
    grid[0][0].legend(fontsize=7, title="beta / beta_max", title_fontsize=7)
    save_figure(figure, path)


def _line(above: Any, below: Any, curve: dict[str, Any], color: str) -> None:
    """The ratios as steps, from the screening before the first iteration to the last iteration."""
    size, zeros = curve["size"], curve["zeros"]
    iterations = [s[0] for s in curve["screenings"]] + [curve["iterations"]]
    kept = [s[2] for s in curve["screenings"]]
    kept.append(kept[-1] if kept else size)
    style = {"where": "post", "color": color, "linewidth": 1.3, "marker": ".", "markersize": 4}
    above.step(iterations, [(size - k) / zeros if zeros else 1.0 for k in kept], label=f"{curve['beta']:.2f}", **style)
    below.step(iterations, [k / size for k in kept], **style)


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; return the exit status."""
    parser = shell.Parser(name, __doc__)
    parser.add_argument("data", nargs="*", metavar="DATA", help=f"of {', '.join(sparse_data.NAMES)} (default: all)")
    parser.quick("small data; a default of 6 values")
    parser.option("solver", "--rules", nargs="+", metavar="RULE", default=list(RULES),
        help=f"of {', '.join(map(repr, RULES))}")  # fmt: skip
    parser.number("solver", "--values", 100, "number of values of beta")
    parser.option("solver", "--tol", type=above_zero, default=1e-6,
        help="stop at this gap relative to the objective (default: 1e-6)")  # fmt: skip
    parser.number("solver", "--repeats", 1, "runs of each measurement, of which the fastest counts")
    shell.add_report_options(parser)
    options = shell.parsed(parser, arguments, QUICK)
    return shell.run_or_draw(parser, options, lambda: _run(options), SHOWN, "sparse_table", FIELDS)


def _checked(what: str, names: Sequence[str], choices: Sequence[str]) -> list[str]:
    for name in names:
        if name not in choices:
            raise ValueError(f"{what}: expected some of {', '.join(choices)}, got {name!r}")
    return [name for name in choices if name in names]


def _run(options: argparse.Namespace) -> None:
    names = _checked("DATA", options.data or sparse_data.NAMES, sparse_data.NAMES)
    rules = ["none", *(rule for rule in _checked("--rules", options.rules, list(RULES)) if rule != "none")]
    if len(rules) == 1:
        raise ValueError("--rules: expected one that screens, to be held against none")
    path = shell.output_folder(options) / "sparse-table.json"
    runs = [(rule, "dense") for rule in rules]
    runs += [(rule, "skips zeros") for rule in rules if rule in ("none", "l1 gap")]
    announce_compilation(accelerated)
    settings = {"values": options.values, "tol": options.tol, "repeats": options.repeats, "quick": options.quick}
    report = {"settings": {**settings, "alpha": ALPHA, "ratio": RATIO}, "versions": shell.versions()}
    report["paper"] = {name: sparse_data.PAPER[name] for name in names}

    def measure_data(name: str) -> dict[str, Any]:
        objective = sparse_data.named(name, quick=options.quick)
        return measure(name, objective, runs, options.values, options.tol, options.repeats)

    kept = Runs(measure_data, path.with_suffix(".jsonl"), key=lambda name: [name, settings, runs])
    with shell.one_thread():
        for rule, solver in runs:  # compile kernels
            small = sparse_data.classes(*sparse_data.synthetic(20, 500, 0), 10)
            Walk(rule, solver).run(small, accelerated.beta_max(small) * np.array([0.9, 0.8]), 1e-3)
        report["data"] = dict(zip(names, kept.perform(names), strict=True))
    SHOWN.kept(options, report, path)
    _check(report)


def _check(report: dict[str, Any]) -> None:
    for name, data in report["data"].items():
        for row in data["rows"]:
            apart = max(row["objectives apart over gap"], row["weights apart over bound"])
            if apart > 1 or not row["converged"]:
                raise ValueError(f"{name}, {row['rule']}, {row['solver']}: not the solution without screening")


SHOWN = shell.Shown(draw_ratios, table, lines)
