"""``tag``: train a tagger on a column file, score it, tag sentences and show its weights."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from diptych.commands import cluster, tag_files
from diptych.commands.jobs import OPTIMIZERS as SOLVERS
from diptych.commands.jobs import Job, Solved, job_of, limited, loss_of, refuse_options, train
from diptych.commands.many_files import are_many, paths_of, write_each
from diptych.commands.options import Saved, Training, Words, add_task, argument, flag, option
from diptych.commands.output import Report, announce_compilation, trained
from diptych.commands.scores import counted, of_partition, tagging_lines, tagging_scores
from diptych.commands.show import add_show
from diptych.commands.solvers import check_start, solver_options
from diptych.commands.sparse_jobs import SPARSE_OPTIONS, Sparse, SparseJob, run_sparse, sparse_job
from diptych.distributed import column_parts, tagging_model
from diptych.distributed.vocabulary import check_scheme
from diptych.files.columns import SEPARATORS, Columns, Layout
from diptych.files.models import load_model
from diptych.files.sources import named
from diptych.files.tagged import tagged_text
from diptych.sparse_fits import sequences_of
from reference.arrays import host
from reference.models.schemes import SAME, SCHEMES
from reference.models.token_templates import TOKEN_TEMPLATES, attributes_of, check_templates

TOL = 1e-4
FEW = 3  # sentences of a rehearsal
OPTIMIZERS = (*(name for name in SOLVERS if name != "online-proximal"), "cocoa")


class Columned(Words):
    """How a column file is read."""

    comment: str | None = option("data", "leave out lines that start with PREFIX", metavar="PREFIX", rare=True)
    separator: str | None = option("data",
        "what is between columns (default: as the file looks, later as the model has it)", choices=SEPARATORS,
        rare=True)  # fmt: skip
    encoding: str | None = flag()
    most_bytes: int = flag()


def _scheme(name: str) -> str:
    return SAME.get(name.lower(), name.lower())


def _read_scheme() -> Any:
    text = f"{', '.join(SCHEMES)}: read chunks in this scheme alone (default: in any)"
    return option("data", text, choices=SCHEMES, type=_scheme, rare=True)


class Train(cluster.Cluster, Sparse, Solved, Training, Columned):
    """Train on column files, and test on another."""

    file: list[str] = argument("several, a pattern 'train/*.txt', or - (standard input)", nargs="+")
    columns: tuple[str, ...] | None = option("data",
        "names of the columns, one of them label (default: by their number; of CoNLL-U, UPOS is the label)",
        type=lambda text: tuple(text.split(",")), metavar="A,B,...")  # fmt: skip
    test: str | None = flag()
    start: str | None = flag()
    templates: str | None = option("model",
        f"{', '.join(TOKEN_TEMPLATES)}, or a TOML file with templates = [...] (default: chunks, or words "
        "without a column tag)", metavar="T")  # fmt: skip
    bits: int | None = option("model",
        "hash attributes, to 2^bits weights if all pairs have one (default: a vocabulary)", rare=True)  # fmt: skip
    pairs: str | None = option("model", "attribute-label pairs with a weight (default: observed)",
        choices=("observed", "all"), rare=True)  # fmt: skip
    least: int | None = option("model", "only attributes that occur at least N times (default: 1)", metavar="N",
        rare=True)  # fmt: skip
    transitions: str | None = option("model", f"{', '.join(SCHEMES)}: forbid others", choices=SCHEMES, type=_scheme)
    scheme: str | None = _read_scheme()
    learner: str = option("model", "linear, or sparse-crf: few weights (default: linear)",
        choices=("linear", "sparse-crf"), default="linear")  # fmt: skip
    optimizer: str | None = option("solver",
        "(default: lbfgs for crf, sgd for hinge; of hinge over partitions cutting-planes or, with --pairs all, cocoa)",
        choices=OPTIMIZERS)  # fmt: skip
    lam: float | None = flag("default: 2/n, which is crfsuite's c2 = 1")
    epochs: int | None = flag("of sparse-crf, for each beta")
    tol: float | None = flag(f"default of exponentiated-gradient: {TOL}, of sparse-crf: 1e-6")
    solver: dict[str, Any] = solver_options(OPTIMIZERS, without=("mu", "k"))


class Evaluate(Columned, Saved):
    """Accuracy and chunks of a saved tagger on a column file."""

    file: str = argument("- is standard input")
    scheme: str | None = _read_scheme()
    limit: int | None = flag()


class Predict(Columned, Saved):
    """Tag sentences by a saved tagger: their columns, and the label found, a line for each token; CoNLL-U stays as
    it is but for the column of labels.
    """

    file: list[str] = argument(
        "- is standard input; labels are not looked at; of several files or a pattern 'new/*.txt', each is "
        "tagged into the folder --out, but for those that are there", nargs="+")  # fmt: skip
    tokens: bool = option("data", "the file has one tokenised sentence per line, for a model that uses words alone",
        action="store_true")  # fmt: skip
    limit: int | None = flag()
    out: str | None = flag()
    top: int | None = flag("label sequences, with scores, above each sentence")
    probabilities: bool = option("output",
        "probability of each predicted label under exp(score), as a last column; in CoNLL-U as a comment",
        action="store_true")  # fmt: skip

    @property
    def written(self) -> list[str | None]:
        return [None if are_many(self.file) else self.out, None]


def add(commands: Any) -> None:
    """Add the command ``tag`` to the subparsers of the command line."""
    action = add_task(commands, "tag",
        "learn to tag tokens (chunks, named entities) from a column file, and tag them",
        "Learn the labels of tokens from a file of columns such as word, tag, label (train), score a "
        "tagger on another (evaluate), tag (predict), and look at its weights (show). Files: CoNLL column "
        "files, empty lines between sentences; name.zip:train.txt is a file in a zip.")  # fmt: skip
    action("train", _train, Train)
    action("evaluate", _evaluate, Evaluate)
    action("predict", _predict, Predict)
    add_show(action, _columns_of)


# training -----------------------------------------------------------------------------------------------------------


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


def _train(panel: ModuleType, command: Train) -> Report:
    files, file, over = paths_of(command.file), ", ".join(command.file), command.over_partitions
    if command.bits is not None and command.least is not None:
        raise ValueError("--least has no effect with --bits: hashed attributes have no vocabulary")
    job = _job(command) if command.learner == "linear" else sparse_job(command)
    cluster.check_over(command, job.optimizer if isinstance(job, Job) else OPTIMIZERS[0], "limit")
    model, w0, layout = _start(panel, command)
    with ExitStack() as stack:
        if over and isinstance(job, Job):
            ready = _partitions(panel, command, job, files, layout, model, stack)
        else:
            ready = _sentences(panel, command, files, layout, model)
        what, columns, finished = {"file": file, "sentences": ready.n}, tag_files.info_of(ready.layout), True
        if isinstance(job, SparseJob):
            fit = run_sparse(panel, command, job, what, _losses(panel, ready), ready.n, {"file": file, **columns},
                partial(_without_zeros, panel, ready.model))  # fmt: skip
            w, report, lines = fit.w, fit.report, [f"sparse CRF on {ready.n} sentences of {file}", *fit.lines]
            curves, title = None, ""
        else:
            objective, job = ready.data if over else loss_of(panel, job, ready.model, ready.data), job.over(ready.n)
            run = partial(train, panel, job, objective, w0=w0)
            what |= {"start": command.start, "job": job.as_dict()}
            info = {"file": file, "start": command.start, **columns, **job.as_dict()}
            partitioned = objective if over else None
            result, report = trained(panel, command, what, job.epochs or 0, run, ready.model, info, partitioned)
            report |= {"weights": ready.model.size, "seconds": time.perf_counter() - ready.started, **ready.report}
            first = f"{ready.n} sentences of {file}: {ready.model.size} weights, objective {result.fun:.6f}, "
            lines = [f"{first}{report['seconds']:.2f} seconds", *([cluster.line_of(report)] if over else [])]
            w, finished = result.x, not (over and result.interrupted)
            curves, title = {panel.__name__: result.history}, f"{job.loss}, {job.optimizer}, lam = {job.lam:g}"
        report |= {"columns": ready.layout.columns, "labels": ready.model.labels}
        report["train"] = ready.scored(w) if finished else None
    report["test"] = None if ready.test is None else _scores(command, ready.model, w, ready.test)
    report.setdefault("seconds", time.perf_counter() - ready.started)
    lines += [] if report["train"] is None else tagging_lines("train", report["train"], types=False)
    lines += [] if report["test"] is None else tagging_lines("test", report["test"])
    return Report(report, lines, curves, title)


def _sentences(panel: ModuleType, command: Train, files: list[str], layout: Layout, model: Any) -> Ready:
    """The sentences of all files, packed together."""
    layout, training, _ = tag_files.labelled(files[0], layout, command.most_bytes)
    known = _labels(training)
    for path in files[1:]:
        training = training + tag_files.labelled(path, layout, command.most_bytes, known=known).sentences
    test = _to_test(command, layout, known)
    training = [training[i] for i in limited(len(training), command.limit)]
    announce_compilation(panel, command.quiet)
    started = time.perf_counter()
    attributes: Any = training
    Y = [sentence["label"] for sentence in training]
    if model is None:
        templates = _templates(command, layout, len(training))
        settings = {"bits": command.bits, "pairs": command.pairs or "observed", "least": max(command.least or 1, 1)}
        with named(training):
            attributes = attributes_of(training, check_templates(templates))
            check_scheme(command.transitions, Y)
            model = panel.TaggingModel.of(attributes, Y, templates, transitions=command.transitions, **settings)
    with named(training):
        data = model.pack(attributes, Y)
    report = {"seconds_packing": time.perf_counter() - started}
    scored = partial(_scores, command, model, sentences=training, data=data)
    return Ready(layout, model, len(training), data, test, scored, started, report)


def _partitions(
    panel: ModuleType, command: Train, job: Job, files: list[str], layout: Layout, model: Any, stack: ExitStack
) -> Ready:
    """The objective over partitions of the files."""
    paths, parts = cluster.for_workers(command, files), cluster.parts_a_file(command, len(files))
    layout, sample, _ = tag_files.labelled(paths[0], layout, command.most_bytes, parts[0])
    test = _to_test(command, layout, _labels(sample))
    loaders = [
        loader
        for path, many in zip(paths, parts, strict=True)
        for loader in column_parts([path], many, layout, most_bytes=command.most_bytes)
    ]
    few, small, started = sample[:FEW], model, time.perf_counter()
    Y = [sentence["label"] for sentence in few]
    settings: dict[str, Any] = {"bits": command.bits, "pairs": command.pairs or "observed"}
    settings["transitions"] = command.transitions
    templates = () if model is not None else _templates(command, layout, None)
    if model is None:
        with named(few):
            small = panel.TaggingModel.of(few, Y, templates, **settings)

    def model_of(executor: Any) -> Any:
        least = max(command.least or 1, 1)
        return model or tagging_model(panel, loaders, templates, executor, least=least, **settings)

    loss = cluster.loss_over(panel, job)
    rehearsal = cluster.Rehearsal(small, loss, partial(train, panel, replace(job, epochs=1).over(1)), few, Y)
    objective = stack.enter_context(cluster.partitioned(panel, command, loss, rehearsal, model_of, lambda _: loaders))
    score = partial(of_partition, scheme=command.scheme)

    def scored(w: np.ndarray) -> dict[str, Any]:
        return tagging_scores(objective.sum_of(score, w))

    return Ready(layout, objective.model, objective.n, objective, test, scored, started, {"files": files})


def _losses(panel: ModuleType, ready: Ready) -> Callable[[np.ndarray], Any]:
    """The log loss of some examples, from their indices."""
    return lambda examples: panel.LogLoss(ready.model, sequences_of(ready.data, examples))


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


def _start(panel: ModuleType, command: Train) -> tuple[Any, np.ndarray | None, Layout]:
    """The saved model to start from (or None), its weights (or None), and the layout of the files."""
    if command.start is None:
        return None, None, tag_files.told_layout(command)
    for name in ("columns", "templates", "bits", "pairs", "least", "transitions"):
        if getattr(command, name) is not None:
            raise ValueError(f"--{name} has no effect with --start: the saved model has its own")
    return _tagger(panel, command.start, command)


def _to_test(command: Train, layout: Layout, known: set[str]) -> list[Columns] | None:
    return tag_files.labelled(command.test, layout, command.most_bytes, known=known).sentences if command.test else None


def _labels(sentences: list[Columns]) -> set[str]:
    return {label for sentence in sentences for label in sentence["label"]}


def _templates(command: Train, layout: Layout, sentences: int | None) -> tuple[str, ...]:
    """The templates that are given, or those for the columns; what was inferred is said."""
    file = ", ".join(command.file)
    name, templates = tag_files.templates_of(command.templates, file, layout.columns or ())
    tag_files.say_read(command, file, layout, sentences, name)
    return templates


def _job(command: Train) -> Job:
    """The job, with this command's defaults."""
    refuse_options(command, SPARSE_OPTIONS, "sparse-crf")
    usual, hinge = "lbfgs", "sgd"
    if command.over_partitions:
        all_pairs = command.pairs == "all" and command.transitions is None and command.start is None
        hinge = "cocoa" if all_pairs else "cutting-planes"
    solver = command.optimizer or (usual if command.loss in (None, "crf") else hinge)
    if command.tol is None and solver == "exponentiated-gradient":
        command = replace(command, solver={**command.solver, "tol": TOL})
    job = job_of(command, OPTIMIZERS, optimizer=solver, start_stop=False)
    if command.start is not None:
        check_start(job.optimizer, OPTIMIZERS)
    return job


