"""Figures 2 and 5 (a) to (d) of Pillutla et al. (2018), by their protocol (sections 7.1 to 7.5), on CoNLL-2002 Spanish.

    diptych reproduce casimir-figure-2 PATH_TO_conll2002.zip [--quick] [--out FOLDER] [--json] [--workers 2]
    diptych reproduce casimir-figure-5a ...   level of smoothing; 5b: smooth or not, 5c: warm starts, 5d: K
    diptych reproduce casimir-reasons ...     Figure 2: C-SVRG-const with one change at a time; -dutch: Dutch sentences
    diptych reproduce casimir-figure-2 --draw figure-2.json  draw the picture again from the JSON file

Writes FIGURE.json and FIGURE.png into the current folder, or that of --out. The JSON file has every row of every run.
The picture shows the objective minus the best known objective, against oracle calls (without and with full gradients),
and F1 on the validation sentences. Curves are means with one standard deviation over random seeds. Prints the tuned
settings and the end of each curve. A grid is lengthened until the chosen setting is not at its end. Finished runs are
saved in runs.jsonl in that folder. They are not repeated, neither for an interrupted figure nor for another figure;
delete that file to measure again. The first run compiles kernels for some minutes.

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
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import accelerated
from diptych.chunks import chunk_scores
from diptych.commands.output import announce_compilation
from diptych.distributed import Runs
from diptych.experiments import shell
from diptych.experiments.casimir_runs import (
    ADAPT,
    CERTIFICATE,
    CONST,
    FIELDS,
    LONGER,
    UNTUNED,
    WARM_STARTS,
    Curve,
    Problem,
    best_known,
    described,
    draw_entities,
    ends,
    last_objective,
    record_of,
    tuned_curves,
    tuned_options,
    without_rows,
)
from diptych.files.columns import Columns, load_columns
from reference.models.token_templates import TOKEN_TEMPLATES
from reference.training.result import Row

TEMPLATES = [template for template in TOKEN_TEMPLATES["entities"] if template != "bias"]
K = 5  # outputs of the smoothing, section 7.3
DUTCH = "-dutch"  # ends the name of a figure of Dutch sentences
FULL_GRADIENTS = {"svrg", CONST, ADAPT, UNTUNED}  # methods with one full gradient per pass


class Sentences(NamedTuple):
    """A zip with esp.train and esp.testa, the maximum numbers of sentences, and bits: features have 2^bits weights.

    language: "esp", or "ned" for files of this name.
    """

    archive: str
    training: int
    validation: int
    bits: int
    language: str = "esp"

    def load(self) -> tuple[list[Columns], list[Columns]]:
        """The sentences to train on and to validate on. ValueError for an unsuitable file."""
        members = [f"{self.language}.{part}" for part in ("train", "testa")]
        zipped = f"a zip with {' and '.join(members)}"
        if not self.archive.endswith(".zip"):
            raise ValueError(f"{self.archive}: expected {zipped}, such as conll2002.zip")
        both = []
        for member in members:
            path = f"{self.archive}:{member}"
            try:
                both.append(load_columns(path))
            except ValueError as problem:
                raise ValueError(f"{problem} (expected {zipped})") from None
            columns = list(both[-1][0]) if both[-1] else ["nothing"]
            if not {"tag", "label"} <= set(columns):
                raise ValueError(f"{path}: expected columns word, tag, label, got {', '.join(columns)}")
        training, validation = both
        if len(training) < self.training:
            expected = f"expected at most the {len(training)} of {self.archive}:{members[0]}"
            raise ValueError(f"--sentences: {expected}, got {self.training}")
        return training[: self.training], validation[: self.validation]


class Run(NamedTuple):
    """Settings of a run: a method with its options, lam = c/n, the seed of orders, and the number of passes."""

    method: str
    c: float
    options: dict[str, Any]
    rng: int
    passes: int


class Entities(Problem):
    """The training sentences as objectives, and the validation sentences."""

    k, names = K, ("f1",)

    def __init__(self, training: list[Columns], validation: list[Columns], bits: int) -> None:
        Y = [sentence["label"] for sentence in training]
        model = accelerated.TaggingModel.of(training, Y, TEMPLATES, bits=bits, pairs="all")
        super().__init__(model, model.pack(training, Y))
        self.truth = [sentence["label"] for sentence in validation]
        self.validation = model.pack(validation)

    def scores(self, w: np.ndarray) -> dict[str, float]:
        """Chunk F1 on the validation sentences, between 0 and 1."""
        labels = self.model.labels
        predicted = [[labels[i] for i in y] for y in self.model.predict(self.validation, None, w)]
        return {"f1": chunk_scores(self.truth, predicted).f1}

    def steps(self, run: Run, row: Row) -> int:
        if run.options.get("stop") == "gradient":  # a full gradient more for each subproblem
            return int(row.epoch * self.n)
        return row.oracle_calls - (row.epoch * self.n if run.method in FULL_GRADIENTS else 0)


def runs_of(sentences: Sentences, kept: Path, executor: Any) -> Runs:
    """Runs on the sentences. ValueError for an unsuitable file."""
    announce_compilation(accelerated)
    _loaded(sentences)  # reports errors in the file before processes start

    return Runs(
        partial(_perform, sentences),
        kept,
        executor,
        key=lambda run: [*sentences[1:4], *([] if sentences.language == "esp" else ["ned"]), run._asdict()],
        describe=lambda run, record: described(f"{run.method}, lam = {run.c:g}/n", run, record),
    )


@lru_cache(maxsize=1)
def _loaded(sentences: Sentences) -> Entities:
    return Entities(*sentences.load(), sentences.bits)


def _perform(sentences: Sentences, run: Run) -> dict[str, Any]:
    return record_of(_loaded(sentences), run, run.passes)


# the curves of Figures 2 and 5 (a) to (d), their grids and the tuning criterion (section 7.3) -------------------------

C = (0.01, 0.1, 1, 10)  # lam = c/n
MU = 2.0  # section 7.3.1 for named entities
CENTER = {"k": K, "warm_start": "center"}
SHORT = {CONST: "C-SVRG-const", ADAPT: "C-SVRG-adapt", "svrg": "SVRG", "sgd": "SGD", "bcfw": "BCFW"}


class Grids(NamedTuple):
    """Grids of step sizes (1/L for the constant variant), a factor of two apart; of SGD's gamma0, and t0 in passes; of
    levels of smoothing; of K.
    """

    steps: tuple[float, ...]
    gamma0: tuple[float, ...]
    t0: tuple[float, ...]
    mu: tuple[float, ...]
    k: tuple[int, ...]

    def of(self, method: str) -> list[dict[str, float]]:
        """The grid of a method: the tuned options at each point."""
        if method == "sgd":
            return [{"gamma0": gamma, "t0": t0} for gamma in self.gamma0 for t0 in self.t0]
        if method == CONST:
            return [{"L": 1 / step} for step in self.steps]
        return [] if method == "bcfw" else [{"step_size": step} for step in self.steps]

    def with_mu(self, method: str) -> list[dict[str, float]]:
        """The grid of a method with levels of smoothing, for methods with constant smoothing."""
        return [{**point, "mu": mu} for point in self.of(method) for mu in self.mu]


def _powers(first: int, last: int) -> tuple[float, ...]:
    return tuple(2.0**j for j in range(first, last + 1))


FULL = Grids(_powers(-10, -4), _powers(-7, -2), (0.1, 1, 10), (0.2, 2.0, 20.0), (2, 5, 10))
SMALL = Grids(_powers(-8, -7), _powers(-6, -5), (10,), (2.0, 20.0), (2, 5))  # with --quick


def _curve(label: str, method: str, c: float, options: dict[str, Any], grid: Any, tuned_as: str | None = None) -> Curve:
    """A curve of a method in the method's column."""
    return Curve(label, method, options, grid, tuned_as, f"{SHORT[method]}, lam = {c:g}/n", c)


