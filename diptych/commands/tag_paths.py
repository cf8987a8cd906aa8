"""``tag train --l1``, ``--c1`` and ``--c2``; ``--path N``: the solutions at N values of l1, of which a development file
chooses one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from diptych.commands.jobs import Job
from diptych.commands.options import Words, option, positive, share
from diptych.commands.output import opening, table
from diptych.elastic_net import elastic_net_path, without_zeros
from diptych.files.logs import LogWriter
from diptych.files.models import save_model
from diptych.interrupts import finishing
from diptych.pictures import plots
from reference.arrays import host
from reference.screening.problem import beta_max

RATIO = 1e-5  # the last value of l1, as a share of the first, unless the options say it
OPTIONS = ("l1", "c1", "path")  # what chooses elastic-net
HEAD = ("value", "l1", "c1", "nonzeros", "objective", "gap", "iterations", "seconds")


class Penalised(Words):
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


def usual_optimizer(command: Any) -> str:
    """The default optimiser of the log loss; ValueError for options of l1 that have no meaning together."""
    for ours, theirs, how in (("l1", "c1", "n l1"), ("lam", "c2", "n lam / 2")):
        if getattr(command, ours) is not None and getattr(command, theirs) is not None:
            raise ValueError(f"--{ours} and --{theirs}: expected one of them, as {theirs} = {how}")
    for name in ("dev", "ratio"):
        if getattr(command, name) is not None and command.path is None:
            raise ValueError(f"--{name} has no effect without --path")
    if command.ratio is not None and (command.l1 or command.c1):
        raise ValueError(f"--ratio has no effect with --{'l1' if command.l1 else 'c1'}, the path's last value")
    chosen = next((name for name in OPTIONS if getattr(command, name)), None)
    if chosen is None:
        if command.optimizer == "elastic-net":
            raise ValueError("--optimizer elastic-net needs --l1 or --c1 > 0, or --path")
        return "lbfgs"
    if command.loss not in (None, "crf"):
        raise ValueError(f"--{chosen} needs --loss crf")
    if command.optimizer not in (None, "elastic-net"):
        raise ValueError(f"--{chosen} has no effect with --optimizer {command.optimizer}; elastic-net has it")
    if command.path is not None and command.start is not None:
        raise ValueError("--start has no effect with --path, which starts where all weights are 0")
    return "elastic-net"


def job_on(command: Any, job: Job, n: int, l1: float | None = None) -> Job:
    """The job on n sentences, by which c1 and c2 are divided. l1: unless the options have one."""
    if job.optimizer == "elastic-net":
        l1 = command.c1 / n if command.c1 else command.l1 or l1
        job = replace(job, solver=job.solver | ({"l1": l1} if l1 else {}))
    return (job if command.c2 is None else replace(job, lam=2.0 * command.c2 / n)).over(n)


def values_of(objective: Any, count: int, last: float | None, ratio: float | None) -> list[float]:
    """``count`` values of l1, equally spaced on the logarithmic scale, from the least at which all weights are 0."""
    most = beta_max(objective)
    if most == 0:
        raise ValueError("--path: no feature tells the labels from one another: all weights are 0 at any l1")
    last = most * (RATIO if ratio is None else ratio) if last is None else last
    if last >= most:
        raise ValueError(f"--path: expected a last l1 below {most:.4g}, from which on all weights are 0, got {last:g}")
    return [*(most * (last / most) ** (k / (count - 1)) for k in range(count - 1)), last]


def train_path(
    panel: ModuleType,
    command: Any,
    job: Job,
    objective: Any,
    what: dict[str, Any],
    info: dict[str, Any],
    dev: Callable[[np.ndarray], dict[str, Any]] | None,
) -> tuple[np.ndarray, dict[str, Any], list[str]]:
    """Weights, report and lines. what: fields of the log's first line. dev: the scores of weights on a development
    file; without it the last value that has converged is kept.
    """
    solver, model = dict(job.solver), objective.model
    values = values_of(objective, command.path, solver.pop("l1", None), command.ratio)
    rows, tagged = list[dict[str, Any]](), "F1"

    def scored(w: np.ndarray) -> float | None:
        nonlocal tagged
        scores = {} if dev is None else dev(w)
        if scores and scores["chunks"] is None:
            tagged = "accuracy"
        return None if not scores else (scores["chunks"] or {"f1": scores["accuracy"]["token"]})["f1"]

    with LogWriter(command.log, opening(panel, command, **what), more=command.resume is not None) as log:

        def tell(point: Any) -> None:
            w = np.zeros(model.size)
            w[point.support] = host(point.values)
            seconds = point.solver_seconds + point.screening_seconds
            row = {"l1": point.beta, "c1": point.beta * objective.n, "nonzeros": point.nonzeros}
            row |= {"objective": point.fun, "gap": point.gap, "iterations": point.iterations, "seconds": seconds}
            rows.append({**row, "solved": point.success, "dev": scored(w)})
            log.write({"value": len(rows), **rows[-1]})
            if not command.quiet:
                print("  ".join(_cells(len(rows), rows[-1])), file=sys.stderr, flush=True)

        options: dict[str, Any] = {"lam": job.lam, "iterations": job.epochs}
        options |= {"checkpoint": command.checkpoint, "resume": command.resume}
        path = elastic_net_path(objective, values, callback=tell, **solver, **options)
        for point in path.points[len(rows) :]:  # Ctrl-C came before its scores
            tell(point)
        k, wrong = _chosen(rows), sum(not row["solved"] for row in rows)
        ends = {"success": not wrong and not path.interrupted, "interrupted": path.interrupted}
        why = f"best {tagged} on --dev" if dev else "the last that converged; --dev FILE would choose one"
        message = f"value {k + 1} of {len(values)}, {why}"
        log.write({"outcome": message, **ends, "objective": rows[k]["objective"]})
    w = host(path.weights(k))
    if command.save:
        with finishing():
            partitions = {name: getattr(objective, name) for name in ("partitions",) if hasattr(objective, name)}
            save_model(command.save, *without_zeros(model, w), {**info, "l1": rows[k]["l1"], **partitions})
    if command.plot:
        held = [row["dev"] for row in rows] if dev else None
        plots.plot_path(command.plot, path, held_out=held, chosen=k, weight="l1", held=f"{tagged} on --dev")
    report = {**what, "weights": model.size, **rows[k], "certificate": rows[k]["gap"], "chosen": k + 1}
    report |= {"message": message, **ends, "values": rows}
    lines = table([(*HEAD, *([tagged] if dev else [])), *(_cells(i, row) for i, row in enumerate(rows, 1))])
    lines.append(f"l1 {rows[k]['l1']:.4g} ({message}): {rows[k]['nonzeros']} of {model.size} weights")
    if dev and k + 1 == len(values) > 1 and rows[k]["dev"] > rows[k - 1]["dev"]:
        lines.append("the last value is the best: a smaller l1 may be better")
    lines += [f"not converged: {wrong} of the values"] if wrong else []
    lines += [f"not converged: interrupted after {len(rows)} of {len(values)} values"] if path.interrupted else []
    return w, report, lines


def _chosen(rows: list[dict[str, Any]]) -> int:
    """The value with the best score, of equals the largest l1; without scores the last that has converged."""
    if rows[0]["dev"] is not None:
        return int(np.argmax([row["dev"] for row in rows]))
    solved = [k for k, row in enumerate(rows) if row["solved"]]
    return solved[-1] if solved else len(rows) - 1


def _cells(k: int, row: dict[str, Any]) -> list[str]:
    dev = [] if row["dev"] is None else [f"{100 * row['dev']:.2f}"]
    cells = [f"{k}", f"{row['l1']:.4g}", f"{row['c1']:.4g}", f"{row['nonzeros']}", f"{row['objective']:.6f}"]
    return [*cells, f"{row['gap']:.1e}", f"{row['iterations']}", f"{row['seconds']:.2f}", *dev]
