"""The speed of the fast panel, one table from one run: ``python docs/figures.py [--json] [GROUP ...]``.

Minimum of several repetitions; one thread (BLAS included) unless the line says two. Time nothing else meanwhile.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # of this checkout
for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy loads its BLAS

import argparse
import json
import platform
import time
from collections.abc import Callable
from typing import Any

import accelerated
from accelerated.threads import set_num_threads
from benchmarks import baselines, problems, prox, proximal, variance_reduced
from benchmarks import cuts as grid_cuts
from benchmarks import trees as rooted
from benchmarks.arborescences import figures as arborescence_figures
from benchmarks.boxes import figures as box_figures
from benchmarks.calls import figures as call_figures
from benchmarks.first_calls import compiling_figures
from benchmarks.first_calls import figures as first_call_figures
from benchmarks.kernel_learning import figures as kernel_figures
from benchmarks.layers import figures as layer_figures
from benchmarks.matchings import figures as matching_figures
from benchmarks.prox_linear import figures as two_layer_figures
from benchmarks.screening import figures as sparse_figures
from benchmarks.segments import figures as segment_figures
from benchmarks.start import figures as start_figures
from benchmarks.taggers import figures as tagger_figures
from benchmarks.taggers import spanish_figures
from benchmarks.widths import figures as width_figures
from benchmarks.workers import figures as worker_figures
from diptych.experiments import table2
from diptych.experiments.clock import best_of
from diptych.experiments.sparse_data import handwritten_words

Add = Callable[..., None]


def oracles(add: Add) -> None:
    """Chains: Viterbi, top-5, forward-backward."""
    for (n, L), most in zip([(10, 26), (30, 50), (100, 26), (7, 9)], [1.4, 9.0, None, None], strict=True):
        scores = problems.scores(n, L, 1000)
        chain = accelerated.Chain(*scores)
        viterbi = best_of(chain.best)
        add(f"Viterbi, n={n}, L={L}", viterbi * 1e3, "us a chain", most)
        add(
            f"Viterbi, n={n}, L={L}, vectorised NumPy",
            best_of(lambda s=scores: baselines.viterbi(*s), 3) * 1e3,
            "us a chain",
        )
        five = best_of(lambda c=chain: c.topk(5))
        add(f"top-5 Viterbi, n={n}, L={L}", five * 1e3, "us a chain")
        add(f"top-5 Viterbi / Viterbi, n={n}, L={L}", five / viterbi, "ratio", 4.0 if L >= 20 else None)
        ours = best_of(chain.expectation)
        # the peer in blocks of as many chains as its caches like best
        blocks = {size: best_of(lambda s=scores, b=size: in_blocks(*s, b)) for size in (8, 16, 32, 64, 125, 1000)}
        theirs = min(blocks.values())
        add(f"forward-backward, n={n}, L={L}", ours * 1e3, "us a chain")
        add(f"forward-backward, n={n}, L={L}, scaled BLAS in NumPy, blocked", theirs * 1e3, "us a chain")
        add(f"forward-backward / blocked BLAS, n={n}, L={L}", ours / theirs, "ratio", {10: 1.2, 30: 1.0}.get(n))


def in_blocks(unary: Any, pairwise: Any, size: int) -> None:
    """The baseline's forward-backward, on ``size`` chains at a time."""
    for first in range(0, len(unary), size):
        baselines.forward_backward(unary[first : first + size], pairwise)


def training(add: Add) -> None:
    """Epochs, gradients and tagging over all letters."""
    w = problems.weights()
    for loss, most in (("StructuralHinge", 0.04), ("LogLoss", 0.08)):
        objective = problems.objective("accelerated", loss)
        runs = [accelerated.sgd(objective, w, lam=0.001, epochs=1, rng=0).history[-1].seconds for _ in range(7)]
        add(f"SGD epoch over all letters, {loss}", min(runs), "s", most)
    objective = problems.objective("accelerated", "LogLoss")
    one = best_of(lambda: objective.value_and_gradient(w))
    add("full CRF gradient over all letters", one, "s", 0.06)
    set_num_threads(2)
    two = best_of(lambda: objective.value_and_gradient(w))
    set_num_threads(1)
    add("full CRF gradient, two threads", two, "s")
    add("full CRF gradient, speed-up by the second thread", one / two, "times", 1.5, at_least=True)
    add("tagging all letters", best_of(lambda: objective.model.predict(objective.data, None, w)), "s", 0.04)


