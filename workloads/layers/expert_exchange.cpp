#include "workloads/layers/expert_exchange.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "workloads/layers/layer_ops.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {
namespace {

TensorView part_of(const TensorView& rows, const RowRange& range) {
  return rows_of(rows, range.first, range.count);
}

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

Buffer ExchangePlan::make_buffer(LayerContext& context, DType dtype, std::int64_t columns,
                                 std::string_view name) const {
  Buffer buffer = workloads::make_buffer(context, dtype, {rows, columns}, name);
  if (!covered) context.stream.fill(buffer.view(), 0, op_label(context, name));
  return buffer;
}

Buffer ExpertExchange::gather_loads(LayerContext& context, const TensorView& load) const {
  if (moe_.capacity > 0) return {};
  const std::int64_t ranks = moe_.group_size();
  Buffer loads = make_buffer(context, load.dtype, {blocks() * ranks, moe_.experts}, "expert loads");
  const std::string label = op_label(context, "expert loads");
  all_gather(context, load, rows_of(loads.view(), own_block() * ranks, ranks), label);
  for (std::int32_t block = 0; tensor_.shares_rows() && block < blocks(); ++block) {
    tensor_.broadcast(rows_of(loads.view(), block * ranks, ranks), block, context.stream, label);
  }
  return loads;
}

std::vector<std::int32_t> ExpertExchange::row_counts(LayerContext& context,
                                                     const TensorView& loads) const {
  std::vector<std::int32_t> counts(at(blocks() * moe_.group_size() * moe_.experts), moe_.capacity);
  if (moe_.capacity == 0) context.stream.download(counts.data(), loads);
  return counts;
}

ExchangePlan ExpertExchange::plan(LayerContext& context, const TensorView& loads) const {
  const std::vector<std::int32_t> counts = row_counts(context, loads);
  const std::int32_t ranks = moe_.group_size();
  const std::int32_t own = moe_.own_experts();
  const std::int32_t first_own = moe_.group_rank() * own;
  const auto rows_between = [&](std::int32_t source, std::int32_t first, std::int32_t end) {
    const auto row = counts.begin() + std::ptrdiff_t{source} * moe_.experts;
    return std::accumulate(row + first, row + end, std::int64_t{0});
  };
  ExchangePlan plan;
  const std::int32_t own_source = own_block() * ranks + moe_.group_rank();
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    plan.sent.push_back({rows_between(own_source, 0, rank * own),
                         rows_between(own_source, rank * own, (rank + 1) * own)});
  }
  std::int64_t received = 0;
  for (std::int32_t block = 0; block < blocks(); ++block) {
    RowRange range{.first = plan.rows};
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      const std::int32_t source = block * ranks + rank;
      const std::int64_t count = rows_between(source, first_own, first_own + own);
      const std::int64_t first =
          gathers_all() ? rank * rows_ + rows_between(source, 0, first_own) : range.count;
      range.count += gathers_all() ? rows_ : count;
      received += count;
      if (block == own_block()) plan.received.push_back({first, count});
      if (moe_.capacity > 0) {
        plan.segments.push_back({range.first + first, moe_.capacity, 0, own});
        continue;
      }
      std::int64_t row = range.first + first;
      for (std::int32_t expert = 0; expert < own; ++expert) {
        const std::int64_t of_expert =
            rows_between(source, first_own + expert, first_own + expert + 1);
        if (of_expert > 0) plan.segments.push_back({row, of_expert, expert});
        row += of_expert;
      }
    }
    plan.rows += range.count;
    plan.blocks.push_back(range);
  }
  plan.rows = std::max<std::int64_t>(plan.rows, 1);
  plan.covered = plan.rows == received;
  return plan;
}

TensorView ExpertExchange::dispatch(LayerContext& context, const ExchangePlan& plan,
                                    const TensorView& rows, Buffer& holder,
                                    std::string_view name) const {
  if (!travels()) return rows;
  const std::string label = op_label(context, name);
  holder = make_buffer(context, rows.dtype, {plan.rows, rows.shape[1]}, name);
  const TensorView own = part_of(holder.view(), plan.blocks[at(own_block())]);
  if (!tensor_.shares_rows()) {
    exchange(context, plan, rows, own, label);
    return holder.view();
  }
  const std::string gather_label = label + " all-gather";
  if (has_equal_blocks()) {
    Buffer block;
    if (moe_.group != nullptr) {
      block = make_buffer(context, rows.dtype, own.shape, name);
      exchange(context, plan, rows, block.view(), label);
    }
    tensor_.all_gather(holder.view(), block.valid() ? block.view() : rows, context.stream,
                       gather_label);
    return holder.view();
  }
  exchange(context, plan, rows, own, label);
  for (std::int32_t rank = 0; rank < blocks(); ++rank) {
    const RowRange& range = plan.blocks[at(rank)];
    if (range.count == 0) continue;
    tensor_.broadcast(part_of(holder.view(), range), rank, context.stream, gather_label);
  }
  return holder.view();
}

