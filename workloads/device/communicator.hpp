#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/device/stream.hpp"

namespace cgconform::workloads {

enum class ReduceOp : std::uint8_t { sum, max, min };

/// The ways in which a communication library ends a communicator.
enum class CommunicatorEnd : std::uint8_t { destroy, finalize, abort };
std::string_view communicator_end_name(CommunicatorEnd end);

/// A group of ranks that exchange device memory in stream order. Calls are capturable; messages are
/// tagged by communicator, sequence at capture and replay number, and carry a verified header.
/// Peers that fail show as communicator_error at the next synchronisation, never as a hang.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;

  virtual void send(const TensorView& tensor, int peer, Stream& stream, std::string label) = 0;
  virtual void receive(const TensorView& tensor, int peer, Stream& stream, std::string label) = 0;
  virtual void all_reduce(const TensorView& destination, const TensorView& source, ReduceOp op,
                          Stream& stream, std::string label) = 0;
  virtual void broadcast(const TensorView& tensor, int root, Stream& stream, std::string label) = 0;
  /// Puts the sources of all ranks, of one size, side by side into every rank's destination.
  virtual void all_gather(const TensorView& destination, const TensorView& source, Stream& stream,
                          std::string label) = 0;
  /// Leaves each rank its share of the sum of all sources: part `rank` of as many as there are
  /// ranks.
  virtual void reduce_scatter(const TensorView& destination, const TensorView& source,
                              Stream& stream, std::string label) = 0;

  /// Host-side agreement outside streams: concatenates every rank's bytes in rank order.
  /// Throws communicator_timeout after the communicator's deadline.
  virtual std::vector<std::string> exchange(const std::string& mine) = 0;
  /// Called by all ranks together: a communicator of those that give the same color, in the order
  /// of their ranks here. `name` says what it is for.
  virtual std::unique_ptr<Communicator> split(int color, const std::string& name) = 0;
  /// First asynchronous error, or success.
  virtual ErrorCategory async_error() const = 0;
  /// Graphs and executables alive that hold this communicator.
  virtual int live_graph_references() const = 0;
  /// Ends the communicator: waits until no graph uses it, then leaves the peers. Throws
  /// communicator_timeout where a graph still lives after the communicator's deadline; launches of
  /// that graph are refused from then on. The destructor does the same without throwing.
  virtual void close() {}
  /// The library's own call, without a deadline: where a graph that holds the communicator lives it
  /// may never return. For communicators that nothing needs any more, and in processes that may be
  /// ended from outside.
  virtual void end(CommunicatorEnd /*how*/) { close(); }
};

/// How the processes of a gang find each other: `set` publishes, `get` blocks until the key exists
/// or the deadline passes (communicator_timeout).
class RendezvousStore {
 public:
  virtual ~RendezvousStore() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  virtual std::string get(const std::string& key, std::chrono::milliseconds deadline) = 0;
};

struct CommunicatorOptions {
  std::string name;  ///< unique in the gang, for example "pp"
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{30000};
  /// Network interface that the reference device's transport listens on; empty takes the loopback.
  std::string network_interface;
  std::shared_ptr<RendezvousStore> store;  ///< may be null where size is 1
};

/// The options of the part of a communicator that a rank belongs to. `colors` are those of all
/// ranks; `number` tells the splits of one communicator apart.
CommunicatorOptions split_options(const CommunicatorOptions& whole,
                                  const std::vector<std::string>& colors, const std::string& name,
                                  int number);

}  // namespace cgconform::workloads
