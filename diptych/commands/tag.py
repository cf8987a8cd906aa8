"""``tag``: train a tagger on a column file, score it, tag sentences and show its weights."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

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
from diptych.commands.jobs import OPTIMIZERS as SOLVERS
from diptych.commands.jobs import Job, add_job, job_of, limited, loss_of, refuse_options, train
from diptych.commands.many_files import are_many, paths_of, write_each
from diptych.commands.options import TRAINING, add_flags, add_task, count
from diptych.commands.output import announce_compilation, finish, opening, print_report, say, trained, writable
from diptych.commands.parser import Parser
from diptych.commands.scores import counted, of_partition, tagging_lines, tagging_scores
from diptych.commands.show import add_show
from diptych.commands.solvers import check_start
from diptych.commands.sparse_jobs import SPARSE_OPTIONS, add_sparse, run_sparse, sparse_job
from diptych.commands.tag_files import (
    info_of,
    labelled,
    layout_of,
    say_read,
    templates_of,
    told_layout,
    untagged,
)
from diptych.distributed import Partitioned, column_parts, tagging_model
from diptych.distributed.vocabulary import check_scheme
from diptych.files.columns import SEPARATORS, Columns, Layout
from diptych.files.models import load_model, save_model
from diptych.files.sources import named
from diptych.files.tagged import tagged_text
from diptych.interrupts import finishing
from diptych.sparse_fits import sequences_of
from reference.arrays import host
from reference.files import save_bytes
from reference.models.schemes import SAME, SCHEMES
from reference.models.token_templates import TOKEN_TEMPLATES, attributes_of, check_templates

__all__ = ["add"]


TOL = 1e-4
FEW = 3  # sentences of a rehearsal
OPTIMIZERS = (*(name for name in SOLVERS if name != "online-proximal"), "cocoa")


def add(commands: Any) -> None:
    """Add the command ``tag`` to the subparsers of the command line."""
    action = add_task(commands, "tag",
        "learn to tag tokens (chunks, named entities) from a column file, and tag them",
        "Learn the labels of tokens from a file of columns such as word, tag, label (train), score a "
        "tagger on another (evaluate), tag (predict), and look at its weights (show). Files: CoNLL column "
        "files, empty lines between sentences; name.zip:train.txt is a file in a zip.")  # fmt: skip
    sub = action("train", _train, "train on column files, and test on another")
    _add_file(sub, "several, a pattern 'train/*.txt', or - (standard input)", many=True)
    sub.option(
        "data",
        "--columns",
        type=_names,
        metavar="A,B,...",
        help="names of the columns, one of them label (default: by their number; of CoNLL-U, UPOS is the label)",
    )
    add_flags(sub, *TRAINING, "test", "start")
    sub.option(
        "model",
        "--templates",
        metavar="T",
        help=f"{', '.join(TOKEN_TEMPLATES)}, or a TOML file with templates = [...] (default: chunks, or words "
        f"without a column tag)",
    )
    sub.option("model", "--bits", type=count,
        help="hash attributes, to 2^bits weights if all pairs have one (default: a vocabulary)",
        rare=True)  # fmt: skip
    sub.option("model", "--pairs", choices=("observed", "all"),
        help="attribute-label pairs with a weight (default: observed)", rare=True)  # fmt: skip
    sub.option("model", "--least", type=count, metavar="N",
        help="only attributes that occur at least N times (default: 1)", rare=True)  # fmt: skip
    sub.option("model", "--transitions", choices=SCHEMES, type=_scheme,
        help=f"{', '.join(SCHEMES)}: forbid others")  # fmt: skip
    _add_scheme(sub)
    sub.option("model", "--learner", choices=("linear", "sparse-crf"), default="linear",
        help="linear, or sparse-crf: few weights (default: linear)")  # fmt: skip
    add_job(sub, OPTIMIZERS, "(default: lbfgs for crf, sgd for hinge; of hinge over partitions "
        "cutting-planes or, with --pairs all, cocoa)",
        lam="default: 2/n, which is crfsuite's c2 = 1", epochs="of sparse-crf, for each beta",
        tol=f"default of exponentiated-gradient: {TOL}, of sparse-crf: 1e-6")  # fmt: skip
    add_sparse(sub)
    add_cluster(sub)

    sub = action("evaluate", _evaluate, "accuracy and chunks of a saved tagger on a column file")
    sub.add_argument("model", help="a file written by tag train --save")
    _add_file(sub)
    _add_scheme(sub)
    add_flags(sub, "limit")

    sub = action("predict", _predict,
        "tag sentences by a saved tagger: their columns, and the label found, a line for each token; CoNLL-U stays as "
        "it is but for the column of labels")  # fmt: skip
    sub.add_argument("model", help="a file written by tag train --save")
    _add_file(sub, "- is standard input; labels are not looked at; of several files or a pattern 'new/*.txt', each is "
        "tagged into the folder --out, but for those that are there", many=True)  # fmt: skip
    sub.option("data", "--tokens", action="store_true",
        help="the file has one tokenised sentence per line, for a model that uses words alone")  # fmt: skip
    add_flags(sub, "limit", "out", top="label sequences, with scores, above each sentence")
    sub.option("output", "--probabilities", action="store_true",
        help="probability of each predicted label under exp(score), as a last column; "
        "in CoNLL-U as a comment")  # fmt: skip

    add_show(action, "tag train", _columns_of)


def _add_file(sub: Parser, what: str = "- is standard input", many: bool = False) -> None:
    sub.add_argument("file", help=what, nargs="+" if many else None)
    sub.option("data", "--comment", metavar="PREFIX", help="leave out lines that start with PREFIX", rare=True)
    sub.option("data", "--separator", choices=SEPARATORS, rare=True,
        help="what is between columns (default: as the file looks, later as the model has it)")  # fmt: skip
    add_flags(sub, "encoding", "most_bytes")


def _add_scheme(sub: Parser) -> None:
    sub.option("data", "--scheme", choices=SCHEMES, type=_scheme,
        help=f"{', '.join(SCHEMES)}: read chunks in this scheme alone (default: in any)", rare=True)  # fmt: skip


def _scheme(name: str) -> str:
    return SAME.get(name.lower(), name.lower())


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _train(panel: ModuleType, options: argparse.Namespace) -> bool:
    options.files = paths_of(options.file)
    options.file = ", ".join(options.file)
    if options.bits is not None and options.least is not None:
        raise ValueError("--least has no effect with --bits: hashed attributes have no vocabulary")
    if over_partitions(options):
        return _train_over_partitions(panel, options)
    if options.optimizer == "cocoa":
        raise ValueError("--optimizer cocoa trains over partitions: give --workers, --scheduler or --partitions")
    if options.learner == "sparse-crf":
        return _train_sparse(panel, options)
    refuse_options(options, SPARSE_OPTIONS, "sparse-crf")
    model, w0, layout = _start(panel, options)
    layout, training, test = _labelled(options, layout)
    job = _job(options, len(training))
    if options.start:
        check_start(job.optimizer, OPTIMIZERS)
    writable(options.save, options.log, options.checkpoint, options.plot)
    announce_compilation(panel, options.quiet)
    started = time.perf_counter()
    Y = [sentence["label"] for sentence in training]
    model, attributes = _new_model(panel, options, layout, training, Y) if model is None else (model, training)
    with named(training):
        objective = loss_of(panel, job, model, model.pack(attributes, Y))
    packed = time.perf_counter() - started
    what = {"file": options.file, "sentences": len(training), "start": options.start, "job": job.as_dict()}
    more = {"w0": w0, "checkpoint": options.checkpoint, "resume": options.resume}
    info = {"file": options.file, "start": options.start, **info_of(layout), **job.as_dict()}
    run = partial(train, panel, job, objective, **more)
    result, report = trained(panel, options, what, job.epochs or 0, run, model, info)
    report |= {
        "columns": layout.columns,
        "labels": model.labels,
        "weights": model.size,
        "seconds_packing": packed,
        "seconds": time.perf_counter() - started,
        "train": _scores(options, model, result.x, training, objective.data),
        "test": None if test is None else _scores(options, model, result.x, test),
    }
    lines = [
        f"{len(training)} sentences of {options.file}: {model.size} weights, objective {result.fun:.6f}, "
        f"{report['seconds']:.2f} seconds",
        *tagging_lines("train", report["train"], types=False),
        *([] if test is None else tagging_lines("test", report["test"])),
    ]
    title = f"{job.loss}, {job.optimizer}, lam = {job.lam:g}"
    return finish(options, report, lines, {panel.__name__: result.history}, title)


def _train_over_partitions(panel: ModuleType, options: argparse.Namespace) -> bool:
    all_pairs = options.pairs == "all" and options.transitions is None and options.start is None
    usual = "lbfgs", "cocoa" if all_pairs else "cutting-planes"
    job, parts = _job(options, 1, usual), parts_a_file(options, len(options.files))
    check_over(options, job.optimizer, "limit")
    refuse_options(options, SPARSE_OPTIONS, "sparse-crf")
    model, w0, layout = _start(panel, options)
    if options.start:
        check_start(job.optimizer, OPTIMIZERS)
    writable(options.save, options.log, options.checkpoint, options.plot)
    files = for_workers(options, options.files)
    layout, sample, _ = labelled(files[0], layout, options.most_bytes, parts[0])
    known = _labels(sample)
    test = labelled(options.test, layout, options.most_bytes, known=known).sentences if options.test else None
    loaders = [
        loader
        for path, many in zip(files, parts, strict=True)
        for loader in column_parts([path], many, layout, most_bytes=options.most_bytes)
    ]
    few, templates = sample[:FEW], None
    small, Y = model, [sentence["label"] for sentence in few]
    settings: dict[str, Any] = {"bits": options.bits, "pairs": options.pairs or "observed"}
    settings["transitions"] = options.transitions
    if model is None:
        name, templates = templates_of(options.templates, options.file, layout.columns or ())
        say_read(options, layout, None, name)
        with named(few):
            small = panel.TaggingModel.of(few, Y, templates, **settings)
    loss, started = loss_over(panel, job), time.perf_counter()
    rehearsal = Rehearsal(small, loss, partial(train, panel, replace(job, epochs=1)), few, Y)
    with executor_of(options, panel, rehearsal) as executor:
        if model is None:
            least = max(options.least or 1, 1)
            model = tagging_model(panel, loaders, templates, executor, least=least, **settings)
        objective = Partitioned(loaders, model, loss, executor, memory=options.memory)
        job = _job(options, objective.n, usual)
        what = {"file": options.file, "sentences": objective.n, "start": options.start, "job": job.as_dict()}
        more = {"w0": w0, "checkpoint": options.checkpoint, "resume": options.resume}
        info = {"file": options.file, "start": options.start, **info_of(layout), **job.as_dict()}
        info["partitions"] = objective.partitions
        run = partial(train, panel, job, objective, **more)
        shown = partial(moved, objective)
        result, report = trained(panel, options, what, job.epochs or 0, run, model, info, shown)
        report |= moved(objective, len(result.history))
        scored = partial(of_partition, scheme=options.scheme)
        report["train"] = None if result.interrupted else tagging_scores(objective.sum_of(scored, result.x))
    report |= {
        "files": options.files,
        "columns": layout.columns,
        "labels": model.labels,
        "weights": model.size,
        "seconds": time.perf_counter() - started,
        "test": None if test is None else _scores(options, model, result.x, test),
    }
    lines = [
        f"{objective.n} sentences of {options.file}: {model.size} weights, objective {result.fun:.6f}, "
        f"{report['seconds']:.2f} seconds",
        line_of(report),
        *([] if report["train"] is None else tagging_lines("train", report["train"], types=False)),
        *([] if test is None else tagging_lines("test", report["test"])),
    ]
    title = f"{job.loss}, {job.optimizer}, lam = {job.lam:g}"
    return finish(options, report, lines, {panel.__name__: result.history}, title)


def _train_sparse(panel: ModuleType, options: argparse.Namespace) -> bool:
    job = sparse_job(options)
    layout, training, test = _labelled(options, _start(panel, options)[2])
    writable(options.save, options.log, options.plot)
    started = time.perf_counter()
    Y = [sentence["label"] for sentence in training]
    model, attributes = _new_model(panel, options, layout, training, Y)
    with named(training):
        data = model.pack(attributes, Y)

    def objective(examples: np.ndarray) -> Any:
        return panel.LogLoss(model, sequences_of(data, examples))

    what = {"file": options.file, "sentences": len(training)}
    fit = run_sparse(panel, options, job, what, objective, len(training))
    if options.save:
        info = {"learner": "sparse-crf", "file": options.file, **info_of(layout), **asdict(job)}
        with finishing():
            save_model(options.save, *_without_zeros(panel, model, fit.w), {**info, "beta": fit.report["beta"]})
    report = opening(panel, options, learner="sparse-crf", **what, columns=layout.columns, labels=model.labels)
    report |= {"job": asdict(job), **fit.report}
    report["train"] = _scores(options, model, fit.w, training, data)
    report["test"] = None if test is None else _scores(options, model, fit.w, test)
    report["seconds"] = time.perf_counter() - started
    lines = [
        f"sparse CRF on {len(training)} sentences of {options.file}",
        *fit.lines,
        *tagging_lines("train", report["train"], types=False),
        *([] if test is None else tagging_lines("test", report["test"])),
    ]
    return finish(options, report, lines)


def _without_zeros(panel: ModuleType, model: Any, w: np.ndarray) -> tuple[Any, np.ndarray]:
    """An equivalent tagger and its weights, without the weights that are 0."""
    kept, cells = np.flatnonzero(w), model.width * model.n_labels
    pairs, label_pairs = np.split(model.cells[kept], [np.count_nonzero(model.cells[kept] < cells)])
    settings = model.settings()
    if model.vocabulary is not None:
        rows, number = np.unique(pairs // model.n_labels, return_inverse=True)
        settings["vocabulary"] = [model.vocabulary[i] for i in rows.tolist()]
        pairs = number * model.n_labels + pairs % model.n_labels
    settings |= {"pairs": pairs, "label_pairs": label_pairs - cells}
    return panel.TaggingModel(**settings), w[kept]


def _start(panel: ModuleType, options: argparse.Namespace) -> tuple[Any, np.ndarray | None, Layout]:
    """The saved model to start from (or None), its weights (or None), and the layout of the files."""
    if options.start is None:
        return None, None, told_layout(options)
    for name in ("columns", "templates", "bits", "pairs", "least", "transitions"):
        if getattr(options, name) is not None:
            raise ValueError(f"--{name} has no effect with --start: the saved model has its own")
    return _tagger(panel, options.start, options)


def _labelled(options: argparse.Namespace, layout: Layout) -> tuple[Layout, list[Columns], list[Columns] | None]:
    """The layout of the files, the sentences to train on, and the sentences to test on or None."""
    layout, training, _ = labelled(options.files[0], layout, options.most_bytes)
    known = _labels(training)
    for path in options.files[1:]:
        training = training + labelled(path, layout, options.most_bytes, known=known).sentences
    test = labelled(options.test, layout, options.most_bytes, known=known).sentences if options.test else None
    return layout, [training[i] for i in limited(len(training), options.limit)], test


def _labels(sentences: list[Columns]) -> set[str]:
    return {label for sentence in sentences for label in sentence["label"]}


def _new_model(
    panel: ModuleType, options: argparse.Namespace, layout: Layout, training: list[Columns], Y: list[Any]
) -> tuple[Any, Any]:
    """A model for the sentences, and their attributes."""
    name, templates = templates_of(options.templates, options.file, layout.columns or ())
    say_read(options, layout, len(training), name)
    settings = {"bits": options.bits, "pairs": options.pairs or "observed", "least": max(options.least or 1, 1)}
    with named(training):
        attributes = attributes_of(training, check_templates(templates))
        check_scheme(options.transitions, Y)
        return panel.TaggingModel.of(attributes, Y, templates, transitions=options.transitions, **settings), attributes


def _job(options: argparse.Namespace, n: int, usual: tuple[str, str] = ("lbfgs", "sgd")) -> Job:
    """The options as a job, with this command's defaults. usual: the optimisers of the log loss and of the hinge."""
    optimizer = usual[0] if options.loss in (None, "crf") else usual[1]
    if options.tol is None and (options.optimizer or optimizer) == "exponentiated-gradient":
        options.tol = TOL
    return job_of(options, OPTIMIZERS, optimizer=optimizer, start_stop=False).over(n)


