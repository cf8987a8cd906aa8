"""Rows of the claims ledger: dependency trees (Martins et al., section 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["rows"]

TESTS = "test_arborescence"


def rows(Claim: Callable[..., Any]) -> tuple[Any, ...]:
    """The rows, made with the ledger's ``Claim``."""
    return (
        Claim(
            "M section 4, dependency parsing: inference",
            "arc-factored dependency trees: exact inference is tractable by maximum spanning tree algorithms",
            "holds under a condition",
            ("structures.arborescence_max.maximum_arborescence", "structures.arborescence.Arborescence"),
            (
                f"{TESTS}::test_the_best_tree_is_the_best_of_all",
                f"{TESTS}::test_networkx_finds_no_better_tree",
                f"{TESTS}::test_the_root_at_a_discount_is_no_single_root",
            ),
            condition="arcs are directed (spanning arborescences); that the root heads one token only takes an order in which root arcs count first",
        ),
        Claim(
            "M (3) over dependency trees",
            "the log-partition function and the arc marginals of a CRF over dependency trees",
            "holds",
            ("structures.arborescence_sum.tree_partition", "structures.arborescence_sum.number_of_trees"),
            (
                f"{TESTS}::test_the_partition_is_the_sum_over_all_trees",
                f"{TESTS}::test_the_partition_is_a_determinant",
                f"{TESTS}::test_marginals_of_arcs_are_finite_differences",
                f"{TESTS}::test_cayleys_formula",
                f"{TESTS}::test_a_ring_that_hardly_anyone_leaves",
            ),
        ),
    )