def figure_2(grids: Grids) -> list[Curve]:
    """The optimisers, each tuned."""
    methods: dict[str, tuple[dict[str, Any], Any]] = {
        "sgd": ({}, grids.of("sgd")),
        "bcfw": ({}, [{}]),
        "svrg": ({"k": K}, grids.with_mu("svrg")),
        CONST: (CENTER, grids.with_mu(CONST)),
        ADAPT: ({**CENTER, "mu": MU}, grids.of(ADAPT)),
    }
    each = [(c, method) for c in C for method in methods]
    return [Curve(SHORT[m], m, *methods[m], column=f"lam = {c:g}/n", c=c) for c, m in each]


def figure_5a(grids: Grids) -> list[Curve]:
    """Levels of smoothing, each tuned."""
    return [
        _curve(f"mu = {mu:g}", method, 0.01, {**CENTER, "mu": mu}, grids.of(method))
        for method in (CONST, ADAPT)
        for mu in grids.mu
    ]


def figure_5b(grids: Grids) -> list[Curve]:
    """Methods on the smoothed problem, and on the non-smooth problem as if it were smooth; each tuned."""
    return [
        _curve(label, method, 0.01, {**options, "k": k, "mu": MU}, grids.of(method))
        for method, options in (("svrg", {}), (CONST, {"warm_start": "center"}), (ADAPT, {"warm_start": "center"}))
        for label, k in (("smooth", K), ("non-smooth", 1))
    ]


