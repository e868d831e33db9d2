// A user's program: one step of training, alone or on as many ranks as it is launched on.
#include <accelerate/accelerate.h>
#include <torch/torch.h>

#include <cstdio>

int main() {
  accelerate::Accelerator accelerator({.cpu = true});
  torch::nn::Linear linear(3, 1);
  torch::optim::SGD sgd(linear->parameters(), 0.1);
  auto [model, optimizer] = accelerator.prepare(linear, sgd);
  const auto before = linear->weight.detach().clone();
  accelerator.backward(model(torch::ones({2, 3})).mean());
  optimizer.step();
  const bool learned = torch::allclose(before - linear->weight, torch::full({1, 3}, 0.1));
  if (learned) std::puts("accelerate.cpp works from here");
  accelerator.end_training();
  return learned ? 0 : 1;
}
