#include "workloads/capture/static_input.hpp"

#include <string>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {
namespace {

void copy_valid_rows(Stream& stream, const TensorView& slot, const TensorView& given,
                     const LayerCall& call) {
  const std::int64_t length = slot.shape[0] / call.sequences;
  for (std::int64_t sequence = 0; sequence < call.sequences; ++sequence) {
    const std::int64_t first = sequence * length;
    stream.copy(rows_of(slot, first, call.valid_length), rows_of(given, first, call.valid_length),
                call.label() + " input rows");
  }
}

}  // namespace

void refresh_static_input(LegContext& context, const LayerCall& call, const StaticInput& input,
                          const TensorView& given) {
  if (given.shape != input.slot.shape || given.dtype != input.slot.dtype) {
    throw Error(
        fmt::format("{}: {} differs in shape or type from the one captured; replay needs "
                    "the same, capture again",
                    call.label(), input.tensor));
  }
  context.recorder.hash(SlotKind::static_input, SlotMoment::production,
                        call.at(std::string(input.tensor)), given);
  if (given.data == input.slot.data) return;
  const bool borders = input.tensor == "cu_seqlens";
  if (borders && input.replays >= 1 && context.fault(Fault::f01e_sequence_borders_not_refreshed)) {
    return;
  }
  if (input.tensor == "input") {
    if (input.replays >= 1 && context.fault(Fault::f01a_batch_in_new_block)) return;
    if (context.fault(Fault::f01c_stale_padding_rows)) {
      copy_valid_rows(context.stream(), input.slot, given, call);
      return;
    }
  }
  context.stream().copy(input.slot, given, fmt::format("{} {}", call.label(), input.tensor));
}

}  // namespace cgconform::workloads
