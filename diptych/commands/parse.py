"""``parse``: train a dependency parser on a treebank, score it, and parse sentences."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from diptych.commands import executors
from diptych.commands.jobs import spread
from diptych.commands.options import Saved, Task, Training, argument, flag, option, refuse
from diptych.commands.output import Report, curve, trained
from diptych.commands.scores import counted_heads, heads_of_partition, parsing_scores
from diptych.commands.show import checked, loaded, show_of, template_lines, template_weights
from diptych.commands.solvers import check_start, listed, settings_of, solve, solver_options
from diptych.distributed import TreebankFile
from diptych.distributed.loaders import parts_of
from diptych.files.sources import named
from diptych.files.treebank import Sentence, check_heads, load_treebank, write_conllu
from reference.models.templates import TEMPLATES
from reference.structures.projective_chart import crossing

EPOCHS = {"bcfw": 50, "sgd": 10, "lbfgs": 50, "online-proximal": 10, "cocoa": 50}
OPTIMIZERS = tuple(EPOCHS)
TOL = 0.05
LAM = {"bcfw": 1e-2, "sgd": 1e-5, "lbfgs": 1e-5, "online-proximal": 1e-4, "cocoa": 1e-2}
STEP_SIZE = {"hinge": 0.01, "crf": 0.03, "online-proximal": 0.1}
REGULARIZERS = {"squared-l21": "SquaredL21", "l21": "L21", "l2": "HalfSquaredL2"}
MOST = 10  # templates that train lists
FEW = 3  # sentences of a rehearsal
CHECK = checked("parse train", "ParsingModel")


class Train(executors.Cluster, Training):
    """Train on a treebank, and test on another."""

    treebank: str = argument("'sentences', a file, or over partitions a pattern '*.conllu'")
    test: str | None = flag()
    start: str | None = flag()
    rng: int | None = flag()
    encoding: str | None = flag()
    most_bytes: int = flag()
    templates: str | None = option("model", "feature templates (default: 20)", choices=list(TEMPLATES))
    bits: int | None = option("model",
        "hash features to 2^bits weights (default: 20; with --blocks, 2^15 for each template)", rare=True)  # fmt: skip
    vocabulary: int | None = option("model", "instead of hashing: only features of at least N true arcs", metavar="N",
        rare=True)  # fmt: skip
    blocks: bool = option("model",
        "give each template weights of its own, which show reports; always with online-proximal",
        action="store_true")  # fmt: skip
    single_root: bool = option("model", "allow several tokens without head", "--many-roots", action="store_false",
        rare=True)  # fmt: skip
    projective: bool = option("model", "trees without crossing arcs, of which the training data have no others",
        action="store_true")  # fmt: skip
    drop_crossing: bool = option("model", "with --projective: leave out training sentences whose arcs cross",
        action="store_true", rare=True)  # fmt: skip
    loss: str = option("solver", "hinge: structural SVM (default); crf: log loss", choices=("hinge", "crf"),
        default="hinge")  # fmt: skip
    optimizer: str | None = option("solver", "default: bcfw for the hinge, sgd for crf; over partitions cocoa, lbfgs",
        choices=OPTIMIZERS)  # fmt: skip
    regularizer: str | None = option("solver",
        "online-proximal: lam/2 (sum of the templates' norms)^2, multiple kernel learning "
        "(squared-l21, default); lam times that sum (l21); lam/2 ||w||^2 (l2)", choices=list(REGULARIZERS),
        rare=True)  # fmt: skip
    lam: float | None = flag(f"default: {listed(LAM)}")
    epochs: int | None = flag(f"default: {listed(EPOCHS)}")
    tol: float | None = flag(f"default: {TOL}")
    solver: dict[str, Any] = solver_options(OPTIMIZERS, without=("mu",),
        step_size=f"default: {listed(STEP_SIZE)}; online-proximal: over sqrt(t)")  # fmt: skip

    def run(self, panel: ModuleType) -> Report:
        over, crf = self.over_partitions, self.loss == "crf"
        usual = ("lbfgs" if crf else "cocoa") if over else ("sgd" if crf else "bcfw")
        optimizer = self.optimizer or usual
        self.check_over(optimizer, "limit", "vocabulary", "regularizer")
        if over and optimizer == "lbfgs" and not crf:
            raise ValueError("--optimizer lbfgs needs --loss crf over partitions")
        if crf and optimizer == "bcfw":
            raise ValueError("--optimizer bcfw needs --loss hinge")
        if self.drop_crossing and (over or not self.projective):
            raise ValueError(f"--drop-crossing needs --projective{', and one process' if over else ''}")
        if self.regularizer is not None and optimizer != "online-proximal":
            raise ValueError("--regularizer needs --optimizer online-proximal")
        job = self._job(optimizer)
        model, w0 = self._start(panel, optimizer)
        command = replace(self, blocks=self.blocks or optimizer == "online-proximal")
        test = _sentences(self, self.test, None) if self.test else None
        loss = panel.LogLoss if crf else panel.StructuralHinge
        training = every = [] if over else _sentences(self, self.treebank, self.limit)
        if self.drop_crossing:
            training = [s for s in every if s.heads is None or not len(crossing(s.heads))]
        started = time.perf_counter()
        model = command._new_model(panel, training) if model is None else model
        opened = self._partitions(panel, optimizer, loss, model, job) if over else None
        with opened or nullcontext(loss(model, _packed(model, training))) as objective:
            what = {"treebank": self.treebank, "sentences": objective.n, "start": self.start}
            what |= {"loss": self.loss, "optimizer": optimizer, "job": job}
            arguments = {**job}
            if optimizer == "online-proximal":
                kind = getattr(panel, REGULARIZERS[job["regularizer"]])
                groups = () if job["regularizer"] == "l2" else (model.groups,)
                arguments["regularizer"] = kind(job["lam"], *groups)
                arguments["step_size"] = panel.steps.InverseSqrt(job["step_size"])
            run = partial(solve, panel, optimizer, objective, w0=w0, **arguments)
            info = {"treebank": self.treebank, "start": self.start, "optimizer": optimizer, **job}
            result, report = trained(panel, self, what, job["epochs"], run, model, info, objective if over else None)
            report |= {"weights": model.size, "seconds": time.perf_counter() - started}
            first = f"{self.treebank}: {objective.n} sentences, objective {result.fun:.6f}, "
            lines = [f"{first}{report['seconds']:.2f} seconds"]
            if self.drop_crossing:
                report["dropped"] = len(every) - len(training)
                lines.append(f"{report['dropped']} sentences left out, whose arcs cross")
            if over:
                report["files"] = self.files([self.treebank], "sentences")[0]
                lines.append(executors.line_of(report))
                heads = None if result.interrupted else objective.sum_of(heads_of_partition, result.x)
                report["train"] = None if heads is None else parsing_scores(heads)
            else:
                weights = template_weights(model, result.x) if model.blocks else None
                report |= {"templates": self.templates or "20", "template_weights": weights}
                report["train"] = _scores(model, result.x, training, objective.data)
        report["test"] = None if test is None else _scores(model, result.x, test)
        lines += [_line(name, report[name]) for name in ("train", "test") if report[name] is not None]
        lines += template_lines(report["template_weights"], MOST) if report.get("template_weights") else []
        return Report(report, lines, curve(panel, result, f"{self.loss}, {optimizer}, lam = {job['lam']:g}"))

    def _job(self, optimizer: str) -> dict[str, Any]:
        """The settings of the optimiser, with this command's defaults."""
        usual: dict[str, Any] = {"lam": LAM[optimizer], "epochs": EPOCHS[optimizer], "rng": 0}
        if optimizer in ("bcfw", "cocoa"):
            usual["tol"] = TOL
        elif optimizer != "lbfgs":
            usual["step_size"] = STEP_SIZE.get(optimizer, STEP_SIZE[self.loss])
        job = settings_of(self, usual, optimizer, OPTIMIZERS)
        if optimizer == "online-proximal":
            job["regularizer"] = self.regularizer or "squared-l21"
        return job

    def _start(self, panel: ModuleType, optimizer: str) -> tuple[Any, np.ndarray | None]:
        """The saved model to start from and its weights, or None."""
        if self.start is None:
            return None, None
        check_start(optimizer, OPTIMIZERS)
        settings = {name: getattr(self, name) for name in ("templates", "bits", "vocabulary")}
        settings["blocks"] = (self.blocks and optimizer != "online-proximal") or None
        settings["many-roots"] = None if self.single_root else True
        settings["projective"] = self.projective or None
        refuse(settings, settings, "with --start: the saved model has its own")
        return loaded(panel, self, CHECK, self.start)[:2]

    def _new_model(self, panel: ModuleType, training: list[Sentence]) -> Any:
        """A model that hashes features, or with ``--vocabulary`` a model of the features of the training data."""
        settings = {name: getattr(self, name) for name in ("bits", "single_root", "projective", "blocks")}
        new = partial(panel.ParsingModel, self.templates or "20", **settings)
        if self.vocabulary is None:
            return new()
        return new(vocabulary=new().vocabulary(_packed(new(), training), max(self.vocabulary, 1)))

    def _partitions(
        self, panel: ModuleType, optimizer: str, loss: Any, model: Any, job: dict[str, Any]
    ) -> AbstractContextManager[Any]:
        """The objective over partitions of the files."""
        _, paths, parts = self.files([self.treebank], "sentences")
        loaders = parts_of([TreebankFile(path, self.most_bytes, self.encoding) for path in paths], parts)
        few = load_treebank("sentences")[:FEW]
        run = partial(solve, panel, optimizer, **job | {"epochs": 1})
        rehearsal = executors.Rehearsal(model, loss, run, [s.fields() for s in few], [s.heads for s in few])
        return self.partitioned(panel, rehearsal, lambda _: model, lambda _: loaders)


