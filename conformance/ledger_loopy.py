"""Rows of the claims ledger: what Pillutla et al. say of max-marginals, Best Max-Marginal First and clique trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["rows"]

BMMF, GRAPH, EVERY = "test_bmmf", "test_graph", "test_oracles"


def rows(Claim: Callable[..., Any]) -> tuple[Any, ...]:
    """The rows, made with the ledger's ``Claim``: sections 4.1 and 4.2.1, appendix C.1."""
    return (
        Claim(
            "P Definition 6, Lemma 7 over structures",
            "the oracles of every structure are the (smoothed) max over the list of its outputs, and its gradient",
            "holds",
            (
                "structures.base.Structure",
                "smoothings.Max",
                "smoothings.TopK",
                "smoothings.Entropy",
                "smoothings.SquaredL2",
            ),
            (
                f"{EVERY}::test_the_oracle_is_its_definition",
                f"{EVERY}::test_the_gradient_is_a_subgradient",
                f"{EVERY}::test_gradients_are_finite_differences",
                f"{EVERY}::test_what_is_intractable_says_why",
            ),
        ),
        Claim(
            "P Remark 10",
            "on a clique tree the algorithms for trees answer on any graph, in time and space exponential in the "
            "treewidth",
            "holds",
            (
                "structures.graph.Graph",
                "structures.clique_tree.clique_tree",
                "structures.clique_oracles.clique_max_product",
                "structures.clique_oracles.clique_sum_product",
                "structures.clique_oracles.clique_max_marginals",
            ),
            (
                f"{GRAPH}::test_a_graph_keeps_the_laws",
                f"{GRAPH}::test_grids",
                f"{GRAPH}::test_a_long_cycle_is_a_product_of_transfer_matrices",
                f"{GRAPH}::test_a_clique_tree_is_one",
                f"{GRAPH}::test_what_would_not_fit_is_refused_by_its_width",
            ),
        ),
        Claim(
            "P (21), Theorem 45",
            "the best state of each variable, by max-marginals, makes the best output",
            "holds under a condition",
            ("structures.bmmf.bmmf",),
            (f"{BMMF}::test_decoding_variable_by_variable_is_right_for_unambiguous_scores",),
            condition="no two outputs have the same score; here outputs are decoded jointly instead, which needs no "
            "condition",
            printed="stated of unambiguous scores; with ties it makes an output that is not the best",
            rejected_by=f"{BMMF}::test_decoding_variable_by_variable_needs_unambiguous_scores",
        ),
        Claim(
            "P Algorithm 10",
            "Best Max-Marginal First finds the K best outputs",
            "wrong as printed",
            ("structures.bmmf.bmmf",),
            (
                f"{BMMF}::test_bmmf_finds_the_k_best_of_any_outputs",
                f"{BMMF}::test_bmmf_over_chains_is_top_k_viterbi",
                f"{BMMF}::test_bmmf_misses_nothing_and_repeats_nothing_when_max_marginals_are_rounded",
            ),
            condition="y^(k) is an actual maximiser over C^(k); only finite max-marginals are candidates, and none "
            "left ends it",
            printed="line 8 excludes U^(t), with t undefined, for U^(k); lines 5 and 12 decode variable by variable",
            rejected_by=f"{BMMF}::test_decoding_variable_by_variable_needs_unambiguous_scores",
        ),
        Claim(
            "P Theorem 46",
            "Algorithm 10 finds the K best outputs from at most 2K sets of max-marginals",
            "holds under a condition",
            ("structures.bmmf.bmmf",),
            (
                f"{BMMF}::test_bmmf_asks_for_at_most_2k_sets_of_max_marginals",
                f"{BMMF}::test_bmmf_finds_the_k_best_of_any_outputs",
            ),
            condition="as stated, unambiguous scores and K <= |Y|; as corrected here, none; 2K - 3 sets, and K "
            "outputs decoded",
        ),
    )
