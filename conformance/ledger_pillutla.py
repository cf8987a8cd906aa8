"""Rows of the claims ledger: what Pillutla et al. prove of smoothing and of the Casimir algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance import ledger_prox_linear

__all__ = ["rows"]

SMOOTHING, ORACLES, CASIMIR = "test_pillutla_smoothing", "test_pillutla_oracles", "test_pillutla_casimir"
BOUNDS, SEQUENCES, WORK = "test_bounds", "test_bounds_sequences", "test_bounds_work"


def rows(Claim: Callable[..., Any]) -> tuple[Any, ...]:
    """The rows, made with the ledger's ``Claim``."""
    return (
        *_smoothing(Claim),
        *_oracles(Claim),
        *_outer(Claim),
        *_sequences(Claim),
        *_inner(Claim),
        *ledger_prox_linear.rows(Claim),
    )


def _smoothing(Claim: Callable[..., Any]) -> tuple[Any, ...]:
    """Sections 1.2, 2.2 and 2.3.1, appendix A."""
    return (
        Claim(
            "P (2), (65)",
            "||A||_{beta,alpha} = max <y, A x> over unit balls = sup ||A x||_alpha^* / ||x||_beta",
            "wrong as printed",
            ("identities.pillutla.operator_norm", "identities.pillutla.operator_norm_slack"),
            (f"{SMOOTHING}::test_operator_norm_is_attained_and_never_exceeded",),
            printed="(65) divides ||A x|| by ||y||_beta",
            rejected_by=f"{SMOOTHING}::test_the_second_quotient_divides_by_the_norm_of_x",
        ),
        Claim(
            "P Definition 1",
            "h_mu(z) is the largest <u, z> - mu omega(u) over the simplex, by mu/2 ||u - grad||^2 above any other u",
            "holds",
            ("identities.pillutla.fenchel_young_slack", "smoothings.Entropy", "smoothings.SquaredL2"),
            (f"{SMOOTHING}::test_the_smoothing_is_its_definition",),
        ),
        Claim(
            "P section 2.3.1, squared l2",
            "the max smoothed by squared l2 projects z/mu onto the simplex; values at two mu differ by at most their "
            "difference"
            " times (1 - 1/m)/2 (the paper: 1/2)",
            "holds",
            ("smoothings.SquaredL2", "bounds.squared_l2_width", "bounds.entropy_width"),
            (
                f"{SMOOTHING}::test_the_smoothing_is_its_definition",
                f"{SMOOTHING}::test_the_width_is_attained_at_ties",
                f"{SMOOTHING}::test_smoothings_differ_by_at_most_their_width",
            ),
        ),
        Claim(
            "P Proposition 2",
            "h_mu is differentiable, its gradient the maximiser, 1/mu-Lipschitz from the dual norm to the norm of "
            "omega",
            "holds",
            ("identities.pillutla.lipschitz_slack",),
            (
                f"{SMOOTHING}::test_gradients_are_lipschitz_and_values_lie_between_their_parabolas",
                f"{SMOOTHING}::test_the_lipschitz_constant_is_attained",
                f"{SMOOTHING}::test_the_smoothing_is_its_definition",
            ),
        ),
        Claim(
            "P Proposition 39",
            "(mu_1 - mu_2) inf omega <= h_{mu_2} - h_{mu_1} <= (mu_1 - mu_2) sup omega",
            "holds",
            ("identities.pillutla.width_slacks",),
            (
                f"{SMOOTHING}::test_smoothings_differ_by_at_most_their_width",
                f"{SMOOTHING}::test_the_width_is_attained_at_ties",
            ),
        ),
        Claim(
            "P Lemma 40",
            "w -> h_mu(A w + b) is ||A||_{2,alpha}^2/mu-smooth; for the entropy diam(rows)^2/(4 mu), which is sharper",
            "holds",
            ("identities.pillutla.composition_slack", "bounds.smoothness", "bounds.entropy_smoothness"),
            (
                f"{SMOOTHING}::test_a_smoothing_of_an_affine_map_is_smooth",
                f"{SMOOTHING}::test_the_diameter_constant_is_attained_and_the_row_norm_is_not",
            ),
        ),
        Claim(
            "P Remark 28",
            "||A||_{2,2} is the spectral norm, ||A||_{2,1} the largest row norm, which is no more",
            "holds",
            ("identities.pillutla.operator_norm",),
            (f"{SMOOTHING}::test_operator_norm_is_attained_and_never_exceeded",),
        ),
    )


