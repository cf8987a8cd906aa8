"""Mistake: the ball of the l1 gap rule has half its radius."""

from dataclasses import dataclass

import reference
from reference import *  # noqa: F403


@dataclass(frozen=True)
class L1GapRule(reference.L1GapRule):
    def screen(self, state):
        return self.bounds(state) <= state.problem.beta

    def bounds(self, state):
        return super().bounds(state._replace(gap=state.gap / 4))
