#include "harness/gpu_sharing.hpp"

#include <cstddef>
#include <cstdlib>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cgconform::harness {
namespace {

matrix::ProcessEnvironment variables_of(std::size_t rank, bool one_host) {
  matrix::ProcessEnvironment variables{
      {"NCCL_HOSTID", fmt::format("cgconform-rank-{}", rank)},
      {"NCCL_NET", "Socket"},
      {"NCCL_IB_DISABLE", "1"},
  };
  if (one_host) variables["NCCL_SOCKET_IFNAME"] = "lo";
  return variables;
}

}  // namespace

GpuSharing decide_gpu_sharing(std::span<const RankGpu> ranks) {
  std::map<std::string, std::vector<std::size_t>> ranks_of_gpu;
  std::set<std::string> hosts;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    hosts.insert(ranks[rank].host);
    if (!ranks[rank].uuid.empty()) ranks_of_gpu[ranks[rank].uuid].push_back(rank);
  }
  GpuSharing sharing;
  std::string together;
  for (const auto& [uuid, users] : ranks_of_gpu) {
    if (users.size() < 2) continue;
    sharing.shared = true;
    together += fmt::format("{}ranks {} share {}", together.empty() ? "" : ", ",
                            fmt::join(users, " "), uuid);
  }
  if (!sharing.shared) return sharing;
  sharing.notice = fmt::format(
      "{}: NCCL talks over sockets, no verdict rests on time, growth of device memory is judged by "
      "what each rank's own process holds, and cells that need a GPU for each rank are skipped",
      together);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    sharing.environments.push_back(variables_of(rank, hosts.size() == 1));
  }
  return sharing;
}

void apply_gpu_sharing(const GpuSharing& sharing, int rank) {
  if (!sharing.shared) return;
  for (const auto& [name, value] : sharing.environments.at(static_cast<std::size_t>(rank))) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
}

}  // namespace cgconform::harness