def _oracles(Claim: Callable[..., Any]) -> tuple[Any, ...]:
    """Sections 2.3.2 and 3.2."""
    return (
        Claim(
            "P Proposition 3",
            "the projection of z/mu has k non-zeros iff sum_{i<=k} (z_(i) - z_(k)) < mu <= sum_{i<=k} (z_(i) - "
            "z_(k+1)), and"
            " then a closed form",
            "holds under a condition",
            (
                "identities.pillutla.sparsity",
                "identities.pillutla.sparse_projection",
                "identities.pillutla.sparsity_slacks",
            ),
            (
                f"{ORACLES}::test_sparsity_is_exact",
                f"{ORACLES}::test_the_projection_has_the_closed_form",
                f"{ORACLES}::test_sparsity_in_batches",
            ),
            condition="z in non-increasing order, z_(m+1) = -inf",
            printed="components in non-decreasing order",
            rejected_by=f"{ORACLES}::test_scores_in_non_decreasing_order_have_another_sparsity",
        ),
        Claim(
            "P Proposition 4",
            "the top-K strategy is exact at z if (and only if, by Proposition 3) mu <= sum_{i<=K} (z_(i) - z_(K+1))",
            "holds",
            ("identities.pillutla.exactness_slack", "smoothings.certified", "smoothings.TopK"),
            (f"{ORACLES}::test_top_k_is_exact_exactly_where_the_slack_allows",),
        ),
        Claim(
            "P Lemma 7 (iii)",
            "the top-K oracle's gradient is sum_k u_k grad psi(y_k), u the projection of the K best scores over mu",
            "wrong as printed",
            ("identities.pillutla.top_k_residuals", "smoothings.TopK"),
            (f"{ORACLES}::test_the_top_k_oracle_is_its_definition",),
            printed="u is the projection of the K best scores, without 1/mu",
            rejected_by=f"{ORACLES}::test_the_projection_of_the_scores_themselves_is_not_the_gradient",
        ),
        Claim(
            "P Algorithm 6",
            "from the K best outputs: value sum_k u_k psi(y_k) + (mu/2)(1 - ||u||^2), gradient sum_k u_k grad psi(y_k)",
            "wrong as printed",
            ("identities.pillutla.top_k_residuals", "smoothings.top_k_weights"),
            (f"{ORACLES}::test_the_top_k_oracle_is_its_definition",),
            printed="line 4 returns sum_k u_k psi(y_k)",
            rejected_by=f"{ORACLES}::test_the_weighted_score_is_not_the_value_of_the_top_k_oracle",
        ),
        Claim(
            "P Algorithm 13",
            "best-first branch and bound, continued until there are K outputs, finds the K best",
            "holds under a condition",
            ("structures.search.branch_and_bound", "structures.boxes.best_boxes"),
            (
                "test_search::test_the_k_best_are_those_of_the_enumeration",
                "test_boxes::test_the_k_best_are_those_of_all_boxes",
                "test_boxes::test_bounds_are_bounds_and_splits_are_partitions",
            ),
            condition="it ends when the queue is empty too (fewer than K outputs), and empty splits are left out",
        ),
        Claim(
            "P Proposition 15",
            "with a bound that no score exceeds, equal to it for single outputs, Algorithm 13 is the max oracle, and "
            "with Algorithm 6 the top-K oracle",
            "holds under a condition",
            ("structures.search.branch_and_bound", "structures.boxes.Boxes", "smoothings.TopK"),
            (
                "test_search::test_the_k_best_are_those_of_the_enumeration",
                "test_search::test_the_top_k_oracle_is_the_search_and_a_projection",
                "test_search::test_a_bound_that_is_none_is_found",
                "test_boxes::test_the_smoothed_max_over_the_k_best",
            ),
            condition="Algorithm 13 as corrected; a bound of -inf may stand for a set in which all is forbidden",
        ),
    )


