// Encoder-decoder models: their inputs, their layouts, the cache and what configurations may say.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/architectures/text_model.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/support/support.h"
#include "tests/transformers/models/small_models.h"

namespace accelerate {
namespace {

using testing::expect_has;
using testing::message_of;

std::shared_ptr<PreTrainedModel> seq2seq_model(const PretrainedConfig& config) {
  at::manual_seed(4);
  auto model = AutoModelForSeq2SeqLM::from_config(config);
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : model->parameters()) parameter.normal_(0, 0.3);
  return model;
}

TextModel& text_model(PreTrainedModel& model) {
  return dynamic_cast<TextModel&>(model);
}

class Seq2Seq : public ::testing::TestWithParam<const char*> {
 protected:
  static PretrainedConfig config() { return testing::small_config(GetParam()); }

  const at::Tensor ids = (at::arange(18).view({3, 6}) * 5) % 27 + 3;
  const at::Tensor mask =
      at::tensor({1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1}).view({3, 6});
  const at::Tensor words = (at::arange(12).view({3, 4}) * 7) % 27 + 3;
};

TEST_P(Seq2Seq, ReadsLabelsOnePlaceToTheRight) {
  auto given = config();
  given.set("decoder_start_token_id", std::int64_t{9});
  const auto model = seq2seq_model(given);
  const at::Tensor labels = at::tensor({5, 6, -100, 7, -100, -100}).view({2, 3});
  const auto padding = given.get<std::int64_t>("pad_token_id").value();
  const at::Tensor read = model->prepare_decoder_input_ids_from_labels(labels);
  EXPECT_TRUE(read.equal(at::tensor({std::int64_t{9}, std::int64_t{5}, std::int64_t{6},
                                     std::int64_t{9}, std::int64_t{7}, padding})
                             .view({2, 3})));
  const auto of_labels =
      model->forward(Inputs{{"input_ids", ids.narrow(0, 0, 2)}, {"labels", labels}});
  const auto of_ids = model->forward(
      Inputs{{"input_ids", ids.narrow(0, 0, 2)}, {"decoder_input_ids", read}, {"labels", labels}});
  EXPECT_TRUE(of_labels.loss.equal(of_ids.loss));
}

// With padding dropped on neither side, on both, and step by step: the same results and gradients.
TEST_P(Seq2Seq, ComputesNoPadding) {
  const auto model = seq2seq_model(config());
  const Inputs inputs{
      {"input_ids", ids},
      {"attention_mask", mask},
      {"decoder_attention_mask", at::tensor({1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0, 0}).view({3, 4})},
      {"labels", at::where(at::arange(12).view({3, 4}) % 4 < 1, words, -100)}};
  std::vector<at::Tensor> expected;
  for (const char* attention : {"sdpa", "eager"}) {
    for (const bool drops : {false, true}) {
      model->set_attention(attention);
      model->set_drops_padding(drops);
      model->zero_grad();
      const auto output = model->forward(inputs);
      output.loss.backward();
      std::vector<at::Tensor> found{output.loss.detach(), output.logits.detach()[1]};
      for (const auto& parameter : model->parameters())
        if (parameter.grad().defined()) found.push_back(parameter.grad().clone());
      if (expected.empty()) expected = found;
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_TRUE(found[i].allclose(expected[i], 1e-4, 1e-5)) << attention << drops << i;
    }
  }
}

// Backward of the loss leaves out what has no label. The logits are whole, and have whole gradients.
TEST_P(Seq2Seq, ComputesNoGradientsWithoutLabels) {
  const auto model = seq2seq_model(config());
  const at::Tensor labels =
      at::where(at::tensor({1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0}).view({3, 4}).eq(1), words, -100);
  const Inputs inputs{{"input_ids", ids}, {"attention_mask", mask}, {"decoder_input_ids", words}};
  const Inputs labelled{{"input_ids", ids},
                        {"attention_mask", mask},
                        {"decoder_input_ids", words},
                        {"labels", labels}};
  const auto gradients_of = [&](const at::Tensor& value) {
    model->zero_grad();
    value.backward({}, /*retain_graph=*/true);
    std::vector<at::Tensor> found;
    for (const auto& parameter : model->parameters()) found.push_back(parameter.grad().clone());
    return found;
  };
  const auto plain = model->forward(inputs);
  const auto output = model->forward(labelled);
  EXPECT_TRUE(output.logits.allclose(plain.logits, 1e-5, 1e-5));
  const at::Tensor loss =
      at::cross_entropy_loss(plain.logits.flatten(0, 1), labels.flatten().to(at::kLong));
  EXPECT_TRUE(output.loss.allclose(loss, 1e-5, 1e-6));
  const at::Tensor of_all = output.logits.square().mean() + output.loss;
  const at::Tensor expected_of_all = plain.logits.square().mean() + loss;
  for (const auto& [found, expected] : {std::pair(output.loss, loss), {of_all, expected_of_all}}) {
    const auto got = gradients_of(found), want = gradients_of(expected);
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(got[i].allclose(want[i], 1e-4, 1e-5)) << i;
  }
}

TEST_P(Seq2Seq, RecomputesTheSameGradientsToTheBit) {
  auto given = config();
  for (const char* key : {"dropout_rate", "dropout", "attention_dropout"}) given.set(key, 0.2);
  const auto model = seq2seq_model(given);
  const Inputs inputs{{"input_ids", ids}, {"attention_mask", mask}, {"labels", words}};
  std::vector<at::Tensor> expected;
  for (const bool recomputes : {false, true}) {
    if (recomputes) model->gradient_checkpointing_enable();
    model->zero_grad();
    at::manual_seed(8);
    const auto output = model->forward(inputs);
    output.loss.backward();
    std::vector<at::Tensor> found{output.loss.detach()};
    for (const auto& parameter : model->parameters())
      if (parameter.grad().defined()) found.push_back(parameter.grad().clone());
    if (expected.empty()) expected = found;
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
  }
}

// The encoder runs once, and each layer reads its text once.
TEST_P(Seq2Seq, WritesTokenByTokenBehindACache) {
  const auto model = seq2seq_model(config());
  model->eval();
  const at::NoGradGuard no_grad;
  auto& both = text_model(*model);
  const auto whole =
      both.forward({.input_ids = ids, .attention_mask = mask, .decoder_input_ids = words});
  TextInputs step{.input_ids = ids, .attention_mask = mask, .use_cache = true};
  for (std::int64_t i = 0; i < words.size(1); ++i) {
    step.decoder_input_ids = words.narrow(1, i, 1);
    const auto output = both.forward(step);
    EXPECT_TRUE(output.logits.allclose(whole.logits.narrow(1, i, 1), 1e-4, 1e-5)) << i;
    EXPECT_EQ(output.encoder_last_hidden_state.defined(), i == 0);
    step.past_key_values = output.past_key_values;
    step.input_ids = at::Tensor();  // No longer read.
  }
  const auto known = both.forward({.attention_mask = mask,
                                   .decoder_input_ids = words,
                                   .encoder_outputs = whole.encoder_last_hidden_state});
  EXPECT_TRUE(known.logits.allclose(whole.logits, 1e-4, 1e-5));
}

TEST_P(Seq2Seq, WritesAsItsGenerationConfigSays) {
  auto given = config();
  given.set("decoder_start_token_id", std::int64_t{4});
  const auto model = seq2seq_model(given);
  model->eval();
  const Inputs inputs{{"input_ids", ids}, {"attention_mask", mask}};
  for (const std::int64_t beams : {1, 3}) {
    const at::Tensor made = model->generate(inputs, {.max_new_tokens = 9,
                                                     .min_new_tokens = 9,
                                                     .num_beams = beams,
                                                     .no_repeat_ngram_size = 1,
                                                     .forced_bos_token_id = 7,
                                                     .forced_eos_token_id = {{5}}});
    ASSERT_EQ(made.sizes(), at::IntArrayRef({3, 10}));
    EXPECT_TRUE(made.select(1, 0).eq(4).all().item<bool>());
    EXPECT_TRUE(made.select(1, 1).eq(7).all().item<bool>());
    EXPECT_TRUE(made.select(1, 9).eq(5).all().item<bool>());
    for (std::int64_t row = 0; row < 3; ++row) {
      std::set<std::int64_t> found;
      for (std::int64_t i = 0; i < 9; ++i) found.insert(made[row][i].item<std::int64_t>());
      EXPECT_EQ(found.size(), 9U) << "a token came twice";
    }
    const at::Tensor again = model->generate(Inputs{{"input_ids", ids},
                                                    {"attention_mask", mask},
                                                    {"decoder_input_ids", made.narrow(1, 1, 2)}},
                                             {.max_new_tokens = 1});
    EXPECT_TRUE(again.narrow(1, 0, 3).equal(made.narrow(1, 0, 3)));
  }
}

TEST_P(Seq2Seq, GivesTheStatesOfBothSides) {
  const auto model = seq2seq_model(config());
  model->set_attention("eager");
  const auto output = text_model(*model).forward({.input_ids = ids,
                                                  .attention_mask = mask,
                                                  .decoder_input_ids = words,
                                                  .output_hidden_states = true,
                                                  .output_attentions = true});
  EXPECT_TRUE(output.hidden_states.empty() && output.attentions.empty());
  EXPECT_EQ(output.encoder_hidden_states.size(), 3U);
  EXPECT_EQ(output.decoder_hidden_states.size(), 3U);
  ASSERT_EQ(output.cross_attentions.size(), 2U);
  EXPECT_EQ(output.cross_attentions[0].sizes(), at::IntArrayRef({3, 2, 4, 6}));
  EXPECT_EQ(output.encoder_attentions.at(1).sizes(), at::IntArrayRef({3, 2, 6, 6}));
  EXPECT_EQ(output.decoder_attentions.at(1).sizes(), at::IntArrayRef({3, 2, 4, 4}));
  EXPECT_TRUE(output.cross_attentions[0][1].narrow(2, 2, 4).eq(0).all().item<bool>());
}

TEST_P(Seq2Seq, RefusesWhatItDoesNotRead) {
  const auto model = seq2seq_model(config());
  expect_has(message_of<UsageError>([&] {
               (void)model->forward(Inputs{{"input_ids", ids}, {"token_type_ids", ids}});
             }),
             "'token_type_ids'; it takes input_ids, attention_mask, decoder_input_ids");
  expect_has(message_of<UsageError>([&] {
               (void)model->forward(
                   Inputs{{"input_ids", ids}, {"decoder_input_ids", words.narrow(0, 0, 2)}});
             }),
             "the decoder has 2 rows, and the encoder 3");
  expect_has(message_of<UsageError>([&] {
               (void)model->forward(
                   Inputs{{"input_ids", ids}, {"decoder_input_ids", words}, {"labels", ids}});
             }),
             "labels have another shape");
  expect_has(message_of<UsageError>(
                 [&] { (void)model->generate(Inputs{{"input_ids", ids}, {"labels", ids}}); }),
             "it takes input_ids, attention_mask and decoder_input_ids");
  const auto bare = AutoModel::from_config(config());
  expect_has(message_of<UsageError>([&] { (void)bare->generate(Inputs{{"input_ids", ids}}); }),
             "AutoModelForSeq2SeqLM opens the same weights");
  const auto bert = AutoModel::from_config(testing::small_bert_config());
  expect_has(message_of<UsageError>([&] {
               (void)bert->forward(Inputs{{"input_ids", ids}, {"decoder_input_ids", words}});
             }),
             "'decoder_input_ids'; it takes input_ids, attention_mask, token_type_ids");
  (void)message_of<UsageError>([&] { (void)bert->prepare_decoder_input_ids_from_labels(ids); });
}

// Such a row attends to all places of its text alike in T5, and to none in BART.
TEST_P(Seq2Seq, ReadsARowOfPaddingAlone) {
  const auto model = seq2seq_model(config());
  model->eval();
  at::Tensor seen = mask.clone();
  seen[1].zero_();
  const Inputs inputs{{"input_ids", ids}, {"attention_mask", seen}, {"decoder_input_ids", words}};
  const auto row_by = [&](const char* attention, bool drops) {
    model->set_attention(attention);
    model->set_drops_padding(drops);
    return model->forward(inputs).logits.detach()[1];
  };
  const at::Tensor fused = row_by("sdpa", true), eager = row_by("eager", true);
  EXPECT_TRUE(fused.allclose(row_by("sdpa", false), 1e-4, 1e-5));
  EXPECT_EQ(fused.allclose(eager, 1e-4, 1e-5), std::string(GetParam()) == "t5");
}

TEST_P(Seq2Seq, NamesLabelsOfAnotherShapeOrType) {
  const auto model = seq2seq_model(config());
  const at::Tensor whole = at::ones({3, 4}, at::kLong);
  for (const at::Tensor& labels :
       {whole[0][0], whole[0], whole.narrow(1, 0, 0), whole.narrow(0, 0, 0), whole.unsqueeze(0),
        whole.to(at::kFloat)}) {
    const std::string found = "labels are " + c10::str(labels.sizes()) + " of type " +
                              c10::toString(labels.scalar_type()) + "; allowed are int64";
    expect_has(message_of<UsageError>([&] {
                 (void)model->forward(
                     Inputs{{"input_ids", ids}, {"decoder_input_ids", words}, {"labels", labels}});
               }),
               found);
    expect_has(message_of<UsageError>(
                   [&] { (void)model->forward(Inputs{{"input_ids", ids}, {"labels", labels}}); }),
               found);
    expect_has(
        message_of<UsageError>([&] { (void)model->prepare_decoder_input_ids_from_labels(labels); }),
        found);
  }
}

TEST_P(Seq2Seq, NamesEncoderOutputsThatDoNotFit) {
  const auto model = seq2seq_model(config());
  const auto said = [&](const at::Tensor& outputs) {
    return message_of<UsageError>([&] {
      (void)model->forward(Inputs{{"encoder_outputs", outputs}, {"decoder_input_ids", words}});
    });
  };
  expect_has(said(at::ones({3, 6, 15})), "encoder_outputs are [3, 6, 15] of type Float");
  expect_has(said(at::ones({3, 0, 16})), "encoder_outputs are [3, 0, 16]");
  expect_has(said(at::ones({3, 6, 16}, at::kLong)), "of type Long; allowed are floating-point");
  expect_has(said(at::ones({3, 6, 16}, at::kDouble)),
             "of type Double; allowed is the model's type");
}

TEST_P(Seq2Seq, NamesWhatItCannotWrite) {
  const auto model = seq2seq_model(config());
  const Inputs inputs{{"input_ids", ids}};
  const auto said = [&](const Inputs& given, const GenerationConfig& wanted) {
    return message_of<UsageError>([&] { (void)model->generate(given, wanted); });
  };
  expect_has(said(inputs, {.forced_bos_token_id = 30}),
             "forced_bos_token_id is 30; allowed are 0 to 29");
  expect_has(said(inputs, {.forced_eos_token_id = {{2, 31}}}), "forced_eos_token_id is 31");
  expect_has(said(inputs, {.decoder_start_token_id = 32}), "decoder_start_token_id is 32");
  expect_has(said(Inputs{{"input_ids", ids.narrow(0, 0, 0)}}, {}), "[0, 6], without rows");
  expect_has(said(Inputs{{"input_ids", ids.narrow(1, 0, 0)}}, {}), "[3, 0], without tokens");
}

INSTANTIATE_TEST_SUITE_P(EncoderDecoders, Seq2Seq, ::testing::Values("t5", "bart"),
                         [](const auto& info) { return testing::name_of(info.param); });

// It makes the decoder's tokens of them.
TEST(Bart, NamesInputIdsOfAnotherShape) {
  const at::Tensor ids = at::full({2, 3}, 2, at::kLong);
  const auto config = testing::small_config("bart");
  for (const auto& model :
       {AutoModel::from_config(config), AutoModelForSeq2SeqLM::from_config(config),
        AutoModelForSequenceClassification::from_config(config),
        AutoModelForQuestionAnswering::from_config(config)}) {
    for (const at::Tensor& given : {ids.narrow(1, 0, 0), ids.narrow(0, 0, 0), ids[0],
                                    ids.unsqueeze(0), ids.narrow(0, 0, 0).narrow(1, 0, 0)})
      expect_has(
          message_of<UsageError>([&] { (void)model->forward(Inputs{{"input_ids", given}}); }),
          "input_ids are " + c10::str(given.sizes()));
  }
}

// Only keys of config.json are keys of generation: the defaults of the class are not.
TEST(Bart, WritesByTheKeysOfItsConfiguration) {
  auto config = testing::small_config("bart");
  const Inputs inputs{{"input_ids", at::full({1, 3}, 5, at::kLong)}};
  const GenerationConfig wanted{.max_new_tokens = 2, .forced_bos_token_id = 9};
  expect_has(message_of<UsageError>([&] {
               (void)AutoModelForSeq2SeqLM::from_config(config)->generate(inputs, wanted);
             }),
             "set decoder_start_token_id or bos_token_id");
  config.set("bos_token_id", std::int64_t{7});
  const auto model = seq2seq_model(config);
  model->eval();
  model->input_embeddings()->weight.detach()[2].zero_();  // Then 2 is not the likeliest word.
  const at::Tensor made = model->generate(inputs, wanted);
  EXPECT_EQ(made[0][0].item<std::int64_t>(), 7);
  EXPECT_EQ(made[0][1].item<std::int64_t>(), 9);
  EXPECT_NE(made[0][2].item<std::int64_t>(), 2);
}

// T5 v1.1 has an output layer of its own, which no key of its configuration says.
TEST(T5, KeepsAnOutputLayerOfItsOwn) {
  auto config = testing::small_config("t5");
  config.set("tie_word_embeddings", false);
  const auto names_of = [](const PreTrainedModel& model) {
    std::set<const void*> tensors;
    for (const auto& item : model.named_parameters())
      tensors.insert(item.value().unsafeGetTensorImpl());
    return tensors.size();
  };
  const testing::TemporaryFolder tied, untied;
  const auto model = AutoModelForSeq2SeqLM::from_config(config);
  model->save_pretrained(tied.path());
  const auto again = AutoModelForSeq2SeqLM::from_pretrained(tied.path().string());
  EXPECT_EQ(names_of(*again), names_of(*model));
  auto state = std::vector<NamedTensor>{};
  for (const auto& item : model->named_parameters())
    if (!item.key().ends_with("embed_tokens.weight"))
      state.push_back({item.key(), item.key() == "lm_head.weight" ? item.value().detach() * 2
                                                                  : item.value().detach()});
  model->save_pretrained(untied.path(), {.state_dict = state});
  const auto own = AutoModelForSeq2SeqLM::from_pretrained(untied.path().string());
  EXPECT_EQ(names_of(*own), names_of(*model) + 1);
  EXPECT_TRUE(own->output_embeddings()->weight.equal(own->input_embeddings()->weight * 2));
  own->resize_token_embeddings(40);
  EXPECT_EQ(own->output_embeddings()->weight.size(0), 40);
  EXPECT_FALSE(own->output_embeddings()->weight.is_same(own->input_embeddings()->weight));
}

TEST(T5, TakesItsFeedForwardNetworkFromEitherKeys) {
  const auto score_of = [](const char* whole, std::optional<std::string> activation,
                           std::optional<bool> is_gated) {
    auto config = testing::small_config("t5");
    config.set("feed_forward_proj", std::string(whole));
    if (activation) config.set("dense_act_fn", *activation);
    if (is_gated) config.set("is_gated_act", *is_gated);
    const at::Tensor ids = at::ones({1, 3}, at::kLong);
    return seq2seq_model(config)->forward(Inputs{{"input_ids", ids}, {"labels", ids}}).logits;
  };
  EXPECT_TRUE(score_of("relu", "silu", true).equal(score_of("gated-silu", {}, {})));
  EXPECT_TRUE(score_of("gated-gelu", "relu", false).equal(score_of("relu", {}, {})));
  EXPECT_TRUE(score_of("gated-gelu", {}, false).equal(score_of("gelu_new", {}, {})));
}

TEST(T5, RefusesConfigurationsThatContradictThemselves) {
  const auto said = [](const char* key, const auto& value) {
    auto config = testing::small_config("t5");
    config.set(key, value);
    return message_of<ConfigError>([&] { (void)AutoModelForSeq2SeqLM::from_config(config); });
  };
  using Text = std::string;
  expect_has(said("feed_forward_proj", Text("gated-gelu-new")), "alone or behind 'gated-'");
  expect_has(said("feed_forward_proj", Text("gated-gela")), "is 'gated-gela'");
  expect_has(said("feed_forward_proj", Text("gated-")), "is 'gated-'");
  expect_has(said("dense_act_fn", Text("gela")), "'dense_act_fn'");
  expect_has(said("dense_act_fn", false), "'dense_act_fn'");
  expect_has(said("is_gated_act", Text("no")), "'is_gated_act'");
  expect_has(said("relative_attention_max_distance", std::int64_t{4}),
             "more than half of 'relative_attention_num_buckets', 8");
  expect_has(said("scale_decoder_outputs", Text("no")), "'scale_decoder_outputs'");
  auto config = testing::small_config("t5");
  config.erase("decoder_start_token_id");
  const auto model = AutoModelForSeq2SeqLM::from_config(config);
  const at::Tensor ids = at::ones({1, 3}, at::kLong);
  expect_has(message_of<ConfigError>(
                 [&] { (void)model->forward(Inputs{{"input_ids", ids}, {"labels", ids}}); }),
             "'decoder_start_token_id' is missing");
}

}  // namespace
}  // namespace accelerate
