"""``tag``: train a tagger on a column file, score it, tag sentences, and look at what it has learned."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from diptych.chunks import ChunkScores, chunk_scores, is_chunk_label
from diptych.commands.jobs import LOSSES, OPTIMIZERS, SMOOTHINGS, Job, check_start, going_on, loss_of, train
from diptych.commands.options import add_casimir, add_most_bytes, add_run, count, large, number
from diptych.commands.output import announce_compilation, print_report, watched, writable
from diptych.commands.sparse_jobs import add_sparse, refuse_sparse_options, run_sparse, sparse_job
from diptych.files.columns import Columns, load_columns
from diptych.files.models import load_model, save_model
from diptych.metrics import position_accuracy, sequence_accuracy
from diptych.pictures import plots
from reference.arrays import host
from reference.models.tagging import SCHEMES
from reference.models.token_templates import TOKEN_TEMPLATES, columns_of, load_templates

__all__ = ["add"]


TOL = 1e-4


def add(commands: Any) -> None:
    """Add the command ``tag`` to the subparsers of the command line."""
    whole = commands.add_parser(
        "tag",
        help="learn to tag tokens (chunks, named entities) from a column file, and tag them",
        description="Learn the labels of tokens from a file of columns such as word, tag, label (train), score a tagger on another (evaluate), tag (predict), and "
        "look at its weights (show). Files: CoNLL column files, empty lines between sentences; name.zip:train.txt is a file in a zip.",
        allow_abbrev=False,
    )
    actions = whole.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, run: Any, summary: str) -> argparse.ArgumentParser:
        sub: argparse.ArgumentParser = actions.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        sub.set_defaults(command=run, name=f"tag {name}")
        sub.add_argument("--json", action="store_true", help="print everything as one JSON object")
        add_most_bytes(sub)
        return sub

    sub = action("train", _train, "train on a column file, and test on another")
    _add_file(sub)
    sub.add_argument("--columns", type=_names, metavar="A,B,...", help="names of the columns, the last of them label (default: word,tag,label)")  # fmt: skip
    sub.add_argument("--test", metavar="FILE", help="report accuracy and chunks on this file too")
    sub.add_argument("--save", metavar="FILE", help="write the model (.npz, loads in either panel)")
    add_run(sub, start=True)
    sub.add_argument(
        "--templates",
        metavar="T",
        help=f"{', '.join(TOKEN_TEMPLATES)}, or a TOML file with templates = [...] (default: chunks)",
    )
    sub.add_argument("--bits", type=count, help="hash attributes to 2^bits weights (default: a vocabulary)")
    sub.add_argument("--pairs", choices=("observed", "all"), help="attribute-label pairs with a weight (default: observed)")  # fmt: skip
    sub.add_argument("--least", type=count, metavar="N", help="of attributes that occur N times or more (default: 1)")  # fmt: skip
    sub.add_argument("--transitions", choices=SCHEMES, help="forbid label sequences that the scheme does not have")
    sub.add_argument("--loss", choices=LOSSES, default="crf", help="crf: log loss (default); hinge: structural SVM")
    sub.add_argument(
        "--optimizer",
        choices=sorted(set(OPTIMIZERS) - {"online-proximal"}),
        help="default: exponentiated-gradient for crf, sgd for the hinge",
    )
    sub.add_argument("--lam", type=number, help="weight of lam/2 ||w||^2 (default: 2/n, which is crfsuite's c2 = 1)")
    sub.add_argument(
        "--epochs", type=count, help="at most so many passes, or iterations of L-BFGS, or of sparse-crf for each beta"
    )
    sub.add_argument(
        "--tol",
        type=number,
        help=f"stop at this gap, relative to the objective (default of exponentiated-gradient: {TOL}, of sparse-crf: 1e-6)",
    )
    sub.add_argument("--step-size", type=number, help="a constant step (default: of sgd, 1/(lam (t + max(n, 1/lam))))")
    sub.add_argument("--smoothing", choices=SMOOTHINGS, help="of the hinge")
    sub.add_argument("--mu", type=number, help="strength of the smoothing")
    sub.add_argument("--k", type=count, help="with --smoothing top-k: number of outputs (default: 5)")
    add_casimir(sub)
    sub.add_argument("--learner", choices=("linear", "sparse-crf"), default="linear", help="sparse-crf: few weights, by the elastic net (default: linear)")  # fmt: skip
    add_sparse(sub, number, count)
    sub.add_argument(
        "--plot", metavar="FILE", help="write the convergence curve, or the path of sparse-crf (.png, .pdf or .svg)"
    )
    sub.add_argument("--rng", type=large, default=0, help="seed of the orders (default: 0)")
    sub.add_argument("--quiet", action="store_true", help="no progress bar")

    sub = action("evaluate", _evaluate, "accuracy and chunks of a saved tagger on a column file")
    sub.add_argument("model", help="a file written by tag train --save")
    _add_file(sub)

    sub = action(
        "predict",
        _predict,
        "tag sentences by a saved tagger: their columns, and the label found, a line for each token",
    )
    sub.add_argument("model", help="a file written by tag train --save")
    _add_file(sub, "its labels, if any, are not looked at")
    sub.add_argument("--top", type=count, metavar="K", help="the K best label sequences, with scores, above each sentence")  # fmt: skip
    sub.add_argument("--probabilities", action="store_true", help="of each label found, under exp(score), as a last column")  # fmt: skip

    sub = action("show", _show, "the largest weights of each label, and the transitions")
    sub.add_argument("model", help="a file written by tag train --save")
    sub.add_argument("--top", type=count, default=10, metavar="K", help="so many attributes a label (default: 10)")


def _add_file(sub: argparse.ArgumentParser, what: str | None = None) -> None:
    sub.add_argument("file", help=what)
    sub.add_argument("--comment", metavar="PREFIX", help="leave out lines that start so")


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _train(panel: ModuleType, options: argparse.Namespace) -> bool:
    if options.learner == "sparse-crf":
        return _train_sparse(panel, options)
    refuse_sparse_options(options)
    model, w0, columns = _start(panel, options)
    training = _labelled(options, options.file, columns)
    columns = tuple(training[0])
    test = _labelled(options, options.test, columns) if options.test else None
    job = _job(options, len(training))
    going_on(job.optimizer, options.checkpoint, options.resume)
    if options.start:
        check_start(job.optimizer)
    writable(options.save, options.log, options.checkpoint, options.plot)
    announce_compilation(panel)
    started = time.perf_counter()
    Y = [sentence["label"] for sentence in training]
    if model is None:
        model = _new_model(panel, options, training, Y)
    if job.optimizer == "bcfw" and model.restricted:
        raise ValueError("--optimizer bcfw needs --pairs all, and no --transitions")
    objective = loss_of(panel, job, model, model.pack(training, Y))
    packed = time.perf_counter() - started
    asked = {"file": options.file, "sentences": len(training), "start": options.start, "job": job.as_dict()}
    more = {"w0": w0, "checkpoint": options.checkpoint, "resume": options.resume}
    result = watched(panel, options, asked, job.epochs, lambda callback: train(panel, job, objective, callback, **more))
    if options.save:
        info = {"file": options.file, "start": options.start, "columns": list(columns), **job.as_dict()}
        save_model(options.save, model, result.x, info)
    report = {
        "command": "tag train",
        "panel": panel.__name__,
        "version": panel.__version__,
        "file": options.file,
        "sentences": len(training),
        "columns": columns,
        "labels": model.labels,
        "weights": model.size,
        "job": job.as_dict(),
        "objective": result.fun,
        "certificate": result.certificate,
        "success": result.success,
        "interrupted": result.interrupted,
        "message": result.message,
        "seconds_packing": packed,
        "seconds": time.perf_counter() - started,
        "train": _scores(model, result.x, training),
        "test": None if test is None else _scores(model, result.x, test),
        "history": [row.as_dict() for row in result.history],
    }
    if options.save:
        report["saved"] = str(options.save)
    if options.plot:
        plots.convergence(
            options.plot, {panel.__name__: result.history}, f"{job.loss}, {job.optimizer}, lam = {job.lam:g}"
        )
        report["plot"] = str(options.plot)
    lines = [
        f"{len(training)} sentences of {options.file}: {model.size} weights, objective {result.fun:.6f}, {report['seconds']:.2f} seconds",
        *_lines("train", report["train"], types=False),
        *([] if test is None else _lines("test", report["test"])),
        *([] if result.success else [f"not converged: {result.message}"]),
        *(f"{what} {report[what]}" for what in ("saved", "plot") if what in report),
    ]
    print_report(options, report, lines)
    return result.interrupted


def _train_sparse(panel: ModuleType, options: argparse.Namespace) -> bool:
    job = sparse_job(options)
    _, _, columns = _start(panel, options)
    training = _labelled(options, options.file, columns)
    columns = tuple(training[0])
    test = _labelled(options, options.test, columns) if options.test else None
    writable(options.save, options.log, options.plot)
    started = time.perf_counter()
    Y = [sentence["label"] for sentence in training]
    model = _new_model(panel, options, training, Y)

    def objective(examples: np.ndarray) -> Any:
        return panel.LogLoss(model, model.pack([training[i] for i in examples], [Y[i] for i in examples]))

    asked = {"file": options.file, "sentences": len(training)}
    found = run_sparse(panel, options, job, asked, objective, len(training))
    report = {
        "command": "tag train",
        "learner": "sparse-crf",
        "panel": panel.__name__,
        "version": panel.__version__,
        **asked,
    }
    report |= {"columns": columns, "labels": model.labels, "job": asdict(job), **found.report}
    report["train"] = _scores(model, found.w, training)
    report["test"] = None if test is None else _scores(model, found.w, test)
    report["seconds"] = time.perf_counter() - started
    if options.save:
        info = {"learner": "sparse-crf", "file": options.file, "columns": list(columns), **asdict(job)}
        save_model(options.save, *_without_zeros(panel, model, found.w), {**info, "beta": report["beta"]})
    report |= {name: str(file) for name, file in (("saved", options.save), ("plot", options.plot)) if file}
    lines = [
        f"sparse CRF on {len(training)} sentences of {options.file}",
        *found.lines,
        *_lines("train", report["train"], types=False),
        *([] if test is None else _lines("test", report["test"])),
        *(f"{what} {report[what]}" for what in ("saved", "plot") if what in report),
    ]
    print_report(options, report, lines)
    return found.interrupted


def _without_zeros(panel: ModuleType, model: Any, w: np.ndarray) -> tuple[Any, np.ndarray]:
    """A tagger with the same scores, and weights for nothing but what has some now."""
    kept, whole = np.flatnonzero(w), model.width * model.n_labels
    pairs, label_pairs = np.split(model.cells[kept], [np.count_nonzero(model.cells[kept] < whole)])
    settings = model.settings()
    if model.vocabulary is not None:
        rows, number = np.unique(pairs // model.n_labels, return_inverse=True)
        settings["vocabulary"] = [model.vocabulary[i] for i in rows.tolist()]
        pairs = number * model.n_labels + pairs % model.n_labels
    settings |= {"pairs": pairs, "label_pairs": label_pairs - whole}
    return panel.TaggingModel(**settings), w[kept]


def _start(panel: ModuleType, options: argparse.Namespace) -> tuple[Any, np.ndarray | None, tuple[str, ...] | None]:
    """The saved model to start from, its weights and the names of its columns, or what stands for none."""
    if options.start is None:
        names = options.columns
        if names is not None and (names[-1] != "label" or len(set(names)) < len(names) or not all(names)):
            expected = "different names, the last of them label, such as word,tag,label"
            raise ValueError(f"--columns: expected {expected}, got {','.join(names)}")
        return None, None, names
    for name in ("columns", "templates", "bits", "pairs", "least", "transitions"):
        if getattr(options, name) is not None:
            raise ValueError(f"--{name} has no effect with --start: the saved model has its own")
    return _tagger(panel, options.start, options.most_bytes)


def _new_model(panel: ModuleType, options: argparse.Namespace, training: list[Columns], Y: list[Any]) -> Any:
    name = options.templates or "chunks"
    templates = TOKEN_TEMPLATES[name] if name in TOKEN_TEMPLATES else load_templates(name)
    for column in columns_of(templates):
        if column not in training[0]:
            found = f"{options.file} has {', '.join(training[0])} (--columns names them)"
            raise ValueError(f"--templates {name}: expected a column {column}, {found}")
    settings = {"bits": options.bits, "pairs": options.pairs or "observed", "least": max(options.least or 1, 1)}
    return panel.TaggingModel.of(training, Y, templates, transitions=options.transitions, **settings)


def _job(options: argparse.Namespace, n: int) -> Job:
    """The options as a job, with this command's defaults."""
    optimizer = options.optimizer or ("exponentiated-gradient" if options.loss == "crf" else "sgd")
    lam = 2 / n if options.lam is None else options.lam
    names = (
        "loss",
        "epochs",
        "tol",
        "step_size",
        "smoothing",
        "mu",
        "k",
        "kappa",
        "inner",
        "stop",
        "warm_start",
        "rng",
    )
    given = {name: getattr(options, name) for name in names}
    if optimizer == "exponentiated-gradient" and options.tol is None:
        given["tol"] = TOL
    return Job(optimizer=optimizer, lam=lam, start_stop=False, **given)


