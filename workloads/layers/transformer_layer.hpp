#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/layers/layer.hpp"
#include "workloads/layers/layer_shape.hpp"

namespace cgconform::workloads {

/// A layer that is its modules, run in turn: each gives what the next one takes.
class ModularLayer : public Layer {
 public:
  explicit ModularLayer(std::string name) : name_(std::move(name)) {}

  std::string_view name() const override { return name_; }
  Buffer forward(LayerContext& context, const TensorView& input, SavedActivations& saved) override;
  Buffer backward(LayerContext& context, const TensorView& grad_output,
                  SavedActivations& saved) override;
  std::span<const Parameter> parameters() const override { return parameters_; }
  std::span<const LayerModule> modules() const override { return modules_; }

 protected:
  /// `scope` as graph scopes name the module.
  void append(std::string_view scope, std::unique_ptr<Layer> module);

 private:
  std::string name_;
  std::vector<Parameter> parameters_;
  std::vector<std::unique_ptr<Layer>> owned_;
  std::vector<LayerModule> modules_;
};

/// Parameters of a layer are numbered from a multiple of this on, those of its modules from
/// multiples of `parameters_a_module` after that.
constexpr std::uint64_t parameters_a_layer = 4096;
constexpr std::uint64_t parameters_a_module = 1024;

/// A pre-norm transformer layer: attention, then a dense MLP.
class TransformerLayer final : public ModularLayer {
 public:
  TransformerLayer(const std::string& name, const TransformerShape& shape,
                   const ModuleParameters& made_in);
};

}  // namespace cgconform::workloads
