#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/layers/fp8_linear.hpp"
#include "workloads/layers/layer.hpp"
#include "workloads/layers/layer_shape.hpp"

namespace cgconform::workloads {

/// What a linear layer is made from: in the whole model it takes `inputs` columns and gives
/// `outputs`. Numbers count from the module's first.
struct LinearDeclaration {
  std::string name;  ///< "mlp.linear_fc1"
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  bool bias = true;
  std::uint64_t weight_number = 0;
  std::uint64_t bias_number = 0;
};

/// Which parameters a linear layer has, and how it multiplies; see the kinds below.
class Linear {
 public:
  void append_to(std::vector<Parameter>& parameters) const;

 protected:
  Linear(LinearDeclaration declaration, const ModuleParameters& made_in,
         const ParameterShard& weight_shard, const ParameterShard& bias_shard);

  const std::string& name() const { return declaration_.name; }
  /// See Parameter.
  void mark_partial_gradients() { weight_.partial_gradient = bias_.partial_gradient = true; }
  const TensorParallel& tensor() const { return tensor_; }
  /// x weight^T, plus the bias where `with_bias` and there is one, plus `residual` where it is
  /// valid; see `adds_residual`.
  Buffer multiply(LayerContext& context, const TensorView& x, bool with_bias,
                  const TensorView& residual = {}) const;
  /// Adds the bias in place, where there is one.
  void add_bias_to(LayerContext& context, const TensorView& y) const;
  /// Adds the parameters' gradients and returns the gradient of x.
  Buffer multiply_backward(LayerContext& context, const TensorView& grad_output,
                           const TensorView& x) const;
  /// True where `multiply` can add a residual.
  bool adds_residual() const { return declaration_.bias && !fp8_; }

 private:
  const Parameter* bias() const { return declaration_.bias ? &bias_ : nullptr; }

  LinearDeclaration declaration_;
  TensorParallel tensor_;
  Parameter weight_;
  Parameter bias_;
  std::optional<Fp8Linear> fp8_;  ///< where products are in 8 bits
};

/// Every rank of the group takes the whole input and gives an equal share of the outputs; the
/// gradient of the input is summed up over the ranks. Where they share rows, the input is gathered
/// first, in the backward once more, and each rank keeps its rows of the gradient.
class ColumnParallelLinear : public Linear {
 public:
  /// Where the outputs are several sections side by side, as queries, keys and values are, each is
  /// shared out; `sections` are their widths in the whole model.
  ColumnParallelLinear(LinearDeclaration declaration, const ModuleParameters& made_in,
                       const std::vector<std::int64_t>& sections = {});

  Buffer forward(LayerContext& context, const TensorView& x) const;
  Buffer backward(LayerContext& context, const TensorView& grad_output, const TensorView& x) const;
};

/// Every rank has the whole weight and does the same, each with its own rows where they share them:
/// then its gradients of parameters are summands of those of the group.
class DuplicatedLinear : public Linear {
 public:
  DuplicatedLinear(LinearDeclaration declaration, const ModuleParameters& made_in);

  Buffer forward(LayerContext& context, const TensorView& x) const;
  Buffer backward(LayerContext& context, const TensorView& grad_output, const TensorView& x) const;
};

/// What the ranks of a group have of the outputs of a linear layer.
enum class OutputShare : std::uint8_t { equal, whole };

/// One of several linear layers with the same input, which their owner gathers for all of them, and
/// whose gradient it sums up over the ranks once. A rank gives its share of the outputs. Where that
/// is all of them, its gradients, of outputs and of weights, are summands of those of the group.
class SharedInputLinear : public Linear {
 public:
  SharedInputLinear(LinearDeclaration declaration, const ModuleParameters& made_in,
                    OutputShare share);

  Buffer forward(LayerContext& context, const TensorView& x) const;
  /// The rank's summand of the gradient of x.
  Buffer backward(LayerContext& context, const TensorView& grad_output, const TensorView& x) const;
};

/// Every rank of the group has an equal share of the input's columns; outputs are summed up over
/// the ranks, and the bias is added to the sum. Where they share rows, each rank keeps its own of
/// the sum, and the gradient of the output is gathered.
class RowParallelLinear : public Linear {
 public:
  RowParallelLinear(LinearDeclaration declaration, const ModuleParameters& made_in);

  /// True where `forward` can add a residual: the rank has the whole output, and a bias, and the
  /// product is not in 8 bits.
  bool adds_residual() const { return !tensor().splits() && Linear::adds_residual(); }
  /// A valid `residual` is added to the output.
  Buffer forward(LayerContext& context, const TensorView& x, const TensorView& residual = {}) const;
  Buffer backward(LayerContext& context, const TensorView& grad_output, const TensorView& x) const;
};

}  // namespace cgconform::workloads