class Evaluate(Saved):
    """The share of right heads of a saved parser on a treebank."""

    treebank: str = argument()
    limit: int | None = flag()
    encoding: str | None = flag()
    most_bytes: int = flag()

    def run(self, panel: ModuleType) -> Report:
        model, w, _ = loaded(panel, self, CHECK)
        sentences = _sentences(self, self.treebank, self.limit)
        scores = _scores(model, w, sentences)
        report = {"treebank": self.treebank, "sentences": len(sentences), **scores}
        return Report(report, [_line(f"{len(sentences)} sentences:", scores)])


class Predict(Evaluate):
    """Parse sentences by a saved parser, to CoNLL-U; further results go into comments.

    Parse sentences by a saved parser, to CoNLL-U. Of CoNLL-U and CoNLL-X all stays but HEAD, and DEPREL, which
    becomes _: it is not predicted, and would be wrong for another head. Further results go into comments.
    """

    treebank: str = argument("a treebank, whose heads are ignored, or lines of word, tag")
    out: str | None = flag()
    top: int | None = flag("best trees of a sentence, above it as '# tree = SCORE: HEADS'")
    probabilities: bool = option("output",
        "add the probability of each head, as a comment; meaningful for a parser trained with --loss crf",
        action="store_true")  # fmt: skip
    draw: bool = option("output", "the tree as text", action="store_true")

    def run(self, panel: ModuleType) -> Report:
        model, w, _ = loaded(panel, self, CHECK)
        sentences = _sentences(self, self.treebank, self.limit, heads=False)
        data = model.pack([s.fields() for s in sentences])
        parsed, results, noted = [], [], []
        for i, heads in enumerate(model.predict(data, None, w)):
            sentence, comments = sentences[i], list[str]()
            each: dict[str, Any] = {"words": sentence.words, "heads": heads.tolist()}
            structure = model.structure_type.unchecked(model.scores(data, np.array([i]), w))
            if self.top:
                best = structure.topk(self.top)
                trees = zip(map(float, best.scores), best.labels, strict=True)
                each["trees"] = [{"score": s, "heads": np.asarray(y).tolist()} for s, y in trees if s > -np.inf]
                comments += [f"# tree = {t['score']:.6g}: {' '.join(map(str, t['heads']))}" for t in each["trees"]]
            if self.probabilities:
                marginals = np.asarray(structure.expectation()[1].values)
                each["probabilities"] = marginals[np.arange(len(heads)), heads].tolist()
                comments.append(f"# probabilities = {' '.join(f'{p:.3f}' for p in each['probabilities'])}")
            if self.draw:
                comments += [f"# {line}" for line in drawn(sentence.words, sentence.tags, heads)]
            relations = ("_",) * len(heads)  # the file's relations belong to its own heads
            parsed.append(sentence._replace(heads=heads, relations=relations))
            noted.append(comments)
            results.append(each)
        return Report({"sentences": results}, list(write_conllu(parsed, noted)), out=self.out)


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


