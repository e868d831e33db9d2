// Must not compile: a unique_ptr to a schedule would come back unprepared, and step too often.
#include <accelerate/accelerate.h>
#include <torch/torch.h>

int main() {
  accelerate::Accelerator accelerator;
  torch::optim::SGD sgd({torch::ones({1})}, 0.1);
  auto schedule = std::make_unique<accelerate::StepLR>(sgd, 3);
  auto& prepared = accelerator.prepare(schedule);
}
