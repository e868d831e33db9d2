// What generate() refuses, and how it goes with streams, caches and divided models.
// tests/reference/generation_live.py compares what it generates with Transformers.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/transformers/models/architectures/text_model.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"
#include "tests/transformers/models/small_models.h"

namespace accelerate {
namespace {

using testing::expect_has;
using testing::message_of;
using testing::run_ranks_shared;

std::shared_ptr<PreTrainedModel> decoder(const char* kind = "llama") {
  at::manual_seed(3);
  auto config = testing::small_config(kind);
  config.set("initializer_range", 0.5);
  return AutoModelForCausalLM::from_config(config);
}

const Inputs kPrompt{{"input_ids", at::tensor({3, 9, 4, 1, 5, 9}, at::kLong).view({2, 3})}};

TEST(Generate, ContinuesThePromptAsTheForwardSays) {
  for (const char* kind : testing::small_kinds()) {
    if (!testing::has_task(kind, Task::causal_lm)) continue;
    SCOPED_TRACE(kind);
    const auto model = decoder(kind);
    const at::Tensor ids = model->generate(kPrompt, {.max_new_tokens = 5});
    ASSERT_EQ(ids.sizes(), (std::vector<std::int64_t>{2, 8}));
    EXPECT_TRUE(ids.narrow(1, 0, 3).equal(kPrompt["input_ids"]));
    const at::NoGradGuard no_grad;
    model->eval();
    const at::Tensor logits = model->forward(Inputs{{"input_ids", ids}}).logits;
    EXPECT_TRUE(logits.argmax(-1).narrow(1, 2, 5).equal(ids.narrow(1, 3, 5)));
    EXPECT_FALSE(ids.is_inference());
  }
}

// An end that is no word of the model changes nothing, whatever its sign.
TEST(Generate, TakesNoEndBeforeTheLeastLength) {
  const auto model = decoder();
  const Inputs prompt{{"input_ids", at::tensor({3, 9, 4}, at::kLong).view({1, 3})}};
  const auto tokens_of = [&](std::vector<std::int64_t> ends, std::int64_t least) {
    return model->generate(prompt, {.max_new_tokens = 4,
                                    .min_new_tokens = least,
                                    .eos_token_id = std::move(ends),
                                    .pad_token_id = 0});
  };
  const at::Tensor likeliest = model->generate(prompt, {.max_new_tokens = 4});
  const std::int64_t end = likeliest[0][3].item<std::int64_t>();
  EXPECT_EQ(tokens_of({end}, 0).size(1), 4);
  const at::Tensor found = tokens_of({-1, end, 1 << 20}, 4);
  EXPECT_EQ(found.size(1), 7);
  EXPECT_FALSE(found.narrow(1, 3, 4).eq(end).any().item<bool>());
  EXPECT_TRUE(tokens_of({-1, 1 << 20}, 4).equal(likeliest));
}

TEST(Generate, LeavesModesAsTheyAre) {
  const auto model = decoder();
  model->train();
  (void)model->generate(kPrompt, {.max_new_tokens = 1});
  EXPECT_TRUE(model->is_training());
  model->forward(Inputs{{"input_ids", kPrompt["input_ids"]}, {"labels", kPrompt["input_ids"]}})
      .loss.backward();
  EXPECT_TRUE(model->input_embeddings()->weight.grad().defined());
}

TEST(Generate, GivesTokensAsTheyCome) {
  const auto model = decoder("gpt2");
  std::vector<at::Tensor> given;
  const at::Tensor ids =
      model->generate(kPrompt, {.max_new_tokens = 4, .do_sample = true},
                      {.stream_tokens = [&](const at::Tensor& one) { given.push_back(one); }});
  EXPECT_TRUE(at::stack(given, 1).equal(ids.narrow(1, 3, 4)));
  EXPECT_FALSE(given.front().is_inference());
}

TEST(Generate, EndsWithThePositionsWhereNoLengthIsGiven) {
  const Inputs prompt{{"input_ids", at::arange(1, 11).unsqueeze(0)}};
  EXPECT_EQ(decoder("gpt2")->generate(prompt).size(1), 12);
  EXPECT_EQ(decoder("llama")->generate(prompt).size(1), 30);
}

TEST(Generate, EndsWhereAStreamThrows) {
  const auto model = decoder();
  const auto stop = [](const at::Tensor&) { throw UsageError("enough"); };
  EXPECT_THROW((void)model->generate(kPrompt, {.max_new_tokens = 4}, {.stream_tokens = stop}),
               UsageError);
  EXPECT_EQ(model->generate(kPrompt, {.max_new_tokens = 4}).size(1), 7);
}

TEST(Generate, RefusesWhatMakesNoSense) {
  const auto model = decoder();
  const auto said = [&](const GenerationConfig& config, const GenerateOptions& options = {}) {
    return message_of<UsageError>([&] { (void)model->generate(kPrompt, config, options); });
  };
  expect_has(said({.max_length = 3}), "the prompt has 3 tokens, and max_length is 3");
  expect_has(said({.max_new_tokens = 0}), "max_new_tokens is 0; allowed are 1 or more");
  expect_has(said({.do_sample = true, .temperature = 0}), "temperature");
  expect_has(said({.do_sample = true, .temperature = -1}), "temperature");
  expect_has(said({.do_sample = true, .top_p = 1.5}), "top_p is 1.5");
  expect_has(said({.do_sample = true, .top_k = -1}), "top_k is -1");
  expect_has(said({.repetition_penalty = 0}), "repetition_penalty");
  expect_has(said({.num_beams = 0}), "num_beams is 0");
  expect_has(said({.num_return_sequences = 2}), "set do_sample or num_beams");
  expect_has(said({.num_beams = 2, .num_return_sequences = 3}), "raise num_beams");
  expect_has(said({.stop_strings = {{"a"}}}), "no tokenizer");
  expect_has(said({.num_beams = 2}, {.stream_tokens = [](const at::Tensor&) {}}), "beam search");
  expect_has(said({}, {.stream_text = [](std::string_view) {}}), "no tokenizer");
  const auto of = [&](const Inputs& inputs) {
    return message_of<UsageError>([&] { (void)model->generate(inputs); });
  };
  expect_has(of({}), "no input_ids");
  expect_has(of({{"input_ids", at::ones({3}, at::kLong)}}), "input_ids are [3]");
  expect_has(of({{"input_ids", at::ones({1, 3}, at::kLong) * 30}}), "input_ids has 30");
  expect_has(of({{"input_ids", kPrompt["input_ids"]}, {"labels", kPrompt["input_ids"]}}), "labels");
  expect_has(of({{"input_ids", kPrompt["input_ids"]}, {"attention_mask", at::ones({1, 3})}}),
             "shape");
  expect_has(message_of<UsageError>(
                 [&] { (void)decoder("gpt2")->generate(kPrompt, {.max_new_tokens = 12}); }),
             "more than the model has positions for: there are 12");
  const auto encoder = AutoModel::from_config(testing::small_bert_config());
  expect_has(message_of<UsageError>([&] { (void)encoder->generate(kPrompt); }),
             "AutoModelForCausalLM");
}

TEST(Generate, RefusesKeysOfAModelThatWouldChangeWhatComes) {
  const auto model = decoder();
  model->set_generation_config(
      PretrainedConfig::from_json(R"({"min_p": 0.1})", "generation_config.json"));
  expect_has(message_of<ConfigError>([&] { (void)model->generate(kPrompt); }), "'min_p' is 0.1");
  model->set_generation_config(
      PretrainedConfig::from_json(R"({"early_stopping": "maybe"})", "generation_config.json"));
  expect_has(message_of<ConfigError>([&] { (void)model->generate(kPrompt); }),
             "early_stopping is 'maybe'; allowed are true, false and 'never'");
  model->set_generation_config(PretrainedConfig::from_json(
      R"({"no_repeat_ngram_size": 0, "typical_p": 1.0, "max_new_tokens": 2})", "g.json"));
  EXPECT_EQ(model->generate(kPrompt).size(1), 5);
}

TEST(Generate, ReadsAndWritesWhatTheFolderSays) {
  const testing::TemporaryFolder folder, again;
  decoder()->save_pretrained(folder.path());
  folder.write("generation_config.json", R"({"max_new_tokens": 4, "eos_token_id": [7, 8]})");
  const auto model = AutoModelForCausalLM::from_pretrained(folder.path().string());
  EXPECT_LE(model->generate(kPrompt).size(1), 7);
  model->save_pretrained(again.path());
  EXPECT_EQ(PretrainedConfig::from_pretrained(again.path().string(), {}, "generation_config.json")
                .get<std::int64_t>("max_new_tokens"),
            4);
}

// Steps of its own, outside of the forwards in which ranks bring weights together.
TEST(Generate, GoesOnWhileTheModelIsSharded) {
  const auto whole = decoder()->generate(kPrompt, {.max_new_tokens = 6});
  const auto start = decoder();
  std::mutex turn;
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    AcceleratorOptions options;
    options.communicator = comm;
    options.fsdp_plugin = FullyShardedDataParallelPlugin{};
    options.fsdp_plugin->auto_wrap_policy = AutoWrapPolicy::TRANSFORMER_BASED_WRAP;
    Accelerator accelerator(options);
    std::shared_ptr<PreTrainedModel> net;
    {
      const std::lock_guard lock(turn);  // LibTorch's generator is shared by threads.
      net = decoder();
    }
    auto model = accelerator.prepare(net);
    const auto whole_weights = model.summon_full_params();
    const auto found = accelerator.unwrap_model(model)->generate(kPrompt, {.max_new_tokens = 6});
    EXPECT_TRUE(found.equal(whole)) << comm->rank();
  });
}

}  // namespace
}  // namespace accelerate
