"""pytorch-crf: the best labels of chains and their log-probabilities."""

from __future__ import annotations

import numpy as np

PACKAGE, MODULE = "pytorch-crf", "torchcrf"
MAPPING = {
    "Chain": "`CRF(L, batch_first=True)` in float64, with start and end scores of 0 and a mask for `lengths`: "
    "`decode`, which returns labels alone, and `forward(reduction='none')`, the log-probability."
}
KNOWN = {
    "Chain.best, every output forbidden": "Of emissions that are all -inf `decode` returns labels 0 without a word; "
    "`forward` gives nan."
}


class Chain:
    def __init__(self, unary, pairwise, lengths=None):
        import torch
        from torchcrf import CRF

        self.batched = lengths is not None
        self.emissions = torch.from_numpy(unary if self.batched else unary[None])
        self.mask = None if lengths is None else torch.from_numpy(np.arange(unary.shape[1]) < lengths[:, None])
        self.crf = CRF(unary.shape[-1], batch_first=True).double()
        for parameter, value in ((self.crf.start_transitions, 0.0), (self.crf.end_transitions, 0.0)):
            torch.nn.init.constant_(parameter, value)
        self.crf.transitions.data = torch.from_numpy(pairwise)
        self.handed = [self.emissions, self.crf.transitions]

    def best(self):
        labels = self.crf.decode(self.emissions, self.mask)
        return None, labels if self.batched else labels[0]

    def log_probability(self, y):
        import torch

        tags = torch.from_numpy(np.maximum(np.atleast_2d(y), 0))
        found = self.crf(self.emissions, tags, self.mask, reduction="none").detach().numpy()
        return found if self.batched else found[0]
