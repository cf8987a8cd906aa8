"""The ledger's rows of Martins et al. 2010 (M): proximity operators (sections 3.1, 3.2, appendices A, B, F) and
online learning (sections 2, 3.3, appendices D, E).
"""

from __future__ import annotations

from typing import Any

__all__ = ["rows"]


def rows(Claim: Any) -> tuple[Any, ...]:
    """The rows, made of the ledger's own ``Claim``."""
    return (
        Claim(
            "M Proposition 1",
            "the prox of psi(||x_1||, ..., ||x_p||) scales x_k by b_k/||x_k|| with b = prox_psi of the norms; "
            "envelopes agree",
            "wrong as printed",
            ("identities.martins.proposition_1", "identities.martins.proposition_1_envelope", "prox.SquaredL21"),
            (
                "test_identities_martins::test_proposition_1",
                "test_prox_ledger::test_proposition_1_at_a_group_of_norm_zero",
            ),
            condition="psi even in each coordinate (or restricted to u >= 0), and x_k = 0 gives 0, not 0/0",
            printed="for some psi from R^p",
            rejected_by="test_prox_ledger::test_proposition_1_needs_an_even_function",
        ),
        Claim(
            "M Proposition 2",
            "x = prox_phi(x) + prox_phi*(x), and the two Moreau envelopes add up to ||x||^2/2",
            "holds",
            ("identities.martins.moreau", "identities.martins.moreau_envelopes", "prox.base.Regularizer"),
            (
                "test_identities_martins::test_moreau_decomposition",
                "test_prox::test_the_conjugates_prox_is_a_minimiser",
            ),
        ),
        Claim(
            "M Corollary 3",
            "||y - prox(x)||^2 - ||y - x||^2 <= 2 (phi(y) - phi(prox(x))), and so with ||x - prox(x)||^2 added on "
            "the left",
            "holds",
            ("identities.martins.corollary_3", "identities.martins.corollary_3_sharper"),
            (
                "test_identities_martins::test_lemma_7_and_corollary_3",
                "test_identities_martins::test_lemma_7_fails_for_another_point",
            ),
        ),
        Claim(
            "M Lemma 7",
            "(prox(x) - y)'(prox(x) - x) <= phi(y) - phi(prox(x))",
            "holds",
            ("identities.martins.lemma_7",),
            (
                "test_identities_martins::test_lemma_7_and_corollary_3",
                "test_identities_martins::test_lemma_7_fails_for_another_point",
            ),
        ),
        Claim(
            "M section 3.1",
            "prox of (lam/2) ||.||^2 is x/(1 + lam), of tau ||.||_1 the soft threshold, of an indicator the projection",
            "holds",
            ("prox.HalfSquaredL2", "prox.L1", "prox.soft_threshold", "prox.L2Ball"),
            ("test_prox::test_the_prox_is_a_minimiser", "test_selection::test_soft_threshold"),
        ),
        Claim(
            "M Algorithm 1, lines 6 to 8",
            "the proxes of the parts of a composite regularizer, one after another",
            "holds under a condition",
            ("prox.Sequential", "prox.SparseGroupLasso", "prox.TreeGroupLasso"),
            (
                "test_prox::test_inner_groups_come_first",
                "test_prox::test_a_tree_is_the_sequence_of_its_levels",
                "test_prox::test_outer_groups_first_are_no_prox_of_the_sum",
            ),
            condition="it is the prox of the sum for norms of groups that form a tree, inner groups first; otherwise "
            "it is not",
            printed="sparse group lasso by two proximal steps, in no stated order",
            rejected_by="test_prox_ledger::test_the_order_of_the_proxes_matters",
        ),
        Claim(
            "M Algorithm 2",
            "the prox of (lam/2) ||.||_1^2 by one sort",
            "wrong as printed",
            ("prox.prox_squared_l1", "prox.SquaredL1", "prox.SquaredL21"),
            ("test_selection::test_prox_squared_l1", "test_prox::test_the_prox_is_a_minimiser"),
            condition="x not 0; the prox of 0 is 0, and lam = 0 leaves x",
            printed="rho is the maximum of a set that is empty at x = 0",
            rejected_by="test_prox_ledger::test_algorithm_2_is_undefined_at_zero",
        ),
        Claim(
            "M Algorithm 3, line 8",
            "groups are shrunk by the prox of (eta lam/2) ||.||_1^2 on their norms",
            "wrong as printed",
            ("prox.SquaredL21",),
            ("test_identities_martins::test_proposition_1",),
            condition="the half belongs there: Algorithm 2 at eta lam; for R without the half, Algorithm 2 at 2 eta "
            "lam",
            printed="prox of eta lam ||.||_{2,1}^2 by Algorithm 2",
            rejected_by="test_prox_ledger::test_algorithm_3_means_half_the_square",
        ),
        Claim(
            "M supplement, Algorithm 4",
            "the prox of (lam/2) (sum_m d_m |x_m|)^2 by one sort of |x_m|/d_m",
            "wrong as printed",
            ("prox.prox_weighted_squared_l1", "prox.WeightedSquaredL1"),
            ("test_selection::test_prox_weighted_squared_l1", "test_prox::test_the_prox_is_a_minimiser"),
            condition="coordinates of weight 0 are left alone and take no part in the sort; x = 0 gives 0",
            printed="u_0m = |x_0m|/d_m for d >= 0",
            rejected_by="test_prox_ledger::test_algorithm_4_divides_by_weights_of_zero",
        ),
        Claim(
            "M section 3.2, non-sparse MKL",
            "the prox of (lam/2) sum_k ||x_k||^q solves one scalar equation a group",
            "wrong as printed",
            ("prox.NonSparseMKL",),
            (
                "test_prox::test_the_prox_is_a_minimiser",
                "test_prox_ledger::test_non_sparse_mkl_at_q_1_is_a_soft_threshold",
            ),
            condition="x - x0 + (eta lam q/2) x^(q-1) = 0 for q > 1; a soft threshold at eta lam/2 for q = 1",
            printed="x - x0 + lam eta q x^(q-1) = 0, for q >= 1",
            rejected_by="test_prox_ledger::test_the_equation_of_non_sparse_mkl_has_half_the_factor",
        ),
        Claim(
            "M Lemma 9",
            "the prox of the squared weighted l1 norm keeps signs, and a sign flipped in x_0 is flipped in x",
            "holds",
            ("identities.martins.lemma_9_signs", "identities.martins.lemma_9_flips"),
            ("test_identities_martins::test_lemma_9",),
        ),
        Claim(
            "M Lemma 10",
            "coordinates vanish in the order of |x_0m|/d_m",
            "holds under a condition",
            ("identities.martins.lemma_10", "identities.martins.lemma_10_exchange"),
            (
                "test_identities_martins::test_lemma_10_and_proposition_11",
                "test_identities_martins::test_the_split_point_can_be_missed",
                "test_identities_martins::test_lemma_10_by_its_exchange",
            ),
            condition="d > 0; in case (i) of the proof the change of the objective has a second term, 2 a_j eps "
            "(u_0j - u_0k)",
            printed="2 (F(u~) - F(u*)) = eps^2 (a_j^2/a_k - a_j)",
            rejected_by="test_prox_ledger::test_lemma_10_needs_the_term_that_the_print_lacks",
        ),
        Claim(
            "M Proposition 11",
            "the number of coordinates that stay: the largest j whose u_0(j) exceeds the threshold of the first j",
            "holds",
            ("identities.martins.proposition_11", "identities.martins.split_point"),
            (
                "test_identities_martins::test_lemma_10_and_proposition_11",
                "test_identities_martins::test_the_split_point_can_be_missed",
            ),
        ),
        Claim(
            "M (34)",
            "sum_m a_m u*_m = sum_{r<=rho} a_(r) u_0(r) / (1 + lam sum_{r<=rho} a_(r)), which gives tau = lam sum_m "
            "a_m u*_m",
            "wrong as printed",
            ("identities.martins.equation_34",),
            ("test_identities_martins::test_lemma_10_and_proposition_11",),
            condition="a_m on the left",
            printed="sum_m u*_m on the left",
            rejected_by="test_prox_ledger::test_equation_34_sums_weighted_coordinates",
        ),
        Claim(
            "M (35), second part",
            "at the first coordinate that vanishes, -u_0 + lam sum_m a_m u*_m is its multiplier divided by its weight",
            "wrong as printed",
            ("identities.martins.split_point",),
            ("test_identities_martins::test_lemma_10_and_proposition_11",),
            condition="xi/a on the right, and u_0 without a star",
            printed="xi on the right",
            rejected_by="test_prox_ledger::test_equation_37_divides_the_multiplier_by_its_weight",
        ),
        Claim(
            "M (5) to (7)",
            "the least of sum_k ||f_k||^2/beta_k over kernel weights beta is (sum_k ||f_k||)^2, at beta_k = ||f_k|| "
            "/ sum_l ||f_l||",
            "holds under a condition",
            ("identities.martins.equation_6", "prox.SquaredL21"),
            ("test_online_proximal::test_kernel_weights_are_the_least_of_their_variational_form",),
            condition="f is not 0, of which every beta is a minimiser",
        ),
        Claim(
            "M Algorithm 1",
            "a gradient step on the loss of a batch, the regularizers' proxes in turn, a projection",
            "holds",
            ("optimizers.online_proximal.OnlineProximal",),
            (
                "test_online_proximal::test_an_epoch_is_its_equation",
                "test_online_proximal::test_the_optimum_of_a_generic_solver",
                "test_online_proximal::test_every_regularizer_trains",
                "test_proximal_epochs::test_the_kernel_is_the_loop",
            ),
        ),
        Claim(
            "M Lemma 4",
            "each round: L_t(w_t) + R(w_{t+1}) <= L_t(u) + R(u) + gamma/2 ||g||^2 + (||u - w_t||^2 - ||u - "
            "w_{t+1}||^2)/(2 gamma) - sigma/2 ||u - w_t||^2",
            "holds under a condition",
            ("bounds.round_bound",),
            ("test_online_proximal::test_each_round_keeps_its_bound",),
            condition="no prox, at any step and any point, increases the parts before it",
            printed="(ii) for models in the set alone",
            rejected_by="test_online_proximal::test_a_part_that_a_later_prox_increases_breaks_the_bound",
        ),
        Claim(
            "M Proposition 5",
            "regret against the best model in hindsight: of constant steps at most gamma T/2 G^2 + ||w*||^2/(2 "
            "gamma), which a run attains; of steps"
            " gamma_0/sqrt(t) in a set of diameter F at most (F^2/(2 gamma_0) + G^2 gamma_0) sqrt(T); of steps "
            "1/(sigma t) at most G^2 (1 + log T)/(2 sigma)",
            "holds",
            ("bounds.regret_constant_step", "bounds.regret_decaying_step", "bounds.regret_strongly_convex"),
            (
                "test_online_proximal::test_regret_is_bounded",
                "test_online_proximal_promises::test_regret_against_the_best_model_in_hindsight",
                "test_online_proximal_promises::test_the_regret_of_constant_steps_is_attained",
            ),
        ),
        Claim(
            "M Proposition 6",
            "over examples drawn at random, the averaged model's gap is in the mean at most the regret's bound "
            "divided by T: O(1/sqrt(T)), and"
            " O(log T/T) for steps 1/(sigma t)",
            "holds under a condition",
            (
                "bounds.regret_decaying_step",
                "bounds.regret_strongly_convex",
                "optimizers.online_proximal.OnlineProximal",
            ),
            ("test_online_proximal_promises::test_averages_over_random_examples_come_near_the_optimum",),
            condition="in the mean, where the paper has it with probability 1 - delta; the averaged model, also for "
            "1/(sigma t), where the paper returns"
            " the last one without a proof",
        ),
        Claim(
            "M Proposition 8.1, 8.3",
            "||w*|| <= sqrt(Lambda/(lam + sigma)) with Lambda the mean largest loss, or the mean log number of "
            "outputs; sharper by sqrt 2 than printed,"
            " and attained for the hinge",
            "wrong as printed",
            ("bounds.optimum_radius",),
            (
                "test_online_proximal::test_the_ball_holds_the_optimum",
                "test_online_proximal::test_the_printed_radius_is_the_larger",
                "test_kernel_expansion::test_the_radius_of_the_optimum_is_attained",
            ),
            condition="for the log loss the entropy is the model's, at most log |outputs|",
            printed="H(Y_i), which for certain labels is 0",
            rejected_by="test_online_proximal::test_the_entropy_of_the_labels_gives_no_radius",
        ),
        Claim(
            "M Proposition 8.2, 8.4",
            "subgradients of hinge and log loss have norm G = 2 max ||phi|| at most, with sigma/2 ||w||^2 added G + "
            "sigma radius where ||w|| <= radius; attained",
            "holds",
            ("bounds.gradient_norm", "bounds.optimum_radius"),
            (
                "test_kernel_expansion::test_subgradients_are_no_longer_than_stated",
                "test_kernel_expansion::test_the_longest_subgradient_is_attained",
            ),
        ),
        Claim(
            "M (17)",
            "||theta - gamma (phi(v) - phi(u))||^2 = ||theta||^2 - 2 gamma [f(v) - f(u)] + gamma^2 [K(u, u) + K(v, "
            "v) - 2 K(u, v)] in each group",
            "wrong as printed",
            ("identities.martins.equation_17", "online_mkl.rounds.MKL", "models.kernel_sequence.KernelSequenceModel"),
            (
                "test_kernel_expansion::test_norms_after_a_gradient_step",
                "test_online_mkl::test_a_round_is_its_equation",
            ),
            condition="f(v) - f(u), v the best loss-augmented output and u the true one",
            printed="f(u) in the first line, f(v) in the second",
            rejected_by="test_kernel_expansion::test_both_printed_lines_are_wrong",
        ),
        Claim(
            "M section 3.4, kernel expansion",
            "theta_k = sum_s alpha_ks (phi_k(x_s, y_s) - phi_k(x_s, v_s)), alpha_ks = gamma_s prod_{r >= s} "
            "(b_k/b~_k) min(1, radius/||theta~||)",
            "holds under a condition",
            ("identities.martins.kernel_expansion", "online_mkl.rounds.MKL"),
            ("test_kernel_expansion::test_coefficients_of_a_run_are_the_expansion",),
            condition="a ratio 0/0 is 0",
        ),
    )
