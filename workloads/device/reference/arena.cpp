#include "workloads/device/reference/arena.hpp"

#include <cerrno>
#include <cstring>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "workloads/device/reference/core.hpp"
#include "workloads/device/reference/reference_stream.hpp"

namespace cgconform::workloads::reference {
namespace {

using Lock = std::lock_guard<std::mutex>;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// A place in a stream's queue, asked of the executor.
class ReferencePoint : public StreamPoint {
 public:
  ReferencePoint(Core& core, QueuePoint point) : core_(core), point_(std::move(point)) {}
  bool passed() const override {
    return core_.executor().completed(*point_.stream, point_.sequence);
  }

 private:
  Core& core_;
  QueuePoint point_;
};

std::string system_message(int error) {
  return std::generic_category().message(error);
}

}  // namespace

ReferenceArena::ReferenceArena(Core& core, std::int64_t bytes)
    : core_(core), page_(::sysconf(_SC_PAGESIZE)), capacity_(round_up(bytes, page_)) {
  void* base = ::mmap(nullptr, static_cast<std::size_t>(capacity_), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    throw DeviceError(ErrorCategory::memory_allocation, "create device",
                      fmt::format("cannot reserve {} bytes of addresses: {}; ask for a smaller "
                                  "arena or raise the address space limit",
                                  capacity_, system_message(errno)));
  }
  base_ = static_cast<std::byte*>(base);
  free_.emplace(0, capacity_);
}

ReferenceArena::~ReferenceArena() {
  ::munmap(base_, static_cast<std::size_t>(capacity_));
}

void ReferenceArena::protect(std::int64_t offset, std::int64_t bytes, bool accessible,
                             std::string_view call) {
  const int protection = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
  if (::mprotect(base_ + offset, static_cast<std::size_t>(bytes), protection) == 0) return;
  throw DeviceError(ErrorCategory::memory_allocation, std::string(call),
                    fmt::format("the system refuses {} bytes: {}", bytes, system_message(errno)));
}

Segment ReferenceArena::allocate(std::int64_t bytes) {
  constexpr std::string_view call_name = "segment allocate";
  return core_.call(call_name, {}, [&]() -> Segment {
    core_.require_safe(CaptureViolation::allocate_segment, call_name);
    const std::int64_t size = round_up(bytes, page_);
    const Lock lock(mutex_);
    for (auto place = free_.begin(); place != free_.end() && bytes > 0; ++place) {
      const auto [offset, available] = *place;
      if (available < size) continue;
      protect(offset, size, true, call_name);
      free_.erase(place);
      if (available > size) free_.emplace(offset + size, available - size);
      live_.emplace(offset, size);
      in_use_ += size;
      return {base_ + offset, size};
    }
    throw DeviceError(
        bytes > 0 ? ErrorCategory::memory_allocation : ErrorCategory::invalid_value,
        std::string(call_name),
        fmt::format("{} bytes asked for, {} of {} in use; free memory or use a larger "
                    "arena",
                    bytes, in_use_, capacity_));
  });
}

std::map<std::int64_t, std::int64_t>::iterator ReferenceArena::find_live(const Segment& segment,
                                                                         std::string_view call) {
  const auto found = live_.find(segment.data - base_);
  if (found != live_.end() && found->second == segment.bytes) return found;
  throw DeviceError(ErrorCategory::invalid_value, std::string(call),
                    "the range is no live segment of this arena");
}

void ReferenceArena::release(const Segment& segment) {
  constexpr std::string_view call_name = "segment release";
  core_.call(call_name, {}, [&] {
    core_.require_safe(CaptureViolation::release_segment, call_name);
    core_.wait_until_idle();
    const Lock lock(mutex_);
    const auto live = find_live(segment, call_name);
    std::int64_t offset = live->first;
    std::int64_t size = live->second;
    protect(offset, size, false, call_name);
    // Gives the pages back, so that a new owner finds zeros and not the old content.
    ::madvise(base_ + offset, static_cast<std::size_t>(size), MADV_DONTNEED);
    live_.erase(live);
    in_use_ -= size;
    auto next = free_.lower_bound(offset);
    if (next != free_.end() && offset + size == next->first) {
      size += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += size;
        return;
      }
    }
    free_.emplace(offset, size);
  });
}

void ReferenceArena::unmap(const Segment& segment) {
  constexpr std::string_view call_name = "segment unmap";
  core_.call(call_name, {}, [&] {
    core_.require_safe(CaptureViolation::release_segment, call_name);
    const Lock lock(mutex_);
    // A part of a segment may be unmapped too.
    const std::int64_t offset = segment.data - base_;
    const auto after = live_.upper_bound(offset);
    const bool inside =
        after != live_.begin() && offset % page_ == 0 &&
        offset + segment.bytes <= std::prev(after)->first + std::prev(after)->second;
    if (!inside) {
      throw DeviceError(ErrorCategory::invalid_value, std::string(call_name),
                        "the range is no part of a live segment of this arena");
    }
    protect(offset, segment.bytes, false, call_name);
  });
}

bool ReferenceArena::owns(const void* address) const {
  return range().contains(address);
}

std::int64_t ReferenceArena::bytes_in_use() const {
  const Lock lock(mutex_);
  return in_use_;
}

CaptureMode ReferenceArena::exchange_capture_mode(CaptureMode mode) {
  return core_.exchange_thread_mode(mode);
}

void ReferenceArena::mark(std::byte* data, std::int64_t bytes, std::uint8_t value, Stream& stream) {
  const TensorView view{data, DType::uint8, {bytes}};
  core_.enqueue_uncounted(state_of(stream), make_fill(view, value, "mark"));
}

std::unique_ptr<StreamPoint> ReferenceArena::point(Stream& stream) {
  const auto& state = state_of(stream);
  if (core_.capture_status(state) != CaptureStatus::none) return nullptr;
  return std::make_unique<ReferencePoint>(
      core_, QueuePoint{state, core_.executor().last_enqueued(*state)});
}

void ReferenceArena::inspect(const std::byte* data, std::int64_t bytes, std::byte* host) {
  std::memcpy(host, data, static_cast<std::size_t>(bytes));
}

}  // namespace cgconform::workloads::reference
