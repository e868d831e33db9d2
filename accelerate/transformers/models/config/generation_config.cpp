#include "accelerate/transformers/models/config/generation_config.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

// A key that would change what is generated but is not supported. `neutral` is the value with which
// it does nothing, besides null, false and 0.
struct Unbuilt {
  std::string_view key;
  std::string_view neutral = "";
};

constexpr std::array kUnbuilt{
    Unbuilt{"bad_words_ids"},
    Unbuilt{"begin_suppress_tokens"},
    Unbuilt{"diversity_penalty"},
    Unbuilt{"encoder_no_repeat_ngram_size"},
    Unbuilt{"encoder_repetition_penalty", "1"},
    Unbuilt{"epsilon_cutoff"},
    Unbuilt{"eta_cutoff"},
    Unbuilt{"exponential_decay_length_penalty"},
    Unbuilt{"guidance_scale", "1"},
    Unbuilt{"max_time"},
    Unbuilt{"min_p"},
    Unbuilt{"num_beam_groups", "1"},
    Unbuilt{"penalty_alpha"},
    Unbuilt{"remove_invalid_values"},
    Unbuilt{"renormalize_logits"},
    Unbuilt{"sequence_bias"},
    Unbuilt{"suppress_tokens"},
    Unbuilt{"token_healing"},
    Unbuilt{"top_h"},
    Unbuilt{"typical_p", "1"},
    Unbuilt{"watermarking_config"},
};

bool does_nothing(const Unbuilt& unbuilt, std::string_view text) {
  if (text.ends_with(".0")) text.remove_suffix(2);
  return text == "null" || text == "false" || text == "0" || text == unbuilt.neutral;
}

template <typename T>
void read(const PretrainedConfig& values, std::string_view key, std::optional<T>& field) {
  field = values.get<T>(key);
}

void read(const PretrainedConfig& values, std::string_view key,
          std::optional<EarlyStopping>& field) {
  if (values.json_of(key).starts_with('"')) {
    field = EarlyStopping(values.get<std::string>(key)->c_str());
  } else if (const auto stops = values.get<bool>(key)) {
    field = *stops;
  }
}

void read(const PretrainedConfig& values, std::string_view key,
          std::optional<std::vector<std::string>>& field) {
  if (values.json_of(key).starts_with('"')) {
    field = {*values.get<std::string>(key)};
  } else {
    field = values.get<std::vector<std::string>>(key);
  }
}

void read(const PretrainedConfig& values, std::string_view key,
          std::optional<std::vector<std::int64_t>>& field) {
  if (values.json_of(key).starts_with('[')) {
    field = values.get<std::vector<std::int64_t>>(key);
  } else if (const auto one = values.get<std::int64_t>(key)) {
    field = {*one};
  }
}

}  // namespace

EarlyStopping::EarlyStopping(const char* word) : kind_(Kind::never) {
  if (std::string_view(word) != "never")
    throw ConfigError("early_stopping is '" + std::string(word) +
                      "'; allowed are true, false and 'never'");
}

GenerationConfig GenerationConfig::of(const PretrainedConfig& values) {
  for (const Unbuilt& unbuilt : kUnbuilt) {
    const std::string text = values.json_of(unbuilt.key);
    if (!does_nothing(unbuilt, text))
      throw ConfigError(
          values.name() + ": '" + std::string(unbuilt.key) + "' is " + text +
          ", which generate() does not know. Take the key out to generate without it");
  }
  GenerationConfig config;
  visit([&](std::string_view key, auto field) { read(values, key, config.*field); });
  return config;
}

GenerationConfig GenerationConfig::or_else(const GenerationConfig& other) const {
  GenerationConfig merged = *this;
  visit([&](std::string_view, auto field) {
    if (!(merged.*field)) merged.*field = other.*field;
  });
  return merged;
}

}  // namespace accelerate
