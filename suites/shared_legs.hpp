#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <string>

#include "matrix/cell.hpp"
#include "suites/leg_set.hpp"
#include "workloads/device/communicator.hpp"
#include "workloads/device/device.hpp"

namespace cgconform::suites {

/// Whose legs are asked for: what an eager leg depends on beside its problem and the device.
struct LegOwner {
  std::string cell;  ///< id
  std::uint64_t seed = 0;
  std::uint64_t gang = 0;   ///< its number; other ranks, or ranks in another order, are another
  std::string environment;  ///< of the process, as text
  workloads::Communicator* communicator = nullptr;  ///< null for a gang of one
};

/// Eager legs that were run and are kept on the device for later cells with the same problem (see
/// eager_problem.hpp), up to a number of bytes; the one not used for longest goes first. A cell
/// that asks twice for a leg repeats it, and gets a run of its own. All ranks of a gang take a kept
/// leg, or none does. Kept tensors are hashed, and hashed again before they are used: a cell that
/// wrote into them does not spoil another's.
class SharedLegs {
 public:
  using Run = std::function<workloads::LegRecord()>;

  SharedLegs(workloads::Device& device, std::int64_t most_bytes);
  ~SharedLegs();
  SharedLegs(const SharedLegs&) = delete;
  SharedLegs& operator=(const SharedLegs&) = delete;

  /// The leg of an earlier cell where there is one; otherwise runs it, and keeps it where it is
  /// eager, no repeat, and ended well.
  SourcedLeg take(const LegOwner& owner, const matrix::Cell& cell,
                  const workloads::LegRequest& request, const Run& run);

  std::int64_t kept_bytes() const { return kept_bytes_; }
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry;
  class Hasher;

  std::list<Entry>::iterator find(const LegOwner& owner, const matrix::Cell& problem,
                                  const workloads::LegRequest& request);
  /// True where this rank and all its peers have an unspoiled one.
  bool agree(const LegOwner& owner, bool available) const;
  void keep(Entry entry);

  std::unique_ptr<Hasher> hasher_;
  std::int64_t most_bytes_;
  std::int64_t kept_bytes_ = 0;
  std::list<Entry> entries_;  ///< the one used last stands first
};

}  // namespace cgconform::suites
