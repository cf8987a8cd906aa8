"""Each known mistake is caught by the test that is meant to catch it, and by name."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from conformance.meta import MISTAKES
from conformance.modules import module_path

CASES = [  # a backend, the file and the test that catch it, and words of the instance that shows it
    ("off_by_one_viterbi", "test_laws", "test_the_best_output_is_the_best_of_all", "float64-Chain"),
    ("unshifted_partition", "test_laws", "test_the_expectation_is_the_sum_over_all_outputs", "float64-Chain"),
    ("unshifted_partition", "test_large_structures", "test_scores_far_apart_leave_the_best_output", "Chain"),
    ("no_stop_in_pullback", "test_models", "test_the_adjoint_identity", "float64-sequences"),
    ("unsorted_simplex", "test_selection", "test_project_simplex"),
    ("exactness_unkept", "test_selection", "test_hard_rows"),
    ("exactness_unkept", "test_selection", "test_ties_of_the_squared_l1_prox"),
    ("groups_before_coordinates", "test_prox", "test_the_prox_is_a_minimiser", "SparseGroupLasso"),
    ("outer_groups_first", "test_prox", "test_the_prox_is_a_minimiser", "TreeGroupLasso"),
    ("norms_without_cross_term", "test_online_proximal", "test_an_epoch_is_its_equation"),
    ("conjugate_everywhere", "test_prox", "test_fenchel_and_young"),
    ("hinge_without_loss", "test_objectives", "test_losses_are_their_definitions"),
    ("top_k_padded_with_the_best", "test_laws", "test_the_k_best_outputs_have_the_k_largest_scores", "float64-Chain"),
    ("top_k_without_distinctness", "test_laws", "test_the_k_best_outputs_have_the_k_largest_scores", "float64-Chain"),
    ("wrong_average", "test_stochastic_gradients", "test_sgd_is_its_equation"),
    ("bmmf_variable_by_variable", "test_search", "test_bmmf_finds_the_k_best_of_any_outputs"),
    ("gap_of_wrong_average", "test_bcfw", "test_bcfw_is_its_equations"),
    ("dual_of_the_epoch_before", "test_dual_learners", "test_it_is_its_equations"),
    ("tree_pairs_transposed", "test_laws", "test_the_best_output_is_the_best_of_all", "float64-Tree"),
    ("tree_siblings_in_step", "test_laws", "test_the_k_best_outputs_have_the_k_largest_scores", "float64-Tree"),
    ("residual_arcs_both_ways", "test_laws", "test_max_marginals_are_the_best_scores_with_each_part", "Matching"),
    ("cycles_at_full_score", "test_laws", "test_the_best_output_is_the_best_of_all", "float64-Arborescence"),
    (
        "roots_all_counted",
        "test_laws",
        "test_the_expectation_is_the_sum_over_all_outputs",
        "float64-Arborescence, one root",
    ),
    ("padding_counted", "test_laws", "test_a_batch_is_its_members", "float64-Arborescence"),
    ("padding_counted", "test_laws", "test_a_batch_is_its_members", "float64-Matching"),
    ("one_way_edges", "test_models", "test_the_adjoint_identity", "float64-images"),
    ("clipped_at_the_end", "test_bcfw", "test_bcfw_finds_the_constrained_optimum"),
    ("clipped_capacities", "test_laws", "test_ties_go_to_the_first_in_the_order_of_the_structure", "Cut"),
    ("clipped_capacities", "test_cut", "test_a_grid_is_its_integer_program"),
    ("screening_radius_too_small", "test_screening_rules", "test_a_weight_that_is_needed_stays"),
    ("screening_radius_too_small", "test_screening_rules", "test_the_radius_is_no_smaller_than_it_must_be"),
    ("equal_neighbours_miscounted", "test_screening", "test_chains_and_lists_are_one_problem"),
    ("negative_features_left_out", "test_screening_rules", "test_counts_bound_what_any_weights_can_do"),
    ("copied_from_the_device", "test_arrays", "test_other_devices_are_refused_not_copied"),
    ("lacks_names", "test_names", "test_name_is_there"),
    ("stale_gap", "test_chain", "test_count_is_exact_beyond_int64"),
]


def suite(backends, *arguments):
    """Run part of the suite on some backends in a process of its own: exit status and output."""
    command = [sys.executable, "-m", "conformance", "--namespace", "numpy", "--no-shrink"]
    chosen = [word for backend in backends for word in ("--backend", backend)]
    done = subprocess.run([*command, *chosen, *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_known_mistakes_are_caught():
    """All in one process. A closed gap is a mistake, too."""
    # 40 fixed draws may miss a mistake that one instance in 20 shows
    options = ["-p", "conformance.meta.cases", "--examples", "200", "--seed", "0"]
    options += [f"--case=conformance.meta.{name}::{test}::{''.join(words)}" for name, _, test, *words in CASES]
    backends = dict.fromkeys(f"conformance.meta.{case[0]}" for case in CASES)
    tests = dict.fromkeys(f"{module_path(case[1])}::{case[2]}" for case in CASES)
    status, output = suite(backends, *options, *tests)
    found = r"^FAILED \S*{1}.py::{2}\[\S*conformance\.meta\.{0}\b"
    missed = [case for case in CASES if not re.search(found.format(*case), output, re.MULTILINE)]
    assert status == 1 and not missed, f"{missed}\n{output}"
    assert re.findall(r"^FAILED .*::(\w+)\[.*XPASS\(strict\)", output, re.MULTILINE) == [CASES[-1][2]]


def test_every_known_mistake_has_a_case():
    assert {case[0] for case in CASES} == MISTAKES.keys()


@pytest.mark.beyond("starts processes")
def test_what_is_missing_is_said_and_the_rest_runs():
    status, output = suite(
        ["conformance.meta.lacks_names"], str(module_path("test_names")), str(module_path("test_chain"))
    )
    assert status == 1
    assert "conformance.meta.lacks_names lacks SequenceModel" in output
    assert "\nFAILED conformance/panels/test_names.py::test_name_is_there[" in output
    failed = [line for line in output.splitlines() if line.startswith("FAILED")]
    assert failed and all("test_names" in line for line in failed)


@pytest.mark.beyond("starts processes")
def test_a_gap_that_matches_no_test_is_an_error():
    command = [sys.executable, "-m", "conformance", "--backend", "conformance.meta.stale_gap", "--collect-only"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 4 and "'*no_such_test*' matches no test" in done.stdout + done.stderr
