// Small new models against what Transformers made of them: tests/reference/models_golden.py.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "accelerate/transformers/models/architectures/text_model.h"
#include "tests/transformers/models/small_models.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;

std::shared_ptr<PreTrainedModel> model_of(const Json& row) {
  at::manual_seed(row.at("seed").get<std::uint64_t>());
  auto model =
      detail::model_from_config(testing::task_of(row.at("task").get<std::string>()),
                                PretrainedConfig::from_json(row.at("config").dump(), "the golden"));
  const at::NoGradGuard no_grad;
  std::set<const void*> done;  // A tied parameter has two names here.
  for (at::Tensor parameter : model->parameters())
    if (parameter.dim() == 1 && done.insert(parameter.unsafeGetTensorImpl()).second)
      parameter.add_(at::randn(parameter.sizes()) * 0.2);
  return model;
}

Inputs inputs_of(const Json& row) {
  Inputs inputs;
  for (const auto& [name, tensor] : row.at("inputs").items()) {
    inputs.set(name, at::tensor(tensor["values"].get<std::vector<std::int64_t>>(), at::kLong)
                         .view(tensor["shape"].get<std::vector<std::int64_t>>()));
  }
  return inputs;
}

at::Tensor output_of(const ModelOutput& output, const std::string& name) {
  if (name == "last_hidden_state") return output.last_hidden_state;
  return name == "start_logits" ? output.start_logits : output.logits;
}

void expect_close(const std::vector<double>& want, at::Tensor got) {
  got = got.detach().to(at::kDouble).flatten();
  ASSERT_GE(got.numel(), static_cast<std::int64_t>(want.size()));
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got[static_cast<std::int64_t>(i)].item<double>(), want[i],
                1e-4 * std::max(1.0, std::abs(want[i])))
        << i;
}

// The values of attended places. Of packed rows, the first five scores of each token.
at::Tensor kept_values(at::Tensor values, const Json& row, const Inputs& inputs) {
  if (row.contains("packed")) return values.narrow(-1, 0, 5);
  const at::Tensor& mask = inputs["attention_mask"];
  const bool are_of_tokens = values.dim() >= 2 && values.sizes().slice(0, 2) == mask.sizes();
  return are_of_tokens ? values.index({mask.to(at::kBool)}) : values;
}

// Packed rows give the same however attention is computed, and beside a cache.
void compare_ways_of_packing(PreTrainedModel& model, const Json& row, const Inputs& inputs) {
  const auto want = row["values"].get<std::vector<double>>();
  for (const char* attention : {"sdpa", "eager"}) {
    for (const bool packs : {true, false}) {
      model.set_attention(attention);
      model.set_drops_padding(packs);
      TextInputs given = TextInputs::of(inputs);
      given.use_cache = row["task"] == "causal_lm" && !packs;
      const auto output = dynamic_cast<TextModel&>(model).forward(given);
      expect_close(want, kept_values(output.logits, row, inputs));
      expect_close({row["loss"].get<double>()}, output.loss);
    }
  }
}

void compare_gradients(PreTrainedModel& model, const Json& norms) {
  std::set<const void*> seen;
  for (const auto& item : model.named_parameters()) {
    const at::Tensor& parameter = item.value();
    if (!seen.insert(parameter.unsafeGetTensorImpl()).second || !parameter.grad().defined())
      continue;
    ASSERT_TRUE(norms.contains(item.key())) << item.key();
    const double want = norms[item.key()].get<double>();
    EXPECT_NEAR(parameter.grad().norm().item<double>(), want, 1e-4 * std::max(1.0, want))
        << item.key();
  }
}

void compare_texts(PreTrainedModel& model, const Json& row, const Inputs& inputs) {
  const Inputs prompt{{"input_ids", inputs["input_ids"].narrow(0, 0, 1).narrow(1, 0, 4)}};
  const auto generated = [&](GenerationConfig config) {
    config.max_new_tokens = 8;
    config.eos_token_id = {96};
    config.pad_token_id = 0;
    at::manual_seed(row.at("seed").get<std::uint64_t>());
    const at::Tensor ids = model.generate(prompt, config);
    const auto* begin = ids.const_data_ptr<std::int64_t>();
    return std::vector<std::int64_t>(begin, begin + ids.numel());
  };
  using Ids = std::vector<std::int64_t>;
  EXPECT_EQ(generated({.do_sample = false}), row.at("greedy").get<Ids>());
  EXPECT_EQ(generated({.do_sample = true, .temperature = 0.8, .top_k = 20}),
            row.at("drawn").get<Ids>());
  EXPECT_EQ(generated({.do_sample = false, .num_beams = 3}), row.at("beams").get<Ids>());
}

TEST(ModelsGolden, IsWhatTransformersComputes) {
  std::ifstream file(ACCELERATE_SOURCE_DIR "/tests/reference/models_golden.json");
  const Json rows = Json::parse(file);
  // Each architecture with each head, and two kinds of packed rows of each that is not both an encoder
  // and a decoder; but only the bare model
  // where Transformers draws the head's numbers first.
  std::size_t wanted = 0;
  for (const auto& architecture : detail::architectures()) {
    const bool draws_head_first =
        architecture.model_type == "xlm-roberta" || architecture.model_type == "camembert";
    // No mask tells Transformers' DeBERTa which tokens of a row see each other.
    const bool is_seq2seq = architecture.classes.contains(Task::seq2seq_lm);
    const std::size_t packed = is_seq2seq ? 0 : architecture.model_type == "deberta-v2" ? 1 : 2;
    wanted += draws_head_first ? 1 : architecture.classes.size() + packed;
  }
  EXPECT_EQ(rows.size(), wanted);
  for (const Json& row : rows) {
    SCOPED_TRACE(row["kind"].get<std::string>() + " " + row["task"].get<std::string>());
    const auto model = model_of(row);
    const Inputs inputs = inputs_of(row);
    const ModelOutput output = model->forward(inputs);
    const at::Tensor values = output_of(output, row["output"].get<std::string>());
    expect_close(row["values"].get<std::vector<double>>(), kept_values(values, row, inputs));
    if (!row.contains("loss")) continue;
    expect_close({row["loss"].get<double>()}, output.loss);
    output.loss.backward();
    compare_gradients(*model, row["gradients"]);
    if (row.contains("greedy")) compare_texts(*model, row, inputs);
    if (row.contains("packed")) compare_ways_of_packing(*model, row, inputs);
  }
}

}  // namespace
}  // namespace accelerate
