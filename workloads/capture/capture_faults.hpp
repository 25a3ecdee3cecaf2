#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "workloads/layers/layer.hpp"
#include "workloads/training/leg_context.hpp"

namespace cgconform::workloads {

/// A record that a captured host callback reads, on the host. `freed` is set by the callback.
struct HostRecord {
  std::vector<std::byte> values;
  std::vector<std::byte> staging;  ///< pinned block that the captured upload reads
  std::atomic<bool> freed{false};
};

/// The named places at which a captured body, or what surrounds its replay, can be made wrong. With
/// every switch off each method does the right thing. Eager bodies never come here: an eager leg is
/// the reference.
class CaptureFaults {
 public:
  explicit CaptureFaults(LegContext& context) : context_(context) {}
  ~CaptureFaults();
  CaptureFaults(const CaptureFaults&) = delete;
  CaptureFaults& operator=(const CaptureFaults&) = delete;

  // Before and around the capture of one graph.
  void before_capture(PoolId pool);
  void at_capture_start();
  /// After the last graph of a pool was captured.
  void after_last_capture(PoolId pool);
  void before_launch();

  // The workspace that gathers a gradient.
  TensorView workspace(PoolId pool, const TensorView& like, Buffer& holder);
  void zero_workspace(const TensorView& workspace, const TensorView& zeros, PoolId pool);
  std::int64_t branches(std::int64_t rows) const;
  /// True where branch number `branch` does not wait for the workspace to be zeroed.
  bool drops_wait(std::int64_t branch) const;
  bool frees_before_join() const { return context_.fault(Fault::f17b_free_without_edge); }

  // The weight gradients of a captured backward.
  void before_layer_backward(const Layer& layer, std::int32_t index, PoolId pool);
  void after_layer_backward(const Layer& layer, std::int32_t index);
  void after_gradients_hashed(const Layer& layer, PoolId pool);

  /// Memory at the address of a captured temporary, taken from the pool after the captures (F02a).
  std::optional<Buffer> take_canary() { return std::exchange(canary_, std::nullopt); }
  /// The table that captured bodies believe to be long-lived (F02d); invalid where there is none.
  const std::optional<Block>& table_in_pool() const { return table_block_; }
  const std::vector<std::unique_ptr<HostRecord>>& host_records() const { return host_records_; }
  /// Label of the nodes that run the callbacks of `host_records`.
  static constexpr const char* host_record_label = "workspace host record";

 private:
  void upload_zeros_from_record(const TensorView& workspace);

  LegContext& context_;
  Buffer random_state_;  ///< at capture (F07c)
  std::optional<Block> table_block_;
  TensorView table_view_;
  std::vector<TensorView> temporaries_;
  std::vector<Buffer> kept_workspaces_;  ///< made before the captures that use them (F02c)
  std::optional<Segment> mapped_;
  std::optional<Buffer> canary_;
  std::vector<std::unique_ptr<HostRecord>> host_records_;
  std::int32_t left_out_layer_ = -1;
  Buffer left_out_;
};

}  // namespace cgconform::workloads
