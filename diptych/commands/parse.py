"""``parse``: train a dependency parser on a treebank, score it, and parse sentences."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from diptych.commands.jobs import check_start, going_on
from diptych.commands.options import add_most_bytes, add_run, count, large, number
from diptych.commands.output import announce_compilation, print_report, watched, writable
from diptych.files.models import load_model, save_model
from diptych.files.treebank import Sentence, load_treebank, write_conllu
from diptych.metrics import attachment_score
from reference.models.templates import TEMPLATES

__all__ = ["add", "drawn"]

EPOCHS = {"bcfw": 50, "sgd": 10, "lbfgs": 50, "online-proximal": 10}
TOL = 0.05
LAM = {"bcfw": 1e-2, "sgd": 1e-5, "lbfgs": 1e-5, "online-proximal": 1e-4}
STEP_SIZE = {"hinge": 0.01, "crf": 0.03, "online-proximal": 0.1}
REGULARIZERS = {"squared-l21": "SquaredL21", "l21": "L21", "l2": "HalfSquaredL2"}
FEW = 10  # templates that train lists


def add(commands: Any) -> None:
    """Add the command ``parse`` to the subparsers of the command line."""
    whole = commands.add_parser(
        "parse",
        help="learn to parse sentences from a treebank, and parse them",
        description="Learn from a treebank which token is the head of which (train), score a parser on another (evaluate), parse (predict), and see what templates weigh (show). "
        "Files: 'sentences' (forty that come with the package), CoNLL-X, CoNLL-U, lines of word, tag, head, or a zip of such; name.zip:1-160 is the first 160 of its files, name.zip:7 the seventh, name.zip:a.dp the one of that name.",
        allow_abbrev=False,
    )
    actions = whole.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, run: Any, summary: str) -> argparse.ArgumentParser:
        sub: argparse.ArgumentParser = actions.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        sub.set_defaults(command=run, name=f"parse {name}")
        sub.add_argument("--json", action="store_true", help="print everything as one JSON object")
        add_most_bytes(sub)
        return sub

    sub = action("train", _train, "train on a treebank, and test on another")
    sub.add_argument("treebank", help="'sentences', or a file")
    sub.add_argument("--test", metavar="FILE", help="report the share of right heads on this treebank too")
    sub.add_argument("--save", metavar="FILE", help="write the model (.npz, loads in either panel)")
    add_run(sub, start=True)
    sub.add_argument("--templates", choices=list(TEMPLATES), help="of features (default: 20)")
    sub.add_argument("--bits", type=count, help="hash features to 2^bits weights (default: 20; with --blocks, 2^15 for each template)")  # fmt: skip
    sub.add_argument("--vocabulary", type=count, metavar="N", help="instead: the features of N true arcs or more")
    sub.add_argument("--blocks", action="store_true", help="each template has weights of its own, for show to tell; always with online-proximal")  # fmt: skip
    sub.add_argument("--many-roots", dest="single_root", action="store_false", help="allow several tokens without head")
    sub.add_argument(
        "--loss", choices=("hinge", "crf"), default="hinge", help="hinge: structural SVM (default); crf: log loss"
    )
    sub.add_argument("--optimizer", choices=list(EPOCHS), help="default: bcfw for the hinge, sgd for crf")
    sub.add_argument(
        "--regularizer",
        choices=list(REGULARIZERS),
        help="online-proximal: lam/2 (sum of the templates' norms)^2, multiple kernel learning (squared-l21, default); lam times that sum (l21); lam/2 ||w||^2 (l2)",
    )
    sub.add_argument("--lam", type=number, help=f"weight of lam/2 ||w||^2 or the --regularizer (default: {_listed(LAM)})")  # fmt: skip
    sub.add_argument("--epochs", type=count, help=f"at most so many passes, or iterations (default: {_listed(EPOCHS)})")
    sub.add_argument("--tol", type=number, help=f"bcfw: stop at this relative gap (default: {TOL})")
    sub.add_argument("--step-size", type=number, help=f"sgd: a constant step; online-proximal: over sqrt(t) (default: {_listed(STEP_SIZE)})")  # fmt: skip
    sub.add_argument("--rng", type=large, default=0, help="seed of the orders (default: 0)")
    sub.add_argument("--quiet", action="store_true", help="no progress bar")

    sub = action("evaluate", _evaluate, "the share of right heads of a saved parser on a treebank")
    sub.add_argument("model", help="a file written by parse train --save")
    sub.add_argument("treebank")

    sub = action(
        "predict", _predict, "parse sentences by a saved parser, to CoNLL-U; what else is asked for goes into comments"
    )
    sub.add_argument("model", help="a file written by parse train --save")
    sub.add_argument("treebank", help="its heads, if any, are not looked at; lines of word, tag are read too")
    sub.add_argument("--top", type=count, metavar="K", help="the K best trees of each sentence, with their scores")
    sub.add_argument(
        "--probabilities",
        action="store_true",
        help="of each head, under exp(score): of a parser trained with --loss crf, those that it believes",
    )
    sub.add_argument("--draw", action="store_true", help="the tree as text")

    sub = action("show", _show, "the templates of a parser trained with --blocks, by the norm of their weights")
    sub.add_argument("model", help="a file written by parse train --save")


def _listed(defaults: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in defaults.items())


def _train(panel: ModuleType, options: argparse.Namespace) -> bool:
    optimizer = options.optimizer or ("bcfw" if options.loss == "hinge" else "sgd")
    if options.loss == "crf" and optimizer == "bcfw":
        raise ValueError("--optimizer bcfw needs --loss hinge")
    if options.regularizer is not None and optimizer != "online-proximal":
        raise ValueError("--regularizer needs --optimizer online-proximal")
    if options.tol is not None and optimizer != "bcfw":
        raise ValueError(f"--tol has no effect with --optimizer {optimizer}")
    options.tol = TOL if options.tol is None else options.tol
    options.blocks |= optimizer == "online-proximal"
    model, w0 = _start(panel, options, optimizer)
    more = going_on(optimizer, options.checkpoint, options.resume) | ({} if w0 is None else {"w0": w0})
    training, test = (
        _with_heads(options, options.treebank),
        _with_heads(options, options.test) if options.test else None,
    )
    writable(options.save, options.log, options.checkpoint, None)
    announce_compilation(panel)
    started = time.perf_counter()
    X, Y = [s.fields() for s in training], [s.heads for s in training]
    if model is None:
        model = _new_model(panel, options, X, Y)
    data, test_data = model.pack(X, Y), None if test is None else _packed(model, test)
    objective = (panel.LogLoss if options.loss == "crf" else panel.StructuralHinge)(model, data)
    epochs = EPOCHS[optimizer] if options.epochs is None else options.epochs
    job: dict[str, Any] = {"lam": LAM[optimizer] if options.lam is None else options.lam}
    if optimizer == "lbfgs":
        job["iterations"] = epochs
    else:
        job |= {"epochs": epochs, "rng": options.rng}
        usual = STEP_SIZE.get(optimizer, STEP_SIZE[options.loss])
        step_size = usual if options.step_size is None else options.step_size
        job |= {"tol": options.tol} if optimizer == "bcfw" else {"step_size": step_size}
    if optimizer == "online-proximal":
        job["regularizer"] = options.regularizer or "squared-l21"
    asked = {"treebank": options.treebank, "sentences": len(training), "start": options.start}
    asked |= {"loss": options.loss, "optimizer": optimizer, "job": job}
    optimize = getattr(panel, optimizer.replace("-", "_"))
    arguments = _arguments(panel, model, job)
    result = watched(
        panel, options, asked, epochs, lambda callback: optimize(objective, callback=callback, **arguments, **more)
    )
    if options.save:
        info = {"treebank": options.treebank, "start": options.start, "optimizer": optimizer, **job}
        save_model(options.save, model, result.x, info)
    report = {
        "command": "parse train",
        "panel": panel.__name__,
        "version": panel.__version__,
        "treebank": options.treebank,
        "sentences": len(training),
        "templates": options.templates or "20",
        "weights": model.size,
        "template_weights": _template_weights(model, result.x) if model.blocks else None,
        "loss": options.loss,
        "optimizer": optimizer,
        "job": job,
        "objective": result.fun,
        "certificate": result.certificate,
        "success": result.success,
        "interrupted": result.interrupted,
        "message": result.message,
        "seconds": time.perf_counter() - started,
        "train": _scores(model, result.x, training, data),
        "test": None if test is None else _scores(model, result.x, test, test_data),
    }
    if options.save:
        report["saved"] = str(options.save)
    lines = [
        f"{options.treebank}: {len(training)} sentences, objective {result.fun:.6f}, {report['seconds']:.2f} seconds",
        _line("train", report["train"]),
        *([] if test is None else [_line("test", report["test"])]),
        *([] if result.success else [f"not converged: {result.message}"]),
        *(_template_lines(report["template_weights"], FEW) if model.blocks else []),
        *([f"saved {options.save}"] if options.save else []),
    ]
    print_report(options, report, lines)
    return result.interrupted


def _arguments(panel: ModuleType, model: Any, job: dict[str, Any]) -> dict[str, Any]:
    """What the optimiser is called with."""
    if "regularizer" not in job:
        return job
    name, lam = job["regularizer"], job["lam"]
    kind = getattr(panel, REGULARIZERS[name])
    chosen = {"regularizer": kind(lam) if name == "l2" else kind(lam, model.groups)}
    chosen["step_size"] = panel.steps.InverseSqrt(job["step_size"])
    return {name: value for name, value in job.items() if name != "lam"} | chosen


def _start(panel: ModuleType, options: argparse.Namespace, optimizer: str) -> tuple[Any, np.ndarray | None]:
    """The saved model to start from and its weights, or None."""
    if options.start is None:
        return None, None
    check_start(optimizer)
    given = {name: getattr(options, name) for name in ("templates", "bits", "vocabulary")}
    given["blocks"] = options.blocks if optimizer != "online-proximal" and options.blocks else None
    given["many-roots"] = None if options.single_root else True
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"--{name} has no effect with --start: the saved model has its own")
    return _parser(panel, options.start, options.most_bytes)


def _new_model(panel: ModuleType, options: argparse.Namespace, X: list[Any], Y: list[Any]) -> Any:
    """A model with all weights that the bits allow, or those of the training data's own features."""
    templates = options.templates or "20"
    settings = {"bits": options.bits, "single_root": options.single_root, "blocks": options.blocks}
    model = panel.ParsingModel(templates, **settings)
    if options.vocabulary is None:
        return model
    keys = model.vocabulary(model.pack(X, Y), max(options.vocabulary, 1))
    return panel.ParsingModel(templates, vocabulary=keys, **settings)


