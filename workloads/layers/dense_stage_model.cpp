#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "matrix/error.hpp"
#include "matrix/layer_modules.hpp"
#include "matrix/moe_layers.hpp"
#include "matrix/virtual_stages.hpp"
#include "workloads/layers/fp8_state.hpp"
#include "workloads/layers/layer_ops.hpp"
#include "workloads/layers/model_type.hpp"
#include "workloads/layers/moe_layer.hpp"
#include "workloads/layers/parameter_store.hpp"
#include "workloads/layers/shared_rows.hpp"
#include "workloads/layers/transformer_layer.hpp"
#include "workloads/layers/vision_encoder.hpp"
#include "workloads/ops/embedding_and_loss.hpp"
#include "workloads/training/data_loader.hpp"
#include "workloads/training/stage_model.hpp"
#include "workloads/training/tensor_ops.hpp"

namespace cgconform::workloads {

namespace {

constexpr ParameterInit table_init{0.0F, 0.5F};
constexpr ParameterInit head_init{0.0F, 0.2F};

/// Numbers of the parameters outside of layers; layers follow.
enum ParameterNumber : std::uint64_t {
  token_table_number,
  position_table_number,
  final_norm_weight_number,
  final_norm_bias_number,
  output_weight_number,
  first_vision_number = 64,
  first_layer_number = parameters_a_layer,
};

TransformerShape layer_shape(const matrix::Cell& cell) {
  const matrix::TrainingConfig& config = cell.config;
  if (config.hidden_size % config.num_attention_heads != 0) {
    throw Error(fmt::format("hidden_size {} is not a multiple of num_attention_heads {}",
                            config.hidden_size, config.num_attention_heads));
  }
  const std::int32_t parts = config.tensor_model_parallel_size;
  for (const auto& [value, name] : {std::pair{config.num_attention_heads, "num_attention_heads"},
                                    std::pair{cell.shape.ffn_hidden_size, "ffn_hidden_size"}}) {
    if (value % parts == 0) continue;
    throw Error(fmt::format("{} {} is not a multiple of tensor_model_parallel_size {}", name, value,
                            parts));
  }
  if (config.sequence_parallel && config.seq_length % parts != 0) {
    throw Error(
        fmt::format("seq_length {} is not a multiple of tensor_model_parallel_size {}, by "
                    "which sequence_parallel divides it",
                    config.seq_length, parts));
  }
  if (const std::int32_t groups = config.num_query_groups.value_or(config.num_attention_heads);
      groups < 1 || config.num_attention_heads % groups != 0 || groups % parts != 0) {
    throw Error(
        fmt::format("num_query_groups {} does not divide num_attention_heads {}, or is not "
                    "a multiple of tensor_model_parallel_size {}",
                    groups, config.num_attention_heads, parts));
  }
  TransformerShape shape;
  shape.sequences = config.micro_batch_size;
  shape.length = config.seq_length;
  shape.hidden = config.hidden_size;
  shape.heads = config.num_attention_heads;
  shape.groups = config.num_query_groups.value_or(0);
  shape.latent = config.multi_latent_attention;
  shape.ffn_hidden = cell.shape.ffn_hidden_size;
  shape.attention_dropout = config.attention_dropout;
  shape.hidden_dropout = config.hidden_dropout;
  shape.bias = config.add_bias_linear;
  return shape;
}

/// About how many elements the parameters of a stage have, their alignment
/// included.
std::int64_t expected_elements(const matrix::Cell& cell) {
  constexpr std::int64_t slack = 512;  // of a tensor: the smallest ones are aligned, too
  constexpr std::int64_t tensors_a_layer = 12;
  constexpr std::int64_t other_tensors = 5;
  const std::int64_t hidden = cell.config.hidden_size;
  const std::int64_t ffn = cell.shape.ffn_hidden_size;
  const std::int64_t parts = cell.config.tensor_model_parallel_size;
  const std::int64_t layers = cell.config.num_layers / cell.config.pipeline_model_parallel_size;
  const std::int64_t a_layer = 4 * hidden * hidden + 2 * hidden * ffn + 9 * hidden + ffn;
  const std::int64_t tables =
      (2 * std::int64_t{cell.shape.vocab_size} + cell.config.seq_length) * hidden;
  return layers * (a_layer / parts + tensors_a_layer * slack) + tables + other_tensors * slack;
}

/// Embedding, transformer layers, final norm and output projection, as far as
/// the stage has them.
class DenseStageModel final : public StageModel {
 public:
  DenseStageModel(const matrix::Cell& cell, std::uint64_t seed, int stage,
                  CachingAllocator& allocator, Stream& stream, const LayerGroups& groups)
      : cell_(cell),
        grad_scale_(1.0F / static_cast<float>(cell.config.num_microbatches *
                                              cell.config.data_parallel_size)),
        shape_(layer_shape(cell)),
        tensor_(groups.tensor, cell.config.sequence_parallel),
        expert_group_(groups.expert),
        store_(allocator, stream, model_type(cell), seed, expected_elements(cell)) {
    store_.defer_initialisation();
    const std::vector<matrix::VirtualStage> parts = matrix::virtual_stages(cell, stage);
    if (cell.config.fp8 != matrix::Fp8Format::none) {
      fp8_.emplace(cell, allocator, stream, groups.amax);
    }
    const std::int64_t hidden = shape_.hidden;
    const std::int64_t vocabulary = cell.shape.vocab_size;
    if (parts.front().first) {
      token_table_ = add(ModelPart::embedding, "embedding.word_embeddings.weight",
                         {vocabulary, hidden}, table_init, token_table_number);
      position_table_ = add(ModelPart::embedding, "embedding.position_embeddings.weight",
                            {shape_.length, hidden}, table_init, position_table_number);
      if (cell.shape.image_tokens > 0) add_vision();
    }
    for (const matrix::VirtualStage& part : parts) {
      for (std::int32_t layer = part.first_layer; layer < part.end_layer; ++layer) {
        add_layer(layer, matrix::modules_of_layer(cell.config, layer));
      }
    }
    if (parts.back().last) {
      final_norm_weight_ = add(ModelPart::head, "final_layernorm.weight", {hidden},
                               norm_weight_init, final_norm_weight_number);
      final_norm_bias_ =
          add(ModelPart::head, "final_layernorm.bias", {hidden}, bias_init, final_norm_bias_number);
      for (const std::size_t norm : {parameters_.size() - 2, parameters_.size() - 1}) {
        parameters_[norm].parameter.partial_gradient = tensor_.shares_rows();
      }
      output_weight_ = add(ModelPart::head, "output_layer.weight", {vocabulary, hidden}, head_init,
                           output_weight_number);
    }
    store_.initialise();
    if (fp8_) fp8_->initialise();
    std::span<Layer* const> rest(layer_views_);
    for (const matrix::VirtualStage& part : parts) {
      const auto count = static_cast<std::size_t>(part.end_layer - part.first_layer);
      chunks_.push_back({part.first_layer, rest.first(count), part.first, part.last});
      rest = rest.subspan(count);
    }
  }

