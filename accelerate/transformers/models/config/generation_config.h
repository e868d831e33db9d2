// How a model continues text: generation_config.json, and what a call of generate() says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/transformers/models/config/pretrained_config.h"

namespace accelerate {

/// When a beam search ends. true: with as many finished beams as it keeps. false: when a better
/// beam is unlikely. "never": only when there cannot be a better beam.
class EarlyStopping {
 public:
  enum class Kind : std::uint8_t { no, yes, never };
  EarlyStopping(bool stops) : kind_(stops ? Kind::yes : Kind::no) {}
  EarlyStopping(Kind kind) : kind_(kind) {}
  /// `word`: "never". Throws ConfigError for another word.
  EarlyStopping(const char* word);
  [[nodiscard]] Kind kind() const { return kind_; }
  friend bool operator==(EarlyStopping, EarlyStopping) = default;

 private:
  Kind kind_;
};

/// Fields have the names, meanings and defaults of Transformers' GenerationConfig. A field that is
/// not set comes from the model, or else has its default.
struct GenerationConfig {
  /// The most tokens of a row, its prompt included. If neither this nor max_new_tokens is set, 20
  /// tokens are added.
  std::optional<std::int64_t> max_length = {};
  std::optional<std::int64_t> max_new_tokens = {};
  /// A row that is shorter does not end.
  std::optional<std::int64_t> min_length = {};
  std::optional<std::int64_t> min_new_tokens = {};
  /// Draws tokens, from LibTorch's generator, instead of taking the likeliest. Default: false.
  std::optional<bool> do_sample = {};
  /// More than one: a beam search. Default: 1.
  std::optional<std::int64_t> num_beams = {};
  /// The number of rows for each row of the prompt. Default: 1.
  std::optional<std::int64_t> num_return_sequences = {};
  /// For sampling: scores are divided by it. Default: 1.
  std::optional<double> temperature = {};
  /// For sampling: only this many of the likeliest tokens are drawn from; 0: all. Default: 50.
  std::optional<std::int64_t> top_k = {};
  /// For sampling: only the likeliest tokens that together have this probability are drawn from.
  /// Default: 1.
  std::optional<double> top_p = {};
  /// Above 1: tokens that are there already become less likely. Default: 1.
  std::optional<double> repetition_penalty = {};
  /// Above 0: so many tokens in a row do not come twice. Default: 0.
  std::optional<std::int64_t> no_repeat_ngram_size = {};
  /// For beam search: a row's score is divided by its length to this power. Default: 1.
  std::optional<double> length_penalty = {};
  std::optional<EarlyStopping> early_stopping = {};
  /// A row ends after one of these texts.
  std::optional<std::vector<std::string>> stop_strings = {};
  /// A row ends after one of these tokens.
  std::optional<std::vector<std::int64_t>> eos_token_id = {};
  /// The token that fills up rows that have ended. Default: the first eos_token_id.
  std::optional<std::int64_t> pad_token_id = {};
  /// The second token of each row.
  std::optional<std::int64_t> forced_bos_token_id = {};
  /// The last token, one of these, of rows that reach max_length.
  std::optional<std::vector<std::int64_t>> forced_eos_token_id = {};
  /// The first token that an encoder-decoder model reads; bos_token_id if it is not set.
  std::optional<std::int64_t> decoder_start_token_id = {};
  std::optional<std::int64_t> bos_token_id = {};
  /// Whether keys and values of earlier tokens are kept. Default: true.
  std::optional<bool> use_cache = {};

  /// Calls `visit` with each field's name in JSON and the field, as a pointer to a member.
  template <typename Visit>
  static void visit(const Visit& visit) {
    visit("max_length", &GenerationConfig::max_length);
    visit("max_new_tokens", &GenerationConfig::max_new_tokens);
    visit("min_length", &GenerationConfig::min_length);
    visit("min_new_tokens", &GenerationConfig::min_new_tokens);
    visit("do_sample", &GenerationConfig::do_sample);
    visit("num_beams", &GenerationConfig::num_beams);
    visit("num_return_sequences", &GenerationConfig::num_return_sequences);
    visit("temperature", &GenerationConfig::temperature);
    visit("top_k", &GenerationConfig::top_k);
    visit("top_p", &GenerationConfig::top_p);
    visit("repetition_penalty", &GenerationConfig::repetition_penalty);
    visit("no_repeat_ngram_size", &GenerationConfig::no_repeat_ngram_size);
    visit("length_penalty", &GenerationConfig::length_penalty);
    visit("early_stopping", &GenerationConfig::early_stopping);
    visit("stop_strings", &GenerationConfig::stop_strings);
    visit("eos_token_id", &GenerationConfig::eos_token_id);
    visit("pad_token_id", &GenerationConfig::pad_token_id);
    visit("forced_bos_token_id", &GenerationConfig::forced_bos_token_id);
    visit("forced_eos_token_id", &GenerationConfig::forced_eos_token_id);
    visit("decoder_start_token_id", &GenerationConfig::decoder_start_token_id);
    visit("bos_token_id", &GenerationConfig::bos_token_id);
    visit("use_cache", &GenerationConfig::use_cache);
  }

  /// Reads a generation_config.json, or else a config.json. Throws ConfigError for a value of
  /// another type, and for a key that would change what is generated but is not supported.
  [[nodiscard]] static GenerationConfig of(const PretrainedConfig& values);
  /// Returns a copy that takes the fields that are not set from `other`.
  [[nodiscard]] GenerationConfig or_else(const GenerationConfig& other) const;
};

}  // namespace accelerate
