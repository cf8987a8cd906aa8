"""Laws of Branson et al.: what a block of samples adds to the dual, and what each step and a whole run promise."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.identities import Law, Measure
from reference import algorithms, bounds
from reference.optimizers.sample_updates import expand_and_swap, multiclass_update

__all__ = ["LAWS"]

COST = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])


class Block:
    """A new block of three samples: directions V (3, 4), losses, w^{t,0}, weights alpha, and the dual D_t of any."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.lam_t, self.V, self.losses = rng.uniform(0.2, 3.0), rng.normal(size=(3, 4)), rng.uniform(0.0, 2.0, 3)
        self.w, self.alpha = rng.normal(size=4), rng.dirichlet(np.ones(3))

    def dual(self, alpha: np.ndarray) -> float:
        w = self.w - alpha @ self.V / self.lam_t
        return float(alpha @ self.losses - 0.5 * self.lam_t * w @ w)

    def gains(self, alpha: np.ndarray) -> np.ndarray:
        """<w, v_j> + loss_j (3,) at the weights after alpha."""
        return self.V @ (self.w - alpha @ self.V / self.lam_t) + self.losses


def _block(sp: Any, rng: np.random.Generator) -> float:
    block, zero = Block(rng), np.zeros(3)
    Q, c, a = block.V @ block.V.T, -block.lam_t * block.gains(zero), block.alpha
    return block.dual(a) - block.dual(zero) + (0.5 * a @ Q @ a + c @ a) / block.lam_t


def _moves(sp: Any, rng: np.random.Generator) -> float:
    """Of every length, not the best one alone: alpha + a e_j, and (1 - a) alpha + a e_j."""
    block, a, off = Block(rng), rng.uniform(), []
    gains, u = block.gains(block.alpha), block.alpha @ block.V
    for e, v, gain in zip(np.eye(3), block.V, gains, strict=True):
        for moved, towards, gained in ((e, v, gain), (e - block.alpha, v - u, gain - block.alpha @ gains)):
            expected = a * gained - a * a / (2 * block.lam_t) * towards @ towards
            off.append(block.dual(block.alpha + a * moved) - block.dual(block.alpha) - expected)
    return float(np.max(np.abs(off)))


def _round(sp: Any, rng: np.random.Generator) -> float:
    block = Block(rng)
    start = rng.uniform() * block.alpha
    Q, b = block.V @ block.V.T, block.lam_t * block.gains(np.zeros(3))
    return block.dual(expand_and_swap(Q, b, start)) - block.dual(start)


def _classes(sp: Any, rng: np.random.Generator) -> float:
    c, P = rng.normal(size=4), rng.uniform(0.1, 3.0)

    def cost(alpha: np.ndarray) -> float:
        return float(0.5 * P * (alpha @ alpha + np.sum(alpha) ** 2) + c @ alpha)

    others = rng.dirichlet(np.ones(5), 20)[:, :4]
    return min(map(cost, others)) - cost(multiclass_update(c, P))


def _run(sp: Any, rng: np.random.Generator) -> dict[str, float]:
    """The least slack of each lemma over three passes over five examples of three classes."""
    X, Y, lam = rng.normal(size=(5, 3)), rng.integers(0, 3, 5), 10 ** rng.uniform(-2, 1)
    model = sp.MulticlassModel(3, 3, cost=COST)
    hinge = sp.StructuralHinge(model, model.pack(X, Y))
    G = bounds.subgradient_norm(lam, float(np.max(np.linalg.norm(X, axis=1))), COST.max())
    box, values, slacks = algorithms.Multisample(lam, k=3, online=True), [], []
    state = box.init(hinge)
    for i in [*range(5)] * 3:
        w, t, corners = state.x, state.blocks + 1, box.samples(hinge, state.x, i, rng)
        after = box.visit(hinge, state, i, corners)
        loss, g = float(hinge.value_and_gradient(w, [i])[0]), lam * w + corners.directions[0, 0]
        values.append(loss + 0.5 * lam * float(w @ w))
        gained = t * after.dual(lam) - (t - 1) * state.dual(lam)
        raised = (gained - bounds.dual_increase(values[-1], float(g @ g), lam, t)) / (1 + values[-1])
        inside, shorter = 1 - lam * float(after.x @ after.x) / COST.max(), 1 - float(np.linalg.norm(g)) / G
        slacks.append((raised, inside, shorter, loss - COST[Y[i], model.predict(hinge.data, [i], w)[0]]))
        state = after
    best = sp.bcfw(hinge, lam=lam, epochs=200, tol=1e-6, rng=0)  # its dual is at most the least mean of f
    regret = best.fun - best.certificate + bounds.online_regret(lam, G, len(values)) - float(np.mean(values))
    return dict(zip("2356", map(float, np.min(slacks, axis=0)), strict=True)) | {"4": regret / (1 + best.fun)}


def _lemma(number: str) -> Measure:
    return lambda sp, rng: _run(sp, rng)[number]


LAWS = (
    Law("(9)-(11), (24)", "what a block adds to the dual", "residual", _block, False),
    Law("(14), section 1.2", "what moves of any length add", "residual", _moves, False),
    Law("Algorithm 1", "a round never lowers the dual", "slack", _round, False),
    Law("Algorithm 2", "the exact update of classes", "slack", _classes, False),
    Law("Lemma 2.2", "what a step adds to the dual at least", "slack", _lemma("2")),
    Law("Lemma 2.3", "the radius of the weights", "slack", _lemma("3")),
    Law("Lemma 2.4", "regret of a run", "slack", _lemma("4")),
    Law("Lemma 2.5", "the longest subgradient of a run", "slack", _lemma("5")),
    Law("Lemma 2.6", "the hinge and the loss of the prediction", "slack", _lemma("6")),
)
