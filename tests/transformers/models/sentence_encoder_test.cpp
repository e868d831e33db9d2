// Vectors of texts. tests/reference/sentences_live.py compares with sentence-transformers' formulas in
// Python; here are rules that need no Python.
#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "accelerate/transformers/models/sentence_encoder.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/support/support.h"
#include "tests/transformers/models/small_models.h"

namespace accelerate {
namespace {

using testing::expect_has;
using testing::message_of;

const at::Tensor kStates = at::arange(12, at::kFloat).view({2, 3, 2});
const at::Tensor kCounted = at::tensor({1L, 1L, 0L, 1L, 1L, 1L}).view({2, 3});

at::Tensor pooled(SentencePooling pooling, bool normalizes = false) {
  return sentence_embeddings(kStates, kCounted, {.pooling = pooling, .normalizes = normalizes});
}

TEST(SentenceEmbeddings, ReadTheTokensThatTheMaskKeeps) {
  using enum SentencePooling;
  EXPECT_TRUE(pooled(cls).equal(at::tensor({0.F, 1.F, 6.F, 7.F}).view({2, 2})));
  EXPECT_TRUE(pooled(mean).equal(at::tensor({1.F, 2.F, 8.F, 9.F}).view({2, 2})));
  EXPECT_TRUE(pooled(max).equal(at::tensor({2.F, 3.F, 10.F, 11.F}).view({2, 2})));
  EXPECT_TRUE(pooled(mean, true).norm(2, 1).allclose(at::ones({2})));
  EXPECT_TRUE(sentence_embeddings(kStates, {}).equal(kStates.mean(1)));
}

TEST(SentenceEmbeddings, ARowWithoutTokensHasZeros) {
  EXPECT_TRUE(sentence_embeddings(kStates, at::zeros({2, 3}), {.normalizes = true})
                  .equal(at::zeros({2, 2})));
}

TEST(SentenceEmbeddings, HaveGradientsAndFp32) {
  const at::Tensor states = kStates.to(at::kBFloat16).requires_grad_();
  const at::Tensor vectors = sentence_embeddings(states, kCounted);
  EXPECT_EQ(vectors.scalar_type(), at::kFloat);
  vectors.sum().backward();
  EXPECT_EQ(states.grad()[0][2].abs().sum().item<float>(), 0);
  EXPECT_EQ(states.grad()[0][1][0].item<float>(), 0.5F);
}

TEST(SentenceEmbeddings, RefuseOtherShapes) {
  expect_has(message_of<UsageError>([] { (void)sentence_embeddings(kStates[0], {}); }),
             "has 2 dimensions; allowed are three");
  expect_has(message_of<UsageError>([] { (void)sentence_embeddings(kStates, kCounted[0]); }),
             "the attention mask has not the rows and tokens");
}

// A bare BERT with a vocabulary of words, as sentence-transformers lays out a folder.
class SentenceFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_small_bert(folder_.path());
    folder_.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\nd\ne\nf\n");
    folder_.write("tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})");
  }
  void write_modules(const std::string& pooling, const std::string& last = "Normalize") {
    folder_.write(
        "modules.json",
        R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_X", "type": "sentence_transformers.models.)" +
            last + "\"}]");
    std::filesystem::create_directories(folder_.path() / "1_Pooling");
    folder_.write("1_Pooling/config.json", pooling);
  }
  [[nodiscard]] SentenceEncoder open() const {
    return SentenceEncoder::from_pretrained(folder_.path().string());
  }
  void expect_refused(const std::string& says) const {
    expect_has(message_of<ConfigError>([&] { (void)open(); }), says);
  }

  const testing::TemporaryFolder folder_;
};

const std::vector<std::string> kTexts{"a b c", "d", "a b c d e f", "f e", "b"};

TEST_F(SentenceFolder, TextsHaveTheSameVectorsInEveryBatch) {
  const auto encoder = open();
  encoder.model()->train();
  const at::Tensor together = encoder.encode(kTexts);
  EXPECT_TRUE(encoder.model()->is_training());
  EXPECT_EQ(together.sizes(), at::IntArrayRef({5, 16}));
  EXPECT_FALSE(together.requires_grad());
  for (std::size_t i = 0; i < kTexts.size(); ++i)
    EXPECT_TRUE(together[static_cast<std::int64_t>(i)].allclose(encoder.encode({kTexts[i]})[0],
                                                                1e-4, 1e-5));
  EXPECT_TRUE(together.allclose(encoder.encode(kTexts, 2), 1e-4, 1e-5));
}

TEST_F(SentenceFolder, ModulesSayHowToPool) {
  EXPECT_EQ(open().options().pooling, SentencePooling::mean);
  EXPECT_FALSE(open().options().normalizes);
  write_modules(R"({"embedding_dimension": 16, "pooling_mode": "max"})");
  EXPECT_EQ(open().options().pooling, SentencePooling::max);
  write_modules(R"({"word_embedding_dimension": 16, "pooling_mode_cls_token": true,
                    "pooling_mode_mean_tokens": false})");
  folder_.write("sentence_bert_config.json", R"({"max_seq_length": 5, "do_lower_case": false})");
  const auto encoder = open();
  EXPECT_EQ(encoder.options().pooling, SentencePooling::cls);
  EXPECT_TRUE(encoder.options().normalizes);
  EXPECT_EQ(encoder.options().max_length, 5U);
  EXPECT_TRUE(encoder.encode(kTexts).norm(2, 1).allclose(at::ones({5})));
  EXPECT_TRUE(encoder.encode({"a b c d e f"}).allclose(encoder.encode({"a b c"}), 1e-4, 1e-5));
}

TEST_F(SentenceFolder, RefusesWhatItDoesNotCompute) {
  write_modules(R"({"pooling_mode_mean_tokens": true})", "Dense");
  expect_refused("'sentence_transformers.models.Dense'; allowed are Transformer, Pooling and");
  write_modules(R"({"pooling_mode_lasttoken": true})");
  expect_refused("'pooling_mode_lasttoken' is ");
  write_modules(R"({"pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true})");
  expect_refused("'pooling_mode_max_tokens' is ");
  for (const char* mode : {R"("lasttoken")", R"(["cls", "mean"])", "3"}) {
    write_modules(std::string(R"({"pooling_mode": )") + mode + "}");
    expect_refused("'pooling_mode' is ");
  }
  write_modules(R"({"pooling_mode_mean_tokens": true})");
  folder_.write("sentence_bert_config.json", R"({"max_seq_length": 0})");
  expect_refused("'max_seq_length' is ");
  folder_.write("sentence_bert_config.json", R"({"do_lower_case": true})");
  expect_refused("'do_lower_case' is ");
}

TEST_F(SentenceFolder, RefusesNoTextsAndHeads) {
  const auto encoder = open();
  expect_has(message_of<UsageError>([&] { (void)encoder.encode({}); }), "there are no texts");
  expect_has(message_of<UsageError>([&] { (void)encoder.encode({"a"}, 0); }), "batch_size is 0");
  const SentenceEncoder with_head(AutoModelForMaskedLM::from_config(testing::small_bert_config()),
                                  encoder.tokenizer());
  expect_has(message_of<UsageError>([&] { (void)with_head.encode({"a"}); }), "has a head");
}

}  // namespace
}  // namespace accelerate
