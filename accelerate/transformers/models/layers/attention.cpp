#include "accelerate/transformers/models/layers/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/tensor/compat/varlen_attention.h"
#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/layers/packed_attention.h"

namespace accelerate::detail {
namespace {

using layer_kernels::SequencePlace;
using layer_kernels::Size;

double lowest_of(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return -65504.0;
    case at::kBFloat16:
      return -3.3895313892515355e38;
    case at::kFloat:
      return std::numeric_limits<float>::lowest();
    default:
      return std::numeric_limits<double>::lowest();
  }
}

at::Tensor added_mask(const at::Tensor& mask, const at::Tensor& scores) {
  if (mask.scalar_type() != at::kBool) return mask.to(scores.scalar_type());
  return at::zeros(mask.sizes(), scores.options())
      .masked_fill(mask.logical_not(), lowest_of(scores.scalar_type()));
}

// Returns {queries, keys}, true where a query may look. The first query stands after `past` keys.
at::Tensor visible(std::int64_t queries, std::int64_t past, std::optional<std::int64_t> window,
                   c10::Device device) {
  const auto options = at::TensorOptions(at::kLong).device(device);
  const at::Tensor query = at::arange(past, past + queries, options).unsqueeze(1);
  const at::Tensor key = at::arange(past + queries, options).unsqueeze(0);
  const at::Tensor before = key <= query;
  return window ? before.logical_and(key > query - *window) : before;
}

// Returns {length, length}, true where two tokens are at most `reach` places apart.
at::Tensor near(std::int64_t length, std::int64_t reach, c10::Device device) {
  const at::Tensor place = at::arange(length, at::TensorOptions(at::kLong).device(device));
  return (place.unsqueeze(1) - place.unsqueeze(0)).abs() <= reach;
}

// {rows, key heads, keys, dim} → {rows, key heads · times, keys, dim}, a head's copies together.
at::Tensor repeat_heads(const at::Tensor& heads, std::int64_t times) {
  if (times == 1) return heads;
  return heads.unsqueeze(2)
      .expand({heads.size(0), heads.size(1), times, heads.size(2), heads.size(3)})
      .reshape({heads.size(0), heads.size(1) * times, heads.size(2), heads.size(3)});
}

// LibTorch's fused kernels have neither a cap nor a gradient for what is added to scores.
bool is_step_by_step(const AttentionSpec& spec) {
  return spec.kind == AttentionKind::eager || spec.softcap || spec.bias_of;
}

at::Tensor attend_eagerly(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const at::Tensor& mask, bool is_causal, const AttentionSpec& spec) {
  const double scale = spec.scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
  const std::int64_t times = query.size(1) / key.size(1);
  at::Tensor scores = at::matmul(query, repeat_heads(key, times).transpose(2, 3)) * scale;
  if (spec.softcap) scores = (scores / *spec.softcap).tanh() * *spec.softcap;
  if (spec.bias_of) scores = scores + spec.bias_of(query, key);
  if (spec.bias_of && mask.defined() && mask.scalar_type() == at::kBool) {
    // A query that sees nothing then gives no gradient to scores, as in Transformers' DeBERTa.
    scores = scores.masked_fill(mask.logical_not(), lowest_of(scores.scalar_type()));
  } else if (mask.defined()) {
    scores = scores + added_mask(mask, scores);
  }
  if (is_causal)
    scores = scores + added_mask(visible(query.size(2), 0, {}, query.device()), scores);
  // In fp32 even if the model has 16 bits, as in Transformers' decoders. In fp64 if the model has
  // fp64, where Transformers' decoders give NaN for rows that see nothing.
  const auto type = scores.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor weights = dropout_of(at::softmax(scores, -1, type).to(query.scalar_type()),
                                        spec.dropout, spec.dropout > 0);
  if (spec.weights != nullptr) spec.weights->push_back(weights);
  return at::matmul(weights, repeat_heads(value, times));
}

// query: {rows, heads, queries, dim}; key, value: {rows, key heads, keys, dim}. Returns query's
// shape.
at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const at::Tensor& mask, bool is_causal, const AttentionSpec& spec) {
  if (is_step_by_step(spec)) return attend_eagerly(query, key, value, mask, is_causal, spec);
  const bool is_bias = mask.defined() && mask.scalar_type() != at::kBool;
  const auto given = is_bias          ? mask.to(query.scalar_type())
                     : mask.defined() ? std::optional(mask)
                                      : std::nullopt;
  const std::int64_t times = query.size(1) / key.size(1);
  // As in Transformers: LibTorch shares key heads if there is no mask, and a single query needs no
  // causal mask.
  if (times == 1 || !mask.defined()) {
    return at::scaled_dot_product_attention(query, key, value, given, spec.dropout,
                                            is_causal && query.size(2) > 1, spec.scale, times > 1);
  }
  return at::scaled_dot_product_attention(query, repeat_heads(key, times),
                                          repeat_heads(value, times), given, spec.dropout,
                                          /*is_causal=*/false, spec.scale);
}

