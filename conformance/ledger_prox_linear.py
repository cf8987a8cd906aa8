"""Rows of the claims ledger: section 6 of Pillutla et al., scores that are not linear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["rows"]

THEORY, RUNS, MODELS = "test_pillutla_prox_linear", "test_prox_linear", "test_nonlinear_models"


def rows(Claim: Callable[..., Any]) -> tuple[Any, ...]:
    """The rows, made with the ledger's ``Claim``."""
    return (
        Claim(
            "P Algorithm 5",
            "prox-linear: w_k ~ argmin F_eta(.; w_{k-1}) up to eps_k, taken where F does not grow",
            "holds",
            ("optimizers.prox_linear.ProxLinear", "linearized.LinearizedObjective"),
            (
                f"{RUNS}::test_steps_are_algorithm_5",
                f"{RUNS}::test_a_linearized_objective_is_its_definition",
                f"{RUNS}::test_the_objective_never_grows_and_ends_stationary",
                f"{RUNS}::test_eta_is_halved_where_it_must_be",
            ),
        ),
        Claim(
            "P section 6.1.1",
            "||v||^2 <= 2 (lam + 1/eta) eps_k, v a subgradient of F_eta, implies a gap of at most eps_k",
            "wrong as printed",
            ("identities.pillutla.inexactness_slack",),
            (f"{THEORY}::test_the_corrected_inexactness_test",),
            printed="(lam + 1/eta) ||v||^2 <= eps_k",
            rejected_by=f"{THEORY}::test_the_printed_inexactness_test_allows_a_gap_of_50",
        ),
        Claim(
            "P Lemma 34",
            "|h(g(w + z)) - h(g(w) + J(w) z)| <= (L/2) ||z||^2 where every augmented score is L-smooth",
            "holds under a condition",
            ("identities.pillutla.linearization_slack",),
            (f"{THEORY}::test_lemma_34", f"{THEORY}::test_lemma_34_has_the_true_output_in_it"),
            condition="L is that of score(y) - score(y_i), up to twice that of a score; smoothed or not",
        ),
        Claim(
            "P Theorem 35",
            "eta <= 1/L: min ||prox-gradient||^2 <= (2/(eta K)) (F(w_0) - F* + sum eps_k), and F(w_k) never grows",
            "holds",
            ("bounds.stationarity", "identities.pillutla.prox_linear_descent_slack"),
            (f"{THEORY}::test_theorem_35", f"{THEORY}::test_theorem_35_needs_short_steps"),
        ),
        Claim(
            "P Remark 36",
            "always taking w_k has the same bound, but F(w_k) can grow",
            "holds",
            ("optimizers.prox_linear.ProxLinear", "bounds.stationarity"),
            (f"{THEORY}::test_theorem_35", f"{THEORY}::test_always_accepting_can_grow"),
        ),
        Claim(
            "P Proposition 37",
            "eps_k = eps_0/k: n (gap + eps_0)/(eta eps^2) + sqrt(A D n/eps_0) (gap + eps_0)^{3/2}/(eta eps^3) SVRG "
            "steps up to logarithms",
            "wrong as printed",
            ("bounds.prox_linear_steps", "bounds.prox_linear_work"),
            (
                f"{THEORY}::test_steps_of_proposition_37",
                "test_work_exponents::test_prox_linear_steps_grow_as_stated",
                "test_work_exponents::test_steps_grow_as_stated",
            ),
            condition="one step at least; the bound of Theorem 35 is to be at most eps^2, as the statement has it",
            printed="the proof asks for (2/(eta K)) (gap + 4 eps_0 log K) <= eps",
            rejected_by=f"{THEORY}::test_a_bound_of_accuracy_is_not_enough",
        ),
        Claim(
            "P Remark 38",
            "task losses >= 0 make F >= 0, so that F(w_0) bounds the gap and eps_0 may be of its order",
            "holds",
            ("bounds.prox_linear_steps",),
            (f"{THEORY}::test_remark_38",),
        ),
        Claim(
            "P section 7.1.2, nonlinear scores",
            "<elu(phi * w_1), w_2>, a 1x1 convolution, a smooth unit, a linear map",
            "holds",
            ("models.two_layer.TwoLayerModel", "models.two_layer.elu"),
            (
                f"{MODELS}::test_two_layers_are_their_formula",
                f"{MODELS}::test_two_layers_have_the_jacobian_that_they_say",
                f"{MODELS}::test_elu_is_smooth",
            ),
        ),
    )
