#include "accelerate/transformers/models/layers/packed_attention.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "accelerate/tensor/compat/interception.h"
#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/layers/kernels/kernels.h"

namespace accelerate::detail {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using layer_kernels::HeadRows;
using layer_kernels::SequencePlace;
using layer_kernels::Size;

at::Tensor with_dense_heads(const at::Tensor& tensor) {
  return tensor.stride(2) == 1 || tensor.size(2) == 1 ? tensor : tensor.contiguous();
}

Size size_of(std::int64_t size) {
  return static_cast<Size>(size);
}

HeadRows<const void*> rows_in(const at::Tensor& tensor) {
  return {tensor.const_data_ptr(), size_of(tensor.stride(0)), size_of(tensor.stride(1))};
}
HeadRows<void*> rows_for(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr(), size_of(tensor.stride(0)), size_of(tensor.stride(1))};
}

layer_kernels::ElementType element_type_of(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat ? layer_kernels::kFloat32 : layer_kernels::kBFloat16;
}

// Calls `work(sequence, head, scratch)` for each sequence and each of `heads` heads. A thread gets
// some heads of all sequences, so that long sequences are shared.
template <typename Work>
void for_each_head(const PackedAttention& spec, std::int64_t heads, Size dim, const Work& work) {
  Size scratch = 0;
  for (const SequencePlace& place : spec.sequences)
    scratch = std::max(scratch, layer_kernels::loops().attention_scratch(place, dim));
  const auto count = static_cast<std::int64_t>(spec.sequences.size());
  at::parallel_for(0, heads * count, 1, [&](std::int64_t begin, std::int64_t end) {
    const auto memory = std::make_unique_for_overwrite<float[]>(scratch);
    for (std::int64_t i = begin; i < end; ++i)
      work(spec.sequences[static_cast<std::size_t>(i % count)], size_of(i / count), memory.get());
  });
}

struct Tensors {
  at::Tensor query, key, value, keep, log_sums;
};

layer_kernels::Attention work_of(const Tensors& tensors, const PackedAttention& spec) {
  const auto& [query, key, value, keep, log_sums] = tensors;
  layer_kernels::Attention work{};
  work.query = rows_in(query);
  work.key = rows_in(key);
  work.value = rows_in(value);
  work.heads = size_of(query.size(1));
  work.heads_of_a_key = size_of(query.size(1) / key.size(1));
  work.dim = size_of(query.size(2));
  work.scale = static_cast<float>(spec.scale);
  work.softcap = static_cast<float>(spec.softcap);
  work.is_causal = spec.is_causal;
  work.keep = keep.defined() ? keep.const_data_ptr<bool>() : nullptr;
  work.factor = static_cast<float>(1 / (1 - spec.dropout));
  work.log_sums = log_sums.mutable_data_ptr<float>();
  return work;
}

at::Tensor output_of(const Tensors& tensors, const PackedAttention& spec) {
  const at::Tensor& query = tensors.query;
  at::Tensor output = at::empty(query.sizes(), query.options());
  layer_kernels::Attention work = work_of(tensors, spec);
  work.output = rows_for(output);
  const auto attend = layer_kernels::loops().attend[element_type_of(query)];
  for_each_head(spec, query.size(1), work.dim, [&](const auto& place, Size head, float* scratch) {
    attend(work, place, head, scratch);
  });
  return output;
}

variable_list gradients_of(const Tensors& tensors, const PackedAttention& spec,
                           const at::Tensor& by) {
  // Keys of sequences that nothing asks have no gradient.
  const auto zeros = [](const at::Tensor& like) { return at::zeros(like.sizes(), like.options()); };
  variable_list gradients{at::empty(tensors.query.sizes(), tensors.query.options()),
                          zeros(tensors.key), zeros(tensors.value)};
  layer_kernels::Attention work = work_of(tensors, spec);
  work.by = rows_in(by);
  work.query_gradient = rows_for(gradients[0]);
  work.key_gradient = rows_for(gradients[1]);
  work.value_gradient = rows_for(gradients[2]);
  const auto attend_backward = layer_kernels::loops().attend_backward[element_type_of(by)];
  for_each_head(spec, tensors.key.size(1), work.dim,
                [&](const auto& place, Size head, float* scratch) {
                  attend_backward(work, place, head, scratch);
                });
  return gradients;
}

struct TokenRange {
  Size first, count;
};

// {tokens, heads, dim} → {heads · times, count, dim}, a head's copies together.
at::Tensor heads_of(const at::Tensor& tensor, const TokenRange& range, std::int64_t times) {
  return tensor
      .narrow(0, static_cast<std::int64_t>(range.first), static_cast<std::int64_t>(range.count))
      .transpose(0, 1)
      .repeat_interleave(times, 0);
}