// On a CPU, kernels of 16 bits prepare each small product again. Short rows take four times as long
// as in fp32, forward and backward, and their results are less exact.
bool is_better_in_fp32(const at::Tensor& query, const Tokens& tokens) {
  constexpr std::int64_t kLongest = 512;
  return query.device().is_cpu() && at::isReducedFloatingType(query.scalar_type()) &&
         std::ranges::max(tokens.lengths()) <= kLongest;
}

// As is_better_in_fp32(), for a token behind a cache: without autocast, where LibTorch converts back.
// The kernel of 16 bits takes four times as long, and seven times behind a thousand tokens.
bool is_one_better_in_fp32(const at::Tensor& query, const at::Tensor& mask) {
  return query.device().is_cpu() && query.size(1) == 1 &&
         at::isReducedFloatingType(query.scalar_type()) &&
         (!mask.defined() || mask.scalar_type() == at::kBool) &&
         !at::autocast::is_autocast_enabled(at::kCPU);
}

// Sequences of one length that stand one behind the other. They are computed together.
struct Run {
  std::int64_t count, length;
};

std::vector<Run> runs_of(const std::vector<std::int64_t>& lengths) {
  std::vector<Run> runs;
  for (const std::int64_t length : lengths) {
    if (!runs.empty() && runs.back().length == length) {
      ++runs.back().count;
    } else {
      runs.push_back({1, length});
    }
  }
  return runs;
}

// {count · length, heads, dim} → {count, heads, length, dim}
at::Tensor as_rows(const at::Tensor& tokens, std::int64_t count) {
  return tokens.unflatten(0, {count, -1}).transpose(1, 2);
}

// The corner of a packed batch's mask that a sequence uses.
at::Tensor corner_of(const at::Tensor& mask, std::int64_t length) {
  return mask.defined() ? mask.narrow(-2, 0, length).narrow(-1, 0, length) : mask;
}

// query: {tokens, heads, dim}; key, value: {tokens, key heads, dim}. Returns {tokens, heads · dim}.
at::Tensor attend_packed(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const Tokens& tokens, const AttentionSpec& spec) {
  const auto runs = runs_of(tokens.lengths());
  std::vector<std::int64_t> sizes;
  for (const Run& run : runs) sizes.push_back(run.count * run.length);
  const auto queries = query.split_with_sizes(sizes), keys = key.split_with_sizes(sizes),
             values = value.split_with_sizes(sizes);
  std::vector<at::Tensor> attended;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto rows = [&](const at::Tensor& all) { return as_rows(all, runs[i].count); };
    attended.push_back(attend(rows(queries[i]), rows(keys[i]), rows(values[i]),
                              corner_of(spec.mask.values, runs[i].length), spec.mask.is_causal,
                              spec)
                           .transpose(1, 2)
                           .flatten(0, 1));
  }
  return at::cat(attended).flatten(1);
}

// As attend_packed(), for the first token of each row alone. query: {rows, heads, dim}.
at::Tensor attend_to_first(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           const Tokens& tokens, const AttentionSpec& spec) {
  const auto queries = query.split(1), keys = key.split_with_sizes(tokens.lengths()),
             values = value.split_with_sizes(tokens.lengths());
  std::vector<at::Tensor> attended;
  for (std::size_t row = 0; row < queries.size(); ++row) {
    const std::size_t sequence = tokens.first_sequences()[row];
    const at::Tensor mask = corner_of(spec.mask.values, tokens.lengths()[sequence]);
    attended.push_back(
        attend(as_rows(queries[row], 1), as_rows(keys[sequence], 1), as_rows(values[sequence], 1),
               mask.defined() ? mask.narrow(0, 0, 1) : mask, spec.mask.is_causal, spec)
            .squeeze(0)
            .transpose(0, 1));
  }
  return at::cat(attended).flatten(1);
}

