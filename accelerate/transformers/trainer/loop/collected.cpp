#include "accelerate/transformers/trainer/loop/collected.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "accelerate/accelerator/gather_for_metrics.h"
#include "accelerate/comm/exchange.h"

namespace accelerate::detail {
namespace {

constexpr std::int64_t kPadding = -100;

bool names(const Words& texts, const char* name) {
  return std::ranges::find(texts.texts(), name) != texts.texts().end();
}

// Joins batches along dim 0, with dim 1 of each filled up to the longest that has rows.
at::Tensor join_padded(std::vector<at::Tensor> parts) {
  const at::Tensor none = parts.front();
  std::erase_if(parts, [](const at::Tensor& part) { return part.size(0) == 0; });
  if (parts.empty()) return none;
  std::int64_t longest = 0;
  for (const auto& part : parts)
    if (part.dim() > 1) longest = std::max(longest, part.size(1));
  std::vector<at::Tensor> even;
  for (const auto& part : parts) {
    if (part.dim() < 2 || part.size(1) == longest) {
      even.push_back(part);
      continue;
    }
    auto shape = part.sizes().vec();
    shape[1] = longest;
    at::Tensor filled = at::full(shape, kPadding, part.options());
    filled.narrow(1, 0, part.size(1)).copy_(part);
    even.push_back(std::move(filled));
  }
  return at::cat(even);
}

template <typename Get>
at::Tensor join_of(const std::vector<GatheredBatch>& batches, Get get) {
  std::vector<at::Tensor> parts;
  for (const auto& batch : batches)
    if (const at::Tensor part = get(batch); part.defined()) parts.push_back(part);
  return parts.empty() ? at::Tensor() : join_padded(parts);
}

template <typename Fn>
void for_each_tensor(GatheredBatch& batch, const Fn& fn) {
  for (at::Tensor& tensor : batch.outputs) fn(tensor);
  for (at::Tensor& tensor : batch.labels) fn(tensor);
  for (at::Tensor* tensor : {&batch.inputs, &batch.losses})
    if (tensor->defined()) fn(*tensor);
}

at::Tensor gather_even(const Accelerator& accelerator, at::Tensor tensor) {
  if (tensor.dim() > 1)
    tensor = accelerator.pad_across_processes(tensor, {.dim = 1, .pad_index = kPadding});
  return accelerator.gather(tensor);
}

}  // namespace

GatheredBatch gather_batch(const Accelerator& accelerator, GatheredBatch mine, bool is_full) {
  for_each_tensor(mine, [](at::Tensor& tensor) { tensor = with_rows(tensor); });
  if (accelerator.num_processes() == 1) return mine;
  if (is_full) {
    for_each_tensor(mine, [&](at::Tensor& tensor) { tensor = gather_even(accelerator, tensor); });
    return mine;
  }
  std::vector<at::Tensor> tensors;
  for_each_tensor(mine, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  const auto all = exchange(accelerator.communicator(), tensors, accelerator.num_processes());
  std::size_t column = 0;
  for_each_tensor(mine, [&](at::Tensor& tensor) {
    std::vector<at::Tensor> parts;
    for (const auto& of_rank : all) parts.push_back(of_rank.at(column));
    tensor = join_padded(std::move(parts)).to(tensor.device());
    ++column;
  });
  return mine;
}

GatheredBatch without_rows(GatheredBatch batch) {
  for_each_tensor(batch, [](at::Tensor& tensor) { tensor = with_rows(tensor).slice(0, 0, 0); });
  return batch;
}

EvalPrediction prediction_of(const GatheredBatch& batch) {
  return {.predictions = batch.outputs.empty() ? at::Tensor() : batch.outputs.front(),
          .label_ids = batch.labels.empty() ? at::Tensor() : batch.labels.front(),
          .outputs = batch.outputs,
          .labels = batch.labels,
          .inputs = batch.inputs,
          .losses = batch.losses};
}

CollectedPredictions::CollectedPredictions(const ResolvedArguments& args)
    : wants_inputs_(names(args.include_for_metrics, "inputs")),
      wants_losses_(names(args.include_for_metrics, "loss")),
      concatenates_(args.eval_do_concat_batches),
      moves_every_(static_cast<std::size_t>(args.eval_accumulation_steps.value_or(0))) {}

void CollectedPredictions::add(GatheredBatch batch) {
  batches_.push_back(std::move(batch));
  if (moves_every_ > 0 && batches_.size() - on_cpu_ >= moves_every_) move_to_cpu();
}

void CollectedPredictions::move_to_cpu() {
  for (; on_cpu_ < batches_.size(); ++on_cpu_)
    for_each_tensor(batches_[on_cpu_], [](at::Tensor& tensor) { tensor = tensor.cpu(); });
}

EvalPrediction CollectedPredictions::take() {
  move_to_cpu();
  const auto batches = std::exchange(batches_, {});
  on_cpu_ = 0;
  if (batches.empty()) return {};
  EvalPrediction all;
  if (!concatenates_) {
    for (const auto& batch : batches) all.batches.push_back(prediction_of(batch));
    return all;
  }
  GatheredBatch joined;
  for (std::size_t i = 0; i < batches.front().outputs.size(); ++i)
    joined.outputs.push_back(join_of(batches, [i](const auto& b) { return b.outputs.at(i); }));
  for (std::size_t i = 0; i < batches.front().labels.size(); ++i)
    joined.labels.push_back(join_of(batches, [i](const auto& b) { return b.labels.at(i); }));
  joined.inputs = join_of(batches, [](const auto& b) { return b.inputs; });
  joined.losses = join_of(batches, [](const auto& b) { return b.losses; });
  return prediction_of(joined);
}

}  // namespace accelerate::detail
