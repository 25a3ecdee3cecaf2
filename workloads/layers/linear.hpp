#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

/// Which parameters a linear layer has, and how it multiplies; see the two kinds below.
class Linear {
 public:
  void append_to(std::vector<Parameter>& parameters) const;

 protected:
  Linear(LinearDeclaration declaration, const ModuleParameters& made_in,
         const ParameterShard& weight_shard, const ParameterShard& bias_shard);

  const std::string& name() const { return declaration_.name; }
  const TensorParallel& tensor() const { return tensor_; }
  const Parameter& weight() const { return weight_; }
  const Parameter* bias() const { return declaration_.bias ? &bias_ : nullptr; }

 private:
  LinearDeclaration declaration_;
  TensorParallel tensor_;
  Parameter weight_;
  Parameter bias_;
};

/// Every rank of the group has the whole input and gives an equal share of the outputs; the
/// gradient of the input is summed up over the ranks.
class ColumnParallelLinear : public Linear {
 public:
  /// Where the outputs are several sections side by side, as queries, keys and values are, each is
  /// shared out; `sections` are their widths in the whole model.
  ColumnParallelLinear(LinearDeclaration declaration, const ModuleParameters& made_in,
                       const std::vector<std::int64_t>& sections = {});

  Buffer forward(LayerContext& context, const TensorView& x) const;
  Buffer backward(LayerContext& context, const TensorView& grad_output, const TensorView& x) const;
};

/// Every rank of the group has an equal share of the input's columns; outputs are summed up over
/// the ranks, and the bias is added to the sum.
class RowParallelLinear : public Linear {
 public:
  RowParallelLinear(LinearDeclaration declaration, const ModuleParameters& made_in);

  /// True where `forward` can add a residual: the rank has the whole output, and a bias.
  bool adds_residual() const { return !tensor().splits() && bias() != nullptr; }
  /// A valid `residual` is added to the output.
  Buffer forward(LayerContext& context, const TensorView& x, const TensorView& residual = {}) const;
  Buffer backward(LayerContext& context, const TensorView& grad_output, const TensorView& x) const;
};

}  // namespace cgconform::workloads
