#include "workloads/faults/fault_table.hpp"

#include <array>
#include <cstddef>

#include "matrix/layer_modules.hpp"
#include "matrix/virtual_stages.hpp"

namespace cgconform::workloads {
namespace {

using matrix::Cell;
using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;

/// All of the model's layers are captured: in graphs of iterations or as a pair of callables.
bool all_layers(const Cell& cell) {
  return cell.config.cuda_graph_impl == CudaGraphImpl::full_iteration ||
         (cell.config.cuda_graph_impl == CudaGraphImpl::local &&
          cell.config.cuda_graph_scope.contains(CudaGraphModule::full_iteration));
}

bool callable_pair(const Cell& cell) {
  return all_layers(cell) && cell.shape.capture_form == matrix::CaptureForm::callables;
}

bool full_iteration(const Cell& cell) {
  return all_layers(cell) && !callable_pair(cell);
}

/// Per-layer graphs of `local` that hold at least one layer of a dense model.
bool local_layers(const Cell& cell) {
  const matrix::CudaGraphScope scope = cell.config.cuda_graph_scope;
  return cell.config.cuda_graph_impl == CudaGraphImpl::local && !all_layers(cell) &&
         (scope.empty() || scope.contains(CudaGraphModule::full) ||
          scope.contains(CudaGraphModule::attn) || scope.contains(CudaGraphModule::mlp));
}

/// Ahead-of-time callables that hold the given module of every layer of a dense model.
bool callables_hold(const Cell& cell, CudaGraphModule module) {
  const matrix::CudaGraphScope scope = cell.config.cuda_graph_scope;
  return cell.config.cuda_graph_impl == CudaGraphImpl::transformer_engine &&
         cell.config.cuda_graph_warmup_steps >= 0 &&
         (scope.empty() || scope.contains(CudaGraphModule::full) || scope.contains(module));
}

/// Callables that hold whole layers.
bool callable_layers(const Cell& cell) {
  return callables_hold(cell, CudaGraphModule::attn) && callables_hold(cell, CudaGraphModule::mlp);
}

bool callables(const Cell& cell) {
  return callables_hold(cell, CudaGraphModule::attn) || callables_hold(cell, CudaGraphModule::mlp);
}

bool layer_graphs(const Cell& cell) {
  return local_layers(cell) || callables(cell);
}

bool whole_layer_graphs(const Cell& cell) {
  return local_layers(cell) || callable_layers(cell) || callable_pair(cell);
}

bool any_graph(const Cell& cell) {
  return all_layers(cell) || layer_graphs(cell);
}

/// Graphs whose inputs hold sequences from their first row to their last: the rows that sequence
/// parallelism gives a rank's layers do not begin where sequences do.
bool whole_sequences(const Cell& cell) {
  return full_iteration(cell) || (any_graph(cell) && !cell.config.sequence_parallel);
}

/// Replicas gather parameters beside the forward.
bool gathering_parameters(const Cell& cell) {
  return any_graph(cell) && cell.config.data_parallel_size > 1 &&
         cell.config.use_distributed_optimizer && cell.config.overlap_param_gather;
}

bool gathering_beside_layers(const Cell& cell) {
  return gathering_parameters(cell) && layer_graphs(cell);
}

/// Graphs that add weight gradients which a backward has left for later.
bool delayed_wgrads(const Cell& cell) {
  return cell.config.delay_wgrad_compute && (full_iteration(cell) || callables(cell));
}

bool delayed_callables(const Cell& cell) {
  return cell.config.delay_wgrad_compute && callables(cell);
}

/// Graphs that hold the gather of the incoming gradient, which the end of a layer does.
bool gathering(const Cell& cell) {
  return all_layers(cell) || local_layers(cell) || callables_hold(cell, CudaGraphModule::mlp);
}

bool several_microbatches(const Cell& cell) {
  return cell.config.num_microbatches >= 2;
}

bool layers_several_microbatches(const Cell& cell) {
  return layer_graphs(cell) && several_microbatches(cell);
}

/// Several graphs, and a host heap that holds nothing of messages.
bool layers_of_one_rank(const Cell& cell) {
  return layer_graphs(cell) && cell.ranks() == 1;
}

/// Two micro-batches in flight: the first stage of a pipeline runs ahead by one.
bool layers_in_flight(const Cell& cell) {
  return layers_several_microbatches(cell) && cell.config.pipeline_model_parallel_size >= 2;
}

/// More than one captured backward of a layer, gather included, on every stage.
bool several_backwards(const Cell& cell) {
  if (!gathering(cell)) return false;
  if (cell.config.num_layers / cell.config.pipeline_model_parallel_size >= 2) return true;
  return layers_in_flight(cell) || (full_iteration(cell) && several_microbatches(cell));
}

/// Callables for each of several micro-batches, which take static inputs from one another.
bool callables_in_flight(const Cell& cell) {
  return callables(cell) && layers_in_flight(cell);
}

/// Graphs that hold communication between stages.
bool communicating_graph(const Cell& cell) {
  return full_iteration(cell) && cell.config.pipeline_model_parallel_size >= 2;
}

/// More than one graph a rank: layers have a forward and a backward each, an iteration one graph a
/// mode.
bool several_graphs(const Cell& cell) {
  return layer_graphs(cell) || callable_pair(cell) ||
         (full_iteration(cell) && cell.shape.eval_interval > 0);
}

bool accumulating(const Cell& cell) {
  return any_graph(cell) && several_microbatches(cell);
}

/// Graphs that draw: attention has both kinds of dropout, the MLP that of the hidden states.
bool any_dropout(const Cell& cell) {
  const bool attention =
      all_layers(cell) || local_layers(cell) || callables_hold(cell, CudaGraphModule::attn);
  return (any_graph(cell) && cell.config.hidden_dropout > 0.0F) ||
         (attention && cell.config.attention_dropout > 0.0F);
}

bool validating_dropout(const Cell& cell) {
  return any_dropout(cell) && cell.shape.eval_interval > 0;
}

/// A captured backward that draws the masks of its forward again.
bool redrawing(const Cell& cell) {
  return full_iteration(cell) && any_dropout(cell) &&
         cell.config.recompute_granularity == matrix::RecomputeGranularity::full;
}

bool redrawing_several_microbatches(const Cell& cell) {
  return redrawing(cell) && several_microbatches(cell);
}

/// The optimizer's step is captured, as a graph of its own or with the iteration.
bool captured_optimizer(const Cell& cell) {
  return any_graph(cell) && (cell.config.optimizer_cuda_graph ||
                             cell.shape.capture_form == matrix::CaptureForm::whole_step);
}

bool optimizer_graph(const Cell& cell) {
  return captured_optimizer(cell) && cell.shape.capture_form != matrix::CaptureForm::whole_step;
}

bool adam_graph(const Cell& cell) {
  return captured_optimizer(cell) && cell.shape.optimizer == matrix::Optimizer::adam;
}

bool clipping_graph(const Cell& cell) {
  return captured_optimizer(cell) && cell.shape.clip_grad > 0.0F;
}

/// Graphs that hold the start of every layer's forward.
bool opening(const Cell& cell) {
  return all_layers(cell) || local_layers(cell) || callables_hold(cell, CudaGraphModule::attn);
}

/// Graphs that give tokens their rows where experts have a fixed number of them.
bool dropping(const Cell& cell) {
  const matrix::CudaGraphScope scope = cell.config.cuda_graph_scope;
  const bool captures =
      all_layers(cell) || (cell.config.cuda_graph_impl != CudaGraphImpl::none &&
                           (scope.empty() || scope.contains(CudaGraphModule::moe) ||
                            scope.contains(CudaGraphModule::moe_preprocess)));
  return captures && cell.config.moe_pad_expert_input_to_capacity &&
         cell.config.num_moe_experts.has_value();
}

/// Graphs that hold a module of at least one layer, on every stage.
bool graphs_hold(const Cell& cell, CudaGraphModule module) {
  if (cell.config.cuda_graph_impl == CudaGraphImpl::none) return false;
  for (std::int32_t stage = 0; stage < cell.config.pipeline_model_parallel_size; ++stage) {
    bool held = false;
    for (const matrix::VirtualStage& part : matrix::virtual_stages(cell, stage)) {
      for (std::int32_t layer = part.first_layer; layer < part.end_layer; ++layer) {
        const bool captured = all_layers(cell) || (matrix::is_graphed(cell, layer) &&
                                                   matrix::selects_layer(cell.config, layer));
        const bool has = matrix::modules_of_layer(cell.config, layer).contains(module);
        held = held || (captured && has);
      }
    }
    if (!held) return false;
  }
  return true;
}

/// Graphs that read where packed sequences begin.
bool packed_graph(const Cell& cell) {
  const bool holds_attention = callables_hold(cell, CudaGraphModule::attn) ||
                               cell.config.cuda_graph_impl != CudaGraphImpl::transformer_engine;
  return cell.config.sequence_packing != matrix::SequencePacking::none &&
         ((holds_attention && graphs_hold(cell, CudaGraphModule::attn)) ||
          graphs_hold(cell, CudaGraphModule::mamba));
}

/// Graphs that hold a selective scan.
bool scanning(const Cell& cell) {
  return graphs_hold(cell, CudaGraphModule::mamba);
}

bool quantised(const Cell& cell) {
  return any_graph(cell) && cell.config.fp8 != matrix::Fp8Format::none;
}

bool delayed_scaling(const Cell& cell) {
  return quantised(cell) && cell.config.fp8_recipe == matrix::Fp8Recipe::delayed;
}

bool quantised_layers(const Cell& cell) {
  return delayed_scaling(cell) && layer_graphs(cell);
}

/// Ranks that decide on their scales together.
bool reduced_scaling(const Cell& cell) {
  const bool replicated = cell.config.data_parallel_size > 1 && !cell.config.tp_only_amax_red;
  return delayed_scaling(cell) && (replicated || cell.config.tensor_model_parallel_size > 1);
}

/// A captured backward that runs linear layers again.
bool recomputed_scaling(const Cell& cell) {
  return delayed_scaling(cell) && full_iteration(cell) &&
         cell.config.recompute_granularity == matrix::RecomputeGranularity::full;
}

/// Captured iterations that read partial micro-batches in the shape of full ones.
bool padded_iteration(const Cell& cell) {
  return full_iteration(cell) && cell.shape.last_batch == matrix::LastBatch::padded;
}

bool eager_partial_batches(const Cell& cell) {
  return any_graph(cell) && cell.shape.last_batch == matrix::LastBatch::eager;
}

bool scenario_only(const Cell& /*cell*/) {
  return false;
}

constexpr std::string_view stale_input = "Stale static input";
constexpr std::string_view stale_buffer = "Freed or recycled buffer used by a node";
constexpr std::string_view overwritten =
    "Static output or activation overwritten by a later replay";
constexpr std::string_view other_order =
    "Replay order differs from the order the pool was planned for";
constexpr std::string_view frozen_random = "Random offset frozen";
constexpr std::string_view wrong_recompute = "Recompute draws or scales differently from forward";
constexpr std::string_view host_value = "Host value baked in";
constexpr std::string_view scaling_state = "FP8 amax or scale does not advance, or advances twice";
constexpr std::string_view gradient_sink = "Gradient accumulate/overwrite or sink captured wrongly";
constexpr std::string_view truncated = "Static MoE capacity exceeded and truncated";
constexpr std::string_view missing_edge = "Missing edge inside a graph";
constexpr std::string_view broken_rule = "Capture rule broken on the capturing thread";
constexpr std::string_view not_unwound = "Failed capture not unwound";
constexpr std::string_view not_uniform = "Capture or replay not uniform over ranks";
constexpr std::string_view growth = "Growth or leak over capture cycles";
constexpr std::string_view teardown_order = "Teardown order";
constexpr std::string_view not_graphed = "Requested scope not really graphed";
constexpr std::string_view out_of_bounds = "Access outside of a block";

constexpr std::array table{
    FaultRow{Fault::f01a_batch_in_new_block, "F01a", stale_input,
             "from the second replay the input lies in a new block and only the host pointer is "
             "swapped: the captured slot keeps the earlier one",
             any_graph},
    FaultRow{Fault::f01b_optional_input_not_refreshed, "F01b", stale_input,
             "the loss mask, an optional input, is not refreshed on odd steps", full_iteration},
    FaultRow{Fault::f01c_stale_padding_rows, "F01c", stale_input,
             "the rows of padding keep what the last step had there", whole_sequences},
    FaultRow{
        Fault::f01d_staging_overwritten, "F01d", stale_input,
        "the pinned staging block of a captured upload is overwritten before the copy reads it",
        full_iteration},
    FaultRow{Fault::f01e_sequence_borders_not_refreshed, "F01e", stale_input,
             "the borders of packed sequences keep those of the first replay", packed_graph},
    FaultRow{
        Fault::f01f_missing_sequences_not_cleared, "F01f", stale_input,
        "the sequences that a partial micro-batch lacks keep the rows and the mask of the last "
        "full one",
        padded_iteration},
    FaultRow{Fault::f01g_parameters_not_gathered, "F01g", stale_input,
             "hooks that gather parameters are left out of captures and replays",
             gathering_parameters},
    FaultRow{Fault::f02a_freed_temporary, "F02a", stale_buffer,
             "after capture the pool hands the address of a captured temporary to a long-lived "
             "metric",
             gathering},
    FaultRow{Fault::f02b_unmapped_temporary, "F02b", stale_buffer,
             "a captured temporary has a mapping of its own, which is unmapped before replay",
             gathering},
    FaultRow{Fault::f02c_workspace_fill_outside, "F02c", stale_buffer,
             "a workspace is zeroed outside the captured span and filled with NaN before replay",
             gathering},
    FaultRow{
        Fault::f02d_table_in_graph_pool, "F02d", stale_buffer,
        "a long-lived table is made inside a capture, from the private pool, which recycles it",
        several_backwards},
    FaultRow{Fault::f02e_host_record_freed, "F02e", stale_buffer,
             "a captured host callback frees and poisons its record in its first run", gathering},
    FaultRow{Fault::f02f_scan_state_zeroed_outside, "F02f", stale_buffer,
             "the state that a captured scan starts from is zeroed outside the captured span: a "
             "replay goes on from what the last scan left",
             scanning},
    FaultRow{Fault::f04a_shared_output_slot, "F04a", overwritten,
             "one pair of graphs a layer serves two micro-batches in flight", layers_in_flight},
    FaultRow{Fault::f04b_weight_grad_slot_handed_out, "F04b", overwritten,
             "weight gradients are handed out in their static slots and used after the next "
             "backward",
             layers_several_microbatches},
    FaultRow{Fault::f04c_swapped_grad_slots, "F04c", overwritten,
             "a captured backward swaps two gradient slots of equal shape", any_graph},
    FaultRow{Fault::f04d_eager_backward_reads_capture_slots, "F04d", overwritten,
             "one layer's backward runs eagerly and reads the activations saved at capture",
             local_layers},
    FaultRow{Fault::f06a_pool_planned_for_other_order, "F06a", other_order,
             "graphs are captured as if no forward ran ahead, each micro-batch at once: backwards "
             "give memory back that the schedule still needs",
             layers_in_flight},
    FaultRow{
        Fault::f06b_rank_takes_other_interleave, "F06b", other_order,
        "once graphs are replayed the last stage runs one forward further ahead than when they "
        "were captured, which is a legal schedule too",
        layers_in_flight},
    FaultRow{Fault::f06c_prefetch_for_next_entry, "F06c", other_order,
             "the forward graph of an entry fills the static input of the next entry too, which a "
             "micro-batch in flight may still need",
             callables_in_flight},
    FaultRow{Fault::f06d_wgrads_after_next_backward, "F06d", other_order,
             "delayed weight gradients are replayed after the next backward, whose graph takes the "
             "place of what they read",
             delayed_callables},
    FaultRow{Fault::f07a_offset_by_value, "F07a", frozen_random,
             "captured dropout takes the random offset by value", any_dropout},
    FaultRow{Fault::f07b_offset_not_advanced, "F07b", frozen_random,
             "captured dropout does not advance the random offset", any_dropout},
    FaultRow{Fault::f07c_graph_safe_request_dropped, "F07c", frozen_random,
             "the request for graph-safe random state is dropped: the state of capture time is "
             "baked into the graph",
             any_dropout},
    FaultRow{Fault::f07d_validation_draws_from_training, "F07d", frozen_random,
             "validation, eager or from a graph, advances the random offset of training",
             validating_dropout},
    FaultRow{Fault::f09a_live_counter, "F09a", wrong_recompute,
             "the captured backward recomputes with the live random offset, not with the one the "
             "forward stored",
             redrawing},
    FaultRow{Fault::f09b_recompute_skipped, "F09b", wrong_recompute,
             "the captured backward skips the recompute after the first micro-batch and reads what "
             "that one left",
             redrawing_several_microbatches},
    FaultRow{Fault::f11a_learning_rate_by_value, "F11a", host_value,
             "the captured optimizer takes the learning rate of capture time, while a schedule "
             "changes it",
             captured_optimizer},
    FaultRow{Fault::f11b_bias_correction_by_value, "F11b", host_value,
             "the captured optimizer corrects the bias of its moments by the step of capture time",
             adam_graph},
    FaultRow{Fault::f11c_token_count_by_value, "F11c", host_value,
             "the captured iteration counts as many tokens as the batch of capture time had",
             full_iteration},
    FaultRow{Fault::f11d_metric_updated_inside, "F11d", host_value,
             "a metric of the host is updated inside captured functions, which replays do not run",
             opening},
    FaultRow{Fault::f11e_host_chosen_copy_source, "F11e", host_value,
             "a captured copy takes the learning rate from the slot that the host chose at capture",
             optimizer_graph},
    FaultRow{Fault::f11f_restart_forgets_step, "F11f", host_value,
             "a restart loads the state of a checkpoint and counts its steps from the start",
             any_graph},
    FaultRow{Fault::f11g_clip_factor_by_value, "F11g", host_value,
             "the captured optimizer clips gradients by the factor of capture time",
             clipping_graph},
    FaultRow{Fault::f12a_history_roll_left_out, "F12a", scaling_state,
             "once graphs are used the history of one linear layer does not move on",
             delayed_scaling},
    FaultRow{Fault::f12b_amax_reduced_late, "F12b", scaling_state,
             "once graphs are used magnitudes are reduced over ranks after the scales that they "
             "decide on",
             reduced_scaling},
    FaultRow{Fault::f12c_scales_updated_in_recompute, "F12c", scaling_state,
             "a captured recompute moves the history on, as the end of the step does",
             recomputed_scaling},
    FaultRow{Fault::f12d_weight_cache_not_announced, "F12d", scaling_state,
             "once graphs are used nothing says that weights are new, and the quantised ones stay",
             quantised},
    FaultRow{Fault::f12e_scaling_kept_over_warmup, "F12e", scaling_state,
             "the runs that belong to a capture leave their magnitudes in the history",
             quantised_layers},
    FaultRow{Fault::f14a_overwrite_instead_of_accumulate, "F14a", gradient_sink,
             "the captured backward overwrites the accumulated weight gradients", accumulating},
    FaultRow{Fault::f14b_accumulate_never_zeroed, "F14b", gradient_sink,
             "the captured backward accumulates and the gradients are never zeroed between steps",
             any_graph},
    FaultRow{Fault::f14c_grad_added_flag_only_in_capture, "F14c", gradient_sink,
             "the flag 'gradient already added' is set by host code that runs at capture only",
             whole_layer_graphs},
    FaultRow{Fault::f14d_parameter_left_out, "F14d", gradient_sink,
             "one parameter's gradient is left out of the captured backward", any_graph},
    FaultRow{Fault::f14e_wgrads_left_out, "F14e", gradient_sink,
             "replays leave the delayed weight gradients out", delayed_wgrads},
    FaultRow{Fault::f14f_wgrads_twice, "F14f", gradient_sink,
             "replays add the delayed weight gradients twice", delayed_wgrads},
    FaultRow{Fault::f16a_overflow_not_flagged, "F16a", truncated,
             "captured routing drops tokens beyond the capacity and leaves the overflow flag at 0",
             dropping},
    FaultRow{Fault::f16b_captured_for_less, "F16b", truncated,
             "the graph is made for one row less an expert than eager code has, and the tokens of "
             "the last one vanish unflagged",
             dropping},
    FaultRow{Fault::f17a_wait_dropped, "F17a", missing_edge,
             "a side stream does not wait for the producer of what it reads; the join stays",
             gathering},
    FaultRow{Fault::f17b_free_without_edge, "F17b", missing_edge,
             "a block is freed and reused while a branch still reads it, without an edge from the "
             "branch",
             gathering},
    FaultRow{Fault::f17c_fan_out_edge_removed, "F17c", missing_edge,
             "one edge of a wide fan-out is removed", gathering},
    FaultRow{Fault::f19a_device_synchronize, "F19a", broken_rule,
             "the device is synchronised inside a capture", any_graph},
    FaultRow{Fault::f19b_wait_for_earlier_event, "F19b", broken_rule,
             "the capturing stream waits for an event recorded before the capture", any_graph},
    FaultRow{Fault::f19c_fork_not_joined, "F19c", broken_rule,
             "a side stream is forked from the capture and never joined", any_graph},
    FaultRow{Fault::f19d_legacy_stream, "F19d", broken_rule,
             "work is launched on the legacy stream while a blocking stream captures", any_graph},
    FaultRow{Fault::f19e_two_captures_joined, "F19e", broken_rule,
             "one stream is joined into two open captures", any_graph},
    FaultRow{Fault::f19f_captured_event_queried, "F19f", broken_rule,
             "an event recorded in the capture is queried", any_graph},
    FaultRow{Fault::f19g_memory_allocated, "F19g", broken_rule,
             "device memory is allocated inside a capture", any_graph},
    FaultRow{Fault::f19h_read_to_host, "F19h", broken_rule,
             "token counts are read back to the host inside a capture", any_graph},
    FaultRow{Fault::f19i_pageable_upload, "F19i", broken_rule,
             "a captured upload reads pageable host memory", any_graph},
    FaultRow{Fault::f19j_hooks_on_at_capture, "F19j", broken_rule,
             "hooks that gather parameters are not switched off while layers are captured",
             gathering_beside_layers},
    FaultRow{Fault::f23a_end_capture_skipped, "F23a", not_unwound,
             "a capture that failed is not ended", scenario_only},
    FaultRow{Fault::f23b_private_pool_kept, "F23b", not_unwound,
             "the private pool of a capture that failed is kept", scenario_only},
    FaultRow{Fault::f23c_ended_twice, "F23c", not_unwound,
             "a capture that failed, and with it its dead graph, is ended twice", scenario_only},
    FaultRow{Fault::f23d_end_capture_skipped_with_collective, "F23d", not_unwound,
             "a capture with a collective that failed is not ended", scenario_only},
    FaultRow{Fault::f23e_private_pool_kept_with_collective, "F23e", not_unwound,
             "the private pool of a capture with a collective that failed is kept", scenario_only},
    FaultRow{Fault::f23f_ended_twice_with_collective, "F23f", not_unwound,
             "a capture with a collective that failed is ended twice", scenario_only},
    FaultRow{Fault::f24a_eager_at_capture, "F24a", not_uniform,
             "rank 1 stays eager at the call that its peers capture", communicating_graph},
    FaultRow{Fault::f24b_capture_step_missed, "F24b", not_uniform,
             "rank 1 has not counted a call and misses the one that its peers capture",
             communicating_graph},
    FaultRow{Fault::f24c_waits_for_captured_event, "F24c", not_uniform,
             "rank 1 runs eagerly beside its peers' replays, after an event that only the captured "
             "path records",
             communicating_graph},
    FaultRow{Fault::f30a_device_block_an_operation, "F30a", growth,
             "64 KiB of device memory are kept for each of a capture's first operations",
             any_graph},
    FaultRow{Fault::f30b_host_record_a_capture, "F30b", growth,
             "ten host records of 40000 bytes are kept for each capture", layers_of_one_rank},
    FaultRow{Fault::f30c_user_object_kept, "F30c", growth,
             "the user object of a graph is never released", any_graph},
    FaultRow{Fault::f30d_allocation_without_free, "F30d", growth,
             "a block is allocated in a capture and never freed", any_graph},
    FaultRow{Fault::f30e_old_set_destroyed_late, "F30e", growth,
             "a set of graphs is destroyed only when the next one was captured", any_graph},
    FaultRow{Fault::f30f_private_pool_a_graph, "F30f", growth,
             "every graph has a private pool where one was to be shared", several_graphs},
    FaultRow{Fault::f30g_hidden_reference_a_cycle, "F30g", growth,
             "a hidden reference keeps one graph of every set that is replaced", any_graph},
    FaultRow{Fault::f30h_device_block_a_step, "F30h", growth,
             "a block of device memory is kept for each training step", any_graph},
    FaultRow{Fault::f32a_communicator_destroyed_first, "F32a", teardown_order,
             "a communicator is destroyed before the graphs that use it", scenario_only},
    FaultRow{Fault::f32b_communicator_aborted_first, "F32b", teardown_order,
             "a communicator is aborted before the graphs that use it", scenario_only},
    FaultRow{Fault::f32c_scratch_freed_after_launch, "F32c", teardown_order,
             "the random state is freed right after the last launch", any_dropout},
    FaultRow{Fault::f32d_buffers_freed_before_graphs, "F32d", teardown_order,
             "the buffers that graphs use are freed before the graphs are destroyed", any_graph},
    FaultRow{Fault::f32e_hidden_reference, "F32e", teardown_order,
             "a hidden reference keeps one graph over the teardown", any_graph},
    FaultRow{Fault::f32f_capture_after_cleanup, "F32f", teardown_order,
             "a graph is captured after the cleanup", any_graph},
    FaultRow{Fault::f32g_rank_destroys_early, "F32g", teardown_order,
             "one rank destroys its graphs while another still replays", scenario_only},
    FaultRow{Fault::f32h_communicator_made_anew, "F32h", teardown_order,
             "a graph is replayed after its communicator was ended and made anew", scenario_only},
    FaultRow{Fault::f34a_layer_left_out, "F34a", not_graphed,
             "the last layer is selected, yet runs eagerly", layer_graphs},
    FaultRow{Fault::f34b_micro_batch_left_out, "F34b", not_graphed,
             "the last micro-batch, whose graphs are its own, is not captured and runs eagerly",
             layers_in_flight},
    FaultRow{Fault::f34c_capture_step_skipped, "F34c", not_graphed,
             "the step at which graphs are captured passes without a capture", any_graph},
    FaultRow{Fault::f34e_path_lost_after_first_replay, "F34e", not_graphed,
             "host code takes another, eager path after the first replay", any_graph},
    FaultRow{Fault::f34f_partial_batch_replayed, "F34f", not_graphed,
             "a partial micro-batch that was to run eagerly is padded and replayed",
             eager_partial_batches},
    FaultRow{Fault::f36_written_past_the_end, "F36", out_of_bounds,
             "a kernel of a captured backward writes 64 bytes past the end of its block",
             gathering},
};
static_assert(table.size() == static_cast<std::size_t>(Fault::count));

}  // namespace

std::span<const FaultRow> fault_table() {
  return table;
}

const FaultRow& fault_row(Fault fault) {
  return table.at(static_cast<std::size_t>(fault));
}

}  // namespace cgconform::workloads
