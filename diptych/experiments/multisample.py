"""Multi-sample dual updates, gap against oracle calls and seconds: ``diptych reproduce multisample-gaps
PATH_TO_dependency_treebank.zip [--quick] [--out FOLDER]``.

K = 1, 5, 20 outputs per visit, the best ones or drawn, beside BCFW, on four structural SVMs: words of the letters
(chains); segmentation of noisy characters, 15 % of whose pixels are flipped (cuts, which cannot be drawn); dependency
trees of sentences spread over the treebank; and single characters as cost-sensitive classes, where the update has an
exact closed form. As in Branson et al. (2013), a visit counts as one oracle call for every K. A run ends at a relative
gap of 1e-3, after --passes passes or after --seconds. Cuts and trees have no kernels of multi-sample updates, trees
have one of BCFW. Writes multisample.json and multisample.png into the current folder, or that of --out. Finished runs
are kept in multisample.jsonl and are not repeated. Uses one thread. The first run compiles kernels for some minutes.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import accelerated
from diptych.commands.output import announce_compilation, whole
from diptych.distributed import Runs
from diptych.experiments import shell
from diptych.experiments.results import load, timed
from diptych.experiments.sparse_data import handwritten_words
from diptych.files.treebank import load_treebank
from diptych.pictures import grids
from diptych.pictures.plots import logarithmic, require_matplotlib, save_figure

VOWELS = "aeiou"
TEST = 10_000  # number of test characters
QUICK = {"words": 100, "characters": 100, "pictures": 4, "sentences": 8, "passes": 5, "repeats": 2, "seconds": 0.5}
LEVELS = (0.1, 0.01, 0.001)  # of gap / objective
PENALTY = 0.125  # for two neighbouring pixels with different labels


class Problem(NamedTuple):
    """An objective, its lam, and its runs: a function of further options for each name; None where there is none."""

    name: str
    objective: Any
    lam: float
    runs: dict[str, Any]


class Segmentation(accelerated.SegmentationModel):
    """Learns the weights of pixels alone: multi-sample updates cannot keep weights of edges >= 0.

    The score has a fixed penalty for each pair of different neighbours, here as a part of the loss.
    """

    def __init__(self) -> None:
        super().__init__(len(grids.NODE_FEATURES), 0)
        self.nonnegative: Any = None

    def task_loss(self, data: Any, batch: np.ndarray) -> Any:
        """The number of wrong pixels plus the penalties, less those of the true labels."""
        loss = super().task_loss(data, batch)
        pairwise = loss.pairwise - PENALTY * (1.0 - np.eye(2))
        loss.unary[0] -= np.sum(pairwise * self.gold(data, batch).pairwise)
        return loss._replace(pairwise=pairwise)


def _problem(name: str, model: Any, data: Any, scale: float = 10.0, draws: bool = True, **more: Any) -> Problem:
    """The runs on all problems, then others; lam = scale/n."""
    updates = partial(partial, accelerated.multisample)
    runs: dict[str, Any] = {f"K = {k}": updates(k=k) for k in (1, 5, 20)}
    runs["K = 20, drawn at mu = 1"] = updates(k=20, sampler="gibbs") if draws else None
    runs["K = 1, online"] = updates(k=1, online=True)
    runs["BCFW, no cached passes"] = partial(accelerated.bcfw, cached_passes=0)
    runs |= {name: updates(**options) for name, options in more.items()}
    objective = accelerated.StructuralHinge(model, data)
    return Problem(name, objective, scale / objective.n, runs)


def _spread(option: str, count: int, n: int) -> np.ndarray:
    """n of ``count`` numbers, spread evenly."""
    if n > count:
        raise ValueError(f"--{option}: expected at most the {count} there are, got {n}")
    return np.linspace(0, count - 1, n).astype(int)


def letters(words: int) -> Problem:
    """Words of the letters, spread evenly; lam = 10/n."""
    data = handwritten_words()
    data = data.take(_spread("words", len(data.X), words))
    model = accelerated.SequenceModel(128, data.labels, start_stop=False)
    more: dict[str, Any] = {"K = 20, exact": {"k": 20, "update": "exact"}, "K = 20, online": {"k": 20, "online": True}}
    return _problem(f"letters, {words} words", model, model.pack(data.X, data.Y), **more)


def segmentation(pictures: int) -> Problem:
    """Noisy characters, spread evenly over the letters; lam = 50/n."""
    X, rng, model = np.concatenate(handwritten_words().X), np.random.default_rng(0), Segmentation()
    clean = [X[i].reshape(16, 8).astype(np.int64) for i in _spread("pictures", len(X), pictures)]
    noisy = [grids.features(grids.noisy_copy(x, 0.15, rng), connectivity=4) for x in clean]
    images = [(pixels, edges, np.zeros((len(edges), 0))) for pixels, edges, _ in noisy]
    name = f"segmentation, {pictures} characters"
    return _problem(name, model, model.pack(images, [x.ravel() for x in clean]), scale=50.0, draws=False)


def trees(archive: str, n: int) -> Problem:
    """Sentences of a treebank, spread evenly, 20 templates with 2^14 hashed weights; lam = 10/n."""
    bank = load_treebank(archive)
    some = [bank[i] for i in _spread("sentences", len(bank), n)]
    model = accelerated.ParsingModel("20", bits=14, single_root=True)
    data = model.pack([x.fields() for x in some], [x.heads for x in some])
    return _problem(f"trees, {n} sentences", model, data)


def characters(n: int) -> tuple[Problem, Callable[[np.ndarray], float]]:
    """The problem of single characters, and a function from weights to the mean cost on test characters.

    Confusing a vowel and a consonant costs 3, any other mistake costs 1.
    """
    data = handwritten_words()
    X, Y = np.concatenate(data.X), np.concatenate(data.Y)
    if n > len(X) - TEST:
        raise ValueError(f"--characters: expected at most the {len(X) - TEST} that are not kept for the test, got {n}")
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:n], order[n : n + TEST]
    vowel = np.array([name in VOWELS for name in data.labels])
    cost = np.where(vowel[:, None] != vowel, 3.0, 1.0) * (1.0 - np.eye(26))
    model = accelerated.MulticlassModel(128, data.labels, cost=cost)
    unseen, exact = model.pack(X[test], Y[test]), {"k": 26, "update": "exact"}
    more: dict[str, Any] = {"K = 26, exact": exact, "K = 26, exact, online": {**exact, "online": True}}
    problem = _problem(f"characters, {n}, cost-sensitive", model, model.pack(X[train], Y[train]), **more)

    def mean_cost(w: np.ndarray) -> float:
        return float(np.mean(cost[Y[test], model.predict(unseen, None, w)]))

    return problem, mean_cost


def measure(
    problem: Problem,
    options: argparse.Namespace,
    kept: Path,
    mean_cost: Callable[[np.ndarray], float] | None = None,
) -> dict[str, list[dict[str, Any]] | None]:
    """The records of the runs, one for each seed; those in the file ``kept`` are not repeated.

    mean_cost: of weights on test examples.
    """
    passes, seconds = options.passes, options.seconds

    def perform(of: tuple[str, int]) -> dict[str, Any]:
        name, rng = of
        run, common = problem.runs[name], {"lam": problem.lam, "rng": rng}
        whole(run(problem.objective, epochs=1, tol=None, **common))  # compile kernels, fill caches
        result = whole(run(problem.objective, epochs=passes, callback=lambda row, w: row.seconds > seconds, **common))
        record = dict[str, Any](oracle_calls=result.oracle_calls, objective=result.fun, n=problem.objective.n)
        record |= {"load": load(), "message": result.message, "history": [row.as_dict() for row in result.history]}
        return record | {"mean cost": None if mean_cost is None else mean_cost(result.x)}

    def describe(of: tuple[str, int], record: dict[str, Any]) -> str:
        last, (name, rng) = record["history"][-1], of
        end = f"{last['oracle_calls']} calls, {last['seconds']:.1f} s, objective {last['objective']:.4f}"
        return f"{problem.name}: {name}, rng {rng}: {end}, gap {_share(last):.2e}"

    runs = Runs(perform, kept, key=lambda of: [problem.name, *of, passes, seconds], describe=describe)
    seeds = range(options.repeats)
    runs.perform((name, rng) for rng in seeds for name, run in problem.runs.items() if run is not None)
    return {
        name: None if run is None else runs.perform((name, rng) for rng in seeds) for name, run in problem.runs.items()
    }


def _share(row: dict[str, Any]) -> float:
    """The gap divided by the objective. These optimisers have a gap in every row."""
    return float((math.inf if row["gap"] is None else row["gap"]) / row["objective"])


def table(report: dict[str, Any]) -> str:
    """The passes, in oracle calls over n, until gap / objective is small, and the seconds if they count; the last
    objective and gap; the mean cost of classes on the test characters. Means and standard deviations over the seeds.
    """
    calls = f"calls / n{'; seconds' if timed(report) else ''}"
    first = [f"{calls} to {100 * level:g} %" for level in LEVELS]
    lines = shell.header("problem", "run", *first, calls, "objective", "gap / objective", "mean cost")
    for problem, runs in report["runs"].items():
        for name, records in runs.items():
            cells = ["cannot be drawn"] if records is None else _cells(records, timed(report))
            lines.append(shell.row(problem, name, *cells, *[""] * (7 - len(cells))))
    return "\n".join(lines)


def _cells(records: Sequence[dict[str, Any]], timed: bool) -> list[str]:
    cells, n = [], records[0]["n"]
    for level in (*LEVELS, math.inf):
        within = [[row for row in record["history"] if _share(row) <= level] for record in records]
        at = [rows[0 if level < math.inf else -1] for rows in within if rows]
        calls = shell.spread([row["oracle_calls"] / n for row in at])
        reached = "" if len(at) in (0, len(records)) else f" (in {len(at)} of {len(records)})"
        seconds = f"; {statistics.fmean(row['seconds'] for row in at):.2g} s" if timed and at else ""
        cells.append(f"{calls}{seconds}{reached}")
    costs = [record["mean cost"] for record in records if record["mean cost"] is not None]
    shares = [_share(record["history"][-1]) for record in records]
    return [
        *cells,
        shell.spread([record["objective"] for record in records], 5),
        shell.spread(shares),
        shell.spread(costs),
    ]


def draw(path: Path, report: dict[str, Any]) -> None:
    """Relative gap against oracle calls, and against seconds if they count; a row for each problem, a line a seed."""
    columns = {"oracle_calls": "oracle calls / n"} | ({"seconds": "seconds, one core"} if timed(report) else {})
    measured = report["runs"]
    figure = require_matplotlib()(figsize=(5.5 * len(columns), 4 * len(measured)), layout="constrained")
    grid = figure.subplots(len(measured), len(columns), squeeze=False)
    for axes, (name, runs) in zip(grid, measured.items(), strict=True):
        for axis, (what, below) in zip(axes, columns.items(), strict=True):
            for number, (label, records) in enumerate(filter(lambda each: each[1], runs.items())):
                style = {"color": f"C{number}", "linestyle": "--" if "online" in label else "-", "linewidth": 1.2}
                for record in records:
                    rows = record["history"]
                    across = [row[what] / (1 if what == "seconds" else record["n"]) for row in rows]
                    axis.plot(across, [_share(row) for row in rows], label=label, **style)
                    label = None
            axis.set(yscale="log", xlabel=below)
            logarithmic(axis)
        axes[0].set(ylabel="gap / objective", title=name)
        axes[0].legend(fontsize=7)
    save_figure(figure, path)


def mean_costs(report: dict[str, Any]) -> dict[str, float]:
    """The mean cost on the test characters by run, over the seeds."""
    *_, classes = report["runs"].values()
    return {name: statistics.fmean(record["mean cost"] for record in records) for name, records in classes.items()}


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Measure, write and print; return the exit status."""
    parser = shell.Parser(name, __doc__)
    parser.add_argument("data", metavar="DATA", nargs="?", help="path to dependency_treebank.zip")
    parser.quick("defaults of 100 words and characters, 4 pictures, 8 sentences, 5 passes, 2 repeats, 0.5 s")
    parser.number("data", "--words", 2000, "number of training words")
    parser.number("data", "--characters", 300, "number of training characters")
    parser.number("data", "--pictures", 25, "number of pictures to segment")
    parser.number("data", "--sentences", 40, "number of parsed sentences")
    parser.number("solver", "--passes", 50, "most passes of a run")
    parser.number("solver", "--repeats", 3, "number of random seeds")
    parser.number("solver", "--seconds", 120.0, "time limit of a run")
    shell.add_report_options(parser, printed="the mean costs as JSON")
    options = shell.parsed(parser, arguments, QUICK)
    return shell.run_or_draw(parser, options, lambda: _run(options), SHOWN, "multisample", ("settings", "runs"))


def _run(options: argparse.Namespace) -> None:
    if options.data is None:
        raise ValueError("DATA: expected the path of dependency_treebank.zip")
    path = shell.output_folder(options) / "multisample.json"
    classes, mean_cost = characters(options.characters)
    problems = [letters(options.words), segmentation(options.pictures), trees(options.data, options.sentences)]
    announce_compilation(accelerated)
    kept = path.with_suffix(".jsonl")
    with shell.one_thread():
        measured = {problem.name: measure(problem, options, kept) for problem in problems}
        measured[classes.name] = measure(classes, options, kept, mean_cost)
    settings = {name: getattr(options, name) for name in QUICK} | {"test characters": TEST}
    settings["lam"] = {problem.name: problem.lam for problem in (*problems, classes)}
    SHOWN.kept(options, {"settings": settings, "versions": shell.versions(), "runs": measured}, path)


SHOWN = shell.Shown(draw, table, mean_costs)