void ExpertExchange::exchange(LayerContext& context, const ExchangePlan& plan,
                              const TensorView& rows, const TensorView& block,
                              const std::string& label) const {
  if (gathers_all() && moe_.group != nullptr) {
    all_gather(context, rows, block, label);
  } else {
    all_to_all(context, plan.sent, rows, plan.received, block, label);
  }
}

TensorView ExpertExchange::results(LayerContext& context, const ExchangePlan& plan,
                                   const TensorView& rows, Buffer& holder,
                                   std::string_view name) const {
  if (!travels()) return rows;
  // Rows that other ranks work on count as zero in the sum over the ranks.
  holder = plan.make_buffer(context, rows.dtype, rows.shape[1], name);
  return holder.view();
}

TensorView ExpertExchange::summed_block(LayerContext& context, const ExchangePlan& plan,
                                        const TensorView& results, Buffer& holder,
                                        std::string_view name) const {
  const std::string label = op_label(context, name);
  if (!tensor_.shares_rows() || !has_equal_blocks()) {
    tensor_.all_reduce(results, context.stream, label + " all-reduce");
    return tensor_.shares_rows() ? part_of(results, plan.blocks[at(own_block())]) : results;
  }
  holder = make_buffer(context, results.dtype,
                       {plan.blocks[at(own_block())].count, results.shape[1]}, name);
  tensor_.reduce_scatter(holder.view(), results, context.stream, label + " reduce-scatter");
  return holder.view();
}

void ExpertExchange::bring_back(LayerContext& context, const ExchangePlan& plan,
                                const TensorView& results, const TensorView& rows,
                                std::string_view name) const {
  Buffer holder;
  const TensorView block = summed_block(context, plan, results, holder, name);
  if (travels()) exchange_back(context, plan, block, rows, op_label(context, name));
}

void ExpertExchange::exchange_back(LayerContext& context, const ExchangePlan& plan,
                                   const TensorView& block, const TensorView& rows,
                                   const std::string& label) const {
  if (!gathers_all() || moe_.group == nullptr) {
    all_to_all(context, plan.received, block, plan.sent, rows, label);
    return;
  }
  moe_.group->all_reduce(block, block, ReduceOp::sum, context.stream, label);
  context.stream.copy(rows, rows_of(block, moe_.group_rank() * rows_, rows_), label);
}

void ExpertExchange::all_to_all(LayerContext& context, const std::vector<RowRange>& sent,
                                const TensorView& from, const std::vector<RowRange>& received,
                                const TensorView& to, const std::string& label) const {
  const std::int32_t own = moe_.group_rank();
  if (sent[at(own)].count > 0) {
    context.stream.copy(part_of(to, received[at(own)]), part_of(from, sent[at(own)]), label);
  }
  // Pairs of ranks take their turns in one order everywhere, so that none waits in a circle.
  for (std::int32_t peer = 0; peer < moe_.group_size(); ++peer) {
    if (peer == own) continue;
    const auto send = [&] {
      if (sent[at(peer)].count == 0) return;
      moe_.group->send(part_of(from, sent[at(peer)]), peer, context.stream, label);
    };
    const auto receive = [&] {
      if (received[at(peer)].count == 0) return;
      moe_.group->receive(part_of(to, received[at(peer)]), peer, context.stream, label);
    };
    if (own < peer) {
      send();
      receive();
    } else {
      receive();
      send();
    }
  }
}

void ExpertExchange::all_gather(LayerContext& context, const TensorView& own, const TensorView& all,
                                const std::string& label) const {
  const std::int64_t elements = own.elements();
  for (std::int32_t rank = 0; rank < moe_.group_size(); ++rank) {
    TensorView part = elements_of(all, rank * elements, Shape{elements});
    if (rank == moe_.group_rank()) {
      TensorView flat = own;
      flat.shape = part.shape;
      context.stream.copy(part, flat, label);
    }
    if (moe_.group != nullptr) moe_.group->broadcast(part, rank, context.stream, label);
  }
}

}  // namespace cgconform::workloads
