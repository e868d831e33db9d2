// Opens a BERT with a new head of eight classes, and computes forward and backward of batches.
// originals/model_steps.py does the same in Python.
//
// usage: bench_model_steps FOLDER BATCHES float32|bfloat16 DROPOUT [profile]
//
// FOLDER: a model of Hugging Face. BATCHES: a file that make_batches.py wrote. bfloat16: under
// autocast. DROPOUT: of hidden states and of attention. Reports how long opening takes, and how
// long a pass over all batches takes after a step that warms up, and its matrix products alone.
// With "profile", prints where a pass spends its time, by operator, instead.
#include <algorithm>
#include <string>

#include "accelerate/accelerate.h"
#include "accelerate/optim/precision/autocast.h"
#include "accelerate/tensor/weights.h"
#include "accelerate/transformers/models/auto_model.h"
#include "accelerate/watch/profiler/profiler.h"
#include "benchmarks/programs/measure.h"
#include "benchmarks/programs/products_bound.h"

namespace {

using namespace accelerate;

std::vector<Inputs> batches_of(const std::string& file) {
  const WeightReader reader = map_weights(file);
  std::vector<Inputs> batches(reader.outlines.size() / 3);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    for (const char* name : {"input_ids", "attention_mask", "labels"})
      batches[i].set(name, reader.read(std::to_string(i) + "." + name));
  }
  return batches;
}

void run(const std::string& folder, const std::string& file, const std::string& type,
         double dropout, bool profiles) {
  const Accelerator accelerator;  // Keeps the memory of a step for the next one.
  const auto batches = batches_of(file);
  at::manual_seed(1);
  std::shared_ptr<PreTrainedModel> model;
  const double opening = bench::seconds_of([&] {
    PretrainedConfig config = PretrainedConfig::from_pretrained(folder);
    config.set("hidden_dropout_prob", dropout);
    config.set("attention_probs_dropout_prob", dropout);
    model = AutoModelForSequenceClassification::from_pretrained(
        folder, {.config = config, .num_labels = 8});
  });
  model->train();
  double loss = 0;
  const auto step = [&](const Inputs& batch) {
    model->zero_grad();
    ModelOutput output;
    {
      const AutocastScope scope(c10::DeviceType::CPU,
                                type == "bfloat16" ? std::optional(at::kBFloat16) : std::nullopt,
                                {});
      output = model->forward(batch);
    }
    output.loss.backward();
    loss += output.loss.item<double>();
  };
  step(batches.front());
  loss = 0;
  const auto pass = [&] {
    for (const Inputs& batch : batches) step(batch);
  };
  if (profiles) {
    pass();
    Profiler profiler;
    pass();
    profiler.stop();
    std::puts(to_table(profiler.key_averages(), {.row_limit = 60}).c_str());
    return;
  }
  const double seconds = bench::seconds_of(pass);
  const double mean_loss = loss / static_cast<double>(batches.size());
  bench::report({{"open_seconds", opening},
                 {"pass_seconds", seconds},
                 {"products_seconds", bench::seconds_alone(bench::products_of(pass))},
                 {"batches", batches.size()},
                 {"loss", mean_loss}});
}

}  // namespace

int main(int argc, char** argv) try {
  const bool profiles = argc == 6 && std::string(argv[5]) == "profile";
  if (argc != 5 && !profiles) {
    throw std::invalid_argument(
        "usage: bench_model_steps FOLDER BATCHES float32|bfloat16 DROPOUT [profile]");
  }
  run(argv[1], argv[2], argv[3], std::stod(argv[4]), profiles);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}
