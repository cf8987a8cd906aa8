"""The methods of Pillutla et al. (2018), section 7.2, what a run of one of them records, and how runs are summed up:
for named entities and localisation.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

import accelerated
from diptych.commands.output import whole
from diptych.distributed import Runs
from diptych.experiments.results import load, timed
from diptych.pictures.plots import logarithmic, require_matplotlib, save_figure
from reference.algorithms import SVRG, counterpart
from reference.training.prox_linear import casimir_svrg
from reference.training.result import Result, Row

CONST, ADAPT, PL = "casimir-svrg-const", "casimir-svrg-adapt", "prox-linear"
UNTUNED = "casimir"  # with its defaults: stages of smoothing, L found by backtracking
WARM_STARTS = {"center": "Prox-center", "extrapolated": "Extrapolation", "last": "Prev-iterate"}
CERTIFICATE = "certificate"  # the method that finds the best known objective and dual,
LONGER = 4  # with this many times more passes
STEPS = accelerated.steps
SMOOTHINGS: dict[str, Callable[[int], Any]] = {
    "top-k": accelerated.smoothings.TopK,
    "certified": lambda k: accelerated.smoothings.SquaredL2(),  # of as many outputs as it takes, at most 64
    "entropy": lambda k: accelerated.smoothings.Entropy(),
}
SCHEDULES = {"const": STEPS.Constant, "sqrt": STEPS.InverseSqrt, "inverse": STEPS.InverseTime}


class Problem(ABC):
    """n examples of a model and their hinge. k: the number of best outputs that usually smooth it. names: of the scores
    on other examples.
    """

    k: ClassVar[int]
    names: ClassVar[tuple[str, ...]]

    def __init__(self, model: Any, data: Any) -> None:
        self.model, self.data, self.n = model, data, data.n
        self.hinge = accelerated.StructuralHinge(model, data)

    def smoothed(self, options: dict[str, Any]) -> Any:
        """The hinge, smoothed by its k best outputs or by another smoothing."""
        smoothing = SMOOTHINGS[options.get("smoothing", "top-k")](options.get("k", self.k))
        return accelerated.StructuralHinge(self.model, self.data, smoothing=smoothing)

    @abstractmethod
    def steps(self, run: Any, row: Row) -> int:
        """The oracle calls of a run without those of full gradients."""

    @abstractmethod
    def scores(self, w: np.ndarray) -> dict[str, float]:
        """The scores of weights on other examples."""


class Curve(NamedTuple):
    """A curve of a figure: label, method, fixed options, and the grid to tune on.

    tuned_as: the label of another curve whose tuned options are used instead. column, c: where the figure does not give
    them, the curve's column and its lam = c/n.
    """

    label: str
    method: str
    options: dict[str, Any]
    grid: Sequence[dict[str, float]] = ({},)
    tuned_as: str | None = None
    column: str = ""
    c: float = 1.0


# the methods: (problem, lam, options, common arguments) -> result -----------------------------------------------------


def _sgd(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """gamma_t = gamma0 / (1 + floor(t / t0)), t0 in passes; on two layers gamma0, gamma0 / sqrt(t) or gamma0 / t."""
    steps: Any
    if "t0" in options:
        steps = STEPS.Steps(options["gamma0"], options["t0"] * problem.n)
    else:
        steps = SCHEDULES[options["schedule"]](options["gamma0"])
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
    return accelerated.svrg(problem.smoothed(options), lam=lam, average="uniform", **smoothing, **common)


def _casimir_const(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """Proposition 29 with the tuned L = A/mu = 1/step: kappa = L/n - lam, or lam; gamma = 1/(L + lam + kappa). Without
    one, L is found by backtracking. average: of the steps of a pass. stop: when a subproblem is solved. kappa: "lam".
    """
    smoothed, start = problem.smoothed(options), options.get("warm_start", "center")
    chosen: dict[str, Any] = {"mu": options["mu"], "warm_start": start, "stop": options.get("stop", "budget")}
    if "L" in options or "step_size" in options:
        L = options["L"] if "L" in options else 1 / options["step_size"]
        prescribed = L / problem.n > 4 * lam and options.get("kappa") != "lam"
        kappa = L / problem.n - lam if prescribed else lam
        chosen |= {"kappa": kappa, "step_size": 1 / (L + lam + kappa)}
    if "average" in options:
        chosen["inner"] = counterpart(SVRG(average=options["average"]), smoothed).one_pass
    return accelerated.casimir_svrg_const(smoothed, lam=lam, **chosen, **common)


def _casimir_untuned(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    return accelerated.casimir(problem.smoothed(options), lam=lam, **common)


def _casimir_adapt(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """Proposition 30: mu_k decreases geometrically, kappa = lam (section 7.3.1)."""
    chosen = {"mu": options["mu"], "step_size": options["step_size"]}
    smoothed, start = problem.smoothed(options), options.get("warm_start", "center")
    return accelerated.casimir_svrg_adapt(smoothed, lam=lam, warm_start=start, **chosen, **common)


def _prox_linear(problem: Problem, lam: float, options: dict[str, Any], common: dict[str, Any]) -> Result:
    """PL-Casimir-SVRG (section 7.3.2) with ``budget`` passes of Casimir-SVRG-const for each step."""
    common = dict(common)
    iterations = common.pop("epochs") // options["budget"]
    chosen = {name: options[name] for name in ("eta", "mu", "L", "budget", "schedule")}
    inner = functools.partial(casimir_svrg, warm_start=options["warm_start"])
    return accelerated.prox_linear(
        problem.smoothed({}), lam=lam, inner=inner, iterations=iterations, **chosen, **common
    )


METHODS: dict[str, Callable[[Problem, float, dict[str, Any], dict[str, Any]], Result]] = {
    "sgd": _sgd,
    "bcfw": _bcfw,
    "svrg": _svrg,
    CONST: _casimir_const,
    ADAPT: _casimir_adapt,
    UNTUNED: _casimir_untuned,
    PL: _prox_linear,
    CERTIFICATE: _certificate,
}


# records --------------------------------------------------------------------------------------------------------------


def record_of(problem: Problem, run: Any, passes: int) -> dict[str, Any]:
    """Run and return a record: settings, a row for each pass (of prox-linear: for each step), and the final message.

    Objectives are unsmoothed. Values that are missing or not finite are None.
    """
    lam, rows = run.c / problem.n, list[dict[str, Any]]()

    def note(row: Row, w: np.ndarray) -> bool:
        value = row.objective
        if run.method == "svrg":  # its rows have the smoothed objective
            value = problem.hinge.value_and_gradient(w)[0] + 0.5 * lam * float(w @ w)
        finite = math.isfinite(value)
        dual = row.dual if run.method in ("bcfw", CERTIFICATE) else None
        scored = problem.scores(w) if finite and run.method != CERTIFICATE else dict.fromkeys(problem.names)
        passes = row.epoch * run.options.get("budget", 1)
        one = {"passes": passes, "oracle_calls": row.oracle_calls, "without_full_gradients": problem.steps(run, row)}
        one |= {"seconds": row.seconds, "objective": value if finite else None}
        one |= {"dual": dual if dual is not None and math.isfinite(dual) else None}
        rows.append(one | {name: scored[name] for name in problem.names})
        return not finite

    with np.errstate(over="ignore", invalid="ignore"):  # the grids contain steps that diverge
        common = {"epochs": passes, "rng": run.rng, "callback": note}
        message = whole(METHODS[run.method](problem, lam, run.options, common)).message
    return {**run._asdict(), "n": problem.n, "rows": rows, "message": message, "load": load()}


def described(what: str, run: Any, record: dict[str, Any]) -> str:
    """A line about a run that is done."""
    last = record["rows"][-1]["objective"] if record["rows"] else None
    return f"{what}, {run.options}, rng {run.rng}: {last}"


def last_objective(record: dict[str, Any]) -> float:
    """The last objective of the run; inf if the run diverged."""
    last = record["rows"][-1]["objective"] if record["rows"] else None
    return math.inf if last is None else last


def best_known(records: Iterable[dict[str, Any]]) -> dict[str, float | None]:
    """The lowest objective and the highest dual of the runs."""
    rows = [row for record in records for row in record["rows"]]
    values = {name: [row[name] for row in rows if row[name] is not None] for name in ("objective", "dual")}
    return {"objective": min(values["objective"], default=None), "dual": max(values["dual"], default=None)}


def ends(grid: Sequence[dict[str, float]], options: dict[str, Any]) -> dict[str, bool]:
    """For each tuned option, whether an end of more than two values was chosen: a longer grid might be better."""
    values = {name: sorted({point[name] for point in grid}) for name in grid[0]}
    return {name: len(x) > 2 and options[name] in (x[0], x[-1]) for name, x in values.items()}


def beyond(grid: Sequence[dict[str, float]], options: dict[str, Any]) -> list[dict[str, float]]:
    """The points of the larger grid that has one value more past each end at which a tuned option is, at the distance
    of the last two. grid: all combinations of its values.
    """
    values = {name: sorted({point[name] for point in grid}) for name in grid[0]}
    for name, at_end in ends(grid, options).items():
        if at_end:
            x = values[name]
            x.append(x[0] / (x[1] / x[0]) if options[name] == x[0] else x[-1] * (x[-1] / x[-2]))
    points = (dict(zip(values, each, strict=True)) for each in itertools.product(*values.values()))
    return [point for point in points if point not in grid]


def tuned_options(curve: dict[str, Any], digits: str) -> str:
    """The tuned options of a drawn curve; * marks an end of the grid."""
    ends = curve["tuned"].items()
    return ", ".join(f"{name} = {curve['options'][name]:{digits}}{'*' if at_end else ''}" for name, at_end in ends)


def without_rows(report: dict[str, Any]) -> dict[str, Any]:
    """The report with only the last row of each run, and without tuning."""
    curves = [
        {**curve, "runs": [{**record, "rows": record["rows"][-1:]} for record in curve["runs"]]}
        for curve in report["curves"]
    ]
    return {**{name: report[name] for name in ("figure", "settings", "versions", "best")}, "curves": curves}


FIELDS = ("figure", "settings", "best", "curves")  # of a report


# the runs of a figure -------------------------------------------------------------------------------------------------


class Tuned(NamedTuple):
    """The curves of a figure with their chosen options and their runs; the runs over each grid; all records."""

    drawn: list[tuple[Curve, dict[str, Any], list[dict[str, Any]]]]
    tuning: list[dict[str, Any]]
    every: list[dict[str, Any]]


def tuned_curves(
    performed: Runs,
    curves: Sequence[Curve],
    draws: Sequence[Any],
    run: Callable[[Curve, dict[str, Any], Any], Any],
    *,
    certificates: Sequence[Any],
    choose: Callable[[Sequence[dict[str, Any]]], dict[str, Any]],
    chosen: Callable[[Curve, dict[str, Any]], dict[str, Any]],
    tuned_on: Sequence[Any] = (0,),
    lengthen: bool = False,
) -> Tuned:
    """Perform the runs that give bounds, those over each grid, and those of each curve with its tuned options.

    run: of a curve, with options and a draw, such as a seed. draws: those of each curve; tuned_on: those of each point
    of a grid. Runs of the same draw follow each other. choose: the best record over a grid; chosen: the options of a
    curve, from those of that record; lengthen: add points to a grid until none at its ends is chosen.
    """
    print("best known objectives", file=sys.stderr)
    every = performed.perform(certificates)
    print("tuning", file=sys.stderr)

    def over_grid(curve: Curve, of: Sequence[Any] = tuned_on) -> list[Any]:
        return [run(curve, {**curve.options, **point}, draw) for draw in of for point in curve.grid]

    tuned = [curve for curve in curves if curve.tuned_as is None]
    performed.perform(each for draw in tuned_on for curve in tuned for each in over_grid(curve, [draw]))
    tuning, best, every_curve = list[dict[str, Any]](), dict[Any, dict[str, Any]](), list[Curve]()
    for curve in curves:
        if curve.tuned_as is None:
            records = performed.perform(over_grid(curve))
            while lengthen and (more := beyond(curve.grid, choose(records)["options"])):
                curve = curve._replace(grid=[*curve.grid, *more])
                records = performed.perform(over_grid(curve))
            tuning.append({"column": curve.column, "label": curve.label, "runs": records})
            best[curve.label] = best[curve.column, curve.label] = choose(records)["options"]
        every_curve.append(curve)
    print("curves", file=sys.stderr)
    drawn = []
    for curve in every_curve:
        label = curve.tuned_as or curve.label
        options = chosen(curve, best.get((curve.column, label), best[label]))
        drawn.append((curve, options))
    performed.perform(run(*each, draw) for draw in draws for each in drawn)
    shown = [(*each, performed.perform(run(*each, draw) for draw in draws)) for each in drawn]
    every = [*every, *(x for each in tuning for x in each["runs"]), *(x for _, _, records in shown for x in records)]
    return Tuned(shown, tuning, every)


# the pictures of ``casimir_paper`` and of the localisation experiments: a row for each pair of axes, a column for
# each group of curves, and a line with a band for each curve

PASSES = "passes of oracle calls, without full gradients"
COMMON = (("without_full_gradients", "objective", PASSES), ("oracle_calls", "objective", "passes of oracle calls, all"))
ENTITIES = (*COMMON, ("without_full_gradients", "f1", PASSES))  # horizontal axis, vertical axis, label below
SCORES = [("without_full_gradients", score, PASSES) for score in ("corloc", "average_precision")]
BOXES = (*COMMON, ("seconds", "objective", "seconds"), *SCORES)
BESIDE = {
    "objective": "objective - best known",
    "f1": "F1, validation",
    "corloc": "CorLoc, test scenes",
    "average_precision": "AP, test scenes",
}
LEAST = 1e-3  # the least drawn distance from the best known objective, as a share of that objective


def draw_entities(path: Path, report: dict[str, Any]) -> None:
    """Draw a report of ``casimir_paper``."""
    settings = report["settings"]
    _draw(path, report, ENTITIES, lambda record: f"{record['c']:g}", f"{settings['sentences']} sentences")


def draw_boxes(path: Path, report: dict[str, Any]) -> None:
    """Draw a report of ``localization``."""
    rows = [row for row in BOXES if row[0] != "seconds" or timed(report)]
    data = f"{len(report['best'])} classes of {report['settings']['images']} scenes"
    _draw(path, report, rows, lambda record: record["name"], data, short=12)


def _draw(
    path: Path,
    report: dict[str, Any],
    rows: Sequence[tuple[str, str, str]],
    best_of: Callable[[dict[str, Any]], str],
    data: str,
    short: int = 0,
) -> None:
    """best_of: the key of the best known objective of a run; short: curves of at most so many rows have marks. The
    panels of a single column lie side by side.
    """
    figure_class = require_matplotlib()
    columns = list(dict.fromkeys(curve["column"] for curve in report["curves"]))
    down, across_page = (1, len(rows)) if len(columns) == 1 else (len(rows), len(columns))
    figure = figure_class(figsize=(1.0 + 3.6 * across_page, 3 * down), layout="constrained")
    grid = figure.subplots(down, across_page, squeeze=False)
    for axes, column in zip(grid if len(columns) == 1 else grid.T, columns, strict=True):
        curves = [curve for curve in report["curves"] if curve["column"] == column]
        for axis, (across, up, below) in zip(axes, rows, strict=True):
            for number, curve in enumerate(curves):
                known = [report["best"][best_of(record)]["objective"] for record in curve["runs"]]
                best = known if up == "objective" else None
                line(axis, curve, across, up, best, number, short)
            axis.set(xlabel=below, ylabel=BESIDE[up] if column == columns[0] else "")
            if up == "objective":
                axis.set_yscale("log")
            if across == "seconds":
                logarithmic(axis)
        axes[0].set_title(column)
        lines, labels = axes[0].get_legend_handles_labels()
        placed = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.22), "ncols": 2} if down > 1 else {}
        axes[-1].legend(lines, labels, fontsize=7, **placed)
    repeats = report["settings"]["repeats"]
    figure.suptitle(f"{report['figure']}: {data}, {repeats} rngs with one standard deviation", fontsize=9)
    save_figure(figure, path)


def line(
    axis: Any, curve: dict[str, Any], across: str, up: str, best: Sequence[float] | None, number: int, short: int
) -> None:
    """The mean over the runs up to the end of the shortest run, and a band of one standard deviation.

    best: of each run, to be subtracted; number: of the curve, whose colours repeat after ten; short: curves of at most
    so many rows have marks.
    """
    color = f"C{number}"
    runs = [[row for row in record["rows"] if row[up] is not None] for record in curve["runs"]]
    length = min(map(len, runs))
    if length == 0:
        axis.plot([], [], color=color, label=f"{curve['label']} (diverged)")
        return
    x, y = (np.array([[row[name] for row in rows[:length]] for rows in runs]) for name in (across, up))
    y = y if best is None else y - np.array(best)[:, None]
    x, middle = x.mean(axis=0) / (1 if across == "seconds" else curve["runs"][0]["n"]), y.mean(axis=0)
    low, high = middle - y.std(axis=0), middle + y.std(axis=0)
    if best is not None:
        low, middle, high = (np.maximum(values, LEAST * np.mean(best)) for values in (low, middle, high))
    marker = "o" if length <= short else None
    style = {"linestyle": "-" if number < 10 else "--", "linewidth": 1.4, "marker": marker, "markersize": 3}
    axis.plot(x, middle, color=color, label=curve["label"], **style)
    axis.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