def _evaluate(panel: ModuleType, command: Evaluate) -> Report:
    model, w, layout = _tagger(panel, command.model, command)
    sentences = tag_files.labelled(command.file, layout, command.most_bytes, known=model.labels).sentences
    sentences = [sentences[i] for i in limited(len(sentences), command.limit)]
    announce_compilation(panel, command.quiet)
    scores = _scores(command, model, w, sentences)
    report = {"model": str(command.model), "file": command.file, "sentences": len(sentences), **scores}
    return Report(report, tagging_lines(f"{len(sentences)} sentences:", scores))


def _predict(panel: ModuleType, command: Predict) -> Report:
    many, paths = are_many(command.file), paths_of(command.file)
    if many and command.out is None:
        raise ValueError("--out: several files are tagged into a folder; give one")
    model, w, layout = _tagger(panel, command.model, command)
    announce_compilation(panel, command.quiet)
    report: dict[str, Any] = {"model": str(command.model)}
    if many:
        return write_each(command, paths, report, lambda path: _tagged(command, path, model, w, layout))
    tagged, text, codec = _tagged(command, paths[0], model, w, layout)
    return Report(report | {"sentences": tagged}, [text], out=command.out, codec=codec, end="")


def _tagged(
    command: Predict, path: str, model: Any, w: np.ndarray, layout: Layout
) -> tuple[list[dict[str, Any]], str, str]:
    """The sentences of a file with their labels, the text to write and its encoding."""
    found = tag_files.untagged(path, layout, model, command.tokens, command.most_bytes)
    chosen = limited(len(found.sentences), command.limit)
    sentences = [found.sentences[i] for i in chosen]
    with named(sentences):
        data = model.pack(sentences)
    tagged: list[dict[str, Any]] = [
        {"columns": sentence, "labels": [model.labels[i] for i in labels]}
        for sentence, labels in zip(sentences, model.predict(data, None, w), strict=True)
    ]
    for piece in model.chunks(data, np.arange(data.n)) if command.top or command.probabilities else ():
        structure = model.structure_type.unchecked(model.scores(data, piece, w))
        if command.top:
            _add_best(model, structure.topk(command.top), [tagged[i] for i in piece])
        if command.probabilities:
            marginals = host(structure.expectation()[1].unary)
            for each, p in zip((tagged[i] for i in piece), marginals, strict=True):
                each["probabilities"] = [float(p[t, model.labels.index(y)]) for t, y in enumerate(each["labels"])]
    if command.tokens:
        return tagged, "".join(f"{line}\n" for each in tagged for line in _tagged_lines(each)), "utf-8"
    return tagged, *tagged_text(path, found, dict(zip(chosen, tagged, strict=True)), most_bytes=command.most_bytes)


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