def _outer(Claim: Callable[..., Any]) -> tuple[Any, ...]:
    """Section 5.2.1 and appendix D.2: Theorem 16 and its corollaries."""
    follows, kept = (
        f"{BOUNDS}::test_the_corollaries_follow_from_the_theorem",
        f"{CASIMIR}::test_the_run_keeps_the_promise",
    )
    return (
        Claim(
            "P Theorem 16",
            "F(w_k) - min F is at most a product times Delta_0 plus a sum times D",
            "holds under a condition",
            ("bounds.casimir_rates", "bounds.start_gap"),
            (f"{BOUNDS}::test_the_recursion_is_the_theorem", f"{BOUNDS}::test_start_gap_is_gamma_0", kept),
            condition="-D <= omega <= 0, so that squared l2 is (||u||^2 - 1)/2",
            printed="section 7.3 takes omega = ||u||^2/2, whose smoothed max lies below the max",
            rejected_by=f"{SMOOTHING}::test_the_uncentred_squared_norm_does_not_lie_below_zero",
        ),
        Claim(
            "P Corollary 17",
            "lam > 0, mu_k = mu: (2 - sqrt q)/(1 - sqrt q) mu D + 2 (1 - sqrt(q)/2)^k gap (the paper: 3 - sqrt q, "
            "looser)",
            "holds",
            ("bounds.Corollary17",),
            (f"{BOUNDS}::test_the_constant_of_corollary_17_is_2_less_sqrt_q", follows, kept),
        ),
        Claim(
            "P Corollary 18",
            "lam > 0, mu_k = mu eta^{k/2}: eta^{k/2} times a constant",
            "holds",
            ("bounds.Corollary18",),
            (f"{BOUNDS}::test_corollary_18_is_its_formula", follows, kept),
        ),
        Claim(
            "P Corollary 19",
            "lam = 0, mu_k = mu: 8/(k+2)^2 (gap + kappa/2 distance^2) + mu D (1 + 12/(k+2) + 30/(k+2)^2)",
            "holds",
            ("bounds.Corollary19",),
            (f"{BOUNDS}::test_corollary_19_is_its_formula", follows, kept),
        ),
        Claim(
            "P Corollary 20",
            "lam = 0, kappa_k = kappa k, mu_k = mu/k: log(k+1)/(k+1) (2 gap + kappa distance^2 + 27 mu D), k = 1 by "
            "1/log 2 more",
            "holds",
            ("bounds.Corollary20",),
            (f"{BOUNDS}::test_corollary_20_at_the_first_iteration", follows, kept),
        ),
        Claim(
            "P Tables 3 and 4",
            "the parameters of Corollaries 17 to 20 and of Propositions 29 to 32",
            "wrong as printed",
            ("bounds.Corollary19", "bounds.Corollary20"),
            (follows,),
            condition="delta_k = (k+1)^-2, as the corollaries have it",
            printed="delta_k = k^-2, which is 1 at k = 1",
            rejected_by=f"{BOUNDS}::test_the_tables_print_an_accuracy_that_is_not_allowed",
        ),
        Claim(
            "P Lemma 22",
            "what an approximate proximal step gains on any other point",
            "holds under a condition",
            ("identities.pillutla.approximate_prox_slack",),
            (f"{CASIMIR}::test_every_step_obeys_the_lemmas", f"{CASIMIR}::test_lemma_22_needs_the_gap"),
            condition="0 < theta < 1",
            printed="for all theta < 1",
            rejected_by=f"{CASIMIR}::test_lemma_22_needs_a_positive_theta",
        ),
        Claim(
            "P Claim 24",
            "||r - z||^2 <= alpha (alpha - eta) ||w - w*||^2 + alpha eta ||v - w*||^2, less by eta (alpha - eta) ||w "
            "- v||^2",
            "holds",
            ("identities.pillutla.prox_center_slack",),
            (f"{CASIMIR}::test_the_prox_center", f"{CASIMIR}::test_every_step_obeys_the_lemmas"),
        ),
        Claim(
            "P Lemma 25",
            "one outer iteration: S_k/(1 - alpha_k) is at most S_{k-1} and what smoothing and inexactness cost",
            "holds under a condition",
            ("identities.pillutla.one_step_slack", "identities.pillutla.potential"),
            (f"{CASIMIR}::test_every_step_obeys_the_lemmas",),
            condition="0 < theta < 1; with any point in the place of w*",
        ),
    )


