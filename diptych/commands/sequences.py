"""``train``, ``evaluate``, ``predict`` and ``show`` of sequence labellers; ``compare`` and ``demo`` run both panels."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from tqdm import tqdm

from diptych.commands import executors, jobs, learners
from diptych.commands.learners import KernelJob, Kernels, Sparse, SparseJob, SparseRun
from diptych.commands.options import Command, Saved, Training, argument, flag, option, refuse
from diptych.commands.output import Progress, Report, announce_compilation, curve, ending, outcome, say, trained, whole
from diptych.commands.scores import of_partition, shares_of
from diptych.commands.show import checked, show_of
from diptych.commands.solvers import check_start, epochs_of, listed, solver_options
from diptych.distributed import SequenceFile, sequence_model
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
DRAWN = 24  # words of a picture


class Data(Command):
    """Sequences, or a fold of them."""

    data: str = argument("'letters', or a sequence file (.npz)")
    fold: int | None = option("data", "only the sequences of this fold", metavar="N")
    reverse: bool = False
    limit: int | None = flag()
    most_bytes: int = flag()

    def read(self, labelled: bool = True, fitting: tuple[Any, ...] = (), fold: int | None = None) -> Sequences:
        """The sequences, at most ``--limit``, of a fold. fitting: a model that they fit, its file, maybe weights."""
        data = jobs.load(self.data, labelled=labelled, most_bytes=self.most_bytes)
        if fitting:
            self.check_features(data, *fitting)
            data = relabelled(self.data, data, fitting[0].labels)
        data = data if self.limit is None else data.take(jobs.limited(len(data.X), self.limit))
        return data if fold is None else data.split(fold)[1]

    def say_labels(self, labels: tuple[str, ...]) -> None:
        """Print on stderr which integers are labels, unless they are 0..L-1 or --quiet is given."""
        if not self.quiet and (others := numbered(labels)):
            print(f"{self.data}: {others}", file=sys.stderr)

    def check_features(self, data: Sequences, model: Any, path: str, w: Any = None) -> None:
        """Raise ValueError if the model at ``path`` does not label sequences, or if the data have other features. A
        model with kernels is accepted only with its weights w.
        """
        if isinstance(w, KernelWeights):
            features = model.width(w)
        elif type(model).__name__ == "MulticlassModel" or hasattr(model, "start_stop"):
            features = model.n_features - getattr(model, "intercept", False)
        else:
            raise ValueError(f"{path} holds a {type(model).__name__}; expected a SequenceModel or a MulticlassModel")
        wrong = next((x.shape[1] for x in data.X if x.shape[1] != features), None)
        if wrong is not None:
            raise ValueError(f"{self.data} has {wrong} features, {path} was trained on {features}")


class Split(jobs.Regularized, jobs.Solved, Data):
    """Sequences to train on, others to test on, and how."""

    data: str = argument("'letters', a sequence file or, over partitions, '*.npz'")
    fold: int | None = option("data", "train on the other folds, test on this one", metavar="N")
    reverse: bool = option("data", "with --fold: train on this fold, test on the others", action="store_true")
    loss: str | None = option("solver", "crf: log loss, hinge, softmax-margin: log loss with costs (default: crf; "
        "of mkl: hinge)", choices=jobs.LOSSES)  # fmt: skip
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

    def split(self, data: Sequences) -> tuple[Sequences, Sequences | None]:
        """The training data, and the test data or None; both have labels to score."""
        self.say_labels(data.labels)
        training, test = (data, None) if self.fold is None else data.split(self.fold, reverse=self.reverse)
        jobs.check_scorable(self.data, *(part for part in (training, test) if part is not None))
        return training, test


class Train(executors.Cluster, Sparse, Kernels, Split, Training):
    """Train a sequence labeller and report objective, accuracy and seconds."""

    positions: bool | None = option("solver",
        "make each position an example of its own, without transitions; needed by --rule l2-gap and half-space",
        action="store_true", default=None, rare=True)  # fmt: skip
    start: str | None = flag()

    def run(self, panel: ModuleType) -> Report:
        usual = "sgd" if not self.over_partitions else "cocoa" if self.loss == "hinge" else "lbfgs"
        self.check_over(self.optimizer or usual, "limit", "fold")
        for other, names in (("mkl", learners.KERNEL_OPTIONS), ("sparse-crf", learners.SPARSE_OPTIONS)):
            if self.learner != other:
                refuse(vars(self), names, f"without --learner {other}")
        if self.learner == "mkl":
            if self.start is not None:
                raise ValueError("--start: mkl starts from 0; --resume goes on from a checkpoint")
            job = jobs.learner_job(self, "mkl", KernelJob, "checkpoint", "resume")
            return learners.train_kernels(panel, self, job, *self.split(self.read()))
        if self.learner == "sparse-crf":
            return self._sparse(panel, jobs.learner_job(self, "sparse-crf", SparseJob), *self.split(self.read()))
        return self._linear(panel, usual)

    def _linear(self, panel: ModuleType, usual: str) -> Report:
        over = self.over_partitions
        job = jobs.job_of(self, OVER if over else jobs.OPTIMIZERS, optimizer=usual)
        model, w0 = (None, None) if self.start is None else self._start(panel, job)
        job = job if model is None else replace(job, start_stop=model.start_stop)
        started, opened = time.perf_counter(), self._partitions(panel, job, model) if over else None
        if opened is None:
            training, test = self.split(self.read(fitting=() if model is None else (model, self.start)))
            _warm_up(panel, job.over(len(training.X)), training)
            started = time.perf_counter()
            opened = nullcontext(jobs.objective_of(panel, job, training, model))
        with opened as objective:
            job = job.over(objective.n)
            fold = {} if over else {"fold": self.fold}
            what: dict[str, Any] = {"data": self.data, "sequences": objective.n, **fold}
            what |= ({} if over else {"reverse": self.reverse}) | {"start": self.start, "job": job.as_dict()}
            run, model = partial(jobs.train, panel, job, objective, w0=w0), objective.model
            info = {"data": self.data, **fold, "start": self.start, **job.as_dict()}
            result, report = trained(panel, self, what, job.epochs or 0, run, model, info, objective if over else None)
            report |= {"weights": model.size, "seconds_in_all": time.perf_counter() - started}
            first = f"{job.loss} by {job.optimizer} on {self.data}: {objective.n} sequences"
            if over:
                report |= {"files": self.files([self.data], "letters")[0], "labels": model.labels, "train": None}
                lines = [executors.line_of(report)]
                if not result.interrupted:
                    report["train"] = shares_of(objective.sum_of(of_partition, result.x), "letter", "word")
                    lines.append(jobs.accuracy_line("train", report["train"]))
                spent = report["seconds_in_all"]
            else:
                spent, epochs = (result.history[-1].seconds, result.history[-1].epoch) if result.history else (0.0, 0)
                report |= {"iterate": result.iterate, "seconds": spent, "nonzeros": int(np.count_nonzero(result.x))}
                report |= jobs.accuracies(model, result.x, training, test)
                first, lines = f"{first}, {epochs} epochs ({result.iterate} iterate)", jobs.accuracy_lines(report)
                if job.optimizer == "online-proximal":
                    lines.append(f"weights {report['nonzeros']} of {report['weights']} are not 0")
        gap = "" if isinstance(result.certificate, str) else f"    within {result.certificate:.3g} of the optimum"
        lines = [first, f"objective {result.fun:.6f}    seconds {spent:.3f}{gap}", *lines]
        return Report(report, lines, curve(panel, result, job.title))

    def _start(self, panel: ModuleType, job: jobs.Job) -> tuple[Any, np.ndarray]:
        """The saved model to start from, and its weights."""
        check_start(job.optimizer, jobs.OPTIMIZERS)
        model, w, _ = load_model(str(self.start), panel, most_bytes=self.most_bytes)
        if type(model).__name__ != "SequenceModel":
            raise ValueError(f"{self.start} holds a {type(model).__name__}; expected a SequenceModel")
        if self.start_stop is False and model.start_stop:
            raise ValueError(f"--no-start-stop: {self.start} has weights for starting and ending")
        return model, w

    def _partitions(self, panel: ModuleType, job: jobs.Job, model: Any) -> AbstractContextManager[Any]:
        """The objective over partitions of the files."""
        _, paths, parts = self.files([self.data], "letters")
        sources = [SequenceFile(path, None, self.most_bytes) for path in paths]
        small = panel.SequenceModel(2, 2, start_stop=job.start_stop)
        run = partial(jobs.train, panel, replace(job, epochs=1).over(2))
        few = [np.eye(2), np.eye(2)], [np.arange(2), np.arange(2)]
        rehearsal = executors.Rehearsal(small, job.loss_in(panel), run, *few)

        def model_of(executor: Any) -> Any:
            if model is not None:
                return model
            made = sequence_model(panel, sources, executor, start_stop=job.start_stop)
            self.say_labels(made.labels)
            return made

        def loaders_of(model: Any) -> Any:
            return parts_of([replace(each, labels=model.labels) for each in sources], parts)

        return self.partitioned(panel, rehearsal, model_of, loaders_of)

    def _sparse(self, panel: ModuleType, job: SparseJob, training: Sequences, test: Sequences | None) -> Report:
        n, started = len(training.X), time.perf_counter()
        shape = training.X[0].shape[1], training.labels
        model = panel.MulticlassModel(*shape) if job.positions else None
        model = model or panel.SequenceModel(*shape, start_stop=job.start_stop)

        def objective(examples: np.ndarray) -> Any:
            part = training.take(examples)
            each = (np.concatenate(part.X), np.concatenate(part.Y)) if job.positions else (part.X, part.Y)
            return panel.LogLoss(model, model.pack(*each))

        info = {"data": self.data, "fold": self.fold}
        what = {"data": self.data, "sequences": n, "fold": self.fold}
        w, fit = SparseRun(panel, self, job, what, objective, n, info, lambda w: (model, w))()
        report = {**fit.fields, "reverse": self.reverse, **jobs.accuracies(model, w, training, test)}
        report["seconds_in_all"] = time.perf_counter() - started
        lines = [f"sparse CRF on {self.data}: {n} sequences", *fit.lines, *jobs.accuracy_lines(report)]
        return fit._replace(fields=report, lines=lines)


class Evaluate(Data, Saved):
    """Accuracy of a saved model."""

    def run(self, panel: ModuleType) -> Report:
        model, w, info = load_model(self.model, panel, most_bytes=self.most_bytes)
        data = self.read(fitting=(model, self.model, w), fold=self.fold)
        jobs.check_scorable(self.data, data)
        announce_compilation(panel, self.quiet)
        started = time.perf_counter()
        scores = jobs.accuracy(model, w, data)
        report: dict[str, Any] = {"data": self.data, "fold": self.fold, "trained": info}
        report |= {"sequences": len(data.X), "accuracy": scores, "seconds": time.perf_counter() - started}
        return Report(report, [jobs.accuracy_line(f"{len(data.X)} sequences:", scores)])


class Predict(Data, Saved):
    """Labels that a saved model gives, a line for each sequence."""

    out: str | None = flag()
    plot: str | None = flag("of letters: draw the first words and what is read")

    def run(self, panel: ModuleType) -> Report:
        if self.plot and self.data != "letters":
            raise ValueError(f"--plot: the words of letters can be drawn, not {self.data}")
        model, w, _ = load_model(self.model, panel, most_bytes=self.most_bytes)
        data = self.read(labelled=False, fold=self.fold)
        if not data.X:
            raise ValueError(f"{self.data}: no sequences")
        self.check_features(data, model, self.model, w)
        announce_compilation(panel, self.quiet)
        predicted = [[model.labels[i] for i in labels] for labels in jobs.labellings(model, w, data)]
        report = {"data": self.data, "labels": predicted}
        separator = "" if all(len(name) == 1 for name in model.labels) else " "
        shown = zip(data.Y[:DRAWN], predicted[:DRAWN], strict=True) if self.plot else ()
        words = [("".join(data.labels[i] for i in y), "".join(read)) for y, read in shown]
        picture = partial(plots.words, pixels=data.X[:DRAWN], read=words)
        return Report(report, [separator.join(labels) for labels in predicted], picture, out=self.out)


# both panels --------------------------------------------------------------------------------------------------------


class Compare(Split):
    """Run one job in both panels, side by side.

    Run one job in both panels from one rng and one start, side by side. The start is 1e-6 times normal draws of the
    rng and not zero: at w = 0 every argmax of the hinge loss is a tie, and two correct panels may part there by a
    whole step.
    """

    opens: ClassVar[bool] = False
    no_panel: ClassVar[str | None] = "compare runs both panels"
    plot: str | None = flag()
    scale: float | None = 1e-6

    def run(self, panel: ModuleType) -> Report:
        job, data = jobs.job_of(self), self.read()
        training, test = self.split(data)
        job = job.over(len(training.X))
        report, _ = compare(job, training, training if test is None else test, self.quiet)
        report["data"] = self.data
        picture = partial(plots.convergence, histories=_histories(report), title=job.title)
        return Report(report, _side_by_side(report), picture)


class Demo(Command):
    """Both panels learn to read handwritten words; pictures of what they read."""

    opens: ClassVar[bool] = False
    no_panel: ClassVar[str | None] = "demo runs both panels"
    out: str = flag("a folder; default: demo", default="demo")
    epochs: int = flag("default: 3", default=3)
    limit: int = flag("default: 2500", default=2500)

    writes: ClassVar[tuple[str, ...]] = ()

    def run(self, panel: ModuleType) -> Report:
        folder = Path(self.out)
        folder.mkdir(parents=True, exist_ok=True)
        settings: dict[str, Any] = {"lam": 0.001, "epochs": self.epochs, "scale": 1e-6, "solver": {"step_size": 0.02}}
        job = jobs.Job(**settings)
        rest, held_out = jobs.load("letters").split(0)
        training = rest.take(jobs.limited(len(rest.X), self.limit))
        if not self.json:
            first = f"A linear-chain CRF learns to read {len(training.X)} handwritten words, in both panels"
            say(f"{first} from one start;\nthen it reads {len(held_out.X)} words in other handwriting.\n")
        compiled, quiet = panel_of("accelerated"), self.quiet or self.json
        announce_compilation(compiled, quiet)
        if compiled.kernels_are_cold():
            calls = warm(min(len(DEMO), os.cpu_count() or 1), DEMO)
            for _ in tqdm(calls, "compile", len(DEMO), leave=False, disable=quiet or None, unit="call"):
                pass
        report, trained = compare(job, training, held_out, self.quiet)
        report["command"] = "demo"
        model, w = trained["accelerated"]
        longest = np.argsort([-len(y) for y in held_out.Y], kind="stable")
        shown = held_out.take(longest[:: max(1, len(held_out.Y) // 8)][:8])
        both = zip(shown.Y, model.predict(model.pack(shown.X), None, w), strict=True)
        names = np.array(model.labels)
        words = [("".join(names[y]), "".join(names[z])) for y, z in both]
        report["words"] = [{"true": true, "predicted": predicted} for true, predicted in words]
        save_bytes(folder / "compare.json", (json.dumps(report, indent=2, allow_nan=False) + "\n").encode())
        written = ["compare.json"]
        lines = [*_side_by_side(report), "", "word         read as", *(f"{true:12} {read}" for true, read in words)]
        try:
            plots.convergence(folder / "convergence.png", _histories(report), "CRF on the OCR letters: both panels")
            plots.words(folder / "words.png", shown.X, words)
            written += ["convergence.png", "words.png"]
        except ImportError as problem:
            lines += ["", f"no pictures: {problem}"]
        return Report(report, [*lines, "", f"written to {folder}: {', '.join(written)}"])


def compare(job: jobs.Job, training: Sequences, test: Sequences, quiet: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run one job in both panels from one start. Return the report, and (model, weights) of each panel by name."""
    report: dict[str, Any] = {"command": "compare", "job": job.as_dict(), "sequences": len(training.X)}
    trained = {}
    for name in PANELS:
        side = panel_of(name)
        announce_compilation(side, quiet)
        _warm_up(side, job, training)
        objective = jobs.objective_of(side, job, training)
        with Progress(job.epochs, quiet, name) as progress:
            result = whole(jobs.train(side, job, objective, progress))
        trained[name] = objective.model, np.asarray(result.x)
        report[name] = outcome(result) | {"accuracy": jobs.accuracy(objective.model, result.x, test)}
        report[name]["seconds"] = result.history[-1].seconds if result.history else 0.0
    ours, theirs = report["accelerated"]["objective"], report["reference"]["objective"]
    report["relative_objective_difference"] = abs(ours - theirs) / max(abs(theirs), sys.float_info.min)
    apart = np.abs(trained["accelerated"][1] - trained["reference"][1])
    report["largest_weight_difference"] = float(np.max(apart, initial=0.0))
    return report, trained


