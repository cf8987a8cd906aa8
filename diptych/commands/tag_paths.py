"""``tag train --l1``, ``--c1`` and ``--c2``; ``--path N``: the solutions at N values of l1, of which a development file
chooses one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from diptych.commands.jobs import Job, Solved
from diptych.commands.learners import Values
from diptych.commands.options import option, positive, refuse, share
from diptych.commands.output import Report, saved, table
from diptych.elastic_net import elastic_net_path, without_zeros
from diptych.pictures import plots
from reference.arrays import host
from reference.screening.problem import beta_max

RATIO = 1e-5  # the last value of l1, as a share of the first, unless the options say it
OPTIONS = ("l1", "c1", "path")  # what chooses elastic-net
HEAD = ("value", "l1", "c1", "nonzeros", "objective", "gap", "iterations", "seconds")


class Penalised(Solved):
    """The options of l1 and the elastic net."""

    l1: float | None = option("solver", "weight of the sum of absolute weights, most of which are then 0 (default: 0)")
    c1: float | None = option("solver", "l1 as crfsuite has it, c1 = n l1 for n sentences", rare=True)
    c2: float | None = option("solver", "lam as crfsuite has it, c2 = n lam / 2 for n sentences", rare=True)
    path: int | None = option("solver",
        "solve at N values of l1, from the least at which all weights are 0 to --l1; of sparse-crf: of beta (default: "
        "100)", type=positive, metavar="N", rare=True)  # fmt: skip
    ratio: float | None = option("solver",
        "the path's last l1 or beta, as a share of its first (default: 1e-5, unless --l1 says it; of sparse-crf 0.1, "
        "and then as long as the loss falls)", type=share, metavar="R", rare=True)  # fmt: skip
    dev: str | None = option("data", "keep the weights of --path that score best on this file", metavar="FILE",
        rare=True)  # fmt: skip

    @property
    def usual_optimizer(self) -> str:
        """The default optimiser of the log loss; ValueError for options of l1 that have no meaning together."""
        for ours, theirs, how in (("l1", "c1", "n l1"), ("lam", "c2", "n lam / 2")):
            if getattr(self, ours) is not None and getattr(self, theirs) is not None:
                raise ValueError(f"--{ours} and --{theirs}: expected one of them, as {theirs} = {how}")
        if self.path is None:
            refuse(vars(self), ("dev", "ratio"), "without --path")
        if self.l1 or self.c1:
            refuse(vars(self), ["ratio"], f"with --{'l1' if self.l1 else 'c1'}, the path's last value")
        chosen = next((name for name in OPTIONS if getattr(self, name)), None)
        if chosen is None:
            if self.optimizer == "elastic-net":
                raise ValueError("--optimizer elastic-net needs --l1 or --c1 > 0, or --path")
            return "lbfgs"
        if self.loss == "hinge":
            raise ValueError(f"--{chosen} needs --loss crf")
        if self.optimizer not in (None, "elastic-net"):
            raise ValueError(f"--{chosen} has no effect with --optimizer {self.optimizer}; elastic-net has it")
        return "elastic-net"

    def job_on(self, job: Job, n: int, l1: float | None = None) -> Job:
        """The job on n sentences, by which c1 and c2 are divided. l1: unless the options have one."""
        if job.optimizer == "elastic-net":
            l1 = self.c1 / n if self.c1 else self.l1 or l1
            job = replace(job, solver=job.solver | ({"l1": l1} if l1 else {}))
        return (job if self.c2 is None else replace(job, lam=2.0 * self.c2 / n)).over(n)


@dataclass(frozen=True)
class PathRun:
    """A training at the values of l1 of ``--path``, equally spaced on the logarithmic scale, from the least at which
    all weights are 0; it writes the model and the log if the command names files.

    what: fields of the log's first line. info: saved with the model. dev: the scores of weights on a development file;
    without it the last value that has converged is kept.
    """

    panel: ModuleType
    command: Any
    job: Job
    objective: Any
    what: dict[str, Any]
    info: dict[str, Any]
    dev: Callable[[np.ndarray], dict[str, Any]] | None

    def __call__(self) -> tuple[np.ndarray, Report]:
        """The weights (d,), and the report."""
        command, objective, model = self.command, self.objective, self.objective.model
        solver, tagged = {"lam": self.job.lam, "iterations": self.job.epochs, **self.job.solver}, "F1"
        most, count, last = beta_max(objective), command.path, solver.pop("l1", None)
        if most == 0:
            raise ValueError("--path: no feature tells the labels from one another: all weights are 0 at any l1")
        last = most * (RATIO if command.ratio is None else command.ratio) if last is None else last
        if last >= most:
            expected = f"a last l1 below {most:.4g}, from which on all weights are 0"
            raise ValueError(f"--path: expected {expected}, got {last:g}")
        l1s = [*(most * (last / most) ** (k / (count - 1)) for k in range(count - 1)), last]

        def scored(w: np.ndarray) -> float | None:
            nonlocal tagged
            scores = {} if self.dev is None else self.dev(w)
            if scores and scores["chunks"] is None:
                tagged = "accuracy"
            return None if not scores else (scores["chunks"] or {"f1": scores["accuracy"]["token"]})["f1"]

        with Values(self.panel, command, self.what) as values:
            rows = values.rows

            def tell(point: Any) -> None:
                w = np.zeros(model.size)
                w[point.support] = host(point.values)
                seconds = point.solver_seconds + point.screening_seconds
                row = {"l1": point.beta, "c1": point.beta * objective.n, "nonzeros": point.nonzeros}
                row |= {"objective": point.fun, "gap": point.gap, "iterations": point.iterations, "seconds": seconds}
                row |= {"solved": point.success, "dev": scored(w)}
                values.add(row, "  ".join(_cells(len(rows) + 1, row)))

            files = {"checkpoint": command.checkpoint, "resume": command.resume}
            path = elastic_net_path(objective, l1s, callback=tell, **solver, **files)
            for point in path.points[len(rows) :]:  # Ctrl-C came before its scores
                tell(point)
            solved = [k for k, row in enumerate(rows) if row["solved"]] or [len(rows) - 1]
            k = int(np.argmax([row["dev"] for row in rows])) if self.dev else solved[-1]  # of equals the largest l1
            why = f"best {tagged} on --dev" if self.dev else "the last that converged; --dev FILE would choose one"
            report = values.chosen(k, f"value {k + 1} of {len(l1s)}, {why}", path.interrupted)
        w, chosen = host(path.weights(k)), rows[k]
        partitions = {name: getattr(objective, name) for name in ("partitions",) if hasattr(objective, name)}
        saved(command, *without_zeros(model, w), {**self.info, "l1": chosen["l1"], **partitions})
        lines = table([(*HEAD, *([tagged] if self.dev else [])), *(_cells(i, row) for i, row in enumerate(rows, 1))])
        lines.append(f"l1 {chosen['l1']:.4g} ({report['message']}): {chosen['nonzeros']} of {model.size} weights")
        if self.dev and k + 1 == len(l1s) > 1 and chosen["dev"] > rows[k - 1]["dev"]:
            lines.append("the last value is the best: a smaller l1 may be better")
        wrong = sum(not row["solved"] for row in rows)
        lines += [f"not converged: {wrong} of the values"] if wrong else []
        lines += [f"not converged: interrupted after {len(rows)} of {len(l1s)} values"] if path.interrupted else []
        held = [row["dev"] for row in rows] if self.dev else None
        picture = partial(plots.plot_path, path=path, held_out=held, chosen=k, weight="l1", held=f"{tagged} on --dev")
        report = {**self.what, "weights": model.size, **report, "certificate": chosen["gap"]}
        return w, Report(report, lines, picture)


def _cells(k: int, row: dict[str, Any]) -> list[str]:
    dev = [] if row["dev"] is None else [f"{100 * row['dev']:.2f}"]
    cells = [f"{k}", f"{row['l1']:.4g}", f"{row['c1']:.4g}", f"{row['nonzeros']}", f"{row['objective']:.6f}"]
    return [*cells, f"{row['gap']:.1e}", f"{row['iterations']}", f"{row['seconds']:.2f}", *dev]
