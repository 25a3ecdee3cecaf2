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
  Buffer loads =
      make_buffer(context, load.dtype, {moe_.group_size(), moe_.experts}, "expert loads");
  all_gather(context, load, loads.view(), op_label(context, "expert loads"));
  return loads;
}

std::vector<std::int32_t> ExpertExchange::row_counts(LayerContext& context,
                                                     const TensorView& loads) const {
  std::vector<std::int32_t> counts(at(moe_.group_size() * moe_.experts), moe_.capacity);
  if (moe_.capacity == 0) context.stream.download(counts.data(), loads);
  return counts;
}

ExchangePlan ExpertExchange::plan(LayerContext& context, const TensorView& loads) const {
  const std::vector<std::int32_t> counts = row_counts(context, loads);
  const std::int32_t ranks = moe_.group_size();
  const std::int32_t own = moe_.own_experts();
  const auto rows_between = [&](std::int32_t source, std::int32_t first, std::int32_t end) {
    const auto row = counts.begin() + std::ptrdiff_t{source} * moe_.experts;
    return std::accumulate(row + first, row + end, std::int64_t{0});
  };
  ExchangePlan plan;
  std::int64_t next = 0;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    const std::int32_t first_own = moe_.group_rank() * own;
    plan.sent.push_back({rows_between(moe_.group_rank(), 0, rank * own),
                         rows_between(moe_.group_rank(), rank * own, (rank + 1) * own)});
    const std::int64_t count = rows_between(rank, first_own, first_own + own);
    const std::int64_t first =
        gathers_all() ? rank * rows_ + rows_between(rank, 0, first_own) : next;
    plan.received.push_back({first, count});
    next += count;
    if (moe_.capacity > 0) {
      plan.segments.push_back({first, moe_.capacity, 0, own});
      continue;
    }
    std::int64_t row = first;
    for (std::int32_t expert = 0; expert < own; ++expert) {
      const std::int64_t of_expert = rows_between(rank, first_own + expert, first_own + expert + 1);
      if (of_expert > 0) plan.segments.push_back({row, of_expert, expert});
      row += of_expert;
    }
  }
  plan.rows = gathers_all() ? ranks * rows_ : std::max<std::int64_t>(next, 1);
  plan.covered = plan.rows == next;
  return plan;
}

TensorView ExpertExchange::dispatch(LayerContext& context, const ExchangePlan& plan,
                                    const TensorView& rows, Buffer& holder,
                                    std::string_view name) const {
  if (moe_.group == nullptr) return rows;
  holder = make_buffer(context, rows.dtype, {plan.rows, rows.shape[1]}, name);
  const std::string label = op_label(context, name);
  if (gathers_all()) {
    all_gather(context, rows, holder.view(), label);
  } else {
    all_to_all(context, plan.sent, rows, plan.received, holder.view(), label);
  }
  return holder.view();
}

TensorView ExpertExchange::results(LayerContext& context, const ExchangePlan& plan,
                                   const TensorView& rows, Buffer& holder,
                                   std::string_view name) const {
  if (moe_.group == nullptr) return rows;
  // Rows that other ranks work on count as zero in the sum over the ranks.
  holder = plan.make_buffer(context, rows.dtype, rows.shape[1], name);
  return holder.view();
}

void ExpertExchange::bring_back(LayerContext& context, const ExchangePlan& plan,
                                const TensorView& results, const TensorView& rows,
                                std::string_view name) const {
  if (moe_.group == nullptr) return;
  const std::string label = op_label(context, name);
  if (!gathers_all()) {
    all_to_all(context, plan.received, results, plan.sent, rows, label);
    return;
  }
  moe_.group->all_reduce(results, results, ReduceOp::sum, context.stream, label);
  context.stream.copy(rows, rows_of(results, moe_.group_rank() * rows_, rows_), label);
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