def _evaluate(panel: ModuleType, options: argparse.Namespace) -> None:
    model, w, layout = _tagger(panel, options.model, options)
    sentences = labelled(options.file, layout, options.most_bytes, known=model.labels).sentences
    sentences = [sentences[i] for i in limited(len(sentences), options.limit)]
    announce_compilation(panel, options.quiet)
    scores = _scores(options, model, w, sentences)
    report = opening(panel, options, model=str(options.model), file=options.file, sentences=len(sentences)) | scores
    print_report(options, report, tagging_lines(f"{len(sentences)} sentences:", scores))


def _predict(panel: ModuleType, options: argparse.Namespace) -> None:
    many, paths = are_many(options.file), paths_of(options.file)
    if many and options.out is None:
        raise ValueError("--out: several files are tagged into a folder; give one")
    writable(None if many else options.out, None)
    model, w, layout = _tagger(panel, options.model, options)
    announce_compilation(panel, options.quiet)
    if many:
        report = opening(panel, options, model=str(options.model))
        write_each(options, paths, report, lambda path: _tagged(options, path, model, w, layout))
        return
    tagged, text, codec = _tagged(options, paths[0], model, w, layout)
    report = opening(panel, options, model=str(options.model), sentences=tagged)
    if options.json or options.reported is not None:
        print_report(options, report, [], options.out)
    elif options.out is None:
        say(text, "")
    else:
        save_bytes(options.out, text.encode(codec))


