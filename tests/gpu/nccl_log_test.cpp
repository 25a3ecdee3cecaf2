#include "workloads/device/cuda/nccl_log.hpp"

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace cgconform::workloads::cuda {
namespace {

TEST(NcclLog, FindsEachWarningOnceAndLeavesTheRestOut) {
  const std::string log =
      "node:12:12 [0] NCCL INFO Bootstrap: Using lo:127.0.0.1<0>\n\n"
      "[2026-01-01 00:00:00] node:12:34 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: "
      "failed\n"
      "node:12:35 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: failed\n"
      "node:12:35 [0] init.cc:9 NCCL WARN Duplicate GPU detected\n";
  EXPECT_EQ(nccl_warnings(log),
            (std::vector<std::string>{"socketStartConnect: failed", "Duplicate GPU detected"}));
}

TEST(NcclLog, ReadsWhatWasWrittenSinceTheLastTime) {
  ::unsetenv("NCCL_DEBUG_FILE");
  NcclLog log;
  const char* file = std::getenv("NCCL_DEBUG_FILE");
  ASSERT_NE(file, nullptr);
  std::ofstream stream(file, std::ios::app);
  stream << "a:1:1 [0] x.cc:1 NCCL WARN first\n" << std::flush;
  EXPECT_EQ(log.take_warnings(), std::vector<std::string>{"first"});
  EXPECT_TRUE(log.take_warnings().empty());
  stream << "a:1:1 [0] x.cc:1 NCCL WARN second\n" << std::flush;
  EXPECT_EQ(log.take_warnings(), std::vector<std::string>{"second"});
  ::unsetenv("NCCL_DEBUG_FILE");
}

TEST(NcclLog, LeavesAFileOfTheUserAlone) {
  ::setenv("NCCL_DEBUG_FILE", "/tmp/of-the-user", 1);
  NcclLog log;
  EXPECT_STREQ(std::getenv("NCCL_DEBUG_FILE"), "/tmp/of-the-user");
  EXPECT_TRUE(log.take_warnings().empty());
  ::unsetenv("NCCL_DEBUG_FILE");
}

}  // namespace
}  // namespace cgconform::workloads::cuda
