#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "matrix/cell.hpp"
#include "workloads/device/device.hpp"
#include "workloads/training/leg_record.hpp"
#include "workloads/training/return_point.hpp"

namespace cgconform::workloads {

class FaultSwitches;

/// How a training that returned early was cleaned up, and what the device was good for afterwards.
struct EarlyReturn {
  std::string ended;     ///< how else it ended; empty where it returned at its point
  std::string kept;      ///< what the leg still holds after its teardown; empty where nothing
  std::string left;      ///< what is left of it in the end; empty where nothing
  std::string again;     ///< what is wrong with the same training run anew; empty where it is right
  double seconds = 0.0;  ///< from the return to the end of the teardown
};

/// A cell trained from graphs, undisturbed at first; then it returns early again and again. All
/// ranks of `gang`, which may be null, do the same.
class EarlyReturnTrial {
 public:
  EarlyReturnTrial(Device& device, Communicator* gang, const matrix::Cell& cell,
                   std::uint64_t seed);

  /// Why the undisturbed training says nothing; empty where it is well.
  const std::string& trouble() const { return trouble_; }
  /// Seconds that the undisturbed training took, its teardown with it.
  double undisturbed_seconds() const { return undisturbed_seconds_; }
  /// Returns from the training at `point`, looks, and runs it again to its end. `faults`, which may
  /// be null, concern the training that returns.
  EarlyReturn run(ReturnPoint point, const FaultSwitches* faults);

 private:
  /// Losses and weights of all steps.
  using Results = std::map<std::tuple<ObservedQuantity, std::int32_t, std::int32_t, std::string>,
                           std::vector<std::byte>>;

  Results results_of(const LegRecord& record);
  /// What is wrong with the same training run to its end.
  std::string train_again();

  Device& device_;
  Communicator* gang_;
  const matrix::Cell& cell_;
  std::uint64_t seed_;
  Results expected_;
  std::string trouble_;
  double undisturbed_seconds_ = 0.0;
};

}  // namespace cgconform::workloads