def _warm_up(panel: ModuleType, job: jobs.Job, data: Sequences) -> None:
    """Load or compile the job's kernels on one sequence before the clock starts, if the panel has kernels."""
    if not hasattr(panel, "kernels_are_cold"):
        return
    objective = jobs.objective_of(panel, job, data.take(np.arange(min(1, len(data.X)))))
    whole(jobs.train(panel, replace(job, epochs=1), objective))


def _histories(report: dict[str, Any]) -> dict[str, list[Row]]:
    return {name: [Row(**row) for row in report[name]["history"]] for name in PANELS}


def _side_by_side(report: dict[str, Any]) -> list[str]:
    sides = {name: report[name] for name in PANELS}
    columns: list[tuple[str, ...]] = [("", "objective", "by letter, %", "by word, %", "seconds")]
    for name, side in sides.items():
        shares = (f"{100 * side['accuracy'][what]:.2f}" for what in ("letter", "word"))
        columns.append((name, f"{side['objective']:.12g}", *shares, f"{side['seconds']:.3f}"))
    lines = [f"{a:14} {b:>18} {c:>18}" for a, b, c in zip(*columns, strict=True)]
    lines.append(f"relative difference of objectives {report['relative_objective_difference']:.1e}")
    lines.append(f"largest difference of weights     {report['largest_weight_difference']:.1e}")
    return [*lines, *(f"{name}: {line}" for name, side in sides.items() for line in ending(side))]


KINDS = ("SequenceModel", "MulticlassModel", "KernelSequenceModel")
COMMANDS = (Train, Evaluate, Predict, show_of(checked("train", *KINDS)), Compare, Demo)
