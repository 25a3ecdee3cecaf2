#include "harness/worker/mishap.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <utility>

#include <unistd.h>

#include "matrix/error.hpp"

namespace cgconform::harness {
namespace {

/// By then the inputs of the step are in place and a graph is being replayed.
constexpr int operations_before_a_death = 12;

bool is_thrown(MockBehaviour behaviour) {
  return behaviour == MockBehaviour::throwing || behaviour == MockBehaviour::failing_check;
}

[[noreturn]] void hang() {
  while (true) std::this_thread::sleep_for(std::chrono::hours{1});
}

void die(MockBehaviour behaviour) {
  switch (behaviour) {
    case MockBehaviour::killed:
      ::raise(SIGKILL);
      break;
    case MockBehaviour::terminated:
      ::kill(::getpid(), SIGTERM);
      hang();
    case MockBehaviour::abort_call:
      std::abort();
    case MockBehaviour::exit_zero:
      std::_Exit(0);
    case MockBehaviour::hang:
      hang();
    default:
      throw InternalError("a mishap has no such behaviour");
  }
}

}  // namespace

void MishapSink::arm(std::optional<MockCell> mishap) {
  mishap_ = std::move(mishap);
  in_phase_ = false;
  operations_ = 0;
}

void MishapSink::enter_phase(workloads::Phase phase) {
  board_.enter_phase(phase);
  if (!mishap_) return;
  in_phase_ = phase == mishap_->phase;
  if (!in_phase_) return;
  if (mishap_->behaviour == MockBehaviour::failing_check) throw Error("a mishap of the self-test");
  if (mishap_->behaviour == MockBehaviour::throwing) {
    throw std::runtime_error("a mishap of the self-test");
  }
}

void MishapSink::start_operation(std::string_view label) {
  board_.start_operation(label);
  if (!in_phase_ || is_thrown(mishap_->behaviour)) return;
  if (++operations_ == operations_before_a_death) die(mishap_->behaviour);
}

std::optional<MockCell> mishap_for(const std::string& text, int rank) {
  if (text.empty()) return std::nullopt;
  const MockCell mishap = mock_from_text(text);
  if (mishap.rank != rank) return std::nullopt;
  return mishap;
}

}  // namespace cgconform::harness
