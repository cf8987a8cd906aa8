"""``train``, ``evaluate``, ``predict`` and ``show`` for sequence labellers; ``compare`` and ``demo`` run both panels
side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from tqdm import tqdm

from diptych.commands.cluster import (
    Rehearsal,
    add_cluster,
    check_over,
    for_workers,
    line_of,
    loss_over,
    moved,
    over_partitions,
    parts_a_file,
)
from diptych.commands.executors import executor_of
from diptych.commands.jobs import (
    OPTIMIZERS,
    Job,
    accuracies,
    accuracy,
    accuracy_line,
    accuracy_lines,
    add_job,
    check_scorable,
    job_of,
    labellings,
    limited,
    load,
    objective_of,
    refuse_options,
    train,
)
from diptych.commands.kernel_jobs import KERNEL_OPTIONS, add_kernels, kernel_job, train_kernels
from diptych.commands.many_files import paths_of
from diptych.commands.options import TRAINING, add_command, add_flags, count, without_panel
from diptych.commands.output import (
    Progress,
    announce_compilation,
    ending,
    finish,
    opening,
    outcome,
    print_report,
    say,
    trained,
    writable,
)
from diptych.commands.parser import Parser
from diptych.commands.scores import of_partition, shares_of
from diptych.commands.show import add_show
from diptych.commands.solvers import check_start, epochs_of, listed
from diptych.commands.sparse_jobs import SPARSE_OPTIONS, add_sparse, run_sparse, sparse_job
from diptych.distributed import Partitioned, SequenceFile, sequence_model
from diptych.distributed.loaders import parts_of
from diptych.files.models import load_model, save_model
from diptych.files.sequences import numbered, relabelled
from diptych.interrupts import finishing
from diptych.panels import PANELS, panel_of
from diptych.pictures import plots
from diptych.warm import DEMO, warm
from reference.datasets import Sequences
from reference.files import save_bytes
from reference.models.kernel_sequence import KernelWeights
from reference.training.result import Result, Row

__all__ = ["add"]

DRAWN = 24  # words of a picture


def add(commands: Any) -> None:
    """Add the commands for sequence labellers to the subparsers of the command line."""
    sub = add_command(commands, "train", _train, "train a sequence labeller and report objective, accuracy and seconds")
    _add_data(sub, "train")
    _add_job(sub)
    add_kernels(sub)
    add_sparse(sub, positions=True)
    add_flags(sub, *TRAINING, "start")
    add_cluster(sub)

    sub = add_command(commands, "evaluate", _evaluate, "accuracy of a saved model")
    sub.add_argument("model", help="a file written by train --save")
    _add_data(sub, "evaluate")
    add_flags(sub, "limit")

    sub = add_command(commands, "predict", _predict, "labels that a saved model gives, a line for each sequence")
    sub.add_argument("model", help="a file written by train --save")
    _add_data(sub, "predict")
    add_flags(sub, "limit", "out", plot="of letters: draw the first words and what is read")

    add_show(partial(add_command, commands), "train", _check_kind)

    sub = add_command(commands, "compare", _compare,
        "run one job in both panels and show them side by side",
        "Run one job in both panels from one rng and one start, side by side. The start is 1e-6 times "
        "normal draws of the rng and not zero: at w = 0 every argmax of the hinge loss is a tie, and two "
        "correct panels may part there by a whole step.")  # fmt: skip
    _add_data(sub, "train")
    _add_job(sub)
    sub.set_defaults(scale=1e-6)
    add_flags(sub, "limit", "plot")
    without_panel(sub, "compare runs both panels")

    sub = add_command(commands, "demo", _demo,
        "both panels learn to read handwritten words; pictures of what they read")  # fmt: skip
    add_flags(sub, out="a folder; default: demo", epochs="default: 3", limit="default: 2500")
    sub.set_defaults(out="demo", epochs=3, limit=2500)
    without_panel(sub, "demo runs both panels")


def _add_data(sub: Parser, action: str) -> None:
    """Add the arguments that select the sequences: the data, and a fold of them."""
    files = "a sequence file or, over partitions, '*.npz'" if action == "train" else "or a sequence file (.npz)"
    sub.add_argument("data", help=f"'letters', {files}")
    what = "train on the other folds, test on this one" if action == "train" else "only the sequences of this fold"
    sub.option("data", "--fold", type=count, metavar="N", help=what)
    if action == "train":
        sub.option("data", "--reverse", action="store_true", help="with --fold: train on this fold, test on the others")
    add_flags(sub, "most_bytes")


def _add_job(sub: Parser) -> None:
    each = listed({name: epochs_of(name) for name in OPTIMIZERS})
    default = "(default: sgd; over partitions lbfgs, or cocoa for the hinge)"
    add_job(sub, (*OPTIMIZERS, "cocoa"), default, loss="crf; of mkl: hinge", lam="default: 2/n for n sequences",
        epochs=f"default: {each}; of sparse-crf, iterations for each beta: 10000; of mkl: 20",
        tol="default of sparse-crf: 1e-6")  # fmt: skip
    sub.option("model", "--no-start-stop", dest="start_stop", action="store_const", const=False,
        help="no weights for the first and the last label", rare=True)  # fmt: skip


# training -----------------------------------------------------------------------------------------------------------


def _train(panel: ModuleType, options: argparse.Namespace) -> bool:
    if over_partitions(options):
        return _train_over_partitions(panel, options)
    if options.optimizer == "cocoa":
        raise ValueError("--optimizer cocoa trains over partitions: give --workers, --scheduler or --partitions")
    if options.learner == "mkl":
        refuse_options(options, SPARSE_OPTIONS, "sparse-crf")
        kernel_job(options)  # reports invalid options before the data are read
        return train_kernels(panel, options, *_split(options, _read(options)))
    refuse_options(options, KERNEL_OPTIONS, "mkl")
    if options.learner == "sparse-crf":
        return _train_sparse(panel, options)
    refuse_options(options, SPARSE_OPTIONS, "sparse-crf")
    job = _job(options)
    model, w0 = (None, None) if options.start is None else _start(panel, options, job)
    data = _read(options) if model is None else _read(options, fitting=(model, options.start))
    if model is not None:
        job = replace(job, start_stop=model.start_stop)
    training, test = _split(options, data)
    job = job.over(len(training.X))
    writable(options.save, options.log, options.checkpoint, options.plot)
    _warm_up(panel, job, training, options.quiet)
    started = time.perf_counter()
    objective = objective_of(panel, job, training, model)
    what = {"data": options.data, "sequences": len(training.X), "fold": options.fold, "reverse": options.reverse}
    what |= {"start": options.start, "job": job.as_dict()}
    more = {"w0": w0, "checkpoint": options.checkpoint, "resume": options.resume}
    info = {"data": options.data, "fold": options.fold, "start": options.start, **job.as_dict()}
    run = partial(train, panel, job, objective, **more)
    result, report = trained(panel, options, what, job.epochs or 0, run, objective.model, info)
    report |= {
        "iterate": result.iterate,
        "seconds": result.history[-1].seconds if result.history else 0.0,
        "seconds_in_all": time.perf_counter() - started,
        **accuracies(objective.model, result.x, training, test),
        "nonzeros": int(np.count_nonzero(result.x)),
        "weights": int(result.x.shape[0]),
    }
    epochs = result.history[-1].epoch if result.history else 0
    lines = [
        f"{job.loss} by {job.optimizer} on {options.data}: {len(training.X)} sequences, {epochs} epochs "
        f"({result.iterate} iterate)",
        f"objective {result.fun:.6f}    seconds {report['seconds']:.3f}{_gap(result.certificate)}",
        *accuracy_lines(report),
    ]
    if job.optimizer == "online-proximal":
        lines.append(f"weights {report['nonzeros']} of {report['weights']} are not 0")
    return finish(options, report, lines, {panel.__name__: result.history}, _title(job))


def _train_over_partitions(panel: ModuleType, options: argparse.Namespace) -> bool:
    job = job_of(options, (*OPTIMIZERS, "cocoa"), optimizer="cocoa" if options.loss == "hinge" else "lbfgs")
    check_over(options, job.optimizer, "limit", "fold")
    model, w0 = (None, None) if options.start is None else _start(panel, options, job)
    job = job if model is None else replace(job, start_stop=model.start_stop)
    writable(options.save, options.log, options.checkpoint, options.plot)
    files = [options.data] if options.data == "letters" else paths_of([options.data])
    places, started = for_workers(options, files, "letters"), time.perf_counter()
    sources = [SequenceFile(path, None, options.most_bytes) for path in places]
    loss, small = loss_over(panel, job), panel.SequenceModel(2, 2, start_stop=job.start_stop)
    run = partial(train, panel, replace(job, epochs=1).over(2))
    rehearsal = Rehearsal(small, loss, run, [np.eye(2), np.eye(2)], [np.arange(2), np.arange(2)])
    with executor_of(options, panel, rehearsal) as executor:
        if model is None:
            model = sequence_model(panel, sources, executor, start_stop=job.start_stop)
            _say_labels(options, model.labels)
        loaders = parts_of([replace(each, labels=model.labels) for each in sources], parts_a_file(options, len(files)))
        objective = Partitioned(loaders, model, loss, executor, memory=options.memory)
        job = job.over(objective.n)
        what = {"data": options.data, "sequences": objective.n, "start": options.start, "job": job.as_dict()}
        more = {"w0": w0, "checkpoint": options.checkpoint, "resume": options.resume}
        run = partial(train, panel, job, objective, **more)
        info = {"data": options.data, "start": options.start, "partitions": objective.partitions, **job.as_dict()}
        shown = partial(moved, objective)
        result, report = trained(panel, options, what, job.epochs or 0, run, model, info, shown)
        report |= moved(objective, len(result.history))
        counts = None if result.interrupted else objective.sum_of(of_partition, result.x)
    report["train"] = None if counts is None else shares_of(counts, "letter", "word")
    report |= {
        "files": files,
        "labels": model.labels,
        "weights": model.size,
        "seconds_in_all": time.perf_counter() - started,
    }
    lines = [
        f"{job.loss} by {job.optimizer} on {options.data}: {objective.n} sequences",
        f"objective {result.fun:.6f}    seconds {report['seconds_in_all']:.3f}{_gap(result.certificate)}",
        line_of(report),
        *([] if counts is None else [accuracy_line("train", report["train"])]),
    ]
    return finish(options, report, lines, {panel.__name__: result.history}, _title(job))


def _train_sparse(panel: ModuleType, options: argparse.Namespace) -> bool:
    job = sparse_job(options)
    training, test = _split(options, _read(options))
    n = len(training.X)
    writable(options.save, options.log, options.plot)
    started = time.perf_counter()
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

    what = {"data": options.data, "sequences": n, "fold": options.fold}
    fit = run_sparse(panel, options, job, what, objective, n)
    if options.save:
        info = {"learner": "sparse-crf", "data": options.data, "fold": options.fold, **asdict(job)}
        with finishing():
            save_model(options.save, model, fit.w, {**info, "beta": fit.report["beta"]})
    report = opening(panel, options, learner="sparse-crf", **what, reverse=options.reverse, job=asdict(job))
    report |= fit.report | accuracies(model, fit.w, training, test)
    report["seconds_in_all"] = time.perf_counter() - started
    lines = [f"sparse CRF on {options.data}: {n} sequences", *fit.lines, *accuracy_lines(report)]
    return finish(options, report, lines)


# a saved model ------------------------------------------------------------------------------------------------------


def _evaluate(panel: ModuleType, options: argparse.Namespace) -> None:
    model, w, info = load_model(options.model, panel, most_bytes=options.most_bytes)
    data = _part(_read(options, fitting=(model, options.model, w)), options)
    check_scorable(options.data, data)
    announce_compilation(panel, options.quiet)
    started = time.perf_counter()
    scores = accuracy(model, w, data)
    report = opening(panel, options, data=options.data, fold=options.fold, model=str(options.model), trained=info)
    report |= {"sequences": len(data.X), "accuracy": scores, "seconds": time.perf_counter() - started}
    print_report(options, report, [accuracy_line(f"{len(data.X)} sequences:", scores)])


def _predict(panel: ModuleType, options: argparse.Namespace) -> None:
    if options.plot and options.data != "letters":
        raise ValueError(f"--plot: the words of letters can be drawn, not {options.data}")
    writable(options.out, None, options.plot)
    model, w, _ = load_model(options.model, panel, most_bytes=options.most_bytes)
    data = _part(_read(options, labelled=False), options)
    if not data.X:
        raise ValueError(f"{options.data}: no sequences")
    _check_features(data, model, options.data, options.model, w)
    announce_compilation(panel, options.quiet)
    predicted = [[model.labels[i] for i in labels] for labels in labellings(model, w, data)]
    report = opening(panel, options, data=options.data, model=str(options.model), labels=predicted)
    if options.plot:
        shown = data.X[:DRAWN], data.Y[:DRAWN], predicted[:DRAWN]
        words = [("".join(data.labels[i] for i in y), "".join(read)) for _, y, read in zip(*shown, strict=True)]
        plots.words(options.plot, shown[0], words)
        report["plot"] = str(options.plot)
    separator = "" if all(len(name) == 1 for name in model.labels) else " "
    print_report(options, report, [separator.join(labels) for labels in predicted], options.out)


# both panels --------------------------------------------------------------------------------------------------------


def _compare(panel: ModuleType, options: argparse.Namespace) -> None:
    job, data = _job(options), _read(options)
    training, test = _split(options, data)
    writable(options.plot)
    report, _ = compare(job.over(len(training.X)), training, training if test is None else test, options.quiet)
    report["data"] = options.data
    if options.plot:
        plots.convergence(options.plot, _histories(report), _title(job))
        report["plot"] = str(options.plot)
    print_report(options, report, _side_by_side(report))


def compare(job: Job, training: Sequences, test: Sequences, quiet: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run one job in both panels from one start. Return the report, and (model, weights) of each panel by name."""
    report: dict[str, Any] = {"command": "compare", "job": job.as_dict(), "sequences": len(training.X)}
    trained = {}
    for name in PANELS:
        side = panel_of(name)
        _warm_up(side, job, training, quiet)
        objective = objective_of(side, job, training)
        with Progress(job.epochs, quiet, name) as progress:
            result = _uninterrupted(train(side, job, objective, progress))
        trained[name] = objective.model, np.asarray(result.x)
        report[name] = outcome(result) | {
            "accuracy": accuracy(objective.model, result.x, test),
            "seconds": result.history[-1].seconds if result.history else 0.0,
        }
    ours, theirs = report["accelerated"]["objective"], report["reference"]["objective"]
    report["relative_objective_difference"] = abs(ours - theirs) / max(abs(theirs), sys.float_info.min)
    report["largest_weight_difference"] = float(
        np.max(np.abs(trained["accelerated"][1] - trained["reference"][1]), initial=0.0)
    )
    return report, trained


