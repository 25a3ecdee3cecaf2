#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "workloads/capture/range_set.hpp"
#include "workloads/training/leg_context.hpp"

namespace cgconform::workloads {

/// Knows, for every captured graph of a leg, which memory its nodes touch, and looks each address
/// up in the allocator before every launch. What it finds stands in the leg record.
class GraphLedger {
 public:
  explicit GraphLedger(LegContext& context) : context_(context) {}

  /// Memory that captured bodies take to live as long as the leg: parameters, random state, tables.
  void add_long_lived(const TensorView& tensor);
  void add_long_lived(const TensorView& tensor, std::uint64_t generation);

  /// Enters a graph just captured (`index` into LegRecord::graphs). `inputs` are the slots that
  /// others fill before it is launched. Audits missing edges and reads of pool memory that nothing
  /// writes.
  void enter(std::int32_t index, std::span<const TensorView> inputs);

  /// Around the captures of a group that shares a pool. Inside, blocks that an earlier graph of the
  /// pool no longer needs may pass to a later one, as the pool plans; afterwards every address must
  /// stay as it is.
  void open_captures(PoolId pool);
  void close_captures();

  /// Looks every operand of the graph up; in instrumented legs only.
  void check_before_launch(std::int32_t index, std::int32_t step);

  /// The last graph was launched: what lives from here on has to outlive the graphs.
  void note_end_of_launches();
  /// Looks every operand that lived at the end of the launches up again.
  void check_before_destruction(std::int32_t index);
  void forget_graphs() { entries_.clear(); }

 private:
  struct Expected {
    std::int32_t node = -1;
    std::size_t operand = 0;
    const void* address = nullptr;
    AddressRecord at_capture;
    std::uint64_t generation_at_end = 0;  ///< 0 where nothing lived there
  };
  struct LongLived {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    std::uint64_t generation = 0;
  };
  struct Entry {
    std::int32_t graph = -1;
    std::vector<Expected> expected;
  };

  void audit_edges(std::int32_t index);
  void audit_unwritten_reads(std::int32_t index, std::span<const TensorView> inputs);
  void take_over(Entry& entry);
  const LongLived* long_lived(const void* address) const;
  void report(const Expected& expected, std::int32_t graph, std::int32_t step,
              const AddressRecord& now, std::string reason);

  LegContext& context_;
  std::vector<LongLived> long_lived_;
  RangeSet long_lived_ranges_;
  std::uint64_t first_generation_ = 0;  ///< of the blocks allocated since open_captures
  std::vector<Entry> entries_;
};

}  // namespace cgconform::workloads
