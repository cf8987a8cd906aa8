"""The algorithms without the training loop, to read and to step through. Each is as printed in its paper; its docstring
names corrections and additions.

casimir = algorithms.Casimir(Corollary17(lam=0.1, kappa=0.1, mu=1.0), OnePass(SVRG(), step_size=0.5))
state = casimir.init(objective, objective.zeros())
state = casimir.epoch(objective, state, numpy.random.default_rng(0))  # step into this

An algorithm has ``init`` and ``epoch``: BCFW, Casimir, Centred, CuttingPlanes, ExponentiatedGradient, LBFGS, MKL,
Multisample, OnlineProximal, ProxLinear, Screened, SGD, SVRG. The rest are parts: Corollary17 to 20 are schedules of
Casimir. OnePass solves its subproblems by a pass of SVRG, SAGA or GradientStep, UntilAccurate by passes until (26)
holds. Algorithms do not check their arguments, keep no history and have no stopping rule; the functions of the same
names do.
``counterpart(algorithm, objective)`` is the algorithm with compiled passes, if there is one for this objective.
"""

from __future__ import annotations

from reference.bounds import Corollary17, Corollary18, Corollary19, Corollary20
from reference.online_mkl.rounds import MKL, KernelProblem
from reference.optimizers.bcfw import BCFW
from reference.optimizers.casimir import Casimir, GradientStep, OnePass, UntilAccurate
from reference.optimizers.centre import Centred
from reference.optimizers.cutting_planes import CuttingPlanes
from reference.optimizers.exponentiated_gradient import ExponentiatedGradient
from reference.optimizers.lbfgs import LBFGS
from reference.optimizers.multisample import Multisample
from reference.optimizers.online_proximal import OnlineProximal
from reference.optimizers.prox_linear import ProxLinear
from reference.optimizers.saga import SAGA
from reference.optimizers.sgd import SGD
from reference.optimizers.svrg import SVRG
from reference.screening.dynamic import Screened
from reference.training.counterparts import counterpart

__all__ = [
    "BCFW",
    "LBFGS",
    "MKL",
    "SAGA",
    "SGD",
    "SVRG",
    "Casimir",
    "Centred",
    "Corollary17",
    "Corollary18",
    "Corollary19",
    "Corollary20",
    "CuttingPlanes",
    "ExponentiatedGradient",
    "GradientStep",
    "KernelProblem",
    "Multisample",
    "OnePass",
    "OnlineProximal",
    "ProxLinear",
    "Screened",
    "UntilAccurate",
    "counterpart",
]