def figure_5c(grids: Grids) -> list[Curve]:
    """Starts of the subproblems, with settings tuned for the prox-center."""
    center, each = WARM_STARTS["center"], [(c, method) for c in (0.01, 1) for method in (CONST, ADAPT)]
    fixed = {"k": K, "mu": MU}
    return [
        _curve(label, m, c, {**fixed, "warm_start": start}, grids.of(m), None if start == "center" else center)
        for c, m in each
        for start, label in WARM_STARTS.items()
    ]


def figure_5d(grids: Grids) -> list[Curve]:
    """Numbers K of outputs in the smoothed max, with settings tuned for K = 5."""
    fixed = {"mu": MU, "warm_start": "center"}
    return [
        _curve(f"K = {k}", method, 0.01, {"k": k, **fixed}, grids.of(method), None if k == K else f"K = {K}")
        for method in (CONST, ADAPT)
        for k in grids.k
    ]


CHANGES: dict[str, dict[str, Any]] = {
    "as in Figure 2": {},
    "certified K": {"smoothing": "certified"},
    "entropy": {"smoothing": "entropy"},
    "averaged steps": {"average": "uniform"},
    WARM_STARTS["extrapolated"]: {"warm_start": "extrapolated"},
    WARM_STARTS["last"]: {"warm_start": "last"},
    "until (26)": {"stop": "gradient"},
    "kappa = lam": {"kappa": "lam"},
}


def reasons(grids: Grids) -> list[Curve]:
    """Casimir-SVRG-const with one change at a time, each tuned, or with a step that is found; Casimir by its defaults;
    other methods.
    """
    curves, mu = [], [{"mu": mu} for mu in grids.mu]
    for c in (0.01, 1):
        tried = [(label, {**CENTER, **change}, grids.with_mu(CONST)) for label, change in CHANGES.items()]
        every = [*tried, ("step found", CENTER, mu)]
        curves += [Curve(label, CONST, options, grid, column=f"lam = {c:g}/n", c=c) for label, options, grid in every]
        curves.append(Curve("defaults", UNTUNED, {"k": K}, column=f"lam = {c:g}/n", c=c))
        curves += [each for each in figure_2(grids) if each.c == c and each.method in ("sgd", "bcfw")]
    return curves


FIGURES: dict[str, Callable[[Grids], list[Curve]]] = {
    each.__name__.replace("_", "-"): each for each in (figure_2, figure_5a, figure_5b, figure_5c, figure_5d, reasons)
}