def _sequences(Claim: Callable[..., Any]) -> tuple[Any, ...]:
    """Equations (27) to (29), appendices D.1 and D.7."""
    return (
        Claim(
            "P (27), (74)",
            "alpha_k is the positive root of a quadratic",
            "holds",
            ("bounds.next_alpha", "identities.pillutla.alpha_residual"),
            (f"{SEQUENCES}::test_next_alpha_is_the_positive_root", f"{SEQUENCES}::test_sqrt_q_is_a_fixed_point"),
        ),
        Claim(
            "P (28), (29)",
            "the extrapolation z_k = w_k + beta_k (w_k - w_{k-1})",
            "holds",
            ("bounds.momentum",),
            (f"{SEQUENCES}::test_momentum_is_equation_29", f"{SEQUENCES}::test_sqrt_q_is_a_fixed_point"),
        ),
        Claim(
            "P Lemma 21",
            "0 < alpha_k <= alpha_{k-1} < 1 and alpha_k^2 >= lam/(lam + kappa_{k+1})",
            "holds under a condition",
            ("identities.pillutla.alpha_slacks",),
            (
                f"{SEQUENCES}::test_next_alpha_is_the_positive_root",
                f"{SEQUENCES}::test_alpha_below_the_condition_can_grow",
            ),
            condition="alpha_0^2 >= lam/(lam + kappa_1), as stated",
        ),
        Claim(
            "P Claim 23",
            "(38)-(41), and (48), (50): what ties alpha, beta, gamma and eta together",
            "holds",
            ("identities.pillutla.auxiliary", "identities.pillutla.auxiliary_residuals"),
            (f"{SEQUENCES}::test_the_auxiliary_sequences_fit_together", f"{CASIMIR}::test_every_step_obeys_the_lemmas"),
        ),
        Claim(
            "P Lemma 51",
            "||w - z||^2 >= (1 - theta) ||w - r||^2 + (1 - 1/theta) ||r - z||^2, more by ||theta (w - r) + (r - "
            "z)||^2/theta",
            "holds",
            ("identities.pillutla.three_points_slack",),
            (f"{CASIMIR}::test_three_points", f"{CASIMIR}::test_three_points_is_tight_and_needs_a_positive_theta"),
        ),
        Claim(
            "P Lemma 52",
            "constant kappa, lam = 0: sqrt(2)/(k+3) <= alpha_k <= 2/(k+3), 2/(k+3)^2 <= A_k <= 4/(k+3)^2",
            "holds",
            ("identities.pillutla.constant_kappa_slacks",),
            (f"{SEQUENCES}::test_the_sequence_of_constant_kappa",),
        ),
        Claim(
            "P Lemma 53",
            "kappa_k = k kappa, lam = 0: (1 - 1/sqrt(2))/(k+1) <= A_k <= 1/(k+2)",
            "wrong as printed",
            ("identities.pillutla.growing_kappa_slacks",),
            (f"{SEQUENCES}::test_the_sequence_of_growing_kappa",),
            condition="alpha_k is the root of alpha_k^2/(1 - alpha_k) = alpha_{k-1}^2 k/(k+1)",
            printed="alpha_{k+1} is that root",
            rejected_by=f"{SEQUENCES}::test_the_recursion_does_not_define_the_next_alpha",
        ),
        Claim(
            "P Lemma 54",
            "log(k)/k <= eps for k >= (2/eps) log(2/eps)",
            "holds under a condition",
            ("bounds.log_rate_iterations", "identities.pillutla.log_rate_slack"),
            (f"{SEQUENCES}::test_log_rate", f"{SEQUENCES}::test_log_rate_needs_its_factor_2"),
            condition="k >= 1",
        ),
    )


