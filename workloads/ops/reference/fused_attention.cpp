#include "workloads/ops/fused_attention.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads::reference {

namespace {

/// Rows by columns in the type that is computed in.
template <typename A>
struct Matrix {
  Matrix(std::int64_t row_count, std::int64_t column_count)
      : columns(column_count), values(static_cast<std::size_t>(row_count * column_count)) {}

  A* row(std::int64_t index) { return values.data() + index * columns; }

  std::int64_t columns;
  std::vector<A> values;
};

/// Rows of one head among those of all heads: `stride` elements from one to the next.
template <typename T>
struct HeadRows {
  T* first;
  std::int64_t stride;
};

/// One head and its extents.
struct Head {
  std::int64_t index;
  std::int64_t heads;  ///< of each sequence
  std::int64_t length;
  std::int64_t size;

  /// Its queries (part 0) of operand `first`, or its keys or values of those from `others` on; side
  /// by side they are all in the first.
  template <typename T>
  HeadRows<T> of_part(const OpCall& call, std::size_t part, std::size_t first,
                      std::size_t others) const {
    if (!call.operand(others).valid()) return of_rows<T>(call, first, part, 3);
    const std::size_t operand = part == 0 ? first : others + part - 1;
    return {elements<T>(call, operand) + index * length * size, size};
  }
  /// Its columns of part `part` of an operand [sequences * length, parts * heads * size].
  template <typename T>
  HeadRows<T> of_rows(const OpCall& call, std::size_t operand, std::size_t part = 0,
                      std::int64_t parts = 1) const {
    const std::int64_t stride = parts * heads * size;
    const std::int64_t column = static_cast<std::int64_t>(part) * heads + index % heads;
    return {elements<T>(call, operand) + index / heads * length * stride + column * size, stride};
  }
  template <typename T>
  HeadRows<T> of_probabilities(const OpCall& call, std::size_t operand) const {
    return {elements<T>(call, operand) + index * length * length, length};
  }

  template <typename T>
  Matrix<Arithmetic<T>> load(const HeadRows<T>& rows) const {
    Matrix<Arithmetic<T>> result(length, size);
    for (std::int64_t row = 0; row < length; ++row) {
      std::copy_n(rows.first + row * rows.stride, size, result.row(row));
    }
    return result;
  }
  template <typename T>
  Matrix<Arithmetic<T>> load_transposed(const HeadRows<T>& rows) const {
    Matrix<Arithmetic<T>> result(size, length);
    for (std::int64_t row = 0; row < length; ++row) {
      for (std::int64_t i = 0; i < size; ++i)
        result.row(i)[row] = rows.first[row * rows.stride + i];
    }
    return result;
  }
  template <typename T>
  void store(const HeadRows<T>& rows, Matrix<Arithmetic<T>>& matrix) const {
    for (std::int64_t row = 0; row < length; ++row) {
      for (std::int64_t i = 0; i < size; ++i) {
        rows.first[row * rows.stride + i] = static_cast<T>(matrix.row(row)[i]);
      }
    }
  }
};

/// sums += factor * row
template <typename A>
void add_multiple(A* sums, A factor, const A* row, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] += factor * row[i];
}

/// Calls visit(head) for each head, given which operands are the probabilities and merged.
template <typename Visit>
void for_each_head(const OpCall& call, std::size_t probabilities, std::size_t merged,
                   Visit&& visit) {
  const std::int64_t heads = call.params.as<FusedAttentionParams>().heads;
  Head head{0, heads, extent(call, probabilities, 1), extent(call, merged, 1) / heads};
  for (; head.index < extent(call, probabilities, 0); ++head.index) visit(head);
}

/// Scores become exponentials relative to the largest; returns their sum.
template <typename A>
A exponentials(A* scores, std::int64_t count, A scale) {
  A largest = scores[0] * scale;
  for (std::int64_t i = 1; i < count; ++i) largest = std::max(largest, scores[i] * scale);
  A sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    scores[i] = std::exp(scores[i] * scale - largest);
    sum += scores[i];
  }
  return sum;
}

}  // namespace