def optimisers(add: Add) -> None:
    """SVRG's passes, epochs of the online proximal algorithm, and block-coordinate Frank-Wolfe to a gap on nine
    folds.
    """
    for what, value, unit, most in proximal.figures():
        add(what, value, unit, most)
    for what, value, unit, most in variance_reduced.figures():
        add(what, value, unit, most)
    train, _ = handwritten_words().split(0)
    model = accelerated.SequenceModel(128, train.labels, start_stop=False)
    hinge = accelerated.StructuralHinge(model, model.pack(train.X, train.Y))
    accelerated.bcfw(hinge, lam=0.0016, epochs=1, rng=1)
    started = time.perf_counter()
    run = accelerated.bcfw(hinge, lam=0.0016, tol=1e-3, epochs=200, rng=0)
    add("bcfw on nine folds to a relative gap of 1e-3, evaluations included", time.perf_counter() - started, "s", 4.0)
    add("bcfw, the same without the evaluations", run.history[-1].seconds, "s")
    add("bcfw, epochs", run.nit, "")
    add("bcfw, objective", run.fun, "")
    add("bcfw, relative gap", run.certificate / run.fun, "", 1e-3)


def selection(add: Add) -> None:
    """Projections and proxes, the worst of three inputs."""
    for name, value in prox.figures().items():
        add(f"{name}, 10^6 elements, in place", value, "ns an element", prox.TARGETS.get(name))


def trees(add: Add) -> None:
    """Trees of 1,000 nodes: times of the oracles as ratios to max-product."""
    for what, value, unit, most in rooted.figures():
        add(what, value, unit, most)


def cliques(add: Add) -> None:
    """Clique trees, and what Best Max-Marginal First asks for (Theorem 46: at most 2 K sets of max-marginals)."""
    graph = table2.graph()
    add("clique tree, 8 x 8 grid, best", best_of(graph.best) * 1e3, "ms")
    add("clique tree, 8 x 8 grid, max-marginals", best_of(graph.node_max_marginals) * 1e3, "ms")
    add("clique tree, 8 x 8 grid, log-partition and marginals", best_of(graph.expectation) * 1e3, "ms")
    for k in (5, 20):
        sets = table2.counted(graph, k)["sets of max-marginals"]
        add(f"BMMF, K = {k}, sets of max-marginals", sets, "sets", 2 * k)


def matchings(add: Add) -> None:
    """Best matchings beside SciPy's, and all max-marginals."""
    for what, value, unit, most in matching_figures():
        add(what, value, unit, most)


def arborescences(add: Add) -> None:
    """Best dependency trees beside C++, and sums over all of them."""
    for what, value, unit, most in arborescence_figures():
        add(what, value, unit, most)


def cuts(add: Add) -> None:
    """Minimum cuts of grids, and max-marginals."""
    for what, value, unit, target, at_least in grid_cuts.figures():
        add(what, value, unit, target, at_least)


def candidates(add: Add) -> None:
    """Subwindow search beside scoring all boxes, epochs over candidate boxes, scores of two layers."""
    for what, value, unit, most in (*box_figures(), *two_layer_figures()):
        add(what, value, unit, most)


def kernels(add: Add) -> None:
    """Multiple kernel learning on one fold of the letters, float32 Gram matrices."""
    for what, value, unit, most in kernel_figures():
        add(what, value, unit, most)


def sparse(add: Add) -> None:
    """The path of sparse classifiers over all letters."""
    for what, value, unit, most in sparse_figures():
        add(what, value, unit, most)


def calls(add: Add) -> None:
    """One call on one small structure, beside SciPy and PyMaxflow."""
    for what, value, unit, most in call_figures():
        add(what, value, unit, most)


