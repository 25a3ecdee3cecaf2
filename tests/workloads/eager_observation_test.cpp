#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/workloads/training_legs.hpp"

namespace cgconform::workloads::testing {
namespace {

class EagerObservation : public OneRankLegs {
 protected:
  /// An eager leg copies what it observes at the end of a pass, an instrumented one at once.
  std::vector<std::string> differences_from_instrumented(const matrix::Cell& cell) {
    const LegRecord at_once = run(cell, instrumented_eager);
    const LegRecord at_end = run(cell, eager);
    EXPECT_EQ(count_of(at_end, ObservedQuantity::layer_output),
              static_cast<std::size_t>(cell.config.num_layers * cell.config.num_microbatches *
                                       cell.shape.steps));
    return differences(bytes_of(at_once, device()), bytes_of(at_end, device()), false);
  }
};

TEST_F(EagerObservation, IsOfTheValuesThatLayersGave) {
  EXPECT_EQ(differences_from_instrumented(small_cell()), std::vector<std::string>{});
}

TEST_F(EagerObservation, IsOfTheValuesThatLayersGaveWhereTheyAreGivenBackAtOnce) {
  matrix::Cell cell = small_cell();
  cell.config.num_layers = 4;
  cell.config.recompute_granularity = matrix::RecomputeGranularity::full;
  cell.config.recompute_method = matrix::RecomputeMethod::uniform;
  cell.config.recompute_num_layers = 4;
  EXPECT_EQ(differences_from_instrumented(cell), std::vector<std::string>{});
}

}  // namespace
}  // namespace cgconform::workloads::testing
