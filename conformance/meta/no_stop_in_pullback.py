"""Mistake: the adjoint forgets the stop weights."""

import accelerated
from accelerated import *  # noqa: F403


class SequenceModel(accelerated.SequenceModel):
    def pullback(self, data, batch, w, g):
        gradient = super().pullback(data, batch, w, g)
        if self.start_stop:
            gradient[(self.width - 1) * self.n_labels : self.width * self.n_labels] = 0.0
        return gradient
