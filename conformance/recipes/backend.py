"""Recipe: add a backend. All of the reference, with one function of one's own."""

import sys
from types import SimpleNamespace

import reference
import reference.structures.chain as theirs
from reference import *  # noqa: F403
from reference.arrays import Place, host
from reference.screening.registry import known_of, register


def viterbi(scores):
    """Max-product with NumPy on the host; sent back where the scores came from."""
    place = Place.of(scores.unary)
    value, labels = theirs.viterbi(reference.ChainScores(*(x if x is None else host(x) for x in scores)))
    return place.floats(value), place.integers(labels)


class Chain(reference.Chain):
    ops = SimpleNamespace(**{**vars(theirs), "viterbi": viterbi})


class SequenceModel(reference.SequenceModel):
    structure_type = Chain


register(SequenceModel, known_of(reference.SequenceModel))  # screening asks by exact type: features are read as there


if __name__ == "__main__":
    from conformance.__main__ import main

    sys.exit(main(["--backend", "conformance.recipes.backend"]))
