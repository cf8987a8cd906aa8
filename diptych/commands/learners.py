"""``--learner mkl``: multiple kernel learning; ``--learner sparse-crf``: sparse CRFs at one beta or along a path."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from diptych import sparse_fits
from diptych.certificates import advised, scaling
from diptych.commands.jobs import accuracies, accuracy_lines
from diptych.commands.options import Words, above_zero, option, positive, refuse, share
from diptych.commands.output import Report, curve, opening, saved, trained
from diptych.files.logs import LogWriter
from diptych.pictures import plots
from reference.datasets import Sequences
from reference.declared import choices_of
from reference.models.kernel_names import check_names, named
from reference.models.kernel_sequence import TRANSITIONS
from reference.objectives import LogLoss
from reference.online_mkl.training import mkl

LEARNERS = ("linear", "mkl", "sparse-crf")
KERNEL_OPTIONS = ("kernels", "C", "transitions")  # options that only mkl has


@dataclass(frozen=True)
class KernelJob:
    """A training job with kernels; if C is given, lam = 1/(C n)."""

    kernels: str = "linear,quadratic,gaussian"
    loss: str = "hinge"
    C: float | None = None
    lam: float | None = None
    step_size: float = 1.0
    epochs: int = 20
    rng: int = 0
    transitions: str = "own"
    average: str = "last"

    def __post_init__(self) -> None:
        check_names(self.kernels)
        if self.C is not None and self.lam is not None:
            raise ValueError("--C and --lam: expected one of them, as lam = 1/(C n)")
        if self.C == 0 or self.step_size == 0:
            raise ValueError(f"--{'C' if self.C == 0 else 'step-size'}: expected a number > 0, got 0")
        averages = choices_of(mkl, "average")
        if self.average not in averages:
            raise ValueError(f"--average: mkl returns one of {', '.join(averages)}, got {self.average}")


class Kernels(Words):
    """The options of ``--learner mkl``."""

    learner: str = option("model", "linear: the features themselves; mkl: a weighted sum of kernels; sparse-crf: few "
        "weights, by the elastic net (default: linear)", choices=LEARNERS, default="linear")  # fmt: skip
    kernels: str | None = option("model",
        "kernels of mkl: linear, quadratic, gaussian[:SIGMA2], polynomial:DEGREE, spline[:SHARE OF ZEROS], "
        "explicit, separated by commas; a+b is their average (default: linear,quadratic,gaussian)", metavar="NAMES",
        rare=True)  # fmt: skip
    C: float | None = option("solver", "mkl: lam = 1/(C n) (default: 100, unless --lam is given)", rare=True)
    transitions: str | None = option("model",
        "mkl: transitions as a group of their own, as a part of each group, or without penalty (default: own)",
        choices=TRANSITIONS, rare=True)  # fmt: skip


def train_kernels(
    panel: ModuleType, command: Any, job: KernelJob, training: Sequences, test: Sequences | None
) -> Report:
    """Train, save and report."""
    lam = 1.0 / ((100.0 if job.C is None else job.C) * len(training.X)) if job.lam is None else job.lam
    started = time.perf_counter()
    model = panel.KernelSequenceModel(named(job.kernels, training.X), training.labels, transitions=job.transitions)
    data = model.pack(training.X, training.Y)
    packed = time.perf_counter() - started
    what = {"learner": "mkl", "data": command.data, "sequences": len(training.X), "fold": command.fold}
    what |= {"reverse": command.reverse, "job": asdict(job), "lam": lam}
    run = partial(panel.mkl, model, data, lam=lam, step_size=panel.steps.InverseSqrt(job.step_size), loss=job.loss,
        epochs=job.epochs, average=job.average, rng=job.rng)  # fmt: skip
    info = {"data": command.data, "fold": command.fold, **asdict(job)}
    result, report = trained(panel, command, what, job.epochs, run, model, info)
    names = [*job.kernels.split(","), *(["transitions"] if job.transitions == "own" else [])]
    support, positions = int(model.support(result.x).rows.shape[0]), int(np.sum(np.diff(data.offsets)))
    seconds = result.history[-1].seconds if result.history else 0.0
    report |= {"iterate": result.iterate, "seconds": seconds, "seconds_of_gram_matrices": packed}
    report |= {"seconds_in_all": time.perf_counter() - started}
    report |= {"beta": dict(zip(names, result.beta.tolist(), strict=True)), "support": support}
    report |= {"norms": result.norms.tolist(), **accuracies(model, result.x, training, test)}
    epochs = f"{report['sequences']} sequences, {result.nit} epochs ({result.iterate} iterate)"
    lines = [
        f"{job.loss} by mkl on {command.data}: {epochs}",
        f"objective {result.fun:.6f}    seconds {seconds:.3f}    and {packed:.3f} for Gram matrices",
        "beta      " + "    ".join(f"{name} {share:.3f}" for name, share in report["beta"].items()),
        f"support   {support} of {positions} positions",
        *accuracy_lines(report),
    ]
    return Report(report, lines, curve(panel, result, f"{job.loss}, {job.kernels}, lam = {lam:g}"))


# sparse CRFs ----------------------------------------------------------------------------------------------------------

COUNT, RATIO = 100, 0.1
ROW = (
    "{k:4}/{count}  beta {beta:.4g} ({share:.3g} of beta_max)  support {support:6}  objective {objective:.6f}  "
    "gap {gap:.1e} {iterations:4} iterations {seconds:8.2f} s{end}"
)


class Sparse(Words):
    """The options of ``--learner sparse-crf``, which adds beta (alpha/2 ||w||^2 + ||w||_1) to the log loss."""

    path: int | None = option("solver",
        "sparse-crf: number of values of beta, the weight of alpha/2 ||w||^2 + ||w||_1, from the "
        f"least at which all weights are 0 (default: {COUNT})", type=positive, metavar="N", rare=True)  # fmt: skip
    ratio: float | None = option("solver",
        f"the path's last beta, as a share of its first (default: {RATIO}, and below it four values a decade as "
        "long as the loss falls)", type=share, metavar="R", rare=True)  # fmt: skip
    alpha: float | None = option("solver", "0: the lasso (default: 1)", metavar="A", rare=True)
    beta: float | None = option("solver", "train at this beta alone", type=above_zero, metavar="B", rare=True)
    beta_share: float | None = option("solver", "train at S times the least beta at which all weights are 0",
        type=above_zero, metavar="S", rare=True)  # fmt: skip
    rule: str | None = option("solver",
        "screening rule of the weights; every rule gives the same solution (default: l1-gap)",
        choices=sparse_fits.RULES, rare=True)  # fmt: skip
    held_out: float | None = option("solver",
        "train again along the path without a random share of the examples, and keep the beta "
        "at which that share is likeliest (default: keep the last beta)", type=share, metavar="SHARE",
        rare=True)  # fmt: skip


SPARSE_OPTIONS = (*(each.name for each in fields(Sparse)), "positions")  # options that only sparse-crf has


class SparseJob(Sparse):
    """A job at one beta, given or as a share of beta_max, or at ``path`` values, of which held-out examples choose."""

    alpha: float = 1.0
    rule: str = "l1-gap"
    positions: bool = False
    loss: str = "crf"
    epochs: int = 10000
    tol: float = 1e-6
    rng: int = 0
    start_stop: bool = True

    def __post_init__(self) -> None:
        if self.loss != "crf":
            raise ValueError(f"--loss: sparse-crf has the log loss alone, got {self.loss}")
        if self.beta is not None and self.beta_share is not None:
            raise ValueError("--beta and --beta-share: expected one of them")
        one = "--beta" if self.beta is not None else "--beta-share" if self.beta_share is not None else None
        if one is not None:
            refuse(vars(self), ("path", "ratio", "held_out"), f"with {one}: it is of a path of values")
        elif self.path is None:
            object.__setattr__(self, "path", COUNT)
        if self.positions and not self.start_stop:
            raise ValueError("--no-start-stop has no effect with --positions")
        if self.rule in sparse_fits.LISTING and not self.positions:
            why = "it lists all outputs, and sequences have too many; l1-gap does without"
            raise ValueError(f"--rule {self.rule}: {why}")
        if self.rule == "half-space" and self.alpha == 0:
            raise ValueError("--rule half-space: it needs --alpha > 0")

    @property
    def problem(self) -> dict[str, Any]:
        """The arguments that ``solve_sparse`` and ``sparse_path`` share, except the rule."""
        return {"alpha": self.alpha, "tol": self.tol, "iterations": self.epochs}


class Values(LogWriter):
    """The values of a path as they are solved: rows of the report, lines of the log and, unless ``--quiet``, on stderr.

    what: fields of the log's first line.
    """

    def __init__(self, panel: ModuleType, command: Any, what: dict[str, Any]) -> None:
        super().__init__(command.log, opening(panel, command, **what), more=command.resume is not None)
        self.quiet, self.rows = command.quiet, list[dict[str, Any]]()

    def add(self, row: dict[str, Any], line: str) -> None:
        """The next value."""
        self.rows.append(row)
        self.write({"value": len(self.rows), **row})
        self.say(line)

    def say(self, line: str) -> None:
        """Print on stderr."""
        if not self.quiet:
            print(line, file=sys.stderr, flush=True)

    def chosen(self, k: int, message: str, interrupted: bool) -> dict[str, Any]:
        """Write the outcome, value k and why; return it for the report."""
        ends = {"success": not interrupted and all(row["solved"] for row in self.rows), "interrupted": interrupted}
        self.write({"outcome": message, **ends, "objective": self.rows[k]["objective"]})
        return {**self.rows[k], "chosen": k + 1, "message": message, **ends, "values": self.rows}


@dataclass(frozen=True)
class SparseRun:
    """A training on n examples; it writes the model and the log if the command names files.

    objective: from indices to a log loss. what: fields of the log's first line. info: saved with the model. kept: from
    weights to the model that is saved, and its weights.
    """

    panel: ModuleType
    command: Any
    job: SparseJob
    what: dict[str, Any]
    objective: Callable[[np.ndarray], Any]
    n: int
    info: dict[str, Any]
    kept: Callable[[np.ndarray], tuple[Any, np.ndarray]]

    def __call__(self) -> tuple[np.ndarray, Report]:
        """The weights (d,), and the report."""
        if hasattr(self.panel, "kernels_are_cold"):  # load or compile before the clock starts
            self.panel.solve_sparse(self.objective(np.arange(min(self.n, 1))), beta=1e-3, iterations=2)
        job, full = self.job, self.objective(np.arange(self.n))
        what, most = {**self.what, "job": asdict(job)}, self.panel.beta_max(full)
        rule = sparse_fits.rule_of(self.panel, job.rule, job.rng, listed=job.positions, alpha=job.alpha)
        w, fit = (self._one if job.path is None else self._path)(full, rule, most, what)
        told = (*fit.fields.get("warnings", []), sparse_fits.one_label(full.model, full.data, w, most))
        fit.fields["warnings"] = [line for line in told if line]
        for line in fit.fields["warnings"]:
            print(f"warning: {line}", file=sys.stderr, flush=True)
        info = {"learner": "sparse-crf", **self.info, **asdict(job), "beta": fit.fields["beta"]}
        saved(self.command, *self.kept(w), info)
        return w, fit._replace(fields={"learner": "sparse-crf", **what, "beta_max": most, **fit.fields})

    def _one(self, objective: LogLoss, rule: Any, most: float, what: dict[str, Any]) -> tuple[Any, Report]:
        """At one beta."""
        beta = sparse_fits.beta_of(self.job.beta, self.job.beta_share, most)

        def run(callback: Any, **files: Any) -> Any:
            result = self.panel.solve_sparse(objective, beta=beta, rule=rule, callback=callback, **self.job.problem)
            return advised(self.panel, result, objective, {})

        result, report = trained(self.panel, self.command, what, None, run)
        report |= _solution(beta, most, result, objective.model.size)
        return result.x, Report(report, _lines(report), curve(self.panel, result, f"sparse CRF, beta = {beta:.4g}"))

    def _path(self, full: LogLoss, rule: Any, most: float, what: dict[str, Any]) -> tuple[Any, Report]:
        """Along a path of ``--path`` values of beta, or more."""
        job, total = self.job, self.job.path or COUNT
        if most == 0:
            raise ValueError("--path: no feature tells the labels from one another: all weights are 0 at any beta")
        if job.held_out is not None and self.n < 2:
            raise ValueError(f"--held-out: expected 2 or more sequences, got {self.n}")
        rng = np.random.default_rng(job.rng)
        pairs = [] if job.held_out is None else sparse_fits.splits(self.n, job.held_out, None, rng, None)
        parts = [(self.objective(training), self.objective(held)) for training, held in pairs]
        heard = list[float]()
        with Values(self.panel, self.command, what) as values:

            def tell(point: Any) -> None:
                k, row = len(values.rows) + 1, _solution(point.beta, most, point, full.model.size)
                spent, end = point.solver_seconds + point.screening_seconds, "" if point.success else "  not converged"
                values.add(row, ROW.format(k=k, count=max(total, k), seconds=spent, end=end, **row))

            def tell_held_out(_: int, point: Any, loss: float) -> None:
                if not heard:
                    values.say(f"once more, on {parts[0][0].n} of the {self.n} examples:")
                heard.append(loss)
                values.write({"value": len(heard), "held_out": loss})
                seconds = point.solver_seconds + point.screening_seconds
                values.say(f"{len(heard):4}/{max(total, len(heard))}  held out {loss:.6f}    {seconds:.2f} s")

            found, interrupted = sparse_fits.searched(self.panel, full, parts, {"count": total, "ratio": job.ratio},
                job.ratio is None, tell, tell_held_out, rule=rule, **job.problem)  # fmt: skip
            path, held, k = found.path, found.held_out, found.chosen
            for point in path.points[len(values.rows) :]:  # Ctrl-C interrupted the last value
                tell(point)
            count = max(total, len(path.points))
            for value, loss in zip(values.rows, heard, strict=False):
                value["held_out"] = loss
            message = f"value {k + 1} of {count}"
            message += "" if pairs or count == 1 else "; --held-out SHARE would choose one"
            if not len(held.mean):
                message += ", the last that has converged" if k + 1 < len(path.points) else ""
                message += "; held-out examples were not looked at, as Ctrl-C ended it" if pairs else ""
            else:
                message += f", chosen by {len(pairs[0][1])} held-out example{'s' if len(pairs[0][1]) > 1 else ''}"
                if len(held.mean) < len(path.points):
                    message += f" among the first {len(held.mean)} values alone, as Ctrl-C ended the comparison"
            report = values.chosen(k, message, interrupted)
        report |= {"path_seconds": path.seconds, "warnings": [found.at_end]}
        wrong, betas = sum(not point.success for point in path.points), path.betas
        lines = [
            f"{len(betas)} values of beta, from {betas[0]:.4g} to {betas[-1]:.4g}, in {path.seconds:.2f} seconds",
            *_lines(report),
            *([f"not converged: {wrong} of the values{scaling(full.data)}"] if wrong and not interrupted else []),
            *([f"not converged: {held.unsolved} of the values without what is held out"] if held.unsolved else []),
            *(["not converged: Ctrl-C ended it"] if interrupted else []),
        ]
        picture = partial(plots.plot_path, path=path, held_out=held.mean, chosen=k)
        return path.weights(k), Report(report, lines, picture)


def _solution(beta: float, most: float, point: Any, size: int) -> dict[str, Any]:
    """The report of a solution; point: a PathPoint or a SparseResult."""
    same = ("oracle_calls", "work", "solver_seconds", "screening_seconds")
    return {
        "beta": beta,
        "share": beta / most if most else None,
        "support": len(point.support),
        "weights": size,
        "objective": point.fun,
        "gap": point.gap if hasattr(point, "gap") else point.certificate,
        "iterations": point.iterations if hasattr(point, "iterations") else point.nit,
        **{name: getattr(point, name) for name in same},
        **{name: list(getattr(point, name)) for name in ("rejection", "reservation")},
        "solved": point.success,
    }


def _lines(report: dict[str, Any]) -> list[str]:
    share = "" if report["share"] is None else f", {report['share']:.3g} of beta_max"
    chosen = f" ({report['message']})" if "chosen" in report else ""
    chosen += f", mean loss {report['held_out']:.6f} there" if "held_out" in report else ""
    left = report["reservation"][-1] * report["weights"] if report["reservation"] else None
    kept = "" if left is None else f", {left:.0f} of them left after screening"
    return [
        f"beta {report['beta']:.4g}{share}{chosen}",
        f"objective {report['objective']:.6f}    within {report['gap']:.3g} of the optimum",
        f"support {report['support']} of {report['weights']} weights{kept}",
        f"seconds {report['solver_seconds']:.2f} in the solver, {report['screening_seconds']:.2f} in screening, "
        f"{report['iterations']} iterations, at this beta",
    ]
