"""Mistake: the conjugate of the l1 norm is 0 also outside its dual ball."""

import accelerated
from accelerated import *  # noqa: F403


class L1(accelerated.L1):
    def _conjugate(self, point):
        return 0.0 * self._dual_norm(point)
