"""torch-struct: chains, dependency trees with and without crossing arcs, binary trees over spans."""

from __future__ import annotations

import numpy as np

from conformance.adapters import NotOffered
from reference import ArborescenceScores, ChainScores, KBest

PACKAGE, MODULE = "torch-struct", "torch_struct"
MAPPING = {
    "Chain": "`LinearChainCRF` in float64: each pair of positions has its transition and the later label's score, the "
    "first pair that of the first label, too. `log_probability` is `log_prob` of `to_event`.",
    "Arborescence": "`deptree_part` and `deptree_nonproj` in float64, root scores on the diagonal, `eps=0`. The "
    "default `eps=1e-5` is added to every weight: the log-partition of two tokens of scores 0 is 1.0986190, not log 3 "
    "(1.0986123).",
    "ProjectiveTree": "`DependencyCRF` in float64, with `multiroot=False` for one root, of potentials that require a "
    "gradient, as in training. Of others all but `kmax` and `topk` raise a `RuntimeError`: PyTorch refuses an in-place "
    "operation on a view of a leaf.",
    "SpanTree": "`TreeCRF` in float64 with one nonterminal.",
}

KNOWN = {
    "Chain.*, batch with padding": "`lengths` have to name the padded length: the library asserts that one of them "
    "does.",
    "Chain.log_probability, ragged batch": "`to_event` drops its argument `lengths`, so that pairs beyond a chain's "
    "end count: with scores of 5 there, a log-probability is 3.61. With `LinearChain.to_parts(y, L, lengths)` it is "
    "right.",
    "*.topk, scores of 1e[!-]*|*.topk, scores of 1e-6*": "`KMaxSemiring` fills with -1e5, and an output that is "
    "further below than that loses to fillers: with a transition 1 -> 1 of 9e4 in four positions the three best are "
    "right, with 1.1e5 the best comes three times.",
    "Chain.*, scores of 1e[!-]*": "Scores below -1e9 are read as -1e9, which masks stand for: of potentials of -2e9 "
    "everywhere `max` is -1e9.",
    "*.topk, more than there are": "`kmax` and `topk` fill up to k with scores of -1e5; what they stand for is an "
    "output that was there before, or none.",
    "Chain.*, every output forbidden": "-1e9 stands for -inf: where all potentials are -inf, `max` and `partition` are "
    "-1e9.",
    "*.log_probability, *forbidden parts": "`log_prob` multiplies potentials by 0 and 1, and -inf * 0 is nan.",
    "[PS]*.marginals, *forbidden parts": "The gradient of a `logsumexp` of nothing but -inf is nan: so are the "
    "marginals of forbidden parts, which are 0.",
    "Arborescence.*, scores of 1e[!-]*|Arborescence.*, scores of 1e-6*": "exp(score) overflows: with one score of 709 "
    "among zeros the answers are right, with 710 they are nan.",
    "Arborescence.log_partition, every output forbidden": "The Laplacian is singular, but its determinant rounds to "
    "6e-16, whose logarithm is -35.",
    "ProjectiveTree.*, another of one root made beside it": "`DependencyCRF` writes `multiroot` on the class "
    "`DepTree`, which all share: after `DependencyCRF(scores, multiroot=False)` the log-partition of an older one of "
    "two tokens is log 2, where it was log 3.",
    "[CS]*, arguments afterwards": "`requires_grad` is set on the tensor that is handed over. Its numbers stay.",
}


