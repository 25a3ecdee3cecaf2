#include "suites/checks/scenario_numbers.hpp"

#include <numeric>

namespace cgconform::suites::checks {

using workloads::Buffer;
using workloads::Stream;
using workloads::TensorView;

Numbers numbers_from(std::int32_t first) {
  Numbers numbers(static_cast<std::size_t>(scenario_elements));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

Numbers summed_over_ranks(std::int32_t first, int ranks) {
  constexpr std::int32_t step_of_rank = 100;
  Numbers sum(static_cast<std::size_t>(scenario_elements), 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const Numbers part = numbers_from(first + step_of_rank * rank);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  return sum;
}

NumberScene::NumberScene(workloads::Device& device)
    : device_(device),
      stream_(device.create_stream("scenario")),
      allocator_(device.segment_source()) {}

Buffer NumberScene::tensor(const char* label) {
  return Buffer(allocator_, *stream_, workloads::default_pool, workloads::DType::int32,
                workloads::Shape{scenario_elements}, label);
}

void NumberScene::put(const TensorView& tensor, const Numbers& numbers) {
  put(*stream_, tensor, numbers);
}

void NumberScene::put(Stream& stream, const TensorView& tensor, const Numbers& numbers) {
  stream.upload(tensor, numbers.data(), false, "scenario numbers");
}

Numbers NumberScene::get(const TensorView& tensor) {
  return get(*stream_, tensor);
}

Numbers NumberScene::get(Stream& stream, const TensorView& tensor) {
  Numbers numbers(static_cast<std::size_t>(scenario_elements));
  stream.download(numbers.data(), tensor);
  return numbers;
}

}  // namespace cgconform::suites::checks