  Fp8State* fp8() override { return fp8_ ? &*fp8_ : nullptr; }
  std::span<const ModelChunk> chunks() const override { return chunks_; }
  std::span<Layer* const> layers() const override { return layer_views_; }
  std::span<const StageParameter> parameters() const override { return parameters_; }
  std::span<const ParameterChunk> parameter_chunks() const override { return store_.chunks(); }

  Buffer embed(LayerContext& context, const ModelInput& input) override {
    Buffer output = make_buffer(context, token_table_.weight.dtype,
                                {input.tokens.shape[0], shape_.hidden}, "embedding");
    embedding_forward(context.stream, output.view(), input.tokens, token_table_.weight,
                      position_table_.weight, op_label(context, "embedding"));
    if (vision_) {
      SavedActivations dropped;
      const Buffer images = vision_->forward(context, input.images, dropped);
      for_each_image(images.view(), output.view(),
                     [&](const TensorView& image, const TensorView& at) {
                       context.stream.copy(at, image, op_label(context, "image before the text"));
                     });
    }
    if (!tensor_.shares_rows()) return output;
    const TensorView own = own_rows(tensor_, output.view());
    Buffer share = make_buffer(context, own.dtype, own.shape, "own rows");
    context.stream.copy(share.view(), own, op_label(context, "own rows"));
    return share;
  }

  void embed_backward(LayerContext& context, const ModelInput& input,
                      const TensorView& grad_output) override {
    Buffer gathered;
    TensorView grad = gather_rows(context, tensor_, grad_output, gathered, "embedding backward");
    Buffer of_text;
    if (vision_) {
      of_text = make_buffer(context, grad.dtype, grad.shape, "embedding");
      context.stream.copy(of_text.view(), grad, op_label(context, "text backward"));
      const Buffer of_images = make_buffer(
          context, grad.dtype, {input.images.shape[0], shape_.hidden}, "image before the text");
      const std::string label = op_label(context, "image backward");
      for_each_image(of_images.view(), of_text.view(),
                     [&](const TensorView& image, const TensorView& at) {
                       context.stream.copy(image, at, label);
                       context.stream.fill(at, 0, label);
                     });
      vision_->backward(context, input.images, of_images.view());
      grad = of_text.view();
    }
    embedding_backward(context.stream, token_table_.main_grad, position_table_.main_grad,
                       input.tokens, grad, op_label(context, "embedding backward"));
  }

