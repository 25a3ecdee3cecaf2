#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "matrix/cell.hpp"

namespace cgconform::workloads {

/// A fault switch: one named place in the workload that can be made wrong at run time.
enum class Fault : std::uint16_t {
  f01a_batch_in_new_block,
  f01b_optional_input_not_refreshed,
  f01c_stale_padding_rows,
  f01d_staging_overwritten,
  f01e_sequence_borders_not_refreshed,
  f01f_missing_sequences_not_cleared,
  f01g_parameters_not_gathered,
  f02a_freed_temporary,
  f02b_unmapped_temporary,
  f02c_workspace_fill_outside,
  f02d_table_in_graph_pool,
  f02e_host_record_freed,
  f02f_scan_state_zeroed_outside,
  f04a_shared_output_slot,
  f04b_weight_grad_slot_handed_out,
  f04c_swapped_grad_slots,
  f04d_eager_backward_reads_capture_slots,
  f06a_pool_planned_for_other_order,
  f06b_rank_takes_other_interleave,
  f06c_prefetch_for_next_entry,
  f06d_wgrads_after_next_backward,
  f07a_offset_by_value,
  f07b_offset_not_advanced,
  f07c_graph_safe_request_dropped,
  f07d_validation_draws_from_training,
  f09a_live_counter,
  f09b_recompute_skipped,
  f11a_learning_rate_by_value,
  f11b_bias_correction_by_value,
  f11c_token_count_by_value,
  f11d_metric_updated_inside,
  f11e_host_chosen_copy_source,
  f11f_restart_forgets_step,
  f11g_clip_factor_by_value,
  f12a_history_roll_left_out,
  f12b_amax_reduced_late,
  f12c_scales_updated_in_recompute,
  f12d_weight_cache_not_announced,
  f12e_scaling_kept_over_warmup,
  f14a_overwrite_instead_of_accumulate,
  f14b_accumulate_never_zeroed,
  f14c_grad_added_flag_only_in_capture,
  f14d_parameter_left_out,
  f14e_wgrads_left_out,
  f14f_wgrads_twice,
  f16a_overflow_not_flagged,
  f16b_captured_for_less,
  f17a_wait_dropped,
  f17b_free_without_edge,
  f17c_fan_out_edge_removed,
  f19a_device_synchronize,
  f19b_wait_for_earlier_event,
  f19c_fork_not_joined,
  f19d_legacy_stream,
  f19e_two_captures_joined,
  f19f_captured_event_queried,
  f19g_memory_allocated,
  f19h_read_to_host,
  f19i_pageable_upload,
  f19j_hooks_on_at_capture,
  f23a_end_capture_skipped,
  f23b_private_pool_kept,
  f23c_ended_twice,
  f23d_end_capture_skipped_with_collective,
  f23e_private_pool_kept_with_collective,
  f23f_ended_twice_with_collective,
  f24a_eager_at_capture,
  f24b_capture_step_missed,
  f24c_waits_for_captured_event,
  f30a_device_block_an_operation,
  f30b_host_record_a_capture,
  f30c_user_object_kept,
  f30d_allocation_without_free,
  f30e_old_set_destroyed_late,
  f30f_private_pool_a_graph,
  f30g_hidden_reference_a_cycle,
  f30h_device_block_a_step,
  f32a_communicator_destroyed_first,
  f32b_communicator_aborted_first,
  f32c_scratch_freed_after_launch,
  f32d_buffers_freed_before_graphs,
  f32e_hidden_reference,
  f32f_capture_after_cleanup,
  f32g_rank_destroys_early,
  f32h_communicator_made_anew,
  f34a_layer_left_out,
  f34b_micro_batch_left_out,
  f34c_capture_step_skipped,
  f34e_path_lost_after_first_replay,
  f34f_partial_batch_replayed,
  f36_written_past_the_end,
  count,
};

/// A row of the fault table: id as in `F02b`, its class, what it injects. The check and the verdict
/// that must come out stand in the self-test's table (suites), which maps fault to check.
struct FaultRow {
  Fault fault;
  std::string_view id;
  std::string_view fault_class;
  std::string_view injection;
  /// True where the cell gives the fault something to corrupt; elsewhere its switch does nothing.
  /// A fault that applies to no cell corrupts a scenario.
  bool (*applies)(const matrix::Cell& cell);
};

/// All rows, in enumerator order.
std::span<const FaultRow> fault_table();
const FaultRow& fault_row(Fault fault);

/// Ways to make the harness's own promises false, to prove that every graph cell then turns red.
enum class Sabotage : unsigned char {
  none,
  replay_does_nothing,
  replay_runs_eager_code,
  comparator_says_equal,
  capture_executes_at_once,
  communicator_reports_error,  ///< on the last rank of a gang, after replays
  timed_replay_does_nothing,
};

}  // namespace cgconform::workloads
