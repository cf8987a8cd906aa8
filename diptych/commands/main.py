"""The command ``diptych``: ``--panel`` names the panel that computes."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from diptych.commands import align, check, curves, localize, parse, reproduce, segment, tag
from diptych.commands.jobs import (
    Job,
    accuracy,
    check_scorable,
    check_start,
    going_on,
    labellings,
    load,
    objective_of,
    train,
)
from diptych.commands.kernel_jobs import kernel_job, refuse_kernel_options, train_kernels
from diptych.commands.options import parser
from diptych.commands.output import Progress, announce_compilation, print_report, say, watched, writable
from diptych.commands.sparse_jobs import refuse_sparse_options, run_sparse, sparse_job
from diptych.files.models import load_model, save_model
from diptych.interrupts import listening
from diptych.panels import PANELS, panel_of
from diptych.pictures import plots
from reference import __version__
from reference.datasets import Sequences
from reference.files import save_bytes
from reference.models.kernel_sequence import KernelWeights
from reference.training.result import Result, Row

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status: 0, 2 for a wrong request, 130 if interrupted, 141 where nobody reads on (as in ``| head``).

    Training that is interrupted after its first epoch ends with the best weights so far: they are saved and reported, and the status is 130.
    """
    commands = {"train": _train, "evaluate": _evaluate, "predict": _predict, "compare": _compare, "demo": _demo}
    options = parser(
        commands,
        __version__,
        align.add,
        check.add,
        curves.add,
        localize.add,
        parse.add,
        reproduce.add,
        segment.add,
        tag.add,
    ).parse_args(argv)
    try:
        with listening():
            interrupted = options.command(panel_of(options.panel), options)
    except BrokenPipeError:
        _drop_output()
        return 141
    except (ValueError, OSError, ImportError) as problem:
        print(f"diptych {options.name}: {problem}", file=sys.stderr)
        _drop_output()
        return 2
    except MemoryError as problem:
        print(f"diptych {options.name}: not enough memory: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 130 if interrupted else 0


# commands ----------------------------------------------------------------------------------------------------------


def _train(panel: ModuleType, options: argparse.Namespace) -> bool:
    if options.learner == "mkl":
        refuse_sparse_options(options)
        return _train_kernels(panel, options)
    refuse_kernel_options(options)
    if options.learner == "sparse-crf":
        return _train_sparse(panel, options)
    refuse_sparse_options(options)
    job, data = _job(options), _limited(load(options.data, most_bytes=options.most_bytes), options.limit)
    going_on(job.optimizer, options.checkpoint, options.resume)
    model, w0 = (None, None) if options.start is None else _start(panel, options, job)
    if model is not None:
        data = _fitting(data, model, options.data, options.start)
        job = replace(job, start_stop=model.start_stop)
    training, test = (data, None) if options.fold is None else data.split(options.fold, reverse=options.reverse)
    check_scorable(options.data, *(part for part in (training, test) if part is not None))
    writable(options.save, options.log, options.checkpoint, options.plot)
    _warm_up(panel, job, training)
    started = time.perf_counter()
    objective = objective_of(panel, job, training, model)
    asked = {"data": options.data, "sequences": len(training.X), "fold": options.fold, "start": options.start}
    asked["job"] = job.as_dict()
    more = {"w0": w0, "checkpoint": options.checkpoint, "resume": options.resume}
    result = watched(panel, options, asked, job.epochs, lambda callback: train(panel, job, objective, callback, **more))
    if options.save:
        info = {"data": options.data, "fold": options.fold, "start": options.start, **job.as_dict()}
        save_model(options.save, objective.model, result.x, info)
    report = {
        "command": "train",
        "panel": panel.__name__,
        "version": panel.__version__,
        "data": options.data,
        "sequences": len(training.X),
        "fold": options.fold,
        "reverse": options.reverse,
        "job": job.as_dict(),
        "objective": result.fun,
        "iterate": result.iterate,
        "message": result.message,
        "success": result.success,
        "interrupted": result.interrupted,
        "certificate": result.certificate,
        "oracle_calls": result.oracle_calls,
        "seconds": result.history[-1].seconds if result.history else 0.0,
        "seconds_in_all": time.perf_counter() - started,
        "train": accuracy(objective.model, result.x, training),
        "test": None if test is None else accuracy(objective.model, result.x, test),
        "history": [row.as_dict() for row in result.history],
    }
    report["nonzeros"], report["weights"] = int(np.count_nonzero(result.x)), int(result.x.shape[0])
    if options.save:
        report["saved"] = str(options.save)
    if options.plot:
        plots.convergence(
            options.plot, {panel.__name__: result.history}, f"{job.loss}, {job.optimizer}, lam = {job.lam:g}"
        )
        report["plot"] = str(options.plot)
    epochs = result.history[-1].epoch if result.history else 0
    lines = [
        f"{job.loss} by {job.optimizer} on {options.data}: {len(training.X)} sequences, {epochs} epochs ({result.iterate} iterate)",
        f"objective {result.fun:.6f}    seconds {report['seconds']:.3f}{_gap(result.certificate)}",
        _accuracy_line("train", report["train"]),
    ]
    lines += [_accuracy_line("test", report["test"])] if test is not None else []
    if job.optimizer == "online-proximal":
        lines.append(f"weights {report['nonzeros']} of {report['weights']} are not 0")
    lines += [] if result.success else [f"not converged: {result.message}"]
    lines += [f"{what} {report[what]}" for what in ("saved", "plot") if what in report]
    print_report(options, report, lines)
    return result.interrupted


def _train_kernels(panel: ModuleType, options: argparse.Namespace) -> bool:
    kernel_job(options)  # what is wrong with it is said before the data are read
    _check_reverse(options)
    data = _limited(load(options.data, most_bytes=options.most_bytes), options.limit)
    training, test = (data, None) if options.fold is None else data.split(options.fold, reverse=options.reverse)
    check_scorable(options.data, *(part for part in (training, test) if part is not None))
    return train_kernels(panel, options, training, test)


def _train_sparse(panel: ModuleType, options: argparse.Namespace) -> bool:
    job = sparse_job(options)
    _check_reverse(options)
    data = _limited(load(options.data, most_bytes=options.most_bytes), options.limit)
    training, test = (data, None) if options.fold is None else data.split(options.fold, reverse=options.reverse)
    check_scorable(options.data, *(part for part in (training, test) if part is not None))
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

    asked = {"data": options.data, "sequences": n, "fold": options.fold}
    found = run_sparse(panel, options, job, asked, objective, n)
    report = {
        "command": "train",
        "learner": "sparse-crf",
        "panel": panel.__name__,
        "version": panel.__version__,
        **asked,
    }
    report |= {"reverse": options.reverse, "job": asdict(job), **found.report}
    report["train"] = accuracy(model, found.w, training)
    report["test"] = None if test is None else accuracy(model, found.w, test)
    report["seconds_in_all"] = time.perf_counter() - started
    if options.save:
        info = {"learner": "sparse-crf", "data": options.data, "fold": options.fold, **asdict(job)}
        save_model(options.save, model, found.w, {**info, "beta": report["beta"]})
    report |= {name: str(file) for name, file in (("saved", options.save), ("plot", options.plot)) if file}
    lines = [f"sparse CRF on {options.data}: {n} sequences", *found.lines, _accuracy_line("train", report["train"])]
    lines += [_accuracy_line("test", report["test"])] if test is not None else []
    print_report(options, report, lines + [f"{what} {report[what]}" for what in ("saved", "plot") if what in report])
    return found.interrupted


def _evaluate(panel: ModuleType, options: argparse.Namespace) -> None:
    model, w, info = load_model(options.model, panel, most_bytes=options.most_bytes)
    given = load(options.data, most_bytes=options.most_bytes)
    data = _part(_fitting(given, model, options.data, options.model, w), options)
    check_scorable(options.data, data)
    announce_compilation(panel)
    started = time.perf_counter()
    scores = accuracy(model, w, data)
    seconds = time.perf_counter() - started
    report = {
        "command": "evaluate",
        "panel": panel.__name__,
        "data": options.data,
        "fold": options.fold,
        "model": str(options.model),
    }
    report |= {"trained": info, "sequences": len(data.X), "accuracy": scores, "seconds": seconds}
    print_report(options, report, [_accuracy_line(f"{len(data.X)} sequences:", scores)])


def _predict(panel: ModuleType, options: argparse.Namespace) -> None:
    model, w, _ = load_model(options.model, panel, most_bytes=options.most_bytes)
    data = _part(load(options.data, labelled=False, most_bytes=options.most_bytes), options)
    if not data.X:
        raise ValueError(f"{options.data}: no sequences")
    _check_features(data, model, options.data, options.model, w)
    announce_compilation(panel)
    guess = [[model.labels[i] for i in labels] for labels in labellings(model, w, data)]
    report = {
        "command": "predict",
        "panel": panel.__name__,
        "data": options.data,
        "model": str(options.model),
        "labels": guess,
    }
    separator = "" if all(len(name) == 1 for name in model.labels) else " "
    print_report(options, report, [separator.join(labels) for labels in guess])


def _compare(panel: ModuleType, options: argparse.Namespace) -> None:
    job, data = _job(options), _limited(load(options.data, most_bytes=options.most_bytes), options.limit)
    training, test = (data, data) if options.fold is None else data.split(options.fold, reverse=options.reverse)
    check_scorable(options.data, training, test)
    writable(options.plot)
    report, _ = compare(job, training, test, options.quiet)
    report["data"] = options.data
    if options.plot:
        plots.convergence(options.plot, _histories(report), f"{job.loss}, {job.optimizer}, lam = {job.lam:g}")
        report["plot"] = str(options.plot)
    print_report(options, report, _side_by_side(report))


def compare(job: Job, training: Sequences, test: Sequences, quiet: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """One job in both panels from one start: the report, and (model, weights) of each panel by name."""
    report: dict[str, Any] = {"command": "compare", "job": job.as_dict(), "sequences": len(training.X)}
    trained = {}
    for name in PANELS:
        side = panel_of(name)
        _warm_up(side, job, training)
        objective = objective_of(side, job, training)
        with Progress(job.epochs, quiet, name) as progress:
            result = _whole(train(side, job, objective, progress))
        trained[name] = objective.model, np.asarray(result.x)
        report[name] = {
            "objective": result.fun,
            "accuracy": accuracy(objective.model, result.x, test),
            "seconds": result.history[-1].seconds if result.history else 0.0,
            "oracle_calls": result.oracle_calls,
            "history": [row.as_dict() for row in result.history],
        }
    ours, theirs = report["accelerated"]["objective"], report["reference"]["objective"]
    report["relative_objective_difference"] = abs(ours - theirs) / max(abs(theirs), sys.float_info.min)
    report["largest_weight_difference"] = float(
        np.max(np.abs(trained["accelerated"][1] - trained["reference"][1]), initial=0.0)
    )
    return report, trained


def _demo(panel: ModuleType, options: argparse.Namespace) -> None:
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    job = Job(loss="crf", optimizer="sgd", lam=0.001, step_size=0.02, epochs=options.epochs, rng=0, scale=1e-6)
    rest, held_out = load("letters").split(0)
    training = _limited(rest, options.limit)
    if not options.json:
        say(f"A linear-chain CRF learns to read {len(training.X)} handwritten words, in both panels from one start;")
        say(f"then it reads {len(held_out.X)} words that it has not seen.\n")
    report, trained = compare(job, training, held_out, options.quiet)
    report["command"] = "demo"
    model, w = trained["accelerated"]
    shown = held_out.take(np.argsort([-len(y) for y in held_out.Y], kind="stable")[:: max(1, len(held_out.Y) // 8)][:8])
    guess = model.predict(model.pack(shown.X), None, w)
    report["words"] = [
        {"true": _word(model, y), "predicted": _word(model, z)} for y, z in zip(shown.Y, guess, strict=True)
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


# pieces ------------------------------------------------------------------------------------------------------------


def _drop_output() -> None:
    """Nothing is left to flush at the exit, where a reader has gone or a disk is full."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _job(options: argparse.Namespace) -> Job:
    _check_reverse(options)
    fields = {field: getattr(options, field) for field in Job.__dataclass_fields__ if hasattr(options, field)}
    return Job(**fields)


def _check_reverse(options: argparse.Namespace) -> None:
    if options.reverse and options.fold is None:
        raise ValueError("--reverse has no effect without --fold")


def _limited(data: Sequences, limit: int | None) -> Sequences:
    """``limit`` sequences spread evenly over the data (files are often sorted), or all."""
    if limit is None or limit >= len(data.X):
        return data
    return data.take(np.arange(limit) * len(data.X) // max(limit, 1))


def _part(data: Sequences, options: argparse.Namespace) -> Sequences:
    return data if options.fold is None else data.split(options.fold)[1]


def _start(panel: ModuleType, options: argparse.Namespace, job: Job) -> tuple[Any, np.ndarray]:
    """The saved model to start from, and its weights."""
    check_start(job.optimizer)
    model, w, _ = load_model(options.start, panel, most_bytes=options.most_bytes)
    if type(model).__name__ != "SequenceModel":
        raise ValueError(f"{options.start} holds a {type(model).__name__}; expected a SequenceModel")
    if not getattr(options, "start_stop", True) and model.start_stop:
        raise ValueError(f"--no-start-stop: {options.start} has weights for starting and ending")
    return model, w


def _check_features(data: Sequences, model: Any, name: str, path: str, w: Any = None) -> None:
    """An error where the model at ``path`` is none of sequences, or the data has other features than it; w: its weights, where kernels will do."""
    if isinstance(w, KernelWeights):
        features = model.width(w)
    elif type(model).__name__ == "MulticlassModel" or hasattr(model, "start_stop"):
        features = model.n_features
    else:
        raise ValueError(f"{path} holds a {type(model).__name__}; expected a SequenceModel or a MulticlassModel")
    wrong = next((x.shape[1] for x in data.X if x.shape[1] != features), None)
    if wrong is not None:
        raise ValueError(f"{name} has {wrong} features, {path} was trained on {features}")


def _fitting(data: Sequences, model: Any, name: str, path: str, w: Any = None) -> Sequences:
    """The data, with labels in the model's order; an error where features or labels do not fit."""
    _check_features(data, model, name, path, w)
    if data.labels == model.labels:
        return data
    unknown = sorted(set(data.labels) - set(model.labels))
    if unknown:
        raise ValueError(f"{name} has labels that {path} does not know: {', '.join(unknown)}")
    renumber = np.array([model.labels.index(name) for name in data.labels])
    return Sequences(data.name, data.X, [renumber[y] for y in data.Y], model.labels, data.fold)


def _warm_up(panel: ModuleType, job: Job, data: Sequences) -> None:
    """Load or compile the job's kernels on one sequence before the clock starts; nothing where a panel has none."""
    if not hasattr(panel, "kernels_are_cold"):
        return
    announce_compilation(panel)
    objective = objective_of(panel, job, data.take(np.arange(min(1, len(data.X)))))
    _whole(train(panel, replace(job, epochs=1), objective))


def _whole(result: Result) -> Result:
    """A result that no Ctrl-C cut short: else the command ends."""
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def _histories(report: dict[str, Any]) -> dict[str, list[Row]]:
    return {name: [Row(**row) for row in report[name]["history"]] for name in ("reference", "accelerated")}


def _word(model: Any, labels: np.ndarray) -> str:
    return "".join(model.labels[i] for i in labels)


def _gap(certificate: float | str) -> str:
    return "" if isinstance(certificate, str) else f"    within {certificate:.3g} of the optimum"


def _accuracy_line(name: str, scores: dict[str, float]) -> str:
    return f"{name:5} accuracy by letter {100 * scores['letter']:.2f} %, by word {100 * scores['word']:.2f} %"


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
    return lines
