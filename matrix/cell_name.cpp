#include "matrix/cell_name.hpp"

#include <xxhash.h>

namespace cgconform::matrix {

void append_id(std::span<const Axis> axes, std::span<const std::uint32_t> coordinates,
               fmt::memory_buffer& out) {
  const auto append = [&out](std::string_view text) {
    out.append(text.data(), text.data() + text.size());
  };
  bool first = true;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Axis& axis = axes[i];
    if (coordinates[i] == axis.default_index && !axis.always_in_id) continue;
    if (!first) out.push_back('/');
    first = false;
    append(axis.name);
    out.push_back('=');
    append(axis.values[coordinates[i]].token);
  }
}

std::uint64_t hash_id(std::string_view id) {
  return XXH3_64bits(id.data(), id.size());
}

std::string hash_text(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

}  // namespace cgconform::matrix