def _demo(panel: ModuleType, options: argparse.Namespace) -> None:
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    job = Job(loss="crf", optimizer="sgd", lam=0.001, epochs=options.epochs, scale=1e-6, solver={"step_size": 0.02})
    rest, held_out = load("letters").split(0)
    training = rest.take(limited(len(rest.X), options.limit))
    if not options.json:
        say(f"A linear-chain CRF learns to read {len(training.X)} handwritten words, in both panels from one start;")
        say(f"then it reads {len(held_out.X)} words in other handwriting.\n")
    _compile(options.quiet or options.json)
    report, trained = compare(job, training, held_out, options.quiet)
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
    print_report(options, report, [*lines, "", f"written to {folder}: {', '.join(written)}"])


def _compile(quiet: bool) -> None:
    """Compile the demo's kernels in several processes, if none are kept."""
    announce_compilation(panel_of("accelerated"), quiet)
    if panel_of("accelerated").kernels_are_cold():
        calls = warm(min(len(DEMO), os.cpu_count() or 1), DEMO)
        for _ in tqdm(calls, "compile", len(DEMO), leave=False, disable=quiet or None, unit="call"):
            pass


# pieces ------------------------------------------------------------------------------------------------------------


def _job(options: argparse.Namespace) -> Job:
    _check_reverse(options)
    return job_of(options)


