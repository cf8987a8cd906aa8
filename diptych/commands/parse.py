"""``parse``: train a dependency parser on a treebank, score it, and parse sentences."""

from __future__ import annotations

import argparse
import math
import time
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from diptych.commands.cluster import (
    Rehearsal,
    add_cluster,
    check_over,
    for_workers,
    line_of,
    moved,
    over_partitions,
    parts_a_file,
)
from diptych.commands.executors import executor_of
from diptych.commands.jobs import limited
from diptych.commands.many_files import paths_of
from diptych.commands.options import TRAINING, add_flags, add_task, count
from diptych.commands.output import announce_compilation, finish, opening, print_report, trained, writable
from diptych.commands.scores import heads_of_partition, parsing_scores
from diptych.commands.show import add_show, template_lines, template_weights
from diptych.commands.solvers import add_solver, check_start, given, listed, solve
from diptych.distributed import Partitioned, TreebankFile
from diptych.distributed.loaders import parts_of
from diptych.files.models import load_model
from diptych.files.sources import named
from diptych.files.treebank import Sentence, check_heads, load_treebank, write_conllu
from diptych.metrics import attachment_score
from reference.models.templates import TEMPLATES

__all__ = ["add", "drawn"]

EPOCHS = {"bcfw": 50, "sgd": 10, "lbfgs": 50, "online-proximal": 10, "cocoa": 50}
OPTIMIZERS = tuple(EPOCHS)
TOL = 0.05
LAM = {"bcfw": 1e-2, "sgd": 1e-5, "lbfgs": 1e-5, "online-proximal": 1e-4, "cocoa": 1e-2}
STEP_SIZE = {"hinge": 0.01, "crf": 0.03, "online-proximal": 0.1}
REGULARIZERS = {"squared-l21": "SquaredL21", "l21": "L21", "l2": "HalfSquaredL2"}
MOST = 10  # templates that train lists
FEW = 3  # sentences of a rehearsal


def add(commands: Any) -> None:
    """Add the command ``parse`` to the subparsers of the command line."""
    action = add_task(commands, "parse", "learn to parse sentences from a treebank, and parse them",
        "Learn from a treebank which token is the head of which (train), score a parser on another "
        "(evaluate), parse (predict), and see what a model holds (show). Files: 'sentences' (forty that "
        "come with the package), CoNLL-X, CoNLL-U (also Plus), lines of word, tag, head, or a zip of such; "
        "name.zip:1-160 is the first 160 of its files, name.zip:7 the seventh, name.zip:a.dp the one of "
        "that name.")  # fmt: skip
    sub = action("train", _train, "train on a treebank, and test on another")
    sub.add_argument("treebank", help="'sentences', a file, or over partitions a pattern '*.conllu'")
    add_flags(sub, *TRAINING, "test", "start", "rng", "encoding", "most_bytes")
    sub.option("model", "--templates", choices=list(TEMPLATES), help="feature templates (default: 20)")
    sub.option("model", "--bits", type=count,
        help="hash features to 2^bits weights (default: 20; with --blocks, 2^15 for each template)",
        rare=True)  # fmt: skip
    sub.option("model", "--vocabulary", type=count, metavar="N",
        help="instead of hashing: only features of at least N true arcs", rare=True)  # fmt: skip
    sub.option("model", "--blocks", action="store_true",
        help="give each template weights of its own, which show reports; always with online-proximal")  # fmt: skip
    sub.option("model", "--many-roots", dest="single_root", action="store_false",
        help="allow several tokens without head", rare=True)  # fmt: skip
    sub.option("solver", "--loss", choices=("hinge", "crf"), default="hinge",
        help="hinge: structural SVM (default); crf: log loss")  # fmt: skip
    sub.option(
        "solver",
        "--optimizer",
        choices=OPTIMIZERS,
        help="default: bcfw for the hinge, sgd for crf; over partitions cocoa, lbfgs",
    )
    sub.option("solver", "--regularizer", choices=list(REGULARIZERS),
        help="online-proximal: lam/2 (sum of the templates' norms)^2, multiple kernel learning "
        "(squared-l21, default); lam times that sum (l21); lam/2 ||w||^2 (l2)", rare=True)  # fmt: skip
    add_flags(sub, lam=f"default: {listed(LAM)}", epochs=f"default: {listed(EPOCHS)}", tol=f"default: {TOL}")
    add_solver(sub, OPTIMIZERS, without=("mu",),
        step_size=f"default: {listed(STEP_SIZE)}; online-proximal: over sqrt(t)")  # fmt: skip
    add_cluster(sub)

    sub = action("evaluate", _evaluate, "the share of right heads of a saved parser on a treebank")
    sub.add_argument("model", help="a file written by parse train --save")
    sub.add_argument("treebank")
    add_flags(sub, "limit", "encoding", "most_bytes")

    sub = action("predict", _predict,
        "parse sentences by a saved parser, to CoNLL-U; further results go into comments",
        "Parse sentences by a saved parser, to CoNLL-U. Of CoNLL-U and CoNLL-X all stays but HEAD, and DEPREL, which "
        "becomes _: it is not predicted, and would be wrong for another head. Further results go into "
        "comments.")  # fmt: skip
    sub.add_argument("model", help="a file written by parse train --save")
    sub.add_argument("treebank", help="a treebank, whose heads are ignored, or lines of word, tag")
    add_flags(sub, "limit", "encoding", "most_bytes", "out", top="trees of each sentence, with their scores")
    sub.option("output", "--probabilities", action="store_true",
        help="probability of each head under exp(score); meaningful for a parser trained with --loss crf")  # fmt: skip
    sub.option("output", "--draw", action="store_true", help="the tree as text")  # fmt: skip

    add_show(action, "parse train", _check_kind)


