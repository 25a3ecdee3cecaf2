#include "workloads/capture/capture_agreement.hpp"

#include <cstddef>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace cgconform::workloads {
namespace {

constexpr std::string_view failed_prefix = "failed: ";

}  // namespace

void CaptureAgreement::agree(const std::string& status) const {
  Communicator* gang = context_.environment.gang;
  if (gang == nullptr) return;
  const std::vector<std::string> all = gang->exchange(status);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == status) continue;
    if (!all[rank].starts_with(failed_prefix)) {
      throw DeviceError(
          ErrorCategory::communicator_error, "capture",
          fmt::format("rank {} does not go on with the capture, it says: {}", rank, all[rank]));
    }
    throw DeviceError(ErrorCategory::stream_capture_invalidated, "capture",
                      fmt::format("rank {} did not capture its iteration: {}", rank, all[rank]));
  }
}

void CaptureAgreement::failed(const std::string& reason) const {
  Communicator* gang = context_.environment.gang;
  if (gang == nullptr) return;
  try {
    gang->exchange(std::string(failed_prefix) + reason);
  } catch (const DeviceError&) {
    // The peers cannot be told; they end by the communicator's deadline.
    return;
  }
}

}  // namespace cgconform::workloads
