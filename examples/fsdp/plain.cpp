// Trains a TorchScript BERT in one process with LibTorch alone.
#include "examples/fsdp/sentences.h"

namespace {

void run(const std::string& file, const std::string& out) {
  auto model = torch::jit::load(file);
  torch::optim::AdamW optimizer(sentences::parameters_of(model), torch::optim::AdamWOptions(1e-3));
  const auto [tokens, labels] = sentences::all();

  model.train();
  int step = 0;
  for (int epoch = 0; epoch < sentences::kEpochs; ++epoch) {
    for (const auto& batch : torch::arange(tokens.size(0)).split(sentences::kBatch)) {
      auto loss =
          sentences::loss_of(model, tokens.index_select(0, batch), labels.index_select(0, batch));
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      std::puts(sentences::line(++step, loss.item<double>()).c_str());
    }
  }
  if (!out.empty()) model.save(out);
}

}  // namespace

int main(int argc, char** argv) {
  return sentences::run_program(argc, argv, run);
}
