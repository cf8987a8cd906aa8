"""Mistake: the recursion of group norms lacks its inner product: ||w - gamma g||^2 = ||w||^2 + gamma^2 ||g||^2."""

from dataclasses import dataclass

import numpy as np

import accelerated
from accelerated import *  # noqa: F403
from reference.optimizers import online_proximal
from reference.optimizers.online_proximal import OnlineProximalState
from reference.training.counterparts import register


@dataclass(frozen=True)
class OnlineProximal(online_proximal.OnlineProximal):
    def sweep(self, objective, state, order):
        mkl, ball = self.proxes.parts
        for turn, gamma in enumerate(
            self.step_size(np.arange(len(order) // self.batch_size) + state.t + 1, self.sigma)
        ):
            batch, keep = order[turn * self.batch_size : (turn + 1) * self.batch_size], 1 - gamma * self.sigma
            g, x, members = objective.value_and_gradient(state.x, batch, self.mu)[1], state.x, mkl.groups.members
            x = keep * x - gamma * g
            norms = np.array(
                [np.sqrt(keep**2 * np.sum(state.x[k] ** 2) + gamma**2 * np.sum(g[k] ** 2)) for k in members]
            )
            after = accelerated.SquaredL1(mkl.lam).prox(norms, gamma)
            for group, was, now in zip(members, norms, after, strict=True):
                x[group] *= now / was if was > 0 else 0
            x, t = ball.prox(x), state.t + 1
            mean = x if self.average == "last" else state.mean + (state.x - state.mean) / t
            state = OnlineProximalState(x, mean, t)
        return state


class StructuralHinge(accelerated.StructuralHinge):
    pass


register(online_proximal.OnlineProximal, StructuralHinge, accelerated.SequenceModel, OnlineProximal)
