// Small models with random weights, for tests.
#pragma once

#include <ATen/Context.h>

#include <filesystem>
#include <map>
#include <string>

#include "accelerate/transformers/models/auto_model.h"

namespace accelerate::testing {

inline PretrainedConfig small_bert_config() {
  return PretrainedConfig::from_json(
      R"({"model_type": "bert", "vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2,
          "num_attention_heads": 2, "intermediate_size": 20, "max_position_embeddings": 12,
          "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "pad_token_id": 0,
          "a_key_of_tomorrow": {"x": [1, 2.5, null]}})",
      "config.json");
}

inline PretrainedConfig small_llama_config() {
  return PretrainedConfig::from_json(
      R"({"model_type": "llama", "vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 20,
          "max_position_embeddings": 32, "tie_word_embeddings": true, "pad_token_id": 0})",
      "config.json");
}

/// The architectures of small_config().
inline constexpr const char* kSmallKinds[] = {"bert",  "roberta", "distilbert", "gpt2",
                                              "llama", "mistral", "qwen2"};

/// A model of `kind` with a vocabulary of 30, without dropout, whose padding token is 0.
inline PretrainedConfig small_config(const std::string& kind) {
  PretrainedConfig config = small_bert_config();
  if (kind == "llama" || kind == "mistral" || kind == "qwen2") config = small_llama_config();
  if (kind == "distilbert" || kind == "gpt2") {
    config = PretrainedConfig::from_json(
        kind == "gpt2" ? R"({"vocab_size": 30, "n_embd": 16, "n_layer": 2, "n_head": 2,
                             "n_positions": 12, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
                             "attn_pdrop": 0.0, "model_type": "gpt2", "pad_token_id": 0})"
                       : R"({"vocab_size": 30, "dim": 16, "n_layers": 2, "n_heads": 2,
                             "hidden_dim": 20, "max_position_embeddings": 12, "dropout": 0.0,
                             "attention_dropout": 0.0, "seq_classif_dropout": 0.0,
                             "model_type": "distilbert", "pad_token_id": 0})",
        "config.json");
  }
  config.set("model_type", kind);
  return config;
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
      {"multiple_choice", multiple_choice}};
  return kTasks.at(name);
}

/// A bare BERT, written into `folder`.
inline void write_small_bert(const std::filesystem::path& folder) {
  at::manual_seed(3);
  AutoModel::from_config(small_bert_config())->save_pretrained(folder);
}

}  // namespace accelerate::testing