void fused_attention_forward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const auto scale = static_cast<A>(call.params.as<FusedAttentionParams>().scale);
    for_each_head(call, 0, 1, [&](const Head& head) {
      Matrix<A> query = head.load(head.of_part<T>(call, 0, 2, 3));
      Matrix<A> keys = head.load_transposed(head.of_part<T>(call, 1, 2, 3));
      Matrix<A> value = head.load(head.of_part<T>(call, 2, 2, 3));
      Matrix<A> merged(head.length, head.size);
      const HeadRows<T> probabilities = head.of_probabilities<T>(call, 0);
      std::vector<A> row(static_cast<std::size_t>(head.length));
      for (std::int64_t i = 0; i < head.length; ++i) {
        const std::int64_t visible = i + 1;
        std::fill(row.begin(), row.end(), A{0});
        for (std::int64_t k = 0; k < head.size; ++k) {
          add_multiple(row.data(), query.row(i)[k], keys.row(k), visible);
        }
        const A sum = exponentials(row.data(), visible, scale);
        T* kept = probabilities.first + i * probabilities.stride;
        std::fill(kept + visible, kept + head.length, T{});
        for (std::int64_t j = 0; j < visible; ++j) {
          const A probability = row[static_cast<std::size_t>(j)] / sum;
          kept[j] = static_cast<T>(probability);
          add_multiple(merged.row(i), probability, value.row(j), head.size);
        }
      }
      head.store(head.of_rows<T>(call, 1), merged);
    });
  });
}

void fused_attention_backward(const OpCall& call) {
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    const auto scale = static_cast<A>(call.params.as<FusedAttentionParams>().scale);
    for_each_head(call, 3, 2, [&](const Head& head) {
      Matrix<A> grad_merged = head.load(head.of_rows<T>(call, 1));
      Matrix<A> merged = head.load(head.of_rows<T>(call, 2));
      Matrix<A> query = head.load(head.of_part<T>(call, 0, 4, 5));
      Matrix<A> key = head.load(head.of_part<T>(call, 1, 4, 5));
      Matrix<A> values = head.load_transposed(head.of_part<T>(call, 2, 4, 5));
      const HeadRows<T> probabilities = head.of_probabilities<T>(call, 3);
      Matrix<A> grad_query(head.length, head.size);
      Matrix<A> grad_key(head.length, head.size);
      Matrix<A> grad_value(head.length, head.size);
      std::vector<A> row(static_cast<std::size_t>(head.length));
      for (std::int64_t i = 0; i < head.length; ++i) {
        const std::int64_t visible = i + 1;
        const A* grad = grad_merged.row(i);
        // The sum of probability * its gradient over the keys.
        A dot = 0;
        for (std::int64_t k = 0; k < head.size; ++k) dot += grad[k] * merged.row(i)[k];
        std::fill(row.begin(), row.end(), A{0});
        for (std::int64_t k = 0; k < head.size; ++k) {
          add_multiple(row.data(), grad[k], values.row(k), visible);
        }
        for (std::int64_t j = 0; j < visible; ++j) {
          const A probability = probabilities.first[i * probabilities.stride + j];
          const A slope = scale * probability * (row[static_cast<std::size_t>(j)] - dot);
          add_multiple(grad_value.row(j), probability, grad, head.size);
          add_multiple(grad_query.row(i), slope, key.row(j), head.size);
          add_multiple(grad_key.row(j), slope, query.row(i), head.size);
        }
      }
      head.store(head.of_part<T>(call, 0, 0, 7), grad_query);
      head.store(head.of_part<T>(call, 1, 0, 7), grad_key);
      head.store(head.of_part<T>(call, 2, 0, 7), grad_value);
    });
  });
}

}  // namespace cgconform::workloads::reference
