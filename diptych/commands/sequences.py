"""``train``, ``evaluate``, ``predict`` and ``show`` for sequence labellers; ``compare`` and ``demo`` run both panels
side by side.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from tqdm import tqdm

from diptych.commands import cluster, jobs
from diptych.commands.kernel_jobs import KERNEL_OPTIONS, Kernels, kernel_job, train_kernels
from diptych.commands.many_files import paths_of
from diptych.commands.options import Command, Saved, Training, add_command, argument, flag, option
from diptych.commands.output import Progress, Report, announce_compilation, ending, outcome, say, trained, whole
from diptych.commands.regularizers import Regularized
from diptych.commands.scores import of_partition, shares_of
from diptych.commands.show import add_show
from diptych.commands.solvers import check_start, epochs_of, listed, solver_options
from diptych.commands.sparse_jobs import SPARSE_OPTIONS, Sparse, SparseJob, run_sparse, sparse_job
from diptych.distributed import Partitioned, SequenceFile, sequence_model
from diptych.distributed.loaders import parts_of
from diptych.files.models import load_model
from diptych.files.sequences import numbered, relabelled
from diptych.panels import PANELS, panel_of
from diptych.pictures import plots
from diptych.warm import DEMO, warm
from reference.datasets import Sequences
from reference.files import save_bytes
from reference.models.kernel_sequence import KernelWeights
from reference.training.result import Row

OVER = (*jobs.OPTIMIZERS, "cocoa")
EPOCHS = listed({name: epochs_of(name) for name in jobs.OPTIMIZERS})
FOLD = "only the sequences of this fold"
DRAWN = 24  # words of a picture


class Data(Command):
    """Sequences, or a fold of them."""

    data: str = argument("'letters', or a sequence file (.npz)")
    fold: int | None = option("data", FOLD, metavar="N")
    reverse: bool = False
    limit: int | None = flag()
    most_bytes: int = flag()


class Split(Regularized, jobs.Solved, Data):
    """Sequences to train on, others to test on, and how."""

    data: str = argument("'letters', a sequence file or, over partitions, '*.npz'")
    fold: int | None = option("data", "train on the other folds, test on this one", metavar="N")
    reverse: bool = option("data", "with --fold: train on this fold, test on the others", action="store_true")
    loss: str | None = option("solver", "crf: log loss; hinge: structural SVM (default: crf; of mkl: hinge)",
        choices=jobs.LOSSES)  # fmt: skip
    optimizer: str | None = option("solver", "(default: sgd; over partitions lbfgs, or cocoa for the hinge)",
        choices=OVER)  # fmt: skip
    lam: float | None = flag("default: 2/n for n sequences")
    epochs: int | None = flag(f"default: {EPOCHS}; of sparse-crf, iterations for each beta: 10000; of mkl: 20")
    tol: float | None = flag("default of sparse-crf: 1e-6")
    solver: dict[str, Any] = solver_options(OVER, without=("mu", "k"))
    start_stop: bool | None = option("model", "no weights for the first and the last label", "--no-start-stop",
        action="store_const", const=False, rare=True)  # fmt: skip
    scale: float | None = None

    def __post_init__(self) -> None:
        if self.reverse and self.fold is None:
            raise ValueError("--reverse has no effect without --fold")


class Train(cluster.Cluster, Sparse, Kernels, Split, Training):
    """Train a sequence labeller and report objective, accuracy and seconds."""

    positions: bool | None = option("solver",
        "make each position an example of its own, without transitions; needed by --rule l2-gap and half-space",
        action="store_true", default=None, rare=True)  # fmt: skip
    start: str | None = flag()


class Evaluate(Data, Saved):
    """Accuracy of a saved model."""


class Predict(Data, Saved):
    """Labels that a saved model gives, a line for each sequence."""

    out: str | None = flag()
    plot: str | None = flag("of letters: draw the first words and what is read")


class Compare(Split):
    """Run one job in both panels and show them side by side.

    Run one job in both panels from one rng and one start, side by side. The start is 1e-6 times normal draws of the
    rng and not zero: at w = 0 every argmax of the hinge loss is a tie, and two correct panels may part there by a
    whole step.
    """

    opens: ClassVar[bool] = False
    plot: str | None = flag()
    scale: float | None = 1e-6


class Demo(Command):
    """Both panels learn to read handwritten words; pictures of what they read."""

    opens: ClassVar[bool] = False
    out: str = flag("a folder; default: demo", default="demo")
    epochs: int = flag("default: 3", default=3)
    limit: int = flag("default: 2500", default=2500)

    @property
    def written(self) -> list[str | None]:
        return []


def add(commands: Any) -> None:
    """Add the commands for sequence labellers to the subparsers of the command line."""
    action = partial(add_command, commands)
    action("train", _train, Train)
    action("evaluate", _evaluate, Evaluate)
    action("predict", _predict, Predict)
    add_show(action, _check_kind)
    action("compare", _compare, Compare, no_panel="compare runs both panels")
    action("demo", _demo, Demo, no_panel="demo runs both panels")


# training -----------------------------------------------------------------------------------------------------------


def _train(panel: ModuleType, command: Train) -> Report:
    over, learner = command.over_partitions, command.learner
    usual = "sgd" if not over else "cocoa" if command.loss == "hinge" else "lbfgs"
    cluster.check_over(command, command.optimizer or usual, "limit", "fold")
    for other, names in (("mkl", KERNEL_OPTIONS), ("sparse-crf", SPARSE_OPTIONS)):
        if learner != other:
            jobs.refuse_options(command, names, other)
    if learner == "mkl":
        kernel_job(command)  # reports invalid options before the data are read
        return train_kernels(panel, command, *_split(command, _read(command)))
    if learner == "sparse-crf":
        return _train_sparse(panel, command, sparse_job(command))
    job = jobs.job_of(command, OVER if over else jobs.OPTIMIZERS, optimizer=usual)
    model, w0 = (None, None) if command.start is None else _start(panel, command, job)
    job = job if model is None else replace(job, start_stop=model.start_stop)
    with ExitStack() as stack:
        started, test = time.perf_counter(), None
        if over:
            files, objective = _partitions(panel, command, job, model, stack)
            job = job.over(objective.n)
        else:
            data = _read(command, fitting=() if model is None else (model, command.start))
            training, test = _split(command, data)
            job = job.over(len(training.X))
            _warm_up(panel, job, training, command.quiet)
            started = time.perf_counter()
            objective = jobs.objective_of(panel, job, training, model)
        fold = {} if over else {"fold": command.fold}
        what: dict[str, Any] = {"data": command.data, "sequences": objective.n, **fold}
        what |= ({} if over else {"reverse": command.reverse}) | {"start": command.start, "job": job.as_dict()}
        run = partial(jobs.train, panel, job, objective, w0=w0)
        info = {"data": command.data, **fold, "start": command.start, **job.as_dict()}
        partitioned, model = objective if over else None, objective.model
        result, report = trained(panel, command, what, job.epochs or 0, run, model, info, partitioned)
        report |= {"weights": objective.model.size, "seconds_in_all": time.perf_counter() - started}
        first = f"{job.loss} by {job.optimizer} on {command.data}: {objective.n} sequences"
        if over:
            report |= {"files": files, "labels": objective.model.labels}
            counts = None if result.interrupted else objective.sum_of(of_partition, result.x)
            report["train"] = None if counts is None else shares_of(counts, "letter", "word")
            lines = [
                cluster.line_of(report),
                *([] if counts is None else [jobs.accuracy_line("train", report["train"])]),
            ]
        else:
            seconds, epochs = (result.history[-1].seconds, result.history[-1].epoch) if result.history else (0.0, 0)
            report |= {"iterate": result.iterate, "seconds": seconds, "nonzeros": int(np.count_nonzero(result.x))}
            report |= jobs.accuracies(objective.model, result.x, training, test)
            first, lines = f"{first}, {epochs} epochs ({result.iterate} iterate)", jobs.accuracy_lines(report)
            if job.optimizer == "online-proximal":
                lines.append(f"weights {report['nonzeros']} of {report['weights']} are not 0")
    spent = report["seconds_in_all" if over else "seconds"]
    lines = [first, f"objective {result.fun:.6f}    seconds {spent:.3f}{_gap(result.certificate)}", *lines]
    return Report(report, lines, {panel.__name__: result.history}, _title(job))


def _partitions(
    panel: ModuleType, command: Train, job: jobs.Job, model: Any, stack: ExitStack
) -> tuple[list[str], Partitioned]:
    """The files, and the objective over their partitions."""
    files = [command.data] if command.data == "letters" else paths_of([command.data])
    sources = [SequenceFile(path, None, command.most_bytes) for path in cluster.for_workers(command, files, "letters")]
    loss, small = cluster.loss_over(panel, job), panel.SequenceModel(2, 2, start_stop=job.start_stop)
    run = partial(jobs.train, panel, replace(job, epochs=1).over(2))
    rehearsal = cluster.Rehearsal(small, loss, run, [np.eye(2), np.eye(2)], [np.arange(2), np.arange(2)])

    def model_of(executor: Any) -> Any:
        if model is not None:
            return model
        made = sequence_model(panel, sources, executor, start_stop=job.start_stop)
        _say_labels(command, made.labels)
        return made

    def loaders_of(model: Any) -> Any:
        return parts_of(
            [replace(each, labels=model.labels) for each in sources], cluster.parts_a_file(command, len(files))
        )

    return files, stack.enter_context(cluster.partitioned(panel, command, loss, rehearsal, model_of, loaders_of))


def _train_sparse(panel: ModuleType, command: Train, job: SparseJob) -> Report:
    training, test = _split(command, _read(command))
    n, started = len(training.X), time.perf_counter()
    width, labels = training.X[0].shape[1], training.labels
    model = (
        panel.MulticlassModel(width, labels)
        if job.positions
        else panel.SequenceModel(width, labels, start_stop=job.start_stop)
    )

    def objective(examples: np.ndarray) -> Any:
        part = training.take(examples)
        each = (np.concatenate(part.X), np.concatenate(part.Y)) if job.positions else (part.X, part.Y)
        return panel.LogLoss(model, model.pack(*each))

    what = {"data": command.data, "sequences": n, "fold": command.fold}
    info = {"data": command.data, "fold": command.fold}
    fit = run_sparse(panel, command, job, what, objective, n, info, lambda w: (model, w))
    report = {**fit.report, "reverse": command.reverse, **jobs.accuracies(model, fit.w, training, test)}
    report["seconds_in_all"] = time.perf_counter() - started
    return Report(report, [f"sparse CRF on {command.data}: {n} sequences", *fit.lines, *jobs.accuracy_lines(report)])


# a saved model ------------------------------------------------------------------------------------------------------


def _evaluate(panel: ModuleType, command: Evaluate) -> Report:
    model, w, info = load_model(command.model, panel, most_bytes=command.most_bytes)
    data = _part(_read(command, fitting=(model, command.model, w)), command)
    jobs.check_scorable(command.data, data)
    announce_compilation(panel, command.quiet)
    started = time.perf_counter()
    scores = jobs.accuracy(model, w, data)
    report: dict[str, Any] = {"data": command.data, "fold": command.fold, "model": str(command.model), "trained": info}
    report |= {"sequences": len(data.X), "accuracy": scores, "seconds": time.perf_counter() - started}
    return Report(report, [jobs.accuracy_line(f"{len(data.X)} sequences:", scores)])


def _predict(panel: ModuleType, command: Predict) -> Report:
    if command.plot and command.data != "letters":
        raise ValueError(f"--plot: the words of letters can be drawn, not {command.data}")
    model, w, _ = load_model(command.model, panel, most_bytes=command.most_bytes)
    data = _part(_read(command, labelled=False), command)
    if not data.X:
        raise ValueError(f"{command.data}: no sequences")
    _check_features(data, model, command.data, command.model, w)
    announce_compilation(panel, command.quiet)
    predicted = [[model.labels[i] for i in labels] for labels in jobs.labellings(model, w, data)]
    report = {"data": command.data, "model": str(command.model), "labels": predicted}
    if command.plot:
        shown = data.X[:DRAWN], data.Y[:DRAWN], predicted[:DRAWN]
        words = [("".join(data.labels[i] for i in y), "".join(read)) for _, y, read in zip(*shown, strict=True)]
        plots.words(command.plot, shown[0], words)
        report["plot"] = str(command.plot)
    separator = "" if all(len(name) == 1 for name in model.labels) else " "
    return Report(report, [separator.join(labels) for labels in predicted], out=command.out)


# both panels --------------------------------------------------------------------------------------------------------


def _compare(panel: ModuleType, command: Compare) -> Report:
    job, data = jobs.job_of(command), _read(command)
    training, test = _split(command, data)
    report, _ = compare(job.over(len(training.X)), training, training if test is None else test, command.quiet)
    report["data"] = command.data
    if command.plot:
        plots.convergence(command.plot, _histories(report), _title(job))
        report["plot"] = str(command.plot)
    return Report(report, _side_by_side(report))


def compare(job: jobs.Job, training: Sequences, test: Sequences, quiet: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run one job in both panels from one start. Return the report, and (model, weights) of each panel by name."""
    report: dict[str, Any] = {"command": "compare", "job": job.as_dict(), "sequences": len(training.X)}
    trained = {}
    for name in PANELS:
        side = panel_of(name)
        _warm_up(side, job, training, quiet)
        objective = jobs.objective_of(side, job, training)
        with Progress(job.epochs, quiet, name) as progress:
            result = whole(jobs.train(side, job, objective, progress))
        trained[name] = objective.model, np.asarray(result.x)
        report[name] = outcome(result) | {
            "accuracy": jobs.accuracy(objective.model, result.x, test),
            "seconds": result.history[-1].seconds if result.history else 0.0,
        }
    ours, theirs = report["accelerated"]["objective"], report["reference"]["objective"]
    report["relative_objective_difference"] = abs(ours - theirs) / max(abs(theirs), sys.float_info.min)
    report["largest_weight_difference"] = float(
        np.max(np.abs(trained["accelerated"][1] - trained["reference"][1]), initial=0.0)
    )
    return report, trained


