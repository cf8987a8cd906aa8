"""Rows of the claims ledger: multi-sample dual updates (Branson et al. 2013, supplement)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["rows"]

RUNS, UPDATES, PROMISES = "test_multisample", "test_sample_updates", "test_multisample_promises"


def rows(Claim: Callable[..., Any]) -> tuple[Any, ...]:
    """The rows, made with the ledger's ``Claim``."""
    return (
        Claim(
            "B (1)-(8)",
            "max over alpha of D_T = -lam T/2 ||w||^2 + sum alpha loss, w = -1/(lam T) sum alpha v, is min F_T; weak "
            "duality bounds every run",
            "holds",
            ("optimizers.multisample.Multisample", "optimizers.multisample.MultisampleState"),
            (
                f"{RUNS}::test_bounds_hold_the_optimum_between_them",
                f"{RUNS}::test_the_dual_is_that_of_feasible_weights",
                f"{RUNS}::test_the_optimum_of_block_coordinate_frank_wolfe",
            ),
        ),
        Claim(
            "B (9)-(11), (24)",
            "a block's share of the dual is -(1/2 alpha' Q alpha + c' alpha)/(lam t), Q_jk = <v_j, v_k>, c_j = -lam "
            "t (<w^{t,0}, v_j> + loss_j)",
            "wrong as printed",
            ("optimizers.multisample.Multisample", "optimizers.sample_updates.exact_update"),
            (f"{RUNS}::test_weights_before_the_step_are_scaled_first", f"{RUNS}::test_runs_are_their_equations"),
            condition="w^{t,0} = (t-1)/t w^{t-1}",
            printed="w^{t-1} in place of w^{t,0}",
            rejected_by=f"{RUNS}::test_weights_before_the_step_are_scaled_first",
        ),
        Claim(
            "B section 1.2, expand move",
            "alpha_j grows by clip(lam t (<w, v_j> + loss_j)/||v_j||^2, 0, 1 - sum alpha), the best length",
            "holds",
            ("optimizers.sample_updates.expand_and_swap",),
            (
                f"{UPDATES}::test_one_move_beats_every_length_of_both_moves",
                f"{UPDATES}::test_moves_never_lower_the_dual",
            ),
        ),
        Claim(
            "B (14), swap move",
            "(1-a) alpha + a e_j with a = clip(lam t [(<w, v_j> + loss_j) - (<w, u> + D)]/||v_j - u||^2, 0, 1), the "
            "best length",
            "wrong as printed",
            ("optimizers.sample_updates.expand_and_swap",),
            (
                f"{UPDATES}::test_one_move_beats_every_length_of_both_moves",
                f"{UPDATES}::test_moves_never_lower_the_dual",
            ),
            printed="||v_j + u||^2, and a gain with + a^2",
            rejected_by=f"{UPDATES}::test_the_printed_swap_may_lower_the_dual",
        ),
        Claim(
            "B Algorithm 1",
            "one round of expand and swap moves keeps alpha feasible and never lowers the dual",
            "holds under a condition",
            ("optimizers.sample_updates.expand_and_swap", "optimizers.multisample.Multisample"),
            (
                f"{UPDATES}::test_moves_never_lower_the_dual",
                f"{RUNS}::test_each_step_raises_the_dual",
                f"{RUNS}::test_runs_are_their_equations",
            ),
            condition="with the corrected swap; each sample takes the better of the two moves, so one whose weights "
            "do not sum to 1 may swap too",
        ),
        Claim(
            "B Algorithm 1, line 16",
            "repeating the round never lowers the dual; for the maximum weight must be able to go back to the true "
            "output",
            "wrong as printed",
            ("optimizers.sample_updates.exact_update", "optimizers.simplex.maximize_on_simplex"),
            (
                f"{UPDATES}::test_the_exact_update_satisfies_the_optimality_conditions",
                f"{UPDATES}::test_exact_updates_against_a_generic_solver",
                f"{UPDATES}::test_quadratics_on_the_simplex",
            ),
            printed="optionally repeat, as an approximate solver of (9)",
            rejected_by=f"{UPDATES}::test_repeating_the_moves_does_not_reach_the_maximum",
        ),
        Claim(
            "B (18)-(21), (25)",
            "for classes Q = ||phi||^2 (1 + I), with inverse (I - 1/(K+1))/||phi||^2",
            "holds under a condition",
            ("models.multiclass.MulticlassModel", "optimizers.sample_updates.multiclass_update"),
            (f"{UPDATES}::test_the_inverse_of_the_classes_matrix", f"{RUNS}::test_each_step_raises_the_dual"),
            condition="the samples are distinct wrong classes: the true one has a row of zeros",
        ),
        Claim(
            "B Algorithm 2",
            "exact multiclass update: alpha_j = max(0, theta - c_j)/P, theta = min(s/(m+1), (P+s)/m) over the m "
            "smallest c, P = ||phi||^2",
            "wrong as printed",
            ("optimizers.sample_updates.multiclass_update",),
            (
                f"{UPDATES}::test_the_multiclass_update_satisfies_the_optimality_conditions",
                f"{UPDATES}::test_the_multiclass_update_against_a_generic_solver",
            ),
            printed="P = 1, and the number of classes one too large",
            rejected_by=f"{UPDATES}::test_the_printed_multiclass_update_takes_one_class_too_many",
        ),
        Claim(
            "B Lemma 2.2",
            "a step with a new block raises D_t by at least f(w^{t-1}; Z_t) - ||grad f||^2/(2 lam t)",
            "holds under a condition",
            ("bounds.branson.dual_increase", "optimizers.multisample.Multisample"),
            (f"{RUNS}::test_each_step_raises_the_dual", f"{RUNS}::test_the_third_line_of_lemma_2_2"),
            condition="sample 1 is the loss-augmented argmax at w^{t-1}; in the proof's third line ||w||^2 has the "
            "factor lam (t-1)/(2t)",
            printed="the proof's factor (lam t - 2 lam)/(2t)",
            rejected_by=f"{RUNS}::test_the_third_line_of_lemma_2_2",
        ),
        Claim(
            "B Lemma 2.3, Algorithm 3, line 5",
            "scaling w, and all of alpha, into the ball of radius sqrt(max loss / lam) does not lower the dual; the "
            "best scaling ends inside it",
            "wrong as printed",
            ("optimizers.multisample.Multisample",),
            (
                f"{RUNS}::test_each_step_raises_the_dual",
                f"{RUNS}::test_the_radius_of_the_print_needs_losses_up_to_one",
                f"{RUNS}::test_runs_are_their_equations",
            ),
            condition="the print's radius 1/sqrt(lam) holds for losses up to 1",
            printed="radius 1/sqrt(lam) for any loss",
            rejected_by=f"{RUNS}::test_the_radius_of_the_print_needs_losses_up_to_one",
        ),
        Claim(
            "B Lemma 2.4",
            "mean_t f(w^{t-1}; Z_t) <= min F_T / T + G^2 (log T + 1)/(2 lam T)",
            "holds",
            ("bounds.branson.online_regret",),
            (f"{RUNS}::test_regret_and_empirical_error",),
        ),
        Claim(
            "B Lemma 2.5",
            "||grad f(w^{t-1}; Z_t)|| <= G = sqrt(lam max loss) + 2R, R >= ||phi||, which a run attains",
            "holds under a condition",
            ("bounds.branson.subgradient_norm",),
            (
                f"{RUNS}::test_regret_and_empirical_error",
                f"{RUNS}::test_each_step_raises_the_dual",
                f"{PROMISES}::test_the_norm_of_lemma_2_5_is_attained",
            ),
            condition="printed for losses up to 1",
        ),
        Claim(
            "B Lemma 2.6",
            "the hinge is at least the task loss of the predicted output",
            "holds",
            ("objectives.StructuralHinge",),
            (f"{RUNS}::test_regret_and_empirical_error",),
        ),
        Claim(
            "B Theorem 2.1.1, 2.1.3",
            "the mean task loss on the way, and after complete passes F_n at the mean of w^0, ..., w^{T-1}, are "
            "within G^2 (log T + 1)/(2 lam T) of the optimum",
            "holds under a condition",
            ("bounds.branson.online_regret", "optimizers.multisample.Multisample"),
            (f"{RUNS}::test_regret_and_empirical_error",),
            condition="the update's sample 1 is the loss-augmented argmax; every visit has a block of its own "
            "(online=True); T is a multiple of n for 2.1.3",
        ),
        Claim(
            "B Theorem 2.1.2, (26)",
            "the expected task loss after one pass over n random examples is at most min E f + G^2 (log n + 1)/(2 "
            "lam n), and so is the expected f",
            "holds under a condition",
            ("bounds.branson.online_regret", "optimizers.multisample.Multisample"),
            (f"{PROMISES}::test_generalisation_of_the_mean_model", f"{PROMISES}::test_generalisation_of_long_samples"),
            condition="at the mean of w^0, ..., w^{n-1}; for w^n, which the print has, the regret's bound proves "
            "nothing",
        ),
    )