def _evaluate(panel: ModuleType, options: argparse.Namespace) -> None:
    model, w, columns = _tagger(panel, options.model, options.most_bytes)
    sentences = _labelled(options, options.file, columns)
    announce_compilation(panel)
    scores = _scores(model, w, sentences)
    report: dict[str, Any] = {"command": "tag evaluate", "panel": panel.__name__, "model": str(options.model)}
    report |= {"file": options.file, "sentences": len(sentences), **scores}
    print_report(options, report, _lines(f"{len(sentences)} sentences:", scores))


def _predict(panel: ModuleType, options: argparse.Namespace) -> None:
    model, w, columns = _tagger(panel, options.model, options.most_bytes)
    sentences = load_columns(options.file, columns, comment=options.comment, most_bytes=options.most_bytes)
    if not sentences:
        raise ValueError(f"{options.file}: no sentences")
    announce_compilation(panel)
    data = model.pack(sentences)
    found: list[dict[str, Any]] = [
        {"columns": sentence, "labels": [model.labels[i] for i in labels]}
        for sentence, labels in zip(sentences, model.predict(data, None, w), strict=True)
    ]
    for piece in model.chunks(data, np.arange(data.n)) if options.top or options.probabilities else ():
        structure = model.structure_type.unchecked(model.scores(data, piece, w))
        if options.top:
            _add_best(model, structure.topk(options.top), [found[i] for i in piece])
        if options.probabilities:
            marginals = host(structure.expectation()[1].unary)
            for each, p in zip((found[i] for i in piece), marginals, strict=True):
                each["probabilities"] = [float(p[t, model.labels.index(y)]) for t, y in enumerate(each["labels"])]
    report = {"command": "tag predict", "panel": panel.__name__, "model": str(options.model), "sentences": found}
    print_report(options, report, [line for each in found for line in _tagged_lines(each)])