// Where the sequences of packed tokens lie, or of their first tokens alone.
std::vector<SequencePlace> places_of(const Tokens& tokens, bool first_alone) {
  std::vector<SequencePlace> places;
  Size begin = 0;
  for (const std::int64_t length : tokens.lengths()) {
    const auto count = static_cast<Size>(length);
    places.push_back({begin, count, begin, count});
    begin += count;
  }
  if (!first_alone) return places;
  std::vector<SequencePlace> firsts;
  for (const std::size_t sequence : tokens.first_sequences()) {
    const SequencePlace& place = places[sequence];
    firsts.push_back({firsts.size(), 1, place.first_key, place.keys});
  }
  return firsts;
}

// On a CPU, all sequences by one kernel, if it computes them. query: {tokens, heads, dim}; key,
// value: {tokens, key heads, dim}. Returns {tokens, heads · dim}.
std::optional<at::Tensor> attend_on_cpu(const at::Tensor& query, const at::Tensor& key,
                                        const at::Tensor& value, std::vector<SequencePlace> places,
                                        const AttentionSpec& spec) {
  if (spec.kind == AttentionKind::eager || spec.bias_of || spec.mask.values.defined() ||
      spec.dropout >= 1 || !can_attend_packed(query, key, value))
    return std::nullopt;
  const double dim = static_cast<double>(query.size(-1));
  return packed_attention(query, key, value,
                          {.sequences = std::move(places),
                           .scale = spec.scale.value_or(1 / std::sqrt(dim)),
                           .softcap = spec.softcap.value_or(0),
                           .dropout = spec.dropout,
                           .is_causal = spec.mask.is_causal && !spec.first_alone})
      .flatten(1);
}

// The same for padded tokens without padding. query: {rows, length, heads, dim}.
std::optional<at::Tensor> attend_whole_rows_on_cpu(const at::Tensor& query, const at::Tensor& key,
                                                   const at::Tensor& value,
                                                   const AttentionSpec& spec) {
  const bool are_alike = key.sizes().slice(0, 2) == query.sizes().slice(0, 2) &&
                         value.sizes().slice(0, 2) == query.sizes().slice(0, 2);
  if (!query.is_cpu() || !are_alike || spec.mask.values.defined()) return std::nullopt;
  const std::int64_t rows = query.size(0), length = query.size(1);
  const auto count = static_cast<Size>(length);
  std::vector<SequencePlace> places;
  for (Size begin = 0; std::cmp_less(begin, rows * length); begin += count)
    places.push_back({begin, count, begin, count});
  const auto attended = attend_on_cpu(query.flatten(0, 1), key.flatten(0, 1), value.flatten(0, 1),
                                      std::move(places), spec);
  return attended ? std::optional(attended->unflatten(0, {rows, length})) : std::nullopt;
}

// On a GPU, all sequences by one kernel, where there is one for them. Shapes as of attend_packed(), or
// of attend_to_first().
std::optional<at::Tensor> attend_on_gpu(const at::Tensor& query, const at::Tensor& key,
                                        const at::Tensor& value, const Tokens& tokens,
                                        const AttentionSpec& spec) {
  const bool is_one_a_row = tokens.lengths().size() == tokens.first_sequences().size();
  if (query.is_cpu() || is_step_by_step(spec) || spec.mask.values.defined() ||
      (spec.first_alone && !is_one_a_row))
    return std::nullopt;
  compat::SequenceBounds queries = tokens.bounds();
  if (spec.first_alone)
    queries = {at::arange(query.size(0) + 1, queries.starts.options()), /*longest=*/1};
  const auto attended =
      compat::varlen_attention(query, key, value, queries, tokens.bounds(),
                               {.dropout = spec.dropout,
                                .is_causal = spec.mask.is_causal && !spec.first_alone,
                                .scale = spec.scale});
  return attended ? std::optional(attended->flatten(1)) : std::nullopt;
}

