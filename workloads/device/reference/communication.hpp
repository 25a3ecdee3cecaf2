#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

namespace cgconform::workloads::reference {

/// Which execution of a communication this is; part of every message's header.
struct CommunicationRun {
  bool captured = false;
  std::uint64_t replay = 0;  ///< number of the graph's launch; 0 where eager
};

/// A communication that has started and not ended.
class PendingCommunication {
 public:
  virtual ~PendingCommunication() = default;
  /// Ends the communication where everything it needs has arrived: writes the results and returns
  /// true. Does not block. Throws DeviceError where a peer failed or disagrees.
  virtual bool try_finish() = 0;
  /// When the communication counts as failed.
  virtual std::chrono::steady_clock::time_point deadline() const = 0;
  /// Throws communicator_timeout with what is missing.
  [[noreturn]] virtual void time_out() = 0;
};

/// What the executor and graphs know of a communicator.
class CommunicatorCore {
 public:
  virtual ~CommunicatorCore() = default;
  virtual std::string_view name() const = 0;
  /// Graphs and executables take a reference each.
  virtual void add_graph_reference() = 0;
  virtual void drop_graph_reference() = 0;
  /// Throws communicator_invalid_usage where the communicator was closed.
  virtual void require_open(std::string_view call) const = 0;
};

/// A message or collective, bound to its memory; started once for each eager call or replay.
class Communication {
 public:
  virtual ~Communication() = default;
  /// Sends what this rank has to send. Does not wait for peers.
  virtual std::unique_ptr<PendingCommunication> start(const CommunicationRun& run) = 0;
  virtual const std::shared_ptr<CommunicatorCore>& core() const = 0;
  /// This process's rank in the communicator.
  virtual int rank() const = 0;
  /// The other rank of a message, -1 for collectives.
  virtual int peer() const = 0;
};

}  // namespace cgconform::workloads::reference
