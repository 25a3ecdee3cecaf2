#include "workloads/layers/parameter_store.hpp"

#include <utility>

#include "workloads/ops/fill.hpp"

namespace cgconform::workloads {

namespace {

/// Keeps initial weights apart from dropout masks, which are drawn under the same seed.
constexpr std::uint64_t parameter_seed_salt = 0x9E3779B97F4A7C15ULL;

}  // namespace

Parameter ParameterStore::add(std::string name, const Shape& shape, const ParameterInit& init,
                              std::uint64_t number) {
  Buffer& weight =
      buffers_.emplace_back(allocator_, stream_, default_pool, dtype_, shape, "weight:" + name);
  Buffer& main_grad =
      buffers_.emplace_back(allocator_, stream_, default_pool, dtype_, shape, "main_grad:" + name);
  fill_normal(stream_, weight.view(),
              {seed_ ^ parameter_seed_salt, number, init.deviation, init.mean},
              "initialise " + name);
  stream_.fill(main_grad.view(), 0, "zero main_grad of " + name);
  return {std::move(name), weight.view(), main_grad.view()};
}

}  // namespace cgconform::workloads