def _check_reverse(options: argparse.Namespace) -> None:
    if options.reverse and options.fold is None:
        raise ValueError("--reverse has no effect without --fold")


def _read(options: argparse.Namespace, labelled: bool = True, fitting: tuple[Any, ...] = ()) -> Sequences:
    """The sequences that the options select, at most ``--limit``. fitting: a model, its file and, where they count, its
    weights, which the data must fit.
    """
    data = load(options.data, labelled=labelled, most_bytes=options.most_bytes)
    data = _fitting(data, options.data, *fitting) if fitting else data
    return data if options.limit is None else data.take(limited(len(data.X), options.limit))


def _split(options: argparse.Namespace, data: Sequences) -> tuple[Sequences, Sequences | None]:
    """The training data, and the test data or None; both have labels to score."""
    _check_reverse(options)
    _say_labels(options, data.labels)
    training, test = (data, None) if options.fold is None else data.split(options.fold, reverse=options.reverse)
    check_scorable(options.data, *(part for part in (training, test) if part is not None))
    return training, test


def _say_labels(options: argparse.Namespace, labels: tuple[str, ...]) -> None:
    """Print on stderr which integers are labels, unless they are 0..L-1 or --quiet is given."""
    if not options.quiet and (others := numbered(labels)):
        print(f"{options.data}: {others}", file=sys.stderr)