def _evaluate(panel: ModuleType, options: argparse.Namespace) -> None:
    model, w = _parser(panel, options.model, options.most_bytes)
    sentences = _with_heads(options, options.treebank)
    announce_compilation(panel)
    scores = _scores(model, w, sentences, _packed(model, sentences))
    report: dict[str, Any] = {"command": "parse evaluate", "panel": panel.__name__, "model": str(options.model)}
    report |= {"treebank": options.treebank, "sentences": len(sentences), **scores}
    print_report(options, report, [_line(f"{len(sentences)} sentences:", scores)])


def _predict(panel: ModuleType, options: argparse.Namespace) -> None:
    model, w = _parser(panel, options.model, options.most_bytes)
    sentences = load_treebank(options.treebank, heads=False, most_bytes=options.most_bytes)
    if not sentences:
        raise ValueError(f"{options.treebank}: no sentences")
    announce_compilation(panel)
    data = model.pack([s.fields() for s in sentences])
    parsed, found = [], []
    for i, heads in enumerate(model.predict(data, None, w)):
        sentence, comments = sentences[i], list(sentences[i].comments)
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
        relations = ("_",) * len(heads)  # those of other heads, if any, are not of these
        parsed.append(sentence._replace(heads=heads, relations=relations, comments=tuple(comments)))
        found.append(each)
    report = {"command": "parse predict", "panel": panel.__name__, "model": str(options.model), "sentences": found}
    print_report(options, report, list(write_conllu(parsed)))