def _train(panel: ModuleType, options: argparse.Namespace) -> bool:
    if over_partitions(options):
        return _train_over_partitions(panel, options)
    optimizer = options.optimizer or ("bcfw" if options.loss == "hinge" else "sgd")
    if optimizer == "cocoa":
        raise ValueError("--optimizer cocoa trains over partitions: give --workers, --scheduler or --partitions")
    if options.loss == "crf" and optimizer == "bcfw":
        raise ValueError("--optimizer bcfw needs --loss hinge")
    if options.regularizer is not None and optimizer != "online-proximal":
        raise ValueError("--regularizer needs --optimizer online-proximal")
    solver = given(options, optimizer, OPTIMIZERS)
    options.blocks |= optimizer == "online-proximal"
    model, w0 = _start(panel, options, optimizer)
    training = _with_heads(options, options.treebank, options.limit)
    test = _with_heads(options, options.test) if options.test else None
    writable(options.save, options.log, options.checkpoint, options.plot)
    announce_compilation(panel, options.quiet)
    started = time.perf_counter()
    if model is None:
        model = _new_model(panel, options, training)
    data, test_data = _packed(model, training), None if test is None else _packed(model, test)
    objective = (panel.LogLoss if options.loss == "crf" else panel.StructuralHinge)(model, data)
    job: dict[str, Any] = {
        "lam": LAM[optimizer] if options.lam is None else options.lam,
        "epochs": EPOCHS[optimizer] if options.epochs is None else options.epochs,
        "rng": options.rng or 0,
    }
    if optimizer == "bcfw":
        job["tol"] = TOL
    elif optimizer != "lbfgs":
        job["step_size"] = STEP_SIZE.get(optimizer, STEP_SIZE[options.loss])
    job |= solver
    if optimizer == "online-proximal":
        job["regularizer"] = options.regularizer or "squared-l21"
    what = {"treebank": options.treebank, "sentences": len(training), "start": options.start}
    what |= {"loss": options.loss, "optimizer": optimizer, "job": job}
    more = {"w0": w0, "checkpoint": options.checkpoint, "resume": options.resume}
    arguments = _arguments(panel, model, job) | more
    info = {"treebank": options.treebank, "start": options.start, "optimizer": optimizer, **job}
    run = partial(solve, panel, optimizer, objective, **arguments)
    result, report = trained(panel, options, what, job["epochs"], run, model, info)
    report |= {
        "templates": options.templates or "20",
        "weights": model.size,
        "template_weights": template_weights(model, result.x) if model.blocks else None,
        "seconds": time.perf_counter() - started,
        "train": _scores(model, result.x, training, data),
        "test": None if test is None else _scores(model, result.x, test, test_data),
    }
    lines = [
        f"{options.treebank}: {len(training)} sentences, objective {result.fun:.6f}, {report['seconds']:.2f} seconds",
        _line("train", report["train"]),
        *([] if test is None else [_line("test", report["test"])]),
        *(template_lines(report["template_weights"], MOST) if model.blocks else []),
    ]
    title = f"{options.loss}, {optimizer}, lam = {job['lam']:g}"
    return finish(options, report, lines, {panel.__name__: result.history}, title)


