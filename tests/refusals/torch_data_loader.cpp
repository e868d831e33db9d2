// Must not compile: prepare() explains what to use instead.
#include <accelerate/accelerate.h>
#include <torch/torch.h>

int main() {
  accelerate::Accelerator accelerator;
  auto loader = torch::data::make_data_loader(
      torch::data::datasets::TensorDataset(torch::ones({4}))
          .map(torch::data::transforms::Stack<torch::data::TensorExample>()));
  auto prepared = accelerator.prepare(loader);
}
