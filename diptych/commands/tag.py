"""``tag``: train a tagger on a column file, score it, tag sentences and show its weights."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from diptych.commands import executors, tag_answers, tag_files, tag_paths
from diptych.commands.jobs import OPTIMIZERS as SOLVERS
from diptych.commands.jobs import Job, Solved, job_of, learner_job, limited, spread, train
from diptych.commands.learners import SPARSE_OPTIONS, Sparse, SparseJob, SparseRun
from diptych.commands.options import Saved, Task, Training, Words, argument, flag, option, positive, refuse
from diptych.commands.output import Report, curve, trained
from diptych.commands.scores import counted, of_partition, tagging_lines, tagging_scores
from diptych.commands.show import loaded, show_of
from diptych.commands.solvers import check_start, solver_options
from diptych.commands.tag_crfsuite import Export, Import
from diptych.distributed import Partitioned, column_parts, tagging_model
from diptych.distributed.vocabulary import check_scheme
from diptych.elastic_net import without_zeros
from diptych.files.columns import SEPARATORS, Columns, Layout
from diptych.files.partial import partly_known
from diptych.files.rules import RULES, load_rules, rules_named
from diptych.files.sources import named
from diptych.files.tagged import best_lines, tagged_text
from diptych.pictures import plots
from diptych.sparse_fits import sequences_of
from reference.models.costs import with_class_weights
from reference.models.partial import labels_in
from reference.models.schemes import SAME, SCHEMES
from reference.models.token_templates import TOKEN_TEMPLATES, attributes_of, check_templates

TOL = 1e-4
FEW = 3  # sentences of a rehearsal
OPTIMIZERS = (*(name for name in SOLVERS if name != "online-proximal"), "cocoa", "elastic-net")


class Ready(NamedTuple):
    """What a tagger is trained on. data: packed sentences, or an objective over partitions; scored: from weights."""

    layout: Layout
    model: Any
    n: int
    data: Any
    test: list[Columns] | None
    scored: Callable[[np.ndarray], dict[str, Any]]
    started: float
    report: dict[str, Any]
    dev: Callable[[np.ndarray], dict[str, Any]] | None = None  # scores on a development file, from weights


class Columned(Words):
    """How a column file is read."""

    comment: str | None = option("data", "leave out lines that start with PREFIX", metavar="PREFIX", rare=True)
    separator: str | None = option("data",
        "what is between columns (default: as the file looks, later as the model has it)", choices=SEPARATORS,
        rare=True)  # fmt: skip
    encoding: str | None = flag()
    most_bytes: int = flag()


def _class_weight(text: str) -> Any:
    """What ``with_class_weights`` takes, from ``balanced`` or ``LABEL=NUMBER,...``."""
    try:
        pairs = [] if text == "balanced" else [each.rpartition("=") for each in text.split(",")]
        return {label: float(weight) for label, _, weight in pairs} or text
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected balanced or LABEL=NUMBER,..., got {text:.60}") from None


def _scheme(name: str) -> str:
    return SAME.get(name.lower(), name.lower())


def _read_scheme() -> Any:
    text = f"{', '.join(SCHEMES)}: read chunks in this scheme alone (default: in any)"
    return option("data", text, choices=SCHEMES, type=_scheme, rare=True)


def _partial() -> Any:
    text = "labels are partly known: _ is none, A|B one of several (log loss by lbfgs or sgd)"
    return option("data", text, action="store_true", rare=True)


class Train(tag_paths.Penalised, executors.Cluster, Sparse, Solved, Training, Columned):
    """Train on column files, and test on another."""

    file: list[str] = argument("several, a pattern 'train/*.txt', or - (standard input)", nargs="+")
    columns: tuple[str, ...] | None = option("data",
        "names of the columns, one of them label (default: by their number; of CoNLL-U, UPOS is the label)",
        type=lambda text: tuple(text.split(",")), metavar="A,B,...")  # fmt: skip
    partial: bool = _partial()
    test: str | None = flag()
    start: str | None = flag()
    templates: str | None = option("model",
        f"{', '.join(TOKEN_TEMPLATES)}, or a file: TOML with templates = [...], or of CRF++ or wapiti (recognised, "
        "or crfpp:FILE, wapiti:FILE), or items: the files are those of crfsuite (default: chunks, or words without a "
        "column tag)", metavar="T")  # fmt: skip
    bits: int | None = option("model",
        "hash attributes, to 2^bits weights if all pairs have one (default: a vocabulary)", rare=True)  # fmt: skip
    pairs: str | None = option("model", "attribute-label pairs with a weight (default: observed)",
        choices=("observed", "all"), rare=True)  # fmt: skip
    least: int | None = option("model", "only attributes that occur at least N times (default: 1)", metavar="N",
        rare=True)  # fmt: skip
    transitions: str | None = option("model",
        f"{', '.join(SCHEMES)}: forbid others; or a TOML file of rules: {RULES}", metavar="T",
        type=_scheme)  # fmt: skip
    class_weight: Any = option("model",
        "hinge, softmax-margin: costs of tokens by their label: balanced, inverse to how often it occurs, or "
        "LABEL=NUMBER for each, separated by commas (default: 1)", type=_class_weight, metavar="W",
        rare=True)  # fmt: skip
    segments: int | None = option("model",
        "chunks are segments of up to W tokens, with features of their own: a file of --templates may have S lines, or "
        "segments = [...] (default: labels of tokens)", type=positive, metavar="W", rare=True)  # fmt: skip
    scheme: str | None = _read_scheme()
    learner: str = option("model", "linear, or sparse-crf: few weights (default: linear)",
        choices=("linear", "sparse-crf"), default="linear", rare=True)  # fmt: skip
    optimizer: str | None = option("solver",
        "(default: lbfgs for crf, sgd for hinge; of hinge over partitions cutting-planes or, with --pairs all, cocoa)",
        choices=OPTIMIZERS)  # fmt: skip
    lam: float | None = flag("default: 2/n, which is crfsuite's c2 = 1")
    epochs: int | None = flag("of sparse-crf, for each beta")
    tol: float | None = flag(f"default of exponentiated-gradient: {TOL}, of l1: 1e-5, of sparse-crf: 1e-6")
    solver: dict[str, Any] = solver_options(OPTIMIZERS, without=("mu", "k", "l1"))

    def run(self, panel: ModuleType) -> Report:
        over = self.over_partitions
        if over and self.partial:
            raise ValueError("--partial: files are read at once for that, not in partitions")
        if self.bits is not None and self.least is not None:
            raise ValueError("--least has no effect with --bits: hashed attributes have no vocabulary")
        job = self._job() if self.learner == "linear" else learner_job(self, "sparse-crf", SparseJob)
        self.check_over(job.optimizer if isinstance(job, Job) else OPTIMIZERS[0], "limit")
        model, w0, layout = self._start(panel)
        if self.segments is not None or _of_segments(model):
            self._check_segments(job)
        with (self._partitions if over else self._sentences)(panel, job, layout, model) as ready:
            w, fit = self._fit(panel, job, ready, w0)
            report = fit.fields | {"columns": ready.layout.columns, "labels": ready.model.labels}
            report["train"] = None if over and report["interrupted"] else ready.scored(w)
        scored = partial(_scores, ready.model, w, scheme=self.scheme, partly=self.partial)
        report["test"] = None if ready.test is None else scored(ready.test)
        report.setdefault("seconds", time.perf_counter() - ready.started)
        lines = [] if report["train"] is None else tagging_lines("train", report["train"], types=False)
        lines += [] if report["test"] is None else tagging_lines("test", report["test"])
        return fit._replace(fields=report, lines=[*fit.lines, *lines])

    def _fit(self, panel: ModuleType, job: Any, ready: Ready, w0: np.ndarray | None) -> tuple[np.ndarray, Report]:
        """Train by one solver, along a path of l1, or a sparse CRF."""
        file, model, over = ", ".join(self.file), ready.model, isinstance(ready.data, Partitioned)
        what, info = {"file": file, "sentences": ready.n}, {"file": file, **tag_files.info_of(ready.layout)}
        of = f"{ready.n} sentences of {file}"
        if isinstance(job, SparseJob):
            part = partial(sequences_of, ready.data)
            w, fit = SparseRun(panel, self, job, what, lambda examples: panel.LogLoss(model, part(examples)), ready.n,
                info, partial(without_zeros, model))()  # fmt: skip
            return w, fit._replace(lines=[f"sparse CRF on {of}", *fit.lines])
        job = self.job_on(job, ready.n)
        objective = ready.data if over else job.loss_in(panel)(model, ready.data)
        what |= {"start": self.start, "job": job.as_dict()}
        info = {"file": file, "start": self.start, **info, **job.as_dict()}
        if self.path is not None:
            w, fit = tag_paths.PathRun(panel, self, job, objective, what, info, ready.dev)()
            return w, fit._replace(fields=fit.fields | ready.report, lines=[of, *fit.lines])
        kept = {"kept": without_zeros} if job.optimizer == "elastic-net" else {}
        run, split = partial(train, panel, job, objective, w0=w0), objective if over else None
        result, report = trained(panel, self, what, job.epochs or 0, run, model, info, split, **kept)
        report |= {"weights": model.size, "seconds": time.perf_counter() - ready.started, **ready.report}
        first = f"{of}: {model.size} weights, objective {result.fun:.6f}, "
        if kept:
            report |= {"nonzeros": int(np.count_nonzero(result.x))}
            first += f"gap {result.certificate:.1e}, {report['nonzeros']} of the weights not 0, "
        lines = [f"{first}{report['seconds']:.2f} seconds", *([executors.line_of(report)] if over else [])]
        return result.x, Report(report, lines, curve(panel, result, job.title))

    @contextmanager
    def _sentences(self, panel: ModuleType, job: Any, layout: Layout, model: Any) -> Iterator[Ready]:
        """The sentences of all files, packed together."""
        files = tag_files.paths_of(self.file)
        layout, training, _ = tag_files.labelled(files[0], layout, self.most_bytes)
        known = {label for sentence in training for label in sentence["label"]}
        for path in files[1:]:
            training = training + tag_files.labelled(path, layout, self.most_bytes, known=known).sentences
        test = self._test(layout, known)
        training = spread(training, self.limit)
        started = time.perf_counter()
        attributes: Any = training
        Y = [partly_known(sentence) if self.partial else sentence["label"] for sentence in training]
        with named(training):
            templates = () if model is not None else tag_files.templates_of(self, layout, len(training))
            of_segments = () if model is not None else tag_files.segment_templates_of(self, layout)
            if self.segments is not None:
                settings = {"least": max(self.least or 1, 1), "pairs": self.pairs or "observed"}
                settings |= {"longest": self.segments, "segment_templates": of_segments}
                model = panel.ChunkingModel.of(training, Y, templates, **settings)
            elif model is None:
                attributes = attributes_of(training, templates and check_templates(templates))
                settings = self._pairs
                check_scheme(settings["transitions"], map(labels_in, Y))
                with rules_named(self.transitions):
                    model = panel.TaggingModel.of(attributes, Y, templates, least=max(self.least or 1, 1), **settings)
                model = self._weighted(model, Counter(label for y in Y for label in labels_in(y)))
            data = model.pack(attributes, Y)
        report = {"seconds_packing": time.perf_counter() - started}
        scored = partial(_scores, model, sentences=training, scheme=self.scheme, data=data, partly=self.partial)
        yield Ready(layout, model, len(training), data, test, scored, started, report, self._dev(layout, known, model))

    @contextmanager
    def _partitions(self, panel: ModuleType, job: Any, layout: Layout, model: Any) -> Iterator[Ready]:
        """The objective over partitions of the files."""
        files, paths, parts = self.files(self.file)
        layout, sample, _ = tag_files.labelled(paths[0], layout, self.most_bytes, parts[0])
        known = {label for sentence in sample for label in sentence["label"]}
        test = self._test(layout, known)
        each = zip(paths, parts, strict=True)
        loaders = [x for path, n in each for x in column_parts([path], n, layout, most_bytes=self.most_bytes)]
        few, started = sample[:FEW], time.perf_counter()
        Y = [sentence["label"] for sentence in few]
        templates = () if model is not None else tag_files.templates_of(self, layout, None)
        settings = self._pairs
        own = {} if isinstance(settings["transitions"], str) else {"transitions": None}  # a few have not all labels
        with named(few):
            small = model or panel.TaggingModel.of(few, Y, templates, **settings | own)

        def model_of(executor: Any) -> Any:
            least = max(self.least or 1, 1)
            with rules_named(self.transitions):
                return model or self._weighted(
                    tagging_model(panel, loaders, templates, executor, least=least, **settings)
                )

        run = partial(train, panel, self.job_on(replace(job, epochs=1), 1, l1=1.0))
        rehearsal = executors.Rehearsal(small, job.loss_in(panel), run, few, Y)
        with self.partitioned(panel, rehearsal, model_of, lambda _: loaders) as objective:
            dev, score = self._dev(layout, known, objective.model), partial(of_partition, scheme=self.scheme)

            def scored(w: np.ndarray) -> dict[str, Any]:
                return tagging_scores(objective.sum_of(score, w))

            found = {"files": files}
            yield Ready(layout, objective.model, objective.n, objective, test, scored, started, found, dev)

    @property
    def _pairs(self) -> dict[str, Any]:
        """The settings of a new model."""
        rules = self.transitions if self.transitions in (None, *SCHEMES) else load_rules(str(self.transitions))
        return {"bits": self.bits, "pairs": self.pairs or "observed", "transitions": rules}

    def _weighted(self, model: Any, times: Counter[str] | None = None) -> Any:
        """The model with the weights of its labels; times: how often each occurs, None over partitions."""
        if self.class_weight is None:
            return model
        counts = None if times is None else [times[label] for label in model.labels]
        try:
            return with_class_weights(model, self.class_weight, counts)
        except ValueError as problem:
            raise ValueError(str(problem).replace("class_weight", "--class-weight", 1)) from None

    def _start(self, panel: ModuleType) -> tuple[Any, np.ndarray | None, Layout]:
        """The saved model to start from (or None), its weights (or None), and the layout of the files."""
        if self.start is None:
            return None, None, tag_files.told_layout(self)
        settings = ("columns", "templates", "segments", "bits", "pairs", "least", "transitions", "class_weight")
        refuse(vars(self), settings, "with --start: the saved model has its own")
        return _tagger(panel, self.start, self)

    def _test(self, layout: Layout, known: set[str]) -> list[Columns] | None:
        return tag_files.labelled(self.test, layout, self.most_bytes, known=known).sentences if self.test else None

    def _dev(self, layout: Layout, known: set[str], model: Any) -> Callable[[np.ndarray], dict[str, Any]] | None:
        """The scores on the development file, from weights."""
        if self.dev is None:
            return None
        sentences = tag_files.labelled(self.dev, layout, self.most_bytes, known=known).sentences
        with named(sentences):
            data = model.pack(sentences)
        return partial(_scores, model, sentences=sentences, scheme=self.scheme, data=data, partly=self.partial)

    def _check_segments(self, job: Any) -> None:
        """Raise ValueError for what models of segments do not have."""
        why = "with segments" if self.segments is None else "with --segments"
        refuse(vars(self), ("bits", "transitions", "class_weight"), why)
        for name, has in {
            "--partial": self.partial,
            "--templates items": self.templates == "items",
            f"--learner {self.learner}": not isinstance(job, Job),
            "partitions (--workers, --partitions, ...)": self.over_partitions,
            "--optimizer elastic-net (--l1, --c1, --path)": getattr(job, "optimizer", "") == "elastic-net",
        }.items():
            if has:
                raise ValueError(f"{name}: not {why}")

    def _job(self) -> Job:
        """The job, with this command's defaults."""
        others = (name for name in SPARSE_OPTIONS if name not in ("path", "ratio"))
        refuse(vars(self), others, "without --learner sparse-crf")
        if self.loss in (None, "crf"):
            refuse(vars(self), ["class_weight"], "with --loss crf, which has no costs")
        usual, hinge, command = self.usual_optimizer, "sgd", self
        if self.path is not None:
            refuse(vars(self), ["start"], "with --path, which starts where all weights are 0")
        if self.over_partitions:
            all_pairs = self.pairs == "all" and self.transitions is None and self.start is None
            hinge = "cocoa" if all_pairs else "cutting-planes"
        solver = self.optimizer or (hinge if self.loss == "hinge" else usual)
        if self.tol is None and solver == "exponentiated-gradient":
            command = replace(self, solver={**self.solver, "tol": TOL})
        job = job_of(command, OPTIMIZERS, optimizer=solver, start_stop=False)
        if self.start is not None:
            check_start(job.optimizer, OPTIMIZERS)
        return job


