#include "workloads/lifecycle/capture_recovery.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "workloads/allocator/caching_allocator.hpp"
#include "workloads/faults/fault_switches.hpp"

namespace cgconform::workloads {
namespace {

constexpr std::int64_t elements = 32;
using Values = std::array<std::int32_t, elements>;

Values values_of(std::int32_t factor) {
  Values values{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    values.at(i) = factor * static_cast<std::int32_t>(i + 1);
  }
  return values;
}

/// Streams and tensors for one broken capture.
class RecoveryScene {
 public:
  RecoveryScene(Device& device, Communicator& communicator, const RecoveryRequest& request,
                const FaultSwitches* faults)
      : device_(device),
        communicator_(communicator),
        request_(request),
        faults_(faults),
        main_(device.create_stream("recovery")),
        side_(device.create_stream("recovery side")),
        event_(device.create_event()),
        allocator_(device.segment_source()),
        input_(buffer(default_pool, "input")),
        output_(buffer(default_pool, "output")) {}

  RecoveryRecord run() {
    RecoveryRecord record;
    // Eager first: nothing may be used for the first time in a capture.
    record.eager = eager_work(1);
    record.collective = collective(1);
    device_.synchronize();
    const ResourceUse before = device_.resource_use();
    const std::int64_t blocks_before = live_blocks();
    record.first_error = break_capture();
    record.unwinding_error = unwind();
    record.capturing = main_->capture_status() != CaptureStatus::none ||
                       side_->capture_status() != CaptureStatus::none;
    record.eager += eager_work(2);
    record.collective += collective(3);
    record.memory = memory_left(before, blocks_before);
    record.recapture = capture_anew();
    return record;
  }

 private:
  bool fault(Fault without_collective, Fault with_collective) const {
    return faults_ != nullptr &&
           faults_->is_on(request_.collective ? with_collective : without_collective);
  }

  Buffer buffer(PoolId pool, const char* label) {
    return Buffer(allocator_, *main_, pool, DType::int32, Shape{elements}, label);
  }

  std::int64_t live_blocks() const {
    return static_cast<std::int64_t>(allocator_.live_blocks().size());
  }

  void body() {
    temporary_ = buffer(pool_, "temporary of a capture that breaks");
    main_->copy(temporary_.view(), input_.view(), "before the break");
    if (request_.collective) {
      communicator_.all_reduce(temporary_.view(), temporary_.view(), ReduceOp::max, *main_,
                               "before the break");
    }
    switch (request_.how) {
      case CaptureBreak::synchronization:
        main_->synchronize();
        return;
      case CaptureBreak::unjoined_fork:
        main_->record(*event_);
        side_->wait(*event_);
        side_->copy(output_.view(), temporary_.view(), "not joined");
        main_->end_capture();
        return;
      case CaptureBreak::body_error:
        throw Error("the captured code gives up");
    }
  }

  std::string break_capture() {
    if (request_.private_pool) pool_ = allocator_.create_pool("broken capture");
    try {
      main_->begin_capture(request_.mode);
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  std::string unwind() {
    std::string trouble;
    const bool skipped =
        fault(Fault::f23a_end_capture_skipped, Fault::f23d_end_capture_skipped_with_collective);
    if (!skipped) end_broken_capture();
    if (fault(Fault::f23c_ended_twice, Fault::f23f_ended_twice_with_collective)) {
      trouble = attempt([&] { main_->end_capture(); });
    }
    temporary_.reset();
    const bool kept =
        fault(Fault::f23b_private_pool_kept, Fault::f23e_private_pool_kept_with_collective);
    if (request_.private_pool && !kept) {
      trouble += attempt([&] { allocator_.destroy_pool(pool_); });
    }
    return trouble;
  }

  void end_broken_capture() {
    if (main_->capture_status() == CaptureStatus::none) return;
    try {
      main_->end_capture();
    } catch (const DeviceError&) {
      // What broke the capture is known already; that it is broken is its echo.
      return;
    }
  }

  template <typename Part>
  static std::string attempt(Part&& part) {
    try {
      part();
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  /// Runs `part`, which writes the output, and compares it with what is expected.
  template <typename Part>
  std::string output_of(std::int32_t factor, const Values& expected, Part&& part) {
    return attempt([&] {
      const Values given = values_of(factor);
      main_->upload(input_.view(), given.data(), false, "recovery input");
      main_->fill(output_.view(), 0, "recovery output");
      part();
      Values seen{};
      main_->download(seen.data(), output_.view());
      if (seen != expected) throw Error(fmt::format("{} in place of {}", seen[0], expected[0]));
    });
  }

  std::string eager_work(std::int32_t factor) {
    return output_of(factor, values_of(factor),
                     [&] { main_->copy(output_.view(), input_.view(), "eager"); });
  }

  std::string collective(std::int32_t factor) {
    return output_of(factor, values_of(factor), [&] {
      communicator_.all_reduce(output_.view(), input_.view(), ReduceOp::max, *main_,
                               "eager collective");
    });
  }

  std::string memory_left(const ResourceUse& before, std::int64_t blocks_before) {
    const ResourceUse after = device_.resource_use();
    struct Level {
      const char* name;
      std::int64_t before;
      std::int64_t after;
    };
    const std::array levels{
        Level{"graphs", before.graphs, after.graphs},
        Level{"executables", before.executables, after.executables},
        Level{"user objects", before.user_objects, after.user_objects},
        Level{"blocks", blocks_before, live_blocks()},
        Level{"bytes of segments", before.segment_bytes, after.segment_bytes},
    };
    for (const Level& level : levels) {
      if (level.after <= level.before) continue;
      return fmt::format("{}: {} before the capture, {} after it was unwound", level.name,
                         level.before, level.after);
    }
    return {};
  }

  std::string capture_anew() {
    constexpr std::int32_t factor = 5;
    std::unique_ptr<GraphExec> exec;
    std::string trouble = attempt([&] {
      main_->begin_capture(request_.mode);
      main_->copy(output_.view(), input_.view(), "captured anew");
      if (request_.collective) {
        communicator_.all_reduce(output_.view(), output_.view(), ReduceOp::max, *main_,
                                 "captured anew");
      }
      exec = main_->end_capture()->instantiate();
    });
    if (!trouble.empty()) return trouble;
    return output_of(factor, values_of(factor), [&] { exec->launch(*main_); });
  }

  Device& device_;
  Communicator& communicator_;
  RecoveryRequest request_;
  const FaultSwitches* faults_;
  std::unique_ptr<Stream> main_;
  std::unique_ptr<Stream> side_;
  std::unique_ptr<Event> event_;
  CachingAllocator allocator_;
  PoolId pool_ = default_pool;
  Buffer input_;
  Buffer output_;
  Buffer temporary_;
};

}  // namespace

std::string_view capture_break_name(CaptureBreak how) {
  switch (how) {
    case CaptureBreak::synchronization:
      return "a synchronisation";
    case CaptureBreak::unjoined_fork:
      return "an unjoined fork";
    case CaptureBreak::body_error:
      break;
  }
  return "an error of the captured code";
}

RecoveryRecord run_capture_recovery(Device& device, Communicator& communicator,
                                    const RecoveryRequest& request, const FaultSwitches* faults) {
  return RecoveryScene(device, communicator, request, faults).run();
}

}  // namespace cgconform::workloads
