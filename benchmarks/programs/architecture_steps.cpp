// Opens a model, computes forward and backward of batches and, if it generates, continues a text.
// originals/architecture_steps.py does the same in Python.
//
// usage: bench_architecture_steps FOLDER HEAD BATCHES TOKENS
//
// HEAD: sequence_classification, causal_lm or seq2seq_lm. BATCHES: a file that make_batches.py wrote;
// the labels of language models are the words. Each pass is timed after a step that warms up: over
// the batches as they are, padded, and over as many tokens without padding, in rows of 128. TOKENS:
// how many are generated, one row, the likeliest each time; 0: none.
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>

#include <limits>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/tensor/weights.h"
#include "accelerate/transformers/models/auto_model.h"
#include "benchmarks/programs/measure.h"

namespace {

using namespace accelerate;

struct Batch {
  at::Tensor ids, mask, labels;
};

Inputs inputs_of(const Batch& batch, bool is_classification) {
  const at::Tensor words = at::where(batch.mask.eq(1), batch.ids, -100);
  return {{"input_ids", batch.ids},
          {"attention_mask", batch.mask},
          {"labels", is_classification ? batch.labels : words}};
}

std::vector<Batch> padded_of(const std::string& file) {
  const WeightReader reader = map_weights(file);
  std::vector<Batch> batches;
  for (std::size_t i = 0; i < reader.outlines.size() / 3; ++i) {
    const auto read = [&](const char* name) { return reader.read(std::to_string(i) + "." + name); };
    batches.push_back({read("input_ids"), read("attention_mask"), read("labels")});
  }
  return batches;
}

// The words of `padded`, one behind the other, in batches of four rows.
std::vector<Batch> whole_of(const std::vector<Batch>& padded) {
  std::vector<at::Tensor> words;
  for (const Batch& batch : padded) words.push_back(batch.ids.masked_select(batch.mask.eq(1)));
  const at::Tensor all = at::cat(words);
  std::vector<Batch> batches;
  for (std::int64_t begin = 0; begin + 512 <= all.numel(); begin += 512) {
    const at::Tensor ids = all.narrow(0, begin, 512).view({4, 128});
    batches.push_back({ids, at::ones_like(ids), padded.front().labels.narrow(0, 0, 4)});
  }
  return batches;
}

std::shared_ptr<PreTrainedModel> model_of(const std::string& folder, const std::string& head) {
  if (head == "causal_lm") return AutoModelForCausalLM::from_pretrained(folder);
  if (head == "seq2seq_lm") return AutoModelForSeq2SeqLM::from_pretrained(folder);
  return AutoModelForSequenceClassification::from_pretrained(folder);
}

void run(const std::string& folder, const std::string& head, const std::string& file,
         std::int64_t tokens) {
  const Accelerator accelerator;  // Keeps the memory of a step for the next one.
  const auto model = model_of(folder, head);
  model->train();
  double loss = 0;
  const auto step = [&](const Batch& batch) {
    model->zero_grad();
    const ModelOutput output = model->forward(inputs_of(batch, head == "sequence_classification"));
    output.loss.backward();
    loss += output.loss.item<double>();
  };
  nlohmann::json report;
  const auto padded = padded_of(file);
  for (const auto& [name, batches] : {std::pair("padded", padded), {"whole", whole_of(padded)}}) {
    step(batches.front());
    loss = 0;
    const double seconds = bench::seconds_of([&] {
      for (const Batch& batch : batches) step(batch);
    });
    report[name] = {{"step_seconds", seconds / static_cast<double>(batches.size())},
                    {"loss", loss / static_cast<double>(batches.size())}};
  }
  if (tokens > 0) {
    model->eval();
    const Inputs prompt{{"input_ids", padded.front().ids.narrow(0, 0, 1).narrow(1, 0, 8)}};
    const GenerationConfig config{
        .max_new_tokens = tokens, .min_new_tokens = tokens, .do_sample = false};
    (void)model->generate(prompt, config);
    at::Tensor ids;
    report["token_seconds"] = bench::seconds_of([&] { ids = model->generate(prompt, config); }) /
                              static_cast<double>(tokens);
    report["ids"] = std::vector<std::int64_t>(ids.const_data_ptr<std::int64_t>(),
                                              ids.const_data_ptr<std::int64_t>() + ids.numel());
  }
  bench::report(report);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5)
    throw std::invalid_argument("usage: bench_architecture_steps FOLDER HEAD BATCHES TOKENS");
  run(argv[1], argv[2], argv[3], std::stoll(argv[4]));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}