// query: {rows, queries, heads, dim}; key, value: {rows, key heads, keys, dim}.
at::Tensor attend_padded(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const AttentionSpec& spec) {
  return attend(query.transpose(1, 2), key, value, spec.mask.values, spec.mask.is_causal, spec)
      .transpose(1, 2)
      .flatten(2);
}

}  // namespace

AttentionKind attention_kind_of(const std::string& name) {
  if (name == "sdpa") return AttentionKind::sdpa;
  if (name == "eager") return AttentionKind::eager;
  throw UsageError("the attention is '" + name + "'; allowed are sdpa and eager");
}

AttentionMask causal_mask(const Tokens& tokens, std::optional<std::int64_t> window,
                          c10::Device device) {
  if (tokens.is_packed()) {
    const std::int64_t longest = std::ranges::max(tokens.lengths());
    if (!window || *window >= longest) return {.is_causal = true};
    return {.values = visible(longest, 0, window, device)};
  }
  if (tokens.has_whole_mask()) return {.values = tokens.mask()};
  const std::int64_t keys = tokens.past() + tokens.length();
  const bool is_narrow = window && *window < keys;
  if (!tokens.mask().defined() && !is_narrow && (tokens.past() == 0 || tokens.length() == 1))
    return {.is_causal = true};
  const at::Tensor seen =
      visible(tokens.length(), tokens.past(), window, device).view({1, 1, tokens.length(), keys});
  if (!tokens.mask().defined()) return {.values = seen};
  return {.values = tokens.mask().logical_and(seen)};
}

AttentionMask local_mask(const Tokens& tokens, std::int64_t reach, c10::Device device) {
  if (tokens.is_packed()) {
    const std::int64_t longest = std::ranges::max(tokens.lengths());
    return {.values = reach + 1 < longest ? near(longest, reach, device) : at::Tensor()};
  }
  const at::Tensor& mask = tokens.mask();
  const std::int64_t length = tokens.length();
  if (tokens.has_whole_mask() || reach + 1 >= length) return {.values = mask};
  const at::Tensor seen = near(length, reach, device).view({1, 1, length, length});
  return {.values = mask.defined() ? mask.logical_and(seen) : seen};
}

AttentionMask with_bias(const AttentionMask& mask, const at::Tensor& bias) {
  const std::int64_t queries = bias.size(-2), keys = bias.size(-1);
  at::Tensor seen = mask.values;
  if (mask.is_causal && queries > 1) seen = visible(queries, keys - queries, {}, bias.device());
  if (!seen.defined()) return {.values = bias};
  if (seen.scalar_type() != at::kBool) return {.values = bias + seen};
  // In fp16 a sum could be infinite.
  if (bias.scalar_type() == at::kHalf)
    return {.values = at::where(seen, bias, lowest_of(at::kHalf))};
  // Added, as in Python: a query that sees nothing gives gradients to the bias.
  return {.values = bias + added_mask(seen, bias)};
}

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const Tokens& tokens, const AttentionSpec& spec) {
  if (tokens.is_packed()) {
    if (auto attended = attend_on_gpu(query, key, value, tokens, spec)) return *attended;
    if (auto attended = attend_on_cpu(query, key, value, places_of(tokens, spec.first_alone), spec))
      return *attended;
    const auto packed = spec.first_alone ? attend_to_first : attend_packed;
    if (!is_better_in_fp32(query, tokens)) return packed(query, key, value, tokens, spec);
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCPU);
    const auto wide = [](const at::Tensor& narrow) { return narrow.to(at::kFloat); };
    return packed(wide(query), wide(key), wide(value), tokens, spec).to(query.scalar_type());
  }
  if (spec.first_alone) {
    AttentionSpec first = spec;
    if (first.mask.values.defined()) first.mask.values = first.mask.values.narrow(2, 0, 1);
    return attend_padded(query.unsqueeze(1), key.transpose(1, 2), value.transpose(1, 2), first)
        .squeeze(1);
  }
  if (spec.cache == nullptr) {
    if (auto attended = attend_whole_rows_on_cpu(query, key, value, spec)) return *attended;
    return attend_padded(query, key.transpose(1, 2), value.transpose(1, 2), spec);
  }
  const auto [keys, values] =
      spec.cache->append(spec.layer, key.transpose(1, 2), value.transpose(1, 2));
  if (!is_one_better_in_fp32(query, spec.mask.values))
    return attend_padded(query, keys, values, spec);
  return attend_padded(query.to(at::kFloat), keys.to(at::kFloat), values.to(at::kFloat), spec)
      .to(query.scalar_type());
}

