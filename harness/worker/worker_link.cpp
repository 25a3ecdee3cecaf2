#include "harness/worker/worker_link.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "harness/system_error.hpp"
#include "workloads/device/errors.hpp"

namespace cgconform::harness {
namespace {

class GangStore final : public workloads::RendezvousStore {
 public:
  GangStore(WorkerLink& link, std::uint64_t gang) : link_(link), gang_(gang) {}
  void set(const std::string& key, const std::string& value) override {
    link_.send(StoreSet{gang_, key, value});
  }
  std::string get(const std::string& key, std::chrono::milliseconds deadline) override {
    return link_.await_value(gang_, key, deadline);
  }

 private:
  WorkerLink& link_;
  std::uint64_t gang_;
};

}  // namespace

std::optional<Message> WorkerLink::receive() {
  if (!waiting_.empty()) {
    Message message = std::move(waiting_.front());
    waiting_.pop_front();
    return message;
  }
  const auto packet = channel_.receive();
  if (!packet) return std::nullopt;
  return decode(*packet);
}

void WorkerLink::send(const Message& message) {
  send_bytes(encode(message));
}

void WorkerLink::send_bytes(const Packet& bytes) {
  if (!channel_.send(bytes)) throw EnvironmentError("the supervisor no longer listens");
}

std::string WorkerLink::await_value(std::uint64_t gang, const std::string& key,
                                    std::chrono::milliseconds deadline) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + deadline;
  send(StoreGet{gang, key});
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    const auto packet = channel_.receive(std::max(left, std::chrono::milliseconds{0}));
    if (!packet) {
      throw workloads::DeviceError(
          workloads::ErrorCategory::communicator_timeout, "rendezvous",
          fmt::format("no peer published '{}' within {} ms", key, deadline.count()));
    }
    Message message = decode(*packet);
    const auto* value = std::get_if<StoreValue>(&message);
    if (value == nullptr) {
      waiting_.push_back(std::move(message));
    } else if (value->gang == gang && value->key == key) {
      return value->value;
    }
  }
}

std::shared_ptr<workloads::RendezvousStore> WorkerLink::store(std::uint64_t gang) {
  return std::make_shared<GangStore>(*this, gang);
}

}  // namespace cgconform::harness