def _show(panel: ModuleType, options: argparse.Namespace) -> None:
    model, w = _parser(panel, options.model, options.most_bytes)
    if not model.blocks:
        raise ValueError(f"{options.model}: its templates share weights; parse train --blocks gives each its own")
    found = _template_weights(model, w)
    report: dict[str, Any] = {"command": "parse show", "panel": panel.__name__, "model": str(options.model)}
    report |= {"weights": model.size, "template_weights": found}
    print_report(options, report, _template_lines(found, len(found)))


def _template_weights(model: Any, w: np.ndarray) -> list[dict[str, Any]]:
    """The templates by the norms of their weights, largest first; beta: the norm's share of their sum, the weight of the template's kernel."""
    norms = model.template_norms(w)
    total = norms.sum()
    return [
        {"template": list(model.templates[t]), "norm": float(norms[t]), "beta": float(norms[t] / total if total > 0 else 0)}
        for t in np.argsort(-norms, kind="stable").tolist()
    ]  # fmt: skip


def _template_lines(found: list[dict[str, Any]], most: int) -> list[str]:
    """How many templates have no weight, and the others, at most so many."""
    alive = [each for each in found if each["norm"] > 0]
    lines = [f"{len(alive)} of {len(found)} templates have weights; beta, norm:"]
    lines += [f"  {e['beta']:.4f}  {e['norm']:10.5f}  {' '.join(e['template'])}" for e in alive[:most]]
    if len(alive) > most:
        lines.append(f"  ... {len(alive) - most} more (parse show lists them)")
    elif most >= len(found):
        lines += [f"  0       {0:10}  {' '.join(e['template'])}" for e in found[len(alive) :]]
    return lines