def _inner(Claim: Callable[..., Any]) -> tuple[Any, ...]:
    """Sections 5.1, 5.2.3 and 5.3, appendices D.3 and D.4."""
    exponents = "test_work_exponents::test_steps_grow_as_stated"
    counted = (
        "SVRG's rate is cited; counted are 1/tau steps an outer iteration, until the corollary's bound is small enough"
    )
    return (
        Claim(
            "P section 5.1, (26)",
            "||grad||^2 <= (lam + kappa) delta kappa ||w - z||^2 implies the relative accuracy (26)",
            "holds",
            ("identities.pillutla.gradient_accuracy_slack", "identities.pillutla.relative_accuracy_slack"),
            (f"{CASIMIR}::test_subproblems_and_their_accuracy",),
        ),
        Claim(
            "P Lemma 49",
            "a linearly convergent method takes (1/tau) log(2 C gap/(tau eps)) + 1 expected iterations (+ 1/2 is "
            "enough)",
            "holds",
            (
                "bounds.accuracy_iterations",
                "identities.pillutla.markov_slack",
                "identities.pillutla.markov_iterations",
            ),
            (
                f"{WORK}::test_no_method_takes_longer_than_the_lemma_says",
                f"{WORK}::test_the_lemma_is_close_to_what_a_method_can_take",
            ),
        ),
        Claim(
            "P Lemma 50",
            "the gap at the prox center, and an absolute accuracy that implies (26)",
            "holds",
            ("identities.pillutla.warm_start_slack", "identities.pillutla.absolute_accuracy_slack"),
            (f"{CASIMIR}::test_subproblems_and_their_accuracy",),
        ),
        Claim(
            "P Proposition 27",
            "(26) takes (1/tau) log(8 C (L + kappa)/(tau kappa delta)) + 1 expected iterations from the prox center",
            "holds under a condition",
            ("bounds.inner_iterations", "training.inner.Searched"),
            (
                f"{WORK}::test_relative_accuracy_needs_the_constant_8",
                f"{CASIMIR}::test_gradient_descent_is_as_fast_as_proposition_27_says",
                "test_inner_solvers::test_passes_are_as_few_as_proposition_27_says",
            ),
            condition="delta > 0; the distance in (83) is that of the solver's point",
        ),
        Claim(
            "P Proposition 29",
            "mu = eps/(10 D) and kappa = A/(mu n) - lam (or lam) minimise the work, n + sqrt(A D n/(lam eps)) up to "
            "logarithms",
            "holds under a condition",
            ("bounds.Corollary17", "bounds.svrg_cost", "bounds.svrg_rate"),
            (f"{WORK}::test_kappa_minimises_the_work", f"{WORK}::test_svrg_rate_is_its_formula", exponents),
            condition=f"kappa_k = kappa (printed kappa_k = k); for 2 < A/(mu n lam) <= 4 within 6 % of the least; "
            f"{counted}",
        ),
        Claim(
            "P Proposition 30",
            "decreasing smoothing, lam > 0: n + A/(mu (lam + kappa) eps) (gap + mu D/(1 - sqrt q)) up to logarithms",
            "holds under a condition",
            ("bounds.Corollary18",),
            (exponents, "test_work_exponents::test_the_constant_of_proposition_30_is_not_universal"),
            condition=f"the hidden constant grows like 1/sqrt(q); {counted}",
        ),
        Claim(
            "P Proposition 31",
            "mu = eps/(20 D), kappa = A/(mu (n+1)), lam = 0: n sqrt(gap/eps) + sqrt(A D n) distance/eps up to "
            "logarithms",
            "holds under a condition",
            ("bounds.Corollary19",),
            (exponents, f"{WORK}::test_corollary_19_for_svrg"),
            condition=f"one outer iteration at least, which takes n; {counted}",
        ),
        Claim(
            "P Proposition 32",
            "decreasing smoothing, lam = 0: (gap + kappa distance^2 + mu D)(n + A/(mu kappa))/eps up to logarithms",
            "holds under a condition",
            ("bounds.Corollary20",),
            (exponents,),
            condition=f"one outer iteration at least; {counted}",
        ),
    )
