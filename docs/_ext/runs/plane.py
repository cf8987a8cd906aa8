"""Optimisers of two weights, on the contours of what they minimise: Algorithms 4 and 5 of Pillutla et al., 1 of Martins
et al. and 1 of Branson et al.
"""

from collections.abc import Callable, Sequence
from typing import Any

import contourpy
import numpy as np
from drawing import Drawing, Frame, Run
from watch import watch

from reference import ListModel, LogLoss, StructuralHinge, Table, algorithms, lbfgs, prox, smoothings, steps
from reference.models.nonlinear import Delegating, NonlinearModel
from reference.structures.table import TableScores

LAM, KAPPA, MU, GAMMA, ROUNDS = 0.05, 0.3, 0.5, 0.3, 8
FEATURES = [  # of the three outputs of each example
    [[1.0, 0.2], [-0.5, 1.0], [0.0, -0.8]],
    [[0.4, 1.0], [1.2, -0.4], [-0.6, 0.1]],
    [[0.9, -0.3], [-0.2, 0.7], [-1.0, -0.5]],
    [[-0.3, 1.1], [0.5, 0.3], [0.2, -1.0]],
]
MODEL = ListModel(np.array, Table, lambda x, y: np.arange(3) != y, size=2)
HINGE = StructuralHinge(MODEL, MODEL.pack(FEATURES, [0, 0, 0, 0]), smoothing=smoothings.Entropy())
LOW, HIGH, SIDE = -1.0, 3.0, 360.0
INSTANCE = """Four examples have three outputs each, of which the first is true, and two features. """


def value(w: Any, mu: float = 0.0, lam: float = LAM) -> float:
    """The hinge with its regularizer."""
    return float(HINGE.value_and_gradient(np.asarray(w), None, mu)[0] + 0.5 * lam * np.sum(np.square(w)))


class Plane(Drawing):
    """Weights from LOW to HIGH, with contours of functions."""

    def __init__(self, under: Callable[[Any], float], over: Callable[[Any], float] | None = None) -> None:
        super().__init__(SIDE, SIDE)
        self.box((0, 0), (SIDE, SIDE), "faint")
        self.contours(under, "faint", 8)
        if over is not None:
            self.contours(over, "ink", 6)

    def at(self, w: Any) -> tuple[float, float]:
        """Where two weights lie on the sheet."""
        x, y = (np.clip(np.asarray(w), LOW, HIGH) - LOW) / (HIGH - LOW) * SIDE
        return float(x), float(SIDE - y)

    def path(self, points: Sequence[Any], kind: str, name: str = "", radius: float = 3.0) -> None:
        """Points joined by lines, with a name at the last."""
        self.line([self.at(w) for w in points], kind, 1.5, 0.7)
        for w in points:
            self.dot(self.at(w), radius, kind)
        x, y = self.at(points[-1])
        self.text((x + 8, y + (16 if kind == "ink" else -12)), name, kind, "start", 14)

    def contours(self, function: Callable[[Any], float], kind: str, levels: int) -> None:
        """Lines of equal values, closer near the least."""
        w = np.linspace(LOW, HIGH, 41)
        z = np.array([[function(np.array([a, b])) for a in w] for b in w])
        lines = contourpy.contour_generator(w, w, z)
        for share in np.linspace(0.05, 1.0, levels) ** 2:
            for points in lines.lines(z.min() + share * (z.max() - z.min())):
                self.line([self.at(each) for each in points], kind, 1)


def _point(w: Any) -> str:
    return f"({', '.join(f'{x:.2f}' for x in np.round(w, 2) + 0.0)})"


def casimir() -> Run:
    """Casimir, with SVRG inside.

    {INSTANCE} Grey: the contours of the hinge with lam = {LAM}; dark: those of the problem smoothed with mu = {MU}
    and centred at z with kappa = {KAPPA}, with the steps of SVRG on it.
    """
    inner = algorithms.OnePass(algorithms.SVRG(), step_size=GAMMA)
    box = algorithms.Casimir(algorithms.Corollary17(LAM, KAPPA, MU), inner)
    state, rng, frames = box.init(HINGE, HINGE.zeros()), np.random.default_rng(0), []
    ws, zs = [state.w], [state.z]
    for _ in range(ROUNDS):
        places = {"alpha = next_alpha": algorithms.Casimir.epoch, "_, g = objective": algorithms.SVRG.sweep}
        moments, state = watch(lambda before=state: box.epoch(HINGE, before, rng), places, "w beta z")
        passed, beta = [m.w for m in moments if m.line == "_, g = objective"], moments[-1].beta

        def subproblem(w: Any, z: Any = zs[-1]) -> float:
            return value(w, MU) + 0.5 * KAPPA * float(np.sum((w - z) ** 2))

        drawing = Plane(value, subproblem)
        drawing.path([*passed, state.w], "ink", radius=1.5)
        ws, zs = [*ws, state.w], [*zs, state.z]
        drawing.path(ws, "best", "w")
        drawing.path([state.w, state.z], "ink", "z", 2)
        says = f"A pass of SVRG takes the smoothed, centred problem from {subproblem(passed[0]):.4f} to "
        says += f"{subproblem(state.w):.4f}, at w_{state.k} = {_point(state.w)}; with beta = {beta:.2f} the next "
        says += f"centre is z_{state.k} = {_point(state.z)}, and the unsmoothed objective is {value(state.w):.4f}."
        frames.append(Frame(drawing, says))
    return Run(algorithms.Casimir.epoch, frames, state.w)