def _add_best(model: Any, best: Any, found: list[dict[str, Any]]) -> None:
    """Give each sentence of a piece its best label sequences, from the best on."""
    scores, labels, counts = host(best.scores), host(best.labels), host(best.count)
    for b, each in enumerate(found):
        n = len(each["labels"])
        each["best"] = [
            {"score": float(scores[b, j]), "labels": [model.labels[i] for i in labels[b, j, :n]]}
            for j in range(int(counts[b]))
        ]


def _tagged_lines(each: dict[str, Any]) -> list[str]:
    """A sentence as a block of lines, as the shared tasks' scorer reads them where there is a column label."""
    columns = [*each["columns"].values(), each["labels"]]
    if "probabilities" in each:
        columns.append([f"{p:.4f}" for p in each["probabilities"]])
    best = [f"# {one['score']:.6g}: {' '.join(one['labels'])}" for one in each.get("best", ())]
    return [*best, *(" ".join(token) for token in zip(*columns, strict=True)), ""]


def _show(panel: ModuleType, options: argparse.Namespace) -> None:
    model, w, _ = _tagger(panel, options.model, options.most_bytes)
    weights, transitions = (host(x) for x in model.split(w))
    names = model.vocabulary or [f"row {i}" for i in range(model.width)]
    top = {}
    for k, label in enumerate(model.labels):
        order = np.argsort(-np.abs(weights[:, k]), kind="stable")[: options.top]
        top[label] = [(names[i], float(weights[i, k])) for i in order.tolist() if weights[i, k] != 0]
    cells = sorted(model.label_pairs.tolist(), key=lambda cell: -transitions.reshape(-1)[cell])
    moves = [
        (model.labels[a], model.labels[b], float(transitions[a, b]))
        for a, b in (divmod(cell, model.n_labels) for cell in cells)
    ]
    report = {"command": "tag show", "panel": panel.__name__, "model": str(options.model), "weights": model.size}
    report |= {"labels": top, "transitions": moves}
    lines = []
    for label, each in top.items():
        lines += [label, *(f"  {weight:9.4f}  {name}" for name, weight in each)]
    lines += ["transitions", *(f"  {weight:9.4f}  {a} -> {b}" for a, b, weight in moves if weight != 0)]
    print_report(options, report, lines)