def _tagger(panel: ModuleType, path: str, command: Any) -> tuple[Any, np.ndarray, Layout]:
    """A saved model, its weights, and the layout of the file that it was trained on."""
    model, w, info = load_model(path, panel, most_bytes=command.most_bytes)
    return model, w, _layout_of(path, model, info, command)


def _columns_of(path: str, model: Any, info: dict[str, Any]) -> tuple[str, ...]:
    """The names of the columns that a tagger was trained on; ValueError for another model."""
    return _layout_of(path, model, info).columns or ()


def _layout_of(path: str, model: Any, info: dict[str, Any], command: Any = None) -> Layout:
    if type(model).__name__ != "TaggingModel" or "columns" not in info:
        raise ValueError(f"{Path(path)}: expected a model of tag train, got a {type(model).__name__}")
    return tag_files.layout_of(path, info, command)


def _scores(
    command: Train | Evaluate, model: Any, w: np.ndarray, sentences: list[Columns], data: Any = None
) -> dict[str, Any]:
    """The shares of tokens and of sentences with right labels, and chunk scores (None unless all are chunk labels).

    data: the packed sentences, if available.
    """
    with named(sentences):
        data = data or model.pack(sentences)
    predicted = [[model.labels[i] for i in y] for y in model.predict(data, None, w)]
    truth = [sentence["label"] for sentence in sentences]
    return tagging_scores(counted(truth, predicted, model.labels, command.scheme, lambda: sentences))
