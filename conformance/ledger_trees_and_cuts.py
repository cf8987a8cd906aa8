"""Rows of the claims ledger: trees and graph cuts (Pillutla et al., sections 4.1 and 4.2, appendices B and C.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["rows"]

TREE, TREE_SCALES, TREE_K_BEST, WORK = "test_tree", "test_tree_scales", "test_tree_k_best", "test_oracle_work"


def rows(Claim: Callable[..., Any]) -> tuple[Any, ...]:
    """The rows, made with the ledger's ``Claim``."""
    return (*_trees(Claim), *_cuts(Claim), *_segmentation(Claim))


def _trees(Claim: Callable[..., Any]) -> tuple[Any, ...]:
    """Section 4.1 and appendix B."""
    largest, cost = (
        f"{TREE_K_BEST}::test_top_k_are_the_k_largest_scores",
        f"{TREE_K_BEST}::test_66_as_printed_lists_every_tuple_of_ranks",
    )
    time, memory = (f"{WORK}::test_{kind}_of_the_oracles_of_trees" for kind in ("time", "memory"))
    summed = f"{TREE}::test_sum_product_is_the_sum_over_all_labellings"
    return (
        Claim(
            "P Algorithm 7",
            "max-product on a tree returns the highest score and an output that has it",
            "holds",
            ("structures.tree.max_product", "structures.tree.Tree"),
            (
                f"{TREE}::test_max_product_finds_a_best_labelling",
                f"{TREE}::test_ties_go_to_the_smallest_label_from_the_roots",
                f"{TREE_SCALES}::test_a_chain_is_a_tree",
                f"{TREE_SCALES}::test_a_hundred_thousand_nodes_below_each_other",
            ),
        ),
        Claim(
            "P Algorithm 8",
            "K max-product on a tree returns the K highest scores and distinct outputs that have them",
            "wrong as printed",
            ("structures.tree_k_best.top_k_max_product",),
            (largest, f"{TREE_K_BEST}::test_ties_go_to_the_smaller_label_of_the_root_then_to_the_first_children"),
            condition="labels of leaves are stored, too; entries of score -inf are dropped",
            printed="the branch of leaves assigns no delta, which line 13 reads",
            rejected_by=f"{TREE_K_BEST}::test_the_printed_leaves_have_no_labels",
        ),
        Claim(
            "P Proposition 41, (66)-(71)",
            "Algorithm 8 is right in time O(p K log K max |Y_v|^2) and space O(p K max |Y_v|)",
            "holds under a condition",
            ("structures.tree_k_best.top_k_max_product",),
            (
                largest,
                cost,
                time,
                memory,
                f"{TREE_K_BEST}::test_the_search_of_the_kernels_grows_with_k_not_with_the_children",
            ),
            condition="children are merged one at a time, of two sorted lists the pairs of ranks i j <= K; the "
            "reference sorts, log(K L) for log K",
            printed="(66) ranges over all tuples of ranks: |Y_v| K^|C(v)|",
            rejected_by=cost,
        ),
        Claim(
            "P Algorithm 9",
            "sum-product on a tree returns the log-partition function and the marginals of nodes and edges",
            "wrong as printed",
            ("structures.tree.sum_product",),
            (
                summed,
                f"{TREE_SCALES}::test_many_children_that_agree",
                f"{TREE_SCALES}::test_marginals_sum_to_one_at_any_scale",
            ),
            condition="messages as normalised logarithms (or rescaled probabilities)",
            printed="messages are sums of products of exp(psi)",
            rejected_by=f"{TREE_SCALES}::test_linear_messages_overflow_and_vanish",
        ),
        Claim(
            "P Theorem 43",
            "A is the log of the sum of exp(psi(y)), P_v and P_{v,v'} sum exp(psi(y) - A) over outputs with the "
            "label or pair",
            "holds",
            ("structures.tree.sum_product",),
            (summed, f"{TREE}::test_every_answer_is_that_of_the_list_of_outputs"),
        ),
        Claim(
            "P Remark 44",
            "edge marginals in constant time from node marginals and messages",
            "wrong as printed",
            ("structures.tree.sum_product",),
            (summed,),
            condition="P(y_u) P(y_v | y_u), the conditional normalised on the way: no message is divided by",
            printed="P_v P_u exp(psi + A) over the product of two messages, 0/0 where a potential is -inf or a "
            "message underflows",
            rejected_by=f"{TREE_SCALES}::test_remark_44_divides_zero_by_zero",
        ),
        Claim(
            "P Proposition 42",
            "the exp oracle of a tree is mu times sum-product of psi/mu",
            "holds",
            ("structures.tree.sum_product", "smoothings.Entropy"),
            (summed, f"{TREE_SCALES}::test_scales", "test_tree_model::test_gradients_are_finite_differences"),
        ),
        Claim(
            "P Proposition 12",
            "max, top-K and exp oracles of a tree in time p L^2, p K log K L^2 and p L^2, space p L, p K L and p L: "
            "entries worked on and bytes held,"
            " counted, grow with p, L and K by these exponents and by none lower",
            "holds under a condition",
            ("structures.tree.Tree", "structures.chain.Chain", "smoothings.TopK", "smoothings.Entropy"),
            (
                f"{TREE}::test_max_product_finds_a_best_labelling",
                largest,
                summed,
                "test_tree_model::test_gradients_are_finite_differences",
                cost,
                time,
                memory,
            ),
            condition="(ii) with siblings merged one at a time, and log(K L) for log K where the reference sorts; "
            "space where nodes share their"
            " pairwise scores",
        ),
    )


