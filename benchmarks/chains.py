"""Chain oracles in batches, one core: both panels and vectorised NumPy."""

from __future__ import annotations

from accelerated.threads import set_num_threads
from benchmarks import baselines, problems


class Oracles:
    """Seconds for a batch (100 chains in the reference, 1,000 elsewhere)."""

    params = ([*problems.PANELS, "numpy"], problems.SIZES)
    param_names = ("panel", "size")

    def setup(self, panel, size):
        set_num_threads(1)
        if panel == "numpy":
            data = problems.scores(*size, problems.CHAINS[panel])
            self.best, self.expect = (lambda: baselines.viterbi(*data)), (lambda: baselines.forward_backward(*data))
        else:
            chain = problems.chain_batch(panel, size)
            self.best, self.expect = chain.best, chain.expectation
        self.best()
        self.expect()

    def time_viterbi(self, panel, size):
        self.best()

    def time_forward_backward(self, panel, size):
        self.expect()


class TopK:
    """Seconds for the k best of a batch (100 chains in the reference, 1,000 in the fast panel); k = 1 is the
    baseline.
    """

    params = (problems.PANELS, problems.SIZES, [1, 5, 20])
    param_names = ("panel", "size", "k")

    def setup(self, panel, size, k):
        set_num_threads(1)
        self.chain = problems.chain_batch(panel, size)
        self.chain.topk(k)

    def time_top_k(self, panel, size, k):
        self.chain.topk(k)


class Memory:
    """Peak memory of one batch."""

    params = (problems.PANELS, problems.SIZES)
    param_names = ("panel", "size")

    def setup(self, panel, size):
        self.chain = problems.chain_batch(panel, size)

    def peakmem_forward_backward(self, panel, size):
        self.chain.expectation()
