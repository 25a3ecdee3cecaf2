#include "workloads/device/reference/gloo_mesh.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "workloads/device/errors.hpp"
#include "workloads/device/memory_store.hpp"
#include "workloads/device/reference/mailbox.hpp"

namespace cgconform::workloads::reference {
namespace {

constexpr std::chrono::seconds deadline{30};

/// What rank 1 hears of rank 0, which goes at once.
std::string word_of_a_peer_that_closes(int round) {
  const auto store = std::make_shared<MemoryStore>();
  const auto device = create_gloo_device("");
  const auto options = [&](int rank) {
    return CommunicatorOptions{.name = fmt::format("round {}", round),
                               .rank = rank,
                               .size = 2,
                               .timeout = deadline,
                               .store = store};
  };
  std::thread peer([&] {
    Mailbox mailbox(2, [] {});
    const GlooMesh mesh(options(0), device, mailbox);
  });
  Mailbox mailbox(2, [] {});
  const GlooMesh mesh(options(1), device, mailbox);
  std::string heard;
  try {
    mailbox.wait_for_exchange(0, std::chrono::steady_clock::now() + deadline);
  } catch (const DeviceError& error) {
    heard = error.what();
  }
  peer.join();
  if (const auto loss = mailbox.first_loss()) heard += " and lost: " + *loss;
  return heard;
}

TEST(GlooMesh, HearsThatAPeerClosedAndNotThatItWasLost) {
  for (int round = 0; round < 20; ++round) {
    const std::string heard = word_of_a_peer_that_closes(round);
    EXPECT_NE(heard.find("rank 0 closed the communicator"), std::string::npos) << heard;
    EXPECT_EQ(heard.find("lost:"), std::string::npos) << heard;
  }
}

}  // namespace
}  // namespace cgconform::workloads::reference
