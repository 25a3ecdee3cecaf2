#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/finite_difference.hpp"
#include "tests/workloads/host_stream.hpp"
#include "tests/workloads/host_tensor.hpp"
#include "workloads/ops/mamba.hpp"

namespace cgconform::workloads::test {
namespace {

using Tensor = HostTensor<double>;

/// Where sequences begin that are packed in rows of a batch, up to two borders inside of each row.
HostTensor<std::int32_t> random_borders(Random& random, std::int64_t rows, std::int64_t length) {
  HostTensor<std::int32_t> borders(Shape{rows, 4});
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int32_t* own = borders.values.data() + row * 4;
    own[1] = static_cast<std::int32_t>(random_extent(random, 1, length));
    own[2] = static_cast<std::int32_t>(random_extent(random, own[1], length));
    own[3] = static_cast<std::int32_t>(length);
  }
  return borders;
}

/// Each test runs over random small shapes; the seed is the shape's reproducer. Odd seeds pack
/// sequences.
class MambaOpGradient : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  std::int64_t extent(std::int64_t smallest, std::int64_t largest) {
    return random_extent(random_, smallest, largest);
  }
  Tensor tensor(const Shape& shape) { return random_tensor<double>(random_, shape); }
  bool packs() const { return GetParam() % 2 == 1; }

  Random random_{GetParam()};
  HostStream stream_;
};
INSTANTIATE_TEST_SUITE_P(RandomShapes, MambaOpGradient, ::testing::Range<std::uint64_t>(0, 6));

TEST_P(MambaOpGradient, OfTheCausalConvolution) {
  const auto length = static_cast<std::int32_t>(extent(1, 5));
  const Shape rows{extent(1, 2) * length, extent(1, 4)};
  Tensor x = tensor(rows);
  Tensor weight = tensor(Shape{extent(1, 4), rows[1]});
  Tensor bias = tensor(Shape{rows[1]});
  Tensor y(rows);
  Tensor weights = tensor(rows);
  HostTensor<std::int32_t> borders = random_borders(random_, rows[0] / length, length);
  const TensorView cu_seqlens = packs() ? borders.view() : TensorView{};
  const auto loss = [&] {
    causal_convolution_forward(stream_, y.view(), x.view(), weight.view(), bias.view(), length,
                               cu_seqlens, "y");
    return dot(y, weights);
  };
  Tensor grad_x(rows);
  Tensor grad_weight(weight.shape);
  Tensor grad_bias(bias.shape);
  Tensor sums(rows);
  causal_convolution_backward(
      stream_, {grad_x.view(), grad_weight.view(), grad_bias.view(), sums.view()}, weights.view(),
      x.view(), weight.view(), bias.view(), length, cu_seqlens, "grads");
  expect_gradient(loss, x, grad_x, "x");
  expect_gradient(loss, weight, grad_weight, "weight");
  expect_gradient(loss, bias, grad_bias, "bias");
}

TEST_P(MambaOpGradient, OfTheGate) {
  const Shape shape{extent(1, 4), extent(1, 4)};
  Tensor x = tensor(shape);
  Tensor gate = tensor(shape);
  Tensor y(shape);
  Tensor weights = tensor(shape);
  const auto loss = [&] {
    gate_forward(stream_, y.view(), x.view(), gate.view(), "y");
    return dot(y, weights);
  };
  Tensor grad_x(shape);
  Tensor grad_gate(shape);
  gate_backward(stream_, grad_x.view(), grad_gate.view(), weights.view(), x.view(), gate.view(),
                "grads");
  expect_gradient(loss, x, grad_x, "x");
  expect_gradient(loss, gate, grad_gate, "gate");
}

/// A scan of random extents, run in chunks of any length.
struct Scan {
  Scan(Random& random, HostStream& used, bool packs) : stream(used), packed(packs) {
    whole.sequences = static_cast<std::int32_t>(random_extent(random, 1, 2));
    whole.length = static_cast<std::int32_t>(random_extent(random, 1, 5));
    whole.heads = static_cast<std::int32_t>(random_extent(random, 1, 2));
    whole.head_size = static_cast<std::int32_t>(random_extent(random, 1, 3));
    whole.states = static_cast<std::int32_t>(random_extent(random, 1, 3));
    whole.count = whole.length;
    const std::int64_t rows = std::int64_t{whole.sequences} * whole.length;
    values = random_tensor<double>(random, Shape{rows, whole.inner()});
    state_weights = random_tensor<double>(random, Shape{rows, 2 * std::int64_t{whole.states}});
    step = random_tensor<double>(random, Shape{rows, whole.heads});
    step_bias = random_tensor<double>(random, Shape{whole.heads});
    decay_log = random_tensor<double>(random, Shape{whole.heads});
    skip = random_tensor<double>(random, Shape{whole.heads});
    weights = random_tensor<double>(random, Shape{rows, whole.inner()});
    initial = random_tensor<double>(random, state_shape());
    borders = random_borders(random, whole.sequences, whole.length);
  }

