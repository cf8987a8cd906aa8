"""The ledger's rows about proximity operators: Martins et al. 2010 (M), sections 3.1, 3.2, appendices A, B, F."""

from __future__ import annotations

from typing import Any

__all__ = ["rows"]


def rows(Claim: Any) -> tuple[Any, ...]:
    """The rows, made of the ledger's own ``Claim``."""
    return (
        Claim(
            "M Proposition 1",
            "the prox of psi(||x_1||, ..., ||x_p||) scales x_k by b_k/||x_k|| with b = prox_psi of the norms; envelopes agree",
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
            "||y - prox(x)||^2 - ||y - x||^2 <= 2 (phi(y) - phi(prox(x))), and so with ||x - prox(x)||^2 added on the left",
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
            condition="it is the prox of the sum for norms of groups that form a tree, inner groups first; otherwise it is not",
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
            condition="the half belongs there: Algorithm 2 at eta lam; for R without the half, Algorithm 2 at 2 eta lam",
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
            condition="d > 0; in case (i) of the proof the change of the objective has a second term, 2 a_j eps (u_0j - u_0k)",
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
            "sum_m a_m u*_m = sum_{r<=rho} a_(r) u_0(r) / (1 + lam sum_{r<=rho} a_(r)), which gives tau = lam sum_m a_m u*_m",
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
    )