def _demo(panel: ModuleType, command: Demo) -> Report:
    folder = Path(command.out)
    folder.mkdir(parents=True, exist_ok=True)
    settings: dict[str, Any] = {"lam": 0.001, "epochs": command.epochs, "scale": 1e-6, "solver": {"step_size": 0.02}}
    job = jobs.Job(**settings)
    rest, held_out = jobs.load("letters").split(0)
    training = rest.take(jobs.limited(len(rest.X), command.limit))
    if not command.json:
        say(f"A linear-chain CRF learns to read {len(training.X)} handwritten words, in both panels from one start;")
        say(f"then it reads {len(held_out.X)} words in other handwriting.\n")
    _compile(command.quiet or command.json)
    report, trained = compare(job, training, held_out, command.quiet)
    report["command"] = "demo"
    model, w = trained["accelerated"]
    shown = held_out.take(np.argsort([-len(y) for y in held_out.Y], kind="stable")[:: max(1, len(held_out.Y) // 8)][:8])
    predicted = model.predict(model.pack(shown.X), None, w)
    report["words"] = [
        {"true": _word(model, y), "predicted": _word(model, z)} for y, z in zip(shown.Y, predicted, strict=True)
    ]
    save_bytes(folder / "compare.json", (json.dumps(report, indent=2, allow_nan=False) + "\n").encode())
    written = ["compare.json"]
    lines = [*_side_by_side(report), "", "word         read as"]
    lines += [f"{word['true']:12} {word['predicted']}" for word in report["words"]]
    try:
        plots.convergence(folder / "convergence.png", _histories(report), "CRF on the OCR letters: both panels")
        plots.words(folder / "words.png", shown.X, [(word["true"], word["predicted"]) for word in report["words"]])
        written += ["convergence.png", "words.png"]
    except ImportError as problem:
        lines += ["", f"no pictures: {problem}"]
    return Report(report, [*lines, "", f"written to {folder}: {', '.join(written)}"])


def _compile(quiet: bool) -> None:
    """Compile the demo's kernels in several processes, if none are kept."""
    announce_compilation(panel_of("accelerated"), quiet)
    if panel_of("accelerated").kernels_are_cold():
        calls = warm(min(len(DEMO), os.cpu_count() or 1), DEMO)
        for _ in tqdm(calls, "compile", len(DEMO), leave=False, disable=quiet or None, unit="call"):
            pass


# pieces ------------------------------------------------------------------------------------------------------------


def _read(command: Data, labelled: bool = True, fitting: tuple[Any, ...] = ()) -> Sequences:
    """The sequences that a command selects, at most ``--limit``. fitting: a model, its file and, where they count, its
    weights, which the data must fit.
    """
    data = jobs.load(command.data, labelled=labelled, most_bytes=command.most_bytes)
    data = _fitting(data, command.data, *fitting) if fitting else data
    return data if command.limit is None else data.take(jobs.limited(len(data.X), command.limit))


def _split(command: Split, data: Sequences) -> tuple[Sequences, Sequences | None]:
    """The training data, and the test data or None; both have labels to score."""
    _say_labels(command, data.labels)
    training, test = (data, None) if command.fold is None else data.split(command.fold, reverse=command.reverse)
    jobs.check_scorable(command.data, *(part for part in (training, test) if part is not None))
    return training, test


def _say_labels(command: Data, labels: tuple[str, ...]) -> None:
    """Print on stderr which integers are labels, unless they are 0..L-1 or --quiet is given."""
    if not command.quiet and (others := numbered(labels)):
        print(f"{command.data}: {others}", file=sys.stderr)


def _part(data: Sequences, command: Data) -> Sequences:
    return data if command.fold is None else data.split(command.fold)[1]


def _start(panel: ModuleType, command: Train, job: jobs.Job) -> tuple[Any, np.ndarray]:
    """The saved model to start from, and its weights."""
    check_start(job.optimizer, jobs.OPTIMIZERS)
    model, w, _ = load_model(str(command.start), panel, most_bytes=command.most_bytes)
    if type(model).__name__ != "SequenceModel":
        raise ValueError(f"{command.start} holds a {type(model).__name__}; expected a SequenceModel")
    if command.start_stop is False and model.start_stop:
        raise ValueError(f"--no-start-stop: {command.start} has weights for starting and ending")
    return model, w


def _check_features(data: Sequences, model: Any, name: str, path: str, w: Any = None) -> None:
    """Raise ValueError if the model at ``path`` does not label sequences, or if the data have other features.

    w: the model's weights; a model with kernels is accepted only with its weights.
    """
    if isinstance(w, KernelWeights):
        features = model.width(w)
    elif type(model).__name__ == "MulticlassModel" or hasattr(model, "start_stop"):
        features = model.n_features - getattr(model, "intercept", False)
    else:
        raise ValueError(f"{path} holds a {type(model).__name__}; expected a SequenceModel or a MulticlassModel")
    wrong = next((x.shape[1] for x in data.X if x.shape[1] != features), None)
    if wrong is not None:
        raise ValueError(f"{name} has {wrong} features, {path} was trained on {features}")


def _check_kind(path: str, model: Any, info: dict[str, Any]) -> None:
    if type(model).__name__ not in ("SequenceModel", "MulticlassModel", "KernelSequenceModel"):
        raise ValueError(f"{path}: expected a model of train, got a {type(model).__name__}")


def _fitting(data: Sequences, name: str, model: Any, path: str, w: Any = None) -> Sequences:
    """The data with labels in the model's order. ValueError if features or labels do not fit the model."""
    _check_features(data, model, name, path, w)
    return relabelled(name, data, model.labels)


def _warm_up(panel: ModuleType, job: jobs.Job, data: Sequences, quiet: bool) -> None:
    """Load or compile the job's kernels on one sequence before the clock starts, if the panel has kernels."""
    if not hasattr(panel, "kernels_are_cold"):
        return
    announce_compilation(panel, quiet)
    objective = jobs.objective_of(panel, job, data.take(np.arange(min(1, len(data.X)))))
    whole(jobs.train(panel, replace(job, epochs=1), objective))


def _histories(report: dict[str, Any]) -> dict[str, list[Row]]:
    return {name: [Row(**row) for row in report[name]["history"]] for name in ("reference", "accelerated")}


def _word(model: Any, labels: np.ndarray) -> str:
    return "".join(model.labels[i] for i in labels)


def _gap(certificate: float | str) -> str:
    return "" if isinstance(certificate, str) else f"    within {certificate:.3g} of the optimum"


def _title(job: jobs.Job) -> str:
    return f"{job.loss}, {job.optimizer}, lam = {job.lam:g}"


def _side_by_side(report: dict[str, Any]) -> list[str]:
    names = ("reference", "accelerated")
    rows: list[tuple[str, ...]] = [("", *names)]
    rows.append(("objective", *(f"{report[name]['objective']:.12g}" for name in names)))
    rows.append(("by letter, %", *(f"{100 * report[name]['accuracy']['letter']:.2f}" for name in names)))
    rows.append(("by word, %", *(f"{100 * report[name]['accuracy']['word']:.2f}" for name in names)))
    rows.append(("seconds", *(f"{report[name]['seconds']:.3f}" for name in names)))
    lines = [f"{a:14} {b:>18} {c:>18}" for a, b, c in rows]
    lines.append(f"relative difference of objectives {report['relative_objective_difference']:.1e}")
    lines.append(f"largest difference of weights     {report['largest_weight_difference']:.1e}")
    return [*lines, *(f"{name}: {line}" for name in names for line in ending(report[name]))]
