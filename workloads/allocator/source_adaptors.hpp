#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "workloads/allocator/segment_source.hpp"

namespace cgconform::workloads {

/// A source that passes every call to another one; the base of the adaptors. The wrapped source
/// must outlive it.
class SourceAdaptor : public SegmentSource {
 public:
  explicit SourceAdaptor(SegmentSource& source) : source_(source) {}
  std::string_view name() const override { return source_.name(); }
  Segment allocate(std::int64_t bytes) override { return source_.allocate(bytes); }
  void release(const Segment& segment) override { source_.release(segment); }
  void unmap(const Segment& segment) override { source_.unmap(segment); }
  bool owns(const void* address) const override { return source_.owns(address); }
  std::int64_t bytes_in_use() const override { return source_.bytes_in_use(); }
  AddressRange range() const override { return source_.range(); }
  CaptureMode exchange_capture_mode(CaptureMode mode) override {
    return source_.exchange_capture_mode(mode);
  }
  void mark(std::byte* data, std::int64_t bytes, std::uint8_t value, Stream& stream) override {
    source_.mark(data, bytes, value, stream);
  }
  std::unique_ptr<StreamPoint> point(Stream& stream) override { return source_.point(stream); }
  void inspect(const std::byte* data, std::int64_t bytes, std::byte* host) override {
    source_.inspect(data, bytes, host);
  }

 protected:
  SegmentSource& source() { return source_; }

 private:
  SegmentSource& source_;
};

/// Refuses with memory_allocation what would take more than `limit` bytes from it.
class LimitingSource : public SourceAdaptor {
 public:
  LimitingSource(SegmentSource& source, std::int64_t limit)
      : SourceAdaptor(source), limit_(limit) {}
  Segment allocate(std::int64_t bytes) override;
  void release(const Segment& segment) override;
  std::int64_t bytes_in_use() const override { return in_use_; }

 private:
  std::int64_t limit_;
  std::int64_t in_use_ = 0;
};

/// Refuses with memory_allocation the calls that `refuses` picks; it is given the number of the
/// call, from 0, and the bytes.
class FailingSource : public SourceAdaptor {
 public:
  using Choice = std::function<bool(std::uint64_t call, std::int64_t bytes)>;
  FailingSource(SegmentSource& source, Choice refuses)
      : SourceAdaptor(source), refuses_(std::move(refuses)) {}
  Segment allocate(std::int64_t bytes) override;

 private:
  Choice refuses_;
  std::uint64_t calls_ = 0;
};

/// What passed through a source.
struct SourceStatistics {
  std::uint64_t allocations = 0;
  std::uint64_t releases = 0;
  std::uint64_t failures = 0;  ///< calls that threw
  std::int64_t bytes = 0;      ///< handed out and not released
  std::int64_t peak_bytes = 0;
};

/// Counts what passes through.
class StatisticsSource : public SourceAdaptor {
 public:
  using SourceAdaptor::SourceAdaptor;
  Segment allocate(std::int64_t bytes) override;
  void release(const Segment& segment) override;
  const SourceStatistics& statistics() const { return statistics_; }

 private:
  SourceStatistics statistics_;
};

}  // namespace cgconform::workloads
