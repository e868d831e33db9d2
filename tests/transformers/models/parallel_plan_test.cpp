// What models say of how they may be divided: held against what they compute.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <string>
#include <vector>

#include "accelerate/transformers/models/layers/linear.h"
#include "tests/transformers/models/small_models.h"

namespace accelerate {
namespace {

using Cut = ParallelPlan::Cut;

// Whether `name` is the module that `pattern` names, or one below it.
bool is_below(const std::string& name, const std::string& pattern) {
  std::string expression;
  for (const char c : pattern)
    expression += c == '*' ? "[0-9]+" : c == '.' ? "\\." : std::string(1, c);
  return std::regex_match(name, std::regex(expression + "(\\..*)?"));
}

// Two ranks change places: what the first has of each cut weight becomes the second's.
at::Tensor swapped(const at::Tensor& values, std::int64_t dim, std::int64_t parts) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& part : values.chunk(parts, dim)) {
    const auto halves = part.chunk(2, dim);
    all.insert(all.end(), {halves.at(1), halves.at(0)});
  }
  return at::cat(all, dim);
}

// How many weights the rule names.
int swap_ranks(PreTrainedModel& model, const ParallelPlan::Rule& rule) {
  const at::NoGradGuard no_grad;
  int found = 0;
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    if (!is_below(item.key(), rule.modules)) continue;
    ++found;
    const bool lies_other_way = item.value()->name() == "Conv1D";
    auto parameters = item.value()->named_parameters(/*recurse=*/false);
    const std::int64_t outputs = lies_other_way ? 1 : 0;
    const bool is_rowwise = rule.cut == Cut::rowwise || rule.cut == Cut::rowwise_split_input;
    const std::int64_t dim = is_rowwise ? 1 - outputs : outputs;
    at::Tensor weight = parameters["weight"];
    weight.copy_(swapped(weight.clone(), dim, rule.parts));
    if (is_rowwise || !parameters.contains("bias")) continue;
    at::Tensor bias = parameters["bias"];
    bias.copy_(swapped(bias.clone(), 0, rule.parts));
  }
  return found;
}

class Plans : public ::testing::TestWithParam<const char*> {
 protected:
  static PretrainedConfig config() { return testing::small_config(GetParam()); }
  static void make_random(PreTrainedModel& model) {
    const at::NoGradGuard no_grad;
    at::manual_seed(6);
    // Norms behind each half of a layer shrink what an encoder hands to a decoder.
    const double deviation = testing::has_task(GetParam(), Task::seq2seq_lm) ? 0.8 : 0.3;
    for (at::Tensor parameter : model.parameters()) parameter.normal_(0, deviation);
  }
  static at::Tensor output_of(PreTrainedModel& model) {
    model.eval();
    const at::NoGradGuard no_grad;
    const at::Tensor ids = at::arange(12).view({2, 6}) * 7 % 29 + 1;
    Inputs inputs{{"input_ids", ids}};
    if (testing::has_task(GetParam(), Task::seq2seq_lm)) inputs.set("decoder_input_ids", ids);
    const ModelOutput output = model.forward(inputs);
    return output.logits.defined() ? output.logits : output.last_hidden_state;
  }
};

// The cuts of a layer belong together: where ranks change places in all of them, nothing changes.
TEST_P(Plans, RanksOfATensorParallelGroupMayChangePlaces) {
  const auto model = AutoModel::from_config(config());
  make_random(*model);
  const at::Tensor before = output_of(*model);
  const auto rules = model->parallel_plan().tensor_parallel;
  // OLMo 2 and MPNet do not divide their attention.
  const std::map<std::string, std::size_t> fewest{{"olmo2", 3}, {"mpnet", 2}};
  ASSERT_GE(rules.size(), fewest.contains(GetParam()) ? fewest.at(GetParam()) : 4);
  for (const auto& rule : rules) {
    EXPECT_EQ(swap_ranks(*model, rule), 2) << rule.modules;
    // Ranks gather what each has computed, in their order: no other weight changes with this one.
    if (rule.cut == Cut::colwise_gather_output || rule.cut == Cut::rowwise_split_input) continue;
    const bool ends_group = rule.cut == Cut::rowwise;  // Of attention, or of the network behind it.
    EXPECT_EQ(output_of(*model).allclose(before, 1e-3, 1e-4), ends_group) << rule.modules;
  }
}

// Every parameter belongs to one group, so that a stage of a pipeline knows its own.
TEST_P(Plans, APipelineHasEveryParameterOnce) {
  std::vector<std::shared_ptr<PreTrainedModel>> models{AutoModel::from_config(config())};
  if (testing::has_task(GetParam(), Task::sequence_classification))
    models.push_back(AutoModelForSequenceClassification::from_config(config()));
  const bool is_masked = testing::has_task(GetParam(), Task::masked_lm);
  const Task words = is_masked ? Task::masked_lm : Task::causal_lm;
  const bool is_seq2seq = testing::has_task(GetParam(), Task::seq2seq_lm);
  models.push_back(detail::model_from_config(is_seq2seq ? Task::seq2seq_lm : words, config()));
  for (const auto& model : models) {
    const auto groups = model->parallel_plan().pipeline;
    EXPECT_GE(groups.size(), 2U);
    std::map<std::string, int> parameters_of;
    for (const auto& item : model->named_parameters()) {
      int owners = 0;
      for (const auto& group : groups) {
        for (const std::string& module : group) {
          if (!is_below(item.key(), module)) continue;
          ++owners;
          ++parameters_of[module];
        }
      }
      EXPECT_EQ(owners, 1) << model->name() << ": " << item.key();
    }
    for (const auto& group : groups)
      for (const auto& module : group) EXPECT_GT(parameters_of[module], 0) << module;
  }
}

TEST(ParallelPlan, ScoresOfWordsAreGathered) {
  const auto model = AutoModelForCausalLM::from_config(testing::small_config("llama"));
  const auto last = model->parallel_plan().tensor_parallel.back();
  EXPECT_EQ(last.modules, "lm_head");
  EXPECT_EQ(last.cut, Cut::colwise_gather_output);
  EXPECT_EQ(model->parallel_plan().pipeline.front().front(), "model.embed_tokens");
}

INSTANTIATE_TEST_SUITE_P(Architectures, Plans, ::testing::ValuesIn(testing::small_kinds()),
                         [](const auto& info) { return testing::name_of(info.param); });

INSTANTIATE_TEST_SUITE_P(EncoderDecoders, Plans, ::testing::Values("t5", "bart"),
                         [](const auto& info) { return testing::name_of(info.param); });

}  // namespace
}  // namespace accelerate
