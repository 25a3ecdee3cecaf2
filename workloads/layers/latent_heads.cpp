#include "workloads/layers/latent_heads.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "workloads/layers/checkpoint.hpp"
#include "workloads/layers/delayed_wgrads.hpp"
#include "workloads/layers/layer_ops.hpp"
#include "workloads/ops/attention.hpp"
#include "workloads/ops/elementwise.hpp"

namespace cgconform::workloads {

namespace {

using matrix::RecomputeModule;

/// Parameters of a path are numbered from a multiple of this on.
constexpr std::uint64_t numbers_a_path = 4;

std::string latent_name(const char* path) {
  return std::string("self_attention.") + path + "_latent";
}

}  // namespace

LatentHeads::LatentHeads(const TransformerShape& shape, const ModuleParameters& made_in)
    : shape_(shape),
      paths_{make_path("q", shape.hidden, made_in, made_in.first_number),
             make_path("kv", 2 * std::int64_t{shape.hidden}, made_in,
                       made_in.first_number + numbers_a_path)} {}

LatentHeads::Path LatentHeads::make_path(const char* name, std::int64_t heads_wide,
                                         const ModuleParameters& made_in,
                                         std::uint64_t first_number) {
  const std::int64_t hidden = shape_.hidden;
  const std::int64_t latent = std::max<std::int64_t>(hidden / 2, 1);
  const std::string prefix = std::string("self_attention.linear_") + name;
  const auto added = [&](const std::string& parameter, const Shape& extents,
                         const ParameterInit& init, std::uint64_t number) {
    return parameters_.emplace_back(
        made_in.store.add(parameter, extents, init, first_number + number));
  };
  Path path;
  path.name = name;
  path.down = added(prefix + "_down_proj.weight", {latent, hidden}, weight_init(hidden), 0);
  path.norm_weight = added(prefix + "_layernorm.weight", {latent}, norm_weight_init, 1);
  path.norm_bias = added(prefix + "_layernorm.bias", {latent}, bias_init, 2);
  path.up = added(prefix + "_up_proj.weight", {heads_wide, latent}, weight_init(latent), 3);
  return path;
}

void LatentHeads::append_to(std::vector<Parameter>& parameters) const {
  parameters.insert(parameters.end(), parameters_.begin(), parameters_.end());
}

HeadBuffers LatentHeads::forward(LayerContext& context, const TensorView& normed,
                                 SavedActivations& saved) const {
  std::array<Buffer, 2> latents;
  SavedActivations lent;
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    const Path& path = paths_[i];
    const std::string name = latent_name(path.name);
    const Buffer down = linear_forward(context, normed, path.down, nullptr, name + ".down");
    latents[i] = norm_forward(context, down.view(), path.norm_weight, path.norm_bias, saved, name);
    lent.borrow(name, latents[i].view());
  }
  HeadBuffers heads = up(context, lent);
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    keep(context, saved, latent_name(paths_[i].name), std::move(latents[i]));
  }
  return heads;
}

HeadBuffers LatentHeads::up(LayerContext& context, const SavedActivations& saved) const {
  const std::int64_t head_size = shape_.hidden / shape_.heads;
  HeadBuffers heads;
  for (const Path& path : paths_) {
    const TensorView latent = saved.at(latent_name(path.name));
    const std::int32_t sequences = shape_.sequences_of(latent.shape[0]);
    const Shape per_head{std::int64_t{sequences} * shape_.heads, shape_.length, head_size};
    const Buffer wide =
        linear_forward(context, latent, path.up, nullptr, latent_name(path.name) + ".up");
    const bool query = &path == &paths_[query_path];
    const std::int32_t parts = query ? 1 : 2;
    for (std::int32_t part = 0; part < parts; ++part) {
      const auto index = static_cast<std::size_t>(query ? 0 : 1 + part);
      heads[index] = make_buffer(context, latent.dtype, per_head, head_names[index]);
      split_heads(context.stream, heads[index].view(), wide.view(), sequences, part, parts,
                  op_label(context, head_names[index]));
    }
  }
  return heads;
}

void LatentHeads::keep_or_discard(LayerContext& context, HeadBuffers heads,
                                  SavedActivations& saved) const {
  if (recomputes(context, RecomputeModule::mla_up_proj)) return;
  for (std::size_t part = 0; part < heads.size(); ++part) {
    keep(context, saved, head_names[part], std::move(heads[part]));
  }
}

void LatentHeads::recompute(LayerContext& context, SavedActivations& saved) const {
  if (saved.contains(head_names[0])) return;
  LayerContext again = recompute_context(context);
  HeadBuffers heads = up(again, saved);
  for (std::size_t part = 0; part < heads.size(); ++part) {
    saved.keep(head_names[part], std::move(heads[part]));
  }
}

Buffer LatentHeads::backward(LayerContext& context, const HeadBuffers& grad_heads,
                             const TensorView& normed, const SavedActivations& saved) const {
  const std::int32_t sequences = shape_.sequences_of(normed.shape[0]);
  Buffer grad_normed;
  for (const Path& path : paths_) {
    const std::string name = latent_name(path.name);
    const bool query = &path == &paths_[query_path];
    const TensorView latent = saved.at(name);
    Buffer grad_wide = make_buffer(context, normed.dtype,
                                   {normed.shape[0], path.up.weight.shape[0]}, name + ".up");
    const std::string label = op_label(context, name) + " backward";
    if (query) {
      merge_heads(context.stream, grad_wide.view(), std::array{grad_heads[0].view()}, sequences,
                  label);
    } else {
      merge_heads(context.stream, grad_wide.view(),
                  std::array{grad_heads[1].view(), grad_heads[2].view()}, sequences, label);
    }
    const Buffer grad_latent =
        linear_backward(context, grad_wide.view(), latent, path.up, nullptr, name + ".up");
    Buffer grad_down =
        norm_backward(context, grad_latent.view(), path.norm_weight, path.norm_bias, saved, name);
    Buffer grad_path =
        linear_backward(context, grad_down.view(), normed, path.down, nullptr, name + ".down");
    keep_for_wgrads(context, grad_wide);
    keep_for_wgrads(context, grad_down);
    if (query) {
      grad_normed = std::move(grad_path);
    } else {
      accumulate(context.stream, grad_normed.view(), grad_path.view(), label);
    }
  }
  return grad_normed;
}

}  // namespace cgconform::workloads
