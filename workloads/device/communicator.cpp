#include "workloads/device/communicator.hpp"

#include <fmt/format.h>

namespace cgconform::workloads {

CommunicatorOptions split_options(const CommunicatorOptions& whole,
                                  const std::vector<std::string>& colors, const std::string& name,
                                  int number) {
  const std::string& color = colors.at(static_cast<std::size_t>(whole.rank));
  CommunicatorOptions part = whole;
  part.name = fmt::format("{}/{} {} of split {}", whole.name, name, color, number);
  part.size = 0;
  for (int rank = 0; rank < whole.size; ++rank) {
    if (colors.at(static_cast<std::size_t>(rank)) != color) continue;
    if (rank == whole.rank) part.rank = part.size;
    ++part.size;
  }
  return part;
}

}  // namespace cgconform::workloads