def chosen(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The record with the lowest last objective among those whose best validation F1 is at least 99 % of the best of
    all.

    Source: Pillutla et al., section 7.3, "Tuning Criteria".
    """
    f1 = [max((row["f1"] or 0.0 for row in record["rows"]), default=0.0) for record in records]
    near = [record for record, score in zip(records, f1, strict=True) if score >= 0.99 * max(f1)]
    return min(near, key=last_objective)


# the figure ----------------------------------------------------------------------------------------------------------

QUICK = {"sentences": 16, "passes": 2, "repeats": 2, "bits": 12}


def measure(performed: Runs, curves: Sequence[Curve], passes: int, repeats: int) -> dict[str, Any]:
    """The best known objective and dual for each c, the runs over each grid, and the runs of each tuned curve."""
    cs = list(dict.fromkeys(curve.c for curve in curves))
    found = tuned_curves(performed, curves, range(repeats),
        run=lambda curve, options, rng: Run(curve.method, curve.c, options, rng, passes),
        certificates=[Run(CERTIFICATE, c, {}, 0, LONGER * passes) for c in cs],
        choose=chosen,
        chosen=lambda curve, best: {**curve.options, **{name: best[name] for name in curve.grid[0]}},
        lengthen=True)  # fmt: skip
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
    """The tuned settings, and the end of each curve; * marks an end of the grid. "At equal calls" is at the calls of
    the curve of the column that makes the fewest, with those of full gradients.
    """
    lines = shell.header("column", "curve", "tuned", "objective", "less the best known", "at equal calls", "F1, %")
    for curve in report["curves"]:
        best = report["best"][f"{curve['c']:g}"]["objective"]
        ends = [last_objective(record) for record in curve["runs"]]
        last = [record["rows"][-1]["f1"] for record in curve["runs"] if record["rows"]]
        f1 = [100 * share for share in last if share is not None]
        fewest = min(_calls(other) for other in report["curves"] if other["column"] == curve["column"])
        within = [[row for row in record["rows"] if row["oracle_calls"] <= fewest] for record in curve["runs"]]
        equal = [last_objective({"rows": rows}) for rows in within]
        apart = [statistics.fmean(values) - best for values in (ends, equal)]
        cells = _spread(ends), *(f"{x:.3g}" if math.isfinite(x) else "none" for x in apart), _spread(f1)
        lines.append(shell.row(curve["column"], curve["label"], tuned_options(curve, "g"), *cells))
    if any(end for curve in report["curves"] for end in curve["tuned"].values()):
        lines.append("\n*: an end of the grid")
    for c, best in report["best"].items():
        lines.append(f"\nlam = {c}/n: best known objective {best['objective']:.6g}, dual {best['dual']:.6g}")
    return "\n".join(lines)


def _calls(curve: dict[str, Any]) -> int:
    """The oracle calls at the end of the shortest run."""
    return min(record["rows"][-1]["oracle_calls"] if record["rows"] else 0 for record in curve["runs"])


def _spread(numbers: list[float]) -> str:
    if not numbers or not all(map(math.isfinite, numbers)):
        return "diverged"
    return shell.spread(numbers, 5)


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
    shell.add_report_options(parser, printed="JSON, without the rows of the runs")
    options = shell.parsed(parser, arguments, QUICK)
    figure = name.removeprefix("casimir-")
    return shell.run_or_draw(parser, options, lambda: _run(figure, options), SHOWN, "a figure", FIELDS)


def _run(figure: str, options: argparse.Namespace) -> None:
    if options.data is None:
        raise ValueError("DATA: expected the path of conll2002.zip")
    curves = FIGURES[figure.removesuffix(DUTCH)](SMALL if options.quick else FULL)
    language = "ned" if figure.endswith(DUTCH) else "esp"
    sentences = Sentences(options.data, options.sentences, options.sentences, options.bits, language)
    folder = shell.output_folder(options)
    kept = folder / "runs.jsonl"
    with shell.executor_of_one_thread(options) as executor:
        results = measure(runs_of(sentences, kept, executor), curves, options.passes, options.repeats)
    settings = {**{name: getattr(options, name) for name in QUICK}, "language": language}
    report = {"figure": figure, "settings": settings, "versions": shell.versions(), **results}
    SHOWN.kept(options, report, folder / f"{figure}.json", kept)


SHOWN = shell.Shown(draw_entities, table, without_rows)
