#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "matrix/constraint_engine.hpp"
#include "matrix/error.hpp"
#include "matrix/input.hpp"

/// The bytes are arguments, one a line; they give a configuration or one InputError.
// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's own name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cgconform;
  std::vector<std::string> arguments(1);
  for (std::size_t i = 0; i < size; ++i) {
    if (data[i] == '\n') {
      arguments.emplace_back();
    } else {
      arguments.back() += static_cast<char>(data[i]);
    }
  }
  matrix::Evaluation evaluation;
  try {
    const matrix::CheckInput input = matrix::read_argument_input(arguments, {});
    matrix::evaluate(matrix::Ruleset::megatron_lm_0_20, input.config, input.platform, evaluation);
  } catch (const InputError&) {
    return 0;
  }
  return 0;
}
