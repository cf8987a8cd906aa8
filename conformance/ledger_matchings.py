"""Rows of the claims ledger: matchings (Pillutla et al., appendix C.3 and Proposition 14, case B)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["rows"]

TESTS = "test_matching"


def rows(Claim: Callable[..., Any]) -> tuple[Any, ...]:
    """The rows, made with the ledger's ``Claim``."""
    return (
        Claim(
            "P appendix C.3, linear programs and (73)",
            "the best matching, and the best one with a given pair, are optima of linear programs over 0 <= theta <= 1",
            "wrong as printed",
            ("structures.matching.assignment", "structures.matching.max_marginals"),
            (
                f"{TESTS}::test_max_marginals_are_optima_of_integer_programs",
                f"{TESTS}::test_potentials_prove_the_optimum",
                f"{TESTS}::test_scipy_finds_no_better_assignment",
            ),
            condition="sums over rows and columns are 1 (over the smaller side, where sides differ)",
            printed="sums over rows and columns are at most 1, which leaves rows unmatched where scores are negative",
            rejected_by=f"{TESTS}::test_inequalities_leave_rows_unmatched",
        ),
        Claim(
            "P Algorithm 12",
            "max-marginals of all pairs from one best matching and all heaviest paths in its residual graph",
            "wrong as printed",
            ("structures.matching.max_marginals",),
            (
                f"{TESTS}::test_residual_arcs_of_scores_give_max_marginals",
                f"{TESTS}::test_max_marginals_of_pairs_are_the_best_scores_with_them",
                f"{TESTS}::test_integer_scores_are_exact",
            ),
            condition="line 3: arcs v to z of weight phi(v, z) for allowed pairs outside the matching, z to v of "
            "weight -phi(v, z) for its pairs",
            printed="every arc both ways, with weights 1 - I and -I, I being 1 on the matching",
            rejected_by=f"{TESTS}::test_printed_residual_weights_give_no_max_marginals",
        ),
        Claim(
            "P Theorem 48",
            "Algorithm 12 returns the optimal values of (73)",
            "holds under a condition",
            ("structures.matching.max_marginals",),
            (
                f"{TESTS}::test_max_marginals_are_optima_of_integer_programs",
                f"{TESTS}::test_max_marginals_of_pairs_are_the_best_scores_with_them",
                f"{TESTS}::test_rows_and_columns_change_places",
            ),
            condition="both corrected; holds for unequal sides too, with the unmatched columns as one more node",
        ),
        Claim(
            "P Proposition 14, matchings",
            "the max oracle takes O(p^3), the top-K oracle O(K p^3) by Best Max-Marginal First, both counted; the "
            "exp oracle is #P-complete: a permanent",
            "holds under a condition",
            ("structures.matching.Matching", "structures.matching.assignment", "structures.bmmf.bmmf"),
            (
                "test_oracle_work::test_operations_of_the_oracles_of_matchings",
                f"{TESTS}::test_the_best_matching_is_the_best_of_all",
                f"{TESTS}::test_the_k_best_matchings",
                f"{TESTS}::test_sums_over_matchings_are_intractable",
                f"{TESTS}::test_the_log_partition_of_matchings_is_a_permanent",
            ),
            condition="scores without ties, or the corrected Algorithm 10",
        ),
    )
