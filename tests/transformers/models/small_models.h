// Small models with random weights, for tests.
#pragma once

#include <ATen/Context.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "accelerate/transformers/models/auto_model.h"

namespace accelerate::testing {

/// A model for the tests that go through all architectures.
struct SmallModel {
  const char* kind;  ///< Its model_type.
  /// The rest of its config.json: a vocabulary of 30, two layers of 16 numbers a token, no dropout,
  /// 0 for padding.
  const char* config;
  std::int64_t first_position = 0;
};

// clang-format off
inline constexpr const char* kBertLike = R"("vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20,
    "max_position_embeddings": 12, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "pad_token_id": 0,
    "a_key_of_tomorrow": {"x": [1, 2.5, null]})";
inline constexpr const char* kLlamaLike = R"("vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 20, "max_position_embeddings": 32, "tie_word_embeddings": true, "pad_token_id": 0)";

inline constexpr const char* kQwen3 = R"("vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 4, "intermediate_size": 20, "max_position_embeddings": 32, "tie_word_embeddings": true, "pad_token_id": 0)";

inline constexpr const char* kGemma = R"("vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 4, "intermediate_size": 20, "max_position_embeddings": 32, "sliding_window": 4, "attn_logit_softcapping": 2.0, "pad_token_id": 0)";

/// One row for each architecture.
inline constexpr SmallModel kSmallModels[] = {
    {"bert", kBertLike},
    {"roberta", kBertLike, /*first_position=*/1},  // Behind the padding token.
    {"xlm-roberta", kBertLike, /*first_position=*/1},
    {"camembert", kBertLike, /*first_position=*/1},
    {"electra", R"("embedding_size": 8, "vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20,
                   "max_position_embeddings": 12, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "summary_last_dropout": 0.0,
                   "pad_token_id": 0)"},
    {"distilbert", R"("vocab_size": 30, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 20, "max_position_embeddings": 12, "dropout": 0.0,
                      "attention_dropout": 0.0, "seq_classif_dropout": 0.0, "pad_token_id": 0)"},
    {"gpt2", R"("vocab_size": 30, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 12, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
                "pad_token_id": 0)"},
    {"llama", kLlamaLike},
    {"mistral", kLlamaLike},
    {"qwen2", kLlamaLike},
    {"qwen3", kQwen3},
    {"smollm3", kLlamaLike},
    {"olmo2", kLlamaLike},
    {"granite", R"("vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 20,
                   "max_position_embeddings": 32, "tie_word_embeddings": true, "pad_token_id": 0, "embedding_multiplier": 3.0, "residual_multiplier": 0.5,
                   "attention_multiplier": 0.25, "logits_scaling": 2.0)"},
    {"phi3", kLlamaLike},
    {"deberta-v2", R"("vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20,
                      "max_position_embeddings": 12, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "relative_attention": true,
                      "position_buckets": 4, "norm_rel_ebd": "layer_norm", "share_att_key": true, "pos_att_type": "p2c|c2p", "pad_token_id": 0)"},
    {"albert", R"("embedding_size": 8, "vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 3, "num_hidden_groups": 2, "num_attention_heads": 2,
                  "intermediate_size": 20, "max_position_embeddings": 12, "classifier_dropout_prob": 0.0, "pad_token_id": 0)"},
    {"mpnet", kBertLike, /*first_position=*/2},
    {"modernbert", R"("vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20,
                      "local_attention": 4, "initializer_range": 0.3, "max_position_embeddings": 32, "pad_token_id": 0)"},
    {"gemma2", kGemma},
    {"gemma3_text", kGemma},
};

/// One row for each encoder-decoder architecture, which tests of other models do not go through.
inline constexpr SmallModel kSmallSeq2Seq[] = {
    {"t5", R"("vocab_size": 30, "d_model": 16, "d_kv": 4, "d_ff": 20, "num_layers": 2, "num_heads": 2, "relative_attention_num_buckets": 8,
              "relative_attention_max_distance": 12, "dropout_rate": 0.0, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0)"},
    {"bart", R"("vocab_size": 30, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
                "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "max_position_embeddings": 12, "dropout": 0.0, "pad_token_id": 1)"},
};
// clang-format on

inline std::vector<const char*> small_kinds() {
  std::vector<const char*> kinds;
  for (const SmallModel& model : kSmallModels) kinds.push_back(model.kind);
  return kinds;
}

/// Whether the architecture has a class for `task`.
inline bool has_task(const std::string& kind, Task task) {
  return std::ranges::count(known_model_types(task), kind) > 0;
}

/// The kinds that have a class for `task`.
inline std::vector<const char*> small_kinds(Task task) {
  std::vector<const char*> kinds = small_kinds();
  std::erase_if(kinds, [&](const char* kind) { return !has_task(kind, task); });
  return kinds;
}

/// The kind in letters that a test's name may have.
inline std::string name_of(std::string kind) {
  std::ranges::replace(kind, '-', '_');
  return kind;
}

inline const SmallModel& small_model(const std::string& kind) {
  const auto* found = std::ranges::find(kSmallModels, kind, &SmallModel::kind);
  return found != std::end(kSmallModels)
             ? *found
             : *std::ranges::find(kSmallSeq2Seq, kind, &SmallModel::kind);
}

inline PretrainedConfig small_config(const std::string& kind) {
  const std::string text = R"({"model_type": ")" + kind + "\", " + small_model(kind).config + "}";
  return PretrainedConfig::from_json(text, "config.json");
}

inline PretrainedConfig small_bert_config() {
  return small_config("bert");
}

/// The task that scripts of tests/reference call so.
inline Task task_of(const std::string& name) {
  using enum Task;
  static const std::map<std::string, Task> kTasks{
      {"base", base},
      {"sequence_classification", sequence_classification},
      {"token_classification", token_classification},
      {"question_answering", question_answering},
      {"masked_lm", masked_lm},
      {"causal_lm", causal_lm},
      {"multiple_choice", multiple_choice},
      {"seq2seq_lm", seq2seq_lm}};
  return kTasks.at(name);
}

/// A bare BERT, written into `folder`.
inline void write_small_bert(const std::filesystem::path& folder) {
  at::manual_seed(3);
  AutoModel::from_config(small_bert_config())->save_pretrained(folder);
}

}  // namespace accelerate::testing
