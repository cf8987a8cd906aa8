"""The papers' bounds as plain numbers: sequences, rates, Lipschitz constants, iteration counts. Scalars only."""

from reference.bounds.branson import dual_increase, online_regret, subgradient_norm
from reference.bounds.casimir import Corollary17, Corollary18, Corollary19, Corollary20, Rate, casimir_rates, start_gap
from reference.bounds.inner import accuracy_iterations, inner_iterations, log_rate_iterations, svrg_cost, svrg_rate
from reference.bounds.online import (
    gradient_norm,
    optimum_radius,
    regret_constant_step,
    regret_decaying_step,
    regret_strongly_convex,
    round_bound,
)
from reference.bounds.prox_linear import prox_linear_steps, prox_linear_work, stationarity
from reference.bounds.sequences import momentum, next_alpha
from reference.bounds.smoothing import entropy_smoothness, entropy_width, smoothness, squared_l2_width

__all__ = [
    "Corollary17",
    "Corollary18",
    "Corollary19",
    "Corollary20",
    "Rate",
    "accuracy_iterations",
    "casimir_rates",
    "dual_increase",
    "entropy_smoothness",
    "entropy_width",
    "gradient_norm",
    "inner_iterations",
    "log_rate_iterations",
    "momentum",
    "next_alpha",
    "online_regret",
    "optimum_radius",
    "prox_linear_steps",
    "prox_linear_work",
    "regret_constant_step",
    "regret_decaying_step",
    "regret_strongly_convex",
    "round_bound",
    "smoothness",
    "squared_l2_width",
    "start_gap",
    "stationarity",
    "subgradient_norm",
    "svrg_cost",
    "svrg_rate",
]