namespace {

// Returns how many tokens each row has.
std::vector<std::int64_t> lengths_of_rows(const Tokens& tokens) {
  if (tokens.is_packed()) return tokens.lengths();
  return std::vector<std::int64_t>(static_cast<std::size_t>(tokens.rows()), tokens.length());
}

// Each row of `query` by itself. Tensors: {tokens, heads, dim}. Returns {tokens, heads · dim}.
at::Tensor cross_by_rows(const at::Tensor& query, const Tokens& tokens, const ReadText& read,
                         const AttentionSpec& spec) {
  const auto asking = lengths_of_rows(tokens), offering = lengths_of_rows(read.tokens);
  const auto queries = query.split_with_sizes(asking), keys = read.key.split_with_sizes(offering),
             values = read.value.split_with_sizes(offering);
  std::vector<at::Tensor> attended;
  for (std::size_t row = 0; row < queries.size(); ++row)
    attended.push_back(attend(as_rows(queries[row], 1), as_rows(keys[row], 1),
                              as_rows(values[row], 1), {},
                              /*is_causal=*/false, spec)
                           .squeeze(0)
                           .transpose(0, 1));
  return at::cat(attended).flatten(1);
}

// Where the queries and keys of each row lie.
std::vector<SequencePlace> places_of_rows(const Tokens& tokens, const Tokens& read) {
  const auto asking = lengths_of_rows(tokens), offering = lengths_of_rows(read);
  std::vector<SequencePlace> places;
  Size query = 0, key = 0;
  for (std::size_t row = 0; row < asking.size(); ++row) {
    const auto queries = static_cast<Size>(asking[row]), keys = static_cast<Size>(offering[row]);
    places.push_back({query, queries, key, keys});
    query += queries;
    key += keys;
  }
  return places;
}

// On a GPU, where both sides are packed.
std::optional<at::Tensor> cross_on_gpu(const at::Tensor& query, const Tokens& tokens,
                                       const ReadText& read, const AttentionSpec& spec) {
  if (query.is_cpu() || spec.kind == AttentionKind::eager || !tokens.is_packed() ||
      !read.tokens.is_packed())
    return std::nullopt;
  const auto attended =
      compat::varlen_attention(query, read.key, read.value, tokens.bounds(), read.tokens.bounds(),
                               {.dropout = spec.dropout, .is_causal = false, .scale = spec.scale});
  return attended ? std::optional(attended->flatten(1)) : std::nullopt;
}

}  // namespace

at::Tensor cross_attention(const at::Tensor& query, const Tokens& tokens, const ReadText& read,
                           const AttentionSpec& spec) {
  const bool are_padded = !tokens.is_packed() && !read.tokens.is_packed();
  const auto padded = [&] {
    AttentionSpec masked = spec;
    masked.mask = {.values = read.tokens.mask()};
    return tokens.take(attend_padded(tokens.restore(query), read.key.transpose(1, 2),
                                     read.value.transpose(1, 2), masked));
  };
  if (read.tokens.mask().defined() || spec.cache != nullptr) return padded();
  const auto flat = [](const at::Tensor& all, const Tokens& of) {
    return of.is_packed() ? all : all.flatten(0, 1);
  };
  const at::Tensor queries = flat(query, tokens);
  const ReadText flat_read{flat(read.key, read.tokens), flat(read.value, read.tokens), read.tokens};
  auto attended = cross_on_gpu(queries, tokens, flat_read, spec);
  if (!attended && query.is_cpu()) {
    attended = attend_on_cpu(queries, flat_read.key, flat_read.value,
                             places_of_rows(tokens, read.tokens), spec);
  }
  if (!attended && are_padded) return padded();
  if (!attended) attended = cross_by_rows(queries, tokens, flat_read, spec);
  return tokens.is_packed() ? *attended : attended->unflatten(0, {tokens.rows(), tokens.length()});
}

}  // namespace accelerate::detail
