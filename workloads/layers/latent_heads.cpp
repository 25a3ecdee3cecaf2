#include "workloads/layers/latent_heads.hpp"

#include <algorithm>
#include <numeric>
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

/// Numbers of the parameters of a path after its first.
enum Number : std::uint64_t { down_number, norm_weight_number, norm_bias_number, up_number };

std::string latent_name(const char* path) {
  return std::string("self_attention.") + path + "_latent";
}

std::string linear_prefix(const char* path) {
  return std::string("self_attention.linear_") + path;
}

std::int64_t latent_size(const TransformerShape& shape) {
  return std::max<std::int64_t>(shape.hidden / 2, 1);
}

ModuleParameters starting_at(ModuleParameters made_in, std::uint64_t number) {
  made_in.first_number = number;
  return made_in;
}

}  // namespace

LatentHeads::Path::Path(const char* path_name, const TransformerShape& shape,
                        const std::vector<std::int64_t>& heads, ModuleParameters made_in,
                        std::uint64_t first_number)
    : name(path_name),
      down({.name = linear_prefix(path_name) + "_down_proj",
            .inputs = shape.hidden,
            .outputs = latent_size(shape),
            .bias = false,
            .weight_number = down_number},
           starting_at(made_in, first_number)),
      norm_weight(made_in.store.add(linear_prefix(path_name) + "_layernorm.weight",
                                    {latent_size(shape)}, norm_weight_init,
                                    first_number + norm_weight_number)),
      norm_bias(made_in.store.add(linear_prefix(path_name) + "_layernorm.bias",
                                  {latent_size(shape)}, bias_init,
                                  first_number + norm_bias_number)),
      up({.name = linear_prefix(path_name) + "_up_proj",
          .inputs = latent_size(shape),
          .outputs = std::accumulate(heads.begin(), heads.end(), std::int64_t{0}),
          .bias = false,
          .weight_number = up_number},
         starting_at(made_in, first_number), heads) {
  norm_weight.partial_gradient = made_in.tensor.shares_rows();
  norm_bias.partial_gradient = norm_weight.partial_gradient;
}

LatentHeads::LatentHeads(const TransformerShape& shape, const ModuleParameters& made_in)
    : shape_(shape),
      own_heads_(shape.heads / made_in.tensor.size()),
      paths_{Path("q", shape, {shape.hidden}, made_in, made_in.first_number),
             Path("kv", shape, {shape.hidden, shape.hidden}, made_in,
                  made_in.first_number + numbers_a_path)} {}

void LatentHeads::append_to(std::vector<Parameter>& parameters) const {
  for (const Path& path : paths_) {
    path.down.append_to(parameters);
    parameters.insert(parameters.end(), {path.norm_weight, path.norm_bias});
    path.up.append_to(parameters);
  }
}

HeadBuffers LatentHeads::forward(LayerContext& context, const TensorView& normed,
                                 HeadLayout /*wanted*/, SavedActivations& saved) const {
  std::array<Buffer, 2> latents;
  SavedActivations lent;
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    const Path& path = paths_[i];
    const std::string name = latent_name(path.name);
    const Buffer down = path.down.forward(context, normed);
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
    const Buffer wide = path.up.forward(context, latent);
    const std::int32_t sequences = shape_.sequences_of(wide.view().shape[0]);
    const Shape per_head{std::int64_t{sequences} * own_heads_, shape_.length, head_size};
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

Buffer LatentHeads::backward(LayerContext& context, HeadBuffers grad_heads,
                             const TensorView& normed, const SavedActivations& saved) const {
  const auto sequences = static_cast<std::int32_t>(grad_heads[0].view().shape[0] / own_heads_);
  Buffer grad_normed;
  for (const Path& path : paths_) {
    const std::string name = latent_name(path.name);
    const bool query = &path == &paths_[query_path];
    const TensorView latent = saved.at(name);
    const std::int64_t width =
        std::int64_t{own_heads_} * (shape_.hidden / shape_.heads) * (query ? 1 : 2);
    Buffer grad_wide = make_buffer(context, normed.dtype,
                                   {std::int64_t{sequences} * shape_.length, width}, name + ".up");
    const std::string label = op_label(context, name) + " backward";
    if (query) {
      merge_heads(context.stream, grad_wide.view(), std::array{grad_heads[0].view()}, sequences,
                  label);
    } else {
      merge_heads(context.stream, grad_wide.view(),
                  std::array{grad_heads[1].view(), grad_heads[2].view()}, sequences, label);
    }
    const Buffer grad_latent = path.up.backward(context, grad_wide.view(), latent);
    Buffer grad_down =
        norm_backward(context, grad_latent.view(), path.norm_weight, path.norm_bias, saved, name);
    Buffer grad_path = path.down.backward(context, grad_down.view(), normed);
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