class Bent(Delegating, NonlinearModel):
    """Scores 2 tanh of a list model's."""

    def scores(self, data: Any, batch: np.ndarray, w: Any) -> Any:
        return TableScores(2 * np.tanh(self.model.scores(data, batch, w).values))

    def _slopes(self, data: Any, batch: np.ndarray, w: Any) -> Any:
        return 2 - self.scores(data, batch, w).values ** 2 / 2

    def pushforward(self, data: Any, batch: np.ndarray, w: Any, dw: Any) -> Any:
        return TableScores(self._slopes(data, batch, w) * self.model.scores(data, batch, dw).values)

    def pullback(self, data: Any, batch: np.ndarray, w: Any, g: Any) -> Any:
        return self.model.pullback(data, batch, w, TableScores(self._slopes(data, batch, w) * g.values))


BENT = LogLoss(Bent(MODEL), MODEL.pack(FEATURES, [0, 0, 0, 0]))
ETA, FAR = 20.0, np.array([-0.9, 2.5])


def bent(w: Any) -> float:
    """The log loss of the bent scores, with its regularizer."""
    return float(BENT.value_and_gradient(np.asarray(w))[0] + 0.5 * LAM * np.sum(np.square(w)))


def prox_linear() -> Run:
    """The prox-linear algorithm.

    {INSTANCE} The scores are 2 tanh of linear ones. Grey: the contours of the log loss with lam = {LAM}, not convex;
    dark: those of its convex model about the last w, with eta = {ETA:g}.
    """
    models: list[Any] = []

    def inner(model: Any, k: int, rng: Any) -> tuple[Any, Any]:
        models.append(model)
        return lbfgs(model.convex, model.w - model.center, lam=model.curvature, tol=1e-10).x, None

    box = algorithms.ProxLinear(LAM, ETA, inner)
    state, rng, frames = box.init(BENT, FAR), np.random.default_rng(0), []
    ws = [state.w]
    for _ in range(ROUNDS):
        before, state = state, box.epoch(BENT, state, rng)

        def convex(w: Any, model: Any = models[-1]) -> float:
            return float(model.value(w - model.center, None))

        drawing = Plane(bent, convex)
        taken = state.w is state.w_hat
        ws += [state.w] if taken else []
        drawing.path(ws, "best", "w")
        says = f"The convex model about {_point(before.w)} is least at {_point(state.w_hat)}, with "
        says += f"{convex(state.w_hat):.4f}; F there is {state.fun_hat:.4f} after "
        says += f"{before.fun:.4f}, so that the point is {'' if taken else 'not '}taken (line 4)."
        frames.append(Frame(drawing, says))
    return Run(algorithms.ProxLinear.epoch, frames, state.w)


L1, LAM_B = 0.3, 0.3


def online_proximal() -> Run:
    """Online proximal steps.

    {INSTANCE} Grey: the contours of the hinge with {L1:g} times the l1 norm; dark: the step along a subgradient and
    the prox.
    """
    sweep = algorithms.OnlineProximal.sweep
    box = algorithms.OnlineProximal(prox.L1(L1), steps.InverseSqrt(1.0), mu=0.0)
    state, rng = box.init(HINGE, HINGE.zeros()), np.random.default_rng(0)
    places = {"if np.all(": sweep, "mean = w if": sweep}
    frames, ws = [], [state.x]
    for _ in range(2):
        moments, state = watch(lambda before=state: box.epoch(HINGE, before, rng), places, "w t eta")
        for stepped, moved in zip(moments[:-1:2], moments[1::2], strict=True):
            drawing = Plane(lambda w: value(w, lam=0.0) + L1 * float(np.abs(w).sum()))
            drawing.path([ws[-1], stepped.w, moved.w], "ink", radius=2)
            ws.append(moved.w)
            drawing.path(ws, "best", "w")
            says = f"Round {moved.t}: a step of size {moved.eta:.2f} on one example leads to {_point(stepped.w)}, and "
            says += f"the prox moves each weight by up to {L1 * moved.eta:.3f} towards 0, to {_point(moved.w)}."
            frames.append(Frame(drawing, says))
    return Run(sweep, frames, state.x)


def multisample() -> Run:
    """Multi-sample dual updates.

    {INSTANCE} Grey: the contours of the hinge with lam = {LAM_B:g}. Bars: the weights of the example's outputs in the
    dual, from the second visit on with what the block had before as the first.
    """
    box = algorithms.Multisample(LAM_B, k=3)
    state, rng = box.init(HINGE), np.random.default_rng(0)
    frames, ws = [], [state.x]
    for i in [*rng.permutation(HINGE.n).tolist(), *rng.permutation(HINGE.n).tolist()]:

        def visit(before: Any = state, i: int = i) -> Any:
            return box.visit(HINGE, before, i, box.samples(HINGE, before.x, i, rng))

        (moment, _), state = watch(visit, {"weights, mixtures = state": box.visit}, "alpha losses")
        drawing = Plane(lambda w: value(w, lam=LAM_B))
        ws.append(state.x)
        drawing.path(ws, "best", "w")
        for j, (share, loss) in enumerate(zip(moment.alpha, moment.losses, strict=True)):
            drawing.text((10, 14 + 16 * j), f"loss {loss:.2g}, alpha {share:.2f}", "ink", "start")
            drawing.box((150, 8 + 16 * j), (80 * float(share), 12), "best", 0.8)
        dual, primal = state.dual(LAM_B), value(state.x, lam=LAM_B)
        says = f"Visit {state.t}, of example {i + 1}: its outputs have {moment.alpha.sum():.2f} of at most 1 together, "
        says += f"w = {_point(state.x)}; the dual of {state.blocks} examples is {dual:.4f}, the objective {primal:.4f}."
        frames.append(Frame(drawing, says))
    return Run(algorithms.Multisample.visit, frames, state.x)


RUNS = {"p-algorithm-4": casimir, "p-algorithm-5": prox_linear}
RUNS |= {"m-algorithm-1": online_proximal, "b-algorithm-1": multisample}