def _part(data: Sequences, options: argparse.Namespace) -> Sequences:
    return data if options.fold is None else data.split(options.fold)[1]


def _start(panel: ModuleType, options: argparse.Namespace, job: Job) -> tuple[Any, np.ndarray]:
    """The saved model to start from, and its weights."""
    check_start(job.optimizer, OPTIMIZERS)
    model, w, _ = load_model(options.start, panel, most_bytes=options.most_bytes)
    if type(model).__name__ != "SequenceModel":
        raise ValueError(f"{options.start} holds a {type(model).__name__}; expected a SequenceModel")
    if options.start_stop is False and model.start_stop:
        raise ValueError(f"--no-start-stop: {options.start} has weights for starting and ending")
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


def _warm_up(panel: ModuleType, job: Job, data: Sequences, quiet: bool) -> None:
    """Load or compile the job's kernels on one sequence before the clock starts, if the panel has kernels."""
    if not hasattr(panel, "kernels_are_cold"):
        return
    announce_compilation(panel, quiet)
    objective = objective_of(panel, job, data.take(np.arange(min(1, len(data.X)))))
    _uninterrupted(train(panel, replace(job, epochs=1), objective))


def _uninterrupted(result: Result) -> Result:
    """The result. KeyboardInterrupt if Ctrl-C interrupted its run."""
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def _histories(report: dict[str, Any]) -> dict[str, list[Row]]:
    return {name: [Row(**row) for row in report[name]["history"]] for name in ("reference", "accelerated")}


def _word(model: Any, labels: np.ndarray) -> str:
    return "".join(model.labels[i] for i in labels)


def _gap(certificate: float | str) -> str:
    return "" if isinstance(certificate, str) else f"    within {certificate:.3g} of the optimum"


def _title(job: Job) -> str:
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