def _cuts(Claim: Callable[..., Any]) -> tuple[Any, ...]:
    """Section 4.2.2 and appendix C.2."""
    return (
        Claim(
            "P Algorithm 11",
            "the max of a supermodular score of binary variables under constraints, by one minimum cut",
            "wrong as printed",
            ("structures.cut.minimum_cut", "structures.cut_network.Network", "structures.cut_network.Flow"),
            (
                "test_cut::test_everything_is_the_enumeration",
                "test_cut::test_a_grid_is_its_integer_program",
                "test_cut::test_ties_go_to_the_fewest_ones",
            ),
            condition="an edge is a constant, a term for each end, and (theta_01 + theta_10 - theta_00 - theta_11)/2 "
            "each way;"
            " lines 6 and 15: edges, and -C plus the constants",
            printed="capacity theta_01 - theta_00 - theta_11, which can be negative",
            rejected_by="test_cut::test_the_printed_capacity_is_negative",
        ),
        Claim(
            "P Theorem 47",
            "Algorithm 11 returns the highest score of the outputs that satisfy the constraints, by one maximum flow",
            "holds under a condition",
            ("structures.cut.minimum_cut", "structures.cut.max_marginals", "structures.cut.node_max_marginals"),
            (
                "test_cut::test_node_max_marginals_are_those_of_the_labels",
                "test_cut::test_max_marginals_of_a_grid_are_integer_programs",
                "test_cut::test_max_marginals_of_all_nodes_are_cuts",
            ),
            condition="Algorithm 11 as corrected; pairs of different labels may be forbidden, those of equal labels "
            "may not",
        ),
        Claim(
            "P (72)",
            "scores that cuts can maximise: theta_00 + theta_11 <= theta_01 + theta_10 for each edge",
            "holds",
            ("structures.cut.Cut", "structures.cut_network.refuse_unfit_edges"),
            ("test_cut::test_an_edge_that_is_not_supermodular_is_named", "test_cut::test_an_ulp_is_rounding"),
        ),
        Claim(
            "P Proposition 14, cuts",
            "the max oracle takes O(p) minimum cuts, the top-K oracle O(p K), counted; one is enough for the max, p "
            "+ 1 for all max-marginals",
            "holds",
            ("structures.cut.minimum_cut", "structures.cut.node_max_marginals", "structures.bmmf.bmmf"),
            (
                f"{WORK}::test_minimum_cuts_of_the_oracles",
                "test_cut::test_everything_is_the_enumeration",
                "test_cut::test_node_max_marginals_are_those_of_the_labels",
            ),
        ),
    )


def _segmentation(Claim: Callable[..., Any]) -> tuple[Any, ...]:
    """Section 4.2.1 and appendix C.2 in training: scores that stay submodular."""
    planted = "test_segmentation::test_planted_weights_are_learned_with_a_certificate"
    return (
        Claim(
            "P section 4.2.1, (72)",
            "augmented scores of graphs with two labels are submodular, so that the max and top-K oracles of "
            "training are minimum cuts",
            "holds under a condition",
            ("models.segmentation.SegmentationModel", "optimizers.nonnegative.best_step"),
            ("test_segmentation::test_scores_are_submodular_with_the_loss_too", planted),
            condition="edge features >= 0, and their weights kept >= 0 in training; the task loss is a sum over nodes",
        ),
    )