class Evaluate(Columned, Saved):
    """Accuracy and chunks of a saved tagger on a column file."""

    file: str = argument("- is standard input")
    scheme: str | None = _read_scheme()
    partial: bool = _partial()
    limit: int | None = flag()

    def run(self, panel: ModuleType) -> Report:
        model, w, layout = _tagger(panel, self.model, self)
        found = tag_files.labelled(self.file, layout, self.most_bytes, known=model.token_labels)
        sentences = spread(found.sentences, self.limit)
        scores = _scores(model, w, sentences, self.scheme, partly=self.partial)
        report = {"file": self.file, "sentences": len(sentences), **scores}
        return Report(report, tagging_lines(f"{len(sentences)} sentences:", scores))


class Errors(Columned, Saved):
    """Mistakes of a saved tagger on a column file: labels taken for others, words, the worst sentences."""

    file: str = argument("- is standard input")
    limit: int | None = flag()
    top: int = flag("default: 10", default=10)
    plot: str | None = flag("how often each label is taken for which")

    def run(self, panel: ModuleType) -> Report:
        model, w, layout = _tagger(panel, self.model, self)
        found = tag_files.labelled(self.file, layout, self.most_bytes, known=model.token_labels)
        sentences = spread(found.sentences, self.limit)
        with named(sentences):
            predicted = model.predict(model.pack(sentences), None, w)
        report: dict[str, Any] = {"file": self.file, "sentences": len(sentences)}
        report |= tag_answers.mistakes(sentences, list(map(model.named, predicted)))
        lines = tag_answers.mistake_lines(report, self.top)
        return Report(report, lines, partial(plots.confusions, confusions=report["confusions"], title=self.file))


