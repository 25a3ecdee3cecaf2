#include "harness/deadlines.hpp"

namespace cgconform::harness {
namespace {

using std::chrono::milliseconds;
using workloads::Phase;

constexpr milliseconds worker_start_deadline{60000};

constexpr std::array deadline_rows{
    // Longer than a rank that has ended its leg waits for peers that are still in theirs.
    DeadlineRow{Phase::idle, milliseconds{90000}},
    DeadlineRow{Phase::setup, milliseconds{60000}},
    DeadlineRow{Phase::eager, milliseconds{60000}},
    DeadlineRow{Phase::warmup, milliseconds{60000}},
    DeadlineRow{Phase::capture, milliseconds{60000}},
    DeadlineRow{Phase::instantiate, milliseconds{60000}},
    DeadlineRow{Phase::replay, milliseconds{60000}},
    DeadlineRow{Phase::verify, milliseconds{60000}},
    DeadlineRow{Phase::teardown, milliseconds{30000}},
};

constexpr bool rows_follow_enumerators() {
  for (std::size_t i = 0; i < deadline_rows.size(); ++i) {
    if (static_cast<std::size_t>(deadline_rows.at(i).phase) != i) return false;
  }
  return deadline_rows.size() == phase_count;
}
static_assert(rows_follow_enumerators());

milliseconds scaled(milliseconds deadline, double scale) {
  const auto count = static_cast<milliseconds::rep>(static_cast<double>(deadline.count()) * scale);
  return milliseconds{count > 0 ? count : 1};
}

}  // namespace

std::span<const DeadlineRow> deadline_table() {
  return deadline_rows;
}

Deadlines::Deadlines(double scale, milliseconds cell)
    : cell_(cell), worker_start_(scaled(worker_start_deadline, scale < 1.0 ? 1.0 : scale)) {
  for (const DeadlineRow& row : deadline_rows) {
    phases_.at(static_cast<std::size_t>(row.phase)) = scaled(row.deadline, scale);
  }
}

}  // namespace cgconform::harness
