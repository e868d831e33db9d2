// What tests of several folders train with: samples with targets, optimizers by their options.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <memory>
#include <vector>

namespace accelerate::testing {

struct Sample {
  at::Tensor x, y;
};
void visit_tensors(Sample& sample, auto&& fn) {
  fn(sample.x);
  fn(sample.y);
}

using MakeOptimizer =
    std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<at::Tensor>&)>;

template <typename Optimizer, typename Options>
MakeOptimizer made_with(Options options) {
  return [options](const std::vector<at::Tensor>& parameters) {
    return std::make_unique<Optimizer>(parameters, options);
  };
}

}  // namespace accelerate::testing
