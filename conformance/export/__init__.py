"""``python -m conformance export``: small instances with exact answers as JSON, for libraries in any language.

Structures are answered by listing every output, with scores as rationals and sums of exponentials at 90 digits; proxes
by trying every support. No algorithm of a panel is used. The same seed gives the same bytes on every machine, and an
instance depends on the seed, its kind and its place alone: ``--structure`` and ``--count`` choose among the same ones.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from conformance.export.answers import answers
from conformance.export.draws import NATURES, Draws
from conformance.export.numbers import RELATIVE, Array
from conformance.export.proxes import POINTS, PROXES, drawn, solved
from conformance.export.spaces import SPACES, Space
from conformance.specimens.outputs import exact
from reference import __version__
from reference.files import save_bytes

__all__ = ["COUNT", "FORMAT", "KINDS", "document", "main", "text"]

FORMAT = "diptych instances"
VERSION = 1  # version of the format and of the instances of a seed; to be raised if either changes
COUNT = len(NATURES)
KINDS = (*SPACES, *PROXES)
READING = {
    "arrays": "row-major: shape, and float64 or int64; -inf is the string \"-inf\"",
    "inputs": "by the name of the argument; what is optional is left out where it is not given",
    "answers": "float64 is nearest to the exact number, which is rational (p/q, exact) or digits (50 significant "
    "digits; probabilities below exp(-1000000) are 0); tolerance is absolute",
    "tolerance": f"a hint: {RELATIVE} times a size. S is the sum of the magnitudes of all finite scores: of scores the "
    "size is S, of log_partition S + mu (1 + log2 count) at most, of squared_l2 S + mu, of probabilities and entropy "
    "S/mu and at least 1, of proxes the largest |x| or radius",
    "exact_sums": "true: every sum of scores, in any order, is a float64, so that equality may be asked of scores",
    "count": "how many outputs are not forbidden; an output of score -inf is none",
    "best": "the highest score and all outputs that have it; null where every output is forbidden",
    "topk": "the scores of the k best distinct outputs from high to low; fewer where there are fewer outputs",
    "max_marginals": "for each part the highest score of an output that has it, -inf if there is none; one entry for "
    "each position, also where positions share scores",
    "sums": "mu log sum_y exp(score(y) / mu), which is the max smoothed by entropy; the entropy of its distribution, "
    "in nats; the expected parts, summed where positions share scores; null where every output is forbidden",
    "squared_l2": "max of sum_y u_y score(y) + (mu/2)(1 - ||u||^2) over probabilities u of all outputs, with the "
    "expected parts under u; top_k: over the k best outputs",
    "prox": "the point",
    "ledger": "for each answer the statement of a paper, by its label in docs/LEDGER.md",
}  # fmt: skip


def document(seed: int = 0, count: int = COUNT, kinds: Iterable[str] = KINDS) -> dict[str, Any]:
    """Header and instances, as JSON has them; ``count`` of each kind."""
    chosen = [kind for kind in KINDS if kind in set(kinds)]
    formulas = {kind: SPACES[kind].score if kind in SPACES else PROXES[kind].formula for kind in chosen}
    return {
        "format": FORMAT,
        "version": VERSION,
        "seed": seed,
        "package": {"name": "diptych", "version": __version__},
        "license": "BSD-3-Clause",
        "reading": READING,
        "kinds": formulas,
        "instances": [
            _of_structure(seed, kind, i) if kind in SPACES else _of_prox(seed, kind, i)
            for kind in chosen
            for i in range(count)
        ],
    }


def text(given: dict[str, Any]) -> str:
    """A document as JSON, an instance a line."""
    lines = [f"{json.dumps(key)}: {_line(value)}" for key, value in given.items() if key != "instances"]
    instances = ",\n".join(_line(each) for each in given["instances"])
    return "{\n" + ",\n".join(lines) + ',\n"instances": [\n' + instances + "\n]\n}\n"


def _of_structure(seed: int, kind: str, i: int) -> dict[str, Any]:
    draws, nature, space = Draws(VERSION, seed, kind, i), NATURES[i % len(NATURES)], SPACES[kind]
    inputs = space.draw(draws, nature)
    while nature.forbidden > 1 and not _partly_forbidden(space, inputs):
        inputs = space.draw(draws, nature)
    told = answers(space, inputs, nature.mus, draws.choice((1, 2, 4, 8)) if nature.size == "few" else 8)
    return {
        "id": f"{kind}/{i}",
        "kind": kind,
        "what": nature.what,
        "exact_sums": nature.exact_sums and not inputs.get("loss"),
        "ledger": {name: space.ledger[name] for name in told if space.ledger.get(name)},
        "inputs": _written(inputs),
        "answers": told,
    }


def _partly_forbidden(space: Space, inputs: dict[str, Any]) -> bool:
    """Whether there are scores of -inf, and outputs without them."""
    scores = [v for given in inputs.values() if isinstance(given, Array) for v in given.values]
    return -math.inf in scores and any(exact(space.outputs, inputs))


def _of_prox(seed: int, kind: str, i: int) -> dict[str, Any]:
    draws, points, prox = Draws(VERSION, seed, kind, i), POINTS[i % len(POINTS)], PROXES[kind]
    inputs = drawn(prox, draws, points)
    return {
        "id": f"{kind}/{i}",
        "kind": kind,
        "what": points.what,
        "ledger": {"prox": prox.ledger},
        "inputs": _written(inputs),
        "answers": solved(prox, inputs),
    }


def _written(inputs: dict[str, Any]) -> dict[str, Any]:
    return {name: given.written() if isinstance(given, Array) else given for name, given in inputs.items()}


def _line(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def main(arguments: Sequence[str]) -> int:
    """Write a document to standard output or to a file."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance export", description=__doc__.split("\n\n")[0], allow_abbrev=False
    )
    parser.add_argument("--seed", type=int, default=0, help="of the instances (default: 0)")
    parser.add_argument("--count", type=int, default=COUNT, help=f"instances of each kind (default: {COUNT})")
    parser.add_argument("--structure", nargs="+", choices=KINDS, default=KINDS, metavar="NAME",
                        help=f"only these structures and proxes: {', '.join(KINDS)}")  # fmt: skip
    parser.add_argument("--out", metavar="FILE", help="where to write (default: standard output)")
    options = parser.parse_args(arguments)
    for name, least in (("seed", 0), ("count", 1)):
        if getattr(options, name) < least:
            parser.error(f"--{name}: expected an integer >= {least}, got {getattr(options, name)}")
    written = text(document(options.seed, options.count, options.structure))
    try:
        if options.out is not None:
            save_bytes(options.out, written.encode())
        else:
            sys.stdout.write(written)
            sys.stdout.flush()
    except BrokenPipeError:  # nobody reads on, as in ``| head``: nothing is left to flush at the exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as problem:
        parser.error(str(problem))
    return 0
