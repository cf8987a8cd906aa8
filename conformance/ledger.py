"""The claims ledger: each numbered statement of the papers, whether it holds, where it is in the code, what checks it.

``python -m conformance.ledger`` prints it as a Markdown page, ``--json`` as JSON. The suite reads it: a row without
code or test fails, and so does a row printed wrong whose test does not reject the printed form.

Papers: P = Pillutla et al. 2018 (smoothing, Casimir); M = Martins et al. 2010 (online multiple kernel learning);
B = Branson et al. 2013 (multi-sample dual updates, supplement); Z = Zhang and Qiu 2019 (safe screening).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass

from conformance import (
    ledger_arborescences,
    ledger_branson,
    ledger_loopy,
    ledger_martins,
    ledger_matchings,
    ledger_pillutla,
    ledger_tagging,
    ledger_trees_and_cuts,
    ledger_zhang,
)

__all__ = ["ROWS", "Claim", "render"]

PAPERS = {
    "P": "Pillutla et al. 2018: smoothing and Casimir",
    "M": "Martins et al. 2010: online multiple kernel learning",
    "B": "Branson et al. 2013: multi-sample dual updates",
    "Z": "Zhang and Qiu 2019: safe screening of sparse CRFs",
}
LEGEND = """\
Each of the {statements} numbered statements that the code builds on, as the papers have it or in words that fit on a
line. A row says whether the statement holds, where it is in the code (names in `reference`, and in `accelerated` where
it has a kernel), and which tests check it.

- **holds**: as printed; where the statement here is sharper than the print, it says so.
- **holds under a condition**: the verdict has the condition.
- **wrong as printed**: the statement is the corrected one. The verdict has the printed form and names the test that
  rejects it.

