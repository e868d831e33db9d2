// Must not compile: a unique_ptr would come back unprepared, and its gradients stay local.
#include <accelerate/accelerate.h>
#include <torch/torch.h>

int main() {
  accelerate::Accelerator accelerator;
  auto model = std::make_unique<torch::nn::LinearImpl>(2, 2);
  auto& prepared = accelerator.prepare(model);
}