def _train_over_partitions(panel: ModuleType, options: argparse.Namespace) -> bool:
    optimizer = options.optimizer or ("cocoa" if options.loss == "hinge" else "lbfgs")
    check_over(options, optimizer, "limit", "vocabulary", "regularizer")
    if optimizer == "lbfgs" and options.loss == "hinge":
        raise ValueError("--optimizer lbfgs needs --loss crf over partitions")
    model, w0 = _start(panel, options, optimizer)
    writable(options.save, options.log, options.checkpoint, options.plot)
    test = _with_heads(options, options.test) if options.test else None
    files = [options.treebank] if options.treebank == "sentences" else paths_of([options.treebank])
    sources = [
        TreebankFile(path, options.most_bytes, options.encoding) for path in for_workers(options, files, "sentences")
    ]
    loaders = parts_of(sources, parts_a_file(options, len(files)))
    model, started = model or _new_model(panel, options, []), time.perf_counter()
    job: dict[str, Any] = {
        "lam": LAM[optimizer] if options.lam is None else options.lam,
        "epochs": EPOCHS[optimizer] if options.epochs is None else options.epochs,
        "rng": options.rng or 0,
    }
    job |= {"tol": TOL} if optimizer == "cocoa" else {}
    job |= given(options, optimizer, OPTIMIZERS)
    loss = panel.LogLoss if options.loss == "crf" else panel.StructuralHinge
    few = load_treebank("sentences")[:FEW]
    run = partial(solve, panel, optimizer, **job | {"epochs": 1})
    rehearsal = Rehearsal(model, loss, run, [s.fields() for s in few], [s.heads for s in few])
    with executor_of(options, panel, rehearsal) as executor:
        objective = Partitioned(loaders, model, loss, executor, memory=options.memory)
        what = {"treebank": options.treebank, "sentences": objective.n, "start": options.start}
        what |= {"loss": options.loss, "optimizer": optimizer, "job": job}
        more = {"w0": w0, "checkpoint": options.checkpoint, "resume": options.resume}
        info = {"treebank": options.treebank, "start": options.start, "optimizer": optimizer, **job}
        info["partitions"] = objective.partitions
        run = partial(solve, panel, optimizer, objective, **(job | more))
        result, report = trained(panel, options, what, job["epochs"], run, model, info, partial(moved, objective))
        report |= moved(objective, len(result.history))
        report["train"] = None if result.interrupted else parsing_scores(objective.sum_of(heads_of_partition, result.x))
    report |= {"files": files, "weights": model.size, "seconds": time.perf_counter() - started}
    report["test"] = None if test is None else _scores(model, result.x, test, _packed(model, test))
    lines = [
        f"{options.treebank}: {objective.n} sentences, objective {result.fun:.6f}, {report['seconds']:.2f} seconds",
        line_of(report),
        *([] if report["train"] is None else [_line("train", report["train"])]),
        *([] if test is None else [_line("test", report["test"])]),
    ]
    title = f"{options.loss}, {optimizer}, lam = {job['lam']:g}"
    return finish(options, report, lines, {panel.__name__: result.history}, title)


