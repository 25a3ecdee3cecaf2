#include "harness/progress_board.hpp"

#include <csignal>
#include <stop_token>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/crash_record.hpp"
#include "harness/deadlines.hpp"

namespace cgconform::harness {
namespace {

using suites::Verdict;
using workloads::Phase;

TEST(ProgressBoard, ShowsPhaseAndLastOperation) {
  const BoardMapping mapping = BoardMapping::create();
  ProgressBoard board(mapping.layout());
  board.enter_phase(Phase::capture);
  board.start_operation("gemm fc1");
  board.start_operation("softmax");
  const ProgressSnapshot seen = read_progress(mapping.layout());
  EXPECT_EQ(seen.phase, Phase::capture);
  EXPECT_EQ(seen.last_operation, "softmax");
  EXPECT_EQ(seen.operations, 2U);
  EXPECT_LE(seen.phase_started, monotonic_now());
}

TEST(ProgressBoard, CutsALabelThatIsTooLong) {
  const BoardMapping mapping = BoardMapping::create();
  ProgressBoard board(mapping.layout());
  board.start_operation(std::string(1000, 'x'));
  const std::string seen = read_progress(mapping.layout()).last_operation;
  EXPECT_FALSE(seen.empty());
  EXPECT_EQ(seen.find_first_not_of('x'), std::string::npos);
}

TEST(ProgressBoard, IsNeverReadTorn) {
  const BoardMapping mapping = BoardMapping::create();
  ProgressBoard board(mapping.layout());
  const std::string a(100, 'a');
  const std::string b(100, 'b');
  board.start_operation(a);
  std::jthread writer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      board.start_operation(a);
      board.start_operation(b);
    }
  });
  for (int i = 0; i < 20000; ++i) {
    const std::string seen = read_progress(mapping.layout()).last_operation;
    ASSERT_TRUE(seen == a || seen == b) << seen;
  }
}

TEST(ProgressBoard, IsReadAfterItsWriterDiedWhileWriting) {
  const BoardMapping mapping = BoardMapping::create();
  ProgressBoard board(mapping.layout());
  board.start_operation("last");
  mapping.layout().sequence.fetch_add(1);
  EXPECT_EQ(read_progress(mapping.layout()).last_operation, "last");
}

/// How a worker ended, and the verdict that has to come of it.
TEST(CrashRecord, TellsWildAccessTeardownAndCrashApart) {
  const BoardMapping mapping = BoardMapping::create();
  BoardLayout& layout = mapping.layout();
  ProgressBoard board(layout);
  board.enter_phase(Phase::replay);
  board.set_arena(reinterpret_cast<const void*>(0x1000), reinterpret_cast<const void*>(0x2000));
  layout.crash.signal.store(SIGSEGV);
  layout.crash.fault_address.store(0x1fff);
  EXPECT_EQ(describe_crash(layout, {SIGSEGV, 0}).verdict, Verdict::fail_illegal_access);
  layout.crash.fault_address.store(0x2000);
  EXPECT_EQ(describe_crash(layout, {SIGSEGV, 0}).verdict, Verdict::crash);
  board.enter_phase(Phase::teardown);
  EXPECT_EQ(describe_crash(layout, {SIGSEGV, 0}).verdict, Verdict::fail_teardown);
  EXPECT_EQ(describe_hang(layout).verdict, Verdict::fail_teardown);
}

TEST(CrashRecord, KeepsPhaseAndOperationOfAWorkerKilledFromOutside) {
  const BoardMapping mapping = BoardMapping::create();
  ProgressBoard board(mapping.layout());
  board.enter_phase(Phase::warmup);
  board.start_operation("layer 1");
  const suites::AbnormalEnd end = describe_crash(mapping.layout(), {SIGKILL, 0});
  EXPECT_EQ(end.verdict, Verdict::crash);
  EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_EQ(end.phase, "warmup");
  EXPECT_EQ(end.last_operation, "layer 1");
}

TEST(CrashRecord, NamesSignals) {
  EXPECT_EQ(signal_name(SIGSEGV), "SIGSEGV");
  EXPECT_EQ(signal_name(SIGABRT), "SIGABRT");
}

TEST(Deadlines, ScaleEveryPhase) {
  const Deadlines plain;
  const Deadlines doubled(2.0);
  for (const DeadlineRow& row : deadline_table()) {
    EXPECT_EQ(plain.phase(row.phase), row.deadline);
    EXPECT_EQ(doubled.phase(row.phase), 2 * row.deadline);
  }
  EXPECT_GT(Deadlines(1e-9).phase(Phase::replay).count(), 0);
}

}  // namespace
}  // namespace cgconform::harness
