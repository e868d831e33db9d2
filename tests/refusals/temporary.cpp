// Must not compile: the optimizer would end with the line that prepares it.
#include <accelerate/accelerate.h>
#include <torch/torch.h>

int main() {
  accelerate::Accelerator accelerator;
  torch::nn::Linear model(2, 2);
  auto prepared = accelerator.prepare(torch::optim::SGD(model->parameters(), 0.1));
}