Labels begin with the paper's letter and give its numbers. `python -m conformance.ledger` prints this page, `--json` its
rows."""
VERDICTS = ("holds", "holds under a condition", "wrong as printed")


@dataclass(frozen=True)
class Claim:
    """One statement. code: dotted names in ``reference``; tests: ``module::function`` in ``conformance``.

    printed, rejected_by: the form as printed, where it is wrong, and the test that shows it wrong.
    """

    label: str
    statement: str
    verdict: str
    code: tuple[str, ...]
    tests: tuple[str, ...]
    condition: str = ""
    printed: str = ""
    rejected_by: str = ""


OURS = (
    Claim(
        "P (1)-(3)",
        "structural hinge: max_y [psi(y; w) + loss(y)] - psi(y_i; w), averaged over examples",
        "holds",
        ("objectives.StructuralHinge",),
        ("test_objectives::test_losses_are_their_definitions",),
    ),
    Claim(
        "P section 2.3.1",
        "the max smoothed by entropy over m numbers is mu log sum exp(z/mu), with the softmax as gradient",
        "holds",
        ("structures.table.softmax", "smoothings.Entropy"),
        ("test_table::test_expectation_is_the_definition", "test_ledger::test_entropy_smoothing_lies_within_mu_log_m"),
    ),
    Claim(
        "P max^(k)",
        "the k-th largest score of a set of outputs",
        "wrong as printed",
        ("structures.table.top_k",),
        ("test_table::test_top_k_is_a_sorted_prefix",),
        condition="a multiset: equal scores of distinct outputs count separately; -inf beyond the number of outputs",
        printed="the k-th largest element of the set of scores",
        rejected_by="test_ledger::test_max_k_of_a_set_of_scores_is_not_the_second_best_output",
    ),
    Claim(
        "P Definition 6",
        "max, top-K and exp oracles: value and gradient of the (smoothed) max over outputs",
        "holds",
        ("structures.base.Structure", "smoothings.Max", "smoothings.Entropy"),
        ("test_structure::test_two_methods_derive_the_rest", "test_chain::test_viterbi_finds_a_best_labelling"),
    ),
    Claim(
        "P Lemma 7 (i)",
        "the parts of a best output are a subgradient of the max",
        "holds",
        ("smoothings.Max", "objectives.StructuralHinge", "identities.pillutla.subgradient_slack"),
        (
            "test_objectives::test_the_hinge_lies_above_its_tangents",
            "test_pillutla_oracles::test_max_and_exp_oracles_of_a_chain",
        ),
    ),
    Claim(
        "P Lemma 7 (ii)",
        "the gradient of the entropy-smoothed max is the expectation of the parts under exp(psi/mu)",
        "holds",
        ("structures.chain.forward_backward", "smoothings.Entropy", "identities.pillutla.exp_oracle_residuals"),
        (
            "test_pillutla_oracles::test_max_and_exp_oracles_of_a_chain",
            "test_objectives::test_smooth_gradients_are_finite_differences",
            "test_chain::test_forward_backward_is_the_sum_over_all_labellings",
        ),
    ),
    Claim(
        "P Proposition 9",
        "the entropy-smoothed max at mu is mu times the log-partition function of psi/mu",
        "holds",
        ("structures.chain.forward_backward", "identities.pillutla.exp_oracle_residuals"),
        (
            "test_chain::test_scales",
            "test_chain::test_forward_backward_is_the_sum_over_all_labellings",
            "test_pillutla_oracles::test_max_and_exp_oracles_of_a_chain",
        ),
    ),
    Claim(
        "P Algorithm 1",
        "max-product on a chain returns the highest score and an output that has it",
        "holds",
        ("structures.chain.viterbi",),
        (
            "test_chain::test_viterbi_finds_a_best_labelling",
            "test_chain::test_viterbi_ties_go_to_the_smallest_label_from_the_end",
        ),
    ),
    Claim(
        "P Algorithm 2",
        "K max-product on a chain returns the K highest scores and distinct outputs that have them",
        "holds under a condition",
        ("structures.chain_k_best.top_k_viterbi", "structures.chain.Chain"),
        (
            "test_top_k::test_top_k_are_the_k_largest_scores",
            "test_top_k::test_ties_go_to_the_smaller_label_from_the_end",
            "test_top_k::test_possible_only_in_few_ways",
        ),
        condition="entries of score -inf are dropped, so that fewer than K are returned where there are fewer outputs",
    ),
    Claim(
        "P Algorithm 3",
        "sum-product on a chain returns the log-partition function and the marginals",
        "holds under a condition",
        ("structures.chain.forward_backward",),
        (
            "test_chain::test_forward_backward_is_the_sum_over_all_labellings",
            "test_chain::test_twenty_thousand_positions",
        ),
        condition="messages as normalised logarithms (or scaled probabilities), not as products of exp(psi)",
        printed="messages are sums of products of exp(psi)",
        rejected_by="test_ledger::test_messages_as_plain_products_overflow",
    ),
    Claim(
        "P Example 5, section 7.1.1",
        "a chain with start and stop symbols has one weight for each pair of neighbouring tags",
        "wrong as printed",
        ("models.sequence.SequenceModel",),
        (
            "test_models::test_scores_are_features_times_weights",
            "test_models::test_start_and_stop_of_a_single_position_both_count",
        ),
        condition="L^2 + 2L weights: the pairs with the start and stop symbols are extra",
        printed="L^2 weights",
        rejected_by="test_ledger::test_start_and_stop_pairs_need_more_than_l_squared_weights",
    ),
    Claim(
        "P Definition 13",
        "the max-marginal of a label at a position is the highest score of an output that has it there",
        "holds",
        ("structures.chain_k_best.max_marginals", "structures.table.Table", "structures.graph.clique_max_marginals"),
        (
            "test_graph::test_answers_in_every_namespace_are_those_of_enumeration",
            "test_top_k::test_max_marginals_are_the_best_scores_with_each_part",
            "test_top_k::test_max_marginals_of_listed_outputs_are_their_scores",
        ),
    ),
    Claim(
        "P section 7.2",
        "SGD with gamma_0/(1 + floor(t/t_0)); average 2/(T^2+T) sum t w_t with gamma_t = 1/(lam t)",
        "holds",
        ("optimizers.sgd.SGD", "steps.Steps", "steps.Pegasos"),
        (
            "test_optimizers::test_sgd_is_its_equation",
            "test_optimizers::test_schedules_are_their_formulas",
            "test_sgd_rates::test_stochastic_subgradients_keep_their_rate",
        ),
    ),
    Claim(
        "P Algorithm 4",
        "the Casimir algorithm: w_k ~ argmin F_{mu_k,kappa_k}(.; z_{k-1}) started at z_{k-1}, z_k = w_k + beta_k "
        "(w_k - w_{k-1})",
        "holds",
        ("optimizers.casimir.Casimir", "training.casimir.casimir"),
        (
            "test_casimir::test_an_outer_step_is_its_equations",
            "test_casimir::test_runs_are_algorithm_4",
            "test_casimir::test_theory_keeps_its_promise",
            "test_casimir::test_objective_and_dual_enclose_the_optimum",
            "test_inner_solvers::test_every_way_to_run_reaches_the_optimum",
        ),
    ),
    Claim(
        "P section 7.2 (Casimir-SVRG-const, -adapt)",
        "one pass of SVRG a subproblem, started at z_{k-1}; const: mu fixed, kappa of Proposition 29; adapt: mu_k of "
        "Corollary 18, kappa = lam",
        "holds",
        ("training.presets.casimir_svrg_const", "training.presets.casimir_svrg_adapt"),
        (
            "test_presets::test_presets_are_their_schedules",
            "test_presets::test_kappa_is_that_of_propositions_29_and_31",
            "test_presets::test_presets_close_the_gap_that_their_smoothing_leaves",
        ),
    ),
    Claim(
        "P section 5.2.3, any linearly convergent inner solver",
        "SVRG, SAGA, gradient steps or a user's: each ends at the optimum by a budget of one pass as by (26), from "
        "every warm start",
        "holds",
        ("training.inner.Searched", "optimizers.saga.SAGA"),
        (
            "test_inner_solvers::test_saga_is_its_equation",
            "test_inner_solvers::test_every_way_to_run_reaches_the_optimum",
            "test_inner_solvers::test_a_solver_of_a_user",
        ),
    ),
    Claim(
        "P Table 1, baselines",
        "stochastic subgradients, one-slack cutting planes (BMRM), exponentiated gradient and block-coordinate "
        "Frank-Wolfe reach the hinge's optimum",
        "holds under a condition",
        (
            "optimizers.sgd.SGD",
            "optimizers.cutting_planes.CuttingPlanes",
            "optimizers.exponentiated_gradient.ExponentiatedGradient",
            "optimizers.bcfw.BCFW",
        ),
        (
            "test_sgd_rates::test_stochastic_subgradients_keep_their_rate",
            "test_cutting_planes::test_the_optimum_of_block_coordinate_frank_wolfe",
            "test_exponentiated::test_the_hinge_has_the_optimum_of_frank_wolfe",
            "test_bcfw::test_bounds_hold_the_optimum_between_them",
        ),
        condition="of the rates that of stochastic subgradients is checked: 8 R^2/(lam (T + 1)) in the mean, and "
        "1/T; the others are cited;"
        " excessive gap reduction, which the table has too, is left out",
    ),
    Claim(
        "P Table 1, exponentiated gradient: weak duality",
        "mean_i [mu H(alpha_i) + E loss_i] - lam/2 ||w(alpha)||^2 is a lower bound of the objective, for every alpha "
        "that a run has",
        "holds",
        ("optimizers.exponentiated_gradient.ExponentiatedGradient",),
        (
            "test_exponentiated::test_it_is_its_equations",
            "test_exponentiated::test_bounds_hold_the_optimum_between_them",
            "test_exponentiated::test_gaps_are_never_below_zero",
        ),
    ),
    Claim(
        "P Table 1, exponentiated gradient: monotone dual",
        "alpha_i <- alpha_i^(1 - eta) exp(eta [loss_i + score_i]/mu)/norm raises the dual, where steps that would "
        "lower it are not taken",
        "holds",
        ("optimizers.exponentiated_gradient.ExponentiatedGradient",),
        (
            "test_exponentiated::test_it_is_its_equations",
            "test_exponentiated::test_bounds_hold_the_optimum_between_them",
            "test_exponentiated::test_the_hinge_has_the_optimum_of_frank_wolfe",
        ),
    ),
    Claim(
        "P Table 1, exponentiated gradient: distance",
        "lam/2 ||w(alpha) - w*||^2 is at most the duality gap",
        "holds",
        ("optimizers.exponentiated_gradient.ExponentiatedGradient",),
        ("test_exponentiated::test_the_gap_bounds_the_distance",),
    ),
    Claim(
        "P section 7.2 (bcfw-wavg)",
        "block-coordinate Frank-Wolfe with the average 2/(T^2+T) sum t w_t; the same average of dual points "
        "certifies it",
        "holds",
        ("optimizers.bcfw.BCFW", "objectives.Corners"),
        ("test_bcfw::test_bcfw_is_its_equations", "test_bcfw::test_bounds_hold_the_optimum_between_them"),
    ),
    Claim(
        "P section 7.3.1",
        "SVRG and Casimir-SVRG take steps 1/(L + lam + kappa), L the Lipschitz constant of the gradient",
        "holds under a condition",
        ("optimizers.svrg.SVRG", "training.smoothness.Backtracking"),
        (
            "test_svrg::test_a_pass_is_its_equation",
            "test_svrg::test_linear_convergence_to_the_optimum",
            "test_smoothness::test_the_smoothness_of_the_average_is_not_enough",
        ),
        condition="L holds for each component; with that of their average SVRG diverges where one is much more curved",
    ),
    Claim(
        "M (3)",
        "CRF loss: log sum_y exp(f(x, y)) - f(x, y_i), gradient E[phi(x, Y)] - phi(x, y_i)",
        "holds",
        ("objectives.LogLoss",),
        (
            "test_objectives::test_losses_are_their_definitions",
            "test_objectives::test_multiclass_log_loss_is_softmax_regression",
        ),
    ),
    Claim(
        "M (4)",
        "SVM loss: max_y [f(x, y) + loss(y, y_i)] - f(x, y_i), subgradient phi(x, best) - phi(x, y_i)",
        "holds",
        ("objectives.StructuralHinge",),
        (
            "test_objectives::test_losses_are_their_definitions",
            "test_objectives::test_the_hinge_lies_above_its_tangents",
        ),
    ),
)

# the statements behind the algorithms have files of their own
PILLUTLA = (
    ledger_pillutla.rows(Claim)
    + ledger_trees_and_cuts.rows(Claim)
    + ledger_loopy.rows(Claim)
    + ledger_matchings.rows(Claim)
    + ledger_tagging.rows(Claim)
)
ROWS = (
    OURS
    + PILLUTLA
    + ledger_martins.rows(Claim)
    + ledger_arborescences.rows(Claim)
    + ledger_branson.rows(Claim)
    + ledger_zhang.rows(Claim)
)


def render() -> str:
    """The ledger as a Markdown page: a legend, then a table for each paper."""
    sections = {title: [row for row in ROWS if row.label.split()[0] == paper] for paper, title in PAPERS.items()}
    lines = ["# The claims ledger", "", LEGEND.format(statements=len(ROWS)), ""]
    for title, rows in sections.items():
        counts = ", ".join(f"{verdict} {sum(row.verdict == verdict for row in rows)}" for verdict in VERDICTS)
        lines += [f"- [{title}](#{_anchor(title)}): {len(rows)} rows,", f"  {counts}"]
    for title, rows in sections.items():
        lines += ["", f"## {title}", "", "| statement | says | verdict | code | checked by |", "|---|---|---|---|---|"]
        lines += [_line(row) for row in rows]
    return "\n".join(lines) + "\n"


def _line(row: Claim) -> str:
    verdict = f"**{row.verdict}**"
    if row.condition:
        verdict += f": {row.condition}"
    if row.printed:
        verdict += f". Printed: {row.printed} (rejected by {_test(row.rejected_by)})"
    code, tests = "<br>".join(f"`{name}`" for name in row.code), "<br>".join(map(_test, row.tests))
    return "| " + " | ".join(x.replace("|", "\\|") for x in (row.label, row.statement, verdict, code, tests)) + " |"


def _test(name: str) -> str:
    """A link from ``docs/`` to the file of a test."""
    module, _, function = name.partition("::")
    return f"[`{function}`](../conformance/{module}.py)"


def _anchor(title: str) -> str:
    """What Markdown viewers call a heading in links: lower case, punctuation dropped, a hyphen for each blank."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m conformance.ledger",
        description="Print the claims ledger as a Markdown page.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print its rows as JSON instead")
    as_json = parser.parse_args().json
    print(json.dumps([asdict(row) for row in ROWS], indent=2) if as_json else render(), end="")