def _tagged(
    options: argparse.Namespace, path: str, model: Any, w: np.ndarray, layout: Layout
) -> tuple[list[dict[str, Any]], str, str]:
    """The sentences of a file with their labels, the text to write and its encoding."""
    found = untagged(path, layout, model, options.tokens, options.most_bytes)
    chosen = limited(len(found.sentences), options.limit)
    sentences = [found.sentences[i] for i in chosen]
    with named(sentences):
        data = model.pack(sentences)
    tagged: list[dict[str, Any]] = [
        {"columns": sentence, "labels": [model.labels[i] for i in labels]}
        for sentence, labels in zip(sentences, model.predict(data, None, w), strict=True)
    ]
    for piece in model.chunks(data, np.arange(data.n)) if options.top or options.probabilities else ():
        structure = model.structure_type.unchecked(model.scores(data, piece, w))
        if options.top:
            _add_best(model, structure.topk(options.top), [tagged[i] for i in piece])
        if options.probabilities:
            marginals = host(structure.expectation()[1].unary)
            for each, p in zip((tagged[i] for i in piece), marginals, strict=True):
                each["probabilities"] = [float(p[t, model.labels.index(y)]) for t, y in enumerate(each["labels"])]
    if options.tokens:
        return tagged, "".join(f"{line}\n" for each in tagged for line in _tagged_lines(each)), "utf-8"
    return tagged, *tagged_text(path, found, dict(zip(chosen, tagged, strict=True)), most_bytes=options.most_bytes)


