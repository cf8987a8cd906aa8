"""Rows of the claims ledger: sparse CRFs with safe screening (Zhang and Qiu 2019)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["rows"]

PROBLEM, RULES, SAFETY, SOLVERS, SCORED, MODELS = (
    "test_screening",
    "test_screening_rules",
    "test_screening_safety",
    "test_screening_solvers",
    "test_screening_scored",
    "test_restricted_models",
)


def rows(Claim: Callable[..., Any]) -> tuple[Any, ...]:
    """The rows, made with the ledger's ``Claim``."""
    return (
        Claim(
            "Z (P)",
            "P(w) = (1/n) sum_i log sum_y exp(-<psi_i(y), w>) + beta (alpha/2 ||w||^2 + ||w||_1), psi_i(y) = F(x_i, "
            "y_i) - F(x_i, y)",
            "holds under a condition",
            ("screening.problem.ElasticNetCRF",),
            (
                f"{PROBLEM}::test_primal_dual_and_gap_are_their_definitions",
                f"{PROBLEM}::test_the_optimum_of_a_generic_solver",
            ),
            condition="the log-partition is defined on all of R^m, not only on positive scores",
        ),
        Claim(
            "Z Theorem 1 (i), (D)",
            "the dual is min_theta ||S_beta((1/n) sum A_i o theta_i)||^2/(2 alpha beta) - (1/n) sum H(theta_i); P + "
            "D >= 0, and 0 at the optimum",
            "holds under a condition",
            ("screening.problem.State", "screening.problem.ElasticNetCRF"),
            (
                f"{PROBLEM}::test_primal_dual_and_gap_are_their_definitions",
                f"{PROBLEM}::test_weak_duality",
                f"{PROBLEM}::test_strong_duality_and_kkt",
            ),
            condition="0 log 0 = 0 where theta is on the boundary",
        ),
        Claim(
            "Z Theorem 1, the gap in floating point",
            "P(w) + D(theta(w)) is a sum of Fenchel-Young losses >= 0 over weights, from the gradient alone; with "
            "alpha = 0 plus a divergence for each example",
            "holds",
            ("screening.problem.ElasticNetCRF", "screening.scored.losses"),
            (
                f"{PROBLEM}::test_the_gap_is_right_to_1e15",
                f"{PROBLEM}::test_primal_dual_and_gap_are_their_definitions",
                f"{PROBLEM}::test_chains_and_lists_are_one_problem",
            ),
        ),
        Claim(
            "Z Theorem 1, the gap from a gradient at another point",
            "P(w) + D(theta(y)) is the same sum at G(y), plus mean_i KL(theta_i(y) || theta_i(w)) = F(w) - F(y) - "
            "<G(y), w - y>: no gradient at w",
            "holds",
            ("screening.problem.ElasticNetCRF",),
            (f"{SCORED}::test_a_gap_from_the_gradient_at_another_point",),
        ),
        Claim(
            "Z Theorem 1 (ii), KKT-1, KKT-2",
            "w* = S_beta((1/n) sum A_i o theta*_i)/(alpha beta), and theta*_i is the softmax of -A_i' w*",
            "holds",
            ("screening.problem.ElasticNetCRF",),
            (f"{PROBLEM}::test_strong_duality_and_kkt",),
        ),
        Claim(
            "Z (R), (R')",
            "|[(1/n) sum A_i o theta*_i]_j| <= beta implies w*_j = 0, and so does a bound on it over any set that "
            "holds theta*",
            "holds under a condition",
            ("screening.rules.L1GapRule", "screening.rules.UnionRule"),
            (
                f"{RULES}::test_every_rule_is_safe",
                f"{RULES}::test_ties_at_beta_are_not_screened",
                f"{SAFETY}::test_ties_at_beta_with_others_in_the_support",
                f"{SAFETY}::test_what_leaves_while_training_is_zero_at_the_optimum",
            ),
            condition="alpha > 0; with alpha = 0, < beta",
        ),
        Claim(
            "Z Lemma 1",
            "without weights that are 0 at the optimum: the rest solves the problem of the other rows, whose dual "
            "has the same theta*",
            "holds",
            ("screening.restricted.RestrictedModel", "screening.problem.ElasticNetCRF"),
            (f"{PROBLEM}::test_lemma_1", f"{MODELS}::test_restricted_models_are_the_model_at_zeros"),
        ),
        Claim(
            "Z Theorem 2",
            "w* = 0 and theta* uniform iff beta >= beta_max = (1/n) ||sum_i A_i 1/m_i||_inf, for every alpha",
            "holds",
            ("screening.problem.beta_max",),
            (f"{PROBLEM}::test_beta_max_is_the_threshold", f"{PROBLEM}::test_nothing_to_learn"),
        ),
        Claim(
            "Z Lemma 2",
            "D(t2) >= D(t1) + <grad D(t1), t2 - t1> + (m/2n) ||t1 - t2||^2 with m = 2, twice the printed modulus, "
            "and not more",
            "holds",
            ("screening.half_space.HalfSpaceRule",),
            (f"{RULES}::test_lemma_2_with_the_sharper_modulus", f"{RULES}::test_the_ball_is_its_definition"),
        ),
        Claim(
            "Z Lemma 3",
            "I_1, I_2 >= 0, both vanish at theta*, and ||theta* - (t1 - n grad D(t1))||^2 <= n I_1(t1) + 2n I_2(t2), "
            "for t1 = t2 the ball's squared radius",
            "holds",
            ("screening.half_space.dual_ball",),
            (f"{RULES}::test_lemma_3",),
        ),
        Claim(
            "Z Theorem 3",
            "theta* lies in the ball of centre t - (n/m) grad D(t) and radius (n/m) ||grad D(t)||, D of the problem "
            "that is left, and in each half-space",
            "wrong as printed",
            ("screening.half_space.dual_ball",),
            (f"{RULES}::test_the_ball_is_its_definition", f"{RULES}::test_every_rule_is_safe"),
            printed="the centre by the gradient of the whole problem's D, the radius by that of the reduced one",
            rejected_by=f"{RULES}::test_the_printed_ball_loses_the_optimum",
        ),
        Claim(
            "Z (1)-(3)",
            "s_j <= min_k max(const_j - min <-B_j, a>, -const_j - min <B_j, a>) over ball and half-space k, B_i = "
            "A_i[:, :m-1] - A_i[:, m] 1'",
            "holds under a condition",
            ("screening.half_space.HalfSpaceRule",),
            (f"{RULES}::test_theorem_5_is_problem_4_for_every_row",),
            condition="the constant (1/n) sum_i A_i[:, m] is added to the values of problem (4)",
        ),
        Claim(
            "Z (4), Theorem 4",
            "min <b, a> over ||a - a0|| <= r, <p, a> <= c, with g = (<p, a0> - c)/||p||: <b, a0> - r ||b|| where the "
            "ball alone decides, "
            "else <b, a0> - g <b, p>/||p|| - sqrt(r^2 - g^2) ||b - <b, p> p/||p||^2||",
            "wrong as printed",
            ("screening.half_space.smallest_on_ball_and_half_space",),
            (
                f"{RULES}::test_problem_4_against_a_solver",
                f"{RULES}::test_problem_4_is_attained",
                f"{RULES}::test_problem_4_in_corners",
                f"{RULES}::test_the_printed_theorem_4_removes_a_weight_that_is_needed",
            ),
            printed="b for d in the conditions, c ||b||/||p|| in case iii, one root whatever the sign of d, and no "
            "answer at b = 0, p = 0 and r = 0",
            rejected_by=f"{RULES}::test_the_printed_theorem_4_is_wrong",
        ),
        Claim(
            "Z Theorem 5",
            "weights whose bound is at most beta are 0 at the optimum and join those that are known",
            "holds under a condition",
            ("screening.half_space.HalfSpaceRule", "screening.solvers.solve_sparse"),
            (f"{RULES}::test_every_rule_is_safe", f"{SOLVERS}::test_solutions_are_the_listed_optimum"),
            condition="with Theorems 3 and 4 corrected; the index of w* is j",
        ),
        Claim(
            "Z Algorithm 1",
            "solve, screen each time the gap has fallen below gamma times the last one, drop, go on: the optimum of "
            "the whole problem",
            "holds under a condition",
            ("screening.solvers.solve_sparse",),
            (
                f"{SOLVERS}::test_solutions_are_the_listed_optimum",
                f"{SOLVERS}::test_screening_removes_nearly_all_zeros",
                f"{SOLVERS}::test_any_solver_can_be_wrapped",
                f"{SAFETY}::test_with_and_without_screening",
                f"{SOLVERS}::test_weights_that_are_not_zero_may_be_screened",
            ),
            condition="line 15 has the gap of the problem that is left",
        ),
        Claim(
            "Z Remark 1, Remark 2",
            "one drawn half-space in place of all n is a safe rule; so is every gamma in (0, 1)",
            "holds",
            ("screening.half_space.HalfSpaceRule", "screening.solvers.solve_sparse"),
            (
                f"{RULES}::test_every_rule_is_safe",
                f"{RULES}::test_theorem_5_is_problem_4_for_every_row",
                f"{SOLVERS}::test_screening_removes_nearly_all_zeros",
            ),
        ),
        Claim(
            "Z section 3.2, warm starts",
            "along decreasing beta each problem starts at the last solution, and the rule screens there for all that "
            "follows",
            "holds",
            ("screening.path.sparse_path",),
            (
                "test_screening_paths::test_a_path_is_its_problems",
                "test_screening_paths::test_steps_of_a_path_screen_before_they_start",
            ),
        ),
        Claim(
            "Z beyond the paper: the gap in l1",
            "|G_j| + sqrt(2 n gap) sqrt(sum_i R_ij^2)/n <= beta implies w*_j = 0, R_ij half the range of feature j "
            "over the outputs of example i",
            "holds",
            ("screening.rules.L1GapRule", "screening.ranges.range_of_sequences", "screening.ranges.range_of_classes"),
            (
                f"{RULES}::test_every_rule_is_safe",
                f"{RULES}::test_the_radius_is_no_smaller_than_it_must_be",
                f"{RULES}::test_a_weight_that_is_needed_stays",
                f"{RULES}::test_chains_by_counts",
                f"{SAFETY}::test_rules_on_drawn_chains",
                f"{MODELS}::test_ranges_and_spreads_are_those_of_listed_outputs",
            ),
        ),
        Claim(
            "Z beyond the paper: counts",
            "n |G_j(theta)| <= max(most_j - gold_j, gold_j - least_j) for every theta, by the sums over examples of "
            "feature j at its true, least and "
            "most outputs: at most n beta implies w*_j = 0 before any training",
            "holds",
            ("screening.rules.CountRule", "screening.ranges.totals_of_sequences", "screening.ranges.totals_of_classes"),
            (
                f"{RULES}::test_counts_bound_what_any_weights_can_do",
                f"{RULES}::test_every_rule_is_safe",
                f"{RULES}::test_rare_features_leave_before_training",
                f"{SAFETY}::test_rules_on_drawn_chains",
                f"{MODELS}::test_ranges_and_spreads_are_those_of_listed_outputs",
                f"{MODELS}::test_ranges_of_a_tagger_bound_those_of_its_labellings",
                f"{MODELS}::test_ranges_of_trees_bound_those_of_their_labellings",
            ),
        ),
        Claim(
            "Z beyond the paper: the gap in l2",
            "|G_j| + sqrt(n gap) sqrt(sum_i sum_y (phi_ij(y) - mean_y phi_ij)^2)/n <= beta implies w*_j = 0; it "
            "never screens more than the gap in l1",
            "holds",
            ("screening.rules.L2GapRule",),
            (f"{RULES}::test_every_rule_is_safe", f"{RULES}::test_the_ball_in_l2_is_never_better"),
        ),
    )