def taggers(add: Add, chunks: str | None = None) -> None:
    """CRF taggers on CoNLL-2000, beside crfsuite."""
    for what, value, unit, most in tagger_figures(chunks):
        add(what, value, unit, most)


def spanish(add: Add, entities: str | None = None) -> None:
    """CRF taggers on the Spanish names of CoNLL-2002, beside crfsuite."""
    for what, value, unit, most in spanish_figures(entities):
        add(what, value, unit, most)


def workers(add: Add, chunks: str | None = None) -> None:
    """Two worker processes on CoNLL-2000, beside two processes that do not work together."""
    for what, value, unit, target, at_least in worker_figures(chunks):
        add(what, value, unit, target, at_least)


def widths(add: Add, chunks: str | None = None) -> None:
    """Epochs over 2^16 to 2^24 hashed weights."""
    for what, value, unit, most in width_figures(chunks):
        add(what, value, unit, most)


def first_calls(add: Add) -> None:
    """First calls with an empty cache of kernels, a process each."""
    for what, value, unit, most in first_call_figures():
        add(what, value, unit, most)


def compiling(add: Add) -> None:
    """How much first calls compile, and LLVM's share of their time."""
    for line in compiling_figures():
        add(*line)


def layers(add: Add) -> None:
    """Layers of PyTorch beside pytorch-crf."""
    for line in layer_figures():
        add(*line)


def segments(add: Add) -> None:
    """Oracles of segments, beside a count of their work and torch-struct."""
    for what, value, unit, most in segment_figures():
        add(what, value, unit, most)


def starts(add: Add) -> None:
    """Fresh processes: imports, the first training, the demo."""
    for what, value, unit, most in start_figures():
        add(what, value, unit, most)


GROUPS = {
    group.__name__: group
    for group in (
        oracles,
        training,
        optimisers,
        selection,
        trees,
        cliques,
        matchings,
        arborescences,
        cuts,
        candidates,
        kernels,
        sparse,
        calls,
        taggers,
        spanish,
        workers,
        widths,
        first_calls,
        compiling,
        layers,
        segments,
        starts,
    )
}

# the option of the data of a group
DATA = {"taggers": "chunks", "workers": "chunks", "widths": "chunks", "spanish": "entities"}


def measure(groups: list[str], **data: str | None) -> list[dict[str, Any]]:
    """One row for each figure: what, value, unit, target. data: paths by name, for the groups of :data:`DATA`."""
    rows: list[dict[str, Any]] = []

    def add(what: str, value: float, unit: str, target: float | None = None, at_least: bool = False) -> None:
        met = None if target is None else (value >= target if at_least else value <= target)
        rows.append({"what": what, "value": value, "unit": unit, "target": target, "at_least": at_least, "met": met})
        print(f"  {what}: {value:.4g} {unit}", file=sys.stderr)

    for group in groups:
        set_num_threads(None if group == "starts" else 1)
        GROUPS[group](add, **({DATA[group]: data[DATA[group]]} if group in DATA else {}))
    set_num_threads(None)
    return rows


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)} (default: all)")
    parser.add_argument("--chunks", metavar="PATH", help="conll2000.zip, for the groups taggers, workers and widths")
    parser.add_argument("--entities", metavar="PATH", help="conll2002.zip, for the group spanish")
    options = parser.parse_args()
    unknown = set(options.groups) - set(GROUPS)
    if unknown:
        parser.error(f"no such group: {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    rows = measure(options.groups or list(GROUPS), chunks=options.chunks, entities=options.entities)
    if options.json:
        print(json.dumps({"machine": platform.machine(), "cores": os.cpu_count(), "figures": rows}, indent=2))
        return
    print("| figure | measured | target |\n|---|---|---|")
    for row in rows:
        bound = (
            ""
            if row["target"] is None
            else f"{'>=' if row['at_least'] else '<='} {row['target']:g}{'' if row['met'] else ' (missed)'}"
        )
        print(f"| {row['what']} | {row['value']:.3g} {row['unit']} | {bound} |")


if __name__ == "__main__":
    main()
