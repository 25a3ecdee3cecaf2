#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include "matrix/constraint_engine.hpp"
#include "matrix/error.hpp"
#include "matrix/input.hpp"

/// Any bytes give configurations or one InputError.
// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's own name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cgconform;
  std::istringstream stream(std::string(reinterpret_cast<const char*>(data), size));
  matrix::Evaluation evaluation;
  try {
    matrix::read_yaml_inputs(stream, "fuzz", {}, [&](const matrix::CheckInput& input) {
      matrix::evaluate(matrix::Ruleset::bridge_0_6, input.config, input.platform, evaluation);
    });
  } catch (const InputError&) {
    return 0;
  }
  return 0;
}
