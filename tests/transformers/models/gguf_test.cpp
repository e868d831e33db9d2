// Models of GGUF files, beside what tests/reference/gguf_live.py compares with Transformers.
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "accelerate/transformers/models/auto_model.h"
#include "tests/formats/gguf_support.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::expect_has;
using testing::GgufBuilder;
using testing::message_of;

constexpr int kHidden = 8, kInner = 12, kWords = 10;

std::string numbers(std::uint64_t count) {
  std::string bytes;
  for (std::uint64_t i = 0; i < count; ++i)
    bytes += testing::float_bytes(static_cast<float>(i % 17) / 16 - 0.5F);
  return bytes;
}

void add_matrix(GgufBuilder& file, const std::string& name, std::uint64_t columns,
                std::uint64_t rows) {
  file.add_tensor(name, {columns, rows}, 0, numbers(columns * rows));
}

// What differs from a sound file.
struct Change {
  std::string architecture = "llama", name = "a model";
  std::uint32_t heads = 2;
  std::uint64_t query_rows = kHidden;
  std::uint32_t layers = 1;
};

std::string llama_file(const Change& change = {}) {
  GgufBuilder file;
  file.add_text("general.architecture", change.architecture).add_text("general.name", change.name);
  file.add_u32("llama.block_count", change.layers).add_u32("llama.embedding_length", kHidden);
  file.add_u32("llama.feed_forward_length", kInner).add_u32("llama.context_length", 16);
  file.add_u32("llama.attention.head_count", change.heads);
  file.add_u32("llama.attention.head_count_kv", 1).add_u32("llama.vocab_size", kWords);
  file.add_u32("llama.rope.dimension_count", kHidden / 2);
  add_matrix(file, "token_embd.weight", kHidden, kWords);
  add_matrix(file, "blk.0.attn_q.weight", kHidden, change.query_rows);
  for (const char* name : {"blk.0.attn_k.weight", "blk.0.attn_v.weight"})
    add_matrix(file, name, kHidden, kHidden / 2);
  add_matrix(file, "blk.0.attn_output.weight", kHidden, kHidden);
  for (const char* name : {"blk.0.ffn_gate.weight", "blk.0.ffn_up.weight"})
    add_matrix(file, name, kHidden, kInner);
  add_matrix(file, "blk.0.ffn_down.weight", kInner, kHidden);
  for (const char* name : {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"})
    file.add_tensor(name, {kHidden}, 0, numbers(kHidden));
  return file.file();
}

class GgufModel : public ::testing::Test {
 protected:
  void write(const std::string& text) const { folder_.write("m.gguf", text); }
  [[nodiscard]] std::shared_ptr<PreTrainedModel> open() const {
    return AutoModelForCausalLM::from_pretrained(folder_.path().string(), {.gguf_file = "m.gguf"});
  }
  template <typename E>
  [[nodiscard]] std::string refusal() const {
    return message_of<E>([&] { (void)open(); });
  }
  testing::TemporaryFolder folder_;
};

TEST_F(GgufModel, ComputesAndIsWrittenAsAnyOther) {
  write(llama_file());
  const auto model = open();
  const Inputs inputs{{"input_ids", at::arange(6).view({2, 3})}};
  const at::Tensor logits = model->forward(inputs).logits;
  const testing::TemporaryFolder out;
  model->save_pretrained(out.path());
  const auto again = AutoModelForCausalLM::from_pretrained(out.path().string());
  EXPECT_TRUE(again->forward(inputs).logits.equal(logits));
  EXPECT_EQ(again->config().get<bool>("tie_word_embeddings"), true);
}

TEST_F(GgufModel, ChangingItLeavesTheFile) {
  write(llama_file());
  {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : open()->parameters()) parameter.zero_();
  }
  EXPECT_GT(open()->parameters()[0].abs().sum().item<double>(), 1);
}

TEST_F(GgufModel, AModelNamedMistralIsOne) {
  write(llama_file({.name = "mistral"}));
  EXPECT_EQ(open()->config().model_type(), "mistral");
}

TEST_F(GgufModel, RefusesWhatDoesNotFit) {
  EXPECT_THROW((void)open(), CheckpointError);  // There is no file.
  write(llama_file({.architecture = "mamba"}));
  expect_has(refusal<ConfigError>(),
             "'mamba'; those that are read are llama, qwen2, qwen3, phi3, gemma2, gemma3, gpt2");
  write(llama_file({.name = "a model \xff"}));  // Which config.json could not hold.
  expect_has(refusal<CheckpointError>(), "'general.name' is not UTF-8");
  write(llama_file({.layers = 65537}));
  expect_has(refusal<CheckpointError>(), "it promises 65537 layers and has ");
  write(llama_file({.heads = 3}));
  expect_has(refusal<CheckpointError>(), "'blk.0.attn_q.weight' has rows that do not divide");
  write(llama_file({.query_rows = 2 * kHidden}));
  expect_has(refusal<CheckpointError>(), "model.layers.0.self_attn.q_proj.weight");
  const std::string whole = llama_file();
  write(whole.substr(0, whole.size() - 100));
  expect_has(refusal<CheckpointError>(), "cut short");
}

}  // namespace
}  // namespace accelerate