def _add_best(model: Any, best: Any, tagged: list[dict[str, Any]]) -> None:
    """Add to each sentence its best label sequences, best first."""
    scores, labels, counts = host(best.scores), host(best.labels), host(best.count)
    for b, each in enumerate(tagged):
        n = len(each["labels"])
        each["best"] = [
            {"score": float(scores[b, j]), "labels": [model.labels[i] for i in labels[b, j, :n]]}
            for j in range(int(counts[b]))
        ]


def _tagged_lines(each: dict[str, Any]) -> list[str]:
    """A sentence as a block of lines, which the scorers of the shared tasks can read."""
    columns = [*each["columns"].values(), each["labels"]]
    if "probabilities" in each:
        columns.append([f"{p:.4f}" for p in each["probabilities"]])
    best = [f"# {one['score']:.6g}: {' '.join(one['labels'])}" for one in each.get("best", ())]
    return [*best, *(" ".join(token) for token in zip(*columns, strict=True)), ""]


# pieces -------------------------------------------------------------------------------------------------------------


def _tagger(panel: ModuleType, path: str, options: argparse.Namespace) -> tuple[Any, np.ndarray, Layout]:
    """A saved model, its weights, and the layout of the file that it was trained on."""
    model, w, info = load_model(path, panel, most_bytes=options.most_bytes)
    return model, w, _layout_of(path, model, info, options)


def _columns_of(path: str, model: Any, info: dict[str, Any]) -> tuple[str, ...]:
    """The names of the columns that a tagger was trained on; ValueError for another model."""
    return _layout_of(path, model, info).columns or ()


def _layout_of(path: str, model: Any, info: dict[str, Any], options: argparse.Namespace | None = None) -> Layout:
    if type(model).__name__ != "TaggingModel" or "columns" not in info:
        raise ValueError(f"{Path(path)}: expected a model of tag train, got a {type(model).__name__}")
    return layout_of(path, info, options)


def _scores(
    options: argparse.Namespace, model: Any, w: np.ndarray, sentences: list[Columns], data: Any = None
) -> dict[str, Any]:
    """The shares of tokens and of sentences with right labels, and chunk scores (None unless all are chunk labels).

    data: the packed sentences, if available.
    """
    with named(sentences):
        data = data or model.pack(sentences)
    predicted = [[model.labels[i] for i in y] for y in model.predict(data, None, w)]
    truth = [sentence["label"] for sentence in sentences]
    return tagging_scores(counted(truth, predicted, model.labels, options.scheme, lambda: sentences))