class Predict(Columned, Saved):
    """Tag sentences by a saved tagger: their columns, and the label found, a line for each token; CoNLL-U stays as
    it is but for the column of labels.
    """

    file: list[str] = argument(
        "columns as for training, labels are not looked at; - is standard input; of several files or a pattern "
        "'new/*.txt', each is tagged into the folder --out, but for those that are there", nargs="+")  # fmt: skip
    tokens: bool = option("data",
        "read a sentence from each line, words between blanks; for a model that uses words alone",
        action="store_true")  # fmt: skip
    known: bool = option("data",
        "keep what the file's column of labels has, and tag the rest: _ is no label, A|B one of several",
        action="store_true", rare=True)  # fmt: skip
    limit: int | None = flag()
    out: str | None = flag()
    top: int | None = flag("best label sequences of a sentence, above it as '# labels = SCORE: LABELS'")
    probabilities: bool = option("output",
        "add each label's probability, as a last column; in CoNLL-U as a comment; meaningful for a tagger trained "
        "with --loss crf", action="store_true")  # fmt: skip
    format: str | None = option("output",
        f"jsonl: a line of JSON for each sentence; {', '.join(SCHEMES)}: the file with labels of this scheme "
        "(default: the file with the model's labels)", choices=("jsonl", *SCHEMES), type=_scheme)  # fmt: skip
    workers: int | None = option("workers", "tag with N processes of this machine", type=positive)

    @property
    def written(self) -> list[str | None]:
        return [None if tag_files.are_many(self.file) else self.out, None]

    def run(self, panel: ModuleType) -> Report:
        many, paths = tag_files.are_many(self.file), tag_files.paths_of(self.file)
        if many and self.out is None:
            raise ValueError("--out: several files are tagged into a folder; give one")
        if self.json and self.format == "jsonl":
            raise ValueError("--json: prints one object, --format jsonl a line for each sentence; give one of both")
        model, w, layout = _tagger(panel, self.model, self)
        if self.known and _of_segments(model):
            raise ValueError(f"--known: {self.model} has a model of segments, which tags whole sentences")
        if many:
            return tag_files.write_each(self, paths, lambda path: self._tagged(path, model, w, layout))
        tagged, text, codec = self._tagged(paths[0], model, w, layout)
        return Report({"sentences": tagged}, [text], out=self.out, codec=codec, end="")

    def _tagged(self, path: str, model: Any, w: np.ndarray, layout: Layout) -> tuple[list[dict[str, Any]], str, str]:
        """The sentences of a file with their labels, the text to write and its encoding."""
        found = tag_files.untagged(path, layout, model, self.tokens, self.most_bytes)
        chosen = limited(len(found.sentences), self.limit)
        sentences = [found.sentences[i] for i in chosen]
        if self.known and (self.tokens or "label" not in sentences[0]):
            raise ValueError(f"--known: {path} has no column of labels")
        how = self.top, self.probabilities, self.known
        if self.workers is None:
            tagged = tag_answers.answers(model, w, sentences, *how)
        else:
            panel = type(model).__module__.partition(".")[0]
            file = self.model, panel, self.most_bytes
            tagged = tag_answers.answers_of_processes(file, sentences, self.workers, *how)
        if self.format == "jsonl":
            return tagged, tag_answers.json_lines(tagged), "utf-8"
        if self.format is not None:
            tag_answers.in_scheme(tagged, self.format)
        if self.tokens:
            return tagged, "".join(f"{line}\n" for each in tagged for line in _tagged_lines(each)), "utf-8"
        return tagged, *tagged_text(path, found, dict(zip(chosen, tagged, strict=True)), most_bytes=self.most_bytes)


