// A replicated model of two layers, of which a loss may use either.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/base/error.h"
#include "accelerate/parallel/replicated/distributed_data_parallel.h"
#include "tests/support/ranks.h"

namespace accelerate::testing {

// Two layers of one weight each; a loss uses either or both. d(loss)/d(weight) is the factor.
struct Branches {
  explicit Branches(std::shared_ptr<Communicator> comm,
                    const DistributedDataParallelKwargs& kwargs = {})
      : communicator(std::move(comm)), engine(view_of(*model), communicator, kwargs) {}

  static torch::nn::Linear weight() {
    torch::nn::Linear layer(torch::nn::LinearOptions(1, 1).bias(false));
    torch::NoGradGuard no_grad;
    layer->weight.fill_(1);
    return layer;
  }
  at::Tensor use(const torch::nn::Linear& layer, double factor) {
    engine.before_forward(true);
    return torch::nn::Linear(layer)(torch::full({1, 1}, factor)).sum();
  }
  void backward(const at::Tensor& loss) {
    run_backward({&engine}, {.loss = loss}, [&] { loss.backward(); });
  }
  double mine() const { return communicator->rank() + 1.0; }
  static double gradient(const torch::nn::Linear& layer) {
    return layer->weight.grad().item<double>();
  }
  void zero_grad() { model->zero_grad(); }

  std::shared_ptr<Communicator> communicator;
  torch::nn::Linear left = weight(), right = weight();
  torch::nn::Sequential model{left, right};
  DistributedDataParallel engine;
};

inline const RanksOptions kSoon{.timeout = std::chrono::seconds(5)};

inline bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace accelerate::testing
