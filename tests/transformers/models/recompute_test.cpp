// Layers that are computed again in backward: the same gradients to the bit.
#include <ATen/Context.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <optional>
#include <set>
#include <vector>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/optim/precision/autocast.h"
#include "accelerate/transformers/models/architectures/text_model.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/transformers/models/small_models.h"

namespace accelerate {
namespace {

// The loss and the gradients of a step with dropout.
std::vector<at::Tensor> step(PreTrainedModel& model, const Inputs& inputs, bool recomputes,
                             std::optional<at::ScalarType> autocast) {
  recomputes ? model.gradient_checkpointing_enable() : model.gradient_checkpointing_disable();
  EXPECT_EQ(model.is_gradient_checkpointing(), recomputes);
  model.zero_grad();
  at::manual_seed(8);
  ModelOutput output;
  {
    const AutocastScope scope(c10::DeviceType::CPU, autocast);
    output = model.forward(inputs);
  }
  output.loss.backward();
  std::vector<at::Tensor> found{output.loss.detach(),
                                at::rand({3})};  // Random numbers go on alike.
  for (const auto& parameter : model.parameters()) found.push_back(parameter.grad().clone());
  return found;
}

void expect_same(PreTrainedModel& model, const Inputs& inputs) {
  model.train();
  for (const auto& autocast : {std::optional<at::ScalarType>(), std::optional(at::kBFloat16)}) {
    const auto kept = step(model, inputs, false, autocast),
               again = step(model, inputs, true, autocast);
    ASSERT_EQ(kept.size(), again.size());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      ASSERT_EQ(kept[i].defined(), again[i].defined()) << i;
      EXPECT_TRUE(!kept[i].defined() || kept[i].equal(again[i])) << i;
    }
  }
}

const Inputs kRows{
    {"input_ids", (at::arange(12).view({2, 6}) * 5) % 29 + 1},
    {"attention_mask", at::tensor({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}).view({2, 6})},
    {"labels", at::tensor({0, 1})}};

TEST(GradientCheckpointing, GivesTheGradientsOfAnEncoder) {
  auto config = testing::small_bert_config();
  config.set("hidden_dropout_prob", 0.3);
  config.set("attention_probs_dropout_prob", 0.2);
  const auto model = AutoModelForSequenceClassification::from_config(config);
  expect_same(*model, kRows);
  model->set_drops_padding(false);
  expect_same(*model, kRows);
}

TEST(GradientCheckpointing, GivesTheGradientsOfADecoder) {
  auto config = testing::small_config("llama");
  config.set("attention_dropout", 0.2);
  const auto model = AutoModelForCausalLM::from_config(config);
  Inputs inputs{{"input_ids", kRows["input_ids"]}, {"labels", kRows["input_ids"]}};
  expect_same(*model, inputs);
}

TEST(GradientCheckpointing, RefusesGradientsOfGradients) {
  const auto model = AutoModelForSequenceClassification::from_config(testing::small_bert_config());
  model->set_attention("eager");
  model->train();
  const auto twice = [&] {
    const at::Tensor loss = model->forward(kRows).loss;
    (void)torch::autograd::grad({loss}, model->parameters(), {}, true, /*create_graph=*/true, true);
  };
  twice();
  model->gradient_checkpointing_enable();
  testing::expect_has(testing::message_of<UsageError>(twice), "gradient_checkpointing_disable()");
}

TEST(GradientCheckpointing, TrainsAboveFrozenEmbeddings) {
  const auto model = AutoModelForSequenceClassification::from_config(testing::small_bert_config());
  model->freeze("bert.embeddings.");
  model->gradient_checkpointing_enable();
  model->train();
  model->forward(kRows).loss.backward();
  for (const auto& item : model->named_parameters())
    EXPECT_EQ(item.value().grad().defined(), !item.key().starts_with("bert.embeddings."))
        << item.key();
}

// The gradients of a step with dropout under an Accelerator.
std::vector<at::Tensor> step_of(const std::string& kind,
                                std::optional<GradientCheckpointing> checkpointing) {
  Accelerator accelerator({.mixed_precision = MixedPrecision::bf16,
                           .cpu = true,
                           .gradient_checkpointing = std::move(checkpointing)});
  at::manual_seed(8);
  auto config = testing::small_config(kind);
  if (kind == "bert") config.set("hidden_dropout_prob", 0.3);
  const auto net = AutoModel::from_config(config);
  net->train();
  auto model = accelerator.prepare(net);
  Inputs inputs = kRows;
  inputs.erase("labels");
  const auto output = model(inputs);
  accelerator.backward(output.last_hidden_state.square().mean());
  std::vector<at::Tensor> found{at::rand({3})};
  for (const auto& parameter : net->parameters()) found.push_back(parameter.grad());
  return found;
}

TEST(GradientCheckpointing, IsAnOptionOfAnAcceleratorToo) {
  using Keep = GradientCheckpointing::Keep;
  for (const std::string kind : {"bert", "llama", "albert"}) {
    const auto plain = step_of(kind, std::nullopt);
    for (const auto& options : {GradientCheckpointing{}, GradientCheckpointing{.every = 2},
                                GradientCheckpointing{.keep = Keep::products}}) {
      const auto again = step_of(kind, options);
      ASSERT_EQ(plain.size(), again.size());
      for (std::size_t i = 0; i < plain.size(); ++i)
        EXPECT_TRUE(plain[i].defined() == again[i].defined() &&
                    (!plain[i].defined() || plain[i].equal(again[i])))
            << kind << " " << i;
    }
  }
}

// The nodes of the graph that keep something for backward.
std::size_t nodes_of(bool recomputes) {
  const auto model = AutoModelForSequenceClassification::from_config(testing::small_bert_config());
  model->train();
  if (recomputes) model->gradient_checkpointing_enable();
  const at::Tensor loss = model->forward(kRows).loss;
  std::set<torch::autograd::Node*> known;
  std::vector<torch::autograd::Node*> open{loss.grad_fn().get()};
  while (!open.empty()) {
    auto* node = open.back();
    open.pop_back();
    if (node == nullptr || node->name().ends_with("AccumulateGrad") || !known.insert(node).second)
      continue;
    for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  return known.size();
}

TEST(GradientCheckpointing, KeepsTheInputOfALayerAlone) {
  EXPECT_LT(2 * nodes_of(true), nodes_of(false));
}

}  // namespace
}  // namespace accelerate
