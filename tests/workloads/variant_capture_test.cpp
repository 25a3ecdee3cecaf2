#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "tests/workloads/training_legs.hpp"
#include "tests/workloads/variant_cells.hpp"

namespace cgconform::workloads::testing {
namespace {

using matrix::CudaGraphImpl;
using matrix::CudaGraphModule;
using ::testing::IsEmpty;

matrix::Cell hybrid(matrix::Cell cell, std::string_view pattern = "M*M-") {
  cell.model_kind = matrix::ModelKind::hybrid_mamba;
  cell.config.is_hybrid_model = true;
  cell.config.hybrid_layer_pattern = *matrix::HybridPattern::parse(pattern);
  cell.config.num_layers = static_cast<std::int32_t>(pattern.size());
  return cell;
}

matrix::Cell grouped(matrix::Cell cell) {
  cell.config.num_query_groups = 1;
  return cell;
}

matrix::Cell latent(matrix::Cell cell) {
  cell.config.multi_latent_attention = true;
  cell.config.recompute_granularity = matrix::RecomputeGranularity::selective;
  cell.config.recompute_modules = matrix::RecomputeModules{matrix::RecomputeModule::mla_up_proj};
  return cell;
}

class VariantCapture : public OneRankLegs {
 protected:
  /// The graph leg of the cell equals its eager leg, and finds nothing wrong in it.
  void expect_equal(const matrix::Cell& cell) {
    const LegRecord expected = run(cell, instrumented_eager);
    const LegRecord actual = run(cell, instrumented_graph);
    EXPECT_FALSE(actual.graphs.empty());
    EXPECT_THAT(differences(bytes_of(expected, device()), bytes_of(actual, device()), false),
                IsEmpty());
    expect_no_findings(actual);
  }
};

constexpr CudaGraphImpl implementations[]{CudaGraphImpl::local, CudaGraphImpl::transformer_engine,
                                          CudaGraphImpl::full_iteration};

TEST_F(VariantCapture, OfAHybridModelEqualsEager) {
  for (const CudaGraphImpl impl : implementations) expect_equal(hybrid(small_cell(impl)));
}

TEST_F(VariantCapture, OfGroupedQueriesEqualsEager) {
  for (const CudaGraphImpl impl : implementations) expect_equal(grouped(small_cell(impl)));
}

TEST_F(VariantCapture, OfLatentAttentionWithRecomputeEqualsEager) {
  for (const CudaGraphImpl impl : implementations) expect_equal(latent(small_cell(impl)));
}

TEST_F(VariantCapture, OfPackedSequencesFollowsNewBorders) {
  for (const CudaGraphImpl impl : implementations) expect_equal(packed(small_cell(impl)));
}

TEST_F(VariantCapture, OfPackedSequencesInMambaLayersFollowsNewBorders) {
  for (const CudaGraphImpl impl : implementations) expect_equal(packed(hybrid(small_cell(impl))));
  const LegRecord record = run(packed(hybrid(small_cell(CudaGraphImpl::local), "M")),
                               instrumented_graph, Fault::f01e_sequence_borders_not_refreshed);
  EXPECT_GT(changed_slots(record, SlotKind::static_input), 0U);
}

TEST_F(VariantCapture, OfImagesBeforeTheTextEqualsEager) {
  for (const CudaGraphImpl impl : implementations) expect_equal(with_images(small_cell(impl), 3));
}

TEST_F(VariantCapture, AScopeSelectsTheLayersOfItsKind) {
  const auto captured = [&](CudaGraphImpl impl, matrix::CudaGraphScope scope) {
    matrix::Cell cell = hybrid(small_cell(impl));
    cell.config.cuda_graph_scope = scope;
    std::set<std::int32_t> layers;
    for (const GraphRecord& made : run(cell, graph).graphs) layers.insert(made.layer);
    return layers;
  };
  for (const CudaGraphImpl impl : {CudaGraphImpl::local, CudaGraphImpl::transformer_engine}) {
    EXPECT_EQ(captured(impl, {CudaGraphModule::mamba}), (std::set{0, 2}));
    EXPECT_EQ(captured(impl, {CudaGraphModule::attn}), (std::set{1}));
    EXPECT_EQ(captured(impl, {CudaGraphModule::attn, CudaGraphModule::mlp}), (std::set{1, 3}));
  }
}

TEST_F(VariantCapture, StaleBordersLeaveAChangedSlot) {
  for (const CudaGraphImpl impl : implementations) {
    const LegRecord record = run(packed(small_cell(impl)), instrumented_graph,
                                 Fault::f01e_sequence_borders_not_refreshed);
    EXPECT_GT(changed_slots(record, SlotKind::static_input), 0U);
  }
}

TEST_F(VariantCapture, AStaleScanStateChangesWhatIsTapped) {
  const matrix::Cell cell = hybrid(small_cell(CudaGraphImpl::local));
  const LegRecord expected = run(cell, instrumented_eager);
  const LegRecord actual = run(cell, instrumented_graph, Fault::f02f_scan_state_zeroed_outside);
  const auto texts = differences(bytes_of(expected, device()), bytes_of(actual, device()), false);
  EXPECT_TRUE(std::any_of(texts.begin(), texts.end(), [](const std::string& text) {
    return text.find("scan_state:start") != std::string::npos;
  }));
}

}  // namespace
}  // namespace cgconform::workloads::testing
