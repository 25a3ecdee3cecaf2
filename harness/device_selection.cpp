#include "harness/device_selection.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "harness/build_info.hpp"
#include "harness/system_error.hpp"

namespace cgconform::harness {
namespace {

const Hello* first_with_device(std::span<const Hello> ranks, bool wanted) {
  const auto found = std::find_if(ranks.begin(), ranks.end(), [&](const Hello& rank) {
    const auto fact = rank.facts.find(nvidia_device_fact);
    return (fact != rank.facts.end() && fact->second == "yes") == wanted;
  });
  return found == ranks.end() ? nullptr : &*found;
}

}  // namespace

std::string select_device(const RunOptions& options, std::span<const Hello> ranks) {
  if (options.device == DeviceChoice::reference || !options.mock_plan.empty())
    return reference_device_name;
  const Hello* without = first_with_device(ranks, false);
  if (options.device == DeviceChoice::cuda && without != nullptr) {
    throw EnvironmentError(
        fmt::format("rank {} on {} sees no NVIDIA device; check the driver there, or run on the "
                    "host with --device reference",
                    without->world_rank, without->host));
  }
  const Hello* with = first_with_device(ranks, true);
  if (options.device == DeviceChoice::cuda || with != nullptr) {
    if (with != nullptr && without != nullptr) {
      throw EnvironmentError(fmt::format(
          "rank {} on {} sees no NVIDIA device, and rank {} on {} does; check the "
          "driver on {}",
          without->world_rank, without->host, with->world_rank, with->host, without->host));
    }
    if (build_info().cuda.empty()) {
      throw EnvironmentError(
          "the device cuda is not built into this program; --device reference runs on the host");
    }
    return cuda_device_name;
  }
  if (options.matrix == "smoke") return reference_device_name;
  throw EnvironmentError(fmt::format(
      "rank {} on {} sees no NVIDIA device, and only the matrix smoke falls back to the "
      "host by itself; check the driver there, or say --device reference",
      without->world_rank, without->host));
}

std::vector<RankGpu> gpus_of(std::span<const Hello> ranks) {
  std::vector<RankGpu> gpus;
  for (const Hello& rank : ranks) {
    const auto uuid = rank.facts.find(gpu_id_fact);
    if (uuid == rank.facts.end()) {
      throw EnvironmentError(
          fmt::format("rank {} on {}: the NVIDIA driver is there and no GPU answers; look at "
                      "nvidia-smi and CUDA_VISIBLE_DEVICES there",
                      rank.world_rank, rank.host));
    }
    gpus.push_back({rank.host, uuid->second});
  }
  return gpus;
}

}  // namespace cgconform::harness