// By LibTorch's operators.
at::Tensor composed(const Tensors& tensors, const PackedAttention& spec) {
  const auto& [query, key, value, keep, log_sums] = tensors;
  const std::int64_t times = query.size(1) / key.size(1);
  std::vector<at::Tensor> outputs;
  for (const SequencePlace& place : spec.sequences) {
    const TokenRange asking{place.first_query, place.queries}, asked{place.first_key, place.keys};
    at::Tensor scores =
        at::matmul(heads_of(query, asking, 1), heads_of(key, asked, times).transpose(1, 2)) *
        spec.scale;
    if (spec.softcap > 0) scores = (scores / spec.softcap).tanh() * spec.softcap;
    if (spec.is_causal) {
      const at::Tensor hidden =
          at::ones(scores.sizes().slice(1), query.options().dtype(at::kBool)).triu(1);
      scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
    }
    at::Tensor weights = at::softmax(scores, -1);
    if (keep.defined()) {
      const at::Tensor kept =
          keep.narrow(0, static_cast<std::int64_t>(place.first_weight), weights.numel())
              .view(weights.sizes());
      weights = weights * kept / (1 - spec.dropout);
    }
    outputs.push_back(at::matmul(weights, heads_of(value, asked, times)).transpose(0, 1));
  }
  return at::cat(outputs);
}

// The gradients as functions that have gradients themselves.
variable_list differentiable_gradients(const Tensors& tensors, const PackedAttention& spec,
                                       const at::Tensor& by) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCPU);
  // Views, so that the paths end here even where one of the three depends on another.
  const auto end_of = [](const at::Tensor& tensor) { return tensor.view_as(tensor); };
  const at::Tensor query = end_of(tensors.query), key = end_of(tensors.key),
                   value = end_of(tensors.value);
  return torch::autograd::grad({composed({query, key, value, tensors.keep, {}}, spec)},
                               {query, key, value}, {by}, /*retain_graph=*/true,
                               /*create_graph=*/true, /*allow_unused=*/true);
}

struct SavedSpec : torch::CustomClassHolder {
  explicit SavedSpec(PackedAttention all) : spec(std::move(all)) {}
  PackedAttention spec;
};

struct PackedAttend : torch::autograd::Function<PackedAttend> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query,
                            const at::Tensor& key, const at::Tensor& value,
                            const PackedAttention& given) {
    RECORD_FUNCTION("accelerate::packed_attention", c10::ArrayRef<c10::IValue>());
    const compat::WithoutInterception unseen;  // It writes without an operator.
    PackedAttention spec = given;
    Size weights = 0;
    for (SequencePlace& place : spec.sequences) {
      place.first_weight = weights;
      weights += size_of(query.size(1)) * place.queries * place.keys;
    }
    const auto empty = [&](at::IntArrayRef sizes, at::ScalarType type) {
      return at::empty(sizes, query.options().dtype(type));
    };
    const at::Tensor keep =
        spec.dropout > 0 ? bernoulli_mask(empty({static_cast<std::int64_t>(weights)}, at::kBool),
                                          1 - spec.dropout)
                         : at::Tensor();
    const Tensors tensors{with_dense_heads(query), with_dense_heads(key), with_dense_heads(value),
                          keep, empty({query.size(0), query.size(1)}, at::kFloat)};
    context->save_for_backward({query, key, value, keep, tensors.log_sums});
    context->saved_data["spec"] = c10::IValue::make_capsule(c10::make_intrusive<SavedSpec>(spec));
    return output_of(tensors, spec);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    RECORD_FUNCTION("accelerate::packed_attention_backward", c10::ArrayRef<c10::IValue>());
    const auto saved = context->get_saved_variables();
    const auto holder = context->saved_data["spec"].toCapsule();
    const PackedAttention& spec = static_cast<const SavedSpec*>(holder.get())->spec;
    variable_list found;
    if (at::GradMode::is_enabled()) {
      found = differentiable_gradients({saved[0], saved[1], saved[2], saved[3], saved[4]}, spec,
                                       gradients[0]);
    } else {
      const Tensors tensors{with_dense_heads(saved[0]), with_dense_heads(saved[1]),
                            with_dense_heads(saved[2]), saved[3], saved[4]};
      found = gradients_of(tensors, spec, with_dense_heads(gradients[0]));
    }
    found.emplace_back();
    return found;
  }
};

bool is_for_packed(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.device().is_cpu() && tensor.scalar_type() == type && tensor.dim() == 3 &&
         tensor.layout() == at::kStrided;
}

// Whether each place lies within the tokens; sums of lengths that differ would read others' memory.
bool lie_within(const std::vector<SequencePlace>& places, Size queries, Size keys) {
  return std::ranges::all_of(places, [&](const SequencePlace& place) {
    return place.first_query + place.queries <= queries && place.first_key + place.keys <= keys;
  });
}

}  // namespace

bool can_attend_packed(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  const auto type = query.scalar_type();
  const bool is_narrowed = type == at::kFloat && at::autocast::is_autocast_enabled(at::kCPU) &&
                           !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCPU);
  return layer_kernels::are_vectorised() && (type == at::kFloat || type == at::kBFloat16) &&
         !is_narrowed && is_for_packed(query, type) && is_for_packed(key, type) &&
         is_for_packed(value, type) && key.sizes() == value.sizes() &&
         query.size(2) == key.size(2) && key.size(1) > 0 && query.size(1) % key.size(1) == 0;
}

at::Tensor packed_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            PackedAttention spec) {
  std::erase_if(spec.sequences, [](const SequencePlace& place) { return place.queries == 0; });
  if (spec.sequences.empty()) return query.clone();  // No tokens.
  TORCH_INTERNAL_ASSERT(lie_within(spec.sequences, size_of(query.size(0)), size_of(key.size(0))));
  for (const SequencePlace& place : spec.sequences) TORCH_INTERNAL_ASSERT(place.keys > 0);
  return PackedAttend::apply(query, key, value, spec);
}

}  // namespace accelerate::detail
