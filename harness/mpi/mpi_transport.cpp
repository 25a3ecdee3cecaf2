#include "harness/mpi/mpi_transport.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <mpi.h>

#include "harness/system_error.hpp"

namespace cgconform::harness {
namespace {

constexpr int message_tag = 1;

void require(int result, const char* call) {
  if (result != MPI_SUCCESS) {
    throw EnvironmentError(fmt::format("{} failed with MPI error {}", call, result));
  }
}

}  // namespace

struct MpiTransport::Transfer {
  int peer = 0;
  Packet bytes;
  MPI_Request request = MPI_REQUEST_NULL;

  bool complete() {
    int done = 0;
    require(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  }
};

MpiTransport::MpiTransport() {
  require(MPI_Init(nullptr, nullptr), "MPI_Init");
  require(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  require(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  require(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
}

MpiTransport::~MpiTransport() {
  MPI_Finalize();
}

void MpiTransport::send(int destination, const Message& message) {
  if (destination == rank_) {
    to_self_.push_back(message);
    return;
  }
  Transfer& transfer = sends_.emplace_back();
  transfer.peer = destination;
  transfer.bytes = encode(message);
  require(MPI_Isend(transfer.bytes.data(), static_cast<int>(transfer.bytes.size()), MPI_BYTE,
                    destination, message_tag, MPI_COMM_WORLD, &transfer.request),
          "MPI_Isend");
}

std::optional<ReceivedMessage> MpiTransport::poll() {
  if (!to_self_.empty()) {
    ReceivedMessage received{rank_, std::move(to_self_.front())};
    to_self_.pop_front();
    return received;
  }
  if (size_ == 1) return std::nullopt;
  finish_sends();
  start_receives();
  return take_completed();
}

bool MpiTransport::flushed() {
  finish_sends();
  return sends_.empty();
}

void MpiTransport::abort(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

void MpiTransport::start_receives() {
  while (true) {
    int found = 0;
    MPI_Message matched = MPI_MESSAGE_NULL;
    MPI_Status status{};
    require(MPI_Improbe(MPI_ANY_SOURCE, message_tag, MPI_COMM_WORLD, &found, &matched, &status),
            "MPI_Improbe");
    if (found == 0) return;
    int count = 0;
    require(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
    Transfer& transfer = receives_.emplace_back();
    transfer.peer = status.MPI_SOURCE;
    transfer.bytes.resize(static_cast<std::size_t>(count));
    require(MPI_Imrecv(transfer.bytes.data(), count, MPI_BYTE, &matched, &transfer.request),
            "MPI_Imrecv");
  }
}

void MpiTransport::finish_sends() {
  sends_.remove_if([](Transfer& transfer) { return transfer.complete(); });
}

std::optional<ReceivedMessage> MpiTransport::take_completed() {
  // A long message may complete after a short one that was sent later.
  std::set<int> waiting;
  for (auto transfer = receives_.begin(); transfer != receives_.end(); ++transfer) {
    if (waiting.contains(transfer->peer)) continue;
    if (!transfer->complete()) {
      waiting.insert(transfer->peer);
      continue;
    }
    ReceivedMessage received{transfer->peer, decode(transfer->bytes)};
    receives_.erase(transfer);
    return received;
  }
  return std::nullopt;
}

}  // namespace cgconform::harness
