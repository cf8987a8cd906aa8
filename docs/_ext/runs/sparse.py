"""Which kernels and features matter: Algorithm 3 of Martins et al. and Algorithm 1 of Zhang and Qiu."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from drawing import Drawing, Frame, Run
from watch import watch

import reference as sp
from reference import algorithms

BARS, LONGEST, CELLS, END = 80.0, 140.0, 245.0, 430.0  # where bars begin and the longest one's length; where cells are
STEP = 24.0  # from line to line


class Lines(Drawing):
    """A line for each name: bars, then a cell for each time."""

    def __init__(self, names: Sequence[str], times: int, bars: str, cells: str) -> None:
        super().__init__(END + 5, 30 + STEP * len(names))
        self.each = (END - CELLS) / times
        self.text((BARS, 10), bars, anchor="start")
        self.text((CELLS, 10), cells, anchor="start")
        for k, name in enumerate(names):
            self.text((BARS - 8, 35 + STEP * k), name, anchor="end")

    def bar(self, k: int, share: float, kind: str, shade: float) -> None:
        """A bar of a share of the longest."""
        self.box((BARS, 27 + STEP * k), (LONGEST * min(float(share), 1.0), 16), kind, shade)

    def cell(self, k: int, time: int, kind: str, shade: float) -> None:
        """What a line is at a time."""
        self.box((CELLS + self.each * time, 27 + STEP * k), (self.each - 3, 16), kind, float(shade))


GROUPS = ["linear", "quadratic", "Gaussian", "transitions"]
NUMBERS = [[0.2, 2.0, -1.8], [-0.4, 1.6, 0.5], [-2.2, 0.1, 1.9], [1.7, -0.6]]
LABELLER = sp.KernelSequenceModel([sp.kernels.Linear(), sp.kernels.Polynomial(2), sp.kernels.Gaussian(1.0)], labels=2)
DATA = LABELLER.pack([np.transpose([x]) for x in NUMBERS], [[int(abs(v) < 1) for v in x] for x in NUMBERS])
LAM, EPOCHS, SCHEDULE = 0.2, 4, sp.steps.InverseSqrt(1.0)


def online_mkl() -> Run:
    """Online multiple kernel learning.

    Four sequences of numbers, where the label of a number says whether it is between -1 and 1: a linear kernel cannot
    tell. Bars: the norm of each group of weights after the gradient step (grey) and after the prox (red), with lam =
    {LAM}. Cells: the weights beta of the kernels, the shares of the groups in the sum of norms, after each round.
    """
    problem, box = algorithms.KernelProblem(LABELLER, DATA), algorithms.MKL(LABELLER.penalty(LAM), SCHEDULE)
    state, rng, rounds = box.init(problem, LABELLER.zeros(DATA)), np.random.default_rng(0), list[Any]()
    for _ in range(EPOCHS):
        places = {"factors = np.where": algorithms.MKL.round}
        moments, state = watch(partial(box.epoch, problem, state, rng), places, "i t eta moved b")
        rounds += [moment for moment in moments if moment.line != "return"]
    longest, betas, frames = max(moment.moved.max() for moment in rounds), list[Any](), []
    for moment in rounds:
        drawing = Lines(GROUPS, len(rounds), "norms", "beta")
        betas.append(moment.b / moment.b.sum() if moment.b.any() else moment.b)
        for k, (norm, shrunk) in enumerate(zip(moment.moved, moment.b, strict=True)):
            drawing.bar(k, norm / longest, "ink", 0.2)
            drawing.bar(k, shrunk / longest, "best", 0.7)
            for time, beta in enumerate(betas):
                drawing.cell(k, time, "best", beta[k])
        gone = np.array(GROUPS)[(moment.moved > 0) & (moment.b == 0)]
        says = f"Round {moment.t}, sequence {moment.i + 1}: after a step of size {moment.eta:.2f} the prox takes "
        says += f"{max(moment.moved - moment.b):.3f} from each norm"
        says += f", or all of it ({', '.join(gone)}); " if len(gone) else "; "
        says += f"beta = ({', '.join(f'{share:.2f}' for share in betas[-1])})."
        frames.append(Frame(drawing, says))
    return Run(algorithms.MKL.round, frames, state.weights)


N, D = 6, 10
NAMES = np.array([f"w{j + 1}" for j in range(D)])
FEATURES = np.round(np.random.default_rng(0).normal(size=(N, 3, D)), 1)
FEATURES[:, 0, :3] += 1.0
LISTED = sp.ListModel(np.array, sp.Table, size=D)
LOSS = sp.LogLoss(LISTED, LISTED.pack(FEATURES, [0] * N))
ALPHA, GAMMA, TOL = 1.0, 0.3, 1e-5
BETAS = [share * sp.beta_max(LOSS) for share in (0.8, 0.5, 0.3, 0.2, 0.1)]
RULE, SOLVER = sp.HalfSpaceRule(half_spaces="all"), sp.AcceleratedProximalGradient()
KINDS = [("faint", 0.0), ("ink", 0.3), ("best", 0.8)]  # of a weight that is screened, 0, and not 0


def screening() -> Run:
    """Safe screening.

    {N} examples have three outputs, of which the first is true, and {D} features. Bars: the size of the gradient of
    each weight (dark) and the rule's bound on it at the optimum (grey), cut off at twice beta. The line is beta: where
    the bound does not reach it, the weight is 0 at the optimum, and leaves. Cells: for each beta, the weights that are
    screened (empty), 0 (grey) and not 0 (red).
    """
    problem, memory = sp.ElasticNetCRF(LOSS, alpha=ALPHA, beta=BETAS[0]), None
    frames, solutions, found = list[Frame](), list[np.ndarray](), list[np.ndarray]()  # found: a kind of each weight

    def add(says: str, point: Any, bounds: Sequence[float] = ()) -> None:
        drawing = Lines(NAMES, len(BETAS), "gradients, bounds", "beta, from high to low")
        for sizes, shade in ((bounds, 0.15), (np.abs(point.gradient), 0.6)):
            for j, size in zip(point.problem.columns, sizes, strict=False):
                drawing.bar(j, size / (2 * point.problem.beta), "ink", shade)
        drawing.line([(BARS + LONGEST / 2, 22), (BARS + LONGEST / 2, 30 + STEP * D)], "best")
        for time, kinds in enumerate(found):
            for j, kind in enumerate(kinds):
                drawing.cell(j, time, *KINDS[kind])
        frames.append(Frame(drawing, f"beta = {point.problem.beta:.3f}, after {state.iteration} iterations: {says}"))

    for beta in BETAS:
        box = algorithms.Screened(SOLVER, RULE, GAMMA, memory)
        state = box.start(problem.with_beta(beta), np.zeros(D))
        found.append(np.ones(D, int))
        while True:
            point, places = state.memory.state, {"result: np.ndarray": sp.HalfSpaceRule.bounds}
            moments, state = watch(partial(box.screened, state), places, "result")
            memory, after = state.memory, state.memory.state
            found[-1][np.setdiff1d(point.problem.columns, after.problem.columns)] = 0
            if moments:
                left = f"{after.problem.size} of {point.problem.size}"
                add(f"the gap is {point.gap:.1e}, and the rule leaves {left} weights.", point, moments[-1].result)
            if after.gap <= TOL * after.fun:
                break
            state = box.step(state)
        found[-1][after.problem.columns[after.w != 0]] = 2
        kept, free = (", ".join(NAMES[found[-1] == kind]) or "none" for kind in (1, 2))
        add(f"solved. Not 0: {free}; 0, but not screened: {kept}.", after)
        solutions.append(state.weights)
    return Run(algorithms.Screened, frames, np.array(solutions))


RUNS = {"m-algorithm-3": online_mkl, "z-algorithm-1": screening}
