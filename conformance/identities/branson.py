"""Laws of Branson et al.: what a block of samples adds to the dual, and what each step and a whole run promise."""

from collections.abc import Callable
from types import SimpleNamespace
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
    block, a = Block(rng), rng.uniform()
    gains, u = block.gains(block.alpha), block.alpha @ block.V

    def off(moved: np.ndarray, towards: np.ndarray, gained: float) -> float:
        gain = a * gained - a * a / (2 * block.lam_t) * towards @ towards
        return float(block.dual(block.alpha + a * moved) - (block.dual(block.alpha) + gain))

    expands = [off(e, v, gain) for e, v, gain in zip(np.eye(3), block.V, gains, strict=True)]
    swaps = [off(np.eye(3)[j] - block.alpha, block.V[j] - u, gains[j] - block.alpha @ gains) for j in range(3)]
    return float(np.max(np.abs([*expands, *swaps])))


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


class Online:
    """Three passes over five examples of three classes; G bounds the subgradients.

    visits: of each the number t, the states before and after it, and at the weights before it the hinge, f, a
    subgradient g of f, and the task loss of the predicted output.
    """

    def __init__(self, sp: Any, rng: np.random.Generator) -> None:
        X, Y, self.lam = rng.normal(size=(5, 3)), rng.integers(0, 3, 5), 10 ** rng.uniform(-2, 1)
        model = sp.MulticlassModel(3, 3, cost=COST)
        self.objective = hinge = sp.StructuralHinge(model, model.pack(X, Y))
        self.G = bounds.subgradient_norm(self.lam, float(np.max(np.linalg.norm(X, axis=1))), COST.max())
        box, self.visits = algorithms.Multisample(self.lam, k=3, online=True), []
        state = box.init(hinge)
        for i in [*range(5)] * 3:
            w, corners = state.x, box.samples(hinge, state.x, i, rng)
            after = box.visit(hinge, state, i, corners)
            visit = SimpleNamespace(t=state.blocks + 1, before=state, after=after)
            visit.hinge = float(hinge.value_and_gradient(w, [i])[0])
            visit.f, visit.g = visit.hinge + 0.5 * self.lam * float(w @ w), self.lam * w + corners.directions[0, 0]
            visit.predicted = COST[Y[i], model.predict(hinge.data, [i], w)[0]]
            self.visits.append(visit)
            state = after


def _lemma_2_2(run: Online, visit: SimpleNamespace) -> float:
    lam, t, f, g = run.lam, visit.t, visit.f, visit.g
    gained = t * visit.after.dual(lam) - (t - 1) * visit.before.dual(lam)
    return (gained - bounds.dual_increase(f, float(g @ g), lam, t)) / (1 + f)


def _lemma_2_3(run: Online, visit: SimpleNamespace) -> float:
    return COST.max() / run.lam - visit.after.x @ visit.after.x


def _lemma_2_4(sp: Any, rng: np.random.Generator) -> float:
    run = Online(sp, rng)
    best = sp.bcfw(run.objective, lam=run.lam, epochs=200, tol=1e-6, rng=0)
    dual = best.fun - best.certificate  # at most the least mean of f
    mean = float(np.mean([visit.f for visit in run.visits]))
    return (dual + bounds.online_regret(run.lam, run.G, len(run.visits)) - mean) / (1 + best.fun)


def _lemma_2_5(run: Online, visit: SimpleNamespace) -> float:
    return run.G - np.linalg.norm(visit.g)


def _lemma_2_6(run: Online, visit: SimpleNamespace) -> float:
    return visit.hinge - visit.predicted


def _each_visit(lemma: Callable[[Online, SimpleNamespace], float]) -> Measure:
    """The least slack of a lemma over the visits of a run."""

    def least(sp: Any, rng: np.random.Generator) -> float:
        run = Online(sp, rng)
        return min(float(lemma(run, visit)) for visit in run.visits)

    return least


LAWS = (
    Law("(9)-(11), (24)", "what a block adds to the dual", "b-9-11-24", "residual", _block, False),
    Law(
        "(14), 1.2",
        "what moves of any length add",
        "b-section-1-2-expand-move b-14-swap-move",
        "residual",
        _moves,
        False,
    ),
    Law("Algorithm 1", "a round never lowers the dual", "b-algorithm-1", "slack", _round, False),
    Law("Algorithm 2", "the exact update of classes", "b-algorithm-2 b-18-21-25", "slack", _classes, False),
    Law("Lemma 2.2", "what a step adds to the dual at least", "b-lemma-2-2", "slack", _each_visit(_lemma_2_2)),
    Law("Lemma 2.3", "the radius of the weights", "b-lemma-2-3-algorithm-3-line-5", "slack", _each_visit(_lemma_2_3)),
    Law("Lemma 2.4", "regret of a run", "b-lemma-2-4 b-theorem-2-1-1-2-1-3", "slack", _lemma_2_4),
    Law("Lemma 2.5", "the longest subgradient of a run", "b-lemma-2-5", "slack", _each_visit(_lemma_2_5)),
    Law("Lemma 2.6", "the hinge and the loss of the prediction", "b-lemma-2-6", "slack", _each_visit(_lemma_2_6)),
)
