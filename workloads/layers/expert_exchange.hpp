#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/layers/moe_shape.hpp"

namespace cgconform::workloads {

/// Rows of one or more neighbouring experts of this rank, `count` of each, from row `first` on.
struct ExpertSegment {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int32_t expert = 0;  ///< of this rank
  std::int32_t experts = 1;
};

/// Neighbouring rows.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Which rows travel between the ranks of an expert-parallel group in one call of a layer.
struct ExchangePlan {
  std::vector<RowRange> sent;  ///< of this rank's rows, by the rank whose experts they go to
  /// Of this rank's block of the rows at its experts, by where they come from.
  std::vector<RowRange> received;
  /// Of the rows at this rank's experts, those that each of the tensor-parallel ranks receives:
  /// one block where all of these receive the same.
  std::vector<RowRange> blocks;
  std::int64_t rows = 0;                ///< at this rank's experts, at least 1
  std::vector<ExpertSegment> segments;  ///< of these rows
  bool covered = true;                  ///< every row belongs to a segment

  /// [rows, columns]; zero where rows are left that belong to no segment.
  Buffer make_buffer(LayerContext& context, DType dtype, std::int64_t columns,
                     std::string_view name) const;
};

/// Brings rows to the ranks of their experts and back. The dispatcher `allgather` gives all rows to
/// all ranks, the others send each rank what its experts need. Where tensor-parallel ranks share
/// the rows of hidden states, each brings its own to the experts, and those of all of them are
/// gathered there, since each has a part of every expert.
class ExpertExchange {
 public:
  /// `shape` is that of the rows that this rank routes; `tensor` joins the parts of experts.
  ExpertExchange(const TransformerShape& shape, const MoeShape& moe, const TensorParallel& tensor)
      : moe_(moe), tensor_(tensor), rows_(expert_rows(shape, moe)) {}

  /// The loads of all ranks that bring rows, [ranks, experts] (int32): what `plan` needs where rows
  /// have no fixed number. Invalid where they have one.
  Buffer gather_loads(LayerContext& context, const TensorView& load) const;
  /// Without a capacity the host waits for the device and reads the loads.
  ExchangePlan plan(LayerContext& context, const TensorView& loads) const;

  /// `rows` at the ranks of their experts; `holder` keeps them where they have travelled.
  TensorView dispatch(LayerContext& context, const ExchangePlan& plan, const TensorView& rows,
                      Buffer& holder, std::string_view name) const;
  /// Where a rank's part of the results for dispatched rows is to be written: `rows` itself where
  /// nothing travels.
  TensorView results(LayerContext& context, const ExchangePlan& plan, const TensorView& rows,
                     Buffer& holder, std::string_view name) const;
  /// Sums up the parts of the results, in place, and brings them back to `rows`.
  void bring_back(LayerContext& context, const ExchangePlan& plan, const TensorView& results,
                  const TensorView& rows, std::string_view name) const;

 private:
  bool travels() const { return moe_.group != nullptr || tensor_.shares_rows(); }
  std::int32_t blocks() const { return tensor_.shares_rows() ? tensor_.size() : 1; }
  std::int32_t own_block() const { return tensor_.shares_rows() ? tensor_.rank() : 0; }
  bool has_equal_blocks() const { return moe_.capacity > 0 || gathers_all(); }
  /// Between the ranks of an expert-parallel group: from this rank's rows to its block and back.
  void exchange(LayerContext& context, const ExchangePlan& plan, const TensorView& rows,
                const TensorView& block, const std::string& label) const;
  void exchange_back(LayerContext& context, const ExchangePlan& plan, const TensorView& block,
                     const TensorView& rows, const std::string& label) const;
  /// This rank's block of the sum of all parts of `results`; `holder` may keep it.
  TensorView summed_block(LayerContext& context, const ExchangePlan& plan,
                          const TensorView& results, Buffer& holder, std::string_view name) const;
  bool gathers_all() const { return moe_.dispatcher == matrix::MoeTokenDispatcherType::allgather; }
  /// Rows of each expert, by rank and expert.
  std::vector<std::int32_t> row_counts(LayerContext& context, const TensorView& loads) const;
  /// Each rank sends `sent` of `from` to its peers and receives `received` of `to` from them.
  void all_to_all(LayerContext& context, const std::vector<RowRange>& sent, const TensorView& from,
                  const std::vector<RowRange>& received, const TensorView& to,
                  const std::string& label) const;
  void all_gather(LayerContext& context, const TensorView& own, const TensorView& all,
                  const std::string& label) const;

  MoeShape moe_;
  TensorParallel tensor_;
  std::int64_t rows_;
};

}  // namespace cgconform::workloads
