// What a training of the model of CONFIG takes: a few steps with Adam, and what the system then
// says, at the moment when parameters, gradients and moments are all there.
//
// usage: accelerate launch … memory_probe CONFIG_FOLDER
#include <accelerate/accelerate.h>
#include <torch/optim/adam.h>

#include <algorithm>
#include <iostream>

#include "accelerate/transformers/models/auto_model.h"
#include "tests/support/proportional_memory.h"

int main(int argc, char** argv) {
  using namespace accelerate;
  if (argc != 2) return 2;
  Accelerator accelerator;
  auto config = AutoConfig::from_pretrained(argv[1]);
  const double before = testing::proportional_set_size();
  auto net = AutoModelForCausalLM::from_config(config);
  torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(1e-4));
  auto [model, optimizer] = accelerator.prepare(net, adam);
  const auto ids = torch::arange(8).view({1, 8}).to(accelerator.device());
  double most = 0;
  for (int step = 0; step < 3; ++step) {
    const auto output = model(Inputs{{"input_ids", ids}, {"labels", ids}});
    accelerator.backward(output.loss);
    accelerator.wait_for_everyone();
    most = std::max(most, testing::proportional_set_size() - before);
    accelerator.wait_for_everyone();
    optimizer.step();
    optimizer.zero_grad();
  }
  const auto all = accelerator.reduce(torch::tensor(most, torch::kDouble).to(accelerator.device()));
  if (accelerator.is_main_process())
    std::cout << all.item<double>() / accelerator.num_processes() << std::endl;
  accelerator.end_training();
  return 0;
}
