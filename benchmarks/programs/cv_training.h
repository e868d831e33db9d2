// The training of examples/cv, in pieces that can be timed.
#pragma once

#include <accelerate/accelerate.h>
#include <torch/torch.h>

#include <optional>

#include "examples/cv/fashion_mnist.h"
#include "examples/cv/net.h"

namespace bench {

inline constexpr std::int64_t kBatchSize = 32;

/// Batches: data uint8 {n, 1, 28, 28}, target int64 {n}.
inline auto train_images() {
  return fashion_mnist::Dataset(fashion_mnist::kDefaultFolder, "train")
      .map(torch::data::transforms::Stack<>());
}

inline torch::optim::Adam adam(Net& net) {
  return torch::optim::Adam(net->parameters(), torch::optim::AdamOptions(1e-3));
}

/// Copies the weights of `from` into `to`.
template <typename Module>
void copy_weights(Module& from, Module& to) {
  const torch::NoGradGuard no_grad;
  const auto source = from->parameters(), target = to->parameters();
  for (std::size_t i = 0; i < source.size(); ++i) target[i].copy_(source[i]);
}

/// Gives the batches of a loader, epoch after epoch.
template <typename Loader>
class Endless {
 public:
  explicit Endless(Loader& loader) : loader_(&loader) {}

  /// Returns the next batch. It is valid until the batch after it is asked for.
  auto& next() {
    if (place_) ++*place_;
    if (!place_ || *place_ == loader_->end()) place_.emplace(loader_->begin());
    return **place_;
  }

 private:
  using Iterator = decltype(std::declval<Loader&>().begin());

  Loader* loader_;
  std::optional<Iterator> place_;
};

/// Fetches a batch and trains on it; `backward` computes the gradients of the loss.
template <typename Model, typename Optimizer, typename Loader, typename Backward>
void train_step(Model& model, Optimizer& optimizer, Endless<Loader>& batches, Backward backward) {
  auto& batch = batches.next();
  auto loss = torch::cross_entropy_loss(model(batch.data), batch.target);
  backward(loss);
  optimizer.step();
  optimizer.zero_grad();
}

}  // namespace bench
