"""Statements of Pillutla et al. as residuals and slacks.

A residual is 0 where an identity holds, a slack is >= 0 where an inequality holds, both up to rounding. The functions
take the arguments and the results of an oracle or an algorithm, so that any implementation can be checked against the
paper.
"""

from reference.identities.pillutla.casimir import (
    absolute_accuracy_slack,
    approximate_prox_slack,
    gradient_accuracy_slack,
    one_step_slack,
    potential,
    prox_center_slack,
    relative_accuracy_slack,
    three_points_slack,
    warm_start_slack,
)
from reference.identities.pillutla.oracles import (
    exactness_slack,
    exp_oracle_residuals,
    sparse_projection,
    sparsity,
    sparsity_slacks,
    subgradient_slack,
    top_k_residuals,
)
from reference.identities.pillutla.prox_linear import inexactness_slack, linearization_slack, prox_linear_descent_slack
from reference.identities.pillutla.sequences import (
    alpha_residual,
    alpha_slacks,
    auxiliary,
    auxiliary_residuals,
    constant_kappa_slacks,
    growing_kappa_slacks,
    log_rate_slack,
    markov_iterations,
    markov_slack,
)
from reference.identities.pillutla.smoothing import (
    centred_squared_l2,
    composition_slack,
    fenchel_young_slack,
    lipschitz_slack,
    negative_entropy,
    operator_norm,
    operator_norm_slack,
    row_diameter,
    width_slacks,
)

__all__ = [
    "absolute_accuracy_slack",
    "alpha_residual",
    "alpha_slacks",
    "approximate_prox_slack",
    "auxiliary",
    "auxiliary_residuals",
    "centred_squared_l2",
    "composition_slack",
    "constant_kappa_slacks",
    "exactness_slack",
    "exp_oracle_residuals",
    "fenchel_young_slack",
    "gradient_accuracy_slack",
    "growing_kappa_slacks",
    "inexactness_slack",
    "linearization_slack",
    "lipschitz_slack",
    "log_rate_slack",
    "markov_iterations",
    "markov_slack",
    "negative_entropy",
    "one_step_slack",
    "operator_norm",
    "operator_norm_slack",
    "potential",
    "prox_center_slack",
    "prox_linear_descent_slack",
    "relative_accuracy_slack",
    "row_diameter",
    "sparse_projection",
    "sparsity",
    "sparsity_slacks",
    "subgradient_slack",
    "three_points_slack",
    "top_k_residuals",
    "warm_start_slack",
    "width_slacks",
]
