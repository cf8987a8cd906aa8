"""Recipe: add a backend. All of the reference, with one function of one's own."""

import sys
from types import SimpleNamespace

import numpy as np

import reference
import reference.structures.chain as theirs
from reference import *  # noqa: F403
from reference.arrays import host
from reference.screening.registry import known_of, register


def viterbi(scores):
    """Max-product with NumPy on the host, one chain after another; sent back where the scores came from."""
    place = reference.Rows.of(np.zeros((0, 1)), like=scores.unary).place
    *batch, n, L = scores.unary.shape
    unary, pairwise = host(scores.unary).reshape(int(np.prod(batch)), n, L), host(scores.pairwise)
    pairwise = np.broadcast_to(pairwise, (max(n - 1, 0), L, L)) if pairwise.ndim == 2 else pairwise
    pairwise = np.broadcast_to(pairwise, (*batch, max(n - 1, 0), L, L)).reshape(len(unary), max(n - 1, 0), L, L)
    lengths = np.full(len(unary), n) if scores.lengths is None else host(scores.lengths).ravel()
    values, labels = np.zeros(len(unary)), np.full((len(unary), n), -1)
    for i, length in enumerate(lengths):
        if length == 0:
            continue
        best, back = unary[i, 0], []
        for t in range(1, length):
            total = best[:, None] + pairwise[i, t - 1]
            back.append(total.argmax(axis=0))
            best = total.max(axis=0) + unary[i, t]
        values[i] = best.max()
        if values[i] > -np.inf:
            y = [int(best.argmax())]
            for pointers in reversed(back):
                y.append(int(pointers[y[-1]]))
            labels[i, :length] = y[::-1]
    return place.floats(values.reshape(batch)), place.integers(labels.reshape(*batch, n))


class Chain(reference.Chain):
    ops = SimpleNamespace(**{**vars(theirs), "viterbi": viterbi})


class SequenceModel(reference.SequenceModel):
    structure_type = Chain


register(SequenceModel, known_of(reference.SequenceModel))  # screening asks by exact type: features are read as there


if __name__ == "__main__":
    from conformance.__main__ import main

    sys.exit(main(["--backend", "conformance.recipes.backend"]))
