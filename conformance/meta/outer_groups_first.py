"""Mistake: a tree of groups is shrunk from its root to its leaves."""

import accelerated
from accelerated import *  # noqa: F403


class TreeGroupLasso(accelerated.TreeGroupLasso):
    def _prox(self, point, step_size):
        x = point.x
        for part in self.parts[::-1]:
            x = part.prox(x, step_size)
        return x