  Shape state_shape() const {
    return {whole.sequences, whole.heads, whole.head_size, whole.states};
  }
  ScanInputs inputs() {
    return {values.view(),
            state_weights.view(),
            step.view(),
            step_bias.view(),
            decay_log.view(),
            skip.view(),
            packed ? borders.view() : TensorView{}};
  }
  std::vector<ScanParams> chunks(std::int32_t length) const {
    std::vector<ScanParams> all;
    for (std::int32_t first = 0; first < whole.length; first += length) {
      ScanParams params = whole;
      params.first = first;
      params.count = std::min(length, whole.length - first);
      all.push_back(params);
    }
    return all;
  }
  Tensor forward(std::int32_t chunk) {
    Tensor output(weights.shape);
    starts.clear();
    starts.push_back(initial);
    for (const ScanParams& params : chunks(chunk)) {
      starts.emplace_back(state_shape());
      selective_scan_forward(stream, output.view(), starts.back().view(),
                             starts[starts.size() - 2].view(), inputs(), params, "scan");
    }
    return output;
  }
  /// Gradients of values, their weights, step, step_bias, decay_log, skip and of the initial state.
  std::vector<Tensor> backward(std::int32_t chunk) {
    forward(chunk);
    std::vector<Tensor> grads;
    for (const Tensor* input :
         {&values, &state_weights, &step, &step_bias, &decay_log, &skip, &initial}) {
      grads.emplace_back(input->shape);
    }
    const std::vector<ScanParams> all = chunks(chunk);
    for (std::size_t i = all.size(); i-- > 0;) {
      const Shape inside{all[i].rows(), whole.heads, whole.head_size, whole.states};
      Tensor states(inside);
      Tensor grad_states(inside);
      Tensor sums(Shape{3, all[i].rows(), whole.heads});
      selective_scan_backward(stream,
                              {grads[0].view(), grads[1].view(), grads[2].view(), grads[3].view(),
                               grads[4].view(), grads[5].view(), grads[6].view()},
                              {states.view(), grad_states.view(), sums.view()}, weights.view(),
                              starts[i].view(), inputs(), all[i], "scan backward");
    }
    return grads;
  }

  HostStream& stream;
  bool packed;
  ScanParams whole;
  HostTensor<std::int32_t> borders{Shape{1}};
  Tensor values{Shape{1}};
  Tensor state_weights{Shape{1}};
  Tensor step{Shape{1}};
  Tensor step_bias{Shape{1}};
  Tensor decay_log{Shape{1}};
  Tensor skip{Shape{1}};
  Tensor weights{Shape{1}};
  Tensor initial{Shape{1}};
  std::vector<Tensor> starts;
};

TEST_P(MambaOpGradient, OfTheSelectiveScanByChunks) {
  Scan scan(random_, stream_, packs());
  const auto chunk = static_cast<std::int32_t>(extent(1, scan.whole.length));
  const std::vector<Tensor> grads = scan.backward(chunk);
  const auto loss = [&] { return dot(scan.forward(chunk), scan.weights); };
  expect_gradient(loss, scan.values, grads[0], "values");
  expect_gradient(loss, scan.state_weights, grads[1], "state_weights");
  expect_gradient(loss, scan.step, grads[2], "step");
  expect_gradient(loss, scan.step_bias, grads[3], "step_bias");
  expect_gradient(loss, scan.decay_log, grads[4], "decay_log");
  expect_gradient(loss, scan.skip, grads[5], "skip");
  expect_gradient(loss, scan.initial, grads[6], "initial state");
}

TEST_P(MambaOpGradient, ChunksOfAScanGiveWhatOneChunkGives) {
  Scan scan(random_, stream_, packs());
  const Tensor whole = scan.forward(scan.whole.length);
  const Tensor last = scan.starts.back();
  for (std::int32_t chunk = 1; chunk < scan.whole.length; ++chunk) {
    EXPECT_EQ(scan.forward(chunk).values, whole.values) << "chunks of " << chunk;
    EXPECT_EQ(scan.starts.back().values, last.values) << "chunks of " << chunk;
  }
}

TEST(SelectiveScan, StartsASequenceInsideOfARowFromZero) {
  Random random(8);
  HostStream stream;
  Scan scan(random, stream, true);
  scan.whole.sequences = 1;
  scan.whole.length = scan.whole.count = 4;
  const Shape rows{4, scan.whole.inner()};
  scan.values = random_tensor<double>(random, rows);
  scan.weights = random_tensor<double>(random, rows);
  scan.state_weights = random_tensor<double>(random, Shape{4, 2 * std::int64_t{scan.whole.states}});
  scan.step = random_tensor<double>(random, Shape{4, scan.whole.heads});
  scan.initial = random_tensor<double>(random, scan.state_shape());
  scan.borders = HostTensor<std::int32_t>(Shape{1, 3}, {0, 2, 4});
  const Tensor before = scan.forward(3);
  scan.values.values[0] += 1.0;
  const Tensor after = scan.forward(3);
  const auto second = static_cast<std::size_t>(2 * scan.whole.inner());
  EXPECT_NE(before.values[second / 2], after.values[second / 2]) << "the same channel, a row later";
  for (std::size_t i = second; i < before.values.size(); ++i) {
    EXPECT_EQ(before.values[i], after.values[i]);
  }
}

}  // namespace
}  // namespace cgconform::workloads::test