def _arguments(panel: ModuleType, model: Any, job: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the optimiser."""
    if "regularizer" not in job:
        return job
    name, lam = job["regularizer"], job["lam"]
    kind = getattr(panel, REGULARIZERS[name])
    chosen = {"regularizer": kind(lam) if name == "l2" else kind(lam, model.groups)}
    chosen["step_size"] = panel.steps.InverseSqrt(job["step_size"])
    return {**job, **chosen}


def _start(panel: ModuleType, options: argparse.Namespace, optimizer: str) -> tuple[Any, np.ndarray | None]:
    """The saved model to start from and its weights, or None."""
    if options.start is None:
        return None, None
    check_start(optimizer, OPTIMIZERS)
    settings = {name: getattr(options, name) for name in ("templates", "bits", "vocabulary")}
    settings["blocks"] = options.blocks if optimizer != "online-proximal" and options.blocks else None
    settings["many-roots"] = None if options.single_root else True
    for name, value in settings.items():
        if value is not None:
            raise ValueError(f"--{name} has no effect with --start: the saved model has its own")
    return _parser(panel, options.start, options.most_bytes)


def _new_model(panel: ModuleType, options: argparse.Namespace, training: list[Sentence]) -> Any:
    """A model that hashes features, or with ``--vocabulary`` a model of the features of the training data."""
    templates = options.templates or "20"
    settings = {"bits": options.bits, "single_root": options.single_root, "blocks": options.blocks}
    model = panel.ParsingModel(templates, **settings)
    if options.vocabulary is None:
        return model
    keys = model.vocabulary(_packed(model, training), max(options.vocabulary, 1))
    return panel.ParsingModel(templates, vocabulary=keys, **settings)


def _evaluate(panel: ModuleType, options: argparse.Namespace) -> None:
    model, w = _parser(panel, options.model, options.most_bytes)
    sentences = _with_heads(options, options.treebank, options.limit)
    announce_compilation(panel, options.quiet)
    scores = _scores(model, w, sentences, _packed(model, sentences))
    report = opening(panel, options, model=str(options.model), treebank=options.treebank)
    report |= {"sentences": len(sentences), **scores}
    print_report(options, report, [_line(f"{len(sentences)} sentences:", scores)])


def _predict(panel: ModuleType, options: argparse.Namespace) -> None:
    writable(options.out, None)
    model, w = _parser(panel, options.model, options.most_bytes)
    reading = {"encoding": options.encoding, "most_bytes": options.most_bytes}
    sentences = load_treebank(options.treebank, heads=False, **reading)
    sentences = [sentences[i] for i in limited(len(sentences), options.limit)]
    if not sentences:
        raise ValueError(f"{options.treebank}: no sentences")
    announce_compilation(panel, options.quiet)
    data = model.pack([s.fields() for s in sentences])
    parsed, results, noted = [], [], []
    for i, heads in enumerate(model.predict(data, None, w)):
        sentence, comments = sentences[i], list[str]()
        each: dict[str, Any] = {"words": sentence.words, "heads": heads.tolist()}
        structure = model.structure_type.unchecked(model.scores(data, np.array([i]), w))
        if options.top:
            best = structure.topk(options.top)
            each["trees"] = [
                {"score": float(score), "heads": np.asarray(y).tolist()}
                for score, y in zip(best.scores, best.labels, strict=True)
                if score > -np.inf
            ]
            comments += [f"# tree = {t['score']:.6g}: {' '.join(map(str, t['heads']))}" for t in each["trees"]]
        if options.probabilities:
            marginals = np.asarray(structure.expectation()[1].values)
            each["probabilities"] = marginals[np.arange(len(heads)), heads].tolist()
            comments.append(f"# probabilities = {' '.join(f'{p:.3f}' for p in each['probabilities'])}")
        if options.draw:
            comments += [f"# {line}" for line in drawn(sentence.words, sentence.tags, heads)]
        relations = ("_",) * len(heads)  # the file's relations belong to its own heads
        parsed.append(sentence._replace(heads=heads, relations=relations))
        noted.append(comments)
        results.append(each)
    report = opening(panel, options, model=str(options.model), sentences=results)
    print_report(options, report, list(write_conllu(parsed, noted)), options.out)


def drawn(words: tuple[str, ...], tags: tuple[str, ...], heads: np.ndarray) -> list[str]:
    """A tree as lines of text: each token below its head, the dependents of a head in the order of the sentence."""
    lines: list[str] = []
    below: list[list[int]] = [[] for _ in range(len(words) + 1)]
    for m, h in enumerate(np.asarray(heads).tolist(), 1):
        below[h].append(m)
    open_branches = [(m, "", m == below[0][-1]) for m in reversed(below[0])]
    while open_branches:
        m, indent, is_last = open_branches.pop()
        lines.append(f"{indent}{'└─' if is_last else '├─'} {words[m - 1]} ({tags[m - 1]}, {m})")
        deeper = indent + ("   " if is_last else "│  ")
        open_branches += [(k, deeper, k == below[m][-1]) for k in reversed(below[m])]
    return lines


def _with_heads(options: argparse.Namespace, path: str, limit: int | None = None) -> list[Sentence]:
    """The sentences of a treebank. ValueError if there are none, or if one has no heads."""
    sentences = load_treebank(path, encoding=options.encoding, most_bytes=options.most_bytes)
    sentences = [sentences[i] for i in limited(len(sentences), limit)]
    if not sentences:
        raise ValueError(f"{path}: no sentences")
    check_heads(sentences)
    return sentences


def _parser(panel: ModuleType, path: str, most_bytes: int) -> tuple[Any, np.ndarray]:
    model, w, info = load_model(path, panel, most_bytes=most_bytes)
    _check_kind(path, model, info)
    return model, w


def _check_kind(path: str, model: Any, info: dict[str, Any]) -> None:
    if type(model).__name__ != "ParsingModel":
        raise ValueError(f"{path}: expected a model of parse train, got a {type(model).__name__}")


def _packed(model: Any, sentences: list[Sentence]) -> Any:
    """The sentences and their heads, packed by the model."""
    with named(sentences):
        return model.pack([s.fields() for s in sentences], [s.heads for s in sentences])


def _scores(model: Any, w: np.ndarray, sentences: list[Sentence], data: Any) -> dict[str, float | None]:
    """The shares of tokens with the right head, with and without punctuation; None if there are no such tokens."""
    predicted = model.predict(data, None, w)
    truth: list[Any] = [s.heads for s in sentences]
    shares = {
        "uas": attachment_score(truth, predicted),
        "uas_without_punctuation": attachment_score(truth, predicted, [s.tags for s in sentences]),
    }
    return {name: None if math.isnan(share) else share for name, share in shares.items()}


def _line(name: str, scores: dict[str, Any]) -> str:
    tokens, words = (
        "-" if share is None else f"{100 * share:.2f} %" for share in (scores["uas"], scores["uas_without_punctuation"])
    )
    return f"{name:5} right heads {tokens}, without punctuation {words}"
