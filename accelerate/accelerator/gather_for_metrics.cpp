#include "accelerate/accelerator/gather_for_metrics.h"

#include <limits>

#include "accelerate/base/error.h"
#include "accelerate/comm/state/active_loader.h"

namespace accelerate::detail {
namespace {

// The repeated samples of a flattened batch lie between the others, or fill it.
[[noreturn]] void refuse_flattened() {
  throw UsageError(
      "gather_for_metrics: some samples of this last batch are repeated so that every rank has a "
      "batch. The batch is flattened (DataCollatorWithFlattening), so they cannot be cut off. "
      "Prepare the loader with even_batches = false, pad instead, gather one object per sample, or "
      "let a Trainer evaluate");
}

}  // namespace

MetricsStep metrics_step(const GradientState& state, const Communicator& group) {
  MetricsStep step{.ranks = group.size()};
  const LoaderProgress* progress = state.in_dataloader() ? state.progress() : loader_of_thread();
  if (progress == nullptr || group.size() == 1) return step;
  step.ragged = progress->step_ranks > 0;
  if (step.ragged) step.ranks = progress->step_ranks;
  step.samples = progress->step_samples;
  step.cannot_cut = step.samples >= 0 && progress->is_flattened;
  return step;
}

at::Tensor with_rows(const at::Tensor& tensor) {
  return tensor.defined() && tensor.dim() == 0 ? tensor.reshape({1}) : tensor;
}

void join_rows_once(const std::vector<ColumnList>& values, const MetricsStep& step) {
  if (step.cannot_cut) refuse_flattened();
  try {
    append_rows(values.front(), {values.begin() + 1, values.end()});
  } catch (const DataError&) {
    throw_with_context<CommError>(
        "gather_for_metrics cannot join what the ranks brought; pad tensors to one shape "
        "(pad_across_processes), or gather them as objects (gather_object_for_metrics)");
  }
  const auto all = std::numeric_limits<std::int64_t>::max();
  cut_rows(values.front(), 0, step.samples >= 0 ? step.samples : all);
}

Tensors gather_rows_once(Communicator& communicator, const MetricsStep& step,
                         const Tensors& tensors) {
  if (step.cannot_cut) refuse_flattened();
  if (!step.ragged) {
    const Tensors all = gather(communicator, tensors);
    return step.samples >= 0 ? slice(all, 0, step.samples) : all;
  }
  Tensors mine;
  for (const at::Tensor& tensor : tensors) mine.push_back(with_rows(tensor));
  Tensors joined = join_once(exchange(communicator, mine, step.ranks), step);
  for (std::size_t i = 0; i < joined.size(); ++i) joined[i] = joined[i].to(tensors[i].device());
  return joined;
}

}  // namespace accelerate::detail
