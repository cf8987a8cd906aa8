"""Dependency parsing of Martins et al. (2010), section 4 and Figure 1, bottom right: templates chosen by an SVM and by
multiple kernel learning.

    diptych reproduce mkl-figure-1 PATH_TO_dependency_treebank.zip [--quick] [--out FOLDER] [--json] [--workers 2]
    diptych reproduce mkl-figure-1 --draw parsing-templates.json       draw the picture again from the JSON file

A plain SVM and MKL learn on 507 templates, as many as in the paper, or on those of a set of the package (--templates).
Then SVMs are trained on fewer templates, those with the largest norms in the SVM or in MKL. Writes
parsing-templates.json and parsing-templates.png into the current folder, or that of --out. The picture shows the share
of right heads on the test files against the number of templates. Finished runs are saved in runs.jsonl in that folder
and are not repeated.

Protocol. The zip's first 160 files are for training, the rest for testing. The last 20 of the 160 are held out to
choose eta0 and C by the share of right heads. For each learner, eta0 is the best after two epochs at C = 10; C is the
strongest penalty within one standard error of the best after four epochs. SVMs on fewer templates have the eta0 of the
SVM on all, and a C of their own, found in the same way. All runs return the last model and have eta_t = eta0/sqrt(t)
and 2^16 weights for each template. UAS is the share of tokens, without punctuation, with the right head. The paper has
39,278 sentences of CoNLL-2008 (SVM 90.92 %, MKL 90.67 %) and does not list its templates. So the numbers cannot be
compared with the print, but the better choice of templates can. The 507 here conjoin words, lemmas and tags of a head
with those of a modifier.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import accelerated
from accelerated import algorithms
from diptych.commands.output import announce_compilation
from diptych.distributed import Runs
from diptych.experiments import shell
from diptych.experiments.results import load, timed
from diptych.files.treebank import Sentence, load_treebank
from diptych.metrics import PUNCTUATION, attachment_score
from diptych.pictures.plots import require_matplotlib, save_figure, whole
from reference.models.templates import check_templates, named_templates
from reference.training.counterparts import counterpart


class Treebank(NamedTuple):
    """A zip of files: the first ``training`` files are for training, the next ``test`` files for testing.

    The last ``held_out`` of the training files are held out to choose C and eta0.
    """

    archive: str
    training: int
    held_out: int
    test: int
    templates: str
    bits: int

    def sentences(self, part: str) -> tuple[list[Sentence], list[Sentence]]:
        """The sentences to train on and to score, for the part "tuning" or "whole"."""
        last = self.training - self.held_out if part == "tuning" else self.training
        scored = (last + 1, self.training) if part == "tuning" else (last + 1, last + self.test)
        return load_treebank(f"{self.archive}:1-{last}"), load_treebank(f"{self.archive}:{scored[0]}-{scored[1]}")

    def checked_templates(self) -> tuple[tuple[str, ...], ...]:
        """All templates, in the order of their blocks."""
        return check_templates(_all_pairs() if self.templates == "507" else named_templates(self.templates))


SIDE = ("", "tag", "word", "lemma", "word tag", "lemma tag", "-1.tag tag", "tag +1.tag", "-1.tag tag +1.tag",
    "-1.tag +1.tag", "-2.tag -1.tag tag", "tag +1.tag +2.tag", "-1.tag word +1.tag")  # fmt: skip


def _all_pairs() -> list[tuple[str, ...]]:
    """507 templates: each of 13 descriptions of the head with each of the modifier, by itself, with the direction and
    with the distance; in place of none for both, the tags between them.
    """

    def atoms(side: str, place: str) -> list[str]:
        return [f"{side}{'' if part.startswith(('-', '+')) else '.'}{part}" for part in place.split()]

    pairs = [atoms("h", head) + atoms("m", modifier) for head, modifier in itertools.product(SIDE, SIDE)]
    reaches: list[list[str]] = [[], ["direction"], ["distance"]]
    each = [tuple(pair + reach) for pair, reach in itertools.product(pairs, reaches)]
    return [template or ("h.tag", "b.tag", "m.tag") for template in each]


class Run(NamedTuple):
    """Settings of a run. learner: "svm" or "mkl"; templates: indices; part: "tuning" or "whole"."""

    learner: str
    C: float
    eta0: float
    templates: tuple[int, ...]
    epochs: int
    part: str
    rng: int = 0


def perform(treebank: Treebank, run: Run) -> dict[str, Any]:
    """Train and return a record: settings, a row for each epoch with the templates' norms, and the shares of right
    heads with and without punctuation.

    The objective is R(w) + (1/m) (sum of hinges over m sentences), lam = 1/(C m). R = lam/2 ||w||^2 for the SVM, R =
    lam/2 (sum of the templates' norms)^2 for MKL. Exactly one token has the root as its head.
    """
    scored = _read(treebank, run.part)[2]
    every = treebank.checked_templates()
    model, data = _packed(treebank, run.part, tuple(every[t] for t in run.templates))
    hinge, lam, rows = accelerated.StructuralHinge(model, data), 1 / (run.C * data.n), []
    R = accelerated.HalfSquaredL2(lam) if run.learner == "svm" else accelerated.SquaredL21(lam, model.groups)
    box = counterpart(algorithms.OnlineProximal(R, accelerated.steps.InverseSqrt(run.eta0)), hinge)
    state, rng, seconds = box.init(hinge, hinge.zeros()), np.random.default_rng(run.rng), 0.0
    for epoch in range(1, run.epochs + 1):  # without the objective after each epoch, which takes as long as the epoch
        began = time.perf_counter()
        state = box.epoch(hinge, state, rng)
        seconds += time.perf_counter() - began
        if not np.all(np.isfinite(state.x)):
            break
        norms = [float(norm) for norm in model.template_norms(state.x)]
        rows.append({"epoch": epoch, "seconds": seconds, "norms": norms})
    shares = {"objective": None, "uas": None, "uas_with_punctuation": None}
    record = {**run._asdict(), "n": data.n, "rows": rows, "load": load(), **shares}
    w = state.x
    if not np.all(np.isfinite(w)):
        return record
    record["objective"] = hinge.value_and_gradient(w)[0] + float(R.value(w))
    predicted = model.predict(model.pack([s.fields() for s in scored]), None, w)
    truth, tags = [np.asarray(s.heads) for s in scored], [s.tags for s in scored]
    record["uas"] = attachment_score(truth, predicted, tags)
    record["uas_with_punctuation"] = attachment_score(truth, predicted)
    return record


@lru_cache(maxsize=2)
def _read(treebank: Treebank, part: str) -> tuple[list[Any], list[Any], list[Sentence]]:
    training, scored = treebank.sentences(part)
    return [s.fields() for s in training], [s.heads for s in training], scored


@lru_cache(maxsize=1)
def _packed(treebank: Treebank, part: str, templates: tuple[tuple[str, ...], ...]) -> tuple[Any, Any]:
    X, Y, _ = _read(treebank, part)
    model = accelerated.ParsingModel(templates, bits=treebank.bits, single_root=True, blocks=True)
    return model, model.pack(X, Y)


def runs_of(treebank: Treebank, kept: Path, executor: Any) -> Runs:
    """Runs on a treebank. ValueError if a part of it has no sentences."""
    for part in ("tuning", "whole"):
        if not all(treebank.sentences(part)):
            raise ValueError(f"{treebank.archive}: expected sentences in all parts, got none in one of {part}")
    announce_compilation(accelerated)

    def describe(run: Run, record: dict[str, Any]) -> str:
        share, name = record["uas"], f"{run.learner}, {run.part}, {len(run.templates)} templates"
        score = "diverged" if share is None else f"UAS {100 * share:.2f} %"
        return f"{name}, C = {run.C:g}, eta0 = {run.eta0:g}, {run.epochs} epochs: {score}"

    return Runs(
        partial(perform, treebank), kept, executor, key=lambda run: [*treebank[1:], run._asdict()], describe=describe
    )


NAMES = {"svm": "SVM", "mkl": "MKL"}
PAPER = {"svm": 90.92, "mkl": 90.67}
TRIAL_C = 10.0
QUICK = {"files": 4, "held_out": 1, "test_files": 1, "epochs": 2, "bits": 8, "templates": "20"}


class Plan(NamedTuple):
    """The grids, on all templates and on sets of them; the epochs of runs that choose eta0 and C; the sizes of sets, as
    far as there are so many templates.
    """

    eta0: tuple[float, ...]
    C: tuple[float, ...]
    C_of_sets: tuple[float, ...]
    trials: tuple[int, int]
    sizes: tuple[int, ...]


SIZES = (5, 10, 20, 40, 107, 207, 307, 407, 507)
FULL = Plan((0.01, 0.1, 1.0), (0.001, 0.01, 0.1, 1.0, 10.0), (0.01, 0.1, 1.0), (2, 4), SIZES)
SMALL = Plan((0.1, 1.0), (1.0, 10.0), (1.0,), (1, 1), (2, 20))  # with --quick


def measure(treebank: Treebank, performed: Runs, plan: Plan, epochs: int) -> dict[str, Any]:
    """Tune both learners, train them on all templates, and train SVMs on sets of templates."""
    every = tuple(range(len(treebank.checked_templates())))

    def performs(runs: Callable[[str], Iterable[Run]]) -> dict[str, list[dict[str, Any]]]:
        return {learner: performed.perform(runs(learner)) for learner in NAMES}

    print("eta0", file=sys.stderr)
    trials = performs(lambda name: [Run(name, TRIAL_C, eta0, every, plan.trials[0], "tuning") for eta0 in plan.eta0])
    eta0 = {learner: max(records, key=_share)["eta0"] for learner, records in trials.items()}
    print("C", file=sys.stderr)
    tuned = performs(lambda name: [Run(name, C, eta0[name], every, plan.trials[1], "tuning") for C in plan.C])
    words = sum(tag not in PUNCTUATION for sentence in treebank.sentences("tuning")[1] for tag in sentence.tags)
    best = {learner: _strongest(records, words)["C"] for learner, records in tuned.items()}
    print("all templates", file=sys.stderr)
    on_all = performs(lambda name: [Run(name, best[name], eta0[name], every, epochs, "whole")])
    full = {learner: record for learner, (record,) in on_all.items()}
    print("sets of templates", file=sys.stderr)
    sizes = sorted({min(size, len(every)) for size in plan.sizes})
    sets = {learner: [_largest(record, size) for size in sizes] for learner, record in full.items()}

    fewer = [each for several in sets.values() for each in several if each != every]
    usual = Run("svm", best["svm"], eta0["svm"], every, epochs, "whole")
    tries = [usual._replace(C=C, templates=each, epochs=plan.trials[1], part="tuning")
        for each in fewer for C in plan.C_of_sets]  # fmt: skip
    tuning, step = performed.perform(tries), len(plan.C_of_sets)
    C_of = {each: _strongest(tuning[i * step : (i + 1) * step], words)["C"] for i, each in enumerate(fewer)}
    svm = performs(lambda name: [usual._replace(C=C_of.get(each, usual.C), templates=each) for each in sets[name]])
    return {"eta0": trials, "C": tuned, "full": full, "tuning": tuning, "sets": svm}


def _share(record: dict[str, Any]) -> float:
    """The share of right heads, 0 for a run that diverged."""
    return record["uas"] or 0.0


def _strongest(records: Sequence[dict[str, Any]], words: int) -> dict[str, Any]:
    """The run with the strongest penalty among those within one standard error of the best share of right heads."""
    top = max(map(_share, records))
    error = math.sqrt(top * (1 - top) / max(words, 1))
    return min((record for record in records if _share(record) >= top - error), key=lambda record: record["C"])


def _largest(record: dict[str, Any], size: int) -> tuple[int, ...]:
    """The indices of the templates with the largest norms; of equals, the first."""
    order = np.argsort(-np.array(record["rows"][-1]["norms"]), kind="stable")
    return tuple(sorted(order[:size].tolist()))


def table(report: dict[str, Any]) -> str:
    """Both learners on all templates, and the SVMs on sets; * marks an end of a grid of more than two values."""
    ends = {name: (min(grid), max(grid)) if len(grid) > 2 else () for name, grid in report["grids"].items()}
    head = ["learner", "templates with weights", "C", "eta0", "UAS, %", "with punctuation", "UAS of the paper"]
    of_all = {"versions": {"cores": report["versions"]["cores"]}, "full": report["full"]}
    head += ["objective", *(["seconds an epoch"] if timed(of_all) else [])]
    lines = shell.header(*head)
    for learner, record in report["full"].items():
        row, norms = record["rows"][-1], record["rows"][-1]["norms"]
        alive = f"{sum(norm > 0 for norm in norms)} of {len(norms)}"
        cells = [f"{record[name]:g}{'*' if record[name] in ends[name] else ''}" for name in ("C", "eta0")]
        cells += [_percent(record["uas"]), _percent(record["uas_with_punctuation"]), str(PAPER[learner])]
        cells += [f"{record['objective']:.5g}", f"{row['seconds'] / row['epoch']:.2f}"]
        lines.append(shell.row(*[NAMES[learner], alive, *cells][: len(head)]))
    lines += ["", *shell.header("templates", "UAS, chosen by SVM", "UAS, chosen by MKL", "in both")]
    for svm, mkl in zip(*report["sets"].values(), strict=True):
        common = len(set(svm["templates"]) & set(mkl["templates"]))
        lines.append(f"| {len(svm['templates'])} | {_percent(svm['uas'])} | {_percent(mkl['uas'])} | {common} |")
    lines += ["", *shell.header("learner", "largest shares of the norms")]
    for learner, record in report["full"].items():
        norms = np.array(record["rows"][-1]["norms"])
        first = [f"{' '.join(report['templates'][t])} ({norms[t] / norms.sum():.3f})" for t in np.argsort(-norms)[:10]]
        lines.append(shell.row(NAMES[learner], "; ".join(first)))
    return "\n".join([*lines, "\n*: an end of the grid"])


def _percent(share: float | None) -> str:
    return "diverged" if share is None else f"{100 * share:.2f}"


def draw(path: Path, report: dict[str, Any]) -> None:
    """Right heads against the number of templates, and MKL's shares of the norms over the epochs."""
    figure = require_matplotlib()(figsize=(12, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for number, (learner, records) in enumerate(report["sets"].items()):
        across = [len(record["templates"]) for record in records]
        up = [math.nan if record["uas"] is None else 100 * record["uas"] for record in records]
        left.plot(across, up, "o-", color=f"C{number}", label=f"SVM on those chosen by {NAMES[learner]}")
    for number, (learner, record) in enumerate(report["full"].items()):
        if record["uas"] is not None:
            label = f"{NAMES[learner]} on all"
            left.axhline(100 * record["uas"], color=f"C{number}", linewidth=0.8, linestyle=":", label=label)
    left.set(xlabel="number of templates", ylabel="UAS without punctuation, %, test files")
    left.legend(fontsize=8)
    rows = report["full"]["mkl"]["rows"]
    norms = np.array([row["norms"] for row in rows])
    right.plot(
        [row["epoch"] for row in rows], norms / np.maximum(norms.sum(axis=1, keepdims=True), 1e-300), linewidth=0.9
    )
    right.set(xlabel="epochs", ylabel="beta, weights of the templates' kernels, MKL")
    whole(left.xaxis)
    whole(right.xaxis)
    save_figure(figure, path)


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Run the experiment, or draw it again; return the exit status."""
    parser = shell.Parser(name, __doc__)
    parser.add_argument("data", metavar="DATA", nargs="?", help="path to dependency_treebank.zip")
    parser.quick("small grids; defaults of 20 templates, 4 training files, 1 test file and 2 epochs")
    parser.number("data", "--files", 160, "number of training files")
    parser.number("data", "--held-out", 20, "number of training files held out to choose C and eta0")
    parser.number("data", "--test-files", 39, "number of test files, after the training files")
    parser.number("solver", "--epochs", 10, "epochs of each run")
    numbers = ("20", "100", "507")
    parser.option("model", "--templates", choices=numbers, default="507", help="number of templates (default: 507)")
    parser.number("model", "--bits", 16, "2^N weights for each template")
    shell.add_workers(parser)
    shell.add_report_options(parser, printed="JSON, without the norms of every epoch")
    options = shell.parsed(parser, arguments, QUICK)
    if options.held_out >= options.files:
        parser.error(f"--held-out: expected fewer than the {options.files} files to train on, got {options.held_out}")
    fields = ("settings", "templates", "grids", "full", "sets")
    return shell.run_or_draw(parser, options, lambda: _run(options), SHOWN, "parsing_templates", fields)


def _run(options: argparse.Namespace) -> None:
    if options.data is None:
        raise ValueError("DATA: expected the path of dependency_treebank.zip")
    plan = SMALL if options.quick else FULL
    files = options.files, options.held_out, options.test_files
    treebank = Treebank(options.data, *files, options.templates, options.bits)
    folder = shell.output_folder(options)
    kept, path = folder / "runs.jsonl", folder / "parsing-templates.json"
    with shell.executor_of_one_thread(options) as executor:
        results = measure(treebank, runs_of(treebank, kept, executor), plan, options.epochs)
    settings = {name: getattr(options, name) for name in QUICK}
    report = {"settings": settings, "versions": shell.versions(), "templates": treebank.checked_templates()}
    report |= {"grids": {"eta0": plan.eta0, "C": plan.C}, **results}
    SHOWN.kept(options, report, path, kept)


def _last_rows(part: Any) -> Any:
    """The report with only the last row of each run."""
    if isinstance(part, dict):
        return {name: value[-1:] if name == "rows" else _last_rows(value) for name, value in part.items()}
    return [_last_rows(each) for each in part] if isinstance(part, list) else part


SHOWN = shell.Shown(draw, table, _last_rows)
