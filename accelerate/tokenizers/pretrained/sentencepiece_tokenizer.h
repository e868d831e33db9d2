// Makes a tokenizer.json of a SentencePiece model.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "accelerate/tokenizers/pretrained/sentencepiece_model.h"
#include "accelerate/tokenizers/pretrained/tokenizer_config.h"

namespace accelerate::detail {

/// Makes a tokenizer.json of `model` as the class named in `config` does; without a known class, as
/// SentencePiece itself reads the model. `file` stands for the model in messages. Throws
/// ConfigError for the algorithms word and character.
[[nodiscard]] nlohmann::json tokenizer_of_sentencepiece(SentencePieceModel model,
                                                        const TokenizerConfig& config,
                                                        const std::string& file);

/// Returns a post-processor that adds the tokens that `add_bos_token` and `add_eos_token` of
/// `config` ask for.
[[nodiscard]] nlohmann::json template_of(
    const TokenizerConfig& config, const std::function<nlohmann::json(const std::string&)>& id_of);

}  // namespace accelerate::detail