  Buffer loss(LayerContext& context, const TensorView& hidden, const TensorView& labels,
              const TensorView& loss_mask, SavedActivations& saved) override {
    Buffer normed = norm_forward(context, hidden, final_norm_weight_, final_norm_bias_, saved,
                                 "final_layernorm");
    if (tensor_.shares_rows()) {
      Buffer gathered;
      gather_rows(context, tensor_, normed.view(), gathered, "final_layernorm");
      normed = std::move(gathered);
    }
    const Buffer logits =
        linear_forward(context, normed.view(), output_weight_, nullptr, "output_layer");
    keep(context, saved, "final_layernorm.output", std::move(normed));
    const DType dtype = arithmetic_type(logits.view().dtype);
    Buffer probabilities = make_buffer(context, dtype, logits.view().shape, "loss.probabilities");
    Buffer loss = make_buffer(context, dtype, {}, "loss");
    cross_entropy_forward(context.stream, loss.view(), probabilities.view(), logits.view(), labels,
                          loss_mask, op_label(context, "loss"));
    keep(context, saved, "loss.probabilities", std::move(probabilities));
    return loss;
  }

  Buffer loss_backward(LayerContext& context, const TensorView& labels, const TensorView& loss_mask,
                       const TensorView& loss_scale, SavedActivations& saved) override {
    const TensorView probabilities = saved.at("loss.probabilities");
    const Buffer grad_logits =
        make_buffer(context, output_weight_.weight.dtype, probabilities.shape, "logits");
    cross_entropy_backward(context.stream, grad_logits.view(), probabilities, labels, loss_mask,
                           loss_scale, grad_scale_, op_label(context, "loss backward"));
    const Buffer grad_normed =
        linear_backward(context, grad_logits.view(), saved.at("final_layernorm.output"),
                        output_weight_, nullptr, "output_layer");
    // The output layer is whole on every rank, and so is the gradient of its input.
    return norm_backward(context, own_rows(tensor_, grad_normed.view()), final_norm_weight_,
                         final_norm_bias_, saved, "final_layernorm");
  }

 private:
  Parameter add(ModelPart part, const char* name, const Shape& shape, const ParameterInit& init,
                std::uint64_t number) {
    Parameter parameter = store_.add(name, shape, init, number);
    parameters_.push_back({parameter.name, -1, parameter, part});
    return parameter;
  }

  /// Calls visit(rows of the image, its rows among all) for every sequence.
  template <typename Visit>
  void for_each_image(const TensorView& images, const TensorView& all, const Visit& visit) const {
    const std::int64_t sequences = shape_.sequences_of(all.shape[0]);
    const std::int64_t rows = images.shape[0] / sequences;
    for (std::int64_t sequence = 0; sequence < sequences; ++sequence) {
      visit(rows_of(images, sequence * rows, rows), rows_of(all, sequence * shape_.length, rows));
    }
  }

  void add_vision() {
    vision_ = std::make_unique<VisionEncoder>(shape_, patch_size,
                                              ModuleParameters{store_, first_vision_number});
    for (const Parameter& parameter : vision_->parameters()) {
      parameters_.push_back({parameter.name, -1, parameter, ModelPart::embedding});
    }
  }

  void add_layer(std::int32_t index, matrix::CudaGraphScope modules) {
    const std::uint64_t number =
        first_layer_number + static_cast<std::uint64_t>(index) * parameters_a_layer;
    const std::string name = fmt::format("layers.{}", index);
    const ModuleParameters made_in{store_, number, tensor_, fp8()};
    std::unique_ptr<Layer> layer;
    if (matrix::is_moe_layer(cell_, index)) {
      layer = std::make_unique<MoeTransformerLayer>(name, shape_, moe_shape(cell_, expert_group_),
                                                    made_in, !cell_.config.is_hybrid_model);
    } else {
      layer = make_layer(name, modules, shape_, made_in);
    }
    for (const Parameter& parameter : layer->parameters()) {
      parameters_.push_back({fmt::format("layers.{}.{}", index, parameter.name), index, parameter});
    }
    layer_views_.push_back(layer.get());
    layers_.push_back(std::move(layer));
  }

  const matrix::Cell& cell_;
  float grad_scale_ = 1.0F;
  TransformerShape shape_;
  TensorParallel tensor_;
  Communicator* expert_group_ = nullptr;
  ParameterStore store_;
  std::optional<Fp8State> fp8_;
  Parameter token_table_;
  Parameter position_table_;
  Parameter final_norm_weight_;
  Parameter final_norm_bias_;
  Parameter output_weight_;
  std::unique_ptr<VisionEncoder> vision_;  ///< null where sequences begin with text
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<Layer*> layer_views_;
  std::vector<ModelChunk> chunks_;
  std::vector<StageParameter> parameters_;
};

}  // namespace

std::unique_ptr<StageModel> make_stage_model(const matrix::Cell& cell, std::uint64_t seed,
                                             int stage, CachingAllocator& allocator, Stream& stream,
                                             const LayerGroups& groups) {
  return std::make_unique<DenseStageModel>(cell, seed, stage, allocator, stream, groups);
}

}  // namespace cgconform::workloads
