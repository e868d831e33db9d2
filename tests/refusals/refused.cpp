// Each function must not compile, and the compiler must say why: refusals.cmake lists the sentences.
#include <accelerate/accelerate.h>
#include <torch/torch.h>

// A torch::data loader hides its dataset and sampler: prepare() explains what to use instead.
void torch_data_loader(accelerate::Accelerator& accelerator) {
  auto loader = torch::data::make_data_loader(
      torch::data::datasets::TensorDataset(torch::ones({4}))
          .map(torch::data::transforms::Stack<torch::data::TensorExample>()));
  auto prepared = accelerator.prepare(loader);
}

// A unique_ptr would come back unprepared, and its gradients stay local.
void pointer(accelerate::Accelerator& accelerator) {
  auto model = std::make_unique<torch::nn::LinearImpl>(2, 2);
  auto& prepared = accelerator.prepare(model);
}

// A unique_ptr to a schedule would come back unprepared, and step too often.
void scheduler_pointer(accelerate::Accelerator& accelerator, torch::optim::SGD& sgd) {
  auto schedule = std::make_unique<accelerate::StepLR>(sgd, 3);
  auto& prepared = accelerator.prepare(schedule);
}

// The optimizer would end with the line that prepares it.
void temporary(accelerate::Accelerator& accelerator, torch::nn::Linear& model) {
  auto prepared = accelerator.prepare(torch::optim::SGD(model->parameters(), 0.1));
}
