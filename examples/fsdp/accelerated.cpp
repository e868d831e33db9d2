// Does the same as plain.cpp on any number of ranks. The model is replicated, or sharded when the
// launcher's configuration asks for it (accelerate launch --config_file examples/fsdp/fsdp.yaml).
// The program need not know which. It writes the trained weights as safetensors. Transformers'
// from_pretrained reads them if the model's config.json, which is not written here, lies beside
// them.
#include <accelerate/accelerate.h>

#include "examples/fsdp/sentences.h"

namespace {

void run(const std::string& file, const std::string& out) {
  accelerate::Accelerator accelerator({.dataloader_config = {.split_batches = true}});
  auto script = torch::jit::load(file);
  torch::optim::AdamW adamw(sentences::parameters_of(script), torch::optim::AdamWOptions(1e-3));
  auto samples = accelerate::make_data_loader(sentences::all(), {.batch_size = sentences::kBatch});
  auto [model, optimizer, batches] = accelerator.prepare(script, adamw, samples);

  model.train();
  int step = 0;
  for (int epoch = 0; epoch < sentences::kEpochs; ++epoch) {
    for (auto& [tokens, labels] : batches) {
      auto loss = sentences::loss_of(model, tokens, labels);
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
      const auto mean = accelerator.reduce(loss.detach(), accelerate::ReduceOp::mean);
      accelerator.print(sentences::line(++step, mean.item<double>()));
    }
  }
  if (!out.empty()) accelerator.save_model(model, out);
  accelerator.end_training();
}

}  // namespace

int main(int argc, char** argv) {
  return sentences::run_program(argc, argv, run);
}
