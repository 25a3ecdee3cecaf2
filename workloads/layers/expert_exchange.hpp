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
  std::vector<RowRange> sent;      ///< of this rank's rows, by the rank whose experts they go to
  std::vector<RowRange> received;  ///< of the rows at this rank's experts, by where they come from
  std::int64_t rows = 0;           ///< at this rank's experts, at least 1
  std::vector<ExpertSegment> segments;  ///< of these rows
  bool covered = true;                  ///< every row belongs to a segment

  /// [rows, columns]; zero where rows are left that belong to no segment.
  Buffer make_buffer(LayerContext& context, DType dtype, std::int64_t columns,
                     std::string_view name) const;
};

/// Brings rows to the ranks of their experts and back. The dispatcher `allgather` gives all rows to
/// all ranks, the others send each rank what its experts need.
class ExpertExchange {
 public:
  ExpertExchange(const TransformerShape& shape, const MoeShape& moe)
      : moe_(moe), rows_(expert_rows(shape, moe)) {}

  /// The loads of all ranks, [ranks, experts] (int32): what `plan` needs where rows have no fixed
  /// number. Invalid where they have one.
  Buffer gather_loads(LayerContext& context, const TensorView& load) const;
  /// Without a capacity the host waits for the device and reads the loads.
  ExchangePlan plan(LayerContext& context, const TensorView& loads) const;

  /// `rows` at the ranks of their experts; `holder` keeps them where they have travelled.
  TensorView dispatch(LayerContext& context, const ExchangePlan& plan, const TensorView& rows,
                      Buffer& holder, std::string_view name) const;
  /// Where results for dispatched rows are to be written: `rows` itself where nothing travels.
  TensorView results(LayerContext& context, const ExchangePlan& plan, const TensorView& rows,
                     Buffer& holder, std::string_view name) const;
  /// Brings results back to `rows`.
  void bring_back(LayerContext& context, const ExchangePlan& plan, const TensorView& results,
                  const TensorView& rows, std::string_view name) const;

 private:
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
  std::int64_t rows_;
};

}  // namespace cgconform::workloads
