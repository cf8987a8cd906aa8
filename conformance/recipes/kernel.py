"""Recipe: add a kernel. Here: an epoch of the recipe's optimiser, over any packed problem."""

import numpy as np

import accelerated
from accelerated.arrays import like, view
from accelerated.compiled.problems import add_dense, add_rows, flush, oracle, prepared, room
from accelerated.kernel import kernel
from accelerated.problems import finite, problem_of
from conformance.recipes import optimizer
from conformance.recipes.optimizer import MomentumState
from reference.training.counterparts import register


@kernel
def momentum_epoch(problem, order, box, mu, w, v):
    """v <- beta v - gamma (g + lam w), w <- w + v for each example, in place; box: (lam, gamma, beta)."""
    (W, A), (V, B), (lam, gamma, beta) = w, v, box
    work = room(problem, order, 0, len(order), A)
    for i in order:
        ready = prepared(problem, A, mu, work)
        oracle(problem, i, 1.0, W, A, ready, mu, work)
        V *= beta
        V -= gamma * lam * W
        B *= beta
        B -= gamma * lam * A
        add_rows(problem, i, -gamma, work, V)
        add_dense(problem, i, -gamma, work, B)
        flush(problem, -gamma, ready, work, B)
        W += V
        A += B


class Momentum(optimizer.Momentum):
    """The algorithm with a compiled epoch; else it falls back. In the package: ``accelerated/optimizers/``."""

    @classmethod
    def fits(cls, box, objective):
        return objective.nonnegative is None

    def sweep(self, objective, state, order):
        mu, model = objective.mu, objective.model
        problem = problem_of(objective, mu)
        if problem is None or not finite(state.w, state.v):
            return super().sweep(objective, state, order)
        w, v = (model.padded(view("w0", x)) for x in (state.w, state.v))
        momentum_epoch(problem, order, (self.lam, self.step_size, self.beta), mu, w, v)
        x, move = (like(model.flat(*each), state.w) for each in (w, v))
        return MomentumState(x, move, state.t + len(order))


# in the package: one name in the table of accelerated/counterparts.py
for model in (accelerated.SequenceModel, accelerated.MulticlassModel):
    for objective in (accelerated.StructuralHinge, accelerated.LogLoss):
        register(optimizer.Momentum, objective, model, Momentum)


def difference(objective, epochs=2):
    """How far the loop and the kernel are apart after some epochs from one state."""
    boxes = optimizer.Momentum(0.1, 0.01), Momentum(0.1, 0.01)
    states = [box.init(objective, objective.zeros()) for box in boxes]
    for seed in range(epochs):
        states = [box.epoch(objective, s, np.random.default_rng(seed)) for box, s in zip(boxes, states, strict=True)]
    return float(np.max(np.abs(states[0].w - states[1].w)))


__all__ = ["Momentum", "difference", "momentum_epoch"]
