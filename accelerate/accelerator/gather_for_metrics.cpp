#include <ATen/ATen.h>

#include "accelerate/accelerator/accelerator_impl.h"

namespace accelerate {
namespace {

// The ranks' tensors without padding, when their sizes along dim 0 differ.
detail::Tensors gather_ragged(Communicator& communicator, const detail::Tensors& tensors) {
  const auto padded = detail::pad_across_processes(communicator, tensors, {});
  const auto gathered = detail::gather(communicator, padded);
  detail::Tensors sizes;
  for (const auto& tensor : tensors)
    sizes.push_back(at::full({1}, tensor.dim() == 0 ? 1 : tensor.size(0), at::kLong));
  const auto all_sizes = detail::gather(communicator, sizes);
  detail::Tensors results;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto longest = gathered[i].size(0) / communicator.size();
    detail::Tensors parts;
    for (int rank = 0; rank < communicator.size(); ++rank) {
      parts.push_back(
          gathered[i].narrow(0, rank * longest, all_sizes[i][rank].item<std::int64_t>()));
    }
    results.push_back(at::cat(parts));
  }
  return results;
}

}  // namespace

detail::Tensors Accelerator::gather_tensors_for_metrics(const detail::Tensors& tensors) const {
  if (!gradient_state()->end_of_dataloader()) return detail::gather(communicator(), tensors);
  const auto all = impl_->options.dataloader_config.even_batches
                       ? detail::gather(communicator(), tensors)
                       : gather_ragged(communicator(), tensors);
  const auto remainder = gradient_state()->remainder();
  return remainder > 0 ? detail::slice(all, 0, remainder) : all;
}

}  // namespace accelerate