class Distribution:
    """Answers of a torch-struct distribution over a batch; without ``batched``, of its one member."""

    batched = False

    def __init__(self, potentials, make):
        import torch

        self.potentials = torch.from_numpy(np.ascontiguousarray(potentials))
        self.handed = [self.potentials]
        self.distribution = make(self.potentials)

    def one(self, answer):
        answer = answer.detach().numpy() if hasattr(answer, "detach") else answer
        return answer if self.batched else answer[0]

    def outputs(self, events):
        """(batch, n) of one-hot events (batch, ...)."""
        return self.distribution.from_event(events)[0].numpy()

    def best(self):
        return self.one(self.distribution.max), self.one(self.outputs(self.distribution.argmax))

    def topk(self, k):
        scores = self.distribution.kmax(k).detach().numpy().T
        outputs = [self.outputs(events) for events in self.distribution.topk(k)]
        return KBest(self.one(scores), self.one(list(zip(*outputs, strict=True))), self.one(np.full(len(scores), k)))

    def log_partition(self):
        return self.one(self.distribution.partition)

    def log_probability(self, y):
        import torch

        events = self.distribution.to_event(torch.from_numpy(np.atleast_2d(y)), self.states, self.distribution.lengths)
        return self.one(self.distribution.log_prob(events))

    states = None


class Chain(Distribution):
    def __init__(self, unary, pairwise, lengths=None):
        import torch
        import torch_struct

        if unary.shape[-2] < 2:
            raise NotOffered("scores are of pairs of positions; one position has none")
        self.batched, self.states = lengths is not None, unary.shape[-1]
        unary = unary if self.batched else unary[None]
        potentials = pairwise.T + unary[:, 1:, :, None]  # (batch, pair, later label, earlier label)
        potentials[:, 0] += unary[:, 0, None, :]
        lengths = None if lengths is None else torch.from_numpy(lengths)
        super().__init__(potentials, lambda potentials: torch_struct.LinearChainCRF(potentials, lengths))

    def outputs(self, events):
        return super().outputs(events.detach().round().long())

    def marginals(self):
        pairs = self.distribution.marginals.detach().numpy()
        later, first = pairs.sum(axis=3), pairs[:, :1].sum(axis=2)
        return ChainScores(self.one(np.concatenate([first, later], axis=1)), pairs.sum(axis=(0, 1)).T, None)


def arcs(values):
    """(1, head, child) with the root's on the diagonal, of our scores (child, head) with the root first."""
    by_head = values[:, 1:].T.copy()
    np.fill_diagonal(by_head, values[:, 0])
    return by_head[None]


def scores(by_head):
    """The way back."""
    values = np.concatenate([np.diagonal(by_head)[:, None], by_head.T], axis=1)
    values[range(len(values)), range(1, len(values) + 1)] = 0.0
    return values


class Arborescence:
    def __init__(self, values, single_root=False):
        import torch

        self.arcs, self.options = torch.from_numpy(arcs(values)), {"multi_root": not single_root, "eps": 0.0}
        self.handed = [self.arcs]

    def log_partition(self):
        from torch_struct.deptree import deptree_part

        return deptree_part(self.arcs, **self.options).numpy()[0]

    def marginals(self):
        from torch_struct.deptree import deptree_nonproj

        return ArborescenceScores(scores(deptree_nonproj(self.arcs, **self.options).numpy()[0]))


class ProjectiveTree(Distribution):
    def __init__(self, values, single_root=False):
        import torch_struct

        def make(potentials):
            return torch_struct.DependencyCRF(potentials.requires_grad_(True), multiroot=not single_root)

        super().__init__(arcs(values), make)

    def marginals(self):
        return ArborescenceScores(scores(self.one(self.distribution.marginals)))


class SpanTree(Distribution):
    def __init__(self, values):
        import torch_struct

        super().__init__(values[None, :, :, None], torch_struct.TreeCRF)

    def outputs(self, events):
        trees = events.detach().numpy()[..., 0]
        return [np.argwhere(tree > 0) for tree in trees]

    def log_probability(self, y):
        import torch

        event = torch.zeros_like(self.potentials)
        event[0, y[:, 0], y[:, 1], 0] = 1.0
        return self.one(self.distribution.log_prob(event))

    def marginals(self):
        return ArborescenceScores(self.one(self.distribution.marginals)[..., 0])