def drawn(words: tuple[str, ...], tags: tuple[str, ...], heads: np.ndarray) -> list[str]:
    """A tree as lines of text: each token under its head, those of one head in the order of the sentence."""
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


def _with_heads(options: argparse.Namespace, path: str) -> list[Sentence]:
    """The sentences of a treebank that has all heads, at least one."""
    sentences = load_treebank(path, most_bytes=options.most_bytes)
    if not sentences:
        raise ValueError(f"{path}: no sentences")
    missing = next((i for i, s in enumerate(sentences, 1) if s.heads is None), None)
    if missing is not None:
        raise ValueError(f"{path}: sentence {missing} has no heads")
    return sentences


def _parser(panel: ModuleType, path: str, most_bytes: int) -> tuple[Any, np.ndarray]:
    model, w, _ = load_model(path, panel, most_bytes=most_bytes)
    if type(model).__name__ != "ParsingModel":
        raise ValueError(f"{path}: expected a model of parse train, got a {type(model).__name__}")
    return model, w


def _packed(model: Any, sentences: list[Sentence]) -> Any:
    """The sentences with their heads, which are trees of the model's kind."""
    return model.pack([s.fields() for s in sentences], [s.heads for s in sentences])


def _scores(model: Any, w: np.ndarray, sentences: list[Sentence], data: Any) -> dict[str, float | None]:
    """Shares of right heads: of all tokens, and of all but punctuation (None where there are no others)."""
    guess = model.predict(data, None, w)
    truth: list[Any] = [s.heads for s in sentences]
    found = {
        "uas": attachment_score(truth, guess),
        "uas_without_punctuation": attachment_score(truth, guess, [s.tags for s in sentences]),
    }
    return {name: None if math.isnan(share) else share for name, share in found.items()}


def _line(name: str, scores: dict[str, Any]) -> str:
    whole, words = (
        "-" if share is None else f"{100 * share:.2f} %" for share in (scores["uas"], scores["uas_without_punctuation"])
    )
    return f"{name:5} right heads {whole}, without punctuation {words}"
