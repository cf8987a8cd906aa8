"""Rows of the claims ledger: dependency trees (Martins et al., section 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["rows"]

TESTS, SIZES, PARSING = "test_arborescence", "test_arborescence_sizes", "test_parsing"
GROUPS = "test_template_groups"


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
                f"{SIZES}::test_networkx_finds_no_better_tree",
                f"{TESTS}::test_the_root_at_a_discount_is_no_single_root",
            ),
            condition="arcs are directed (spanning arborescences); that the root heads one token only takes an order "
            "in which root arcs count first",
        ),
        Claim(
            "M (3) over dependency trees",
            "the log-partition function and the arc marginals of a CRF over dependency trees",
            "holds",
            ("structures.arborescence_sum.tree_partition", "structures.arborescence_sum.number_of_trees"),
            (
                f"{TESTS}::test_the_partition_is_the_sum_over_all_trees",
                f"{SIZES}::test_the_partition_is_a_determinant",
                f"{SIZES}::test_marginals_of_arcs_are_finite_differences",
                f"{TESTS}::test_cayleys_formula",
                f"{SIZES}::test_a_ring_that_hardly_anyone_leaves",
            ),
        ),
        Claim(
            "M section 4, dependency parsing: features",
            "arc-factored models, phi(x, y) = sum over the arcs (h, m) of y of phi_hm(x), from templates that "
            "conjoin what is seen of h and m",
            "holds",
            ("models.parsing.ParsingModel", "models.templates.keys_of"),
            (
                f"{PARSING}::test_features_by_hand",
                f"{PARSING}::test_keys_are_equal_where_features_are",
                f"{PARSING}::test_scores_are_sums_of_weights_and_pullback_is_the_adjoint",
                f"{PARSING}::test_predicted_trees_are_the_best_of_all",
            ),
        ),
        Claim(
            "M section 4, dependency parsing: groups",
            "Alg. 3 with explicit features, each group a feature template: templates that do not pay have no weights",
            "holds",
            ("models.parsing.ParsingModel", "optimizers.online_proximal.OnlineProximal"),
            (
                f"{GROUPS}::test_blocks_are_models_of_one_template",
                f"{GROUPS}::test_epochs_are_those_of_the_plain_loop",
                f"{GROUPS}::test_groups_fall_to_zero_and_come_back",
                f"{GROUPS}::test_templates_that_tell_nothing_get_no_weights",
            ),
        ),
        Claim(
            "M (3), (4) over dependency trees",
            "CRF and SVM losses of an arc-factored parser, the loss Hamming's over heads",
            "holds",
            ("models.parsing.ParsingModel", "objectives.LogLoss", "objectives.StructuralHinge"),
            (
                f"{PARSING}::test_the_log_loss_is_the_negative_log_likelihood",
                f"{PARSING}::test_bcfw_learns_trees_that_cross",
            ),
        ),
    )
