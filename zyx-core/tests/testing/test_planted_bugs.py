"""The kit finds bugs: each is planted into a device that conforms without it, and one of some tests has to fail."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fuzz.campaign import Campaign

from zyx.testing.opening import open_runtime

pytestmark = pytest.mark.slow

#: Modules of the kit in which several kernels, copies or calls wait for each other.
WAITING = (
    "compute_calls", "compute_memory", "compute_products", "events", "faults", "fourier", "graphs", "kept", "kernels",
    "launches", "lengths", "limits", "plans", "pool", "sorting", "transformations", "tuned_kernels", "varying",
)  # fmt: skip

#: Bug, the module of the kit that has to find it, and the test that does.
BUGS = [
    ("or_for_xor", "test_ops", "test_native_operations_give_the_right_values"),
    ("nan_is_forgotten_by_minima", "test_ops", "test_native_operations_give_the_right_values"),
    ("numbers_are_cut_down", "test_ops", "test_native_operations_give_the_right_values"),
    ("bfloat16_is_cut_off", "test_casts", "test_casts_round_wrap_and_saturate_as_pinned"),
    ("masks_of_loads_are_ignored", "test_movement", "test_elements_of_any_shape_are_moved"),
    ("masks_of_stores_are_ignored", "test_kernels", "test_threads_reduce_together_in_a_tree"),
    ("neighbours_swap_always", "test_swaps", "test_threads_get_the_value_of_the_thread_that_they_swap_with"),
    ("neighbours_swap_always", "test_swaps", "test_all_threads_of_a_subgroup_get_its_sum"),
    ("neighbours_swap_always", "test_reductions", "test_rows_and_columns_of_a_large_matrix_are_reduced"),
    ("values_of_64_bits_lose_half_in_swaps", "test_swaps", "test_threads_swap_vectors_lane_by_lane"),
    ("updates_are_lost", "test_kernels", "test_atomics_lose_no_update"),
    ("grids_end_at_16_bits", "test_launches", "test_every_group_of_a_grid_runs_once"),
    ("leaking_pool", "test_pool", "test_a_pool_does_what_a_dictionary_of_bytes_does"),
    ("leaking_pool", "test_plans", "test_memory_comes_back_when_tensors_die"),
    ("events_again", "test_events", "test_an_event_is_used_once"),
    ("freed_twice", "test_pool", "test_a_pool_does_what_a_dictionary_of_bytes_does"),
    ("words", "test_movement", "test_sizes_that_words_do_not_divide_come_back"),
    ("one_capture", "test_launches", "test_a_captured_sequence_does_what_its_launches_do"),
    ("careless", "test_launches", "test_arguments_that_do_not_fit_are_refused_and_change_nothing"),
    ("stale_code", "test_plans", "test_more_outputs_than_a_kernel_binds_are_stored_by_several"),
    ("hasty", "test_events", "test_launches_in_a_chain_of_events_run_in_order"),
    ("same_event", "test_events", "test_several_can_wait_for_one_piece_of_work"),
    ("early_event", "test_events", "test_memory_is_given_back_behind_the_work_that_still_uses_it"),
    ("hasty_target", "test_events", "test_a_copy_waits_for_the_work_on_its_target"),
]


@pytest.mark.parametrize(("bug", "module", "test"), BUGS, ids=[f"{bug}-{module}" for bug, module, _ in BUGS])
def test_a_planted_bug_is_found(run_kit, bug, module, test):
    outcome = run_kit(bug, module, options=("-k", test))
    assert outcome.status == 1, outcome.output
    assert outcome.failed == {test}, outcome.output


@pytest.mark.parametrize("bug", ["or_for_xor", "nan_is_forgotten_by_minima", "masks_of_loads_are_ignored"])
def test_random_graphs_find_it_too_and_show_the_smallest_part(run_kit, bug):
    outcome = run_kit(bug, "test_graphs")
    assert "test_random_graphs_agree_with_the_oracle" in outcome.failed, outcome.output
    assert "its smallest part that fails" in outcome.output
    assert "seeds [" in outcome.output


def test_without_a_bug_the_same_tests_pass(run_kit):
    """The rest of the kit is run on the interpreter, which that device is, by an environment of its own."""
    modules = dict.fromkeys(module for _, module, _ in BUGS)
    outcome = run_kit("none", *modules, options=("-k", " or ".join(test for _, _, test in BUGS)))
    assert outcome.status == 0, outcome.output
    passed = re.search(r"(\d+) passed", outcome.output)
    assert passed is not None
    assert int(passed[1]) >= len({test for _, _, test in BUGS})


def test_a_device_that_works_as_late_as_it_may_conforms(run_kit):
    """It does its work as late as events allow, and so finds out who does not wait for them.

    What a kernel computes is waited for alike whatever it is, so the modules about single operations are left out.
    """
    outcome = run_kit("lazy", *(f"test_{topic}" for topic in WAITING))
    assert outcome.status == 0, outcome.output


def test_random_programs_are_right_on_a_device_that_works_as_late_as_it_may(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setenv("PLANTED_BUG", "lazy")
    runtime = open_runtime("planted", ["planted"])
    campaign = Campaign(runtime, most_elements=600, most_calls=8)
    campaign.run(range(40))
    runtime.close()
    assert not campaign.failures, campaign.summary()