def _sentences(command: Train | Evaluate, path: str, limit: int | None, heads: bool = True) -> list[Sentence]:
    """The sentences of a treebank. ValueError if there are none, or if one lacks the heads."""
    every = load_treebank(path, heads=heads, encoding=command.encoding, most_bytes=command.most_bytes)
    sentences = spread(every, limit)
    if not sentences:
        raise ValueError(f"{path}: no sentences")
    if heads:
        check_heads(sentences)
    return sentences


def _packed(model: Any, sentences: list[Sentence]) -> Any:
    """The sentences and their heads, packed by the model."""
    with named(sentences):
        return model.pack([s.fields() for s in sentences], [s.heads for s in sentences])


def _scores(model: Any, w: np.ndarray, sentences: list[Sentence], data: Any = None) -> dict[str, float | None]:
    """The shares of tokens with the right head, with and without punctuation, or None. data: the packed sentences.

    A projective parser cannot have all heads right where arcs cross, and is scored all the same.
    """
    if data is None and model.projective:
        data = model.pack([s.fields() for s in sentences])
    predicted = model.predict(_packed(model, sentences) if data is None else data, None, w)
    return parsing_scores(counted_heads([s.heads for s in sentences], predicted, [s.tags for s in sentences]))


def _line(name: str, scores: dict[str, Any]) -> str:
    shares = [scores["uas"], scores["uas_without_punctuation"]]
    tokens, words = ("-" if share is None else f"{100 * share:.2f} %" for share in shares)
    return f"{name:5} right heads {tokens}, without punctuation {words}"


TASK = Task(
    "parse",
    "learn to parse sentences from a treebank, and parse them",
    "Learn from a treebank which token is the head of which (train), score a parser on another (evaluate), parse "
    "(predict), and see what a model holds (show). Files: 'sentences' (forty that come with the package), CoNLL-X, "
    "CoNLL-U (also Plus), lines of word, tag, head, or a zip of such; name.zip:1-160 is the first 160 of its files, "
    "name.zip:7 the seventh, name.zip:a.dp the one of that name.",
    (Train, Evaluate, Predict, show_of(CHECK)),
)
