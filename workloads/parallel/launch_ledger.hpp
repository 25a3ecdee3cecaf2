#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/device/communicator.hpp"
#include "workloads/device/graph.hpp"
#include "workloads/training/leg_record.hpp"

namespace cgconform::workloads {

/// One communication of a graph, as its peers must have it too.
struct LaunchedCommunication {
  std::string communicator;
  std::string op;
  std::int32_t rank = -1;  ///< this rank's in the communicator
  std::int32_t peer = -1;  ///< the other one's of a message; -1 for collectives
  std::uint64_t bytes = 0;
  std::string dtype;
};

/// The communications of a captured graph, in the order of their capture.
std::vector<LaunchedCommunication> communications_of(std::span<const GraphNode> nodes);

/// What a rank is about to do with communicators that other ranks share.
struct LaunchIntent {
  enum class Kind : std::uint8_t { eager, capture, replay };

  std::string name;  ///< of what is launched, such as "step 3 training iteration"
  Kind kind = Kind::eager;
  std::uint64_t replay = 0;                           ///< launches of the graph so far
  std::vector<LaunchedCommunication> communications;  ///< of a graph; unknown where eager

  std::string encode() const;
  /// False for what a rank says that has left the leg, or is elsewhere in it.
  static bool is_intent(std::string_view text);
  /// Throws InternalError where the text is no intent.
  static LaunchIntent decode(const std::string& text);
};

/// The first rank that is about to do something else than its peers.
struct LaunchDisagreement {
  int rank = -1;
  /// communicator_mismatch: captured or eager, graph, op, bytes or number of replays differ;
  /// communicator_order: the same communicators come in another order.
  ErrorCategory category = ErrorCategory::success;
  std::string text;
};

/// Compares the intents of all ranks, in rank order. Where ranks differ the larger group is right,
/// and of equal groups the one with the lowest rank.
std::optional<LaunchDisagreement> find_disagreement(std::span<const LaunchIntent> intents);

/// Agreement of a gang before every launch: captured or eager, which communications, in which
/// order. All ranks exchange what they are about to do, so that the odd one is named before
/// anything is launched that could hang. Graphs without communication concern nobody else and are
/// not asked about.
class LaunchLedger {
 public:
  /// `gang` holds every rank that shares a communicator with this one; `layer_groups` are the parts
  /// of it whose ranks run a layer together. They outlive the ledger.
  explicit LaunchLedger(Communicator& gang, std::vector<Communicator*> layer_groups = {})
      : gang_(gang), layer_groups_(std::move(layer_groups)) {}

  /// Returns once all ranks are about to do the same. Throws DeviceError: on the odd rank with the
  /// disagreement's category, on the others with communicator_error, all with one text; with
  /// communicator_error too where a rank says something else than what it is about to launch.
  void agree(const LaunchIntent& intent);
  /// Before one pass through a layer, eager or replayed, which other stages make at other times:
  /// as `agree`, with the ranks that run the layer together. Does nothing where there are none.
  void agree_on_layer(const LaunchIntent& intent);
  const LaunchAgreements& agreements() const { return agreements_; }

 private:
  void agree_in(Communicator& group, const LaunchIntent& intent);
  void count(const LaunchIntent& intent, double milliseconds);

  Communicator& gang_;
  std::vector<Communicator*> layer_groups_;
  LaunchAgreements agreements_;
};

}  // namespace cgconform::workloads
