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

/// Runs modules in turn: each gives what the next one takes.
Buffer forward_modules(std::span<const LayerModule> modules, LayerContext& context,
                       const TensorView& input, SavedActivations& saved);
Buffer backward_modules(std::span<const LayerModule> modules, LayerContext& context,
                        const TensorView& grad_output, SavedActivations& saved);
bool any_delays_wgrads(std::span<const LayerModule> modules);

/// Neighbouring modules of a layer, which owns them, as a layer of their own.
class LayerSection final : public Layer {
 public:
  explicit LayerSection(std::span<const LayerModule> modules);

  /// The scopes of the modules: "attn+moe_router".
  std::string_view name() const override { return scope_; }
  Buffer forward(LayerContext& context, const TensorView& input, SavedActivations& saved) override {
    return forward_modules(modules_, context, input, saved);
  }
  Buffer backward(LayerContext& context, const TensorView& grad_output,
                  SavedActivations& saved) override {
    return backward_modules(modules_, context, grad_output, saved);
  }
  std::span<const Parameter> parameters() const override { return parameters_; }
  std::int64_t output_bytes() const override { return modules_.back().layer->output_bytes(); }
  std::int64_t grad_output_bytes() const override {
    return modules_.back().layer->grad_output_bytes();
  }
  bool reads_input_again() const override { return modules_.front().layer->reads_input_again(); }
  bool can_delay_wgrads() const override { return any_delays_wgrads(modules_); }
  std::span<const LayerModule> modules() const override { return modules_; }

 private:
  std::string scope_;
  std::span<const LayerModule> modules_;
  std::vector<Parameter> parameters_;
};

/// A layer that is its modules, run in turn.
class ModularLayer : public Layer {
 public:
  explicit ModularLayer(std::string name) : name_(std::move(name)) {}

  std::string_view name() const override { return name_; }
  Buffer forward(LayerContext& context, const TensorView& input, SavedActivations& saved) override {
    return forward_modules(modules_, context, input, saved);
  }
  Buffer backward(LayerContext& context, const TensorView& grad_output,
                  SavedActivations& saved) override {
    return backward_modules(modules_, context, grad_output, saved);
  }
  std::span<const Parameter> parameters() const override { return parameters_; }
  bool can_delay_wgrads() const override { return any_delays_wgrads(modules_); }
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

/// A layer of a hybrid model: one module, attention, MLP or Mamba.
class HybridModelLayer final : public ModularLayer {
 public:
  HybridModelLayer(const std::string& name, matrix::CudaGraphModule module,
                   const TransformerShape& shape, const ModuleParameters& made_in);
};

/// The layer that has the given modules.
std::unique_ptr<Layer> make_layer(const std::string& name, matrix::CudaGraphScope modules,
                                  const TransformerShape& shape, const ModuleParameters& made_in);

}  // namespace cgconform::workloads
