#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/device/communicator.hpp"

namespace cgconform::workloads::reference {

/// What a message belongs to. `exchange` and `goodbye` are the host's and the transport's own.
enum class MessageKind : std::uint8_t {
  send,
  all_reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  exchange,
  goodbye,
};
std::string_view message_kind_name(MessageKind kind);

/// Sent before every payload. A receiver compares it with what its own call expects, so that ranks
/// which disagree fail at once and by name. Plain bytes on the wire.
struct MessageHeader {
  MessageKind kind = MessageKind::send;
  DType dtype = DType::uint8;
  ReduceOp reduce = ReduceOp::sum;
  std::uint8_t captured = 0;
  std::uint32_t magic = 0x43474631;
  std::uint64_t bytes = 0;
  /// Number of the message between the two ranks in this direction: since the communicator began
  /// where eager, within its capture where captured.
  std::uint64_t sequence = 0;
  std::uint64_t replay = 0;  ///< number of the graph's launch where captured

  friend bool operator==(const MessageHeader&, const MessageHeader&) = default;
};

static_assert(sizeof(MessageHeader) == 32, "the header has no padding on the wire");

/// For messages: "captured all_reduce sum of 64 bytes fp32, message 2, replay 3".
std::string describe(const MessageHeader& header);

struct Message {
  MessageHeader header;
  std::vector<std::byte> payload;
};

/// destination = destination op source, element by element. fp16 and bf16 are computed in fp32 and
/// rounded to nearest even after every step.
void reduce_into(const TensorView& destination, const std::byte* source, ReduceOp op);

}  // namespace cgconform::workloads::reference