def _tagged_lines(each: dict[str, Any]) -> list[str]:
    """A sentence as a block of lines, which the scorers of the shared tasks can read."""
    columns = [*each["columns"].values(), each["labels"]]
    if "probabilities" in each:
        columns.append([f"{p:.4f}" for p in each["probabilities"]])
    return [*best_lines(each), *(" ".join(token) for token in zip(*columns, strict=True)), ""]


def _tagger(panel: ModuleType, path: str, command: Any) -> tuple[Any, np.ndarray, Layout]:
    """A saved model, its weights, and the layout of the file that it was trained on."""
    model, w, info = loaded(panel, command, _check_kind, path)
    return model, w, tag_files.layout_of(path, info, command)


def _of_segments(model: Any) -> bool:
    return type(model).__name__ == "ChunkingModel"


def _check_kind(path: str, model: Any, info: dict[str, Any]) -> None:
    if type(model).__name__ not in ("ChunkingModel", "TaggingModel") or "columns" not in info:
        raise ValueError(f"{Path(path)}: expected a model of tag train, got a {type(model).__name__}")
    tag_files.layout_of(path, info)


def _scores(
    model: Any, w: np.ndarray, sentences: Sequence[Columns], scheme: str | None, data: Any = None, partly: bool = False
) -> dict[str, Any]:
    """The shares of tokens and of sentences with right labels, and chunk scores or None. data: the packed sentences.
    partly: whether their labels are partly known.
    """
    with named(sentences):
        data = data or model.pack(sentences)
    predicted = list(map(model.named, model.predict(data, None, w)))
    truth = [partly_known(sentence) if partly else sentence["label"] for sentence in sentences]
    return tagging_scores(counted(truth, predicted, model.token_labels, scheme, lambda: sentences))


TASK = Task(
    "tag",
    "learn to tag tokens (chunks, named entities) from a column file, and tag them",
    "Learn the labels of tokens from a file of columns such as word, tag, label (train), score a "
    "tagger on another (evaluate), list its mistakes (errors), tag (predict), and look at its weights (show); read "
    "and write model files of crfsuite (import, export). Files: CoNLL column files, empty lines between sentences; "
    "name.zip:train.txt is a file in a zip.",
    (Train, Evaluate, Errors, Predict, show_of(_check_kind), Import, Export),
)
