"""python-crfsuite: chains by its ``Tagger``, of a model whose weights are written into a file of its ``Trainer``."""

from __future__ import annotations

import os
import struct
import tempfile
from functools import lru_cache

import numpy as np

from conformance.adapters import NotOffered
from reference import ChainScores

PACKAGE, MODULE = "python-crfsuite", "pycrfsuite"
MAPPING = {
    "Chain": "a model of one attribute for each label and of all transitions is trained, and its weights are replaced "
    "in the file: 1 for an attribute with its label, ours for transitions. A position has its label scores as values "
    "of attributes. `tag`, which returns labels alone, `marginal`, and the logarithm of `probability`. "
    "`open_inmemory` does not keep its bytes alive; the adapter does."
}
KNOWN = {
    "Chain.[!b]*, scores of 1e[!-]*|Chain.[!b]*, scores of 1e-6*": "exp(score) overflows: with one transition of 709 "
    "among zeros the answers are right, with 710 the probability of the best labels is 0 and the marginals are nan. "
    "`tag` is right.",
    "Chain.best, every output forbidden": "Of values that are all -inf `tag` returns labels 0 without a word; "
    "`probability` gives 0.",
}


@lru_cache
def trained(L):
    """The file of a model with weights for (attribute a, label a) and for all pairs of labels; none of them is 0, as
    such are left out of files.
    """
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"feature.possible_transitions": True, "max_iterations": 1})
    labels = list(range(L)) + [each for a in range(L) for b in range(L) for each in [a, b] * (1 + a * L + b)]
    trainer.append([{str(a): 1.0} for a in labels], [str(a) for a in labels])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        trainer.train(path)
        with open(path, "rb") as file:
            return file.read()


def model(pairwise):
    """The bytes of a model with these transitions: in the chunk of features, (kind, source, target, weight) each."""
    L = len(pairwise)
    data = bytearray(trained(L))
    start = struct.unpack_from("<I", data, 28)[0]
    count = struct.unpack_from("<I", data, start + 8)[0]
    assert data[start : start + 4] == b"FEAT" and count == L + L * L
    for at in range(start + 12, start + 12 + 20 * count, 20):
        kind, source, target = struct.unpack_from("<iii", data, at)
        struct.pack_into("<d", data, at + 12, pairwise[source, target] if kind else 1.0)
    return bytes(data)


class Chain:
    def __init__(self, unary, pairwise):
        import pycrfsuite

        if len(pairwise) == 1:
            raise NotOffered("of a model with one label no feature is kept")
        self.tagger, self.shape = pycrfsuite.Tagger(), unary.shape
        self.model = model(pairwise)  # read from where it is
        self.tagger.open_inmemory(self.model)
        self.tagger.set([{str(a): float(score) for a, score in enumerate(row)} for row in unary])

    def best(self):
        return None, np.array([int(label) for label in self.tagger.tag()])

    def marginals(self):
        n, L = self.shape
        return ChainScores([[self.tagger.marginal(str(a), t) for a in range(L)] for t in range(n)], None, None)

    def log_probability(self, y):
        return np.log(self.tagger.probability([str(label) for label in y]))
