"""The cost of a pass over partitions on workers, measured, fitted and extrapolated: ``diptych reproduce scale``.

Gradients of a chain CRF over random sequences are measured on one and two worker processes of this machine, for several
numbers of weights, tokens and partitions. A model with six constants (:mod:`diptych.distributed.cost`) is fitted to the
measurements. Each measurement is then compared with a model fitted to all others. The last table has the predictions of
the model for other machines. The lines above it give the fitted constants and the assumptions.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import accelerated
from diptych.commands.options import positive
from diptych.distributed import Partitioned, cocoa, local_client
from diptych.distributed.cost import Cost, Pass, fitted
from diptych.experiments import shell
from diptych.experiments.clock import best_of
from diptych.pictures import plots

LABELS, ACTIVE, LENGTH = 10, 10, 25
WEIGHTS = (10**5, 10**6, 10**7)
TOKENS = (50_000, 200_000)
PARTITIONS = (4, 16)
WORKERS = (1, 2)
QUICK = {"weights": [10**4, 10**5], "tokens": [5_000, 20_000], "repeat": 2}
# of the extrapolation
MACHINES, CORES, TURNS = (1, 10, 100, 1000), 16, 4  # a worker a machine with a thread a core; partitions a worker
CORPUS, SIZE = 1e9, 1e7  # tokens and weights
NETWORK = 8 / 10e9  # seconds a byte at 10 Gbit/s
SPREAD = 0.3  # of the workers' times
ROUNDS = 4  # of CoCoA that are measured
FIELDS = ("passes", "constants", "round", "far")


@dataclass(frozen=True)
class Drawn:
    """Sequences of LENGTH positions with ACTIVE features each, drawn from a seed."""

    seed: int
    sequences: int
    features: int

    def __call__(self) -> tuple[list[Any], list[Any]]:
        rng = np.random.default_rng(self.seed)
        X = rng.integers(0, self.features, (self.sequences, LENGTH, ACTIVE))
        return [list(x) for x in X], list(rng.integers(0, LABELS, (self.sequences, LENGTH)))


def measured(options: Any) -> list[Pass]:
    """Passes with their seconds, the least of several. All take turns, so that a slow minute of the machine costs each
    of them one turn.
    """
    with ExitStack() as stack:
        passes, objectives = [], []
        for workers in WORKERS:
            client = stack.enter_context(local_client(workers))
            for weights, tokens, parts in itertools.product(options.weights, options.tokens, PARTITIONS):
                features, each = (weights - LABELS**2) // LABELS, tokens // (parts * LENGTH)
                model = accelerated.SequenceModel(features, LABELS, start_stop=False)
                loaders = [Drawn(k, each, features) for k in range(parts)]
                objectives.append(Partitioned(loaders, model, accelerated.LogLoss, client))
                passes.append(Pass(each * parts * LENGTH, model.size, workers, parts))
        seconds = np.full((options.repeat + 1, len(passes)), np.inf)
        for turn in tqdm(range(len(seconds)), "turns", leave=False, disable=None):
            for i, objective in enumerate(objectives):
                started, w = time.perf_counter(), np.full(objective.model.size, float(turn))
                objective.value_and_gradient(w)
                seconds[turn, i] = time.perf_counter() - started
        best = np.min(seconds[1:], axis=0)  # the first turn loads the data
        return [one._replace(seconds=float(x)) for one, x in zip(passes, best, strict=True)]


def round_factor(options: Any) -> float:
    """The computing of a round of CoCoA on the log loss, in that of a gradient: in this process, without transport."""
    features = (min(options.weights) - LABELS**2) // LABELS
    model = accelerated.SequenceModel(features, LABELS, start_stop=False)
    each = max(options.tokens) // (PARTITIONS[0] * LENGTH)
    objective = Partitioned([Drawn(k, each, features) for k in range(PARTITIONS[0])], model, accelerated.LogLoss)
    gradient = best_of(lambda: objective.value_and_gradient(objective.zeros()), options.repeat)
    rows = cocoa(objective, lam=2 / objective.n, epochs=ROUNDS, tol=0.0, rng=0).history
    rounds = np.diff([row.seconds for row in rows])  # the first round also finds its start
    return float(np.min(rounds)) / gradient


def left_out(passes: Sequence[Pass]) -> list[float]:
    """The seconds that a model fitted to all other passes gives each pass."""
    return [fitted([*passes[:i], *passes[i + 1 :]]).seconds(one) for i, one in enumerate(passes)]


def far(cost: Cost, factor: float) -> list[dict[str, Any]]:
    """The model's passes over CORPUS tokens with SIZE weights, by machines, with the time by cause; CoCoA's rounds."""
    there = replace(cost, token=cost.token / CORES, byte=max(cost.byte, NETWORK), spread=SPREAD)
    rows = []
    for machines in MACHINES:
        one = Pass(CORPUS, SIZE, machines, TURNS * machines, machines=machines)
        seconds = there.seconds(one)
        rounds = replace(there, token=factor * there.token).seconds(one)
        row: dict[str, Any] = {"machines": machines, "partitions": one.partitions, "seconds_a_pass": seconds}
        row["shares"] = {name: term / seconds for name, term in there.terms(one).items()}
        rows.append(row | {"seconds_a_round": rounds, "break_even": rounds / seconds})
    return rows


def figures(options: Any) -> dict[str, Any]:
    """All figures."""
    passes = measured(options)
    cost, factor = fitted(passes), round_factor(options)
    each = list(zip(passes, left_out(passes), strict=True))
    errors = np.abs([guess / one.seconds - 1 for one, guess in each])
    report = dict[str, Any](passes=[one._asdict() | {"model": guess} for one, guess in each], constants=asdict(cost))
    report |= {"median_error": float(np.median(errors)), "share_within_30_percent": float(np.mean(errors <= 0.3))}
    report |= {"largest_error": float(np.max(errors)), "round": factor}
    report["assumed"] = {"network": NETWORK, "spread": SPREAD, "cores": CORES, "tokens": CORPUS, "weights": SIZE}
    return report | {"far": far(cost, factor)}


def lines(report: dict[str, Any]) -> Iterator[str]:
    """The report in words."""
    for one in report["passes"]:
        yield (
            f"{one['workers']} workers, {one['partitions']:2} partitions, {one['weights']:.0e} weights, "
            f"{one['tokens']:,.0f} tokens: {one['seconds']:.4f} s, model {one['model']:.4f} s"
        )
    constants = report["constants"]
    yield (
        f"fitted: {constants['token'] * 1e9:.0f} ns a token, {constants['weight'] * 1e9:.2f} ns a weight and part, "
        f"{constants['memory'] * 1e9:.2f} ns more through shared memory, {constants['byte'] * 1e9:.2f} ns a byte, "
        f"{constants['task'] * 1e3:.2f} ms a task, {constants['start'] * 1e3:.1f} ms a pass"
    )
    yield (
        f"left out one by one: median error {report['median_error']:.0%}, "
        f"{report['share_within_30_percent']:.0%} within 30 %, largest {report['largest_error']:.0%}"
    )
    yield (
        f"not measured: {CORPUS:.0e} tokens, {SIZE:.0e} weights, a worker a machine with {CORES} threads that share "
        f"the tokens evenly, {TURNS} partitions a worker, 10 Gbit/s, spread {SPREAD}"
    )
    yield f"a round of CoCoA computes {report['round']:.2f} times as long as a gradient"
    for row in report["far"]:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in row["shares"].items() if share >= 0.005)
        yield (
            f"{row['machines']:5} machines: {row['seconds_a_pass']:9.2f} s a pass ({shares}); "
            f"a round of CoCoA {row['seconds_a_round']:.2f} s: ahead if it saves {row['break_even']:.2f} passes"
        )


def draw(path: Path, report: dict[str, Any]) -> None:
    """Seconds a pass by cause, against machines."""
    figure = plots.require_matplotlib()(figsize=(6, 4), layout="constrained")
    axis = figure.subplots()
    machines = [row["machines"] for row in report["far"]]
    for name in report["far"][0]["shares"]:
        seconds = [row["shares"][name] * row["seconds_a_pass"] for row in report["far"]]
        if max(seconds) > 0:
            axis.loglog(machines, seconds, marker="o", label=name)
    axis.loglog(machines, [row["seconds_a_pass"] for row in report["far"]], "k--", label="all")
    axis.set(xlabel=f"machines of {CORES} cores", ylabel=f"seconds a pass, {CORPUS:.0e} tokens, {SIZE:.0e} weights")
    axis.legend()
    plots.save_figure(figure, path)


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Measure, fit and print; return the exit status."""
    parser = shell.Parser(name, __doc__)
    shell.add_report_options(parser)
    parser.quick("fewer tokens and weights")
    parser.option("model", "--weights", type=positive, nargs="+", default=list(WEIGHTS), help="numbers of weights")
    parser.option("data", "--tokens", type=positive, nargs="+", default=list(TOKENS), help="numbers of tokens")
    parser.number("solver", "--repeat", 3, "times that each pass is measured")
    options = shell.parsed(parser, arguments, QUICK)
    return shell.run_or_draw(parser, options, lambda: _run(options), SHOWN, "report of scale", FIELDS)


def _run(options: Any) -> None:
    path = shell.output_folder(options) / "scale.json"
    SHOWN.kept(options, figures(options), path)


SHOWN = shell.Shown(draw, lambda report: "\n".join(lines(report)), lambda report: report)
