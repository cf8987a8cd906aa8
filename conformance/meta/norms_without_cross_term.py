"""Mistake: the recursion of group norms lacks its inner product: ||w - gamma g||^2 = ||w||^2 + gamma^2 ||g||^2."""

import numpy as np

import accelerated
from accelerated import *  # noqa: F403
from reference.optimizers.online_proximal import OnlineProximalState


def epoch(state, objective, proxes, order, *, batch_size, steps, sigma, mu, average):
    mkl, ball = proxes.parts
    for turn, gamma in enumerate(steps):
        batch, keep = order[turn * batch_size : (turn + 1) * batch_size], 1 - gamma * sigma
        g = objective.value_and_gradient(state.x, batch, mu)[1]
        x, members = keep * state.x - gamma * g, mkl.groups.members
        norms = np.array([np.sqrt(keep**2 * np.sum(state.x[k] ** 2) + gamma**2 * np.sum(g[k] ** 2)) for k in members])
        for group, before, after in zip(members, norms, accelerated.SquaredL1(mkl.lam).prox(norms, gamma), strict=True):
            x[group] *= after / before if before > 0 else 0
        t = state.t + 1
        x = ball.prox(x)
        state = OnlineProximalState(x, x if average == "last" else state.mean + (state.x - state.mean) / t, t)
    return state


class StructuralHinge(accelerated.StructuralHinge):
    def fused_epoch(self, optimizer):
        return epoch if optimizer == "online_proximal" else super().fused_epoch(optimizer)