# pieces ------------------------------------------------------------------------------------------------------------------


def _labelled(options: argparse.Namespace, path: str, columns: tuple[str, ...] | None) -> list[Columns]:
    """The sentences of a file with a column of labels, at least one."""
    sentences = load_columns(path, columns, comment=options.comment, most_bytes=options.most_bytes)
    if not sentences:
        raise ValueError(f"{path}: no sentences")
    if "label" not in sentences[0]:
        raise ValueError(f"{path}: no column label; got {', '.join(sentences[0])}")
    return sentences


def _tagger(panel: ModuleType, path: str, most_bytes: int) -> tuple[Any, np.ndarray, tuple[str, ...]]:
    """Model, weights and the names of the columns it was trained on."""
    model, w, info = load_model(path, panel, most_bytes=most_bytes)
    if type(model).__name__ != "TaggingModel" or "columns" not in info:
        raise ValueError(f"{Path(path)}: expected a model of tag train, got a {type(model).__name__}")
    columns = info["columns"]
    if not isinstance(columns, list) or not columns or not all(isinstance(name, str) for name in columns):
        raise ValueError(f"{Path(path)}: info: columns: expected names of columns, got {columns!r:.80}")
    return model, w, tuple(columns)


def _scores(model: Any, w: np.ndarray, sentences: list[Columns]) -> dict[str, Any]:
    """Shares of tokens and of sentences with right labels, and of chunks, where labels are chunk labels (else None)."""
    truth = [sentence["label"] for sentence in sentences]
    guess = [[model.labels[i] for i in y] for y in model.predict(model.pack(sentences), None, w)]
    arrays = [[np.array(y, dtype=object) for y in labels] for labels in (truth, guess)]
    every = {label for y in (*truth, *guess) for label in y}
    found = chunk_scores(truth, guess) if all(is_chunk_label(label) for label in every) else None
    shares = {"token": position_accuracy(*arrays), "sentence": sequence_accuracy(*arrays)}
    return {"accuracy": shares, "chunks": None if found is None else _as_dict(found)}


def _as_dict(scores: ChunkScores) -> dict[str, Any]:
    return {**scores._asdict(), "types": {kind: _as_dict(each) for kind, each in scores.types.items()}}


def _lines(name: str, scores: dict[str, Any], types: bool = True) -> list[str]:
    shares, found = scores["accuracy"], scores["chunks"]
    line = f"{name:5} tokens {100 * shares['token']:.2f} %, sentences {100 * shares['sentence']:.2f} %"
    if found is None:
        return [line]
    rows = [(kind, each) for kind, each in found["types"].items()] if types else []
    return [f"{line}, chunks {_chunk_line(found)}", *(f"  {kind:12} {_chunk_line(each)}" for kind, each in rows)]


def _chunk_line(scores: dict[str, Any]) -> str:
    precision, recall, f1 = (100 * scores[name] for name in ("precision", "recall", "f1"))
    return f"precision {precision:.2f}, recall {recall:.2f}, F1 {f1:.2f} ({scores['found']} found, {scores['expected']} true)"
