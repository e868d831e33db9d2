#include "accelerate/parallel/gradients/item_count.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/full.h>

#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/tensor/step_recording.h"

namespace accelerate::detail {

void ItemCount::require(Kind kind) {
  if (kind_ != Kind::none && kind_ != kind) {
    throw UsageError(
        "backward() was called with num_items for some micro-batches of a step and without it for "
        "others. Their weights are then undefined. Pass num_items, the number of items that the "
        "loss sums over, to every call or to none");
  }
  kind_ = kind;
}

void ItemCount::enter(std::int64_t window) {
  if (std::exchange(window_, window) != window) reset();
}

void ItemCount::add(std::int64_t items) {
  if (items < 0) {
    throw UsageError("backward() was given num_items = " + std::to_string(items) +
                     "; allowed is 0 or more: the number of items that the loss sums over");
  }
  refuse_in_recording("backward() was given num_items = " + std::to_string(items),
                        "every replay would repeat this number. Use a loss that is a mean, or an "
                        "input tensor of the step");
  require(Kind::counted);
  items_ += items;
}

void ItemCount::add_uncounted() {
  require(Kind::uncounted);
}

void ItemCount::normalise(const std::vector<at::Tensor>& gradients, Communicator& communicator) {
  const at::NoGradGuard no_grad;
  const at::Tensor total = at::full({1}, items_, at::kLong);
  communicator.all_reduce(total, ReduceOp::sum).wait();
  const auto items = total.item<std::int64_t>();
  close();
  normalised_ = true;
  if (items > 0 && !gradients.empty()) {
    at::_foreach_mul_(gradients,
                      static_cast<double>(communicator.size()) / static_cast<double>(items));
  }
}

void ItemCount::close() {
  items_ = 0;
  kind_ = Kind::none;
}

void ItemCount::reset() {
  close();
  normalised_ = false;
}

}  // namespace accelerate::detail
