"""Mistake: the sparse group lasso shrinks groups first and coordinates afterwards."""

import accelerated
from accelerated import *  # noqa: F403


class SparseGroupLasso(accelerated.SparseGroupLasso):
    def _prox(self, point, step_size):
        l1, l21 = self.parts
        return l1.prox(l21.prox(point.x, step_size), step_size)
